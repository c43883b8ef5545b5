"""What is said of each field of the state: its name, who writes it, and what it means."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Writer(Enum):
    """Who writes a field: only one of these.

    Decision record 0051 says how Python has something written that is not its own.
    """

    ONCE = "whoever builds the machine, once"
    PYTHON = "Python, or `native.turns` in its place, between two runs of the engine"
    REQUEST = "`requests.RunRequest`, or `native.turns` in its place, before a run"
    LEDGER = "functions of `state.ledger`, which the hooks and Python call"
    HOOKS = "compiled code: the hooks in a run, and functions by which Python has it written"


class Field(NamedTuple):
    """A field of the state, a signed number of 64 bits: its name, who writes it, what it means."""

    name: str
    writer: Writer
    meaning: str
