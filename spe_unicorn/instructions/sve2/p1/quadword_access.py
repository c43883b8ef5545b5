"""Loads and stores of FEAT_SVE2p1: quadwords, structures of them, and several vectors by a counter.

Each is made by contiguous LD1 or ST1, or by a gather or scatter, of what the engine has: with its
translation, its faults and its order. Here is what those access, ``host.pe.amended`` makes them.
"""

from __future__ import annotations

from itertools import product
from typing import Final, NamedTuple

from spe_unicorn.bits import signed
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.p1.counters import COUNTER, mask_of

_NEEDS, _UNIT = Needs.SVE | Needs.SVE2 | Needs.SVE2P1, Unit.SVE2P1_MEMORY
SCATTERED, WIDENED, STRUCTURES, CONSECUTIVE = range(1, 5)
"""Forms."""
STORES, BY_REGISTER = 1, 2
"""Bits of a kind: it is a store; a general register is added to the base."""
SCALE = 2
"""From which bit of a kind on the logarithm of an element's bytes stands, or how many vectors."""
QUADWORD: Final = 16
"""Bytes."""
_ZERO_REGISTER: Final = 31
_GATHER, _SCATTER = 0xC5A0_C000, 0xE5C0_A000
"""LD1D and ST1D of [Zn.D, #0]."""


def _row(name: str, pattern: str, form: int, kind: int, size: int = 0) -> Row:
    return row(name, pattern, _NEEDS, _UNIT, form, kind | size << SCALE, Uses.MEMORY)


def _consecutive(scale: int) -> tuple[Row, ...]:
    """The rows of an element's size: two vectors or four, with the hint or without."""
    found = []
    for four, store, hint in product((0, 1), (0, STORES), (0, 1)):
        name = f"{'ST' if store else 'LD'}{'NT' if hint else ''}1{'BHWD'[scale]}"
        what = f"consecutive registers, {4 if four else 2}"
        last = f"{four}{scale:02b} gggn nnnn {'ddd0' if four else 'dddd'}{hint}"
        found += [
            _row(f"{name} (scalar plus scalar, {what})", f"1010 0000 00{store}m mmmm {last}",
                 CONSECUTIVE, store | BY_REGISTER, scale),
            _row(f"{name} (scalar plus immediate, {what})", f"1010 0000 01{store}0 iiii {last}",
                 CONSECUTIVE, store, scale),
        ]  # fmt: skip
    return tuple(found)


def _structures(count: int) -> tuple[Row, ...]:
    """LD2Q to LD4Q, ST2Q to ST4Q."""
    of, end = f"{count - 1:02b}", "ggg nnnnn ddddd"
    return (
        _row(f"LD{count}Q (scalar plus immediate)", f"1010010{of}001 iiii 111 {end}",
             STRUCTURES, 0, count),
        _row(f"LD{count}Q (scalar plus scalar)", f"1010010{of}01 mmmmm 100 {end}",
             STRUCTURES, BY_REGISTER, count),
        _row(f"ST{count}Q (scalar plus immediate)", f"11100100{of}00 iiii 000 {end}",
             STRUCTURES, STORES, count),
        _row(f"ST{count}Q (scalar plus scalar)", f"11100100{of}1 mmmmm 000 {end}",
             STRUCTURES, STORES | BY_REGISTER, count),
    )  # fmt: skip


def _widened(size: str, scale: int, load: str, store: str) -> tuple[Row, ...]:
    """``load`` and ``store`` are bits 24 to 21."""
    end, what = "ggg nnnnn ddddd", "single register, 128-bit element"
    return (
        _row(f"LD1{size} (scalar plus immediate, {what})", f"1010010{load}1 iiii 001 {end}",
             WIDENED, 0, scale),
        _row(f"LD1{size} (scalar plus scalar, {what})", f"1010010{load} mmmmm 100 {end}",
             WIDENED, BY_REGISTER, scale),
        _row(f"ST1{size} (scalar plus immediate, {what})", f"1110010{store}0 iiii 111 {end}",
             WIDENED, STORES, scale),
        _row(f"ST1{size} (scalar plus scalar, {what})", f"1110010{store} mmmmm 010 {end}",
             WIDENED, STORES | BY_REGISTER, scale),
    )  # fmt: skip


ROWS: Final[tuple[Row, ...]] = (
    _row("LD1Q", "1100 0100 000m mmmm 101g ggnn nnnd dddd", SCATTERED, 0),
    _row("ST1Q", "1110 0100 001m mmmm 001g ggnn nnnd dddd", SCATTERED, STORES),
    *_widened("W", 2, "1000", "1000"),
    *_widened("D", 3, "1100", "1110"),
    *(each for count in (2, 3, 4) for each in _structures(count)),
    *(each for scale in range(4) for each in _consecutive(scale)),
)


