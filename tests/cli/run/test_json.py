from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.host.engine import known
from tests.cli.conftest import COMMAND
from tests.cli.json_keys import KEYS
from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.small_programs import CRASH, CRASH_SYMBOLS, program

COUNTS = KEYS - {
    "exit_status",
    "ending",
    "cause",
    "pc",
    "symbol",
    "misuses",
    "checks",
    "few_places",
    "trapped_accesses",
    "hidden_spe",
    "host",
    "cpus",
}
PLACE = {
    "state",
    "pc",
    "symbol",
    "line",
    "el",
    "backtrace",
    "last_exception",
    "hints",
    "no_samples",
    "few_samples",
}


def test_the_object_has_every_key_whatever_happened(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    assert set(run_json("run", firmware("hello"))) == KEYS
    assert set(run_json("run", program(tmp_path, CRASH), status=126)) == KEYS


def test_what_is_the_host_s_stands_by_itself(
    run_json: Callable[..., Any], firmware: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPE_UNICORN_INLINE", "0")
    said = run_json("run", firmware("hello"))["host"]
    assert set(said) == {"seconds", "inline"}
    off = {"on": False, "why_not": "SPE_UNICORN_INLINE=0", "blocks": 0, "refused": 0}
    assert said["inline"] == off


@pytest.mark.sweep(first=True)
@pytest.mark.skipif(known.why_not() is not None, reason="inline counting is for Linux on x86-64")
@pytest.mark.parametrize("options", [(), ("--smp", "2"), ("--secure",)])
def test_from_the_command_line_blocks_count_themselves(
    options: tuple[str, ...],
    tmp_path: Path,
    firmware: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPE_UNICORN_INLINE", raising=False)
    file = tmp_path / "run.json"
    bounds = ("--max-insns", "200000", "--json", file)
    command = [*COMMAND, "run", "-q", *options, *bounds, firmware("bench_sort")]
    # a process of its own: its memory is as a user's
    subprocess.run([*map(str, command)], check=False, stderr=subprocess.DEVNULL)
    inline = json.loads(file.read_text())["host"]["inline"]
    assert inline["on"], inline["why_not"]


def test_the_version_says_whether_blocks_count_themselves(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPE_UNICORN_INLINE", "0")
    lines = command("--version").stdout.splitlines()
    assert lines[0].startswith("spe-unicorn, version ")
    assert lines[1:] == ["inline counting: off (SPE_UNICORN_INLINE=0)"]


def test_counts_belong_together(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    output = tmp_path / "out.spe"
    said = run_json("run", "-o", str(output), firmware("spe_full"))
    assert said["bytes"] == output.stat().st_size
    dropped = said["collisions"] + said["filtered"] + said["discarded"] + said["lost"]
    assert said["selected"] == said["written"] + dropped
    assert said["written"] > 0
    assert said["operations"] > said["population"] > said["selected"]
    assert said["management_events"] == sum(said["management_events_by_kind"].values())
    assert set(said["management_events_by_kind"]) == {"full"}


def test_pmu_events_are_what_became_of_the_samples(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    said = run_json("run", firmware("spe_full"))
    events = said["pmu_events"]
    assert events["SAMPLE_POP"] == said["population"]
    assert events["SAMPLE_FEED"] == said["selected"]
    assert events["SAMPLE_FILTRATE"] == said["written"] + said["discarded"] + said["lost"]
    assert events["SAMPLE_BUFFER_FULL"] == said["management_events_by_kind"]["full"]
    assert 0 < events["SAMPLE_FEED_LD"] < events["SAMPLE_FEED"]
    assert "SAMPLE_COLLISION" not in events


def test_a_guest_that_samples_nothing_has_no_pmu_events(
    command: Callable[..., Any], run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    assert run_json("run", firmware("hello"))["pmu_events"] == {}
    assert "PMU events" not in command("run", firmware("hello")).stderr


def test_the_summary_says_the_same(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "run.json"
    said = command("run", "--json", str(file), firmware("spe_full")).stderr
    counts = json.loads(file.read_text())
    for key in ("population", "selected", "collisions", "filtered", "written", "bytes"):
        assert re.search(rf"\b(\d+) {key}\b", said)[1] == str(counts[key])
    assert f"  {counts['operations']} operations in " in said
    full = counts["management_events"]
    assert f"management events: {full} (full {full})\n" in said
    listed = ", ".join(f"{name} {count}" for name, count in counts["pmu_events"].items())
    assert f" PMU events: {listed}" in " ".join(said.split())
    assert max(map(len, said[said.index("  PMU events: ") :].splitlines())) <= 100


def test_a_failure_has_its_cause_and_place(run_json: Callable[..., Any], tmp_path: Path) -> None:
    said = run_json("run", program(tmp_path, CRASH), status=126)
    assert (said["exit_status"], said["ending"], said["pc"]) == (126, "failed", "0x40000024")
    assert "0xdead0004" in said["cause"]


def test_it_can_go_to_standard_output(firmware: Callable[..., Any]) -> None:
    result = subprocess.run(
        [*COMMAND, "run", "-q", "--json", "-", firmware("hello")],
        capture_output=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert json.loads(result.stdout)["exit_status"] == 0
    assert result.stderr == b"Hello from bare metal AArch64\n"


@pytest.mark.parametrize("options", [(), ("--smp", "3")])
def test_each_pe_has_its_counts_and_its_place(
    run_json: Callable[..., Any], tmp_path: Path, options: tuple[str, str]
) -> None:
    cpus = run_json("run", *options, program(tmp_path, CRASH, CRASH_SYMBOLS), status=126)["cpus"]
    assert len(cpus) == (3 if options else 1)
    assert all(set(cpu) == COUNTS | PLACE for cpu in cpus)
    first = {key: cpus[0][key] for key in PLACE}
    last = first.pop("last_exception")
    assert first.pop("no_samples") is None
    assert first.pop("few_samples") is None
    (hint,) = first.pop("hints")
    assert hint == "RAM ends before: give it more by --ram, or look for a wrong pointer"
    assert first == {
        "state": "running",
        "pc": "0x40000024",
        "symbol": "leaf+0x4",
        "line": None,
        "el": 1,
        "backtrace": [
            {"pc": "0x40000024", "symbol": "leaf+0x4", "line": None, "inlined": []},
            {"pc": "0x4000001c", "symbol": "main+0x8", "line": None, "inlined": []},
            {"pc": "0x40000010", "symbol": "_start+0x10", "line": None, "inlined": []},
        ],
    }
    assert last == {
        "text": "DataAbort (write, external abort) ESR 0x96000050 FAR 0xdead0004",
        "pc": "0x40000024",
        "symbol": "leaf+0x4",
        "line": None,
        "esr": "0x96000050",
        "far": "0xdead0004",
        "from_el": 1,
        "to_el": 1,
        "after": 10,
    }
    for cpu in cpus[1:]:
        assert (cpu["state"], cpu["pc"], cpu["backtrace"], cpu["operations"]) == (
            "off",
            None,
            [],
            0,
        )
