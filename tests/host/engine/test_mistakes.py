"""LDSMAX and LDSMIN of 8, 16 and 32 bits compare with the sign, and so do STSMAX and STSMIN.

The expectations are Arm's (C6.2, LDSMAX and LDSMIN): the greater or the smaller of two signed
numbers is stored, and the number that was in memory is loaded, extended with zeros.
"""

from __future__ import annotations

from itertools import product

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import ModelName
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
DATA = RAM + 0x8000
ORDERINGS = {"": 0, "A": 1 << 23, "L": 1 << 22, "AL": 3 << 22}
LEAST, MOST = 0x3820_5000, 0x3820_4000
SIZES = {0: 8, 1: 16, 2: 32, 3: 64}


def atomic(kind: int, size: int, ordering: str, rs: int, rt: int, rn: int) -> int:
    return kind | size << 30 | ORDERINGS[ordering] | rs << 16 | rn << 5 | rt


def values(bits: int) -> list[int]:
    """Both ends of each sign, and what is next to them."""
    top = 1 << bits
    return [0, 1, top // 2 - 1, top // 2, top // 2 + 1, top - 1]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [LEAST, MOST], ids=["LDSMIN", "LDSMAX"])
def test_the_sign_counts(kind: int, size: int, ordering: str, runner: type[Runner]) -> None:
    bits = SIZES[size]
    pairs = list(product(values(bits), repeat=2))
    code: list[int] = [*a.mov64(1, DATA), *a.mov64(6, 0xFFFF_FFFF_FFFF_FFFF)]
    for old, operand in pairs:
        # bits of the operand above its size do not count, and neighbours in memory stay
        garbage = 0 if bits == 64 else 0x5AA5_5AA5_5AA5_5AA5 << bits & (1 << 64) - 1
        code += [*a.mov64(2, old | garbage), a.str_(2, 1), *a.mov64(3, operand | garbage)]
        code += [atomic(kind, size, ordering, 3, 4, 1), a.str_(4, 1, 8), a.add_imm(1, 1, 16)]
    board = board_at([*code, a.b(0)], runner=runner)
    assert board.run(len(code) + 1) is Ending.LIMIT
    data = board.memory.read(DATA, 16 * len(pairs))
    assert data is not None
    choose = min if kind == LEAST else max
    for number, (old, operand) in enumerate(pairs):
        place = 16 * number
        stored = int.from_bytes(data[place : place + bits // 8], "little")
        expected = choose(old, operand, key=lambda value: signed(value, bits))
        assert stored == expected, (hex(old), hex(operand))
        above = int.from_bytes(data[place : place + 8], "little") >> bits
        assert above == (0x5AA5_5AA5_5AA5_5AA5 << bits & (1 << 64) - 1) >> bits
        assert int.from_bytes(data[place + 8 : place + 16], "little") == old


@RUNNERS
@pytest.mark.parametrize("period", [None, 1, 3, 64])
@pytest.mark.parametrize("model", ["none", "cache"])
def test_in_loops_they_are_one_operation_each(
    runner: type[Runner], period: int | None, model: ModelName
) -> None:
    """A running maximum of bytes from -8 to 7, in all of a block that is executed again."""
    loop = [
        a.sub_imm(2, 2, 1),
        atomic(MOST, 0, "AL", 2, 31, 1),  # STSMAXLB has no A form; XZR alone does not tell
        atomic(LEAST, 1, "A", 2, 4, 3),
        a.add_imm(5, 5, 1),
        a.subs_imm(0, 0, 1),
    ]
    loop += [a.b_cond(a.NE, -4 * len(loop))]
    start = [*a.mov64(1, DATA), *a.mov64(3, DATA + 64), *a.mov64(0, 16), *a.mov64(2, 8)]
    code = [*start, *loop, a.b(0)]
    image = image_of({RAM: a.code(code), DATA: b"\xf8" + bytes(63) + b"\x20\x00"}, RAM)
    machine = Machine(image, runner=runner, period=period, model=model, ram=1 << 20)
    operations = len(start) + 16 * len(loop) + 4
    result = machine.run(operations)
    assert result.operations == operations
    x = machine.board.cpu.engine.x
    assert (x(5), x(4)) == (16, 0xFFF9)  # what was there before the last one
    memory = machine.board.memory
    assert memory.read(DATA, 1) == b"\x07"
    assert memory.read(DATA + 64, 2) == b"\xf8\xff"
    if period is not None:
        assert [sampled.operation for sampled in result.records] == list(
            range(period, operations + 1, period)
        )
        places = {o.pc: o for o in machine.operations}
        if period == 1:
            atomics = places[RAM + 4 * (len(start) + 1)], places[RAM + 4 * (len(start) + 2)]
            assert [o.va for o in atomics] == [DATA, DATA + 64]
            assert [o.pa for o in atomics] == [DATA, DATA + 64]


@RUNNERS
def test_one_that_faults_stores_nothing(runner: type[Runner]) -> None:
    """Misaligned under SCTLR_EL1.A, and where there is no memory."""
    vectors = RAM + 0x2000
    sctlr = 0x30D0_0800 | system.SCTLR_EL1.A.mask
    code = [
        *[*put(system.VBAR_EL1, vectors), *put(system.SCTLR_EL1, sctlr), *a.mov64(1, DATA + 1)],
        *[*a.mov64(3, 1), atomic(MOST, 2, "", 3, 4, 1), a.NOP],
        *[*a.mov64(1, 0x7000_0000), atomic(MOST, 2, "", 3, 4, 1), a.b(0)],
    ]
    handler = [
        a.add_imm(20, 20, 1),
        a.mrs(21, (3, 0, 6, 0, 0)),
        a.mrs(22, (3, 0, 4, 0, 1)),
        a.add_imm(22, 22, 4),
        a.msr((3, 0, 4, 0, 1), 22),
        a.ERET,
    ]
    board = board_at(code, el=1, runner=runner)
    board.memory.fill(vectors + 0x200, a.code(handler))
    board.memory.fill(DATA, b"\xff" * 16)
    assert board.run(200) is Ending.LIMIT
    assert board.cpu.engine.x(20) == 2
    assert board.cpu.engine.x(21) == 0x7000_0000
    assert board.memory.read(DATA, 16) == b"\xff" * 16
