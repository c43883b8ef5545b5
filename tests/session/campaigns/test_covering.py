"""What the runs of a campaign have executed together."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.host.pe import covering
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.coverage.formats import read

PROGRAM = shipped_firmware("heap_blocks")
PLAN = f"""[campaign]
name = "blocks"
[[runs]]
firmware = "{PROGRAM}"
arguments = ["none"]
[[runs]]
firmware = "{PROGRAM}"
arguments = ["over"]
"""


def run(*words: str) -> str:
    result = CliRunner().invoke(main, [*words])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_campaign_covers_what_its_runs_cover(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    campaign = ("campaign", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "made"), "-j", "2")
    run(*campaign, "-q")  # without coverage
    merged = tmp_path / "merged.json"
    assert "2 runs in" in run(*campaign, "--coverage", str(merged))  # each once more
    parts = []
    for mistake in ("none", "over"):
        parts.append(str(tmp_path / f"{mistake}.json"))
        run("run", "--coverage", parts[-1], str(PROGRAM), "--", mistake)
    together = tmp_path / "together.json"
    run("coverage", *parts, "-o", str(together), "-q")
    assert json.loads(merged.read_text()) == json.loads(together.read_text())
    assert list(read(str(merged)).programs) == [os.fspath(PROGRAM)]
    shares = [read(str(path)).line_share.hit for path in (parts[0], merged)]
    assert shares[0] < shares[1]
    # nothing is run again, and the page of a service has it as well
    said = run(*campaign, "--coverage", str(tmp_path / "merged.info"))
    assert "all runs were finished" in said
    assert "heap_blocks.c" in (tmp_path / "merged.info").read_text()


FULL = "the table of coverage is full: code that ran first later is missing"


def test_a_full_table_is_told_by_each_that_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for one block. Workers are other processes: a file of one is put in its place."""
    (tmp_path / "plan.toml").write_text(PLAN)
    campaign = ("campaign", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "made"), "-j", "1")
    merged, one = tmp_path / "merged.json", tmp_path / "one.json"
    assert FULL not in run(*campaign, "--coverage", str(merged))
    monkeypatch.setattr(covering, "MOST", 1)
    assert FULL in run("run", "--coverage", str(one), str(PROGRAM))
    shutil.copyfile(one, next((tmp_path / "made").rglob("coverage.json")))
    said = run(*campaign, "--coverage", str(merged))
    assert said.count(f"spe-unicorn: coverage of a run: {FULL}\n") == 1
    assert f"spe-unicorn: {merged}: {FULL}\n" in run("coverage", str(merged))
    assert read(str(merged)).incomplete


def test_a_name_of_no_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    words = ["campaign", str(tmp_path / "plan.toml"), "-o", str(tmp_path), "--coverage", "a.txt"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "a.txt: name a file that ends in .info" in result.output
