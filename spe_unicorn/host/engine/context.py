"""The engine's registers and other state as bytes: what ``uc_context_save`` saves, less pointers.

The TLB, translated code and memory are not part of it. The bytes are valid for the same release of
the engine alone (:data:`ENGINE`).
"""

from __future__ import annotations

import ctypes
from typing import Final

from unicorn import Uc, uc_version

_HEADER: Final = 40
"""Bytes before the state: ``struct uc_context`` up to ``data``."""
_POINTERS: Final = 16 * 8
"""Bytes at the end of the state: where the engine keeps its hardware breakpoints."""

ENGINE: Final = "Unicorn " + ".".join(map(str, uc_version()[:3]))
"""The release of the engine."""


class ContextError(ValueError):
    """A state that does not fit this engine; the message is one line."""


def save_context(uc: Uc) -> bytes:
    """The state of an engine that does not run."""
    return bytes(uc.context_save())[_HEADER:-_POINTERS]


def restore_context(uc: Uc, state: bytes) -> None:
    """Put a state of :func:`save_context` into an engine, which keeps its own breakpoints.

    The caller must flush its TLB and translated code. Raises ContextError for a state of another
    size.
    """
    context = uc.context_save()
    expected = context.size - _HEADER - _POINTERS
    if len(state) != expected:
        raise ContextError(f"an engine's state has {expected} bytes, here are {len(state)}")
    ctypes.memmove(context.context.value + _HEADER, state, expected)
    uc.context_restore(context)
