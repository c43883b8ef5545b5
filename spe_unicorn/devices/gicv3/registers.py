"""The System registers of a GICv3 CPU interface: ICC_* (Arm IHI 0069, chapter 12).

32 levels of preemption are implemented (five priority bits), so ICC_AP0R1_EL1 and ICC_AP1R1_EL1 and
those after them are not there.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1

_EL2 = Feature.FEAT_EL2
_EL3 = Feature.FEAT_EL3


class InterruptNumber(SysReg):
    """An INTID: acknowledged, pending, or to be ended."""

    __slots__ = ()

    RES0_63_24 = Res0(63, 24)
    INTID = Field(23, 0)


class BinaryPoint(SysReg):
    """How many priority bits decide on preemption."""

    __slots__ = ()

    RES0_63_3 = Res0(63, 3)
    BinaryPoint = Field(2, 0)


class ActivePriorities(SysReg):
    """The group priorities that are active, the most urgent at bit 0."""

    __slots__ = ()

    RES0_63_32 = Res0(63, 32)
    P = Field(31, 0, reset=0)


class GroupEnable(SysReg):
    """Whether a group's interrupts reach the PE."""

    __slots__ = ()

    RES0_63_1 = Res0(63, 1)
    Enable = Field(0, reset=0)


class GenerateSGI(SysReg):
    """What a write sends: an SGI to a list of PEs, or with IRM to all others."""

    __slots__ = ()

    RES0_63_56 = Res0(63, 56)
    Aff3 = Field(55, 48)
    RS = Field(47, 44)
    RES0_43_41 = Res0(43, 41)
    IRM = Field(40)
    Aff2 = Field(39, 32)
    RES0_31_28 = Res0(31, 28)
    INTID = Field(27, 24)
    Aff1 = Field(23, 16)
    TargetList = Field(15, 0)


class ICC_PMR_EL1(SysReg, op=(3, 0, 4, 6, 0)):
    """Interrupt Priority Mask Register."""

    RES0_63_8 = Res0(63, 8)
    Priority = Field(7, 0, reset=0)


class ICC_IAR0_EL1(InterruptNumber, op=(3, 0, 12, 8, 0), read_only=True):
    """Interrupt Acknowledge Register 0."""

    __slots__ = ()


class ICC_EOIR0_EL1(InterruptNumber, op=(3, 0, 12, 8, 1)):
    """End Of Interrupt Register 0; write-only."""

    __slots__ = ()


class ICC_HPPIR0_EL1(InterruptNumber, op=(3, 0, 12, 8, 2), read_only=True):
    """Highest Priority Pending Interrupt Register 0."""

    __slots__ = ()


class ICC_BPR0_EL1(BinaryPoint, op=(3, 0, 12, 8, 3)):
    """Binary Point Register 0."""

    __slots__ = ()


class ICC_AP0R0_EL1(ActivePriorities, op=(3, 0, 12, 8, 4)):
    """Active Priorities Group 0 Register 0."""

    __slots__ = ()


class ICC_AP1R0_EL1(ActivePriorities, op=(3, 0, 12, 9, 0)):
    """Active Priorities Group 1 Register 0; banked by Security state."""

    __slots__ = ()


class ICC_DIR_EL1(InterruptNumber, op=(3, 0, 12, 11, 1)):
    """Deactivate Interrupt Register; write-only."""

    __slots__ = ()


class ICC_RPR_EL1(SysReg, op=(3, 0, 12, 11, 3), read_only=True):
    """Running Priority Register."""

    RES0_63_8 = Res0(63, 8)
    Priority = ReadOnly(7, 0)


class ICC_SGI1R_EL1(GenerateSGI, op=(3, 0, 12, 11, 5)):
    """Generates Group 1 SGIs for the current Security state; write-only."""

    __slots__ = ()


class ICC_ASGI1R_EL1(GenerateSGI, op=(3, 0, 12, 11, 6)):
    """Generates Group 1 SGIs for the other Security state; write-only."""

    __slots__ = ()


class ICC_SGI0R_EL1(GenerateSGI, op=(3, 0, 12, 11, 7)):
    """Generates Secure Group 0 SGIs; write-only."""

    __slots__ = ()


class ICC_IAR1_EL1(InterruptNumber, op=(3, 0, 12, 12, 0), read_only=True):
    """Interrupt Acknowledge Register 1."""

    __slots__ = ()


class ICC_EOIR1_EL1(InterruptNumber, op=(3, 0, 12, 12, 1)):
    """End Of Interrupt Register 1; write-only."""

    __slots__ = ()


class ICC_HPPIR1_EL1(InterruptNumber, op=(3, 0, 12, 12, 2), read_only=True):
    """Highest Priority Pending Interrupt Register 1."""

    __slots__ = ()


class ICC_BPR1_EL1(BinaryPoint, op=(3, 0, 12, 12, 3)):
    """Binary Point Register 1; banked by Security state."""

    __slots__ = ()


