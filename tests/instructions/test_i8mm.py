"""FEAT_I8MM by hand."""

from __future__ import annotations

import pytest

from tests.instructions.harness import lanes, one

N, M, D = 1, 2, 3
REGISTERS = N << 5 | M << 16 | D
ONES = lanes(*[-1] * 16, size=8)
TWOS = lanes(*[2] * 16, size=8)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x4E80_A400, [8 * -2] * 4),  # SMMLA: -1 * 2
        (0x6E80_A400, [8 * 510] * 4),  # UMMLA: 255 * 2
        (0x4E80_AC00, [8 * 510] * 4),  # USMMLA: 255 * 2
        (0x4E80_9C00, [4 * 510] * 4),  # USDOT
        (0x4F80_F000, [4 * 510] * 4),  # USDOT by element 0
        (0x4F00_F000, [4 * -2] * 4),  # SUDOT: -1 * 2
    ],
)
def test_signs(word: int, expected: list[int]) -> None:
    result = one(word | REGISTERS, {N: ONES, M: TWOS, D: lanes(0, 0, 0, 0, size=32)})
    assert result.z[D] == lanes(*expected, size=32)


def test_a_matrix_product_takes_rows_of_both() -> None:
    """Rows of Vn are [1, 0...] and [0, 1, 0...], those of Vm [5, 6, ...] and [7, 8, ...]."""
    n = lanes(1, *[0] * 7, 0, 1, *[0] * 6, size=8)
    m = lanes(5, 6, *[0] * 6, 7, 8, *[0] * 6, size=8)
    result = one(0x4E80_A400 | REGISTERS, {N: n, M: m, D: lanes(100, 200, 300, 400, size=32)})
    assert result.z[D] == lanes(105, 207, 306, 408, size=32)


def test_sums_wrap() -> None:
    result = one(0x4E80_9C00 | REGISTERS, {N: ONES, M: TWOS, D: lanes(*[0x7FFF_FFFF] * 4, size=32)})
    assert result.z[D] == lanes(*[0x7FFF_FFFF + 2040] * 4, size=32)


def test_64_bits_clear_the_rest_of_the_register() -> None:
    before = {N: ONES, M: TWOS, D: (1 << 512) - 1}
    result = one(0x0E80_9C00 | REGISTERS, before, size=64)
    assert result.z[D] == lanes(2039, 2039, size=32)


def test_an_element_is_taken_from_each_segment_of_an_sve_vector() -> None:
    """USDOT Z3.S, Z1.B, Z2.B[2]: the third group of four bytes of each 128 bits."""
    m = lanes(0, 0, 0x0101_0101, 0, 9, 9, -1, 9, size=32)
    result = one(0x44A0_1800 | 2 << 19 | REGISTERS, {N: ONES | ONES << 128, M: m}, size=32)
    assert result.z[D] == lanes(*[4 * 255] * 4, *[-4 * 255] * 4, size=32)


def test_a_destination_that_is_an_operand_is_read_before() -> None:
    """USDOT Z2.S, Z1.B, Z2.B[0]: element 0 of the old Z2 counts for all."""
    m = lanes(0x0101_0101, 0, 0, 0, size=32)
    result = one(0x44A0_1800 | N << 5 | M << 16 | M, {N: ONES, M: m})
    assert result.z[M] == lanes(0x0101_0101 + 1020, 1020, 1020, 1020, size=32)
