"""POINTs of a run, in one grammar for all commands and functions.

====================  ==========================================================
``250000``            that many operations of all PEs since reset
``0x40000100``        the first arrival of a PE at a virtual address
``memcpy``            the first arrival at a symbol of the image
``memcpy+0x10``       the first arrival at so many bytes after it
``console:login:``    the console's output of the text after the colon
====================  ==========================================================

A point is parsed without an image, so that a wrong command line is refused at once, and resolved
with the symbols of the image that runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from spe_unicorn.symbols.table import SymbolTable

_CONSOLE: Final = "console:"
_ADDRESSES: Final = 1 << 64
_SYMBOL: Final = re.compile(r"(?P<name>[^\s\d+\-:][^\s+:]*)(?:\+(?P<offset>0[xX][0-9a-fA-F]+))?")


class PointError(ValueError):
    """A text that is no POINT, or a point that an image does not have; the message is one line."""


@dataclass(frozen=True, slots=True)
class AtOperation:
    """The point after ``count`` operations of all PEs since reset."""

    count: int

    def __str__(self) -> str:
        return str(self.count)


@dataclass(frozen=True, slots=True)
class AtAddress:
    """The first arrival at a virtual address; ``name`` is the text that asked for it."""

    address: int
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.name or f"{self.address:#x}"


@dataclass(frozen=True, slots=True)
class AtSymbol:
    """The first arrival at a symbol, or at ``offset`` bytes after it."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.name}+{self.offset:#x}" if self.offset else self.name


@dataclass(frozen=True, slots=True)
class AtOutput:
    """The output of ``text`` on the console."""

    text: str

    def __str__(self) -> str:
        return f"{_CONSOLE}{self.text}"


Place = AtOperation | AtAddress | AtOutput
"""A point that a run can go up to."""
Point = Place | AtSymbol
"""A point as it is written."""


def parse_point(text: str) -> Point:
    """The point that ``text`` means. Raises PointError for a text that is no POINT."""
    if text.startswith(_CONSOLE):
        output = text.removeprefix(_CONSOLE)
        if not output:
            raise PointError(f"{text!r}: the text to wait for is missing after the colon")
        return AtOutput(output)
    if text.isascii() and text.isdigit():
        return AtOperation(int(text))
    if text[:2] in ("0x", "0X"):
        return AtAddress(_address(text))
    match = _SYMBOL.fullmatch(text)
    if match is None:
        raise PointError(
            f"{text!r} is no POINT: write a number of operations, 0x and an address, SYMBOL,"
            " SYMBOL+0xOFFSET or console:TEXT"
        )
    return AtSymbol(match["name"], int(match["offset"] or "0", 16))


def _address(text: str) -> int:
    try:
        address = int(text, 16)
    except ValueError:
        raise PointError(f"{text!r} is no address: write 0x and hexadecimal digits") from None
    if address >= _ADDRESSES:
        raise PointError(f"{text!r} is no address: it has more than 64 bits")
    if address % 4:
        raise PointError(f"{text!r}: no instruction is there, its address is a multiple of 4")
    return address


def resolve(point: Point, symbols: SymbolTable, image: str) -> Place:
    """The place of a point in the file ``image``, which has ``symbols``.

    Raises PointError for an unknown symbol, and for one that several places have.
    """
    if not isinstance(point, AtSymbol):
        return point
    addresses = symbols.named(point.name)
    if not addresses:
        raise PointError(f"{image} has no symbol {point.name!r}{_instead(point.name, symbols)}")
    if len(addresses) > 1:
        places = ", ".join(f"{address:#x}" for address in addresses)
        raise PointError(f"{point.name!r} names {len(addresses)} places of {image}: write {places}")
    address = (addresses[0] + point.offset) % _ADDRESSES
    if address % 4:
        raise PointError(f"{point}: no instruction is at {address:#x}, it is no multiple of 4")
    return AtAddress(address, str(point))


def _instead(name: str, symbols: SymbolTable) -> str:
    names = symbols.names()
    if not names:
        return ": it has no symbols, so write an address"
    close = get_close_matches(name, names, n=1)
    return f": did you mean {close[0]!r}?" if close else ""
