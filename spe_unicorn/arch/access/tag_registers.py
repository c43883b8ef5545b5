"""Who may access the registers of FEAT_MTE2: HCR_EL2.ATA and SCR_EL3.ATA keep Allocation Tags.

Arm ARM D24.2, the access pseudocode of each.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.accessors import allowed, undefined
from spe_unicorn.arch.access.checks import (
    NESTED,
    Check,
    el2_bit,
    el3_bit,
    host_at_el2,
    nvx,
)
from spe_unicorn.arch.access.shapes import (
    accessor_of,
    by_level,
    control,
    host_alias,
    monitor_register,
    needs_features,
    nvmem_step,
    sdd_first,
    to_el3,
    trap_of,
)
from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    GCR_EL1,
    GMID_EL1,
    HCR_EL2,
    RGSR_EL1,
    SCR_EL3,
    TFSR_EL1,
    TFSR_EL2,
    TFSR_EL3,
    TFSRE0_EL1,
)
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host


def _kept_by_el2(pe: PE) -> bool:
    if not el2_enabled(pe) or el_is_in_host(pe, EL0):
        return False
    return not pe.registers.read(HCR_EL2).ATA


_MTE2: Final = Feature.FEAT_MTE2
_ATA2: Final = Check("ATA", "HCR_EL2.ATA is 0", _kept_by_el2)
_ATA3: Final = Check("ATA", "SCR_EL3.ATA is 0", el3_bit(SCR_EL3, "ATA", 0))
_NV1: Final = Check("NV1", "the Effective value of HCR_EL2.{NV2,NV1,NV} is 0b011", nvx("011"))
_TID5: Final = Check("TID5", "HCR_EL2.TID5 is 1", el2_bit(HCR_EL2, "TID5"))
_OF_EL1: Final = 0x190
"""Where a nested hypervisor has TFSR_EL1 in memory."""


def _control(register: type[SysReg]) -> Accessor:
    return control(register, needs=_MTE2, el2=(_ATA2,), el3=(_ATA3,))


def _of_el2() -> Accessor:
    """TFSR_EL2, by which a nested hypervisor means TFSR_EL1."""
    levels = by_level(
        needs_features(_MTE2),
        el1=(
            undefined("EL1", "it is a register of EL2", lambda pe: not NESTED.test(pe)),
            trap_of(EL1, EL2, NESTED._replace(test=nvx("0x1"))),
            *sdd_first(EL1, (_ATA3,)),
            trap_of(EL1, EL2, _ATA2),
            *to_el3(EL1, (_ATA3,)),
            allowed(EL1, TFSR_EL1),
        ),
        el2=(*sdd_first(EL2, (_ATA3,)), *to_el3(EL2, (_ATA3,)), allowed(EL2, TFSR_EL2)),
        el3=(allowed(EL3, TFSR_EL2),),
    )
    return accessor_of(TFSR_EL2, lambda read: levels)


def _block_size() -> Accessor:
    levels = by_level(
        needs_features(_MTE2),
        el1=(trap_of(EL1, EL2, _TID5), allowed(EL1, GMID_EL1)),
        el2=(allowed(EL2, GMID_EL1),),
        el3=(allowed(EL3, GMID_EL1),),
    )
    return accessor_of(GMID_EL1, lambda read: levels)


TAG_ACCESSORS: Final[tuple[Accessor, ...]] = (
    _control(GCR_EL1),
    _control(RGSR_EL1),
    _control(TFSRE0_EL1),
    control(
        TFSR_EL1,
        needs=_MTE2,
        el2=(_NV1, _ATA2),
        el3=(_ATA3,),
        nvmem=nvmem_step(_OF_EL1, "111"),
        at_el2=(allowed(EL2, TFSR_EL2, host_at_el2),),
    ),
    _of_el2(),
    host_alias("TFSR_EL12", TFSR_EL1, needs=(_MTE2, Feature.FEAT_VHE), nvmem=_OF_EL1, el3=(_ATA3,)),
    monitor_register(TFSR_EL3, needs=_MTE2),
    _block_size(),
)
"""Their accessors."""
