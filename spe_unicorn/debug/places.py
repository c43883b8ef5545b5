"""Places in the guest's code: addresses with their symbols."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.machine.board import Board


@dataclass(frozen=True)
class Place:
    """A virtual address, with its symbol if it has one."""

    pc: int
    symbol: str | None
    remark: str = ""

    def __str__(self) -> str:
        symbol = f" <{self.symbol}>" if self.symbol else ""
        return f"{self.pc:#x}{symbol}{self.remark}"


def place(board: Board, pc: int, remark: str = "") -> Place:
    """An address in what the board runs."""
    return Place(pc, board.image.symbolize(pc) if board.image is not None else None, remark)
