"""Whether the form of the engine's translated code is known, and what inline counting came to.

Where it is known, ``host.native.inline`` makes blocks of guest code count their own operations.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Final, NamedTuple

from unicorn import uc_version

from spe_unicorn.host.accelerators import OPTION as ACCELERATORS
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.engine.engine import address_of

OPTION: Final = "SPE_UNICORN_INLINE"
"""The environment variable that switches inline counting off (0); it is on by default."""
KNOWN_ENGINE: Final = (2, 1, 4)
"""The version of Unicorn whose code is known."""


class Counted(NamedTuple):
    """Whether blocks of a machine count themselves, and how many did."""

    on: bool
    why_not: str | None
    """Why they do not, None if they do."""
    blocks: int
    """How many blocks have counted themselves."""
    refused: int
    """How many blocks had code of another form than expected."""

    def __add__(self, other: Counted) -> Counted:  # type: ignore[override]
        """The sum for two PEs of the same machine."""
        blocks, refused = self.blocks + other.blocks, self.refused + other.refused
        return Counted(self.on, self.why_not, blocks, refused)


def slow_stores_by() -> int:
    """Address of the engine's ``tlb_reset_dirty``, 0 if its library does not export it.

    It is no public function. The wheels for Linux export it.
    """
    try:
        return address_of("tlb_reset_dirty_aarch64")
    except AttributeError:
        return 0


def engine_version() -> tuple[int, ...]:
    """The version of the engine that is loaded: major, minor, patch."""
    combined = uc_version()[2]
    return combined >> 24 & 0xFF, combined >> 16 & 0xFF, combined >> 8 & 0xFF


def why_not() -> str | None:
    """Why blocks cannot count themselves on this host, whatever the machine; None if they can."""
    if not wanted("inline"):
        return f"{ACCELERATORS}={os.environ[ACCELERATORS]}"
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
