"""Whether the engine here is one whose translated code is known, and what came of knowing it.

``host.native.inline`` has blocks of guest code count themselves where it is.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Final, NamedTuple

from unicorn import uc_version

OPTION: Final = "SPE_UNICORN_INLINE"
"""The environment variable that switches inline counting off (0); it is on by default."""
KNOWN_ENGINE: Final = (2, 1, 4)
"""The version of Unicorn whose code is known."""


class Counted(NamedTuple):
    """Whether blocks of a machine count themselves, and how many did."""

    on: bool
    why_not: str | None
    """What keeps them from it, if something does."""
    blocks: int
    """Blocks that count themselves, or did."""
    refused: int
    """Blocks whose code was not what was expected."""

    def __add__(self, other: Counted) -> Counted:  # type: ignore[override]
        """What both came to, of the same machine."""
        blocks, refused = self.blocks + other.blocks, self.refused + other.refused
        return Counted(self.on, self.why_not, blocks, refused)


def engine_version() -> tuple[int, ...]:
    """The version of the engine that is loaded: major, minor, patch."""
    combined = uc_version()[2]
    return combined >> 24 & 0xFF, combined >> 16 & 0xFF, combined >> 8 & 0xFF


def why_not() -> str | None:
    """What keeps blocks from counting themselves here, whatever the machine; None if nothing."""
    value = os.environ.get(OPTION, "")
    if value not in ("", "1"):
        return f"{OPTION}={value}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "only on Linux on x86-64"
    version = engine_version()
    if version != KNOWN_ENGINE:
        known, this = (".".join(map(str, numbers)) for numbers in (KNOWN_ENGINE, version))
        return f"only with Unicorn {known}, this is {this}"
    return None
