"""How GDB lets the machine go on (``vCont``, ``c`` and ``s``), as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Resume:
    """Go on. ``steps`` are the numbers of the PEs that stop after an operation.

    A PE with a range goes on stepping while its PC is in it: first address, and the one behind the
    last. All others run on: their turns come as the machine's schedule has it.
    """

    steps: frozenset[int] = frozenset()
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    backwards: str = ""
    """``bs`` undoes an operation of the first of ``steps``, ``bc`` goes back to the last stop."""
    detached: bool = False
    """Nobody stops the machine any more."""


RUN_ON: Final = Resume()
DETACH: Final = Resume(detached=True)

ALL, ANY = -1, 0
"""GDB's thread numbers that stand for several PEs."""


def thread_id(text: str) -> int:
    """A thread number as packets have it: in hexadecimal digits, -1 for all, 0 for any.

    Raises ValueError for what is none.
    """
    number = int(text, 16)
    if number < ALL:
        raise ValueError(f"thread {number}")
    return number


def parse_vcont(text: str, pes: Sequence[int]) -> Resume:
    """The actions behind ``vCont``, such as ``;s:1;c``, for PEs whose threads are numbered from 1.

    Raises ValueError for what is not understood.
    """
    steps: set[int] = set()
    ranges: dict[int, tuple[int, int]] = {}
    spoken_for: set[int] = set()
    for action in text.removeprefix(";").split(";"):
        verb, colon, thread = action.partition(":")
        number = thread_id(thread) if colon else ALL
        mine = set(pes) if number in (ALL, ANY) else {number - 1} & set(pes)
        mine -= spoken_for
        spoken_for |= mine
        kind, arguments = verb[:1], verb[1:]
        if kind in ("c", "C"):
            continue
        if kind in ("s", "S"):
            steps |= mine
        elif kind == "r":
            first, _, end = arguments.partition(",")
            span = int(first, 16), int(end, 16)
            steps |= mine
            ranges.update(dict.fromkeys(mine, span))
        else:
            raise ValueError(f"vCont action {verb!r}")
    return Resume(frozenset(steps), ranges)
