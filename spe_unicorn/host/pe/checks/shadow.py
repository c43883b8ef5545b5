"""The shadow of a board's RAM: which bytes were written, and which an allocator gave away.

Compiled code looks at it at each load and store of a PE: in stubs, where blocks may count
themselves, and else by a hook, for which the engine takes its slow way. What others write to RAM is
told by the signals of memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const as uc_const

from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.host.native.shadow import heap, looking, marks, ranges
from spe_unicorn.host.native.shadow.blocks import accesses_of
from spe_unicorn.host.pe.checks.allocator import Allocator
from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1
_PAGE: Final = 1 << 12
_WORD: Final = 8
"""Bytes that the hook may look at beyond an access."""
_WHY: Final = "memory is checked"


class Block(NamedTuple):
    """A block of an allocator. Addresses are virtual, but for ``physical``."""

    address: int
    physical: int
    size: int
    live: bool
    got: int
    """To where the call returned that made it."""
    freed: int
    """The same of the call that gave it back, 0 for none."""


class Noted(NamedTuple):
    """What was found at an operation of a PE."""

    cpu: int
    pc: int
    executed: int
    """Operations of the PE before it."""
    kind: int
    """``marks.FRESH``, ``LOAD``, ``STORE`` or ``FREE``."""
    address: int
    """Physical, of an access; what was to be given back."""
    size: int
    follows: bool
    """Whether the PE has accessed what lies before it just before."""
    block: Block | None
    """The block that is meant, as it was then."""


class SavedPE(NamedTuple):
    """What is known of a PE: what it looks for, the last access, its calls of the allocator."""

    looks: int
    last_end: int
    opened: NDArray[np.void]


class Saved(NamedTuple):
    """What a shadow knows at one moment."""

    used: NDArray[np.int64]
    """Numbers of the pages of RAM with marks."""
    marks: NDArray[np.uint8]
    chunks: NDArray[np.void]
    function_count: int
    pes: list[SavedPE]


class Shadow:
    """The shadow of ``ram``, of which ``looks`` says what is looked for.

    ``functions`` are those of the allocator, as ``Allocator`` has them. ``borders`` are addresses
    at which the program's objects begin and end.
    """

    def __init__(
        self,
        cpus: Sequence[UnicornCPU],
        memory: RamMemory,
        ram: Ram,
        looks: int,
        functions: Sequence[tuple[int, int, int, int]] = (),
        borders: Iterable[int] = (),
    ) -> None:
        self._ram = ram
        self._marks = np.zeros(ram.size + _WORD, np.uint8)
        self._allocator = Allocator(functions, borders)
        self._pes = [
            _OfPE(cpu, self._hooked(number, cpu, memory, looks)) for number, cpu in enumerate(cpus)
        ]
        memory.filled.wire(self.written)
        for cpu in cpus:
            cpu.virtual.written.wire(partial(self._written_virtual, cpu))

    def _hooked(
        self, number: int, cpu: UnicornCPU, memory: RamMemory, looks: int
    ) -> marks.ShadowState:
        functions = self._allocator.addresses
        state, ram = marks.ShadowState(), self._ram
        state.here = user = ctypes.addressof(state)
        state.engine, state.state = cpu.engine.handle.value, cpu.state.address
        state.number = number
        state.marks, state.base, state.size = self._marks.ctypes.data, ram.base, ram.size
        state.looks = looks
        if functions:
            state.heap = self._allocator.at
        hooks = cpu.hooks
        kinds = uc_const.UC_HOOK_MEM_READ | uc_const.UC_HOOK_MEM_WRITE
        bounds = ram.base, ram.base + ram.size - 1
        hooks.add(kinds, looking.on_marked.address, bounds=bounds, user=user)
        accesses = accesses_of(hooks, memory, ram)
        if accesses is not None:
            accesses.follow_marks(state, self._allocator.rows)
        else:
            hooks.hook_accesses(wanted=True)
            if functions:
                hooks.add(uc_const.UC_HOOK_BLOCK, heap.on_code.address, user=user)
                hooks.stop_inline(_WHY)
        cpu.leave_zeroing_to_engine()
        cpu.engine.forget_all_code()
        return state

    def written(self, address: int, size: int) -> None:
        """Somebody has written ``size`` bytes at a physical address."""
        begin = max(address - self._ram.base, 0)
        end = min(address - self._ram.base + size, self._ram.size)
        if begin < end:
            self._marks[begin:end] |= marks.WRITTEN

    def _written_virtual(self, cpu: UnicornCPU, address: int, size: int) -> None:
        end = address + size
        while address < end:
            piece = min(end, (address | _PAGE - 1) + 1)
            physical = cpu.virtual.translate(address & _MASK, write=True)
            if physical is not None:
                self.written(physical, piece - address)
            address = piece

    def begin(self) -> None:
        """What RAM holds now is what somebody has written.

        Which blocks there are is not known any more: they are followed no longer.
        """
        for first, end in self._ram.used():
            self._marks[first:end] = marks.WRITTEN
        self._allocator.row["function_count"] = 0
        for pe in self._pes:
            pe.state.looks &= ~marks.HEAP
            pe.state.open = pe.state.slow = 0

    def save(self) -> Saved:
        """What is known now, for :meth:`restore`."""
        pages = self._marks[: self._ram.size].reshape(-1, _PAGE)
        used = np.flatnonzero(pages.any(axis=1))
        chunks = self._allocator.chunks[self._allocator.chunks["address"] != 0]
        chunks["mapping"] = chunks["place"] = 0
        function_count = int(self._allocator.row["function_count"])
        return Saved(used, pages[used], chunks, function_count, [pe.save() for pe in self._pes])

    def restore(self, saved: Saved) -> None:
        """Know again what was known when memory was as it is now."""
        pages = self._marks[: self._ram.size].reshape(-1, _PAGE)
        pages[:] = 0
        pages[saved.used] = saved.marks
        row, chunks = self._allocator.row, self._allocator.chunks
        chunks[:] = 0
        for chunk in saved.chunks:
            place = int(heap.place_of(int(chunk["address"])))
            while chunks[place]["address"]:
                place = (place + 1) % marks.CHUNKS
            chunks[place] = chunk
        row["used"] = len(saved.chunks)
        row["function_count"] = saved.function_count
        for pe, its in zip(self._pes, saved.pes, strict=True):
            pe.restore(its)

    def take(self) -> list[Noted]:
        """Take what was noted since the last call."""
        return [noted for number, pe in enumerate(self._pes) for noted in pe.take(number)]

    @property
    def full(self) -> bool:
        """Whether there were more blocks than are known."""
        return self._allocator.full


class _OfPE:
    """What one PE notes."""

    def __init__(self, cpu: UnicornCPU, state: marks.ShadowState) -> None:
        self._cpu = cpu
        self.state = state
        self._rows = np.zeros(marks.NOTES, marks.NOTE)
        self._seen = np.zeros(marks.SEEN, np.int64)
        self._opened = np.zeros(heap.OPEN, heap.OPENED)
        self._pages = ranges.no_pages()
        self._registers = np.zeros(heap.REGISTERS, np.int64)
        state.notes, state.seen = self._rows.ctypes.data, self._seen.ctypes.data
        state.opened, state.pages = self._opened.ctypes.data, self._pages.ctypes.data
        state.registers, state.copies = self._registers.ctypes.data, 1

    def save(self) -> SavedPE:
        """What is known of it."""
        state = self.state
        return SavedPE(state.looks, state.last_end, self._opened[: state.open].copy())

    def restore(self, saved: SavedPE) -> None:
        """Know that again."""
        self.state.looks, self.state.last_end = saved.looks, saved.last_end
        self.state.mapping = 0
        self.state.open = len(saved.opened)
        self._opened[: len(saved.opened)] = saved.opened
        self.state.slow = int(saved.opened["slow"].sum())
        if self.state.open:  # until a call returns, no block may count itself
            self._cpu.engine.forget_all_code()

    def take(self, number: int) -> list[Noted]:
        """Take its notes."""
        count, self.state.count = int(self.state.count), 0
        return [_noted(number, *row) for row in self._rows[:count].tolist()]


def _noted(
    cpu: int, pc: int, executed: int, kind: int, address: int, size: int, *rest: int
) -> Noted:
    follows, begin, physical, length, live, got, freed = rest
    block = Block(begin & _MASK, physical, length, bool(live), got & _MASK, freed & _MASK)
    known = block if begin else None
    return Noted(cpu, pc & _MASK, executed, kind, address & _MASK, size, bool(follows), known)
