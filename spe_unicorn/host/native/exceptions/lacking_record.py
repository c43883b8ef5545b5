"""What compiled code needs to carry out instructions that the engine lacks."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, layout, pointer_to, routine
from spe_unicorn.host.native.state.fields import StateRecord


class LackingRecord:
    """What the hook needs. Of registers it is where they are in the engine's saved state."""

    carry: int
    """The address of ``carry_out``."""
    table: int
    """The table of instructions."""
    has: int
    """The needs that the core meets."""
    registers: int
    """A ``RegistersRecord``, whose ``scratch`` is set."""
    z: int
    p: int
    x: int
    zcr: int
    """ZCR_EL1, ZCR_EL2 and ZCR_EL3."""
    sctlr: int
    """SCTLR_EL1, SCTLR_EL2 and SCTLR_EL3."""
    cpacr: int
    """CPACR_EL1."""
    cptr_el2: int
    cptr_el3: int
    hcr: int
    """HCR_EL2."""
    masks: int
    """The bits of PSTATE that the core has and the engine has no MSR (immediate) for."""
    maintenance: int
    """What is known of each TLBI, by ``place_of``: a byte, 0 for none that the core has and the
    engine lacks."""
    barriers: int
    """Whether the core has DSB nXS (FEAT_XS)."""
    accesses: int
    """Whether memory and tags are accessed: not where the host looks at translations, nor on an
    engine of somebody else's."""
    ram: int
    """Where the host has what lies at ``State.ram_begin``; 0 if it is not said."""
    pages: int
    """Pages whose attributes are known: rows of their virtual address, of ``State.epoch`` and
    ``State.writes``, and what they are like (:data:`TAGGED`)."""
    row_end: int
    """The address at which the run ends, where instructions may be carried out in a row; NO_ROW
    where somebody has to see the blocks between them."""


LACKING: Final = layout(LackingRecord)
"""A :class:`LackingRecord` in memory."""
TAG_PAGES: Final = 1 << 9
TAG_PAGE_WORDS: Final = 4
"""Rows of ``LackingRecord.pages``, direct-mapped, and their words."""
TAGGED, LITTLE, UNKNOWN = 1, 2, -1
"""What is known of a page: it has tags; data are stored to it lowest byte first, at each level of
its translation regime. UNKNOWN: nothing."""
NO_ROW: Final = 1
"""``LackingRecord.row_end`` where instructions are not carried out in a row: no end of a run, which
is a multiple of 4 or NEVER."""


@routine
def kept(state: StateRecord, at: int) -> int:
    """A register of 64 bits in the saved state."""
    return array_at(pointer_to(state.context + at), (1,), np.int64)[0]


@routine
def untagged(address: int) -> int:
    """An address that translates, without its tag: its top byte is ignored, or is as bit 55."""
    return address << 8 >> 8
