"""What goes into a translation and what comes out of it: accesses, addresses and faults."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple

from spe_unicorn.arch.spaces import PASpace


class Regime(Enum):
    """Regime. The translation regimes of AArch64 state (Arm ARM D8.1.2)."""

    EL10 = "EL1&0"
    EL2 = "EL2"
    EL20 = "EL2&0"
    EL3 = "EL3"

    @property
    def has_unprivileged(self) -> bool:
        """HasUnprivileged(). Whether EL0 runs in the regime, and so two VA ranges exist."""
        return self in (Regime.EL10, Regime.EL20)


class AccessType(Enum):
    """AccessType. Why memory is accessed, as far as translation cares."""

    GPR = "load or store"
    IFETCH = "instruction fetch"
    SPE = "Profiling Buffer write"
    AT = "address translation instruction"
    TTW = "translation table walk"


class AccessDescriptor(NamedTuple):
    """AccessDescriptor. An access that wants a translation.

    ``el`` is the privilege of the access, so 0 for LDTR at EL1. ``pan`` is PSTATE.PAN where the
    access is subject to it.
    """

    acctype: AccessType
    el: int
    read: bool = True
    write: bool = False
    pan: bool = False


def acc_desc_gpr(
    el: int, *, read: bool = False, write: bool = False, pan: bool = False
) -> AccessDescriptor:
    """CreateAccDescGPR(). A load, a store, or with both flags an atomic, at privilege ``el``."""
    return AccessDescriptor(AccessType.GPR, el, read, write, pan and el != 0)


def acc_desc_ifetch(el: int) -> AccessDescriptor:
    """CreateAccDescIFetch(). An instruction fetch at ``el``."""
    return AccessDescriptor(AccessType.IFETCH, el)


def acc_desc_spe(owning_el: int) -> AccessDescriptor:
    """CreateAccDescSPE(). A write to the Profiling Buffer: privileged, whatever PSTATE.PAN says."""
    return AccessDescriptor(AccessType.SPE, owning_el, read=False, write=True)


def acc_desc_at(el: int, *, write: bool, pan: bool = False) -> AccessDescriptor:
    """CreateAccDescAT(). An AT instruction; ``pan`` is PSTATE.PAN for AT S1E1RP and S1E1WP only."""
    return AccessDescriptor(AccessType.AT, el, not write, write, pan and el != 0)


class Fault(Enum):
    """Fault. Kinds of abort; the value is the FSC at level 0, or the only FSC there is."""

    AddressSize = 0x00
    Translation = 0x04
    AccessFlag = 0x08
    Permission = 0x0C
    SyncExternal = 0x10
    TagCheck = 0x11
    SyncExternalOnWalk = 0x14
    Alignment = 0x21


_ONE_FSC = frozenset({Fault.SyncExternal, Fault.TagCheck, Fault.Alignment})
_BELOW_LEVEL_0 = {
    (Fault.AddressSize, -1): 0x29,
    (Fault.AddressSize, -2): 0x2C,
    (Fault.Translation, -1): 0x2B,
    (Fault.Translation, -2): 0x2A,
    (Fault.SyncExternalOnWalk, -1): 0x13,
    (Fault.SyncExternalOnWalk, -2): 0x12,
}


class FaultRecord(NamedTuple):
    """FaultRecord. Why a translation failed.

    ``stage2`` says which stage faulted, ``s1ptw`` that it was stage 2 of the address of a stage 1
    descriptor, ``ipa`` what stage 2 was asked for and in which space. ``write`` is what
    ESR_ELx.WnR shows: the access was, or would have been, refused as a write.
    """

    kind: Fault
    level: int
    stage2: bool = False
    s1ptw: bool = False
    ipa: int | None = None
    ipa_space: PASpace | None = None
    write: bool = False

    @property
    def fsc(self) -> int:
        """EncodeLDFSC(). The six bits of DFSC, IFSC, PAR_EL1.FST and PMBSR_EL1.FSC."""
        if self.kind in _ONE_FSC:
            return self.kind.value
        if self.level < 0:
            return _BELOW_LEVEL_0[self.kind, self.level]
        return self.kind.value + self.level


class Shareability(IntEnum):
    """Shareability, as descriptors and PAR_EL1 encode it."""

    NSH = 0
    OSH = 2
    ISH = 3


_TAGGED, _WRITE_BACK = 0xF0, 0xFF
"""Bytes of MAIR_ELx: Normal Write-Back memory with Allocation Tags, and without."""


class MemoryAttributes(NamedTuple):
    """MemoryAttributes. ``attr`` is a byte as in MAIR_ELx, ``sh`` a :class:`Shareability`."""

    attr: int
    sh: int

    @property
    def is_tagged(self) -> bool:
        """Whether the memory has Allocation Tags. Without FEAT_MTE2 the value is reserved."""
        return self.attr == _TAGGED

    @property
    def cacheability(self) -> int:
        """The byte as in MAIR_ELx for the same memory without Allocation Tags."""
        return _WRITE_BACK if self.attr == _TAGGED else self.attr

    @property
    def is_device(self) -> bool:
        """Whether the memory type is Device."""
        return self.attr < 0x10


DEVICE_NGNRNE = MemoryAttributes(0x00, Shareability.OSH)
NORMAL_NC = MemoryAttributes(0x44, Shareability.OSH)
NORMAL_WT_RA = MemoryAttributes(0xAA, Shareability.OSH)
NORMAL_WB = MemoryAttributes(0xFF, Shareability.NSH)
"""What HCR_EL2.DC gives: Normal, Non-shareable, Write-Back with read and write allocation."""
TAGGED_WB = MemoryAttributes(_TAGGED, Shareability.NSH)
"""The same with HCR_EL2.DCT: with Allocation Tags."""


class AddressDescriptor(NamedTuple):
    """AddressDescriptor. Where an access goes.

    The translation holds for the whole block of ``1 << page_size_log2`` bytes around the address,
    for the same kind of access. ``level`` is that of the stage 1 leaf (of stage 2 where stage 1 is
    off, 0 where both are).
    """

    paddress: int
    paspace: PASpace
    memattrs: MemoryAttributes
    page_size_log2: int
    level: int
