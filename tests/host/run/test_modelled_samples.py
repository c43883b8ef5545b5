"""Samples that compiled code takes by itself while a core model looks on, against the reference."""

from __future__ import annotations

import pytest

from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA, NEAR = 0x4000_0000, 0x4010_0000, 0x4040_0000
AT_HAND, WALKED, STORED = a.ldr(1, 0), a.ldr(2, 9), a.str_(2, 9, 8)
LOOP = [a.subs_imm(31, 3, 1), a.b_cond(a.NE, 8), a.NOP, AT_HAND, WALKED, STORED]
LOOP += [a.add_imm(9, 9, 0x40), a.add_imm(3, 3, 1), a.b(-32)]
"""A load of a line that is at hand, then one of a line further on, then a store to that one."""
DRAM, L1D, MISPREDICTED = 0xE, 0x0, 1 << 7
OPERATIONS = 5000


def run(runner: type[Runner], period: int, *, core: str = "max", together: bool = False) -> Machine:
    code = a.code([*a.mov64(0, NEAR), *a.mov64(9, DATA), a.movz(3, 1), *LOOP])
    options = {"period": period, "core": core, "model": "cache"}
    machine = Machine(image_of({CODE: code}, CODE), runner=runner, together=together, **options)  # type: ignore[arg-type]
    machine.run(OPERATIONS)
    return machine


def records(machine: Machine, word: int) -> list[Record]:
    """The records of an operation, but for those of the first time around."""
    read = [
        read_record(sampled.record, 0)
        for sampled, operation in zip(machine.sampled, machine.operations, strict=True)
        if operation.instruction.word == word
    ]
    return [placed.record for placed in read if isinstance(placed, PlacedRecord)][1:]


def test_each_of_several_accesses_of_a_block_tells_of_itself() -> None:
    machine = run(Runner, 11)
    sources = {
        word: {record.data_source for record in records(machine, word)}
        for word in (AT_HAND, WALKED, STORED)
    }
    assert sources == {AT_HAND: {L1D}, WALKED: {DRAM}, STORED: {None}}
    assert all(len(records(machine, word)) > 20 for word in sources)


def test_a_branch_tells_whether_it_was_mispredicted() -> None:
    """X3 is 1 at one compare and 2 or more at all others, so the branch is soon known."""
    found = records(run(Runner, 11), LOOP[1])
    assert len(found) > 20
    assert not any(record.events & MISPREDICTED for record in found[2:])


@pytest.mark.parametrize("core", ["max", "neoverse-n1"])
@pytest.mark.parametrize("period", [7, 64, 101])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
def test_samples_are_those_of_the_reference(period: int, core: str, together: bool) -> None:
    fast, plain = (run(r, period, core=core, together=together) for r in (Runner, ReferenceRunner))
    assert len(plain.streams[0]) >= 64 * (OPERATIONS // period - 1)
    assert fast.streams == plain.streams
    assert fast.sampled == plain.sampled
    assert fast.model() == plain.model()


def test_hardly_any_operation_is_stepped_to(monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = []
    step = Performer.step
    monkeypatch.setattr(Performer, "step", lambda self: (stepped.append(1), step(self)))
    machine = run(Runner, 101, together=True)
    assert len(machine.streams[0]) >= 64 * 48
    assert len(stepped) <= 4
