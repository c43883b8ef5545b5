"""The conditions that trap accesses to System registers, in the pseudocode's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from spe_unicorn.arch.access.verdicts import (
    Test,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL2, PE
from spe_unicorn.arch.registers.fgt import (
    HDFGRTR2_EL2,
    HDFGRTR_EL2,
    HDFGWTR2_EL2,
    HDFGWTR_EL2,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SCR_EL3,
)
from spe_unicorn.arch.rules.effective import (
    effective_hcr_nvx,
    el2_enabled,
    el_is_in_host,
)

_NS, _NSE, _FGTEN = SCR_EL3.NS.mask, SCR_EL3.NSE.mask, SCR_EL3.FGTEn.mask
_NSPBE = MDCR_EL3.NSPBE.mask
_NSPB_OPEN, _NSPB_STATE = 1 << MDCR_EL3.NSPB.lsb, 2 << MDCR_EL3.NSPB.lsb
"""MDCR_EL3.NSPB: whether any Security state may use SPE, and which one (NS)."""


def lacks(*features: Feature) -> Test:
    """The core does not have all of ``features``."""
    needed = frozenset(features)
    return lambda pe: not needed <= pe.features


def el3_sdd_undef(trap: Test) -> Test:
    """EL3SDDUndef(): what traps to EL3 by ``trap`` is UNDEFINED in Debug state with EDSCR.SDD."""
    return lambda pe: pe.halted and pe.sdd and trap(pe)


def el3_sdd_undef_priority(trap: Test) -> Test:
    """EL3SDDUndefPriority(): the core looks at such traps before all others."""
    return lambda pe: pe.halted and pe.sdd and pe.impdef.el3_sdd_undef_priority and trap(pe)


def nspb_trap(pe: PE) -> bool:
    """CheckMDCR_EL3_NSPBTrap(): EL3 keeps SPE registers from the current Security state.

    A reserved value of MDCR_EL3.{NSPBE,NSPB} stands for no state that there is, so it traps, or,
    by a choice, for that without NSPBE.
    """
    if Feature.FEAT_EL3 not in pe.features:
        return False
    mdcr, scr = pe.registers.raw(MDCR_EL3), pe.registers.raw(SCR_EL3)
    if mdcr & _NSPBE and not mdcr & _NSPB_STATE and pe.impdef.reserved_owner:
        mdcr &= ~_NSPBE
    if not mdcr & _NSPB_OPEN or bool(mdcr & _NSPB_STATE) != bool(scr & _NS):
        return True
    return Feature.FEAT_RME in pe.features and bool(mdcr & _NSPBE) != bool(scr & _NSE)


def el3_bit(register: type[SysReg], name: str, value: int) -> Test:
    """HaveEL(EL3) and a field of a register of EL3 has ``value``."""
    bits = register.field(name)
    expected = value << bits.lsb

    def test(pe: PE) -> bool:
        if Feature.FEAT_EL3 not in pe.features:
            return False
        return pe.registers.raw(register) & bits.mask == expected

    return test


def el2_bit(register: type[SysReg], name: str) -> Test:
    """EL2Enabled() and the lowest bit of a field of a register of EL2 traps."""
    mask = 1 << register.field(name).lsb

    def test(pe: PE) -> bool:
        return el2_enabled(pe) and pe.registers.raw(register) & mask != 0

    return test


def fine_grained_traps_enabled(pe: PE) -> bool:
    """Fine-grained traps are there, and EL3 lets EL2 have them."""
    if Feature.FEAT_FGT not in pe.features or not el2_enabled(pe):
        return False
    return Feature.FEAT_EL3 not in pe.features or pe.registers.raw(SCR_EL3) & _FGTEN != 0


def nvx(pattern: str) -> Test:
    """EffectiveHCR_EL2_NVx() IN {pattern}, with ``x`` for either value."""
    mask = int(pattern.replace("0", "1").replace("x", "0"), 2)
    value = int(pattern.replace("x", "0"), 2)

    def test(pe: PE) -> bool:
        return effective_hcr_nvx(pe) & mask == value

    return test


def host_at_el2(pe: PE) -> bool:
    """ELIsInHost(EL2)."""
    return el_is_in_host(pe, EL2)


def not_host_at_el2(pe: PE) -> bool:
    """!ELIsInHost(EL2)."""
    return not el_is_in_host(pe, EL2)


class Check(NamedTuple):
    """A condition for a trap, in the pseudocode's words."""

    name: str
    text: str
    test: Test


