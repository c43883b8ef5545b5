"""FEAT_BF16 by hand."""

from __future__ import annotations

import struct

import pytest

from tests.instructions.harness import lanes, one

N, M, D = 1, 2, 3
REGISTERS = N << 5 | M << 16 | D
BFCVT, BFCVTN, BFCVTN2, BFDOT, BFMMLA = (
    0x1E63_4000,
    0x0EA1_6800,
    0x4EA1_6800,
    0x6E40_FC00,
    0x6E40_EC00,
)
BFMLALB, BFMLALT = 0x2EC0_FC00, 0x6EC0_FC00
IOC, OFC, UFC, IXC, IDC = 1, 4, 8, 16, 128
DN, FZ = 1 << 25, 1 << 24
UP, DOWN, ZERO = 1 << 22, 2 << 22, 3 << 22


def single(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def half(value: float) -> int:
    """A number that BFloat16 holds."""
    assert single(value) & 0xFFFF == 0
    return single(value) >> 16


@pytest.mark.parametrize(
    ("value", "fpcr", "expected", "fpsr"),
    [
        (0x3F80_0000, 0, 0x3F80, 0),
        (0x3F80_8000, 0, 0x3F80, IXC),  # a tie, to even
        (0x3F81_8000, 0, 0x3F82, IXC),
        (0x3F80_8001, 0, 0x3F81, IXC),
        (0x3F80_0001, UP, 0x3F81, IXC),
        (0xBF80_0001, UP, 0xBF80, IXC),
        (0xBF80_0001, DOWN, 0xBF81, IXC),
        (0x3F80_FFFF, ZERO, 0x3F80, IXC),
        (0x7F7F_FFFF, 0, 0x7F80, OFC | IXC),
        (0x7F7F_FFFF, ZERO, 0x7F7F, IXC),
        (0x7F80_0000, 0, 0x7F80, 0),
        (0xFFC1_2345, 0, 0xFFC1, 0),
        (0x7F81_2345, 0, 0x7FC1, IOC),  # signalling
        (0xFFC1_2345, DN, 0x7FC0, 0),
        (0x0000_0001, 0, 0x0000, UFC | IXC),
        (0x0001_0000, 0, 0x0001, 0),  # a denormal that fits
        (0x8001_0000, FZ, 0x8000, IDC),
    ],
)
def test_conversion(value: int, fpcr: int, expected: int, fpsr: int) -> None:
    result = one(BFCVT | N << 5 | D, {N: value, D: -1 & (1 << 128) - 1}, fpcr=fpcr)
    assert (result.z[D], result.fpsr) == (expected, fpsr)


def test_narrowing_to_the_lower_and_the_upper_half() -> None:
    numbers = lanes(*map(single, (1.0, 2.0, -3.0, 0.5)), size=32)
    narrow = lanes(*map(half, (1.0, 2.0, -3.0, 0.5)), size=16)
    old = lanes(1, 2, 3, 4, 5, 6, 7, 8, size=16)
    assert one(BFCVTN | N << 5 | D, {N: numbers, D: old}).z[D] == narrow
    expected = narrow << 64 | old & (1 << 64) - 1
    assert one(BFCVTN2 | N << 5 | D, {N: numbers, D: old}).z[D] == expected


def test_conversion_of_active_elements() -> None:
    """BFCVT zeroes what is above each result; BFCVTNT keeps what is below it."""
    numbers = lanes(single(1.0), single(2.0), single(4.0), single(8.0), size=32)
    old = lanes(*[0x1111_2222] * 4, size=32)
    active = 0x0101  # elements 0 and 2
    result = one(0x658A_A000 | N << 5 | D, {N: numbers, D: old}, p={0: active})
    assert result.z[D] == lanes(half(1.0), 0x1111_2222, half(4.0), 0x1111_2222, size=32)
    result = one(0x648A_A000 | N << 5 | D, {N: numbers, D: old}, p={0: active})
    assert result.z[D] == lanes(
        half(1.0) << 16 | 0x2222, 0x1111_2222, half(4.0) << 16 | 0x2222, 0x1111_2222, size=32
    )


def test_dot_product() -> None:
    n = lanes(*map(half, (1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0)), size=16)
    m = lanes(*map(half, (5.0, 6.0, 7.0, 8.0, 0.0, 0.0, 0.0, 0.0)), size=16)
    d = lanes(*map(single, (100.0, 200.0, 0.0, 0.0)), size=32)
    result = one(BFDOT | REGISTERS, {N: n, M: m, D: d})
    assert result.z[D] == lanes(*map(single, (117.0, 253.0, 0.0, 0.0)), size=32)


@pytest.mark.parametrize(
    ("addend", "a", "b", "expected"),
    [
        (1.0, 0x3300, 0x3F80, 0x3F80_0001),  # 1 + 2 ** -25 is rounded to odd
        (-1.0, 0x3300, 0x3F80, 0xBF7F_FFFF),
        (0.0, 0x0001, 0x7F00, 0),  # a denormal counts as zero
        (0.0, 0x0080, 0x3F00, 0),  # a product that is denormal, too: 2 ** -127
        (0.0, 0x7F00, 0x7F00, 0x7F80_0000),  # overflow
        (0.0, 0x7F80, 0x0000, 0x7FC0_0000),  # infinity times zero
        (0.0, 0xFFC1, 0x3F80, 0x7FC0_0000),  # any NaN is the default one
    ],
)
def test_dot_product_has_its_own_rounding_and_leaves_fpsr(
    addend: float, a: int, b: int, expected: int
) -> None:
    result = one(BFDOT | REGISTERS, {N: a, M: b, D: single(addend)}, fpcr=UP)
    assert (result.z[D], result.fpsr) == (expected, 0)


def test_matrix_product() -> None:
    """Rows of Vn are [1, 0, 0, 0] and [0, 0, 0, 2], those of Vm [3, 4, 5, 6] and [7, 8, 9, 10]."""
    n = lanes(*map(half, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0)), size=16)
    m = lanes(*map(half, (3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)), size=16)
    result = one(BFMMLA | REGISTERS, {N: n, M: m, D: 0})
    assert result.z[D] == lanes(*map(single, (3.0, 7.0, 12.0, 20.0)), size=32)


def test_multiply_and_add_long_takes_even_or_odd_elements() -> None:
    n = lanes(*map(half, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)), size=16)
    m = lanes(*map(half, (2.0, 3.0, 2.0, 3.0, 2.0, 3.0, 2.0, 3.0)), size=16)
    d = lanes(*map(single, (0.5, 0.5, 0.5, 0.5)), size=32)
    bottom = one(BFMLALB | REGISTERS, {N: n, M: m, D: d})
    assert bottom.z[D] == lanes(*map(single, (2.5, 6.5, 10.5, 14.5)), size=32)
    top = one(BFMLALT | REGISTERS, {N: n, M: m, D: d})
    assert top.z[D] == lanes(*map(single, (6.5, 12.5, 18.5, 24.5)), size=32)


def test_multiply_and_add_long_rounds_as_software_has_chosen() -> None:
    before = {N: half(1.0), M: 0x3300, D: single(1.0)}  # 1 + 2 ** -25
    nearest, up = (one(BFMLALB | REGISTERS, before, fpcr=fpcr) for fpcr in (0, UP))
    assert (nearest.z[D], nearest.fpsr) == (0x3F80_0000, IXC)
    assert (up.z[D] & 0xFFFF_FFFF, up.fpsr) == (0x3F80_0001, IXC)
