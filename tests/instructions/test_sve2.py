"""FEAT_SVE2 by hand: what compilers use, and where the pseudocode has edges."""

from __future__ import annotations

import pytest

from tests.instructions.harness import State, carried, lanes, one

N, M, D = 1, 2, 3
REGISTERS = N << 5 | M << 16 | D
DESTRUCTIVE = M << 5 | D  # Zdn is Z3, Zm is Z2, governed by P0
ALL = 0xFFFF
MIN8, MIN64, MAX64 = 0x80, 1 << 63, (1 << 63) - 1


@pytest.mark.parametrize(
    ("name", "word", "n", "m", "expected"),
    [
        ("MUL", 0x04A0_6000, (3, -2, 1 << 16, 7), (5, 5, 1 << 16, -7), (15, -10, 0, -49)),
        ("SMULH", 0x04A0_6800, (1 << 31, -1, 1 << 30, 0), (1 << 31, 1, 4, 9), (1 << 30, -1, 1, 0)),
        ("UMULH", 0x04A0_6C00, (1 << 31, -1, 1 << 30, 0), (1 << 31, 2, 4, 9), (1 << 30, 1, 1, 0)),
        ("SQDMULH", 0x04A0_7000, (1 << 31, 1 << 30, 1, 3), (1 << 31, 4, 1, 1 << 30),
         ((1 << 31) - 1, 2, 0, 1)),
        ("SQRDMULH", 0x04A0_7400, (1, 1, 3, 0), (1 << 30, (1 << 30) - 1, 1 << 30, 1), (1, 0, 2, 0)),
        ("EORBT", 0x4580_9000, (1, 2, 4, 8), (16, 32, 64, 128), (33, 0, 132, 0)),
        ("EORTB", 0x4580_9400, (1, 2, 4, 8), (16, 32, 64, 128), (0, 18, 0, 72)),
        ("SABA", 0x4580_F800, (5, -5, 1 << 31, 0), (7, 5, -1, 0), (2, 10, (1 << 31) - 1, 0)),
        ("UABA", 0x4580_FC00, (5, -5, 1 << 31, 0), (7, 5, -1, 0), (2, -10, (1 << 31) - 1, 0)),
    ],
)  # fmt: skip
def test_of_32_bits(
    name: str, word: int, n: tuple[int, ...], m: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    result = one(word | REGISTERS, {N: lanes(*n, size=32), M: lanes(*m, size=32)})
    assert result.z[D] == lanes(*expected, size=32), name


@pytest.mark.parametrize(
    ("name", "code", "a", "b", "expected"),
    [
        ("SHADD", 0x10, (-3, 127), (-4, 127), (-4, 127)),
        ("UHADD", 0x11, (255, 3), (255, 4), (255, 3)),
        ("SHSUB", 0x12, (-128, 5), (127, 2), (-128, 1)),
        ("SRHADD", 0x14, (-3, 127), (-4, 127), (-3, 127)),
        ("URHADD", 0x15, (255, 3), (255, 4), (255, 4)),
        ("SQADD", 0x18, (127, -128), (1, -1), (127, -128)),
        ("UQADD", 0x19, (255, 4), (1, 5), (255, 9)),
        ("SQSUB", 0x1A, (-128, 5), (1, 7), (-128, -2)),
        ("UQSUB", 0x1B, (4, 9), (5, 5), (0, 4)),
        ("SUQADD", 0x1C, (-1, 100), (255, 100), (127, 127)),
        ("USQADD", 0x1D, (1, 200), (-2, 100), (0, 255)),
        ("SQSUBR", 0x1E, (1, 7), (-128, 5), (-128, -2)),
        ("SRSHL", 0x02, (3, -3), (-1, -1), (2, -1)),
        ("SQSHL", 0x08, (64, -65), (1, 1), (127, -128)),
        ("UQSHL", 0x09, (64, 128), (1, 1), (128, 255)),
        ("UQRSHL", 0x0B, (255, 1), (-8, -9), (1, 0)),
    ],
)
def test_of_bytes_with_a_predicate(
    name: str, code: int, a: tuple[int, ...], b: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Element 2 is not active, and stays."""
    before = {D: lanes(*a, 0x55, size=8), M: lanes(*b, 0x11, size=8)}
    result = one(0x4400_8000 | code << 16 | DESTRUCTIVE, before, p={0: 0b011})
    assert result.z[D] == lanes(*expected, 0x55, size=8), name


@pytest.mark.parametrize(
    ("name", "word", "d", "m", "k", "expected"),
    [
        ("EOR3", 0x0420_3800, 0b1100, 0b1010, 0b0001, 0b0111),
        ("BCAX", 0x0460_3800, 0b1100, 0b1010, 0b0010, 0b0100),
        ("BSL", 0x0420_3C00, 0b1100, 0b1010, 0b1001, 0b1010),
        ("NBSL", 0x04E0_3C00, 0b1100, 0b1010, 0b1001, ~0b1010),
        ("BSL1N", 0x0460_3C00, 0b1100, 0b1010, 0b1001, 0b0011),
        ("BSL2N", 0x04A0_3C00, 0b1100, 0b1010, 0b1001, 0b1100),
    ],
)
def test_bits_of_three(name: str, word: int, d: int, m: int, k: int, expected: int) -> None:
    """Zdn is Z3, Zm Z2, Zk Z1; the upper bits of all are 0."""
    result = one(word | REGISTERS, {D: d, M: m, N: k})
    assert result.z[D] & 0xF == expected & 0xF, name


def test_exclusive_or_and_rotate() -> None:
    """XAR Z3.S, Z3.S, Z2.S, #8: tsz:imm3 is 64 - 8."""
    word = 0x0420_3400 | 1 << 22 | 0b11 << 19 | 0 << 16 | DESTRUCTIVE
    result = one(word, {D: lanes(0x1234_5678, size=32), M: lanes(0, 0x0000_00FF, size=32)})
    assert result.z[D] == lanes(0x7812_3456, 0xFF00_0000, size=32)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x4500_E400, (1 + 0x70, 1 + 0x7)),  # USRA
        (0x4500_E000, (1 - 0x10, 1 + 0x7)),  # SSRA
        (0x4500_EC00, (1 + 0x70, 1 + 0x8)),  # URSRA
        (0x4500_F000, (0x70, 0x07)),  # SRI: the bit above stays 0
    ],
)
def test_shifts_that_add(word: int, expected: tuple[int, int]) -> None:
    """By 1, for .B: tsz:imm3 is 16 - 1; the operands are 0xE0 and 0x0F."""
    word |= 1 << 19 | 7 << 16 | N << 5 | D
    result = one(word, {N: lanes(0xE0, 0x0F, size=8), D: lanes(*[1] * 16, size=8)})
    assert result.z[D] & 0xFFFF == lanes(*expected, size=8)


