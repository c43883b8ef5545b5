"""A sample as a row: of the ring, once the hook has noted it; while its block runs, of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spe_unicorn.compiled import layout

SAMPLES: Final = 4096
"""Entries of the ring of samples that have been noted and not yet been looked at."""
SAMPLE_PA: Final = 1 << 8
"""The address translated."""
SAMPLE_ON_WRONG_PATH: Final = 1 << 9
"""It is on a wrong path: of the rest, only what identifies it, and ``cycles``, counts."""


@dataclass(slots=True)
class Sample:
    """A sample that the hook has noted, as a row of the ring; numbers of 64 bits with a sign."""

    instruction: int
    """The number of its instruction."""
    pc: int
    cycles: int
    """Cycles before it."""
    following: int
    """The PC after it."""
    va: int
    pa: int
    flags: int
    """The condition flags."""
    level: int
    """Its Exception level, and SAMPLE_PA or SAMPLE_ON_WRONG_PATH."""
    members: int
    """Members of the population that have gone by, itself included."""
    flow_target: int
    flow: int
    """``State.flow_target`` and ``State.flow``."""
    did: int
    """What the core model noted of it (``cores.cache_model.what_was_done``), 0 without one."""


SAMPLE: Final = layout(Sample)
SAMPLE_BYTES: Final = SAMPLE.itemsize
"""A row of the ring."""


@dataclass(slots=True)
class Pending:
    """A chosen member of the block that runs, as a row of the table ``chosen``."""

    member: int
    """Its number in the block."""
    plan: int
    access: int
    """The first two words of its plan."""
    instruction: int
    """The number of its instruction."""
    base: int
    index: int
    flags: int
    """Values of its base and index registers, and the condition flags, as noted."""
    did: int
    """What the core model noted of it, once nothing more of it will be noted."""


PENDING: Final = layout(Pending)
PENDING_BYTES: Final = PENDING.itemsize
