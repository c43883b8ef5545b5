"""Whether the form of the engine's translated code is known, and what inline counting came to.

Where it is known, ``host.native.inline`` makes blocks of guest code count their own operations.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Final, NamedTuple

from spe_unicorn.host.accelerators import OPTION as ACCELERATORS
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.engine.builds import code_form, code_numbers, engine_name, host_name
from spe_unicorn.host.engine.builds.forms import Pattern
from spe_unicorn.host.engine.engine import address_of

OPTION: Final = "SPE_UNICORN_INLINE"
"""The environment variable that switches inline counting off (0); it is on by default."""


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
        return address_of(code_numbers().slow_stores)
    except AttributeError:
        return 0


@lru_cache(maxsize=1)
def lookup_by() -> int:
    """Address of the engine's function by which indirect branches go on; 0 if it is not as known.

    It is no public function. The wheels for Linux export it, and the one that it asks.
    """
    form = code_numbers().lookup
    try:
        lookup, flags = address_of(form.name), address_of(form.flags_name)
    except AttributeError:
        return 0
    known = (
        is_as_known(lookup, form.code)
        and is_as_known(flags, form.flags_code)
        and is_as_known(flags + form.branch_type_at, form.branch_type_code)
    )
    return lookup if known else 0


def is_as_known(address: int, code: Pattern) -> bool:
    """Whether a function, or a part of one, is as it is expected."""
    there = ctypes.string_at(address, len(code))
    return all(
        byte & mask == expected
        for byte, expected, mask in zip(there, code.bytes, code.masks, strict=True)
    )


def why_not() -> str | None:
    """Why blocks cannot count themselves on this host, whatever the machine; None if they can."""
    if not wanted("inline"):
        return f"{ACCELERATORS}={os.environ[ACCELERATORS]}"
    value = os.environ.get(OPTION, "")
    if value not in ("", "1"):
        return f"{OPTION}={value}"
    if code_form() is None:
        return f"the code of {engine_name()} on {host_name()} is not known"
    return None
