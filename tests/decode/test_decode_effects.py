"""Conditions and branches against the registers before them."""

from __future__ import annotations

import pytest

from spe_unicorn.decode import branch_taken, branch_target, condition_holds, decode

N, Z, C, V = 8, 4, 2, 1

HOLDS = [
    (0, "EQ", {f for f in range(16) if f & Z}),
    (1, "NE", {f for f in range(16) if not f & Z}),
    (2, "CS", {f for f in range(16) if f & C}),
    (3, "CC", {f for f in range(16) if not f & C}),
    (4, "MI", {f for f in range(16) if f & N}),
    (5, "PL", {f for f in range(16) if not f & N}),
    (6, "VS", {f for f in range(16) if f & V}),
    (7, "VC", {f for f in range(16) if not f & V}),
    (8, "HI", {C, C | N, C | V, C | N | V}),
    (9, "LS", set(range(16)) - {C, C | N, C | V, C | N | V}),
    (10, "GE", {0, C, Z, Z | C, N | V, N | V | C, N | V | Z, N | V | Z | C}),
    (11, "LT", {N, N | C, N | Z, N | Z | C, V, V | C, V | Z, V | Z | C}),
    (12, "GT", {0, C, N | V, N | V | C}),
    (13, "LE", set(range(16)) - {0, C, N | V, N | V | C}),
    (14, "AL", set(range(16))),
    (15, "NV", set(range(16))),
]


@pytest.mark.parametrize(("condition", "name", "flags"), HOLDS, ids=[row[1] for row in HOLDS])
def test_condition_holds_for_just_these_flags(condition: int, name: str, flags: set[int]) -> None:
    assert {f for f in range(16) if condition_holds(condition, f)} == flags


ZERO, ONE, MINUS_ONE = 0, 1, (1 << 64) - 1
HIGH = 1 << 32
TAKEN = [
    (0xB400_0040, "cbz x0", {ZERO}, {ONE, HIGH, MINUS_ONE}),
    (0x3400_0040, "cbz w0", {ZERO, HIGH}, {ONE, MINUS_ONE}),
    (0xB500_0040, "cbnz x0", {ONE, HIGH, MINUS_ONE}, {ZERO}),
    (0x3500_0040, "cbnz w0", {ONE, MINUS_ONE}, {ZERO, HIGH}),
    (0x3608_0040, "tbz w0, #1", {ZERO, ONE, HIGH}, {2, MINUS_ONE}),
    (0xB600_0040, "tbz x0, #32", {ZERO, ONE}, {HIGH, MINUS_ONE}),
    (0xB700_0040, "tbnz x0, #32", {HIGH, MINUS_ONE}, {ZERO, ONE}),
    (0xF501_0040, "cbgt x0, #2", {3, HIGH}, {ZERO, 2, MINUS_ONE}),
    (0xF521_0040, "cblt x0, #2", {ZERO, ONE, MINUS_ONE}, {2, HIGH}),
    (0xF541_0040, "cbhi x0, #2", {3, HIGH, MINUS_ONE}, {ZERO, 2}),
    (0x7561_0040, "cblo w0, #2", {ZERO, ONE, HIGH}, {2, MINUS_ONE}),
    (0x75C1_0040, "cbeq w0, #2", {2, HIGH | 2}, {ZERO, MINUS_ONE}),
    (0xF5E1_0040, "cbne x0, #2", {ZERO, HIGH | 2}, {2}),
    (0xF401_0040, "cbgt x0, x1", {17, HIGH}, {16, ZERO, MINUS_ONE}),
    (0xF421_0040, "cbge x0, x1", {17, 16, HIGH}, {ZERO, MINUS_ONE}),
    (0xF441_0040, "cbhi x0, x1", {17, HIGH, MINUS_ONE}, {16, ZERO}),
    (0x7461_0040, "cbhs w0, w1", {16, MINUS_ONE}, {ZERO, HIGH}),
    (0x74C1_8040, "cbbeq w0, w1", {16, 0x110}, {ZERO, 17}),
    (0x74E1_C040, "cbhne w0, w1", {0x110, 17}, {16, 0x1_0010}),
    (0x7401_8040, "cbbgt w0, w1", {17, 0x7F}, {0x80, 16, 0xFF}),
]


@pytest.mark.parametrize(
    ("word", "text", "taken", "not_taken"), TAKEN, ids=[row[1] for row in TAKEN]
)
def test_branch_on_a_register_is_taken_for_just_these_values(
    word: int, text: str, taken: set[int], not_taken: set[int]
) -> None:
    def goes(value: int) -> bool:
        return branch_taken(decode(word), [value, 16, *[0] * 29], 0)

    assert {v for v in taken | not_taken if goes(v)} == taken


def test_branch_on_xzr_compares_zero() -> None:
    cbz_xzr = decode(0xB400_005F)
    assert branch_taken(cbz_xzr, [1] * 31, 0)


def test_branch_on_condition_looks_at_the_flags() -> None:
    b_eq = decode(0x5400_0040)
    assert branch_taken(b_eq, [0] * 31, Z)
    assert not branch_taken(b_eq, [0] * 31, N | C | V)


def test_branch_without_a_condition_is_taken() -> None:
    for word in (0x1400_0002, 0xD61F_0020, 0xD65F_03C0, 0xD69F_03E0):  # b, br, ret, eret
        assert branch_taken(decode(word), [0] * 31, 0)


def test_asking_whether_an_addition_branches_is_an_error() -> None:
    with pytest.raises(ValueError, match="0x8b020020 is no branch"):
        branch_taken(decode(0x8B02_0020), [0] * 31, 0)


X = [0x100 * n for n in range(31)]
TARGETS = [
    (0x1400_0002, "b .+8", 0x4008),
    (0x97FF_FFFE, "bl .-8", 0x3FF8),
    (0x54FF_FFE0, "b.eq .-4", 0x3FFC),
    (0xD61F_0020, "br x1", 0x100),
    (0xD63F_0040, "blr x2", 0x200),
    (0xD65F_03C0, "ret", 0x1E00),
    (0xD65F_0060, "ret x3", 0x300),
    (0xD61F_03E0, "br xzr", 0),
    (0xD61F_083F, "braaz x1", None),
    (0xD73F_0822, "blraa x1, x2", None),
    (0xD65F_0BFF, "retaa", None),
    (0xD69F_03E0, "eret", None),
    (0x8B02_0020, "add x0, x1, x2", None),
]


@pytest.mark.parametrize(("word", "text", "target"), TARGETS, ids=[row[1] for row in TARGETS])
def test_branch_target(word: int, text: str, target: int | None) -> None:
    assert branch_target(decode(word), 0x4000, X) == target


def test_branch_target_wraps_at_64_bits() -> None:
    assert branch_target(decode(0x1400_0002), (1 << 64) - 4, X) == 4
    assert branch_target(decode(0x17FF_FFFE), 4, X) == (1 << 64) - 4
