"""Tells of instructions that a core lacks, when the guest takes the exception by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from spe_unicorn.debug.advice.lacking import unavailable
from spe_unicorn.debug.places import place
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement


def watch_unavailable(board: Board, tell: Callable[[str], None]) -> None:
    """Tell once of each kind of instruction that the core lacks, when the guest takes it itself."""
    told: set[str] = set()
    for pe in board.pes:
        pe.handler.undefined.connect(partial(_undefined, board, pe, told, tell))


def _undefined(
    board: Board,
    pe: ProcessingElement,
    told: set[str],
    tell: Callable[[str], None],
    pc: int,
    word: int,
) -> None:
    said = unavailable(word, board.core)
    if said is not None and said not in told:
        told.add(said)
        cpu = f" on cpu {pe.number}" if len(board.pes) > 1 else ""
        tell(f"UNDEFINED at {place(board, pc)}{cpu}: {said}")
