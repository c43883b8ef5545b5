"""Samples that compiled code takes by itself while a core model looks on, against the reference."""

from __future__ import annotations

import pytest

from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA, NEAR = 0x4000_0000, 0x4010_0000, 0x4040_0000
AT_HAND, WALKED, STORED = a.ldr(1, 0), a.ldr(2, 9), a.str_(2, 9, 8)
LOOP = [a.subs_imm(31, 3, 1), a.b_cond(a.NE, 8), a.NOP, AT_HAND, WALKED, STORED]
LOOP += [a.add_imm(9, 9, 0x40), a.add_imm(3, 3, 1), a.b(-32)]
PAIR = a.pair(True, 4, 5, 9, -0x48)
"""It loads the last 8 bytes of a line and the first 8 of the next one."""
PAIRS = [PAIR, a.add_imm(9, 9, 0x40), a.pair(True, 6, 7, 0, 0), a.b(-12)]
"""A load of a line that is at hand, then one of a line further on, then a store to that one."""
DRAM, L1D, MISPREDICTED = 0xE, 0x0, 1 << 7
OPERATIONS = 5000


def run(
    runner: type[Runner],
    period: int,
    *,
    core: str = "max",
    together: bool = False,
    loop: list[int] = LOOP,
) -> Machine:
    code = a.code([*a.mov64(0, NEAR), *a.mov64(9, DATA), a.movz(3, 1), *loop])
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


@pytest.mark.sweep
@pytest.mark.parametrize("core", ["max", "neoverse-n1"])
@pytest.mark.parametrize("period", [1, 7, 64, 101])
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
def test_samples_are_those_of_the_reference(period: int, core: str, together: bool) -> None:
    fast, plain = (run(r, period, core=core, together=together) for r in (Runner, ReferenceRunner))
    assert len(plain.streams[0]) >= 64 * (OPERATIONS // period - 1)
    assert fast.streams == plain.streams
    assert fast.sampled == plain.sampled
    assert fast.model() == plain.model()


def test_a_pair_tells_of_each_of_its_loads() -> None:
    """The last 8 bytes of a line are at hand, as the pair before has loaded the line's first 8."""
    machine = run(Runner, 1, core="neoverse-n1", loop=PAIRS)
    found = [record.data_source for record in records(machine, PAIR)[1:2001]]
    assert found == [L1D, DRAM] * 1000


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
@pytest.mark.parametrize("period", [1, 2, 5])
def test_pairs_are_those_of_the_reference(period: int, together: bool) -> None:
    made = [
        run(runner, period, core="neoverse-n1", together=together, loop=PAIRS)
        for runner in (Runner, ReferenceRunner)
    ]
    assert made[0].streams == made[1].streams
    assert made[0].sampled == made[1].sampled
    assert made[0].model() == made[1].model()


@pytest.mark.sweep(first=True)
@pytest.mark.accelerated
@pytest.mark.parametrize("loop", [LOOP, PAIRS], ids=["loop", "pairs"])
@pytest.mark.parametrize("period", [1, 5, 20, 101])
@pytest.mark.parametrize("core", ["max", "neoverse-n1"])
def test_the_engine_stops_for_a_batch_of_samples(
    core: str, period: int, loop: list[int], engine_runs: list[RunRequest]
) -> None:
    """However many there are in a block. At first it stops for blocks that nobody has seen."""
    machine = run(Runner, period, core=core, together=True, loop=loop)
    assert len(machine.streams[0]) >= 64 * (OPERATIONS // period - 1)
    assert len(engine_runs) <= 30
