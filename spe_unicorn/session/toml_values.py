"""Values of options in TOML files, checked: each check gives the value, or raises ValueError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from spe_unicorn.machine.options import KINDS_OF_OPTIONS, parse_size
from spe_unicorn.session.point import parse_point

MOST: Final = (1 << 63) - 1
"""The largest whole number that an option, a limit or a table of results can have."""


def text(value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"is a text, got {value!r}")
    return value


def point(value: object) -> str:
    """A POINT, as ``session.point`` reads it."""
    parse_point(text(value))
    return str(value)


def truth(value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"is true or false, got {value!r}")
    return value


def whole(least: int) -> Callable[[Any], int]:
    """A check for whole numbers from ``least`` to :data:`MOST`."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"is a whole number from {least} on, got {value!r}")
        if value > MOST:
            raise ValueError(f"is a whole number up to {MOST}")
        return value

    return check


def seconds(value: object) -> float:
    """A time in seconds, more than 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise ValueError(f"is a number of seconds, got {value!r}")
    return float(value)


def size(value: object) -> int:
    """Bytes, also written as ``128M``."""
    if isinstance(value, str):
        value = parse_size(value)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return whole(1)(value)
    raise ValueError(f'is a number of bytes or such as "128M", got {value!r}')


def texts(value: object) -> tuple[str, ...]:
    """A list of texts, as a tuple."""
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"is a list of texts, got {value!r}")
    return tuple(value)


_BY_KIND: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": truth,
    "bool | None": truth,
    "int": whole(1),
    "int | None": whole(1),
    "str | None": text,
    "File | None": text,
    "tuple[str, ...]": texts,
}
_BY_NAME: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("firmware", "core", "model", "ram_fill"), text),
    "seed": whole(0),
    "ram": size,
}
MACHINE: Final[dict[str, Callable[[Any], Any]]] = {
    name: _BY_NAME.get(name) or _BY_KIND[kind]
    for name, kind in KINDS_OF_OPTIONS.items()
    if name != "sampling"
}
"""The checks of all options of MachineOptions but ``sampling``, by their names."""
