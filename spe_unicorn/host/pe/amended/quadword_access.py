"""Loads and stores of FEAT_SVE2p1, by LD1 and ST1 that the engine executes in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from spe_unicorn.arch.exceptions.routing import Routed, data_abort_of
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.rules.effective import sctlr
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.vectors import predicate, set_predicate, set_vector, vector, vector_bits
from spe_unicorn.instructions.rows import Row
from spe_unicorn.instructions.sve2.p1.quadword_access import (
    BY_REGISTER,
    QUADWORD,
    SCATTERED,
    STORES,
    STRUCTURES,
    contiguous,
    from_memory,
    governor_of,
    scattered,
    swapped,
    to_memory,
    transfer_of,
)

Execute = Callable[[int], bool]
"""Has the engine execute a word in place of the one at the PC. True if that raised an exception."""
_MASK: Final = (1 << 64) - 1
_ZERO_REGISTER: Final = 31
_STACK_POINTER: Final = 31
_BOTH_HALVES: Final = 1 | 1 << 8
"""Of a quadword, as elements of doublewords in a predicate."""


class QuadwordAccess:
    """One execution of such an instruction, the operation at the PC."""

    def __init__(self, cpu: UnicornCPU, row: Row, word: int, execute: Execute) -> None:
        self._cpu = cpu
        self._row = row
        self._word = word
        self._execute = execute
        self._stores = bool(row.kind & STORES)
        self._bits = vector_bits(cpu)
        self._size = self._bits // 8
        self._governing = predicate(cpu, governor_of(row, word))

    def carry_out(self) -> tuple[Routed, int] | bool:
        """Execute it: True if it raised an exception, or the Alignment fault that it has to raise.

        With the fault is its address. Nothing has changed then, but that elements before it have
        been stored.
        """
        if self._row.form == SCATTERED:
            return self._by_addresses()
        transfer = transfer_of(self._row, self._word, self._governing, self._general(), self._size)
        base = self._word >> 5 & 31
        if self._row.form == STRUCTURES and transfer.active and self._checks_alignment():
            first = (transfer.active & -transfer.active).bit_length() - 1
            start = self._cpu.engine.get(SP) if base == _STACK_POINTER else self._x(base)
            address = start + (transfer.first << transfer.scale) + first & _MASK
            if address % QUADWORD:
                return self._misaligned(address)
        cpu, index = self._cpu, 1 if base == 0 else 0
        swaps = self._row.form == STRUCTURES and self._big_endian()
        old = [vector(cpu, n, self._bits) for n in transfer.vectors]
        raised = False
        with self._borrowed(index):
            if self._stores:
                stored = [swapped(v, self._size) for v in old] if swaps else old
                self._put(transfer.vectors, to_memory(self._row, stored, self._size))
            elements = self._size >> transfer.scale
            for n, number in enumerate(transfer.vectors):
                if n:
                    cpu.pc = cpu.pc - 4 & _MASK
                part = transfer.active >> self._size * n & (1 << self._size) - 1
                set_predicate(cpu, 0, part, self._size)
                cpu.engine.set_x(index, transfer.first + n * elements & _MASK)
                raised = self._execute(contiguous(self._row, transfer, number, base, index))
                if raised:
                    break
        if raised or self._stores:
            self._put(transfer.vectors, old)
        else:
            moved = [vector(cpu, n, self._bits) for n in transfer.vectors]
            loaded = from_memory(self._row, moved, self._size)
            self._put(
                transfer.vectors, [swapped(v, self._size) for v in loaded] if swaps else loaded
            )
        return raised

    def _by_addresses(self) -> tuple[Routed, int] | bool:
        """LD1Q or ST1Q: both halves of each quadword by a gather or scatter of doublewords."""
        cpu, word = self._cpu, self._word
        t, z = word & 31, vector(cpu, word >> 5 & 31, self._bits)
        addresses, active, fault = 0, 0, None
        for n in range(self._size // QUADWORD):
            address = (z >> 128 * n) + self._general() & _MASK
            high = address + 8 & _MASK
            low, high = (high, address) if self._big_endian() else (address, high)
            addresses |= (low | high << 64) << 128 * n
            if not self._governing >> QUADWORD * n & 1:
                continue
            if address % QUADWORD and self._checks_alignment():
                fault = self._misaligned(address)
                break  # elements before it raise their own faults first
            active |= _BOTH_HALVES << QUADWORD * n
        scratch = 1 if t == 0 else 0
        kept, old = vector(cpu, scratch, self._bits), vector(cpu, t, self._bits)
        raised = False
        with self._borrowed(0):
            set_vector(cpu, scratch, addresses, self._bits)
            set_predicate(cpu, 0, active, self._size)
            if active or fault is None:
                raised = self._execute(scattered(self._row, t, scratch))
        set_vector(cpu, scratch, kept, self._bits)
        if fault is None or raised:
            return raised
        set_vector(cpu, t, old, self._bits)
        if active:
            cpu.pc = cpu.pc - 4 & _MASK
        return fault

    @contextmanager
    def _borrowed(self, index: int) -> Iterator[None]:
        """P0, and the general register ``index``, are as they were once this is over."""
        cpu = self._cpu
        kept, governing = cpu.engine.x(index), predicate(cpu, 0)
        try:
            yield
        finally:
            set_predicate(cpu, 0, governing, self._size)
            cpu.engine.set_x(index, kept)

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

    def _misaligned(self, address: int) -> tuple[Routed, int]:
        fault = FaultRecord(Fault.Alignment, 0, write=self._stores)
        return data_abort_of(self._cpu, fault), address
