"""FEAT_LSE128 and FEAT_HBC by hand: QEMU 7.2 lacks them."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers.id import ID_AA64ISAR0_EL1, ID_AA64ISAR2_EL1
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.normal_memory import DATA, LOAD_FAULT, machine
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CODE = 0x4000_0000
X1, RT2 = 1 << 5, 16
LDCLRP, LDSETP, SWPP = (0x1920_1000 | X1, 0x1920_3000 | X1, 0x1920_8000 | X1)
ACQUIRE, RELEASE = 1 << 23, 1 << 22
BYTES = bytes(range(1, 65))
LOW, HIGH = 0x1817_1615_1413_1211, 0x201F_1E1D_1C1B_1A19
"""The quadword at DATA + 16, little-endian."""
EQ, NE, HI, AL = 0, 1, 8, 14
UNDEFINED = 1 << 25


def bc(condition: int, offset: int) -> int:
    return a.b_cond(condition, offset) | 1 << 4


def ran(words: list[int], runner: type[Runner], core: str = "max") -> Board:
    board = machine(words, runner, checks=False, core=core)
    assert board.run(200) is Ending.LIMIT
    return board


@RUNNERS
@pytest.mark.parametrize(
    ("word", "stored"),
    [
        (LDCLRP, (LOW & ~0xFF, HIGH & ~0xFF00)),
        (LDSETP | ACQUIRE, (LOW | 0xFF, HIGH | 0xFF00)),
        (SWPP | ACQUIRE | RELEASE, (0xFF, 0xFF00)),
    ],
)
@pytest.mark.parametrize(("first", "second", "base"), [(3, 4, 1), (0, 2, 1), (5, 1, 1)])
def test_an_atomic_of_a_quadword(
    word: int,
    stored: tuple[int, int],
    first: int,
    second: int,
    base: int,
    runner: type[Runner],
) -> None:
    """Xt has the first doubleword, Xt2 the second; either may be the base."""
    if second == base:  # X1 is both: bits of the address are cleared, set or stored
        address = DATA + 16
        stored = {
            LDCLRP: (LOW & ~0xFF, HIGH & ~address),
            LDSETP | ACQUIRE: (LOW | 0xFF, HIGH | address),
        }.get(word, (0xFF, address))
    setting = [*a.mov64(second, 0xFF00), *a.mov64(first, 0xFF), *a.mov64(1, DATA + 16)]
    board = ran([*setting, word | first | second << RT2], runner)
    x = board.cpu.engine.x
    assert (x(20), x(first), x(second)) == (0, LOW, HIGH)
    found = board.memory.read(DATA, 64)
    assert found[:16] + found[32:] == BYTES[:16] + BYTES[32:]
    assert found[16:32] == b"".join(n.to_bytes(8, "little") for n in stored)


@RUNNERS
@pytest.mark.parametrize(
    ("core", "word", "offset", "syndrome"),
    [
        ("max", SWPP | 3 | 4 << RT2, 8, LOAD_FAULT),
        ("max", SWPP | 3 | 3 << RT2, 0, UNDEFINED),
        ("max", SWPP | 31 | 3 << RT2, 0, UNDEFINED),
        ("max", SWPP | 3 | 31 << RT2, 0, UNDEFINED),
        ("cortex-x4", SWPP | 3 | 4 << RT2, 0, UNDEFINED),
        ("max,FEAT_LSE128=off", SWPP | 3 | 4 << RT2, 0, UNDEFINED),
        ("max,FEAT_HBC=off", bc(AL, 8), 0, UNDEFINED),
    ],
)
def test_what_faults(
    core: str, word: int, offset: int, syndrome: int, runner: type[Runner]
) -> None:
    """A quadword that is not aligned, registers that there are not, cores without the feature."""
    board = ran([*a.mov64(1, DATA + offset), *a.mov64(3, 5), word], runner, core)
    x = board.cpu.engine.x
    assert (x(20), x(21), x(3)) == (1, syndrome, 5)
    assert board.memory.read(DATA, 64) == BYTES
    read = board.cpu.registers.read
    assert (read(ID_AA64ISAR0_EL1).Atomic == 3) == (core in ("max", "max,FEAT_HBC=off"))
    assert (read(ID_AA64ISAR2_EL1).BC == 1) == (core in ("max", "max,FEAT_LSE128=off"))


def looped(branch: int, **options: object) -> Machine:
    """A loop with each way of branching by ``branch``'s bit 4, forwards and backwards."""
    kind = branch & 1 << 4
    loop = [
        *(a.add_imm(5, 5, 1), a.subs(7, 5, 6), a.b_cond(HI, 8) | kind, a.add_imm(8, 8, 1)),
        *(a.b_cond(NE, 8) | kind, a.add_imm(9, 9, 1), a.and_low_bits(10, 5, 0, 2)),
        *(a.subs_imm(31, 10, 3), a.b_cond(EQ, -28) | kind, a.add_imm(11, 11, 1)),
        a.b_cond(AL, -40) | kind,
    ]
    code = [*a.mov64(6, 9), *loop]
    return Machine(image_of({CODE: a.code(code)}, CODE), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_bc_goes_where_b_goes(runner: type[Runner]) -> None:
    hinted, plain = (looped(bit << 4, runner=runner, period=1, core="max") for bit in (True, False))
    for each in (hinted, plain):
        each.run(300)
    registers = [[m.board.cpu.engine.x(n) for n in range(12)] for m in (hinted, plain)]
    assert registers[0] == registers[1]
    assert hinted.board.cpu.pc == plain.board.cpu.pc
    told = [[(o.pc, o.condition_failed, o.target) for o in m.operations] for m in (hinted, plain)]
    assert told[0] == told[1]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 5, None])
