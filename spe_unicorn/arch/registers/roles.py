"""What a System register is to the rest of the machine, said once, in the register's class."""

from __future__ import annotations

from enum import Enum, Flag, auto


class Affects(Flag):
    """What has to be worked out anew when a register is written."""

    NOTHING = 0
    TRANSLATION = auto()
    """The PE's own translation of addresses."""
    BUFFER = auto()
    """The translation of Profiling Buffer addresses in the owning regime."""
    CHECKS = auto()
    """Which alignment checks are made."""
    TRAPS = auto()
    """Which operations trap, and what the counters show."""
    PROFILING = auto()
    """Whether, where and what SPE samples."""
    RECORDS = auto()
    """What stands in records, and nothing that decides whether there are any."""
    RETURNS = auto()
    """What an exception return makes of PSTATE."""


class Owner(Enum):
    """Who keeps a register's value on a machine whose instructions an engine executes."""

    ENGINE = "engine"
    """The engine, which implements the register right. It is read through, never copied."""
    HOST = "host"
    """We do: the engine lacks the register."""
    EMULATED = "emulated"
    """We do, where the engine is wholly ours: it has the register, and gets it wrong."""
    SPLIT = "split"
    """The engine, but for some fields that it drops and we keep."""
