"""The engine's registers and other state as bytes: what ``uc_context_save`` saves, less pointers.

The TLB, translated code and memory are not part of it. The bytes are valid only for the same
release of the engine (:data:`ENGINE`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc, uc_version
from unicorn.arm64_const import (
    UC_ARM64_REG_FPCR,
    UC_ARM64_REG_PC,
    UC_ARM64_REG_X0,
    UC_CPU_ARM64_MAX,
)

from spe_unicorn.host.engine.builds import engine_name, release, release_numbers

_SAVED: Final = release_numbers().saved
_HEADER = _SAVED.header
_POINTERS = _SAVED.pointers
_PSTATE = _SAVED.pstate
_AARCH64: Final = slice(_SAVED.aarch64, _SAVED.aarch64 + 4)
_NRW: Final = 1 << 4
_X0, _PC = 0x0123_4567_89AB_CDE0, 0x0FED_CBA9_8765_4320
"""Numbers that are nowhere else in a state."""
_RMODE: Final = 22
_INPUTS: Final = slice(3064, 3068)
"""The levels of its interrupt inputs, which are not driven. While a virtual one is high, no run of
the engine ends at an address."""

ENGINE: Final = "Unicorn " + ".".join(map(str, uc_version()[:3]))
"""The release of the engine."""


class ContextError(ValueError):
    """A state that does not fit this engine; the message is one line."""


def save_context(uc: Uc) -> bytes:
    """The state of an engine that does not run.

    Raises ContextError where the release of the engine is not known, and has other states.
    """
    _verify()
    return bytes(uc.context_save())[_HEADER:-_POINTERS]


@lru_cache(maxsize=1)
def _verify() -> None:
    """Raise ContextError if the release is not known, and its state is not as it is taken to be."""
    if release() is not None:
        return
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
    uc.reg_write(UC_ARM64_REG_X0, _X0)
    uc.reg_write(UC_ARM64_REG_PC, _PC)
    state = bytes(uc.context_save())[_HEADER:]
    places = {_X0: _SAVED.x0, _PC: _SAVED.pc}
    if any(state.find(value.to_bytes(8, "little")) != at for value, at in places.items()):
        raise ContextError(f"the state of {engine_name()} is of an unknown form")


_PLACES: Final[list[int]] = []
"""What :func:`_roundings` has found."""


def check_context(uc: Uc, rebuild: Callable[[], None], state: bytes) -> None:
    """Raise ContextError for a state that no guest leaves, and by which the engine would go astray.

    The engine trusts what it keeps of other fields: the translation regime by Exception level and
    System registers, the rounding modes by FPCR. ``rebuild`` has it work out the former anew. The
    engine's own state stays.
    """
    before = save_context(uc)
    if len(state) != len(before):
        raise ContextError(f"an engine's state has {len(before)} bytes, here are {len(state)}")
    same = all(state[fixed] == before[fixed] for fixed in (_AARCH64, _INPUTS))
    if not same or state[_PSTATE] & _NRW or any(state[at] > 3 for at in _roundings(uc, before)):
        raise ContextError("an engine's state is none that there can be")
    try:
        restore_context(uc, state)
        rebuild()
        if save_context(uc) != state:
            raise ContextError("an engine's state is none that there can be")
    finally:
        restore_context(uc, before)
        rebuild()  # what it keeps outside of its state: whether a virtual interrupt is pending


def _roundings(uc: Uc, state: bytes) -> list[int]:
    """Where the engine keeps rounding modes, which other bytes change with FPCR.RMode.

    All engines of a process keep them at the same places.
    """
    if not _PLACES:
        _PLACES.extend(_changed_by_rounding(uc, state))
    return _PLACES


def _changed_by_rounding(uc: Uc, state: bytes) -> list[int]:
    found = []
    try:
        for mode in (1, 2):
            uc.reg_write(UC_ARM64_REG_FPCR, mode << _RMODE)
            found.append(save_context(uc))
    finally:
        restore_context(uc, state)
    pairs = enumerate(zip(*found, strict=True))
    return [at for at, pair in pairs if pair == _SAVED.roundings]


def restore_context(uc: Uc, state: bytes) -> None:
    """Put a state of :func:`save_context` into an engine, which keeps its own breakpoints.

    The caller must flush its TLB and translated code. Raises ContextError for a state of another
    size.
    """
    _verify()
    context = uc.context_save()
    expected = context.size - _HEADER - _POINTERS
    if len(state) != expected:
        raise ContextError(f"an engine's state has {expected} bytes, here are {len(state)}")
    ctypes.memmove(context.context.value + _HEADER, state, expected)
    uc.context_restore(context)