def is_undefined(one: Row, word: int) -> bool:
    """Whether a word of these rows is UNDEFINED all the same: where a predicate governs, XZR."""
    index = one.unit is _UNIT and one.form in (WIDENED, STRUCTURES) and one.kind & BY_REGISTER
    return bool(index) and word >> 16 & 31 == _ZERO_REGISTER


class Transfer(NamedTuple):
    """The elements that a word moves between memory and vectors, by contiguous LD1 or ST1."""

    vectors: tuple[int, ...]
    """By number, in the order of their bytes in memory."""
    scale: int
    """The logarithm of an element's bytes."""
    active: int
    """A bit for each byte in the vectors; the lowest of an element says whether it is active."""
    first: int
    """How many elements the first one is from the base; modulo 1 << 64."""


def transfer_of(one: Row, word: int, governing: int, index: int, size: int) -> Transfer:
    """What a word of these rows but LD1Q and ST1Q moves, with vectors of ``size`` bytes.

    ``governing`` is the predicate that governs it, and ``index`` what the general register holds
    that its row adds to the base.
    """
    amount, t = one.kind >> SCALE, word & 31
    immediate = signed(word >> 16 & 15, 4)
    by_register = one.kind & BY_REGISTER
    if one.form == CONSECUTIVE:
        count = 4 if word >> 15 & 1 else 2
        first = index if by_register else immediate * count * (size >> amount)
        numbers = tuple((t & -count) + n for n in range(count))
        return Transfer(numbers, amount, mask_of(governing & COUNTER, count * size, size), first)
    quadwords = [n for n in range(size // QUADWORD) if governing >> QUADWORD * n & 1]
    if one.form == WIDENED:
        active = sum(1 << (n << amount) for n in quadwords)
        first = index if by_register else immediate * (size // QUADWORD)
        return Transfer((t,), amount, active, first)
    whole = (1 | 1 << QUADWORD // 2) * sum(1 << QUADWORD * n for n in range(amount))
    active = sum(whole << QUADWORD * amount * n for n in quadwords)
    first = 2 * index if by_register else immediate * amount * (size >> 3)
    return Transfer(tuple((t + n) % 32 for n in range(amount)), 3, active, first)


def governor_of(one: Row, word: int) -> int:
    """The number of the predicate register that governs a word of these rows."""
    return word >> 10 & 7 | (8 if one.form == CONSECUTIVE else 0)


def scattered(one: Row, vector: int, addresses: int) -> int:
    """The LD1D or ST1D, governed by P0, of a vector and addresses of doublewords."""
    return (_SCATTER if one.kind & STORES else _GATHER) | addresses << 5 | vector


def from_memory(one: Row, moved: list[int], size: int) -> list[int]:
    """What vectors hold after a load of what lies in memory, each of ``size`` bytes."""
    if one.form == WIDENED:
        return [_lanes(moved[0], 1 << (one.kind >> SCALE), QUADWORD, size // QUADWORD)]
    if one.form == STRUCTURES:
        quadwords = _split(moved, size)
        return [_joined(quadwords[n :: len(moved)]) for n in range(len(moved))]
    return moved


def to_memory(one: Row, held: list[int], size: int) -> list[int]:
    """What lies in memory after a store of what vectors hold."""
    if one.form == WIDENED:
        return [_lanes(held[0], QUADWORD, 1 << (one.kind >> SCALE), size // QUADWORD)]
    if one.form == STRUCTURES:
        each = size // QUADWORD
        apart = [_split([vector], size) for vector in held]
        quadwords = [apart[n % len(held)][n // len(held)] for n in range(each * len(held))]
        return [_joined(quadwords[n * each : (n + 1) * each]) for n in range(len(held))]
    return held


def swapped(vector: int, size: int) -> int:
    """A vector with the halves of each quadword exchanged."""
    mask = (1 << 4 * QUADWORD) - 1
    return _joined([q >> 4 * QUADWORD | (q & mask) << 4 * QUADWORD for q in _split([vector], size)])


def _lanes(value: int, before: int, after: int, count: int) -> int:
    """Numbers in lanes of ``before`` bytes, in lanes of ``after`` bytes."""
    mask = (1 << 8 * min(before, after)) - 1
    return sum((value >> 8 * before * n & mask) << 8 * after * n for n in range(count))


def _split(vectors: list[int], size: int) -> list[int]:
    """The quadwords of some vectors."""
    mask = (1 << 8 * QUADWORD) - 1
    return [v >> 8 * QUADWORD * n & mask for v in vectors for n in range(size // QUADWORD)]


def _joined(quadwords: list[int]) -> int:
    return sum(value << 8 * QUADWORD * n for n, value in enumerate(quadwords))