def test_halves_are_widened_and_narrowed() -> None:
    n, m = lanes(1, -2, 3, -4, size=32), lanes(10, 20, 30, 40, size=32)
    bottom = one(0x45C0_7000 | REGISTERS, {N: n, M: m})  # SMULLB .D
    assert bottom.z[D] == lanes(10, 90, size=64)
    top = one(0x45C0_7400 | REGISTERS, {N: n, M: m})
    assert top.z[D] == lanes(-40, -160, size=64)
    high = one(
        0x45E0_6000 | REGISTERS, {N: lanes(1 << 63, 5 << 32, size=64), M: lanes(1, 1, size=64)}
    )
    assert high.z[D] == lanes(1 << 31, 0, 5, 0, size=32)  # ADDHNB .S


def test_long_elements_of_64_bits_saturate() -> None:
    """SQDMULLB .D of the least numbers; SQADD and UQSUB of 64 bits."""
    least = lanes(1 << 31, 0, 1 << 31, 0, size=32)
    assert one(0x45C0_6000 | REGISTERS, {N: least, M: least}).z[D] == lanes(MAX64, MAX64, size=64)
    before = {D: lanes(MAX64, MIN64, size=64), M: lanes(1, -1, size=64)}
    assert one(0x44D8_8000 | DESTRUCTIVE, before, p={0: ALL}).z[D] == lanes(MAX64, MIN64, size=64)
    before = {D: lanes(1, MIN64, size=64), M: lanes(MIN64, 1, size=64)}
    assert one(0x44DB_8000 | DESTRUCTIVE, before, p={0: ALL}).z[D] == lanes(0, MAX64, size=64)


