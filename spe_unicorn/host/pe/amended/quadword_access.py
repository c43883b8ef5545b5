"""Loads and stores of FEAT_SVE2p1, by LD1 and ST1 that the engine executes in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.exceptions.routing import Routed, alignment_fault
from spe_unicorn.arch.rules.effective import sctlr
from spe_unicorn.host.pe.amended.at_stops import borrowed
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register
from spe_unicorn.host.pe.vectors import predicate, set_predicate, set_vector, vector, vector_bits
from spe_unicorn.instructions.rows import Row
from spe_unicorn.instructions.sve2.memory import contiguous
from spe_unicorn.instructions.sve2.p1.quadword_access import (
    BY_REGISTER,
    QUADWORD,
    SCATTERED,
    STORES,
    STRUCTURES,
    Transfer,
    from_memory,
    governor_of,
    scattered,
    swapped,
    to_memory,
    transfer_of,
)

Execute = Callable[[int], bool]
"""Has the engine execute a word in place of the one at the PC. True if that raised an exception."""
Refused = Callable[..., Routed | None]
"""The Alignment fault of a misaligned address in Device memory, for ``write=``; None if none."""
_MASK: Final = (1 << 64) - 1
_PAGE: Final = 4096
_ZERO_REGISTER: Final = 31
_BOTH_HALVES: Final = 1 | 1 << 8
"""Of a quadword, as elements of doublewords in a predicate."""


def _last_page(address: int) -> int:
    """The page of the last byte of a quadword."""
    return (address + QUADWORD - 1 & _MASK) & -_PAGE


def _pages_of(address: int) -> set[int]:
    """The pages of a quadword, by their addresses."""
    return {address & -_PAGE, _last_page(address)}


class QuadwordAccess:
    """One execution of such an instruction, the operation at the PC."""

    def __init__(
        self,
        cpu: UnicornCPU,
        row: Row,
        word: int,
        execute: Execute,
        take: Callable[[Routed, int], None],
        refused: Refused,
    ) -> None:
        """``take`` has an exception be taken, with the address that faulted."""
        self._cpu = cpu
        self._row = row
        self._word = word
        self._execute = execute
        self._take = take
        self._refused = refused
        self._stores = bool(row.kind & STORES)
        self._bits = vector_bits(cpu)
        self._size = self._bits // 8
        self._governing = predicate(cpu, governor_of(row, word))

    def carry_out(self) -> bool:
        """Execute it. True if it raised an exception.

        Nothing has changed then, but that elements before the one that faulted have been stored.
        """
        if self._row.form == SCATTERED:
            return self._by_addresses()
        transfer = transfer_of(self._row, self._word, self._governing, self._general(), self._size)
        misaligned = self._first_misaligned(transfer)
        if misaligned is None:
            return self._by_vectors(transfer)
        self._take(*misaligned)
        return True

    def _first_misaligned(self, transfer: Transfer) -> tuple[Routed, int] | None:
        """The Alignment fault of the first quadword of structures that has one, with its address.

        None where none has one, and where the engine finds another fault before.
        """
        cpu, active = self._cpu, transfer.active
        base = cpu.engine.get(register(self._word >> 5 & 31)) + (transfer.first << transfer.scale)
        if self._row.form != STRUCTURES or base % QUADWORD == 0:
            return None
        pages: set[int] = set()
        for place in range(0, active.bit_length(), QUADWORD):
            begin = base + place & _MASK
            if active >> place & 1 and not _pages_of(begin) <= pages:
                fault = self._misaligned(begin)
                if fault is not None or not self._translates(begin):
                    return fault
                pages |= _pages_of(begin)
        return None

    def _misaligned(self, address: int) -> tuple[Routed, int] | None:
        """The Alignment fault of a quadword that is not aligned, with its address.

        SCTLR_ELx.A asks for it, or Device memory, for the first byte that is there.
        """
        if self._checks_alignment():
            return alignment_fault(self._cpu, write=self._stores), address
        first = self._refused(address, write=self._stores)
        if first is not None:
            return first, address
        end = _last_page(address)
        if end == address & -_PAGE or not self._translates(address):
            return None
        second = self._refused(end, write=self._stores)
        return None if second is None else (second, end)

    def _translates(self, address: int) -> bool:
        """Whether both ends of a quadword can be accessed."""
        ends = address, address + QUADWORD - 1 & _MASK
        translate = self._cpu.virtual.translate
        return None not in [translate(end, write=self._stores) for end in ends]

    def _by_vectors(self, transfer: Transfer) -> bool:
        """Move one vector after the other, each by an LD1 or ST1."""
        cpu, row, base = self._cpu, self._row, self._word & 31 << 5
        index = 0 if base else 1
        old = [vector(cpu, n, self._bits) for n in transfer.vectors]
        elements, raised = self._size >> transfer.scale, False
        with borrowed(cpu, index, 0):
            if self._stores:
                self._put(transfer.vectors, to_memory(row, self._swapped(old), self._size))
            for n, number in enumerate(transfer.vectors):
                if n:
                    cpu.pc = cpu.pc - 4 & _MASK
                part = transfer.active >> self._size * n & (1 << self._size) - 1
                set_predicate(cpu, 0, part, self._size)
                cpu.engine.set_x(index, transfer.first + n * elements & _MASK)
                word = contiguous(transfer.scale, base | number, index, stores=self._stores)
                raised = self._execute(word)
                if raised:
                    break
        if raised or self._stores:
            self._put(transfer.vectors, old)
        else:
            moved = [vector(cpu, n, self._bits) for n in transfer.vectors]
            self._put(transfer.vectors, self._swapped(from_memory(row, moved, self._size)))
        return raised

    def _swapped(self, vectors: list[int]) -> list[int]:
        """Vectors of structures, with the halves of quadwords as memory has them."""
        if self._row.form != STRUCTURES or not self._big_endian():
            return vectors
        return [swapped(value, self._size) for value in vectors]

    def _by_addresses(self) -> bool:
        """LD1Q or ST1Q: both halves of each quadword by a gather or scatter of doublewords."""
        cpu, word = self._cpu, self._word
        t, z = word & 31, vector(cpu, word >> 5 & 31, self._bits)
        offset, reverse = self._general(), self._big_endian()
        addresses, active, misaligned = 0, 0, None
        for n in range(self._size // QUADWORD):
            address = (z >> 128 * n) + offset & _MASK
            high = address + 8 & _MASK
            low, high = (high, address) if reverse else (address, high)
            addresses |= (low | high << 64) << 128 * n
            if not self._governing >> QUADWORD * n & 1:
                continue
            misaligned = self._misaligned(address) if address % QUADWORD else None
            if misaligned is not None:
                break  # elements before it raise their own faults first
            active |= _BOTH_HALVES << QUADWORD * n
        scratch = 1 if t == 0 else 0
        kept, old = vector(cpu, scratch, self._bits), vector(cpu, t, self._bits)
        raised = False
        with borrowed(cpu, 0, 0):
            set_vector(cpu, scratch, addresses, self._bits)
            set_predicate(cpu, 0, active, self._size)
            if active or misaligned is None:
                raised = self._execute(scattered(self._row, t, scratch))
        set_vector(cpu, scratch, kept, self._bits)
        if misaligned is None or raised:
            return raised
        set_vector(cpu, t, old, self._bits)
        if active:
            cpu.pc = cpu.pc - 4 & _MASK
        self._take(*misaligned)
        return True

    def _put(self, numbers: tuple[int, ...], values: list[int]) -> None:
        for number, value in zip(numbers, values, strict=True):
            set_vector(self._cpu, number, value, self._bits)

    def _general(self) -> int:
        """What the general register holds that is added to the base; 0 if there is none."""
        added = self._row.form == SCATTERED or self._row.kind & BY_REGISTER
        return self._x(self._word >> 16 & 31) if added else 0

    def _x(self, number: int) -> int:
        return 0 if number == _ZERO_REGISTER else self._cpu.engine.x(number)

    def _checks_alignment(self) -> bool:
        """Whether a quadword has to be aligned: the engine makes its halves by themselves."""
        return bool(sctlr(self._cpu).A)

    def _big_endian(self) -> bool:
        """Whether the high half of a quadword is at the lower address."""
        order = sctlr(self._cpu)
        return bool(order.EE if self._cpu.el else order.E0E)
