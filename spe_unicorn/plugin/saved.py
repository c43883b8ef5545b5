"""The state of an attachment as plain data: what ``uc.context_save`` cannot know of.

That is SPE's and the Performance Monitors' registers, what has been counted, the random streams,
the core model and ``program``. The engine's own registers and memory are the user's to save.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spe_unicorn.cores.profile import Core
from spe_unicorn.host.engine.context import ENGINE
from spe_unicorn.host.pe.at_rest import EngineState, restore_hooks, save_hooks
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.parts import (
    check_parts,
    decode_parts,
    encode_parts,
    parts_of,
    restore_parts,
    save_parts,
)
from spe_unicorn.plain import PlainError, decode, encode
from spe_unicorn.plugin.checks import AttachError
from spe_unicorn.stateful import StateError

VERSION: Final = 1
"""Of the data's form."""


@dataclass(frozen=True, slots=True)
class Programmed:
    """What ``program`` was called with; ``types`` are the flags' values."""

    interval: int
    types: tuple[int, ...]
    min_latency: int


def identity(core: Core, model: str) -> dict[str, str]:
    """What two attachments have alike if one can take the other's state."""
    features = ", ".join(sorted(feature.name for feature in core.features))
    return {"core": core.name, "features": features, "model": model, "engine": ENGINE}


def programmed(state: object, mine: Mapping[str, str]) -> Programmed | None:
    """How sampling was programmed from outside in a state of :func:`save`, None for not at all.

    Raises AttachError for what is no state, and for one of another attachment.
    """
    try:
        if not isinstance(state, dict) or state["version"] != VERSION:
            raise AttachError(f"`state` is what save() gave, of version {VERSION}")
        saved = decode(dict[str, str], state["identity"])
        program: Programmed | None = decode(Programmed | None, state["program"])
    except (PlainError, KeyError) as error:
        raise AttachError(f"`state` is damaged: {error}") from None
    for name, value in mine.items():
        if saved.get(name) != value:
            raise AttachError(
                f"`state` is of another attachment: {name} {saved.get(name)!r}, here {value!r}"
            )
    return program


def save(
    root: object, handler: StopHandler, mine: Mapping[str, str], program: Programmed | None
) -> dict[str, Any]:
    """The state of everything that is reached from ``root``, as JSON has it."""
    return {
        "version": VERSION,
        "identity": encode(mine),
        "program": encode(program),
        "hooks": encode(save_hooks(handler)),
        "parts": encode_parts(save_parts(parts_of(root))),
    }


def restore(root: object, handler: StopHandler, state: Mapping[str, Any]) -> None:
    """Put a state back. Raises AttachError, with nothing changed, for one that is damaged."""
    parts = parts_of(root)
    try:
        hooks = decode(EngineState, state["hooks"])
        states = decode_parts(parts, state["parts"])
        check_parts(parts, states)
    except (PlainError, StateError, KeyError, AttributeError) as error:
        raise AttachError(f"`state` is damaged, or of another release: {error}") from None
    restore_hooks(handler, hooks)
    restore_parts(parts, states)