NSPB = Check("NSPB", "MDCR_EL3.{NSPBE,NSPB} keeps SPE from this Security state", nspb_trap)
ENPMSN = Check("EnPMSN", "MDCR_EL3.EnPMSN is 0", el3_bit(MDCR_EL3, "EnPMSN", 0))
ENPMS3 = Check("EnPMS3", "MDCR_EL3.EnPMS3 is 0", el3_bit(MDCR_EL3, "EnPMS3", 0))
ENPMS4 = Check("EnPMS4", "MDCR_EL3.EnPMS4 is 0", el3_bit(MDCR_EL3, "EnPMS4", 0))
PMSEE = Check("PMSEE", "MDCR_EL3.PMSEE is 0b00", el3_bit(MDCR_EL3, "PMSEE", 0))
TPMS = Check("TPMS", "MDCR_EL2.TPMS is 1", el2_bit(MDCR_EL2, "TPMS"))


def _e2pb_trap(pe: PE) -> bool:
    if not el2_enabled(pe):
        return False
    e2pb = pe.registers.read(MDCR_EL2).E2PB
    return e2pb & 1 == 0 or (e2pb == 0b01 and bool(pe.impdef.reserved_owner))


E2PB = Check("E2PB", "MDCR_EL2.E2PB is 0bx0", _e2pb_trap)
TID1 = Check("TID1", "HCR_EL2.TID1 is 1", el2_bit(HCR_EL2, "TID1"))
TID2 = Check("TID2", "HCR_EL2.TID2 is 1", el2_bit(HCR_EL2, "TID2"))
TID3 = Check("TID3", "HCR_EL2.TID3 is 1", el2_bit(HCR_EL2, "TID3"))
NESTED = Check("NV", "HCR_EL2.NV is 1: it is a nested hypervisor's", nvx("xx1"))
TDA = Check("TDA", "MDCR_EL3.TDA is 1", el3_bit(MDCR_EL3, "TDA", 1))
FGTEN = Check("FGTEn", "SCR_EL3.FGTEn is 0", el3_bit(SCR_EL3, "FGTEn", 0))
FGTEN2 = Check("FGTEn2", "SCR_EL3.FGTEn2 is 0", el3_bit(SCR_EL3, "FGTEn2", 0))
HXEN = Check("HXEn", "SCR_EL3.HXEn is 0", el3_bit(SCR_EL3, "HXEn", 0))
ECVEN = Check("ECVEn", "SCR_EL3.ECVEn is 0", el3_bit(SCR_EL3, "ECVEn", 0))

Directed: TypeAlias = Callable[[bool], Check]
"""A check that differs between reads (True) and writes."""


def fgt_by(register: type[SysReg], bit: str) -> Check:
    """The fine-grained trap by ``bit`` of a register; ``n`` bits trap at 0."""
    mask = register.field(bit).mask
    trapping = 0 if bit.startswith("n") else mask

    def test(pe: PE) -> bool:
        return fine_grained_traps_enabled(pe) and pe.registers.raw(register) & mask == trapping

    return Check("FGT", f"{register.__name__}.{bit} is {int(trapping != 0)}", test)


def fgt(bit: str) -> Directed:
    """The fine-grained trap by ``bit`` of HDFGRTR_EL2 or HDFGWTR_EL2."""
    return lambda read: fgt_by(HDFGRTR_EL2 if read else HDFGWTR_EL2, bit)


def fgt2(bit: str) -> Directed:
    """The fine-grained trap by ``bit`` of HDFGRTR2_EL2 or HDFGWTR2_EL2, which traps at 0.

    While EL3 has not enabled them, these bits count as 0.
    """

    def directed(read: bool) -> Check:
        register = HDFGRTR2_EL2 if read else HDFGWTR2_EL2
        mask = register.field(bit).mask

        def test(pe: PE) -> bool:
            if Feature.FEAT_FGT2 not in pe.features or not el2_enabled(pe):
                return False
            if Feature.FEAT_EL3 in pe.features and not pe.registers.read(SCR_EL3).FGTEn2:
                return True
            return pe.registers.raw(register) & mask == 0

        return Check("FGT2", f"{register.__name__}.{bit} or SCR_EL3.FGTEn2 is 0", test)

    return directed
