"""FEAT_CMPBR by hand: QEMU 7.2 lacks it."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, lt, ne

import pytest

from spe_unicorn.arch.registers.id import ID_AA64ISAR2_EL1
from spe_unicorn.cores.profile import CoreError, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.normal_memory import machine
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
SF, BYTE, HALF = 1 << 31, 0b10 << 14, 0b11 << 14
GT, GE, HI, HS, EQ, NE = 0, 1, 2, 3, 6, 7
LT, LO = 1, 3
"""Conditions of CB<cc> (immediate), in the places of GE and HS."""
CODE = 0x4000_0000


def registers(cc: int, t: int, m: int, offset: int, size: int = SF) -> int:
    return 0x7400_0000 | size | cc << 21 | m << 16 | (offset >> 2 & 0x1FF) << 5 | t


def immediate(cc: int, t: int, value: int, offset: int, size: int = SF) -> int:
    return 0x7500_0000 | size | cc << 21 | value << 15 | (offset >> 2 & 0x1FF) << 5 | t


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def unsigned(value: int, bits: int) -> int:
    return value & (1 << bits) - 1


Test = tuple[Callable[[int, int], int], Callable[[int, int], bool]]
BY_REGISTER: dict[int, Test] = {
    GT: (signed, gt), GE: (signed, ge), HI: (unsigned, gt), HS: (unsigned, ge),
    EQ: (unsigned, eq), NE: (unsigned, ne),
}  # fmt: skip
BY_IMMEDIATE: dict[int, Test] = {
    GT: (signed, gt), LT: (signed, lt), HI: (unsigned, gt), LO: (unsigned, lt),
    EQ: (unsigned, eq), NE: (unsigned, ne),
}  # fmt: skip
BITS = {SF: 64, 0: 32, BYTE: 8, HALF: 16}
PAIRS = [
    (0, 0), (1, 0), (0, 1), ((1 << 64) - 1, 1), (1, (1 << 64) - 1), (1 << 32, 0), (98304, 0x8000),
    (0x7F, 0x80), (0x8000_0000, 0x7FFF_FFFF), (0xFF00, 0), (0x1234_5678_0000_0063, 0x63),
]  # fmt: skip


def taken(words: list[int], runner: type[Runner]) -> int:
    """How many of the branches in a row were taken: each adds to X10 where it was not."""
    board = machine(words, runner, checks=False, core="max")
    board.run(40 + 3 * len(words))
    assert board.cpu.engine.x(20) == 0
    return board.cpu.engine.x(10)


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("cc", BY_REGISTER)
@pytest.mark.parametrize("size", BITS)
def test_registers_are_compared(size: int, cc: int, runner: type[Runner]) -> None:
    """X10 has a bit for each pair of values for which the branch was not taken."""
    words = [a.movz(10, 0)]
    expected = 0
    number, test = BY_REGISTER[cc]
    for n, (first, second) in enumerate(PAIRS):
        words += [*a.mov64(3, first), *a.mov64(4, second), registers(cc, 3, 4, 8, size)]
        words += [a.add_imm(10, 10, 1 << n)]
        bits = BITS[size]
        expected |= (not test(number(first, bits), number(second, bits))) << n
    assert taken(words, runner) == expected


@RUNNERS
@pytest.mark.parametrize("cc", BY_IMMEDIATE)
@pytest.mark.parametrize("size", [SF, 0])
def test_a_register_is_compared_with_a_number(size: int, cc: int, runner: type[Runner]) -> None:
    """An immediate of 6 bits has no sign."""
    words = [a.movz(10, 0)]
    expected = 0
    number, test = BY_IMMEDIATE[cc]
    values = [(first, value) for first, _ in PAIRS[:6] for value in (0, 63)]
    for n, (first, value) in enumerate(values):
        words += [*a.mov64(3, first), immediate(cc, 3, value, 8, size), a.add_imm(10, 10, 1 << n)]
        expected |= (not test(number(first, BITS[size]), value)) << n
    assert taken(words, runner) == expected


@RUNNERS
def test_it_goes_backwards_and_knows_the_zero_register(runner: type[Runner]) -> None:
    words = [a.movz(3, 5), a.sub_imm(3, 3, 1), registers(NE, 3, 31, -4), a.movz(5, 7)]
    board = machine(words, runner, checks=False, core="max")
    board.run(60)
    assert (board.cpu.engine.x(3), board.cpu.engine.x(5)) == (0, 7)


@RUNNERS
@pytest.mark.parametrize(
    ("core", "word"),
    [
        ("max", registers(4, 3, 4, 8)),
        ("max", registers(5, 3, 4, 8, 0)),
        ("max", registers(GT, 3, 4, 8, 0b01 << 14)),
        ("max", registers(GT, 3, 4, 8, SF | BYTE)),
        ("max", registers(GT, 3, 4, 8, SF | HALF)),
        ("max", immediate(4, 3, 1, 8)),
        ("max", immediate(EQ, 3, 1, 8) | 1 << 14),
        ("max,FEAT_CMPBR=off", registers(EQ, 3, 4, 8)),
        ("cortex-x4", immediate(EQ, 3, 1, 8)),
    ],
)
def test_what_is_undefined(core: str, word: int, runner: type[Runner]) -> None:
    board = machine([word, a.movz(5, 7)], runner, checks=False, core=core)
    board.run(60)
    x = board.cpu.engine.x
    assert (x(20), x(21), x(5)) == (1, 1 << 25, 7)
    shown = board.cpu.registers.read(ID_AA64ISAR2_EL1).CSSC
    assert shown == {"max": 2, "cortex-x4": 0}.get(core, 1)


def test_it_needs_what_the_same_field_shows() -> None:
    with pytest.raises(CoreError, match="FEAT_CMPBR needs FEAT_CSSC"):
        load_core("cortex-x4,FEAT_CMPBR=on")


def looped(**options: object) -> Machine:
    loop = [
        *(a.add_imm(5, 5, 1), registers(GT, 5, 6, 8), a.add_imm(8, 8, 1)),
        *(immediate(LO, 5, 40, 8), a.add_imm(9, 9, 1), a.and_low_bits(10, 5, 0, 2)),
        *(immediate(NE, 10, 3, -24, 0), a.add_imm(11, 11, 1)),
    ]
    code = [*a.mov64(6, 9), *loop, a.b(-4 * len(loop))]
    return Machine(image_of({CODE: a.code(code)}, CODE), core="max", **options)  # type: ignore[arg-type]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 5, None])
def test_both_runners_come_to_the_same(period: int | None, model: str) -> None:
    fast, reference = (
        looped(runner=runner, period=period, model=model) for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(400).differences(reference.run(400)) == {}
    assert fast.operations == reference.operations


def test_records_tell_conditional_branches_with_their_targets() -> None:
    loop = looped(period=1)
    loop.run(600)
    told = set()
    for operation, raw in zip(loop.operations, loop.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        if operation.instruction.word >> 25 & 0x3F == 0x3A:
            record = placed.record
            assert record.op_class == OperationClass.BRANCH
            assert record.op_payload & 0b11 == 0b01  # COND, not INDIRECT
            told.add((operation.pc - CODE, operation.condition_failed))
    assert len(told) == 6
