"""Driver mistakes are found where they are made only, and looking for them changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.debug.misuse import Misuses, watch_misuse
from spe_unicorn.debug.misuse_rules import RULES
from spe_unicorn.host.reference import ReferenceRunner
from spe_unicorn.machine.shipped import shipped_names
from tests.firmware.conftest import WholeRun
from tests.host.machine_runs import Machine

EVERYTHING: dict[str, Any] = {"core": "cortex-x4", "el": 2}
"""Where spe_misuse makes every mistake there is."""
CLEAN: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "copy": ("spe_copy", {}, set()),
    "branches": ("spe_branches", {}, set()),
    "EL0": ("spe_el0", {}, set()),
    "faults": ("spe_fault", {}, set()),
    "interrupt": ("spe_irq_el1", {}, set()),
    "interval": ("interval", {}, set()),
    "mix": ("mix", {}, set()),
    "copy on max": ("spe_copy", {"core": "max"}, set()),
    "faults on minimal": ("spe_fault", {"core": "minimal"}, set()),
    "counters": ("spe_counters", {}, set()),
    "every fault": ("spe_events", {}, set()),
    "every fault of EL2": ("spe_events", {"el": 2}, set()),
    "several PEs": ("spe_smp", {"smp": 4}, set()),
    # these show what the architecture does about a mistake
    "full": ("spe_full", {}, {"enabled-while-stopped"}),
    "EL2's buffer": ("spe_el2_owner", {"el": 2}, {"enable-ignored"}),
    "EL3's choice": ("spe_el3_monitor", {"el": 3}, {"enable-ignored"}),
    "exceptions": ("spe_exc", {"el": 3, "core": "max"}, {"enabled-while-stopped"}),
}
"""Programs that use SPE, how they are run, and the rules that they break on purpose."""


def watched(name: str, **options: Any) -> tuple[Machine, Misuses]:
    machine = Machine(name, **options)
    return machine, watch_misuse(machine.board, symbolize=machine.image.symbolize)


def found(misuses: Misuses) -> list[tuple[str, str, int]]:
    """The rules that were broken, the functions that did, and how often."""
    return [(m.rule.name, (m.symbol or "").split("+")[0], m.count) for m in misuses.found]


def test_every_mistake_is_found_once_in_the_function_that_makes_it() -> None:
    machine, misuses = watched("spe_misuse", **EVERYTHING)
    assert machine.run().exit_status == 0
    names = {rule.name for rule in RULES}
    assert sorted(found(misuses)) == [(name, name.replace("-", "_"), 1) for name in sorted(names)]


def test_what_is_no_mistake_on_a_core_is_not_found_there() -> None:
    machine, misuses = watched("spe_misuse")
    machine.run()
    names = {rule.name for rule in RULES}
    assert names - {name for name, _, _ in found(misuses)} == {
        "interval-too-short",  # it recommends none
        "resumed-after-loss",  # External aborts on records are ignored
        "enable-ignored",  # EL2 ran nothing
    }


def test_every_program_about_spe_is_here() -> None:
    here = {name for name, _, _ in CLEAN.values()}
    others = {"spe_misuse", "spe_access"}  # the latter writes every register with every value
    assert {name for name in shipped_names() if name.startswith("spe_")} - here == others


@pytest.mark.parametrize("run", CLEAN)
def test_firmware_makes_no_mistake_but_on_purpose(run: str) -> None:
    name, options, on_purpose = CLEAN[run]
    machine, misuses = watched(name, **options)
    machine.run()
    assert {misuse.rule.name for misuse in misuses.found} == on_purpose, list(
        map(str, misuses.found)
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [("spe_misuse", EVERYTHING), ("spe_full", {}), ("spe_irq_el1", {}), ("spe_el0", {"seed": 3})],
)
def test_watching_changes_nothing(name: str, options: dict[str, Any], whole_run: WholeRun) -> None:
    machine, _ = watched(name, **options)
    assert whole_run(name, **options).differences(machine.run()) == {}


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
    assert told == [misuse.operation for misuse in misuses.found]
    assert told == sorted(told)
