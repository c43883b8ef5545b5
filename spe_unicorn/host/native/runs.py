"""Runs of the engine in a row, in compiled code: over stops that need nothing of Python."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import Pointer, address_of, entry, record_at, routine
from spe_unicorn.host.native.calls import call_start, call_surviving
from spe_unicorn.host.native.cover import left_block
from spe_unicorn.host.native.exceptions.exception import enter_irq
from spe_unicorn.host.native.registers.uart import answer_uart
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import answered
from spe_unicorn.host.native.state.whole import LAYOUT

_INTERRUPT, _UNMAPPED = int(Stop.INTERRUPT), int(Stop.UNMAPPED)
_MOST: Final = 1 << 6
"""Stops after which Python has its turn, so that Ctrl-C and limits are looked at."""


@entry("int32", "pointer", "pointer", "pointer", "pointer", "uint64", "uint64")
def run_through(
    engine: Pointer, user: Pointer, start: Pointer, buffer: Pointer, begin: int, until: int
) -> int:
    """Run the engine from ``begin`` on. Answer each stop that compiled code can, and go on.

    These are IRQs, and accesses to the UART. ``user`` is the state. ``start`` and ``buffer`` are as
    for ``Engine.run_by``. Return the engine's error number. The run ends at a stop that is for
    Python.
    """
    state = record_at(user, LAYOUT)
    status = _start(engine, start, buffer, begin, until)
    for _ in range(_MOST):
        if state.stop == _INTERRUPT:
            if status != 0 or not enter_irq(engine, user):
                break
        elif state.stop == _UNMAPPED:
            if not answer_uart(state, engine, user):
                break
            if state.cover != 0:
                left_block(state, state.scratch - 4, 1)
        else:
            break
        answered(state)
        status = _start(engine, start, buffer, state.scratch, until)
    return status


@routine
def _start(engine: Pointer, start: Pointer, buffer: Pointer, begin: int, until: int) -> int:
    """One run of the engine."""
    if address_of(buffer) == 0:
        return call_start(address_of(start), address_of(engine), begin, until, 0, 0)
    return call_surviving(
        address_of(start), address_of(buffer), address_of(engine), begin, until, 0, 0
    )
