"""Places in the guest's code: addresses with their symbols and source lines."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.machine.board import Board


@dataclass(frozen=True)
class Place:
    """A virtual address, with its symbol and its source line (``main.c:42``) if it has them."""

    pc: int
    symbol: str | None
    remark: str = ""
    line: str | None = None

    def __str__(self) -> str:
        names = [name for name in (self.symbol, self.line and f"({self.line})") if name]
        named = f" <{' '.join(names)}>" if names else ""
        return f"{self.pc:#x}{named}{self.remark}"


def place(board: Board, pc: int, remark: str = "") -> Place:
    """An address in what the board runs."""
    line = board.names.line(pc)
    return Place(pc, board.names.symbol(pc), remark, None if line is None else line.short)
