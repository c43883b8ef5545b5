"""Plain data as JSON and back, by its declared types: a file makes nothing but what those name.

What JSON lacks is written as lists and texts: bytes and arrays in base64, dictionaries as pairs,
enumerations and registers as numbers, dataclasses by field.
"""

from __future__ import annotations

import types
import typing
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Union

import numpy as np

from spe_unicorn.bits import Register

_SEQUENCES: Final = {list: list, set: set, frozenset: frozenset, deque: deque}
_UNIONS: Final = (Union, types.UnionType)


@dataclass(frozen=True)
class Within:
    """The numbers that a field holds, or the numbers of items: ``Annotated[int, Within(0, 3)]``."""

    least: int
    most: int


Bits8 = Annotated[int, Within(0, (1 << 8) - 1)]
Bits16 = Annotated[int, Within(0, (1 << 16) - 1)]
Bits32 = Annotated[int, Within(0, (1 << 32) - 1)]
Bits64 = Annotated[int, Within(0, (1 << 64) - 1)]
Count = Annotated[int, Within(0, (1 << 62) - 1)]
"""How often something has happened: no machine runs so long."""
_ANY: Final = Within(-1 << 63, (1 << 64) - 1)
"""What a field holds that declares no more than that it is a number."""


class PlainError(ValueError):
    """JSON that is none of the type that was expected; the message is one line."""


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def encode(value: Any) -> Any:
    """``value`` as JSON has it. Raises PlainError for what is no plain data."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, Register):
        return value.value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    if isinstance(value, np.ndarray):
        return [value.dtype.str, b64encode(value.tobytes()).decode()]
    if isinstance(value, Mapping):
        return [[encode(key), encode(item)] for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return [encode(item) for item in sorted(value)]
    if isinstance(value, (list, tuple, deque)):
        return [encode(item) for item in value]
    if hasattr(type(value), "__dataclass_fields__"):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    raise PlainError(f"{type(value).__name__} is no plain data")


def decode(hint: object, data: object, within: Within = _ANY) -> Any:
    """What :func:`encode` made ``data`` of, as a value of the type ``hint``.

    ``within`` are the numbers that it may be. Raises PlainError.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _within(arguments[1], decode(arguments[0], data, arguments[1]))
    if origin in _UNIONS:
        return _of_union(arguments, data)
    if origin is not None:
        return _of_container(origin, arguments, data)
    if hint is type(None) or hint in (bool, int, str):
        if type(data) is not hint:
            raise PlainError(f"{hint.__name__} was expected, not {_shown(data)}")
        return _within(within, data) if hint is int else data
    if hint in (bytes, bytearray):
        return hint(_bytes(data))
    if isinstance(hint, type) and issubclass(hint, (Enum, Register)):
        return _of_number(hint, data)
    if hasattr(hint, "__dataclass_fields__"):
        return _of_fields(hint, data)
    raise PlainError(f"{hint} is no type of plain data")


def decode_array(like: Any, data: Any) -> Any:
    """An array of the type and length of ``like``. Raises PlainError."""
    if not isinstance(data, list) or len(data) != 2 or data[0] != like.dtype.str:
        raise PlainError(f"an array of {like.dtype} was expected")
    raw = _bytes(data[1])
    if len(raw) != like.nbytes:
        raise PlainError(f"an array of {like.nbytes} bytes was expected, not of {len(raw)}")
    return np.frombuffer(raw, like.dtype).reshape(like.shape)


def _within(allowed: Within, value: Any) -> Any:
    """``value``, if it, or the number of its items, is one that is allowed."""
    number = value if isinstance(value, int) else len(value)
    if not allowed.least <= number <= allowed.most:
        what = "" if isinstance(value, int) else " items"
        raise PlainError(
            f"{allowed.least} to {allowed.most}{what} were expected, not {_shown(number)}"
        )
    return value


def _shown(data: object) -> str:
    """Some of a value, for a message: Python writes no number of thousands of digits."""
    return hex(data)[:40] if isinstance(data, int) else f"{data!r:.40}"


def _of_union(arguments: tuple[Any, ...], data: object) -> Any:
    """Of ``T | None``: the only kind of union that states have."""
    if data is None and type(None) in arguments:
        return None
    (hint,) = (argument for argument in arguments if argument is not type(None))
    return decode(hint, data)


def _of_container(origin: Any, arguments: tuple[Any, ...], data: Any) -> Any:
    if not isinstance(data, list):
        raise PlainError(f"{origin.__name__} was expected, not {_shown(data)}")
    if origin is dict:
        key_hint, item_hint = arguments
        pairs = (_pair(pair) for pair in data)
        return {decode(key_hint, key): decode(item_hint, item) for key, item in pairs}
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(decode(arguments[0], item) for item in data)
        if len(arguments) != len(data):
            raise PlainError(f"{len(arguments)} items were expected, not {len(data)}")
        return tuple(decode(hint, item) for hint, item in zip(arguments, data, strict=True))
    if origin not in _SEQUENCES:
        raise PlainError(f"{origin} is no type of plain data")
    return _SEQUENCES[origin](decode(arguments[0], item) for item in data)


def _of_number(hint: Any, data: Any) -> Any:
    if type(data) not in (int, str):
        raise PlainError(f"a value of {hint.__name__} was expected, not {_shown(data)}")
    try:
        return hint(data)
    except (TypeError, ValueError) as error:
        raise PlainError(f"{hint.__name__}: {error}") from None


def _of_fields(cls: Any, data: Any) -> Any:
    names = {field.name for field in fields(cls)}
    if not isinstance(data, dict) or data.keys() != names:
        raise PlainError(f"the fields of {cls.__name__} were expected")
    hints = _hints(cls)
    return cls(**{name: decode(hints[name], item) for name, item in data.items()})


def _pair(data: object) -> tuple[Any, Any]:
    if not isinstance(data, list) or len(data) != 2:
        raise PlainError("a pair was expected")
    return data[0], data[1]


def _bytes(data: object) -> bytes:
    if not isinstance(data, str):
        raise PlainError("bytes were expected")
    try:
        return b64decode(data, validate=True)
    except ValueError:
        raise PlainError("bytes in base64 were expected") from None
