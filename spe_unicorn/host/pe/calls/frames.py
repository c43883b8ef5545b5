"""Calls by frame records: the pairs of X29 and X30 in memory to which X29 points.

A function that has made no frame record yet, or makes none, is called from where X30 leads to. That
is so where call frame information says that X30 has not been saved; without it, where X30 leads out
of the function and not to where the last frame record does. A function that calls itself before it
makes a frame record then lacks that call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

import numpy as np

from spe_unicorn.arch.operation import Calls
from spe_unicorn.compiled import large_table
from spe_unicorn.host.native.sampling.frames import (
    COUNT,
    DEPTH,
    FIRST,
    LINK,
    ROW_WORDS,
    frames_at_end,
    frames_here,
)
from spe_unicorn.host.native.state.sample_row import SAMPLES
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.symbols.frames import RETURN_ADDRESS, FrameRule

_MASK: Final = (1 << 64) - 1
_HIGH: Final = 1 << 55
_ADDRESS: Final = (1 << 48) - 1
_MOST_KNOWN: Final = 1 << 16
"""Different chains of calls that are remembered."""


class Named(Protocol):
    """Functions, and how they keep what their callers need, by virtual address."""

    def function(self, address: int) -> str | None:
        """The name of the function at an address."""
        ...

    def frame(self, address: int) -> FrameRule | None:
        """What call frame information says of an address."""
        ...


def without_signature(address: int) -> int:
    """A return address without the signature that pointer authentication may have put in it."""
    return address | _MASK & ~_ADDRESS if address & _HIGH else address & _ADDRESS


def is_caller(names: Named, pc: int, link: int, recorded: list[int]) -> bool:
    """Whether X30, which is ``link``, says where the function at ``pc`` was called.

    ``recorded`` are the return addresses of the frame records.
    """
    rule = names.frame(pc)
    if rule is not None and RETURN_ADDRESS not in rule.saved:
        return not rule.outermost
    if recorded and recorded[0] == link:
        return False
    caller = names.function(link - 4)
    return caller is not None and caller != names.function(pc)


class FrameRecords:
    """The calls that led to the samples of one PE, by frame records. ``names`` has functions."""

    DERIVED: ClassVar[tuple[str, ...]] = ("_known", "_table")

    def __init__(self, cpu: UnicornCPU, names: Named) -> None:
        self._cpu = cpu
        self._names = names
        self._known: dict[tuple[int, bytes], Calls] = {}
        self._table = large_table(SAMPLES + 1, ROW_WORDS)
        cpu.state.led = self._table.ctypes.data
        cpu.hooks.blocks.forget()

    @property
    def by_blocks(self) -> bool:
        """Compiled code notes them, so that blocks with a sampled operation may run."""
        return True

    def here(self, pc: int) -> Calls:
        """Those that led to the operation at ``pc``, before which the engine stands."""
        cpu = self._cpu
        frames_here.called(cpu.engine.handle.value, cpu.state.address)
        return self._calls(pc, int(cpu.state.samples_in_ring))

    def noted(self, pcs: Sequence[int]) -> list[Calls]:
        """Those that compiled code has noted of the samples of its ring, at ``pcs``."""
        calls = [self._calls(pc & _MASK, row) for row, pc in enumerate(pcs)]
        # what the next samples find when the ring is empty
        pending = int(self._cpu.state.pending)
        self._table[:pending] = self._table[len(pcs) : len(pcs) + pending]
        return calls

    def pending(self, pc: int, plan: int, n: int) -> Calls:
        """Those of sample ``n``, at ``pc``, of the block that ran last. The ring is empty."""
        cpu = self._cpu
        frames_at_end.called(cpu.engine.handle.value, cpu.state.address, plan, n)
        return self._calls(pc, n)

    def _calls(self, pc: int, number: int) -> Calls:
        row = self._table[number]
        key = pc, row[: FIRST + int(row[COUNT])].tobytes()
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = self._found(pc, row.view(np.uint64)[: len(key[1]) // 8])
        return known

    def _found(self, pc: int, row: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Calls:
        link = without_signature(int(row[LINK]))
        recorded = [without_signature(address) for address in row[FIRST:].tolist()]
        if link and is_caller(self._names, pc, link, recorded):
            recorded.insert(0, link)
        return tuple(recorded[:DEPTH])
