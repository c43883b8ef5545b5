"""The functions by which programs get memory and give it back, by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from spe_unicorn.host.native.shadow.heap import ALIGNS, CLEARS, GETS, GIVES_BACK, MOVES
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import OptionError
from spe_unicorn.symbols.elf import ElfError, read_elf
from spe_unicorn.symbols.table import SymbolTable

FUNCTIONS: Final = {
    "malloc": (GETS, 0),
    "calloc": (CLEARS, 0),
    "realloc": (MOVES, 0),
    "free": (GIVES_BACK, 0),
    "aligned_alloc": (ALIGNS, 0),
    "memalign": (ALIGNS, 0),
    "_malloc_r": (GETS, 1),
    "_calloc_r": (CLEARS, 1),
    "_realloc_r": (MOVES, 1),
    "_free_r": (GIVES_BACK, 1),
    "_memalign_r": (ALIGNS, 1),
    "pvPortMalloc": (GETS, 0),
    "pvPortCalloc": (CLEARS, 0),
    "vPortFree": (GIVES_BACK, 0),
    "k_malloc": (GETS, 0),
    "k_calloc": (CLEARS, 0),
    "k_realloc": (MOVES, 0),
    "k_free": (GIVES_BACK, 0),
}
"""What each does, and the number of the register with its first argument: those of C, of newlib,
FreeRTOS and Zephyr."""


def _symbols(image: Image) -> tuple[SymbolTable, int]:
    """The symbols of an image, also those behind its segments, and how far they were moved."""
    try:
        return read_elf(image.path).symbols, image.bias
    except (ElfError, OSError):
        return image.symbols, 0


def allocator_of(image: Image) -> tuple[tuple[int, int, int, int], ...]:
    """The functions of an image, for ``Shadow``."""
    symbols, bias = _symbols(image)
    sizes = {symbol.address: symbol.size for symbol in symbols if symbol.function}
    found = (
        ((at + bias, kind, argument, sizes.get(at, 0)) for at in symbols.named(name))
        for name, (kind, argument) in FUNCTIONS.items()
    )
    return tuple(chain.from_iterable(found))


def needed_allocator(image: Image, option: str = "check") -> tuple[tuple[int, int, int, int], ...]:
    """The same, for an option. Raises OptionError where there is none that gives memory."""
    functions = allocator_of(image)
    if not any(kind != GIVES_BACK for _, kind, *_ in functions):
        raise OptionError(
            f"`{option}`: heap needs the symbols of an allocator, such as malloc and free:"
            f" {image.path.name} has none"
        )
    return functions


def has_allocator(path: object) -> bool:
    """Whether a file is an ELF file with functions that give memory."""
    try:
        symbols = read_elf(Path(path)).symbols if isinstance(path, str | os.PathLike) else None
    except (ElfError, OSError):
        return False
    giving = [name for name, (kind, _) in FUNCTIONS.items() if kind != GIVES_BACK]
    return symbols is not None and any(symbols.named(name) for name in giving)


def borders_of(image: Image) -> list[int]:
    """The addresses at which objects and functions with a size begin and end."""
    symbols, bias = _symbols(image)
    sized = [symbol for symbol in symbols if symbol.size]
    return [at + bias for s in sized for at in (s.address, s.address + s.size)]


_RETURNS: Final = ((0xFFFF_FC1F, 0xD65F_0000), (0xFFFF_FBFF, 0xD65F_0BFF))
"""Masks and values of words: RET, and RETAA with RETAB."""
_BRANCH: Final = (0xFC00_0000, 0x1400_0000)
"""Those of B."""
_REACH: Final = 1 << 26
"""Words that B reaches."""


def returns_of(image: Image, functions: Iterable[int]) -> list[int]:
    """Where ``functions`` of an image return, and those that they go on in by a branch."""
    symbols, bias = _symbols(image)
    waiting = [address - bias for address in functions]
    seen: set[int] = set()
    found: set[int] = set()
    while waiting:
        symbol = symbols.function_at(waiting.pop())
        if symbol is None or symbol.address in seen:
            continue
        seen.add(symbol.address)
        end = symbol.address + symbol.size
        for address, word in _words(image, symbol.address + bias, symbol.size):
            if any(word & mask == value for mask, value in _RETURNS):
                found.add(address)
            elif word & _BRANCH[0] == _BRANCH[1]:
                away = (word & _REACH - 1 ^ _REACH >> 1) - (_REACH >> 1)
                to = address - bias + 4 * away
                if not symbol.address <= to < end:
                    waiting.append(to)
    return sorted(found)


def _words(image: Image, address: int, size: int) -> Iterator[tuple[int, int]]:
    """The words of code from an address on, and where each is."""
    for segment in image.segments:
        at = address - segment.vaddr
        if 0 <= at < len(segment.data):
            code = bytes(segment.data[at : at + (size & ~3)])
            words = np.frombuffer(code[: len(code) & ~3], "<u4").tolist()
            return zip(range(address, address + 4 * len(words), 4), words, strict=True)
    return iter(())
