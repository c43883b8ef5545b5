"""The registers by which software finds the caches of a core (Arm ARM D24.2).

Each says what a level is or how large; ``arch.rules.cache_identification`` makes their values.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1


class CLIDR_EL1(SysReg, op=(3, 1, 0, 0, 1), read_only=True):
    """Cache Level ID Register: what each level has, and where levels meet."""

    RES0_63_47 = Res0(63, 47)
    Ttype = ReadOnly(46, 33)
    ICB = ReadOnly(32, 30)
    LoUU = ReadOnly(29, 27)
    LoC = ReadOnly(26, 24)
    LoUIS = ReadOnly(23, 21)
    Ctype7 = ReadOnly(20, 18)
    Ctype6 = ReadOnly(17, 15)
    Ctype5 = ReadOnly(14, 12)
    Ctype4 = ReadOnly(11, 9)
    Ctype3 = ReadOnly(8, 6)
    Ctype2 = ReadOnly(5, 3)
    Ctype1 = ReadOnly(2, 0)


class CCSIDR_EL1(SysReg, op=(3, 1, 0, 0, 0), read_only=True):
    """Current Cache Size ID Register, of the cache that CSSELR_EL1 selects.

    ``Sizes`` with FEAT_CCIDX: NumSets in bits 55:32, Associativity in 23:3; without it in 27:13 and
    12:3, and in 31:28 what was the policy.
    """

    Sizes = ReadOnly(63, 3)
    LineSize = ReadOnly(2, 0)


class CSSELR_EL1(SysReg, op=(3, 2, 0, 0, 0)):
    """Cache Size Selection Register."""

    RES0_63_5 = Res0(63, 5)
    TnD = Field(4)
    Level = Field(3, 1)
    InD = Field(0)


class CTR_EL0(SysReg, op=(3, 3, 0, 0, 1), read_only=True):
    """Cache Type Register: sizes of lines, and what has to be maintained."""

    RES0_63_38 = Res0(63, 38)
    TminLine = ReadOnly(37, 32)
    RES1_31 = Res1(31)
    RES0_30 = Res0(30)
    DIC = ReadOnly(29)
    IDC = ReadOnly(28)
    CWG = ReadOnly(27, 24)
    ERG = ReadOnly(23, 20)
    DminLine = ReadOnly(19, 16)
    L1Ip = ReadOnly(15, 14)
    RES0_13_4 = Res0(13, 4)
    IminLine = ReadOnly(3, 0)


CACHE_REGISTERS: Final[tuple[type[SysReg], ...]] = (CLIDR_EL1, CCSIDR_EL1, CTR_EL0)
"""Those that are read only."""
