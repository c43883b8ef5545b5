"""The runner has something to do after every stop of the engine."""

from __future__ import annotations

import pytest

from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.run.decide import Do, decide
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of


@pytest.fixture
def machine() -> Machine:
    return Machine(image_of({0x4000_0000: a.code([a.b(0)])}, 0x4000_0000))


def test_all_that_can_be_decided_can_be_done(machine: Machine) -> None:
    assert set(machine.board.runner._performer.acts) == set(Do)


def test_a_block_marked_for_a_trap_of_another_level_runs(machine: Machine) -> None:
    runner = machine.board.runner
    machine.run(10)
    before = machine.board.cpu.executed
    block, operations = machine.board.cpu.pc, int(runner._state.block_operations)
    report = RunReport(Stop.TRAP, 0, block, operations, operations, call=False, finished=False)
    runner._performer.perform(decide(report))
    assert machine.board.cpu.executed == before + 1
