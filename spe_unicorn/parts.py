"""Find what of a machine has state: everything that says so, wherever it is reached from.

Nobody keeps a list. A part is an object with a saved state ``s`` (:class:`Stateful`) or with
attributes that are state (``STATE``). It is named by the way to it, which is the same in every
machine of the same options; so what a saved machine holds is put where it belongs in another one.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator, Mapping
from copy import deepcopy
from enum import Enum
from types import ModuleType
from typing import Any, Final

import numpy as np

from spe_unicorn.bits import Register
from spe_unicorn.plain import Bits64, PlainError, decode, decode_array, encode
from spe_unicorn.signals import Signal
from spe_unicorn.stateful import Stateful

_ROOMS: Final = tuple(
    f"spe_unicorn.{room}."
    for room in ("arch", "cores", "devices", "host", "machine", "plugin", "pmu", "spe")
)
"""What machines and attachments are made of. Who watches one is not part of it."""
_RULES: Final = "spe_unicorn.arch.access."
"""Verdicts and what leads to them: thousands of objects, none of which changes."""
_NO_OBJECTS: Final = (
    int,
    float,
    str,
    bytes,
    bytearray,
    memoryview,
    type(None),
    Enum,
    Register,
    type,
    ModuleType,
    np.ndarray,
    ctypes.Array,
    ctypes.Structure,
)


def parts_of(root: object) -> dict[str, Any]:
    """The parts that are reached from ``root`` through attributes and containers, by path."""
    return {
        path: thing
        for path, thing in _walk(root)
        if isinstance(thing, Stateful) or state_names(type(thing))
    }


def signals_of(root: object) -> dict[str, Signal[...]]:
    """The signals that are reached in the same way, by path."""
    return {path: thing for path, thing in _walk(root) if isinstance(thing, Signal)}


def _walk(root: object) -> Iterator[tuple[str, object]]:
    """Everything that is reached from ``root``, with the way to it."""
    seen = {id(root)}
    todo: deque[tuple[str, object]] = deque([("", root)])
    while todo:
        path, thing = todo.popleft()
        yield path, thing
        for name, value in _within(thing):
            if id(value) in seen or isinstance(value, _NO_OBJECTS):
                continue
            seen.add(id(value))
            if not type(value).__module__.startswith(_RULES):
                todo.append((f"{path}.{name}" if path else name, value))


def _within(thing: object) -> Iterator[tuple[str, object]]:
    if isinstance(thing, Mapping):
        for number, (key, value) in enumerate(thing.items()):
            yield _name_of(key, number), value
    elif isinstance(thing, (list, tuple, deque)):
        for number, value in enumerate(thing):
            yield str(number), value
    elif type(thing).__module__.startswith(_ROOMS):
        left_out = _left_out(type(thing))
        for name, value in _attributes(thing):
            if name not in left_out:
                yield name, value


def _name_of(key: object, number: int) -> str:
    if isinstance(key, type):
        return key.__name__
    if isinstance(key, Enum):
        return key.name
    return str(key) if isinstance(key, (int, str)) else f"#{number}"


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    yield from getattr(thing, "__dict__", {}).items()
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield name, getattr(thing, name)


def _left_out(cls: type) -> set[str]:
    """The attributes that hold state itself, or nothing that lasts."""
    names = {"s"} if issubclass(cls, Stateful) else set()
    for base in cls.__mro__:
        for kind in ("STATE", "DERIVED", "TRANSIT"):
            names.update(base.__dict__.get(kind, ()))
    return names


def state_names(cls: type) -> tuple[str, ...]:
    """The attributes of a class that is no ``Stateful`` and yet has state."""
    return tuple(name for base in cls.__mro__ for name in base.__dict__.get("STATE", ()))


def save_parts(parts: Mapping[str, object]) -> dict[str, Any]:
    """A copy of the state of each part, by path."""
    return {path: _saved(part) for path, part in parts.items()}


def _saved(part: object) -> Any:
    if isinstance(part, Stateful):
        return part.save()
    return {name: deepcopy(getattr(part, name)) for name in state_names(type(part))}


def encode_parts(states: Mapping[str, object]) -> dict[str, Any]:
    """What :func:`save_parts` gave, as JSON has it."""
    return {path: _encoded(state) for path, state in states.items()}


def _encoded(state: object) -> Any:
    """A part's state: a dataclass, or attributes by name, whose order says nothing."""
    if isinstance(state, dict):
        return {name: encode(value) for name, value in state.items()}
    return encode(state)


def decode_parts(parts: Mapping[str, Any], states: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`encode_parts` made of the states of such parts. Raises PlainError for others."""
    if states.keys() != parts.keys():
        raise PlainError(f"{min(states.keys() ^ parts.keys())} differs")
    try:
        return {path: _decoded(part, states[path]) for path, part in parts.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise PlainError(str(error)) from None


def _decoded(part: Any, state: Any) -> Any:
    if isinstance(part, Stateful):
        return decode(type(part.s), state)
    there = {name: getattr(part, name) for name in state_names(type(part))}
    return {
        name: decode_array(value, state[name])
        if isinstance(value, np.ndarray)
        else decode(Bits64 if type(value) is int else type(value), state[name])
        for name, value in there.items()
    }


def check_parts(parts: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Raise StateError for a state that its part cannot have, or that lacks something of the host.

    A part that is no ``Stateful`` and checks its arrays has a method ``check_words``.
    """
    for path, part in parts.items():
        if isinstance(part, Stateful):
            part.check(states[path])
        elif hasattr(part, "check_words"):
            part.check_words(*states[path].values())


def restore_parts(parts: Mapping[str, object], states: Mapping[str, object]) -> None:
    """Give each part the state that :func:`save_parts` saved; the states stay the caller's.

    Nothing is derived before all have theirs: what is derived may lie in several. Raises KeyError
    for a part that has none.
    """
    for path, part in parts.items():
        _put(part, states[path])
    for part in parts.values():
        if isinstance(part, Stateful):
            part.derive()


def _put(part: Any, state: Any) -> None:
    if isinstance(part, Stateful):
        part.put(state)
        return
    for name, value in state.items():
        there = getattr(part, name)
        if isinstance(there, np.ndarray):
            there[:] = value  # compiled code knows where it is
        else:
            setattr(part, name, deepcopy(value))
