"""A row of the tables: a pattern of bits, and the features without which there is none such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from spe_unicorn.instructions.known.features import BIT
from spe_unicorn.instructions.rows import pattern_of


class Known(NamedTuple):
    """Instructions that need the same features, and how one of them is known."""

    name: str
    mask: int
    value: int
    needs: int
    """The features, a bit each: all of them. None for what Armv8.0 has."""


ARMV8_0: Final = "-"


def table(text: str) -> tuple[Known, ...]:
    """The rows in a text: bits 31 to 0 in eight groups, features with ``+`` between them, a name.

    A line that begins with ``#`` is for people. Raises ValueError for what is no row.
    """
    return tuple(_rows(text))


_GROUPS: Final = 8


def _rows(text: str) -> Iterator[Known]:
    for line in text.splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        mask, value = pattern_of(" ".join(words[:_GROUPS]))
        features, name = words[_GROUPS], " ".join(words[_GROUPS + 1 :])
        needs = 0 if features == ARMV8_0 else sum(BIT[one] for one in features.split("+"))
        yield Known(name, mask, value, needs)
