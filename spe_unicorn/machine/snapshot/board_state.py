"""A board that stands, captured and put back: engines, memory, and every part that has state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from spe_unicorn.host.pe.at_rest import (
    EngineState,
    check_engine,
    forget,
    restore_engine,
    save_engine,
)
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.snapshot.pages import (
    NO_PAGES,
    Pages,
    check_pages,
    restore_pages,
    save_pages,
)
from spe_unicorn.parts import check_parts, parts_of, restore_parts, save_parts
from spe_unicorn.stateful import expect


class NotAtRestError(RuntimeError):
    """A machine that runs cannot be saved or restored."""


@dataclass(frozen=True)
class BoardState:
    """What a board is at one moment. Nobody changes it."""

    engines: tuple[EngineState, ...]
    """Of each PE."""
    parts: dict[str, Any]
    """The state of each part by its path: a plain dataclass, or attributes by name."""
    memory: Pages


class BoardSaver:
    """Saves and restores one board.

    The board that was saved, and one that is restored from it, do the same from there on: what is
    no part of the architecture's state is forgotten in both.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self.parts = parts_of(board)
        """What has state, by path."""

    def save(self, earlier: Pages = NO_PAGES, leave: Collection[str] = ()) -> BoardState:
        """The board's state, without the parts in ``leave``.

        Memory that is as it was in ``earlier`` takes no more room. Raises NotAtRestError within a
        run, as from an observer.
        """
        self._check()
        self.forget_microarchitecture()
        parts = {path: part for path, part in self.parts.items() if path not in leave}
        return BoardState(
            tuple(save_engine(pe.handler) for pe in self._board.pes),
            save_parts(parts),
            save_pages(self._board.memory, earlier),
        )

    def restore(self, saved: BoardState, leave: Collection[str] = ()) -> None:
        """Take a state that a board of the same options was in; the parts in ``leave`` stay.

        Raises NotAtRestError within a run, and StateError, with nothing changed, where the host has
        not what the state needs, or the board cannot be in such a state.
        """
        self._check()
        parts = {path: part for path, part in self.parts.items() if path not in leave}
        expect(len(saved.engines) == len(self._board.pes), "the number of PEs")
        for pe, engine in zip(self._board.pes, saved.engines, strict=True):
            check_engine(pe.handler, engine)
        check_parts(parts, saved.parts)
        check_pages(self._board.memory, saved.memory)
        restore_pages(self._board.memory, saved.memory)
        for pe, engine in zip(self._board.pes, saved.engines, strict=True):
            restore_engine(pe.handler, engine)
        restore_parts(parts, saved.parts)
        for pe in self._board.pes:
            pe.runner.restored()
        self._board.forget_calls()
        self.forget_microarchitecture()

    def forget_microarchitecture(self) -> None:
        """Forget what is no part of the architecture's state."""
        for pe in self._board.pes:
            forget(pe.handler, pe.unit)

    def _check(self) -> None:
        if not all(pe.runner.at_rest for pe in self._board.pes):
            raise NotAtRestError("the machine runs: save or restore it between two runs")