class ICC_CTLR_EL1(SysReg, op=(3, 0, 12, 12, 4)):
    """Control Register (EL1); banked by Security state."""

    RES0_63_20 = Res0(63, 20)
    ExtRange = ReadOnly(19)
    RSS = ReadOnly(18)
    RES0_17_16 = Res0(17, 16)
    A3V = ReadOnly(15)
    SEIS = ReadOnly(14)
    IDbits = ReadOnly(13, 11)
    PRIbits = ReadOnly(10, 8)
    RES0_7 = Res0(7)
    PMHE = ReadOnly(6, doc="Not implemented.")
    RES0_5_2 = Res0(5, 2)
    EOImode = Field(1, reset=0)
    CBPR = Field(0, reset=0, doc="Read-only while EL3 shares it with ICC_CTLR_EL3.")


class ICC_SRE_EL1(SysReg, op=(3, 0, 12, 12, 5)):
    """System Register Enable register (EL1): there is no other interface."""

    RES0_63_3 = Res0(63, 3)
    DIB = Res1(2)
    DFB = Res1(1)
    SRE = Res1(0)


class ICC_IGRPEN0_EL1(GroupEnable, op=(3, 0, 12, 12, 6)):
    """Interrupt Group 0 Enable register."""

    __slots__ = ()


class ICC_IGRPEN1_EL1(GroupEnable, op=(3, 0, 12, 12, 7)):
    """Interrupt Group 1 Enable register; banked by Security state."""

    __slots__ = ()


class ICC_SRE_EL2(SysReg, op=(3, 4, 12, 9, 5), when=_EL2):
    """System Register Enable register (EL2): there is no other interface."""

    RES0_63_4 = Res0(63, 4)
    Enable = Res1(3)
    DIB = Res1(2)
    DFB = Res1(1)
    SRE = Res1(0)


class ICC_CTLR_EL3(SysReg, op=(3, 6, 12, 12, 4), when=_EL3):
    """Control Register (EL3)."""

    RES0_63_20 = Res0(63, 20)
    ExtRange = ReadOnly(19)
    RSS = ReadOnly(18)
    nDS = ReadOnly(17)
    RES0_16 = Res0(16)
    A3V = ReadOnly(15)
    SEIS = ReadOnly(14)
    IDbits = ReadOnly(13, 11)
    PRIbits = ReadOnly(10, 8)
    RES0_7 = Res0(7)
    PMHE = ReadOnly(6, doc="Not implemented.")
    RM = ReadOnly(5, doc="Legacy, not implemented.")
    EOImode_EL1NS = Field(4, reset=0)
    EOImode_EL1S = Field(3, reset=0)
    EOImode_EL3 = Field(2, reset=0)
    CBPR_EL1NS = Field(1, reset=0)
    CBPR_EL1S = Field(0, reset=0)


class ICC_SRE_EL3(SysReg, op=(3, 6, 12, 12, 5), when=_EL3):
    """System Register Enable register (EL3): there is no other interface."""

    RES0_63_4 = Res0(63, 4)
    Enable = Res1(3)
    DIB = Res1(2)
    DFB = Res1(1)
    SRE = Res1(0)


class ICC_IGRPEN1_EL3(SysReg, op=(3, 6, 12, 12, 7), when=_EL3):
    """Interrupt Group 1 Enable register (EL3)."""

    RES0_63_2 = Res0(63, 2)
    EnableGrp1S = Field(1, reset=0)
    EnableGrp1NS = Field(0, reset=0)


ICC_REGISTERS: tuple[type[SysReg], ...] = (
    ICC_PMR_EL1,
    ICC_IAR0_EL1,
    ICC_EOIR0_EL1,
    ICC_HPPIR0_EL1,
    ICC_BPR0_EL1,
    ICC_AP0R0_EL1,
    ICC_AP1R0_EL1,
    ICC_DIR_EL1,
    ICC_RPR_EL1,
    ICC_SGI1R_EL1,
    ICC_ASGI1R_EL1,
    ICC_SGI0R_EL1,
    ICC_IAR1_EL1,
    ICC_EOIR1_EL1,
    ICC_HPPIR1_EL1,
    ICC_BPR1_EL1,
    ICC_CTLR_EL1,
    ICC_SRE_EL1,
    ICC_IGRPEN0_EL1,
    ICC_IGRPEN1_EL1,
    ICC_SRE_EL2,
    ICC_CTLR_EL3,
    ICC_SRE_EL3,
    ICC_IGRPEN1_EL3,
)
"""The registers of the physical CPU interface."""


SRE_EL1: Final = ICC_SRE_EL1.res1_mask(frozenset())
"""What ICC_SRE_EL1 always reads as."""
SRE_EL2: Final = ICC_SRE_EL2.res1_mask(frozenset())
"""What ICC_SRE_EL2 and ICC_SRE_EL3 always read as."""