def flags_and_predicate(word: int, first: int, second: int) -> tuple[int, int]:
    """NZCV, and P3 after a word on X1 and X2."""
    x = [0] * 16
    x[1], x[2] = first % (1 << 64), second % (1 << 64)
    (result,) = carried(
        [(word | 2 << 16 | 1 << 5 | 3, State((0,) * 32, (ALL,) * 16, tuple(x)))], 16
    )
    assert result is not None
    return result.nzcv >> 28, result.p[3]


@pytest.mark.parametrize(
    ("word", "first", "second", "nzcv", "predicate"),
    [
        (0x25A0_1000, 5, 4, 0b0000, 0x1100),  # WHILEGE .S: 5, 4 in the highest elements
        (0x25A0_1010, 5, 4, 0b0000, 0x1000),  # WHILEGT
        (0x25A0_1000, 3, 4, 0b0110, 0),
        (0x25A0_1000, 9, 4, 0b1000, 0x1111),
        (0x25A0_1800, -1, 4, 0b1000, 0x1111),  # WHILEHS
        (0x25A0_3000, 0x100, 0x108, 0b1010, 0x0011),  # WHILEWR .S: two elements apart
        (0x25A0_3000, 0x108, 0x100, 0b1000, 0x1111),  # a write before is no conflict
        (0x25A0_3010, 0x108, 0x100, 0b1010, 0x0011),  # WHILERW
        (0x25A0_3000, 0x100, 0x103, 0b1000, 0x1111),  # less than an element: counts as none
    ],
)
def test_predicates_of_loops(word: int, first: int, second: int, nzcv: int, predicate: int) -> None:
    found = flags_and_predicate(word, first, second)
    assert found[1] == predicate
    assert found[0] == nzcv


def test_match_looks_at_its_own_128_bits() -> None:
    """MATCH P3.B, P0/Z, Z1.B, Z2.B."""
    n = lanes(1, 2, 3, *[0] * 13, 1, 9, *[0] * 14, size=8)
    m = lanes(3, 1, *[7] * 14, 9, *[7] * 15, size=8)
    state = State((0, n, m, *[0] * 29), (0b111 | 0b11 << 16,) * 16, (0,) * 16)
    (result,) = carried([(0x4520_8000 | 2 << 16 | 1 << 5 | 3, state)], 32)
    assert result is not None
    assert (result.p[3], result.nzcv >> 28) == (0b101 | 1 << 17, 0b1000)


def test_count_of_what_was_before() -> None:
    """HISTCNT Z3.S, P0/Z, Z1.S, Z2.S."""
    n, m = lanes(5, 5, 6, 5, size=32), lanes(5, 7, 5, 5, size=32)
    result = one(0x45A0_C000 | REGISTERS, {N: n, M: m, D: -1 & (1 << 128) - 1}, p={0: 0x1101})
    assert result.z[D] == lanes(1, 0, 0, 3, size=32)


def test_look_up_in_two_registers() -> None:
    """TBL Z3.S, {Z1.S, Z2.S}, Z4.S, and TBX, which keeps what has no element."""
    z = {1: lanes(10, 11, 12, 13, size=32), 2: lanes(20, 21, 22, 23, size=32)}
    z |= {4: lanes(7, 0, 8, 3, size=32), 3: lanes(90, 91, 92, 93, size=32)}
    assert one(0x05A0_2800 | 4 << 16 | 1 << 5 | 3, z).z[3] == lanes(23, 10, 0, 13, size=32)
    assert one(0x05A0_2C00 | 4 << 16 | 1 << 5 | 3, z).z[3] == lanes(90, 10, 92, 13, size=32)


def test_rounds_of_aes() -> None:
    """AESE of zeros: each byte becomes 0x63. AESMC of one column of FIPS-197's example."""
    assert one(0x4522_E000 | DESTRUCTIVE, {}).z[D] == lanes(*[0x63] * 16, size=8)
    column = lanes(0xDB, 0x13, 0x53, 0x45, size=8)
    assert one(0x4520_E000 | D, {D: column}).z[D] == lanes(0x8E, 0x4D, 0xA1, 0xBC, size=8)
    assert one(0x4520_E400 | D, {D: lanes(0x8E, 0x4D, 0xA1, 0xBC, size=8)}).z[D] == column
