"""FEAT_SVE_SM4 and FEAT_F32MM by hand."""

from __future__ import annotations

import struct

import pytest

from tests.instructions.harness import lanes, one

SM4E, SM4EKEY = 0x4523_E000, 0x4520_F000
FMMLA = 0x64A0_E400
N, M, D = 1, 2, 3
KEY = (0x0123_4567, 0x89AB_CDEF, 0xFEDC_BA98, 0x7654_3210)
"""That of the example in SM4's standard, which is its text as well."""
FAMILY = (0xA3B1_BAC6, 0x56AA_3350, 0x677D_9197, 0xB270_22DC)
CIPHER = (0x681E_DF34, 0xD206_965E, 0x86B3_E94F, 0x536E_4246)


def test_sm4_of_the_example_of_its_standard() -> None:
    """Eight times four round keys, and as many rounds; the words are those of a byte order of SM4.

    The second 128 bits have the words of another key, and come to something else.
    """
    keys = lanes(*(k ^ f for k, f in zip(KEY, FAMILY, strict=True)), *KEY, size=32)
    state = lanes(*KEY, *KEY, size=32)
    for n in range(8):
        constants = lanes(
            *(
                sum((4 * (4 * n + i) + j) * 7 % 256 << 24 - 8 * j for j in range(4))
                for i in range(4)
            ),
            size=32,
        )
        keys = one(
            SM4EKEY | M << 16 | N << 5 | D, {N: keys, M: constants | constants << 128}, size=32
        ).z[D]
        state = one(SM4E | M << 5 | D, {D: state, M: keys}, size=32).z[D]
    words = [state >> 32 * n & 0xFFFF_FFFF for n in range(8)]
    assert tuple(reversed(words[:4])) == CIPHER
    assert tuple(reversed(words[4:])) != CIPHER


def matrix(*values: float) -> int:
    return int.from_bytes(struct.pack(f"<{len(values)}f", *values), "little")


INFINITE, DEFAULT = float("inf"), 0x7FC0_0000
IOC, IXC = 1, 16


@pytest.mark.parametrize(
    ("n", "m", "addend", "expected", "fpsr"),
    [
        ((1, 2, 3, 4), (5, 6, 7, 8), (1, 0, 0, 0.5), (18, 23, 39, 53.5), 0),
        ((2**24, 1, 0, 0), (1, 1, 0, 0), (0, 0, 0, 0), (2**24, 0, 0, 0), IXC),
    ],
)
def test_products_of_matrices(
    n: tuple[float, ...],
    m: tuple[float, ...],
    addend: tuple[float, ...],
    expected: tuple[float, ...],
    fpsr: int,
) -> None:
    """A row of Zn by a row of Zm; each product and each sum is rounded."""
    word = FMMLA | M << 16 | N << 5 | D
    result = one(word, {N: matrix(*n), M: matrix(*m), D: matrix(*addend)})
    assert (result.z[D], result.fpsr) == (matrix(*expected), fpsr)


def test_infinity_by_zero_is_invalid() -> None:
    word = FMMLA | M << 16 | N << 5 | D
    result = one(word, {N: matrix(INFINITE, 0, 0, 0), M: matrix(0, 0, 1, 0), D: 0})
    assert result.z[D] == DEFAULT | 0x7F80_0000 << 32
    assert result.fpsr == IOC
