"""Brings a board to the first moment of a boot plan."""

from __future__ import annotations

from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot import BootPlan
from spe_unicorn.machine.image import LoadError


def start(board: Board, plan: BootPlan) -> None:
    """Fill memory and set the PE up, so that ``board.run()`` begins as the plan says.

    Raises LoadError for a piece where the board has no memory.
    """
    for piece in plan.pieces:
        if not board.memory.write(piece.address, piece.data):
            raise LoadError(f"{piece.name}: the board has no memory at {piece.address:#x}")
    board.image = plan.image
    board.conduit = plan.conduit
    board.gic.reset(nonsecure=not plan.secure)
    board.cpu.start(plan.el, plan.entry)
    for number, value in enumerate(plan.x):
        board.cpu.engine.set_x(number, value)
    board.handler.steered()
    board.unit.reload()
