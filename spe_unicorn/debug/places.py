"""Places in the guest's code: addresses with their symbols and source lines."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spe_unicorn.machine.board import Board
from spe_unicorn.symbols.table import printable


@dataclass(frozen=True)
class Place:
    """A virtual address, with its symbol and its source line (``main.c:42``) if it has them.

    ``inlined`` are the functions that the compiler has inlined there, the innermost first.
    """

    pc: int
    symbol: str | None
    remark: str = ""
    line: str | None = None
    inlined: tuple[str, ...] = ()

    def __str__(self) -> str:
        inlined = " < ".join(printable(name) for name in self.inlined)
        said = ", inlined: ".join(part for part in (self.line, inlined) if part)
        names = [name for name in (self.symbol, said and f"({said})") if name]
        named = f" <{' '.join(names)}>" if names else ""
        return f"{self.pc:#x}{named}{self.remark}"


def place(board: Board, pc: int, remark: str = "") -> Place:
    """An address in what the board runs."""
    line = board.names.line(pc)
    return Place(pc, board.names.symbol(pc), remark, None if line is None else line.short)


def call_place(board: Board, pc: int, remark: str = "") -> Place:
    """The same with the functions that the compiler has inlined there, for backtraces."""
    return replace(place(board, pc, remark), inlined=board.names.inlined(pc))
