"""Writes lines of traces, unless a filter leaves a line out."""

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
"""The most places whose names are remembered."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the lines of a trace go, and in which form.

    A line is written if one of ``filters`` lets it pass, or if there are none. The symbols in the
    filters have become ranges of addresses.
    """

    write: Write
    form: Form = "text"
    filters: tuple[TraceFilter, ...] = ()


class Tracer:
    """Writes the lines about one PE of a board."""

    def __init__(self, board: Board, pe: ProcessingElement, output: Output) -> None:
        self.board = board
        self.pe = pe
        self.ends = ExitStack()
        """Disconnects what was connected for the trace."""
        self._output = output
        self._alone = len(board.pes) == 1
        self._places: dict[int, Place] = {}

    def wants(self, pc: int, el: int) -> bool:
        """Whether the filters let a line about ``pc`` at Exception level ``el`` pass."""
        return passes(self._output.filters, self.pe.number, el, pc)

    def place(self, pc: int) -> Place:
        """The names of what is at an address."""
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
        """Write a line: ``text`` in words, or ``data`` for programs.

        ``number`` is that of the operation, by default of the current one.
        """
        pe = self.pe
        if number is None:
            pe.handler.controls.checks.observers.take()  # lines of earlier operations come first
            number = pe.cpu.counted()
        if self._output.form == "text":
            moment = str(number) if self._alone else f"cpu {pe.number} {number}"
            self._output.write(f"{moment} {kind} {text}\n")
            return
        where = self.place(pc)
        line: dict[str, object] = {"operation": number, "cpu": pe.number, "kind": kind}
        line |= {"pc": hex(pc), "symbol": where.symbol, "line": where.line, "el": el}
        self._output.write(json.dumps(line | dict(data)) + "\n")
