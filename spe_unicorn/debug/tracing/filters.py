"""Filters of traces: by PE, Exception level and place in the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spe_unicorn.machine.names import Names

KEYS: Final = ("cpu", "el", "range", "symbol")
"""The keys of a filter."""
_LEVELS: Final = 4
_ADDRESSES: Final = 1 << 64
_CPUS: Final = 1 << 16


class FilterError(ValueError):
    """A text that is no filter, or an unknown symbol; the message is one line."""


@dataclass(frozen=True)
class TraceFilter:
    """One ``--trace-filter``. It lets pass what has, for each of its keys, one of the key's values.

    ``ranges`` are first and last addresses. ``symbols`` are names that are not looked up yet.
    """

    cpus: frozenset[int] = frozenset()
    levels: frozenset[int] = frozenset()
    ranges: tuple[tuple[int, int], ...] = ()
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"cpu={n}" for n in sorted(self.cpus)] + [f"el={n}" for n in sorted(self.levels)]
        words += [f"range={first:#x}-{last:#x}" for first, last in self.ranges]
        return ",".join([*words, *(f"symbol={name}" for name in self.symbols)])

    def resolved(self, names: Names) -> TraceFilter:
        """The filter with the ranges of its symbols. Raises FilterError for an unknown symbol."""
        ranges = list(self.ranges)
        for name in self.symbols:
            found = names.extents(name)
            if not found:
                raise FilterError(f"no symbol is called {name!r}")
            ranges += found
        return TraceFilter(self.cpus, self.levels, tuple(ranges))

    def passes(self, cpu: int, el: int, pc: int) -> bool:
        """Whether it lets pass what happens at ``pc`` and ``el`` of a PE."""
        return (
            (not self.cpus or cpu in self.cpus)
            and (not self.levels or el in self.levels)
            and (not self.ranges or any(first <= pc <= last for first, last in self.ranges))
        )


@dataclass
class _Parts:
    """A filter as it is read."""

    cpus: set[int] = field(default_factory=set)
    levels: set[int] = field(default_factory=set)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)


def parse_filter(text: str) -> TraceFilter:
    """``KEY=VALUE[,KEY=VALUE...]``. Raises FilterError."""
    parts = _Parts()
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if key not in KEYS or not equals or not value:
            raise FilterError(
                f"{word!r}: write cpu=N, el=N, range=0xFIRST-0xLAST or symbol=NAME, with commas"
                " between them"
            )
        if key == "cpu":
            parts.cpus.add(_number(word, value, _CPUS))
        elif key == "el":
            parts.levels.add(_number(word, value, _LEVELS))
        elif key == "range":
            parts.ranges.append(_range(word, value))
        else:
            parts.symbols.append(value)
    return TraceFilter(
        frozenset(parts.cpus), frozenset(parts.levels), tuple(parts.ranges), tuple(parts.symbols)
    )


def _number(word: str, text: str, end: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:9]) >= end:
        raise FilterError(f"{word!r}: allowed are the numbers from 0 to {end - 1}")
    return int(text[:9])


def _range(word: str, text: str) -> tuple[int, int]:
    first, minus, last = text.partition("-")
    try:
        begin, end = int(first, 16), int(last, 16)
    except ValueError:
        begin, end = 1, 0
    hexadecimal = all(part[:2] in ("0x", "0X") for part in (first, last))
    if not minus or not hexadecimal or not 0 <= begin <= end < _ADDRESSES:
        raise FilterError(f"{word!r}: write the first and the last address, range=0x1000-0x1fff")
    return begin, end


def passes(filters: Sequence[TraceFilter], cpu: int, el: int, pc: int) -> bool:
    """Whether any of ``filters`` lets something pass; without filters everything passes."""
    return not filters or any(one.passes(cpu, el, pc) for one in filters)


def resolved(filters: Iterable[TraceFilter], names: Names) -> tuple[TraceFilter, ...]:
    """The filters with the ranges of their symbols. Raises FilterError."""
    return tuple(one.resolved(names) for one in filters)
