"""Which accelerators are in use: compiled code that answers something in place of Python.

Each accelerator is optional. Without it the engine stops more often, and Python answers the same.
``docs/reference/accelerators.md`` says what each of them buys.
"""

from __future__ import annotations

import os
from typing import Final

OPTION: Final = "SPE_UNICORN_ACCELERATORS"
"""The environment variable that chooses them: ``none``, or names with commas; all by default."""
NAMES: Final = (
    "inline",
    "recipes",
    "turns",
    "controls",
    "exceptions",
    "events",
    "wfi",
    "gic",
    "timers",
    "uart",
    "sampling",
    "awaited",
    "instructions",
    "zeroes",
    "code",
)


def chosen() -> frozenset[str]:
    """The names of the accelerators that may be used. ValueError if one is none of them."""
    value = os.environ.get(OPTION, "").strip()
    if not value:
        return frozenset(NAMES)
    if value == "none":
        return frozenset()
    names = {name.strip() for name in value.split(",")}
    for name in sorted(names - set(NAMES)):
        known = ", ".join(NAMES)
        raise ValueError(f"{OPTION}: there is no accelerator {name!r}; there is none, {known}")
    return frozenset(names)


def wanted(name: str) -> bool:
    """Whether the accelerator of this name may be used."""
    return name in chosen()
