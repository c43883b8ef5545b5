"""The check ``text``: code of the image is not written, and data of the image are not executed.

While the machine runs, the bytes of code are compared now and then. What executed them is known at
the end. Either is then found to the operation, by a second machine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import OptionError
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.checking.found import CheckFinding, found_between, found_here
from spe_unicorn.session.checking.twin import Again, StoreWatch
from spe_unicorn.symbols.code import read_code_of
from spe_unicorn.symbols.elf import ElfError, read_elf

_MOST: Final = 8
"""The most changes, and the most places of data, that are told."""
_WORD: Final = 4


class _Piece(NamedTuple):
    """Code without a gap, at a virtual and at a physical address."""

    virtual: int
    physical: int
    data: bytes


class _Change(NamedTuple):
    """Code that changed between two numbers of operations, at these virtual addresses."""

    before: int
    until: int
    first: int
    last: int


class TextCheck:
    """Looks at the code of a board's image."""

    def __init__(self, board: Board, image: Image) -> None:
        self._board = board
        self._image = image
        try:
            addresses = sorted(read_code_of(read_elf(image.path)).operations)
        except (ElfError, OSError):
            raise OptionError("`check`: text is for an ELF file, which says what is code") from None
        self._code = frozenset(addresses)
        self._changes: list[_Change] = []
        self.begin()
        board.cover()

    def begin(self) -> None:
        """What is in memory now is the code."""
        memory, image = self._board.memory, self._image
        self._pieces = []
        for first, end in _without_gaps(sorted(self._code)):
            for segment in image.segments:
                virtual = first + image.bias
                if segment.vaddr <= virtual < segment.vaddr + segment.size:
                    physical = virtual - segment.vaddr + segment.address
                    data = memory.read(physical, end - first) or b""
                    self._pieces.append(_Piece(virtual, physical, data))

    def look(self, before: int, until: int) -> None:
        """Compare code: nothing had changed after ``before`` operations, ``until`` are executed."""
        for n, piece in enumerate(self._pieces):
            data = self._board.memory.read(piece.physical, len(piece.data)) or b""
            if data == piece.data:
                continue
            at = [i for i, (a, b) in enumerate(zip(piece.data, data, strict=False)) if a != b]
            if len(self._changes) < _MOST:
                first, last = piece.virtual + at[0], piece.virtual + at[-1]
                self._changes.append(_Change(before, until, first, last))
            self._pieces[n] = piece._replace(data=data)

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """All that was found; ``again`` makes machines that do the same, where that can be."""
        found = [self._written(change, again) for change in self._changes]
        data = self._data_executed()[:_MOST]
        return [*found, *(self._executed(address, again) for address in data)]

    def _written(self, change: _Change, again: Again | None) -> CheckFinding:
        place = self._board.names.symbol(change.first) or hex(change.first)
        what = f"code is written: {change.first:#x} to {change.last:#x}, {place}"
        found: list[CheckFinding] = []

        def on_store(pe: ProcessingElement, access: MemoryAccess) -> None:
            if not found:
                said = f"{access.size} bytes are stored to code at {access.address:#x}, {place}"
                found.append(found_here(machine.board, pe.number, "text", said))
                machine.stop()

        if again is not None:
            with again.twin() as machine:
                machine.run(change.before)
                for pe in machine.board.pes:
                    watch = StoreWatch(pe, change.first, change.last, on_store)
                    pe.handler.controls.checks.observe(watch)
                machine.run(change.until - change.before)
        return found[0] if found else found_between("text", what, change.before, change.until)

    def _data_executed(self) -> list[int]:
        """Where execution of what is no code began, as far as addresses tell."""
        names, path = self._board.names, self._image.path
        wrong = []
        for address in sorted(self._board.covered.operations):
            found = names.located(address)
            if found is not None and found[0] == path and found[1] not in self._code:
                wrong.append(address)
        return [first for first, _ in _without_gaps(wrong)]

    def _executed(self, address: int, again: Again | None) -> CheckFinding:
        what = f"data are executed at {address:#x}"
        total = self._board.executed
        if again is not None:
            with again.twin() as machine:
                if machine.run(total, until=hex(address)).ending == "until":
                    board = machine.board
                    return found_here(board, board.running.number, "text", what)
        return found_between("text", what, 0, total)


def _without_gaps(addresses: list[int]) -> list[tuple[int, int]]:
    """Ranges, each with its end, of addresses of operations in ascending order."""
    ranges: list[tuple[int, int]] = []
    ends = [at + _WORD for at in addresses]
    at = 0
    while at < len(addresses):
        # the last address that is as far on in number as in bytes
        low, high = at, len(addresses) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if addresses[middle] - addresses[at] == _WORD * (middle - at):
                low = middle
            else:
                high = middle - 1
        ranges.append((addresses[at], ends[low]))
        at = low + 1
    return ranges
