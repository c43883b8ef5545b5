"""Traces: a line for each thing of a kind that happens on a board.

A line begins with the number of the operation, from 1 up, so that traces of different kinds can be
laid side by side. On a board of several PEs the PE's number comes first, and operations are counted
for each PE. The same run gives the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from spe_unicorn.debug.tracing.events import (
    trace_exception,
    trace_irq,
    trace_spe,
    trace_sysreg,
)
from spe_unicorn.debug.tracing.filters import TraceFilter, resolved
from spe_unicorn.debug.tracing.instructions import trace_insn, trace_memory
from spe_unicorn.debug.tracing.monitors import trace_pmu
from spe_unicorn.debug.tracing.tracer import Form, Output, Tracer, Write
from spe_unicorn.debug.tracing.translation import trace_mmu
from spe_unicorn.machine.board import Board

TRACERS: Final[Mapping[str, Callable[[Tracer], None]]] = {
    "sysreg": trace_sysreg,
    "exception": trace_exception,
    "irq": trace_irq,
    "mmu": trace_mmu,
    "spe": trace_spe,
    "pmu": trace_pmu,
    "insn": trace_insn,
    "memory": trace_memory,
}
"""What can be traced."""
STOPS_INLINE_COUNTING: Final = frozenset({"insn", "memory"})
"""The kinds that look at every block."""


def trace(
    board: Board,
    kinds: str | Iterable[str],
    write: Write,
    form: Form = "text",
    filters: Sequence[TraceFilter] = (),
) -> Callable[[], None]:
    """Have ``write`` told of what happens on a board; what is returned ends that.

    ``kinds`` are among :data:`TRACERS`; lines are text, or JSON objects. What any of ``filters``
    lets pass becomes a line; without filters everything does. Call it while the board stands.
    Raises FilterError for a filter by an unknown symbol.
    """
    output = Output(write, form, resolved(filters, board.names))
    ends = ExitStack()
    for kind in (kinds,) if isinstance(kinds, str) else tuple(kinds):
        for pe in board.pes:
            to = Tracer(board, pe, output)
            ends.callback(to.ends.close)
            TRACERS[kind](to)
    return ends.close
