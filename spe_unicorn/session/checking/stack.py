"""The check ``stack=LOW[:HIGH]``: SP does not leave a stack by its lowest address."""

from __future__ import annotations

from typing import Final, NamedTuple

from spe_unicorn.host.pe.covering import Overflow
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import OptionError
from spe_unicorn.session.checking.found import CheckFinding, found_between, found_here
from spe_unicorn.session.checking.twin import Again
from spe_unicorn.symbols.elf import ElfError, read_elf

_ARRIVALS: Final = 20_000
"""How often a second machine may arrive at the operation before the search is given up."""


class _Seen(NamedTuple):
    """An overflow on a PE between two numbers of operations."""

    cpu: int
    overflow: Overflow
    before: int
    until: int


class StackCheck:
    """Looks at the stacks of a board. Each is told once, of each PE."""

    def __init__(self, board: Board, image: Image, texts: list[str]) -> None:
        self._board = board
        stacks = [_range_of(image, text) for text in texts]
        self._names = {low: (text, high) for text, (low, high) in zip(texts, stacks, strict=True)}
        self._seen: list[_Seen] = []
        board.cover()
        for pe in board.pes:
            if pe.cpu.coverage is not None:
                pe.cpu.coverage.check_stacks(stacks)

    def begin(self) -> None:
        """SP may have any value now."""

    def look(self, before: int, until: int) -> None:
        """See what has overflowed from ``before`` to ``until`` operations."""
        known = {(seen.cpu, seen.overflow.low) for seen in self._seen}
        for pe in self._board.pes:
            for overflow in pe.cpu.coverage.overflows() if pe.cpu.coverage is not None else ():
                if (pe.number, overflow.low) not in known:
                    self._seen.append(_Seen(pe.number, overflow, before, until))

    def finish(self, again: Again | None) -> list[CheckFinding]:
        """All that was found; ``again`` makes machines that do the same, where that can be."""
        return [self._found(seen, again) for seen in self._seen]

    def _found(self, seen: _Seen, again: Again | None) -> CheckFinding:
        low, pc, sp = seen.overflow
        text, high = self._names[low]
        symbol = self._board.names.symbol(pc) or hex(pc)
        what = f"{text}, {low:#x} to {high:#x}, overflows: SP is {sp:#x}, and goes below {low:#x}"
        if again is not None:
            with again.twin() as machine:
                machine.run(seen.before)
                for _ in range(_ARRIVALS):
                    left = seen.until - machine.operations
                    if machine.run(left, until=hex(pc)).ending != "until":
                        break
                    pe = machine.board.pes[seen.cpu]
                    if pe.cpu.pc == pc and pe.cpu.engine.general()[31] == sp:
                        return found_here(machine.board, seen.cpu, "stack", what)
        return found_between("stack", f"{what} at {symbol}", seen.before, seen.until)


def _range_of(image: Image, text: str) -> tuple[int, int]:
    """The lowest address of a stack, and its end. Raises OptionError."""
    first, _, last = text.partition(":")
    try:  # which has symbols of ends, too, where nothing of the image is
        symbols, bias = read_elf(image.path).symbols, image.bias
    except (ElfError, OSError):
        symbols, bias = image.symbols, 0
    ranges = [list(symbols.extents(name)) for name in (first, last) if name]
    for name, found in zip((first, last), ranges, strict=False):
        if len(found) != 1:
            many = f"{len(found)} symbols" if found else "no symbol"
            raise OptionError(f"`check`: {image.path.name} has {many} {name!r}")
    low, end = ranges[0][0]
    high = ranges[1][0][0] if last else end + 1
    low, high = low + bias, high + bias
    if not low < high:
        raise OptionError(f"`check`: the stack {text} ends at {high:#x}, below {low:#x}")
    return low, high
