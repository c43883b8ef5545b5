"""FEAT_LUT by hand: QEMU 7.2 lacks it."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR2_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.pe.vectors import vector
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.instructions.harness import lanes, one
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

N, M, D = 1, 2, 3
OPERANDS = M << 16 | N << 5 | D
LUTI2_B, LUTI2_H, LUTI4_B, LUTI4_H = 0x4E80_1000, 0x4EC0_0000, 0x4E40_2000, 0x4E40_1000
SVE_2B, SVE_2H, SVE_4B = 0x4520_B000, 0x4520_A800, 0x4560_A400
SVE_4H_TWO, SVE_4H = 0x4520_B400, 0x4520_BC00
BYTES = tuple(range(0x40, 0x60))
HALFWORDS = tuple(range(0x1230, 0x1240))
"""Elements of the table in Z4, and of Z5 after it."""


def looked_up(word: int, element: int, indices: int, size: int = 16) -> tuple[int, ...]:
    """The elements of the result, with 16 different ones in Z4 and Z5."""
    if element == 8:
        table, second = lanes(*BYTES[:16], size=8), lanes(*BYTES[16:], size=8)
    else:
        table, second = lanes(*HALFWORDS[:8], size=16), lanes(*HALFWORDS[8:], size=16)
    registers = {4: table, 5: second, M: indices}
    result = one(word & ~(31 << 5) | 4 << 5 | M << 16 | D, registers, size=size).z[D]
    return tuple(result >> element * n & (1 << element) - 1 for n in range(8 * size // element))


@pytest.mark.parametrize(
    ("word", "index", "element", "bits"),
    [
        *((LUTI2_B | part << 13, part, 8, 2) for part in range(4)),
        *((LUTI2_H | part << 12, part, 16, 2) for part in range(8)),
        *((LUTI4_B | part << 14, part, 8, 4) for part in range(2)),
        *((LUTI4_H | part << 13, part, 16, 4) for part in range(4)),
        *((SVE_2B | part << 22, part, 8, 2) for part in range(4)),
        *((SVE_2H | (part >> 1) << 22 | (part & 1) << 12, part, 16, 2) for part in range(8)),
        *((SVE_4B | part << 23, part, 8, 4) for part in range(2)),
        *((SVE_4H_TWO | part << 22, part, 16, 4) for part in range(4)),
    ],
)
@pytest.mark.parametrize("size", [16, 48, 256])
def test_elements_are_chosen_by_packed_indices(
    word: int, index: int, element: int, bits: int, size: int
) -> None:
    """Element e is that of the table which bits ``bits * (segment * elements + e)`` on name.

    Those of Advanced SIMD have 16 bytes, and leave zeros above.
    """
    simd = word >> 24 == 0x4E
    length = 16 if simd else size
    elements = 8 * length // element
    indices = Random(word).getrandbits(8 * length)
    found = looked_up(word, element, indices, size)
    table = BYTES if element == 8 else HALFWORDS
    expected = [
        table[indices >> bits * (index * elements + e) & (1 << bits) - 1] for e in range(elements)
    ]
    assert list(found[:elements]) == expected
    assert not any(found[elements:])


@pytest.mark.parametrize("size", [32, 64, 256])
def test_a_table_of_one_long_vector(size: int) -> None:
    """Sixteen halfwords are the low 256 bits of one register."""
    for index in range(4):
        word, elements = SVE_4H | index << 22, size // 2
        table, indices = lanes(*HALFWORDS, size=16), Random(size).getrandbits(8 * size)
        result = one(word | OPERANDS, {N: table, M: indices}, size=size).z[D]
        assert [result >> 16 * e & 0xFFFF for e in range(elements)] == [
            HALFWORDS[indices >> 4 * (index * elements + e) & 15] for e in range(elements)
        ]


@pytest.mark.parametrize(
    ("core", "length", "word", "there"),
    [
        ("max", 128, LUTI2_B, True),
        ("max", 128, LUTI4_H, True),
        ("max", 128, SVE_4B, True),
        ("max", 128, SVE_4H, False),
        ("max", 256, SVE_4H, True),
        ("max", 128, LUTI2_B & ~(1 << 12), False),
        ("max", 128, LUTI4_B & ~(1 << 13), False),
        ("max,FEAT_LUT=off", 128, LUTI2_B, False),
        ("neoverse-n2", 128, SVE_4B, False),
        ("neoverse-n1,FEAT_LUT=on", 128, LUTI2_H, True),
        ("neoverse-v1,FEAT_LUT=on", 128, SVE_2B, False),
    ],
)
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_where_they_are(
    core: str, length: int, word: int, there: bool, runner: type[Runner]
) -> None:
    """What has op2 or len otherwise is UNDEFINED, and so is a table of 256 bits with 128."""
    setting = [*put(system.CPTR_EL3, 1 << 8), *a.mov64(0, length // 128 - 1), a.msr(ZCR_EL3, 0)]
    if "n1" in core:
        setting = [a.NOP]
    code = [*setting, a.ISB, word | OPERANDS, word | OPERANDS, a.b(0)]
    board = board_at(code, el=3, core=load_core(core), runner=runner)
    board.run(len(setting) + 3)
    assert (board.cpu.pc == RAM + 4 * (len(code) - 1)) == there
    assert (core == "max" or "FEAT_LUT=on" in core) == board.cpu.registers.read(
        ID_AA64ISAR2_EL1
    ).LUT


ZCR_EL1, ZCR_EL3 = (3, 0, 1, 2, 0), (3, 6, 1, 2, 0)
CODE = 0x4000_0000


@pytest.mark.parametrize("period", [1, 3, None])
def test_both_runners_come_to_the_same(period: int | None) -> None:
    words = [w | OPERANDS for w in (LUTI2_B, LUTI4_H, SVE_2H, SVE_4H_TWO, SVE_4H)]
    loop = [0x04E5_44A1, 0x04A5_44A2, *words, a.add_imm(5, 5, 1)]  # INDEX Z1, Z2 by X5
    code = [
        *(*put(system.CPACR_EL1, 0x33 << 16), *a.mov64(0, 1), a.msr(ZCR_EL1, 0), a.ISB),
        *(*loop, a.b(-4 * len(loop))),
    ]
    image = image_of({CODE: a.code(code)}, CODE)
    fast, reference = (
        Machine(image, period=period, runner=runner, core="max")  # type: ignore[arg-type]
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(150).differences(reference.run(150)) == {}
    assert fast.operations == reference.operations
    ours, theirs = (vector(each.board.cpu, D, 256) for each in (fast, reference))
    assert ours == theirs != 0
