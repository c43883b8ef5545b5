"""Notes loads from given bytes of physical memory, for those who ask for them afterwards.

The compiled hook sees every load of the engine, which makes all loads slower, but for those whose
blocks look by themselves (``inline.checked``). So it is there only while bytes are looked out for,
and for a while after that. It stays for that while because adding or removing it forgets all
translated code.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import call_register, current_el
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.levels import stop_at_next_fence
from spe_unicorn.host.native.shadow.blocks import CheckedAccesses
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of
from spe_unicorn.host.ports import NEVER_HAPPENS

_PATIENCE: Final = 1 << 20
"""Operations with nothing to look out for after which the hook is first removed."""
_MANY: Final = 64
"""Loads after which the run ends, so that they are taken."""
_ROWS: Final = _MANY + (1 << 12)
"""Loads for which there is room: a block that ends a run may have more than ``_MANY``."""
_RANGES: Final = 256
"""Ranges of addresses that are told apart."""
_PC: Final = int(PC)
_MASK: Final = (1 << 64) - 1
_SCRATCH: Final = offset_of("scratch")


@dataclass(slots=True)
class Load:
    """A load that was noticed: where it is, and of what; ``executed`` came before it."""

    pc: int
    el: int
    address: int
    size: int
    executed: int


_LOAD: Final = layout(Load)
_LOAD_BYTES: Final = _LOAD.itemsize


class _Reads:
    """What the hook and Python share."""

    state: int
    """Address of the `State`."""
    low: int
    """No load below ``low``, or from ``high`` on, matters."""
    high: int
    ranges: int
    """Where the ranges are from which loads matter: begins and ends, in ascending order."""
    range_count: int
    count: int
    """How many loads were noted."""
    rows: int
    """Where the loads are."""


_RECORD: Final = layout(_Reads)


class _ReadState(_Reads, ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in _RECORD.names]


@routine
def _matters(r: _Reads, address: int, size: int) -> bool:
    """Whether one of the ranges has a byte of a load."""
    bounds = array_at(pointer_to(r.ranges), (2 * _RANGES,), np.int64)
    first, last = int64(0), r.range_count
    while first < last:
        middle = first + last >> 1
        if bounds[2 * middle + 1] <= address:
            first = middle + 1
        else:
            last = middle
    inside: bool = first < r.range_count and bounds[2 * first] < address + size
    return inside


@entry("void", "pointer", "int32", "uint64", "int32", "int64", "pointer")
def on_read(engine: Pointer, kind: int, address: int, size: int, value: int, user: Pointer) -> None:
    """A load, or a piece of one."""
    r = record_at(user, _RECORD)
    here = int64(address)
    if here >= r.high or here + size <= r.low or not _matters(r, here, size):
        return
    if r.count >= _ROWS:
        return
    state = record_at(pointer_to(r.state), LAYOUT)
    if state.unattended != 0:
        return
    uc = address_of(engine)
    call_register(state.reg_read, uc, _PC, r.state + _SCRATCH)
    pc = state.scratch
    load = record_at(pointer_to(r.rows + r.count * _LOAD_BYTES), _LOAD)
    load.pc = pc
    load.el = current_el(state, uc, r.state + _SCRATCH)
    load.address = here
    load.size = size
    load.executed = (
        state.granted - state.budget - state.block_operations + ((pc - state.block) >> 2)
    )
    r.count += 1
    if r.count == _MANY and state.notice == 0:
        state.again = 0
        end_after_block(state)
    if state.notes_fences != 0:
        stop_at_next_fence(state, load.executed)


class NoticedLoads:
    """Loads of one engine from the bytes that :meth:`notice` names.

    ``checked`` makes what has blocks look by themselves, once that is needed; None where it cannot.
    """

    TRANSIT = ("_handle", "_idle_since", "_patience", "_rows", "_ranges")
    WIRING = ("_checked", "_make_checked")

    def __init__(self, hooks: NativeHooks, checked: Callable[[], CheckedAccesses | None]) -> None:
        self._hooks = hooks
        self._make_checked = checked
        self._checked: CheckedAccesses | None = None
        self._state = _ReadState()
        self._rows = np.zeros(_ROWS, _LOAD)
        self._state.state = hooks.state.address
        self._state.rows = self._rows.ctypes.data
        self._ranges = np.zeros((_RANGES, 2), np.int64)
        self._state.ranges = self._ranges.ctypes.data
        self._handle: ctypes.c_size_t | None = None
        self._idle_since: int | None = None
        """Executed operations after which there was nothing more to look out for."""
        self._patience = _PATIENCE

    def notice(self, ranges: Sequence[tuple[int, int]]) -> None:
        """From now on notice loads from these ranges of addresses; of many, also from between."""
        state = self._state
        if not ranges:
            state.low = state.high = 0
            if self._checked is not None:
                self._checked.notice(0, 0)
            if self._idle_since is None:
                self._idle_since = self._executed()
            return
        self._idle_since = None
        known = _ascending(ranges)
        self._ranges[: len(known)] = known
        state.range_count = len(known)
        state.low, state.high = known[0][0], known[-1][1]
        if self._handle is None:
            hooks = self._hooks
            self._handle = hooks.add(
                uc_const.UC_HOOK_MEM_READ, on_read.address, user=ctypes.addressof(state)
            )
            self._checked = self._make_checked()
            self._look(wanted=True)
            hooks.engine.forget_all_code()
        if self._checked is not None:
            self._checked.notice(state.low, state.high)

    def _look(self, *, wanted: bool) -> None:
        """Have blocks look by themselves, or take away what makes them miss loads."""
        if self._checked is not None:
            self._checked.notice_loads(wanted=wanted)
        else:
            self._hooks.hook_accesses(wanted=wanted)

    def due(self) -> int:
        """Executed operations at which :meth:`remove_hook` is to be called, NEVER_HAPPENS for none.

        Or :meth:`take`, where there are many loads.

        So the hook is removed at an operation that depends only on the guest. That matters because
        forgotten code is translated anew, which a guest that patches itself can notice.
        """
        if self.many:
            return 0
        if self._handle is None or self._idle_since is None:
            return NEVER_HAPPENS
        return self._idle_since + self._patience

    def remove_hook(self) -> None:
        """Remove the hook: for long there was nothing to look out for.

        Each time it stays longer, so a guest that needs it again and again pays little.
        """
        if self._handle is not None:
            self._hooks.delete(self._handle)
            self._handle = None
            self._patience *= 2
            self._look(wanted=False)
            self._hooks.engine.forget_all_code()

    def _executed(self) -> int:
        state = self._hooks.state
        return int(state.granted - state.budget)

    @property
    def many(self) -> bool:
        """Whether loads are to be taken before there is no room for more."""
        return bool(self._state.count >= _MANY)

    @property
    def earliest(self) -> int:
        """Operations before the first load since the last :meth:`take`; NEVER_HAPPENS if none."""
        return int(self._rows[0]["executed"]) if self._state.count else NEVER_HAPPENS

    def take(self) -> list[Load]:
        """Take the loads that were noted since the last call."""
        count, self._state.count = int(self._state.count), 0
        return [
            Load(pc & _MASK, el, address & _MASK, size, executed)
            for pc, el, address, size, executed in self._rows[:count].tolist()
        ]


def _ascending(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges in ascending order, those that meet joined; the last ones if too many."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if found and (begin <= found[-1][1] or len(found) == _RANGES):
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
