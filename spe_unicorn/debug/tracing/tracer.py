"""Who writes a trace: what happened on a PE becomes a line, unless a filter leaves it out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Literal

from spe_unicorn.debug.places import Place, place
from spe_unicorn.debug.tracing.filters import TraceFilter, passes
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement

Write = Callable[[str], None]
"""Takes a line, newline included."""
Form = Literal["text", "jsonl"]
_PLACES: Final = 1 << 16
"""Places whose names are remembered."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where a trace goes: ``filters`` with the ranges of their symbols, any of which may pass."""

    write: Write
    form: Form = "text"
    filters: tuple[TraceFilter, ...] = ()


class Tracer:
    """Writes what happens on one PE of a board; what is connected to it ends with :attr:`ends`."""

    def __init__(self, board: Board, pe: ProcessingElement, output: Output) -> None:
        self.board = board
        self.pe = pe
        self.ends = ExitStack()
        """What stops the trace."""
        self._output = output
        self._alone = len(board.pes) == 1
        self._places: dict[int, Place] = {}

    def wants(self, pc: int, el: int) -> bool:
        """Whether something at a place is told."""
        return passes(self._output.filters, self.pe.number, el, pc)

    def place(self, pc: int) -> Place:
        """An address by its names."""
        found = self._places.get(pc)
        if found is None:
            if len(self._places) >= _PLACES:
                self._places.clear()
            found = self._places[pc] = place(self.board, pc)
        return found

    def tell(
        self,
        kind: str,
        text: str,
        data: Mapping[str, object],
        pc: int,
        el: int,
        number: int | None = None,
    ) -> None:
        """Write what happened: in words, and for programs.

        ``number`` is that of the operation, by default of the one that is being counted.
        """
        pe = self.pe
        if number is None:
            pe.handler.controls.checks.observers.take()  # what was executed before it
            number = pe.cpu.counted()
        if self._output.form == "text":
            moment = str(number) if self._alone else f"cpu {pe.number} {number}"
            self._output.write(f"{moment} {kind} {text}\n")
            return
        where = self.place(pc)
        line: dict[str, object] = {"operation": number, "cpu": pe.number, "kind": kind}
        line |= {"pc": hex(pc), "symbol": where.symbol, "line": where.line, "el": el}
        self._output.write(json.dumps(line | dict(data)) + "\n")
