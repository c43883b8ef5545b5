"""The checks ``uninitialised`` and ``heap``, by a shadow of RAM.

A load is found if nobody has written any of its bytes, an access if it leaves the blocks that an
allocator gave, or is to one that was given back. Each operation is told once for each check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from spe_unicorn.decode import decode
from spe_unicorn.host.native.shadow import marks
from spe_unicorn.host.pe.checks.shadow import Block, Noted, Shadow
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.boot.plan import BootPlan
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.checking.allocators import borders_of, needed_allocator
from spe_unicorn.session.checking.found import CheckFinding, found_between, found_here
from spe_unicorn.session.checking.twin import Again, arrives

if TYPE_CHECKING:
    from spe_unicorn.session.machine import Machine

_MOST: Final = 64
"""The most operations that are told of each check."""
_CHECKS: Final = {"uninitialised": marks.UNWRITTEN, "heap": marks.HEAP}
_SVE_STORES: Final = (0xFE00_0000, 0xE400_0000)


class _Seen(NamedTuple):
    """A note, what is said of it, and between which operations of the board it was."""

    noted: Noted
    what: str
    before: int
    until: int


class ShadowCheck:
    """The two checks of a board that was just started, as far as they are asked for."""

    def __init__(self, board: Board, image: Image, options: MachineOptions) -> None:
        self._board = board
        self._image = image
        self._fill = options.ram_fill
        asked = [_CHECKS[name] for name in _CHECKS if name in options.check]
        functions = needed_allocator(image) if marks.HEAP in asked else ()
        borders = borders_of(image) if functions else ()
        cpus = [pe.cpu for pe in board.pes]
        self._shadow = Shadow(cpus, board.memory, board.ram, sum(asked), functions, borders)
        for piece in _loaded(board):
            self._shadow.written(*piece)
        self._seen: dict[tuple[str, int], _Seen] = {}
        """What was found, by check and address of the operation."""

    def begin(self) -> None:
        """What is in memory now counts as written."""
        self._shadow.begin()

    def look(self, before: int, until: int) -> None:
        """Take what was noted from ``before`` to ``until`` operations."""
        for noted in self._shadow.take():
            key = _check(noted), noted.pc
            known = sum(check == key[0] for check, _ in self._seen)
            if key in self._seen or known >= _MOST or self._goes_on_behind(noted):
                continue
            self._seen[key] = _Seen(noted, self._said(noted), before, until)

    def _goes_on_behind(self, noted: Noted) -> bool:
        """Whether it is a later piece of an access whose first was right.

        Fast functions for strings load up to sixteen bytes of which the first ones are theirs.
        """
        if not noted.follows or noted.kind == marks.FREE:
            return False
        words = self._board.pes[noted.cpu].cpu.virtual.code(noted.pc, 1)
        access = decode(words[0]).access if words else None
        return access is not None and access.size > noted.size

    def _said(self, noted: Noted) -> str:
        access = f"{noted.size} bytes at {noted.address:#x}"
        if noted.kind == marks.FRESH:
            return f"a load of {access} of RAM that nobody has written"
        block = noted.block
        if noted.kind == marks.FREE:
            if block is None:
                return f"{noted.address:#x} is given back, and is no block that the allocator gave"
            return f"{self._block(block)}, is given back a second time"
        made = f"a {'store' if noted.kind == marks.STORE else 'load'} of {access}"
        return f"{made}, {'which no block has' if block is None else self._where(noted, block)}"

    def _where(self, noted: Noted, block: Block) -> str:
        """Where an access is, seen from a block."""
        at, end = noted.address, block.physical + block.size
        if at >= end:
            where = f"{at - end} bytes behind"
        elif at + noted.size <= block.physical:
            where = f"{block.physical - at} bytes in front of"
        elif block.live:
            where = "partly outside of"
        else:
            where = f"{at - block.physical} bytes into"
        return f"{where} {self._block(block)}"

    def _block(self, block: Block) -> str:
        names = self._board.names
        text = f"the block of {block.size} bytes at {block.address:#x}"
        for verb, place in (("got", block.got), ("given back", block.freed)):
            if place:
                text += f", {verb} before {names.symbol(place) or hex(place)}"
        return text

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """All that was found; ``again`` makes machines that do the same, where that can be."""
        seen = sorted(self._seen.values(), key=lambda each: (each.before, each.noted.executed))
        if not seen:
            return []
        if again is None:
            found = [self._between(each) for each in seen]
        else:
            written = self._written_by_vectors(seen, again)
            found = self._found([each for each in seen if each.noted not in written], again)
        if self._shadow.full:
            what = "there were too many blocks: those that were new are not checked"
            found.append(found_between("heap", what, 0, self._board.executed))
        return found

    def _found(self, seen: list[_Seen], again: Again) -> list[CheckFinding]:
        found = []
        with again.twin() as machine:
            for each in seen:
                if _arrives(machine, each):
                    name, cpu = _check(each.noted), each.noted.cpu
                    found.append(found_here(machine.board, cpu, name, each.what))
                else:
                    found.append(self._between(each))
        return found

    def _written_by_vectors(self, seen: list[_Seen], again: Again) -> set[Noted]:
        """Loads of what stores of SVE have written, which no hook sees.

        In a machine with other values in unwritten RAM they load the same.
        """
        loads = [each for each in seen if each.noted.kind == marks.FRESH]
        if not loads or not _has_sve_stores(self._image):
            return set()
        written = set()
        fill = "zero" if self._fill == "random" else "random"
        with again.twin() as usual, again.twin(fill) as other:
            for each in loads:
                if not all(_arrives(machine, each) for machine in (usual, other)):
                    break  # what was loaded has mattered
                data = (_bytes(machine, each.noted) for machine in (usual, other))
                if len(set(data)) == 1:
                    written.add(each.noted)
        return written

    def _between(self, seen: _Seen) -> CheckFinding:
        place = self._board.names.symbol(seen.noted.pc) or hex(seen.noted.pc)
        what = f"{seen.what}, at {place}"
        return found_between(_check(seen.noted), what, seen.before, seen.until)


def _check(noted: Noted) -> str:
    return "uninitialised" if noted.kind == marks.FRESH else "heap"


def _loaded(board: Board) -> list[tuple[int, int]]:
    """What was loaded into memory: physical addresses and sizes."""
    begins = board.begins
    if begins is None:
        return []
    pieces = begins.pieces if isinstance(begins, BootPlan) else begins.segments
    return [(piece.address, piece.size) for piece in pieces]


def _arrives(machine: Machine, seen: _Seen) -> bool:
    """Have a machine stand at the operation of a note. False if it does not come there."""
    return arrives(machine, seen.noted, seen.before, seen.until)


def _bytes(machine: Machine, noted: Noted) -> bytes | None:
    return machine.board.memory.read(noted.address, noted.size)


def _has_sve_stores(image: Image) -> bool:
    mask, value = _SVE_STORES
    for segment in image.segments:
        words = np.frombuffer(segment.data[: len(segment.data) & ~3], "<u4")
        if ((words & mask) == value).any():
            return True
    return False