def test_both_runners_come_to_the_same_with_bc(period: int | None, model: str) -> None:
    fast, reference = (
        looped(1 << 4, runner=runner, period=period, core="max", model=model)
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(500).differences(reference.run(500)) == {}
    assert fast.operations == reference.operations


def test_records_tell_bc_as_a_conditional_branch() -> None:
    machine = looped(1 << 4, period=1, core="max")
    machine.run(40)
    found = 0
    for operation, raw in zip(machine.operations, machine.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        if operation.instruction.word & 0xFF00_0010 == 0x5400_0010:
            found += 1
            assert placed.record.op_class == OperationClass.BRANCH
            assert placed.record.op_payload & 0b11 == 0b01  # COND, not INDIRECT
    assert found > 8


@RUNNERS
def test_an_access_in_its_place_is_no_branch(runner: type[Runner]) -> None:
    """SWPP is two accesses of the engine's; the previous branch is the one at the loop's end."""
    loop = [SWPP | 6 | 7 << RT2, a.add_imm(5, 5, 1), a.NOP]
    code = [*a.mov64(1, CODE + 256), *loop, a.b(-4 * len(loop))]
    image = image_of({CODE: a.code(code), CODE + 256: bytes(16)}, CODE)
    loop_of = Machine(image, runner=runner, period=1, core="max")
    loop_of.run(30)
    begin = CODE + 4 * (len(code) - len(loop) - 1)
    told = {one.pc: one.previous_target for one in loop_of.operations[10:]}
    assert told == {begin + 4 * n: begin for n in range(len(loop) + 1)}


@RUNNERS
def test_an_access_in_its_place_is_seen_by_the_core_model(runner: type[Runner]) -> None:
    """The first SWPP finds its line in no cache, so it waits for memory; others hit."""
    loop = [SWPP | 6 | 7 << RT2, a.add_imm(5, 5, 1)]
    code = [*a.mov64(1, CODE + 256), *loop, a.b(-4 * len(loop))]
    image = image_of({CODE: a.code(code), CODE + 256: bytes(16)}, CODE)
    loop_of = Machine(image, runner=runner, period=1, core="max", model="cache")
    loop_of.run(30)
    latencies = []
    for operation, raw in zip(loop_of.operations, loop_of.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        if operation.instruction.word == loop[0]:
            latencies.append(dict(placed.record.counters)[0])
    first, second, *others = latencies
    assert first > 100 > second > 0
    assert set(others) == {second}
