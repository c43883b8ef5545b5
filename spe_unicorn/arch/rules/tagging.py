"""Memory tagging (FEAT_MTE2): which accesses are checked, and what becomes of a failed check.

Functions bear the names of Arm's pseudocode. Regimes that share an SCTLR_ELx and a TCR_ELx with
EL0 have fields for it, and a TCR_ELx with two ranges of addresses has fields for each of these.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    SCR_EL3,
    TFSR,
    TFSR_EL1,
    TFSR_EL2,
    TFSR_EL3,
    TFSRE0_EL1,
)
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host, have_el

GRANULE: Final = 16
"""Bytes that have one Allocation Tag."""
TAG_LSB: Final = 56
"""Where an address has its Logical Address Tag."""
_UPPER: Final = 1 << 55
"""The bit of an address that selects the range."""
_ALL_ONES: Final = 0x1F
_TBI_OF_TWO, _TCMA_OF_TWO = 37, 57
"""Places in a TCR_ELx with two ranges, of the lower range; that of the upper range is the next."""
_TBI_OF_ONE, _TCMA_OF_ONE = 20, 30
"""Places in a TCR_ELx with one range."""


_ASYMMETRIC: Final = 3
"""SCTLR_ELx.TCF and TCF0 (FEAT_MTE3): synchronous of what reads, else asynchronous."""


class TCF(IntEnum):
    """TCFType. What becomes of a failed tag check."""

    IGNORE = 0
    SYNC = 1
    ASYNC = 2


def _level(pe: PE, el: int) -> int:
    """The Exception level whose SCTLR_ELx and TCR_ELx are in force at ``el``."""
    return EL2 if el_is_in_host(pe, el) else max(el, EL1)


def _has_two_ranges(pe: PE, el: int) -> bool:
    return el <= EL1 or el_is_in_host(pe, el)


def allocation_tag_access_is_enabled(pe: PE, el: int) -> bool:
    """AArch64.AllocationTagAccessIsEnabled()."""
    if Feature.FEAT_MTE2 not in pe.features:
        return False
    registers = pe.registers
    if el < EL3 and have_el(pe, EL3) and not registers.read(SCR_EL3).ATA:
        return False
    kept = el <= EL1 and el2_enabled(pe) and not registers.read(HCR_EL2).ATA
    if kept and not el_is_in_host(pe, EL0):
        return False
    sctlr = registers.read(banked.SCTLR[_level(pe, el)])
    return bool(sctlr.ATA0 if el == EL0 else sctlr.ATA)


def effective_tcf(pe: PE, el: int, *, read: bool) -> TCF:
    """AArch64.EffectiveTCF(), of an access that reads, or of one that only writes.

    The value for asymmetric checks is reserved without FEAT_MTE3, and taken for 0b00.
    """
    if Feature.FEAT_MTE2 not in pe.features:
        return TCF.IGNORE
    register = banked.SCTLR[_level(pe, el)]
    if register not in pe.registers:
        return TCF.IGNORE
    sctlr = pe.registers.read(register)
    tcf = sctlr.TCF0 if el == EL0 else sctlr.TCF
    if tcf == _ASYMMETRIC:
        if Feature.FEAT_MTE3 not in pe.features:
            return TCF.IGNORE
        return TCF.SYNC if read else TCF.ASYNC
    return TCF(tcf)


def effective_tbi(pe: PE, address: int, el: int) -> bool:
    """EffectiveTBI() of a data access: bits 63:56 of the address are no part of it."""
    tcr = pe.registers.raw(banked.TCR[_level(pe, el)])
    if _has_two_ranges(pe, el):
        return bool(tcr >> _TBI_OF_TWO + bool(address & _UPPER) & 1)
    return bool(tcr >> _TBI_OF_ONE & 1)


def effective_tcma(pe: PE, address: int, el: int) -> bool:
    """EffectiveTCMA(): accesses with a canonical tag are unchecked."""
    tcr = pe.registers.raw(banked.TCR[_level(pe, el)])
    if _has_two_ranges(pe, el):
        return bool(tcr >> _TCMA_OF_TWO + bool(address & _UPPER) & 1)
    return bool(tcr >> _TCMA_OF_ONE & 1)


def access_is_tag_checked(pe: PE, address: int, el: int, *, tco: bool) -> bool:
    """AArch64.AccessIsTagChecked(), of an access at privilege ``el``; ``tco`` is PSTATE.TCO."""
    if tco or not allocation_tag_access_is_enabled(pe, el):
        return False
    if not effective_tbi(pe, address, el):
        return False
    canonical = address >> 55 & _ALL_ONES in (0, _ALL_ONES)
    return not (canonical and effective_tcma(pe, address, el))


def tag_fault_status(el: int) -> type[SysReg]:
    """The register that tells of checks that failed asynchronously, of accesses at ``el``."""
    return (TFSRE0_EL1, TFSR_EL1, TFSR_EL2, TFSR_EL3)[el]


def tag_fault_bit(address: int, el: int) -> int:
    """AArch64.ReportTagCheckFault(): the bit that is set there."""
    return int((TFSR.TF1 if el < EL3 and address & _UPPER else TFSR.TF0).mask)


def allocation_tag_from_address(address: int) -> int:
    """AArch64.AllocationTagFromAddress()."""
    return address >> TAG_LSB & 0xF


def address_with_allocation_tag(address: int, tag: int) -> int:
    """AArch64.AddressWithAllocationTag()."""
    return address & ~(0xF << TAG_LSB) | tag << TAG_LSB
