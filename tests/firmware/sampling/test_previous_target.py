"""The previous branch target (FEAT_SPE_PBT) of what firmware executes, by both runners."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream
from tests.firmware.conftest import WholeRun
from tests.firmware.differences import differences, places
from tests.host.run.debug.debugged import CODE, EIGHT, EL0_AND_EL1, VECTORS
from tests.host.run.debug.debugged import board as debugged
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

SCTLR_EL1 = (3, 0, 1, 0, 0)
SEVL = 0xD503_20BF
BEGIN, WINDOW = 75_000, 6_000


def records_of(machine: Machine) -> list[Record]:
    found = [placed for s in machine.sampled for placed in decode_stream(s.record)]
    return [placed.record for placed in found if isinstance(placed, PlacedRecord)]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("name", ["spe_branches", "spe_el0", "exceptions"])
def test_each_operation_knows_the_branch_before_it(name: str, runner: type[Runner]) -> None:
    machine = Machine(name, core="max", period=1 << 40)
    machine.run(BEGIN)
    machine.sample_everything()
    machine.go_on_with(runner)
    machine.run(WINDOW)
    records = records_of(machine)
    assert len(records) == WINDOW
    last = None
    told = branches = 0
    for before, record in pairwise(records):
        assert before.pc is not None
        assert record.pc is not None
        if record.pc.VA != before.pc.VA + 4:
            last = record.pc
            branches += before.target is not None
        if last is not None:
            told += 1
            assert record.previous_target is not None
            assert (record.previous_target.VA, record.previous_target.EL) == (last.VA, last.EL)
    assert told > WINDOW // 2
    assert branches > 100


@pytest.mark.sweep
def test_only_branches_while_profiling_count(whole_run: WholeRun) -> None:
    """EL0 alone is profiled: what EL1 did is never told of, and after it nothing is known."""
    result = whole_run("spe_el0", core="max")
    records = [
        placed.record
        for s in result.records
        for placed in decode_stream(s.record)
        if isinstance(placed, PlacedRecord)
    ]
    known = [r.previous_target for r in records if r.previous_target is not None]
    assert {target.EL for target in known} == {0}
    assert 0 < len(known) < len(records)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", ["spe_branches", "spe_el0", "spe_copy"])
def test_fast_and_plain_runner_tell_the_same(name: str, whole_run: WholeRun) -> None:
    result = whole_run(name, core="max")
    assert any(0xB4 in s.record for s in result.records)
    assert differences(name, places(result), 12_000, core="max") == {}


def test_no_such_packet_on_a_core_without_the_feature() -> None:
    machine = Machine("spe_branches", period=17)
    machine.run(100_000)
    assert all(record.previous_target is None for record in records_of(machine))


@pytest.mark.parametrize("period", [1, 2, 5, 11])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_operations_that_are_looked_at_for_alignment_are_no_targets(
    runner: type[Runner], period: int
) -> None:
    """The engine stops in the middle of blocks whose operations are not known yet."""
    code = 0x4000_0000
    start = [a.mrs(1, SCTLR_EL1), a.movz(0, 2), a.orr(1, 1, 0), a.msr(SCTLR_EL1, 1), a.ISB]
    loop = [*[a.add_imm(2, 2, 1)] * 20, a.b(-80)]
    image = image_of({code: a.code([*start, *loop])}, code)
    machine = Machine(image, core="max", runner=runner, period=period)
    machine.run(200)
    target = code + 4 * len(start)
    began = len(start) + len(loop) + 1  # the first operation after a branch, counted from 1
    for sampled, operation in zip(machine.sampled, machine.operations, strict=True):
        expected = target if sampled.operation >= began else None
        assert operation.previous_target == expected, sampled


ELR_EL1, SPSR_EL1 = (3, 0, 4, 0, 1), (3, 0, 4, 0, 0)
TO_THE_NEXT = {
    # what it is prepared by, the branch to the operation after it, and whether that is taken
    "b": ([], a.b(4), True),
    "bl": ([], a.bl(4), True),
    "br": ([a.adr(9, 8)], a.br(9), True),
    "blr": ([a.adr(9, 8)], a.blr(9), True),
    "ret": ([a.adr(9, 8)], a.ret(9), True),
    "cbz taken": ([a.movz(9, 0)], a.cbz(9, 4), True),
    "cbz not taken": ([a.movz(9, 5)], a.cbz(9, 4), False),
    "cbz of a W register": ([a.movz(9, 1, 32)], a.cbz(9, 4) & ~(1 << 31), True),
    "cbnz of XZR": ([], a.cbnz(31, 4), False),
    "cbz of XZR": ([], a.cbz(31, 4), True),
    "cbnz of X30": ([a.movz(30, 1)], a.cbnz(30, 4), True),
    "tbz taken": ([a.movz(9, 2)], a.tbz(9, 0, 4), True),
    "tbnz taken": ([a.movz(9, 1, 32)], a.tbnz(9, 32, 4), True),
    "tbnz not taken": ([a.movz(9, 1, 32)], a.tbnz(9, 33, 4), False),
    "b.eq taken": ([a.subs(31, 9, 9)], a.b_cond(a.EQ, 4), True),
    "b.ne not taken": ([a.subs(31, 9, 9)], a.b_cond(a.NE, 4), False),
    "b.al": ([], a.b_cond(a.AL, 4), True),
    "conditional to elsewhere, not taken": ([a.movz(9, 1)], a.cbz(9, 8), False),
    "eret": (
        [*a.mov64(9, 0x3C5), a.msr(SPSR_EL1, 9), a.adr(9, 12), a.msr(ELR_EL1, 9)],
        a.ERET,
        True,
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("period", [1, 3, 37])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("branch", TO_THE_NEXT)
def test_a_branch_to_the_operation_behind_it_is_told_of(
    branch: str, runner: type[Runner], period: int
) -> None:
    code = 0x4000_0000
    before, word, taken = TO_THE_NEXT[branch]
    if word == a.ERET:
        before[-2] = a.adr(9, 12)
    loop = [a.add_imm(2, 2, 1), *before, word, a.add_imm(3, 3, 1), a.add_imm(4, 4, 1)]
    loop += [a.b(-4 * len(loop))]
    machine = Machine(
        image_of({code: a.code(loop)}, code), core="max", runner=runner, period=period
    )
    machine.run(100 * len(loop))
    behind = code + 4 * (len(before) + 2)
    seen = [o for s, o in zip(machine.sampled, machine.operations, strict=True) if s.operation > 50]
    assert len(seen) > 3
    for operation in seen:
        later = operation.pc >= behind and taken
        assert operation.previous_target == (behind if later else code), hex(operation.pc)
        assert operation.previous_target_el == 1


HOSTS = {
    # operations that the host may execute in the engine's place
    "sev": a.SEV,
    "sevl": SEVL,
    "wfe": a.WFE,
    "mrs of the host's": a.mrs(9, (3, 0, 4, 6, 0)),  # ICC_PMR_EL1
    "add": a.add_imm(9, 9, 1),
}


@pytest.mark.sweep
@pytest.mark.parametrize("period", [1, 3, 37])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("operation", HOSTS)
@pytest.mark.parametrize("waits", [False, True])
def test_a_branch_to_an_operation_that_the_host_executes_is_told_of(
    operation: str, runner: type[Runner], period: int, waits: bool
) -> None:
    """Whether the engine begins the operation does not show."""
    code = 0x4000_0000
    loop = [SEVL, a.add_imm(2, 2, 1), a.b(8), a.NOP, HOSTS[operation]]
    loop += [a.add_imm(3, 3, 1), a.add_imm(4, 4, 1), a.NOP]
    loop += [a.b(-4 * len(loop))]
    machine = Machine(
        image_of({code: a.code(loop)}, code), core="max", runner=runner, period=period
    )
    machine.board.handler.controls.waits_for_events = waits  # then the host executes hints, too
    machine.run(100 * len(loop))
    there = code + 16
    seen = [o for s, o in zip(machine.sampled, machine.operations, strict=True) if s.operation > 50]
    assert len(seen) > 3
    for sampled in seen:
        assert sampled.previous_target == (there if sampled.pc >= there else code), hex(sampled.pc)
        assert sampled.previous_target_el == 1


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_branch_to_an_operation_at_which_the_engine_halts_is_told_of(
    runner: type[Runner],
) -> None:
    """A breakpoint of the guest's is due where a debugger has one, too."""
    there = CODE + 8
    registers = {d.DBGBVRS[0]: there, d.DBGBCRS[0]: EL0_AND_EL1 | EIGHT | 1}
    code = [a.b(8), a.NOP, a.add_imm(2, 2, 1), a.add_imm(3, 3, 1)]
    sampling = Sampling(1)
    board, before = debugged(code, registers, runner, core=load_core("max"), sampling=sampling)
    seen: list[tuple[int, int | None]] = []
    board.pes[0].unit.recorded.connect(lambda _, o: seen.append((o.pc, o.previous_target)))
    board.pes[0].runner.stops.resume({there}, None)
    assert board.run(before + 20) is Ending.LIMIT
    targets = dict(seen)
    assert targets[CODE] == targets[there - 8] == CODE
    assert targets[there] == there
    assert targets[VECTORS + 0x204] == VECTORS + 0x200
