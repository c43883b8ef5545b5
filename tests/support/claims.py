"""Which attributes of a machine's objects nobody claims.

An attribute is claimed as state (``s``, or ``STATE`` of a class that is nothing else), as derived
(``DERIVED``), as empty between two operations (``TRANSIT``), or as wiring: then it is assigned at
construction alone (or named in ``WIRING``), and what it holds does not change.
"""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import enum
import inspect
import textwrap
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from spe_unicorn import Machine
from spe_unicorn.bits import Register
from spe_unicorn.signals import Signal

ROOMS = tuple(
    f"spe_unicorn.{room}" for room in ("arch", "cores", "devices", "host", "machine", "pmu", "spe")
)
"""Rooms whose attributes are claimed."""
PLAIN = (int, float, str, bytes, type(None), enum.Enum, Register)
CONTAINERS = (list, dict, set, frozenset, tuple, bytearray, deque)
_CONSTRUCTION = ("__init__", "__post_init__", "__new__", "__set_name__")


def all_objects(machine: Machine) -> list[tuple[str, object]]:
    """Those of the rooms that count, wherever they are reached from."""
    found = objects(machine.board, lambda cls: False)
    return [(path, thing) for path, thing in found if type(thing).__module__.startswith(ROOMS)]


def objects(root: object, exempt: Callable[[type], bool]) -> Iterator[tuple[str, object]]:
    """Every object of ours that can be reached from ``root``, with a way to it.

    Objects of exempt classes, and what is reached through them alone, are left out.
    """
    seen: set[int] = set()
    todo: deque[tuple[str, object]] = deque([("", root)])
    while todo:
        path, thing = todo.popleft()
        if id(thing) in seen or isinstance(thing, (*PLAIN, type, ModuleType)):
            continue
        seen.add(id(thing))
        if isinstance(thing, dict):
            todo.extend((f"{path}[{key!r}]", value) for key, value in thing.items())
            todo.extend((f"{path}.key", key) for key in thing)
        elif isinstance(thing, (list, tuple, set, frozenset, deque)):
            todo.extend((f"{path}[{n}]", value) for n, value in enumerate(thing))
        elif isinstance(thing, MethodType):
            todo.append((f"{path}.__self__", thing.__self__))
        elif isinstance(thing, FunctionType):
            cells = thing.__closure__ or ()
            names = thing.__code__.co_freevars
            for name, cell in zip(names, cells, strict=True):
                todo.append((f"{path}<{name}>", cell.cell_contents))
        elif isinstance(thing, (ctypes.Array, ctypes.Structure)):
            continue
        elif type(thing).__module__.startswith("spe_unicorn.") and not exempt(type(thing)):
            if not isinstance(thing, Signal):
                yield path, thing
            state = state_of(type(thing))
            todo.extend(
                (f"{path}.{name}", value)
                for name, value in attributes(thing).items()
                if name not in state
            )


def attributes(thing: object) -> dict[str, Any]:
    """What an object holds by name, in its dictionary and its slots."""
    found = dict(getattr(thing, "__dict__", {}))
    for cls in type(thing).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if name not in ("__dict__", "__weakref__") and hasattr(thing, mangled):
                found[mangled] = getattr(thing, mangled)
    return found


def state_of(cls: type) -> frozenset[str]:
    """The attributes that hold state."""
    names = {name for base in cls.__mro__ for name in base.__dict__.get("STATE", ())}
    return frozenset({"s", *names} if hasattr(cls, "DERIVED") else names)


def claimed(cls: type) -> frozenset[str]:
    """The attributes that a class and its bases claim by name."""
    names = set(state_of(cls))
    for base in cls.__mro__:
        for kind in ("DERIVED", "TRANSIT", "WIRING"):
            names.update(base.__dict__.get(kind, ()))
    return frozenset(names)


def is_plain(value: object) -> bool:
    """Whether a value is plain data, all the way down."""
    if isinstance(value, (*PLAIN, bytearray)):
        return True
    if isinstance(value, np.ndarray):
        return True
    if isinstance(value, dict):
        return all(is_plain(key) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return all(is_plain(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return all(is_plain(getattr(value, field.name)) for field in dataclasses.fields(value))
    return False


@cache
def reassigned(cls: type) -> frozenset[str]:
    """Attributes of ``self`` that methods other than the constructor assign."""
    names: set[str] = set()
    for base in cls.__mro__:
        if base is object or base.__module__ in ("typing", "abc"):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        for method in ast.walk(tree):
            if isinstance(method, ast.FunctionDef) and method.name not in _CONSTRUCTION:
                names.update(_assigned(method))
    return frozenset(names)


def _assigned(method: ast.FunctionDef) -> Iterator[str]:
    """The attributes of the first argument that a method assigns."""
    if not method.args.args:
        return
    mine = method.args.args[0].arg
    for node in ast.walk(method):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, (ast.Store, ast.Del))
            and isinstance(node.value, ast.Name)
            and node.value.id == mine
        ):
            yield node.attr


def fingerprint(value: object) -> object:
    """What tells whether an attribute has changed: its value if plain, else which object it is."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, np.ndarray):
        return id(value), value.tobytes()
    if isinstance(value, bytearray):
        return id(value), bytes(value)
    if isinstance(value, dict):
        return id(value), [(fingerprint(key), fingerprint(item)) for key, item in value.items()]
    if isinstance(value, CONTAINERS):
        return id(value), [fingerprint(item) for item in value]
    if isinstance(value, MethodType):
        return id(value.__self__), value.__func__
    return id(value)


def unclaimed(things: list[tuple[str, object]]) -> dict[str, str]:
    """Attributes that nobody claims and that methods assign, each with a way to it."""
    found = {}
    for path, thing in things:
        names = reassigned(type(thing)) & attributes(thing).keys() - claimed(type(thing))
        found.update({f"{type(thing).__qualname__}.{name}": path for name in names})
    return found


def held(things: list[tuple[str, object]]) -> dict[tuple[int, str], tuple[str, object]]:
    """What each unclaimed attribute holds now."""
    return {
        (id(thing), name): (f"{type(thing).__qualname__}.{name}", fingerprint(value))
        for _, thing in things
        for name, value in attributes(thing).items()
        if name not in claimed(type(thing))
    }


def changed(things: list[tuple[str, object]], before: dict[Any, Any]) -> set[str]:
    """Unclaimed attributes that hold something else than they did."""
    now = held(things)
    return {name for key, (name, value) in before.items() if now.get(key, (name, None))[1] != value}
