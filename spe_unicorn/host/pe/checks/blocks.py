"""A log of the blocks of memory that a program gets from an allocator and gives back.

Hooks stand at the functions of the allocator and at their returns, so other code runs as fast as
without.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.host.native.shadow import heap, marks, ranges
from spe_unicorn.host.pe.checks.allocator import Allocator
from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1


class Happened(NamedTuple):
    """A block that a PE got, or gave back at a time in ticks: then ``size`` is None."""

    cpu: int
    ticks: int
    address: int
    size: int | None
    place: int
    """To where the call of the allocator returns."""


class BlockLog:
    """The log of a board whose PEs are ``cpus``.

    ``functions`` are those of an allocator as for ``shadow.Shadow``, ``returns`` the addresses of
    operations that return from them.
    """

    def __init__(
        self,
        cpus: Sequence[UnicornCPU],
        functions: Sequence[tuple[int, int, int, int]],
        returns: Sequence[int],
    ) -> None:
        self._cpus = cpus
        self._allocator = Allocator(functions)
        self._rows = np.zeros(marks.LOG, marks.LOGGED)
        self._allocator.row["log"] = self._rows.ctypes.data
        self.lost = 0
        """How many there were that are not in the log."""
        self._pes = [self._hooked(number, cpu, returns) for number, cpu in enumerate(cpus)]

    def _hooked(
        self, number: int, cpu: UnicornCPU, returns: Sequence[int]
    ) -> tuple[marks.ShadowState, object]:
        state, opened = marks.ShadowState(), np.zeros(heap.OPEN, heap.OPENED)
        pages, registers = ranges.no_pages(), np.zeros(heap.REGISTERS, np.int64)
        state.here = user = ctypes.addressof(state)
        state.engine, state.state = cpu.engine.handle.value, cpu.state.address
        state.number, state.opened = number, opened.ctypes.data
        state.pages = pages.ctypes.data
        state.registers, state.copies = registers.ctypes.data, 1
        state.heap = self._allocator.at
        functions = self._allocator.addresses
        for addresses, hook in ((functions, heap.on_function), (returns, heap.on_return)):
            for address in addresses:
                at = address & _MASK
                cpu.hooks.add(uc_const.UC_HOOK_CODE, hook.address, bounds=(at, at), user=user)
        cpu.engine.forget_all_code()
        return state, (opened, pages, registers)

    @property
    def full(self) -> bool:
        """Whether there were more blocks than are known."""
        return bool(self.lost) or self._allocator.full

    def take(self) -> Iterator[Happened]:
        """What was logged since the last call, in its order."""
        count = int(self._allocator.row["logged"])
        self._allocator.row["logged"] = 0
        self.lost += max(0, count - marks.LOG)
        for executed, address, size, place, number in self._rows[:count].tolist():
            cpu = self._cpus[number]
            ticks = cpu.rate.ticks(executed + cpu.state.skipped)
            got = None if size < 0 else size
            yield Happened(number, ticks, address & _MASK, got, place & _MASK)
