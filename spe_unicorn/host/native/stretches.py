"""Stretches of code of which each block is harmless, so that the block hook need not look it up.

A look-up takes as long as the rest of the block hook. So blocks that the hook has looked at, and
that lie side by side, are joined to stretches. One of the stretches is in use: a block that begins
in it is counted at once (``State.plain_from``). Only blocks that end with a branch are joined. So
whatever begins in a stretch also ends in it, wherever the engine lets it begin.

A gap between two stretches is joined to them, too, if it is of the same cache lines and would be
harmless: mostly the way of a branch that is never taken.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spe_unicorn.compiled import pointer_to, record_at, routine
from spe_unicorn.host.native.state.transit import stretches_hold, work_out_plain

STRETCH: Final = np.dtype([("start", np.int64), ("end", np.int64)])
"""A row of the table: the first address and the one after the last. They are equal in no row but
an empty one."""
STRETCHES: Final = 1 << 4
"""Rows of the table."""
_BYTES: Final = STRETCH.itemsize
_LINE: Final = 64
"""Bytes of a line of instruction caches."""
_PATIENCE: Final = 4
"""Samples elsewhere, more than in the stretch in use, after which another one comes into use."""


@routine
def _row(s: Any, n: Any) -> Any:
    return record_at(pointer_to(s.stretches + n * _BYTES), STRETCH)


@routine
def _use(s: Any, n: Any) -> None:
    """The stretch in this row is in use from now on."""
    row = _row(s, n)
    s.stretch = n
    s.stretch_from, s.stretch_words = row.start, row.end - row.start >> 2
    work_out_plain(s)


@routine
def join(s: Any, address: Any, operations: Any) -> None:
    """A block is harmless and ends with a branch: it is part of a stretch from now on."""
    if not stretches_hold(s):
        for n in range(STRETCHES):
            row = _row(s, n)
            row.start = row.end = 0
        s.stretches_key = s.epoch << 2 | s.regime
        s.stretch = s.stretch_words = s.stretch_votes = 0
    end = address + 4 * operations
    start, after, place, in_use = address, end, -1, False
    for n in range(STRETCHES):
        row = _row(s, n)
        if row.start != row.end and row.start <= end and address <= row.end:
            start, after = min(start, row.start), max(after, row.end)
            row.start = row.end = 0
            in_use |= n == s.stretch
            place = n
    if place < 0:
        place = s.next_stretch & (STRETCHES - 1)
        s.next_stretch = place + 1
        in_use = place == s.stretch
    row = _row(s, place)
    row.start, row.end = start, after
    if in_use or s.stretch_words == 0:
        _use(s, place)


@routine
def _close(end: Any, start: Any) -> Any:
    """Whether all between the end of a stretch and the start of another is of their cache lines."""
    return end < start and (start & -_LINE) - (end - 4 & -_LINE) <= _LINE


@routine
def gap(s: Any, address: Any, behind: Any) -> Any:
    """A gap behind the stretch of ``address``, or before it: its first address, and its words.

    It has no words if there is no other stretch close by.
    """
    start = end = np.int64(0)
    for n in range(STRETCHES):
        row = _row(s, n)
        if row.start <= address < row.end:
            start, end = row.start, row.end
    for n in range(STRETCHES):
        row = _row(s, n)
        if row.start != row.end:
            if behind and _close(end, row.start):
                return end, row.start - end >> 2
            if not behind and _close(row.end, start):
                return row.end, start - row.end >> 2
    return end, np.int64(0)


@routine
def vote(s: Any, address: Any) -> None:
    """The block at ``address`` was sampled: have the stretch be in use where most samples are."""
    if s.stretch_words == 0 or not stretches_hold(s):
        return
    if 0 <= address - s.stretch_from < 4 * s.stretch_words:
        s.stretch_votes = min(s.stretch_votes + 1, _PATIENCE)
        return
    s.stretch_votes -= 1
    if s.stretch_votes >= 0:
        return
    for n in range(STRETCHES):
        row = _row(s, n)
        if row.start <= address < row.end:
            s.stretch_votes = 0
            _use(s, n)
