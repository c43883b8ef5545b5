"""Driver mistakes are found where they are made only, and looking for them changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.debug.misuse import Misuses, watch_misuse
from spe_unicorn.debug.misuse_rules import RECORDS_NOT_SYNCHRONIZED, RULES
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.machine.shipped import shipped_names
from tests.firmware.conftest import WholeRun
from tests.firmware.programs import MADE_FOR, RUNS, SELF_CHECKING
from tests.support.machine_runs import Machine

EVERYTHING: dict[str, Any] = {"core": "cortex-x4", "el": 2}
"""Where spe_misuse makes every mistake there is."""
ON_PURPOSE: dict[str, set[str]] = {
    "spe_events": {"buffer-outside-memory"},
    "spe_full": {"enabled-while-stopped"},
    "spe_exc": {"enabled-while-stopped"},
    "spe_el2_owner": {"enable-ignored"},
    "spe_el3_monitor": {"enable-ignored"},
}
"""Rules that a program breaks to show what the architecture does about it."""


LOCKED = "write-while-buffer-enabled"
ELSEWHERE = {
    LOCKED,
    *("counter-unknown", "filter-unknown", "pointer-unknown", "stop-not-served"),
    *("status-unknown", "interrupt-storm", "end-not-read"),
    *("buffer-too-large", "identification-not-read"),
}
"""Rules that spe_misuse keeps: small drivers break them in tests/debug."""
PLACES = {"interrupt-not-ended": "on_interrupt"}
"""Functions of mistakes that are not called as their rules are."""


def programs() -> dict[str, dict[str, Any]]:
    """Every program that is tested and uses SPE, and one way to run it."""
    found: dict[str, dict[str, Any]] = {name: {} for name in SELF_CHECKING}
    smp = [(name, MADE_FOR[name]) for name in ("spe_smp", "spe_coherence")]
    for name, options in (*RUNS.values(), *smp):
        found.setdefault(name, options)
    about_spe = ("spe_", "interval", "mix", "pmu_overflow")
    return {n: o for n, o in found.items() if n.startswith(about_spe) and n != "spe_misuse"}


CLEAN = programs()


def watched(name: str, **options: Any) -> tuple[Machine, Misuses]:
    machine = Machine(name, **options)
    return machine, watch_misuse(machine.board, symbolize=machine.image.symbolize)


def found(misuses: Misuses) -> list[tuple[str, str, int]]:
    """The rules that were broken, the functions that did, and how often."""
    return [(m.rule.name, (m.symbol or "").split("+")[0], m.count) for m in misuses.found]


def test_every_mistake_is_found_once_in_the_function_that_makes_it() -> None:
    machine, misuses = watched("spe_misuse", **EVERYTHING)
    assert machine.run().exit_status == 0
    misuses.finish()
    expected = [
        (rule.name, PLACES.get(rule.name, rule.name.replace("-", "_")), 1)
        for rule in RULES
        if rule.name not in ELSEWHERE
    ]
    # it also writes the buffer's registers in place, more than once
    seen = [row for row in found(misuses) if row[0] != LOCKED]
    # what is lost there is lost since nothing is where the buffer is, which is enabled twice
    expected.append(("buffer-outside-memory", "resumed_after_loss", 2))
    assert sorted(seen) == sorted(expected)


def test_what_is_no_mistake_on_a_core_is_not_found_there() -> None:
    machine, misuses = watched("spe_misuse")
    machine.run()
    misuses.finish()
    names = {rule.name for rule in RULES} - ELSEWHERE
    assert names - {name for name, _, _ in found(misuses)} == {
        "interval-too-short",  # it recommends none
        "resumed-after-loss",  # External aborts on records are ignored
        "enable-ignored",  # EL2 ran nothing
    }


def test_every_program_about_spe_is_here() -> None:
    others = {"spe_misuse", "spe_access"}  # the latter writes every register with every value
    assert {name for name in shipped_names() if name.startswith("spe_")} - set(CLEAN) == others


def assert_clean(name: str, **options: Any) -> None:
    machine, misuses = watched(name, **options)
    machine.run()
    misuses.finish()
    broken = {misuse.rule.name for misuse in misuses.found}
    assert broken == ON_PURPOSE.get(name, set()), list(map(str, misuses.found))


@pytest.mark.sweep
@pytest.mark.parametrize("name", CLEAN)
def test_firmware_makes_no_mistake_but_on_purpose(name: str) -> None:
    assert_clean(name, **CLEAN[name])


@pytest.mark.parametrize("core", ["max", "minimal"])
@pytest.mark.parametrize("name", ["spe_copy", "spe_fault"])
def test_nor_does_it_on_another_core(name: str, core: str) -> None:
    assert_clean(name, core=core)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spe_misuse", EVERYTHING),
        ("spe_full", {}),
        ("spe_irq_el1", {}),
        ("spe_el0", {"seed": 3}),
        ("spe_el0", {"core": "neoverse-v2"}),
    ],
)
def test_watching_changes_nothing(name: str, options: dict[str, Any], whole_run: WholeRun) -> None:
    machine, _ = watched(name, **options)
    assert whole_run(name, **options).differences(machine.run()) == {}


@pytest.mark.sweep
def test_stepping_finds_the_same() -> None:
    runs = []
    for runner in ({}, {"runner": ReferenceRunner}):
        machine, misuses = watched("spe_misuse", **EVERYTHING, **runner)
        result = machine.run()
        runs.append((result, misuses.found))
    assert runs[0][0].differences(runs[1][0]) == {}
    assert runs[0][1] == runs[1][1]


def test_a_run_in_pieces_finds_the_same() -> None:
    machine, misuses = watched("spe_misuse", **EVERYTHING)
    whole, expected = watched("spe_misuse", **EVERYTHING)
    whole.run()
    while machine.board.exit_status is None:
        machine.board.run(1009)
    assert misuses.found == expected.found


def test_a_reset_leaves_nothing_to_be_drained() -> None:
    machine, misuses = watched("spe_copy")
    while not machine.board.unit.enabled:
        machine.board.run(1000)
    watcher = machine.board.runner.watcher
    assert watcher is not None
    assert watcher.tracking
    machine.board.load(machine.image)
    assert not watcher.tracking
    assert machine.run().exit_status == 0
    assert machine.board.unit.statistics.written > 0
    assert misuses.found == []


def test_each_mistake_is_told_when_it_happens() -> None:
    machine = Machine("spe_misuse")
    told = []
    misuses = watch_misuse(machine.board, lambda misuse: told.append(machine.board.cpu.counted()))
    machine.run()
    for at, misuse in zip(told, misuses.found, strict=True):
        # what is noticed in the middle of a block is told after it
        late = misuse.rule is RECORDS_NOT_SYNCHRONIZED
        assert at - 20 <= misuse.operation <= at if late else at == misuse.operation, misuse
    assert told == sorted(told)
