"""What is said of each field of the state: its name, who writes it, and what it means."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Writer(Enum):
    """Who writes a field. The hooks write while the engine runs, Python while it stands.

    Decision record 0040 says why each of TURNS is not written by one side alone.
    """

    ONCE = "whoever builds the machine, once"
    PYTHON = "Python, or `native.turns` in its place, between two runs of the engine"
    REQUEST = "`requests.RunRequest`, or `native.turns` in its place, before a run"
    HOOKS = "the hooks, during a run; Python by methods of State and routines of its room alone"
    TURNS = "the hooks during a run, Python between two or when a hook asks it"


class Field(NamedTuple):
    """A field of the state, a signed number of 64 bits: its name, who writes it, what it means."""

    name: str
    writer: Writer
    meaning: str
