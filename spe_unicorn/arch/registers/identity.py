"""The registers that say which PE this is (Arm ARM D24.2), and what EL2 says to EL1 in their place.

What a core implements is told by ``arch.registers.id`` and ``arch.registers.caches``.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, ReadOnly, Res0, Res1


class MIDR_EL1(SysReg, op=(3, 0, 0, 0, 0), read_only=True):
    """Main ID Register: who made the core, and which it is."""

    RES0 = Res0(63, 32)
    Implementer = ReadOnly(31, 24)
    Variant = ReadOnly(23, 20)
    Architecture = ReadOnly(19, 16)
    PartNum = ReadOnly(15, 4)
    Revision = ReadOnly(3, 0)


class MPIDR_EL1(SysReg, op=(3, 0, 0, 0, 5), read_only=True):
    """Multiprocessor Affinity Register: which of the PEs this is."""

    RES0_63_40 = Res0(63, 40)
    Aff3 = ReadOnly(39, 32)
    RES1_31 = Res1(31)
    U = ReadOnly(30)
    RES0_29_25 = Res0(29, 25)
    MT = ReadOnly(24)
    Aff2 = ReadOnly(23, 16)
    Aff1 = ReadOnly(15, 8)
    Aff0 = ReadOnly(7, 0)


class REVIDR_EL1(SysReg, op=(3, 0, 0, 0, 6), read_only=True):
    """Revision ID Register, IMPLEMENTATION DEFINED."""

    Value = ReadOnly(63, 0)


class AIDR_EL1(SysReg, op=(3, 1, 0, 0, 7), read_only=True):
    """Auxiliary ID Register, IMPLEMENTATION DEFINED."""

    Value = ReadOnly(63, 0)


class DCZID_EL0(SysReg, op=(3, 3, 0, 0, 7), read_only=True):
    """Data Cache Zero ID Register: how much DC ZVA writes, and whether it may be used here."""

    RES0 = Res0(63, 5)
    DZP = ReadOnly(4)
    BS = ReadOnly(3, 0)


class VPIDR_EL2(SysReg, op=(3, 4, 0, 0, 0), when=Feature.FEAT_EL2):
    """Virtualization Processor ID Register: what EL1 reads as MIDR_EL1."""

    RES0 = Res0(63, 32)
    Implementer = Field(31, 24)
    Variant = Field(23, 20)
    Architecture = Field(19, 16)
    PartNum = Field(15, 4)
    Revision = Field(3, 0)


class VMPIDR_EL2(SysReg, op=(3, 4, 0, 0, 5), when=Feature.FEAT_EL2):
    """Virtualization Multiprocessor ID Register: what EL1 reads as MPIDR_EL1."""

    RES0_63_40 = Res0(63, 40)
    Aff3 = Field(39, 32)
    RES1_31 = Res1(31)
    U = Field(30)
    RES0_29_25 = Res0(29, 25)
    MT = Field(24)
    Aff2 = Field(23, 16)
    Aff1 = Field(15, 8)
    Aff0 = Field(7, 0)


SHOWN_TO_EL1: Final[dict[type[SysReg], type[SysReg]]] = {MIDR_EL1: VPIDR_EL2, MPIDR_EL1: VMPIDR_EL2}
"""What EL1 reads in place of a PE's own identity where EL2 is enabled."""
IDENTITY_REGISTERS: Final[tuple[type[SysReg], ...]] = (
    MIDR_EL1,
    MPIDR_EL1,
    REVIDR_EL1,
    AIDR_EL1,
    DCZID_EL0,
    VPIDR_EL2,
    VMPIDR_EL2,
)
"""All of them."""
