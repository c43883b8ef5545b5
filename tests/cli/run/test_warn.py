"""``run --warn``: what is said of mistakes, and what they do to the exit status."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MISUSE = ("--core", "cortex-x4", "--el", "2")


def test_mistakes_are_said_when_they_happen_and_counted_at_the_end(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    said = command("run", "--warn", "misuse", *MISUSE, firmware("spe_misuse")).stderr
    at_once, _, at_the_end = said.partition("spe-unicorn: exit status 0\n")
    place = re.compile(
        r"^spe-unicorn: misuse: ([a-z-]+) at"
        r" (0x\w+ <\w+(?:\+\w+)? \(\w+\.\w+:\d+\)> EL\d), operation \d+$"
    )
    found = [m.groups() for m in map(place.match, at_once.splitlines()) if m]
    assert ("read-not-synchronized", "read_not_synchronized") in [
        (name, where.split("<")[1].split("+")[0]) for name, where in found
    ]
    assert f"  misuses of SPE: {len(found)}\n" in at_the_end
    for name, where in found:
        assert re.search(rf"^    {name} at {re.escape(where)}, (once|2 times)$", at_the_end, re.M)


def test_a_mistake_says_what_was_written_the_rule_and_what_to_do(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    said = command("run", "-q", "--warn", "misuse", firmware("spe_misuse")).stderr
    assert re.search(
        r"^spe-unicorn: misuse: setup-not-synchronized at 0x4\w+"
        r" <setup_not_synchronized\+0x\w+ \(spe_misuse\.c:\d+\)> EL1, operation \d+\n"
        r"  MSR PMSCR_EL1, 0x2 \(E1SPE 1\) enables profiling, with no ISB since the write to"
        r" PMSIRR_EL1\n"
        r"  rule: without a context synchronization event, .* \(Arm ARM D17\.9\.1, R_PVRNK;.*\)\n"
        r"  do: put an ISB before the write that enables profiling\n",
        said,
        re.MULTILINE,
    )
    assert "exit status" not in said


def test_clean_firmware_is_said_to_be_clean(
    command: Callable[..., Any], run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    assert (
        "misuses of SPE: none\n" in command("run", "--warn", "error", firmware("spe_copy")).stderr
    )
    said = run_json("run", "--warn", "error", firmware("spe_copy"))
    assert (said["misuses"], said["ending"], said["exit_status"]) == ([], "exit", 0)


def test_without_the_option_nobody_looks(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    assert run_json("run", firmware("spe_misuse"))["misuses"] is None


def test_with_error_the_run_goes_on_to_its_end_and_fails(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    warned = run_json("run", "--warn", "misuse", firmware("spe_misuse"))
    failed = run_json("run", "--warn", "error", firmware("spe_misuse"), status=3)
    places = len(failed["misuses"])
    assert (failed["ending"], failed["exit_status"]) == ("misuse", 3)
    assert failed["cause"] == f"the guest misuses SPE at {places} places, and ended with status 0"
    for key in ("misuses", "operations", "written", "pc"):
        assert failed[key] == warned[key]


def test_another_end_keeps_its_status(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    options = ("--warn", "error", "--max-insns", "30000")
    said = run_json("run", *options, firmware("spe_misuse"), status=124)
    assert said["ending"] == "limit"
    assert said["misuses"]


def test_the_object_has_all_there_is_to_know(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    first = run_json("run", "--warn", "misuse", *MISUSE, firmware("spe_misuse"))["misuses"][0]
    assert first.pop("operation") > 0
    assert re.fullmatch("0x4[0-9a-f]+", first.pop("pc"))
    assert first.pop("symbol").startswith("enable_ignored+")
    assert re.fullmatch(r"spe_misuse\.c:\d+", first.pop("line"))
    assert first == {
        "rule": "enable-ignored",
        "el": 2,
        "cpu": 0,
        "count": 1,
        "what": "MSR PMSCR_EL2, 0x2 (E2SPE 1): E2SPE: EL1 owns the buffer",
        "text": "PMSCR_EL2.E2SPE and E0HSPE are RES0 unless EL2 owns the Profiling Buffer",
        "source": "Arm ARM D24.7, PMSCR_EL2",
        "advice": "write 0b00 to MDCR_EL2.E2PB first",
    }


@pytest.mark.parametrize("name", ["hello", "spe_misuse"])
def test_a_core_without_spe_has_nothing_to_misuse(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any], name: str
) -> None:
    core = tmp_path / "plain.toml"
    core.write_text('name = "plain"\ndescription = "no SPE"\nmidr = 0\nfeatures = ["EL2", "EL3"]\n')
    said = run_json("run", "--warn", "error", "--core", str(core), firmware(name))
    assert (said["misuses"], said["exit_status"]) == ([], 0)


def test_records_are_the_same_to_the_byte(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    files = [tmp_path / "plain.spe", tmp_path / "watched.spe"]
    command("run", "-o", str(files[0]), firmware("spe_full"))
    command("run", "-o", str(files[1]), "--warn", "misuse", firmware("spe_full"))
    assert files[0].read_bytes() == files[1].read_bytes() != b""


def test_it_stands_beside_a_trace_in_the_order_of_events(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    said = command(
        "run", "-q", "--warn", "misuse", "--trace", "sysreg", firmware("spe_misuse")
    ).stderr
    lines = said.splitlines()
    at = next(n for n, line in enumerate(lines) if "misuse: limit-unaligned" in line)
    assert " MSR PMBLIMITR_EL1, 0x" in lines[at - 1]
    assert " sysreg " in lines[at - 1]
