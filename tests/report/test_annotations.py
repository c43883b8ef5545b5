"""Annotations of lines of source, in the forms that tools read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spe_unicorn.report.annotations import Annotation, gcc, github, sarif

HERE = Annotation("no-isb", "no ISB\nput one", "0x40 <f (a.c:3)> EL1", "src/a.c", 3)
NOWHERE = Annotation("exit status 1", "100% wrong", "")


def test_a_compiler_prints_file_and_line_first() -> None:
    assert gcc([HERE]) == "src/a.c:3: warning: no ISB put one [no-isb]\n"
    assert gcc([NOWHERE]) == "spe-unicorn: warning: 100% wrong [exit status 1]\n"


def test_github_reads_a_command_a_line_with_its_own_escapes() -> None:
    # docs.github.com, workflow commands: %, CR and LF in data, and : and , in properties
    assert github([HERE]) == (
        "::warning file=src/a.c,line=3,title=no-isb::no ISB%0Aput one (at 0x40 <f (a.c:3)> EL1)\n"
    )
    odd = Annotation("a:b,c", "x", "y", "d:e.c", 1)
    assert github([odd]).startswith("::warning file=d%3Ae.c,line=1,title=a%3Ab%2Cc::x")
    assert github([NOWHERE]) == "::warning title=exit status 1::100%25 wrong\n"


def test_sarif_has_each_rule_once_and_a_result_for_each_finding() -> None:
    log = json.loads(sarif([HERE, NOWHERE, HERE]))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["no-isb", "exit status 1"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 1, 0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "src/a.c"}, "region": {"startLine": 3}}
    assert "locations" not in run["results"][1]


def test_paths_below_the_working_folder_are_told_from_there_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside = HERE._replace(path=str(tmp_path / "src" / "a.c"))
    assert gcc([inside]).startswith("src/a.c:3: ")
    assert gcc([HERE._replace(path="/usr/a.c")]).startswith("/usr/a.c:3: ")
