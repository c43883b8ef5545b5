"""The verdict on a program: what counts as a finding, and what as a remark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.campaigns.noticed import Notice, Noticed
from spe_unicorn.session.doctor.verdict import verdict_of
from spe_unicorn.session.doctor.visits import Visit, checked, machines, starts

OK: dict[str, Any] = {"ending": "exit", "cause": None, "exit_status": 0, "operations": 100}
BAD = {**OK, "exit_status": 1}
LIMIT = {**OK, "ending": "limit", "exit_status": None, "operations": 5000}
CRASH = {**OK, "ending": "failed", "cause": "no vectors", "exit_status": None}
ASLEEP = {**OK, "ending": "asleep", "cause": "the guest waits", "exit_status": None}
WAITS = Notice("remark", "waits-for-input", "0x40", "somebody has to type")
MISTAKE = Notice("misuse", "no-isb", "0x40 EL1", "no ISB", "put one", 12, "a.c", 3)
REMARK = Notice("remark", "no-samples", "cpu 0", "nothing is enabled")


def visit(
    row: dict[str, Any], seed: int = 0, el: int = 1, *notices: Notice, console: str = ""
) -> Visit:
    machine = MachineOptions("a.elf", seed=seed, el=el)
    return Visit(machine, row, console, Noticed("0x80 <f>", ["a hint"], list(notices)))


def test_a_program_that_always_ends_with_0_has_no_finding() -> None:
    verdict = verdict_of([visit(OK, 0), visit(OK, 1), visit(OK, 0, 2)])
    assert (verdict.findings, verdict.remarks) == ([], [])


def test_what_one_seed_shows_is_found_and_names_its_run() -> None:
    (found,) = verdict_of([visit(OK, 0), visit(BAD, 1), visit(BAD, 2)]).findings
    assert (found.kind, found.what, found.runs) == ("end", "exit status 1", [1, 2])


def test_the_first_failed_check_names_the_finding() -> None:
    ends = [visit(OK), visit(BAD, 1, console="ok 1\nnot ok 2 - sum\nnot ok 3\n")]
    (found,) = verdict_of(ends).findings
    assert (found.rule, found.what) == ("not ok 2 - sum", "not ok 2 - sum")


def test_a_failed_check_counts_though_the_status_is_0_or_the_run_goes_on() -> None:
    for row in (OK, LIMIT):
        (found,) = verdict_of([visit(row, console="not ok 1\n")]).findings
        assert found.rule == "not ok 1"


def test_a_crash_has_its_place_and_its_hint() -> None:
    (found,) = verdict_of([visit(CRASH)]).findings
    assert (found.place, found.advice) == ("0x80 <f>", "a hint")
    assert found.what == "failed: no vectors"


def test_the_same_mistake_in_two_runs_is_one_finding_after_failures() -> None:
    verdict = verdict_of([visit(OK, 0, 1, MISTAKE), visit(BAD, 1, 1, MISTAKE)])
    end, mistake = verdict.findings
    assert (end.kind, end.runs) == ("end", [1])
    assert (mistake.kind, mistake.runs, mistake.operation) == ("misuse", [0, 1], 12)


def test_remarks_are_no_findings() -> None:
    verdict = verdict_of([visit(OK, 0, 1, REMARK)])
    assert (verdict.findings, [each.rule for each in verdict.remarks]) == ([], ["no-samples"])


def test_a_run_that_goes_on_where_others_end_hangs() -> None:
    (found,) = verdict_of([visit(OK), visit(LIMIT, 1)]).findings
    assert (found.rule, found.runs) == ("limit", [1])
    assert found.what == "still running after 5000 operations: it hangs, or needs more"
    assert found.advice.startswith("give it more by --max-insns")


def test_what_is_only_recommended_is_remarked_and_stays_a_mistake_for_who_asks() -> None:
    short = replace(MISTAKE, rule="interval-too-short")
    verdict = verdict_of([visit(OK, 0, 1, short)])
    assert verdict.findings == []
    assert [(each.kind, each.rule) for each in verdict.remarks] == [
        ("misuse", "interval-too-short")
    ]


def test_a_program_that_skips_everything_is_remarked_with_each_reason() -> None:
    consoles = ["1..0 # SKIP no SPE\n", "1..0 # SKIP needs EL1\n", "ok 1\n1..1\n"]
    verdict = verdict_of([visit(OK, n, console=text) for n, text in enumerate(consoles)])
    assert verdict.findings == []
    assert [(each.what, each.runs) for each in verdict.remarks] == [
        ("everything is skipped: no SPE", [0]),
        ("everything is skipped: needs EL1", [1]),
    ]


def test_a_program_that_skips_everything_is_not_asked_for_samples() -> None:
    (remark,) = verdict_of([visit(OK, 0, 1, REMARK, console="1..0 # SKIP no SPE\n")]).remarks
    assert remark.rule == "skipped"


@pytest.mark.parametrize(
    ("el", "reason", "advice"),
    [(1, "needs a start at EL3", True), (1, "needs two PEs", False), (3, "wants EL3 alone", False)],
)
def test_a_program_for_el3_is_told_how_to_start_there(el: int, reason: str, advice: bool) -> None:
    (remark,) = verdict_of([visit(OK, 0, el, console=f"1..0 # SKIP {reason}\n")]).remarks
    assert remark.advice.startswith("--el 3 starts it there; --secure, too") == advice


def test_a_failure_at_el3_without_two_security_states_says_what_has_them() -> None:
    (found,) = verdict_of([visit(BAD, 0, 3)]).findings
    assert found.advice.endswith("--secure has both")
    secure = visit(BAD, 0, 3)
    secure = replace(secure, machine=replace(secure.machine, secure=True))
    (found,) = verdict_of([secure]).findings
    assert found.advice == ""


def test_what_an_exception_may_come_from_is_not_said_of_a_program_that_ended_itself() -> None:
    (found,) = verdict_of([visit(BAD)]).findings
    assert (found.place, found.advice) == ("", "")


def test_a_program_that_waits_for_what_is_typed_has_no_finding() -> None:
    verdict = verdict_of([visit(ASLEEP, 0, 1, WAITS)])
    assert verdict.findings == []
    assert [each.rule for each in verdict.remarks] == ["waits-for-input"]
    assert [each.rule for each in verdict_of([visit(ASLEEP)]).findings] == ["asleep"]
    (found,) = verdict_of([visit(ASLEEP, 0, 1, WAITS, console="not ok 1\n")]).findings
    assert found.rule == "not ok 1"


def test_a_limit_of_the_host_says_how_to_give_more() -> None:
    late = {**OK, "ending": "timeout", "cause": "60 s", "exit_status": None}
    (found,) = verdict_of([visit(late)]).findings
    assert (found.what, found.rule) == ("timeout: 60 s", "timeout")
    assert found.advice.startswith("give it more seconds of CPU by --timeout, if this host is slow")


def test_a_program_that_never_ends_is_remarked() -> None:
    verdict = verdict_of([visit(LIMIT), visit(LIMIT, 1), visit(OK, 0, 2)])
    assert verdict.findings == []
    assert [(each.rule, each.runs) for each in verdict.remarks] == [("runs-on", [0, 1])]


def test_a_start_for_which_the_program_is_not_is_remarked_and_nothing_of_it_found() -> None:
    runs = [visit(OK), visit(OK, 1), visit(CRASH, 0, 2, MISTAKE), visit(CRASH, 1, 2, MISTAKE)]
    verdict = verdict_of(runs)
    assert verdict.findings == []
    (remark,) = verdict.remarks
    assert (remark.rule, remark.runs) == ("start", [2, 3])
    assert remark.what.startswith("a start at EL2 does not work, one at EL1 does")


@pytest.mark.parametrize(
    "runs",
    [
        [visit(OK), visit(OK, 0, 2), visit(CRASH, 1, 2)],  # EL2 fails with one seed only
        [visit(CRASH), visit(CRASH, 0, 2)],  # both starts fail
        [visit(CRASH), visit(OK, 0, 2)],  # the usual start fails
    ],
)
def test_a_start_that_fails_otherwise_is_found(runs: list[Visit]) -> None:
    assert [each.rule for each in verdict_of(runs).findings] == ["failed"]


def test_starts_are_those_that_make_sense() -> None:
    assert starts(MachineOptions("a.elf")) == (1, 2)
    assert starts(MachineOptions("a.elf", el=2)) == (2,)
    assert starts(MachineOptions("a.elf", secure=True)) == (None,)
    assert starts(MachineOptions(bios="a.bin")) == (None,)


def test_each_start_has_each_core_and_each_seed() -> None:
    made = list(machines(MachineOptions("a.elf", seed=5), ["generic", "max"], (1, 2), 2))
    assert [(each.el, each.core, each.seed) for each in made] == [
        *((1, "generic", 5), (1, "generic", 6), (1, "max", 5), (1, "max", 6)),
        *((2, "generic", 5), (2, "generic", 6), (2, "max", 5), (2, "max", 6)),
    ]
    assert [each.check for each in made[:2]] == [("uninitialised",), ("noncoherent",)]


def test_memory_is_checked_as_far_as_the_file_allows(tmp_path: Path) -> None:
    elf, image = tmp_path / "a.elf", tmp_path / "a.bin"
    elf.write_bytes(b"\x7fELF")
    image.write_bytes(bytes(64))
    assert checked(MachineOptions(str(elf))).check == ("null", "text")
    assert checked(MachineOptions(kernel=str(image))).check == ("null",)
    stack = MachineOptions(str(elf), check=("stack=a", "text", "uninitialised"))
    assert checked(stack).check == ("stack=a", "uninitialised", "null", "text")
