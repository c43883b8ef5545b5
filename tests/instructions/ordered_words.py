"""Words of FEAT_LRCPC3 whose base is X1, and a watchpoint of EL1's own."""

from __future__ import annotations

from spe_unicorn.arch.registers import debug as d
from tests.host.run.debug.debugged import BOTH, EIGHT, EL0_AND_EL1, IL

X1 = 1 << 5
WIDE, STAYS = 1 << 30, 1 << 12
"""Of 64 bits; of a pair, without writeback."""
LDIAPP, STILP = 0x9940_0800 | X1, 0x9900_0800 | X1
LDAPR, STLR = 0x99C0_0800 | X1, 0x9980_0800 | X1
LDAPUR, STLUR = 0x1D40_0800 | X1, 0x1D00_0800 | X1
QUAD = 1 << 23
LDAP1, STL1 = 0x0D41_8400 | X1, 0x0D01_8400 | X1
SECOND = 1 << 30
_FROM_HERE, _WRITE = 0x35, 1 << 6


def watch(address: int, kinds: int = BOTH) -> dict[type, int]:
    """The registers of a watchpoint on eight bytes."""
    return {d.DBGWVRS[0]: address, d.DBGWCRS[0]: 1 | EL0_AND_EL1 | kinds | EIGHT}


def watched_esr(*, stores: bool) -> int:
    """ESR_EL1 of a Watchpoint exception of EL1."""
    return _FROM_HERE << 26 | IL | 0x22 | (_WRITE if stores else 0)
