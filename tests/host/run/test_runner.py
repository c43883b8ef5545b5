"""The runner has something to do after every stop of the engine; both runners do the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.access.device_access import RefusedAccesses
from spe_unicorn.host.pe.access.system_access import SystemAccesses
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run import reference
from spe_unicorn.host.run.decide import Do, decide
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at


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


def test_the_reference_is_a_runner_of_its_own() -> None:
    assert ReferenceRunner.__mro__ == (ReferenceRunner, object)
    text = Path(reference.__file__).read_text()
    assert len(text.splitlines()) <= 250
    imported = [line for line in text.splitlines() if line.startswith(("from ", "import "))]
    assert len(imported) > 10
    assert not [line for line in imported if "host.native" in line or "host.run.runner" in line]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("program", "stops"), [("psci_calls", 800), ("pmu_exceptions", 50), ("world_switch", 80)]
)
def test_both_runners_report_the_same(
    program: str, stops: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the host does, at which operation and PC, and where the PE is after it."""
    monkeypatch.setenv(OPTION, "none")  # else compiled code does some of it
    done: list[tuple[object, ...]] = []
    handle, take = StopHandler.handle, Interrupts.take

    def handled(handler: StopHandler, stop: Stop, fault: Any = None) -> bool:
        cpu = handler.cpu
        before = cpu.executed, cpu.pc, cpu.el
        raised = handle(handler, stop, fault)
        done.append((*before, stop, raised, cpu.pc))
        return raised

    def taken(interrupts: Interrupts) -> bool:
        cpu = interrupts._cpu
        before = cpu.executed, cpu.pc, cpu.el
        if not take(interrupts):
            return False
        done.append((*before, Stop.INTERRUPT, True, cpu.pc))
        return True

    def answered(plain: Any, stop: Stop) -> Any:
        def noted(accesses: Any, pc: int) -> bool:
            cpu = accesses._cpu
            if not plain(accesses, pc):
                return False
            done.append((cpu.executed, pc, cpu.el, stop, False, cpu.pc))
            return True

        return noted

    monkeypatch.setattr(StopHandler, "handle", handled)
    monkeypatch.setattr(Interrupts, "take", taken)
    # the fast runner has these answered while the engine stands for a moment
    for answers, stop in ((RefusedAccesses, Stop.UNMAPPED), (SystemAccesses, Stop.SYSTEM)):
        monkeypatch.setattr(answers, "access_within_run", answered(answers.access_within_run, stop))
    Machine(program).run(30_000)
    fast = list(done)
    done.clear()
    Machine(program, runner=ReferenceRunner).run(30_000)
    assert len(done) >= stops
    assert fast == done


# Previous targets

LOOP, END = 0x0C, 0x24
CODE = [
    *(a.movz(5, 3), a.b(8), a.NOP),
    *(a.add_imm(1, 1, 1), a.add_imm(1, 1, 1), a.subs_imm(5, 5, 1), a.b_cond(a.NE, -12)),
    *(a.NOP, a.NOP, a.b(0)),
]
FIRST: list[tuple[int, int | None]] = [(0, None), (4, None)]
ROUND = [(at, LOOP) for at in range(LOOP, LOOP + 16, 4)]
LAST = [(0x1C, LOOP), (0x20, LOOP), (END, LOOP), (END, END)]
WANTED = [*FIRST, *ROUND * 3, *LAST]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("each", [1, 2, 3, 5, len(WANTED)])
def test_the_target_is_that_of_the_last_taken_branch(runner: type[Runner], each: int) -> None:
    """Each operation is sampled, ``each`` are executed at a time."""
    board = board_at(CODE, runner=runner, core=load_core("max"), sampling=Sampling(1, jitter=False))
    seen: list[bytes] = []
    board.pes[0].unit.recorded.connect(lambda record, _: seen.append(bytes(record)))
    while board.executed < len(WANTED):
        board.run(min(each, len(WANTED) - board.executed))
    found = [one.record for one in decode_stream(b"".join(seen)) if isinstance(one, PlacedRecord)]
    places = [
        (
            record.pc.VA - RAM,
            None if record.previous_target is None else record.previous_target.VA - RAM,
        )
        for record in found
        if record.pc is not None
    ]
    assert places == WANTED
