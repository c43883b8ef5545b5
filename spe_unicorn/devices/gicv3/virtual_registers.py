"""The System registers of GICv3 virtualization: ICH_* of the hypervisor, ICV_* of its guest.

A guest reaches an ICV register by the name of the ICC register that it stands for. There are four
List registers and 32 levels of virtual preemption.
"""

from __future__ import annotations

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1
from spe_unicorn.devices.gicv3 import registers as icc

_EL2 = Feature.FEAT_EL2


class ICH_AP0R0_EL2(icc.ActivePriorities, op=(3, 4, 12, 8, 0), when=_EL2):
    """Hypervisor Active Priorities Group 0 Register 0."""

    __slots__ = ()


class ICH_AP1R0_EL2(icc.ActivePriorities, op=(3, 4, 12, 9, 0), when=_EL2):
    """Hypervisor Active Priorities Group 1 Register 0."""

    __slots__ = ()


class ICH_HCR_EL2(SysReg, op=(3, 4, 12, 11, 0), when=_EL2):
    """Hypervisor Control Register of the virtual interface."""

    RES0_63_32 = Res0(63, 32)
    EOIcount = Field(31, 27, reset=0)
    RES0_26_15 = Res0(26, 15)
    TDIR = Field(14, reset=0)
    TSEI = Res0(13)
    TALL1 = Field(12, reset=0)
    TALL0 = Field(11, reset=0)
    TC = Field(10, reset=0)
    RES0_9_8 = Res0(9, 8)
    VGrp1DIE = Field(7, reset=0)
    VGrp1EIE = Field(6, reset=0)
    VGrp0DIE = Field(5, reset=0)
    VGrp0EIE = Field(4, reset=0)
    NPIE = Field(3, reset=0)
    LRENPIE = Field(2, reset=0)
    UIE = Field(1, reset=0)
    En = Field(0, reset=0)


class ICH_VTR_EL2(SysReg, op=(3, 4, 12, 11, 1), when=_EL2, read_only=True):
    """VGIC Type Register."""

    RES0_63_32 = Res0(63, 32)
    PRIbits = ReadOnly(31, 29)
    PREbits = ReadOnly(28, 26)
    IDbits = ReadOnly(25, 23)
    SEIS = ReadOnly(22)
    A3V = ReadOnly(21)
    nV4 = ReadOnly(20)
    TDS = ReadOnly(19)
    RES0_18_5 = Res0(18, 5)
    ListRegs = ReadOnly(4, 0)


class ICH_MISR_EL2(SysReg, op=(3, 4, 12, 11, 2), when=_EL2, read_only=True):
    """Maintenance Interrupt State Register: why the maintenance interrupt is asserted."""

    RES0_63_8 = Res0(63, 8)
    VGrp1D = ReadOnly(7)
    VGrp1E = ReadOnly(6)
    VGrp0D = ReadOnly(5)
    VGrp0E = ReadOnly(4)
    NP = ReadOnly(3)
    LRENP = ReadOnly(2)
    U = ReadOnly(1)
    EOI = ReadOnly(0)


class ICH_EISR_EL2(SysReg, op=(3, 4, 12, 11, 3), when=_EL2, read_only=True):
    """End of Interrupt Status Register: a bit for each List register with an EOI to report."""

    RES0_63_16 = Res0(63, 16)
    Status = ReadOnly(15, 0)


class ICH_ELRSR_EL2(SysReg, op=(3, 4, 12, 11, 5), when=_EL2, read_only=True):
    """Empty List Register Status Register: a bit for each one that can be used."""

    RES0_63_16 = Res0(63, 16)
    Status = ReadOnly(15, 0)


class ICH_VMCR_EL2(SysReg, op=(3, 4, 12, 11, 7), when=_EL2):
    """Virtual Machine Control Register: the guest's masks and enables, as it sets them."""

    RES0_63_32 = Res0(63, 32)
    VPMR = Field(31, 24)
    VBPR0 = Field(23, 21)
    VBPR1 = Field(20, 18)
    RES0_17_10 = Res0(17, 10)
    VEOIM = Field(9)
    RES0_8_5 = Res0(8, 5)
    VCBPR = Field(4)
    VFIQEn = Res1(3)
    VAckCtl = Res0(2)
    VENG1 = Field(1)
    VENG0 = Field(0)


