"""The shared state as a whole: its five parts in a row, and how a run of the engine begins."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

import numpy as np

from spe_unicorn.compiled import Pointer, entry, layout, record_at
from spe_unicorn.host.native.state.block_table import LANES
from spe_unicorn.host.native.state.clock import Clock
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import grant
from spe_unicorn.host.native.state.request import Request
from spe_unicorn.host.native.state.steer import Steer
from spe_unicorn.host.native.state.transit import (
    Transit,
    forget_access,
    nothing_is_due,
    tallies_taken,
    work_out_special,
)
from spe_unicorn.host.native.state.wiring import Wiring

_TALLIED: Final = (*(f"tallied{n}" for n in range(LANES // 2)), "jumps")
PARTS: Final = (Clock, Transit, Request, Steer, Wiring)
"""The five parts of the state, in the order in which they lie in memory."""


if TYPE_CHECKING:
    _Memory = StateRecord  # to mypy each name is a field of a ctypes.Structure
else:
    _Memory = ctypes.Structure


class State(_Memory):
    """What compiled hooks and Python share, in five parts; each field is also one of the whole."""

    _fields_ = tuple((part.__name__.lower(), part) for part in PARTS)
    _anonymous_ = tuple(part.__name__.lower() for part in PARTS)

    @property
    def address(self) -> int:
        """Where it lies in memory."""
        return ctypes.addressof(self)  # type: ignore[arg-type]

    def begin(self, budget: int, samples_itself: bool = False) -> None:
        """Begin a run of the engine, with ``budget`` operations and nothing to look out for.

        With ``samples_itself`` the hook may take :attr:`samples_allowed` samples by itself.
        """
        begin_run.called(self.address, budget, samples_itself)

    def update_special(self) -> None:
        """Work :attr:`special` and :attr:`attend` out anew."""
        work_out_special(self)

    def take_tallied(self) -> tuple[list[int], int]:
        """Take what compiled code has added up since the last call: each lane, and ``jumps``."""
        words: list[int] = [getattr(self, name) for name in _TALLIED]
        tallies_taken(self)
        jumps = words.pop()
        return [word >> shift & 0xFFFF_FFFF for word in words for shift in (0, 32)], jumps

    def nothing_is_due(self) -> None:
        """Empty what the hooks noticed: Python has acted on it, or it is not needed."""
        nothing_is_due(self)


LAYOUT: Final = layout(
    StateRecord,
    np.dtype([(field.name, np.int64) for part in PARTS for field in part.FIELDS]),
)
"""The state as compiled hooks see it: all fields in a row."""


@entry("void", "pointer", "int64", "int64")
def begin_run(user: Pointer, budget: int, samples_itself: int) -> None:
    """Begin a run of the engine, as :meth:`State.begin` does. ``user`` is the state."""
    state = record_at(user, LAYOUT)
    grant(state, budget)
    state.samples_itself = samples_itself
    if not samples_itself:
        state.samples_allowed = 0
    state.watch = state.entries = state.weigh = state.tally = state.speculates = state.checking = 0
    state.gic_at = state.uart_at = state.sampling_at = state.control_set = state.control_key = 0
    forget_access(state)
    state.notes_fences = state.fence = state.fence_before = 0
    state.sends_events = state.passes_wfe = state.event_due = state.restored = 0
    state.sent = state.rose = state.uart_sent = 0
    state.stop = state.probe = state.looked_at_pc = state.again = state.begins_anew = 0
    state.seeks = state.special = state.attend = state.flow_twice = 0
    state.flow_asks = state.flow_hook != 0  # of what came before the hook knows more
    state.cover_row = state.cover_keeps = 0
    state.covering = -1 if state.cover != 0 else 0


def offset_of(field: str) -> int:
    """Bytes from the state's begin to a field. Raises KeyError if there is none of this name."""
    return LAYOUT.fields[field][1]
