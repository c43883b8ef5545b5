"""Turns that compiled code takes: the rows that it reads of the PEs, and what it reports.

``host.native.turns.take`` says which turns these are. ``Schedule`` would choose the same turns: the
same PEs execute the same operations at the same times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from spe_unicorn.bits import signed
from spe_unicorn.host.native.turns.take import PE_ROW, TURNS, take_turns
from spe_unicorn.host.ports import NEVER_HAPPENS
from spe_unicorn.host.run.runner import NO_TURNS
from spe_unicorn.machine.pe import SHORT_TURN, TURN, ProcessingElement

if TYPE_CHECKING:
    from spe_unicorn.machine.schedule import ScheduleState

_MOST: Final = 1 << 6
"""Turns after which Python looks at the user, the clock and all else, unless they take long."""
_BYTES: Final = 8
"""The most bytes that a PE may wait for."""
_LONG_SECONDS: Final = 0.1
"""Seconds of the host after which half as many turns are taken the next time."""
_MOST_PASSES: Final = 1 << 1
"""The most turns that Python takes before compiled code is tried again."""


class Midway(NamedTuple):
    """A turn that compiled code began, and that Python has to finish."""

    status: int
    """The engine's error number."""
    began: int
    """Operations that the PE had executed before the turn."""
    operations: int
    """The most operations of the turn."""
    until: int
    """The address at which the run of the engine was to end, -1 for none."""


class Passed(NamedTuple):
    """What compiled code took: turns begun, operations of the finished ones, the unfinished one."""

    turns: int = 0
    operations: int = 0
    midway: Midway | None = None


_NOTHING: Final = Passed()


def _look(pe: ProcessingElement) -> tuple[int, int, int] | None:
    """Where the memory lies that a PE waits for, its size and what it held; zeros for none.

    None if compiled code cannot look there.
    """
    if not pe.s.awaits:
        return 0, 0, 0
    (address, size, held), *more = pe.s.awaits
    host = pe.host_address(address, size)
    return None if more or host is None or size > _BYTES else (host, size, signed(held))


class Relay:
    """Has compiled code take turns of ``pes``, of ``turn`` operations at most."""

    TRANSIT = ("_passes", "_next_passes", "_most")
    DERIVED = ("_rows", "_turns")

    def __init__(self, pes: Sequence[ProcessingElement], turn: int) -> None:
        self._pes = pes
        self._turn = turn
        self._rows = np.zeros(len(pes), PE_ROW)
        self._rows_at = int(self._rows.ctypes.data)
        self._turns = np.zeros(1, TURNS)
        self._turns_at = int(self._turns.ctypes.data)
        self._passes = 0
        """How many more turns Python takes before compiled code is tried again."""
        self._next_passes = 1
        """The next value of ``_passes``, if compiled code then takes too few turns."""
        self._most = _MOST
        """The most turns that compiled code takes the next time."""

    def take(
        self, s: ScheduleState, left: int | None, devices_due: Callable[[], int | None]
    ) -> Passed:
        """Have compiled code take turns of at most ``left`` operations in all, and update ``s``.

        ``devices_due`` says when a device drives a line by itself, None for never.
        """
        if s.left:
            return _NOTHING  # Python is in the midst of a turn
        if self._passes:
            self._passes -= 1
            return _NOTHING
        passed = self._take(s, left, devices_due()) if self._may(s) else _NOTHING
        if passed.turns:
            self._next_passes = 1
        else:
            self._passes = self._next_passes
            self._next_passes = min(2 * self._next_passes, _MOST_PASSES)
        return passed

    def _may(self, s: ScheduleState) -> bool:
        """Write the row of each PE. False if one of them cannot have its turns taken."""
        if s.last < 0:
            return False
        for n, pe in enumerate(self._pes):
            state, p = pe.cpu.state, pe.s
            look = _look(pe)
            ready = pe.runner.offer_turns() if p.on else NO_TURNS
            if ready is None or look is None:
                return False
            self._rows[n] = (
                *pe.cpu.engine.started_by,
                state.address,
                p.on,
                p.asleep,
                p.dozing,
                p.polls,
                p.patience,
                pe.interrupts.pending,
                *look,
                p.turn,
                *ready,
                pe.wfes,
                0,
            )
        return True

    def _take(self, s: ScheduleState, left: int | None, devices_due: int | None) -> Passed:
        due = NEVER_HAPPENS if devices_due is None else devices_due
        most = NEVER_HAPPENS if left is None else left
        self._turns[0] = (
            self._rows_at,
            len(self._pes),
            self._most,
            self._turn,
            TURN,
            SHORT_TURN,
            due,
            s.time,
            s.last,
            s.alone,
            s.length,
            s.awaiting,
            s.until_look,
            most,
            *(0,) * 5,
        )
        began_at = time.monotonic()
        midway = take_turns.called(self._turns_at)
        slow = time.monotonic() - began_at > _LONG_SECONDS
        self._most = max(1, self._most // 2) if slow else min(2 * self._most, _MOST)
        told = self._turns[0].item()[7:]
        s.time, last, alone, length, s.awaiting, s.until_look, rest, *of_last = told
        began, granted, status, until, stands = of_last
        s.last = last
        s.alone = bool(alone)
        s.length = length
        s.running, s.left = max(last, 0), length if midway else 0
        turns = 0
        for n, pe in enumerate(self._pes):
            row = self._rows[n]
            turns += int(row["taken"])
            if pe.s.dozing and not row["dozing"]:
                pe.wake()
            if pe.s.on:
                pe.s.asleep = bool(row["asleep"])
                pe.s.patience = int(row["patience"])
            if row["taken"]:
                pe.s.turn = int(row["turn"])
                pe.turns_taken(whole=not midway or n != last)
        if stands:
            self._pes[last].turn_over()
        return Passed(turns, most - rest, Midway(status, began, granted, until) if midway else None)