class ListRegister(SysReg):
    """A virtual interrupt that the hypervisor gives to its guest."""

    __slots__ = ()

    State = Field(63, 62, reset=0, doc="Bit 0 pending, bit 1 active.")
    HW = Field(61)
    Group = Field(60)
    RES0_59_56 = Res0(59, 56)
    Priority = Field(55, 48)
    RES0_47_45 = Res0(47, 45)
    pINTID = Field(44, 32, doc="The physical interrupt with HW; else bit 9 asks to report the EOI.")
    vINTID = Field(31, 0)


class ICH_LR0_EL2(ListRegister, op=(3, 4, 12, 12, 0), when=_EL2):
    """List Register 0."""

    __slots__ = ()


class ICH_LR1_EL2(ListRegister, op=(3, 4, 12, 12, 1), when=_EL2):
    """List Register 1."""

    __slots__ = ()


class ICH_LR2_EL2(ListRegister, op=(3, 4, 12, 12, 2), when=_EL2):
    """List Register 2."""

    __slots__ = ()


class ICH_LR3_EL2(ListRegister, op=(3, 4, 12, 12, 3), when=_EL2):
    """List Register 3."""

    __slots__ = ()


class ICV_PMR_EL1(icc.ICC_PMR_EL1):
    """Virtual Priority Mask Register."""

    __slots__ = ()


class ICV_IAR0_EL1(icc.ICC_IAR0_EL1, read_only=True):
    """Virtual Interrupt Acknowledge Register 0."""

    __slots__ = ()


class ICV_EOIR0_EL1(icc.ICC_EOIR0_EL1):
    """Virtual End Of Interrupt Register 0; write-only."""

    __slots__ = ()


class ICV_HPPIR0_EL1(icc.ICC_HPPIR0_EL1, read_only=True):
    """Virtual Highest Priority Pending Interrupt Register 0."""

    __slots__ = ()


class ICV_BPR0_EL1(icc.ICC_BPR0_EL1):
    """Virtual Binary Point Register 0."""

    __slots__ = ()


class ICV_AP0R0_EL1(icc.ICC_AP0R0_EL1):
    """Virtual Active Priorities Group 0 Register 0."""

    __slots__ = ()


class ICV_AP1R0_EL1(icc.ICC_AP1R0_EL1):
    """Virtual Active Priorities Group 1 Register 0."""

    __slots__ = ()


class ICV_DIR_EL1(icc.ICC_DIR_EL1):
    """Virtual Deactivate Interrupt Register; write-only."""

    __slots__ = ()


class ICV_RPR_EL1(icc.ICC_RPR_EL1, read_only=True):
    """Virtual Running Priority Register."""

    __slots__ = ()


class ICV_IAR1_EL1(icc.ICC_IAR1_EL1, read_only=True):
    """Virtual Interrupt Acknowledge Register 1."""

    __slots__ = ()


class ICV_EOIR1_EL1(icc.ICC_EOIR1_EL1):
    """Virtual End Of Interrupt Register 1; write-only."""

    __slots__ = ()


class ICV_HPPIR1_EL1(icc.ICC_HPPIR1_EL1, read_only=True):
    """Virtual Highest Priority Pending Interrupt Register 1."""

    __slots__ = ()


class ICV_BPR1_EL1(icc.ICC_BPR1_EL1):
    """Virtual Binary Point Register 1."""

    __slots__ = ()


class ICV_CTLR_EL1(icc.ICC_CTLR_EL1):
    """Virtual Control Register."""

    __slots__ = ()


class ICV_IGRPEN0_EL1(icc.ICC_IGRPEN0_EL1):
    """Virtual Interrupt Group 0 Enable register."""

    __slots__ = ()


class ICV_IGRPEN1_EL1(icc.ICC_IGRPEN1_EL1):
    """Virtual Interrupt Group 1 Enable register."""

    __slots__ = ()


LIST_REGISTERS: tuple[type[ListRegister], ...] = (
    ICH_LR0_EL2,
    ICH_LR1_EL2,
    ICH_LR2_EL2,
    ICH_LR3_EL2,
)
"""The List registers, by number."""

ICH_REGISTERS: tuple[type[SysReg], ...] = (
    ICH_AP0R0_EL2,
    ICH_AP1R0_EL2,
    ICH_HCR_EL2,
    ICH_VTR_EL2,
    ICH_MISR_EL2,
    ICH_EISR_EL2,
    ICH_ELRSR_EL2,
    ICH_VMCR_EL2,
    *LIST_REGISTERS,
)
"""The registers of the hypervisor."""
