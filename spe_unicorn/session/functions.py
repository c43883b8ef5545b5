"""The functions of the program that a machine has loaded, by the symbols of its ELF files."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.machine.boot.image import Image
from spe_unicorn.session.point import AtSymbol, resolve


class ProgramFunctions:
    """Names of functions; ``symbol(address)`` says ``name+0x10``, or None without a symbol."""

    def __init__(self, symbol: Callable[[int], str | None], image: Image) -> None:
        self._symbol = symbol
        self._image = image

    def function(self, address: int) -> str | None:
        """The name of the function at an address, None for code without a symbol."""
        symbol = self._symbol(address)
        return None if symbol is None else symbol.split("+")[0]

    def check(self, name: str) -> None:
        """Raise PointError for a name that the program does not have."""
        if not self._image.symbols.named(name):
            resolve(AtSymbol(name), self._image.symbols, self._image.path.name)
