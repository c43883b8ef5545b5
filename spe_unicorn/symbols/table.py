"""Names for addresses, as reports and traces print them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_INSTRUCTION: Final = 4
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named address. ``size`` is in bytes, 0 where the assembler left it out."""

    address: int
    name: str
    size: int = 0
    function: bool = False


class SymbolTable:
    """Symbols sorted by address, one an address; looks up in logarithmic time."""

    def __init__(self, symbols: Iterable[Symbol] = ()) -> None:
        best: dict[int, Symbol] = {}
        self._places: dict[str, set[int]] = {}
        for symbol in symbols:
            self._places.setdefault(symbol.name, set()).add(symbol.address)
            other = best.get(symbol.address)
            if other is None or _preference(symbol) < _preference(other):
                best[symbol.address] = symbol
        self._symbols = tuple(sorted(best.values(), key=lambda s: s.address))
        self._addresses = [s.address for s in self._symbols]
        self._functions = [s for s in self._symbols if s.function and s.size]
        self._function_addresses = [s.address for s in self._functions]

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._symbols)

    def __len__(self) -> int:
        return len(self._symbols)

    def at(self, address: int) -> Symbol | None:
        """The symbol that covers ``address``, or None.

        One without a size covers everything up to the next symbol.
        """
        index = bisect_right(self._addresses, address) - 1
        if index < 0:
            return None
        symbol = self._symbols[index]
        if symbol.size and address >= symbol.address + symbol.size:
            return None
        return symbol

    def between(self, start: int, end: int) -> Iterator[Symbol]:
        """The symbols whose addresses are from ``start`` up to ``end``, in ascending order."""
        for index in range(bisect_left(self._addresses, start), len(self._addresses)):
            if self._addresses[index] >= end:
                return
            yield self._symbols[index]

    def named(self, name: str) -> tuple[int, ...]:
        """The addresses that bear a name, in ascending order: none, one, or several."""
        return tuple(sorted(self._places.get(name, ())))

    def extents(self, name: str) -> Iterator[tuple[int, int]]:
        """The first and last address of each place that bears a name.

        One without a size goes up to the next symbol, the last symbol is one instruction.
        """
        for first in self.named(name):
            index = bisect_left(self._addresses, first)
            size = self._symbols[index].size
            if not size:
                after = self._addresses[index + 1 : index + 2]
                size = after[0] - first if after else _INSTRUCTION
            yield first, first + size - 1

    def names(self) -> tuple[str, ...]:
        """Every name, also where several stand for one address."""
        return tuple(self._places)

    def function_at(self, address: int) -> Symbol | None:
        """The function that ``address`` is in, past the labels inside it; or else as :meth:`at`."""
        index = bisect_right(self._function_addresses, address) - 1
        if index >= 0:
            function = self._functions[index]
            if address < function.address + function.size:
                return function
        return self.at(address)

    def symbolize(self, address: int) -> str | None:
        """``address`` as ``name+0x10``, or None where no symbol covers it. It can be printed."""
        symbol = self.at(address)
        if symbol is None:
            return None
        offset = address - symbol.address
        name = printable(symbol.name)
        return f"{name}+{offset:#x}" if offset else name


def printable(name: str) -> str:
    """A name out of a file, in characters that a terminal shows: all others as Python escapes."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def _preference(symbol: Symbol) -> tuple[bool, bool, str]:
    """Which of several names for one address a reader knows best: a function, one with a size."""
    return not symbol.function, not symbol.size, symbol.name
