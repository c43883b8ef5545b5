"""What the engine computes with, as bytes: all that ``uc_context_save`` saves, but for pointers.

The TLB and translated code are outside, and so is memory. The bytes mean something to the same
release of the engine alone (:data:`ENGINE`).
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
    """A state that this engine cannot have; the message is one line."""


def save_context(uc: Uc) -> bytes:
    """The state of an engine that does not run."""
    return bytes(uc.context_save())[_HEADER:-_POINTERS]


def restore_context(uc: Uc, state: bytes) -> None:
    """Have an engine go on from a state of :func:`save_context`, with its breakpoints.

    Its TLB and translated code are for the caller to forget. Raises ContextError for a state of
    another size.
    """
    context = uc.context_save()
    expected = context.size - _HEADER - _POINTERS
    if len(state) != expected:
        raise ContextError(f"an engine's state has {expected} bytes, here are {len(state)}")
    ctypes.memmove(context.context.value + _HEADER, state, expected)
    uc.context_restore(context)
