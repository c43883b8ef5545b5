"""Words of instructions of FEAT_MTE and FEAT_MTE2, and what tests of tag checks share."""

from __future__ import annotations

from spe_unicorn.cores.profile import load_core
from tests.support import a64 as a
from tests.support.small_boards import MIB, RAM

CORE = load_core("neoverse-n2")
MSR_TCO = {0: 0xD503_409F, 1: 0xD503_419F}
VECTORS, DATA, TABLES = RAM + 0x2000, RAM + 0x1000, RAM + 0x10000
BLOCK = 2 * MIB
ATA, ATA0, SYNC, ASYNC, SYNC0, ASYNC0 = 1 << 43, 1 << 42, 1 << 40, 2 << 40, 1 << 38, 2 << 38
TBI0 = 1 << 37
SCTLR = 0x30D0_0805
ESR_CHECK = 0x9600_0011
WRITE = 1 << 6


def tag(n: int, address: int = 0) -> int:
    return n << 56 | address


def addg(d: int, n: int, offset: int, tags: int = 0) -> int:
    return 0x9180_0000 | offset // 16 << 16 | tags << 10 | n << 5 | d


def subg(d: int, n: int, offset: int, tags: int = 0) -> int:
    return addg(d, n, offset, tags) | 1 << 30


def two(op: int, d: int, n: int, m: int = 31) -> int:
    return 0x9AC0_0000 | op << 10 | m << 16 | n << 5 | d


def subp(d: int, n: int, m: int) -> int:
    return two(0, d, n, m)


def subps(d: int, n: int, m: int) -> int:
    return two(0, d, n, m) | 1 << 29


def irg(d: int, n: int, m: int = 31) -> int:
    return two(4, d, n, m)


def gmi(d: int, n: int, m: int) -> int:
    return two(5, d, n, m)


def ldg(t: int, n: int, offset: int = 0) -> int:
    return 0xD960_0000 | (offset // 16 & 0x1FF) << 12 | n << 5 | t


POST, OFFSET, PRE = 1, 2, 3


def stg(t: int, n: int, offset: int = 0, form: int = OFFSET, kind: int = 0) -> int:
    """``kind`` is 0 of STG, 1 of STZG, 2 of ST2G, 3 of STZ2G."""
    return 0xD920_0000 | kind << 22 | (offset // 16 & 0x1FF) << 12 | form << 10 | n << 5 | t


def stgp(t: int, t2: int, n: int, offset: int = 0, form: int = OFFSET) -> int:
    return 0x6800_0000 | form << 23 | (offset // 16 & 0x7F) << 15 | t2 << 10 | n << 5 | t


def dc(crm: int, op2: int, t: int) -> int:
    return a.sys(3, 7, crm, op2, t)
