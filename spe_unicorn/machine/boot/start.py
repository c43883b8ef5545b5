"""Brings a board to the first moment of a boot plan."""

from __future__ import annotations

from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.plan import BootPlan


def start(board: Board, plan: BootPlan) -> None:
    """Fill memory and set the PEs up, so that ``board.run()`` begins as the plan says.

    A reset by the guest begins there again: what was loaded is loaded anew, other memory keeps what
    it holds. Raises LoadError for a piece where the board has no memory.
    """
    for piece in plan.pieces:
        filled = board.memory.fill(piece.address, piece.data)
        rest = piece.size - len(piece.data)
        if not filled or not board.memory.clear(piece.address + len(piece.data), rest):
            raise LoadError(f"{piece.name}: the board has no memory at {piece.address:#x}")
    board.image = plan.image
    board.conduit = plan.conduit
    board.restart = lambda: start(board, plan)
    board.reset(nonsecure=not plan.secure)
    for pe in board.pes if plan.all_start else board.pes[:1]:
        pe.start(plan.el, plan.entry, plan.x)
