"""Loads and stores of FEAT_SVE2p1 by the pseudocode of their pages (Arm ARM C8.2), and their words.

Memory is bytes by address. Vectors, predicates and general registers are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from tests.instructions.sve2p1.model import expanded

_MASK: Final = (1 << 64) - 1


class Vectors:
    """The registers of a PE with vectors of ``size`` bytes, and its memory."""

    def __init__(
        self, size: int, z: list[int], p: list[int], x: list[int], memory: dict[int, int]
    ) -> None:
        self.size = size
        self.z = z
        self.p = p
        self.x = x
        """X0 to X30, and SP."""
        self.memory = memory

    def load(self, address: int, size: int) -> int:
        """Mem[]: raises KeyError where there is no memory."""
        return sum(self.memory[(address + n) & _MASK] << 8 * n for n in range(size))

    def store(self, address: int, size: int, value: int) -> None:
        """Mem[] = value."""
        for n in range(size):
            if address + n & _MASK not in self.memory:
                raise KeyError(address + n)
            self.memory[address + n & _MASK] = value >> 8 * n & 0xFF


class Operands(NamedTuple):
    """The fields of a word: what is moved, governs, is the base, and is added to it."""

    t: int
    g: int
    n: int
    m: int
    """A register, or an immediate from -8 on."""


Operation = Callable[[Vectors, Operands], None]


class Page(NamedTuple):
    """One of the encodings."""

    name: str
    word: Callable[[Operands], int]
    operation: Operation
    by_register: bool
    vectors: int
    consecutive: bool = False
    gathers: bool = False

    def random(self, random: Random) -> Operands:
        """Random fields; X0 to X15 are those of a case."""
        t = random.randrange(32)
        if self.consecutive:
            t &= -self.vectors
        g = random.randrange(8, 16) if self.consecutive else random.randrange(8)
        m = random.randrange(16) if self.by_register else random.randrange(-8, 8)
        return Operands(t, g, random.randrange(32 if self.gathers else 16), m)


def _element(value: int, number: int, bits: int) -> int:
    return value >> number * bits & (1 << bits) - 1


def _is_active(mask: int, number: int, bits: int) -> bool:
    return bool(mask >> number * bits // 8 & 1)


def _scattered(load: bool) -> Page:
    def operation(v: Vectors, o: Operands) -> None:
        base, offset, result = v.z[o.n], 0 if o.m == 31 else v.x[o.m], 0
        for e in range(v.size // 16):
            if not _is_active(v.p[o.g], e, 128):
                continue
            address = _element(base, 2 * e, 64) + offset & _MASK
            if load:
                result |= v.load(address, 16) << 128 * e
            else:
                v.store(address, 16, _element(v.z[o.t], e, 128))
        if load:
            v.z[o.t] = result

    head = 0xC400_A000 if load else 0xE420_2000
    name = "LD1Q" if load else "ST1Q"
    return Page(name, lambda o: head | o.m << 16 | o.g << 10 | o.n << 5 | o.t, operation, True, 1,
                gathers=True)  # fmt: skip


def _widened(load: bool, by_register: bool, bits: int, head: int) -> Page:
    def operation(v: Vectors, o: Operands) -> None:
        elements, result = v.size // 16, 0
        offset = v.x[o.m] if by_register else o.m * elements
        address = v.x[o.n] + offset * (bits // 8) & _MASK
        for e in range(elements):
            if _is_active(v.p[o.g], e, 128):
                if load:
                    result |= v.load(address, bits // 8) << 128 * e
                else:
                    v.store(address, bits // 8, _element(v.z[o.t], e, 128) & (1 << bits) - 1)
            address = address + bits // 8 & _MASK
        if load:
            v.z[o.t] = result

    name = f"{'LD1' if load else 'ST1'}{'WD'[bits // 64]}.Q"
    return _page(name, head, operation, by_register, 1)


def _structures(load: bool, by_register: bool, count: int, head: int) -> Page:
    def operation(v: Vectors, o: Operands) -> None:
        elements, results = v.size // 16, [0] * count
        offset = v.x[o.m] if by_register else o.m * elements * count
        address = v.x[o.n] + offset * 16 & _MASK
        for e in range(elements):
            for r in range(count):
                if _is_active(v.p[o.g], e, 128):
                    if load:
                        results[r] |= v.load(address, 16) << 128 * e
                    else:
                        v.store(address, 16, _element(v.z[(o.t + r) % 32], e, 128))
                address = address + 16 & _MASK
        for r in range(count if load else 0):
            v.z[(o.t + r) % 32] = results[r]

    name = f"{'LD' if load else 'ST'}{count}Q"
    return _page(name, head, operation, by_register, count)


def _consecutive(load: bool, by_register: bool, count: int, size: int, temporal: int) -> Page:
    def operation(v: Vectors, o: Operands) -> None:
        bits, elements, results = 8 * size, v.size // size, [0] * count
        mask = expanded(v.p[o.g] & 0xFFFF, v.size)
        added = 0 if o.m == 31 else v.x[o.m]
        offset = added if by_register else o.m * count * elements
        address = v.x[o.n] + offset * size & _MASK
        for r in range(count):
            for e in range(elements):
                if _is_active(mask, r * elements + e, bits):
                    if load:
                        results[r] |= v.load(address, size) << bits * e
                    else:
                        v.store(address, size, _element(v.z[o.t + r], e, bits))
                address = address + size & _MASK
        for r in range(count if load else 0):
            v.z[o.t + r] = results[r]

    head = 0xA000_0000 | (not load) << 21 | (count == 4) << 15 | (size.bit_length() - 1) << 13
    name = f"{'LD' if load else 'ST'}{'NT' if temporal else ''}1{'BHWD'[size.bit_length() - 1]}"
    name += f" x{count}{'' if by_register else ', immediate'}"

    def word(o: Operands) -> int:
        added = o.m << 16 if by_register else 1 << 22 | (o.m & 15) << 16
        return head | added | (o.g & 7) << 10 | o.n << 5 | o.t | temporal

    return Page(name, word, operation, by_register, count, consecutive=True)


def _page(name: str, head: int, operation: Operation, by_register: bool, count: int) -> Page:
    def word(o: Operands) -> int:
        return head | (o.m if by_register else o.m & 15) << 16 | o.g << 10 | o.n << 5 | o.t

    name += "" if by_register else ", immediate"
    return Page(name, word, operation, by_register, count)


PAGES: Final = (
    *(_scattered(load) for load in (True, False)),
    *(
        _widened(load, by_register, bits, head)
        for load, by_register, bits, head in (
            (True, False, 32, 0xA510_2000), (True, True, 32, 0xA500_8000),
            (True, False, 64, 0xA590_2000), (True, True, 64, 0xA580_8000),
            (False, False, 32, 0xE500_E000), (False, True, 32, 0xE500_4000),
            (False, False, 64, 0xE5C0_E000), (False, True, 64, 0xE5C0_4000),
        )
    ),
    *(
        _structures(load, by_register, count, head)
        for load, by_register, count, head in (
            (True, False, 2, 0xA490_E000), (True, True, 2, 0xA4A0_8000),
            (True, False, 3, 0xA510_E000), (True, True, 3, 0xA520_8000),
            (True, False, 4, 0xA590_E000), (True, True, 4, 0xA5A0_8000),
            (False, False, 2, 0xE440_0000), (False, True, 2, 0xE460_0000),
            (False, False, 3, 0xE480_0000), (False, True, 3, 0xE4A0_0000),
            (False, False, 4, 0xE4C0_0000), (False, True, 4, 0xE4E0_0000),
        )
    ),
    *(
        _consecutive(load, by_register, count, size, temporal)
        for load in (True, False)
        for by_register in (True, False)
        for count in (2, 4)
        for size in (1, 2, 4, 8)
        for temporal in (0, 1)
    ),
)  # fmt: skip
