"""``spe-unicorn stat``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.names import EventError, parse_events

HELLO = str(shipped_firmware("hello"))
MIX = str(shipped_firmware("mix"))


def counts(text: str) -> dict[str, int]:
    found = re.findall(r"^ +([\d,]+) +(\S+)", text, re.M)
    return {name: int(number.replace(",", "")) for number, name in found}


def test_counts_stand_on_standard_error_and_the_console_on_standard_output(
    command: Callable[..., Any],
) -> None:
    result = command("stat", MIX)
    assert result.stdout.startswith("ok 1")
    assert f"Performance counter stats for '{MIX}'" in result.stderr
    found = counts(result.stderr)
    assert list(found) == ["cycles", "instructions", "branches"]
    assert found["cycles"] >= found["instructions"] > found["branches"] > 0
    assert "#" not in result.stderr  # a cycle is an operation: their ratio says nothing


def test_the_cycles_are_the_operations_of_the_run(
    command: Callable[..., Any], run_json: Callable[..., Any]
) -> None:
    operations = run_json("run", MIX)["operations"]
    assert counts(command("stat", "-e", "CPU_CYCLES", MIX).stderr) == {"CPU_CYCLES": operations}


def test_the_status_is_the_guests(command: Callable[..., Any]) -> None:
    command("stat", "--max-insns", "100", HELLO, status=124)


@pytest.mark.sweep
def test_levels_add_up(command: Callable[..., Any]) -> None:
    firmware = str(shipped_firmware("spe_el0"))
    found = counts(command("stat", "-e", "cycles,cycles:u,cycles:k,cycles:uk", firmware).stderr)
    assert found["cycles"] == found["cycles:uk"] == found["cycles:u"] + found["cycles:k"]
    assert found["cycles:u"] > 1000


def test_counts_are_bounded_to_contexts(command: Callable[..., Any]) -> None:
    every = counts(command("stat", "-e", "instructions", HELLO).stderr)["instructions"]
    # the program's start-up code writes 0 as its 18th instruction
    for text, bounded in (("0", every - 18), ("0x0,7", every - 18), ("7", 0)):
        result = command("stat", "-e", "instructions", "--contextid", text, HELLO)
        assert counts(result.stderr) == {"instructions": bounded}
    for text, why in (("x", "say numbers"), ("", "say numbers"), ("0x100000000", "32 bits")):
        assert why in command("stat", "--contextid", text, HELLO, status=2).stderr


def test_each_pe_has_its_counts(command: Callable[..., Any], tmp_path: Path) -> None:
    firmware = str(shipped_firmware("spe_smp"))
    file = tmp_path / "counts.json"
    result = command("stat", "-A", "--smp", "2", "--json", str(file), "-e", "cycles", firmware)
    cpus = re.findall(r"^CPU(\d) +([\d,]+)", result.stderr, re.M)
    assert [n for n, _ in cpus] == ["0", "1"]
    event = json.loads(file.read_text())["events"][0]
    assert event["cpus"] == [[int(count.replace(",", "")) for _, count in cpus]]
    assert (event["name"], event["number"]) == ("CPU_CYCLES", 0x11)


def test_runs_are_repeated_with_other_seeds(command: Callable[..., Any]) -> None:
    result = command("stat", "-r", "3", "-e", "instructions", HELLO)
    assert "(3 runs)" in result.stderr
    assert "+-" in result.stderr


def test_a_guest_that_counts_for_itself_is_not_disturbed(command: Callable[..., Any]) -> None:
    firmware = str(shipped_firmware("spe_counters"))
    assert command("stat", "-e", "branches", firmware).stdout == command("run", firmware).stdout


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ("brnches", "'brnches' is no event; near it are branches"),
        ("zzz", "'zzz' is no event"),
        ("", "'' is no event"),
        ("cycles,", "'' is no event"),
        ("cycles:x", "after the colon stand u, k and h"),
        ("cycles:", "after the colon stand u, k and h"),
        ("r10000", "'r10000' is no event"),
        ("branch-misses", "branch-misses cannot be counted: --model cache alone generates it"),
        ("rFFFF", "rFFFF cannot be counted: nothing here generates it\n"),
        ("stall_slot", "nothing here generates it; near it are STALL"),
    ],
)
def test_what_cannot_be_counted_is_one_sentence(
    command: Callable[..., Any], events: str, said: str
) -> None:
    result = command("stat", "-e", events, HELLO, status=2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_events_have_several_names() -> None:
    text = "inst_retired,Instructions,r8,0x8,INST_RETIRED:u"
    assert {event.number for event in parse_events(text, {})} == {E.INST_RETIRED}
    assert parse_events("SAMPLE_POP", {"SAMPLE_POP": 0x4000})[0].number == 0x4000
    with pytest.raises(EventError):
        parse_events("SAMPLE_POP", {})
