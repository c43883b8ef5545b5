"""Traps that the engine does not take, or takes elsewhere, on registers that are its own.

The rule is: where our verdict for an access is a trap, it is taken, whoever owns the register. What
the engine takes by itself is left to it, so that in the usual states nothing has to be looked out
for; what it misses is found in the block and taken in front of the operation.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.kernel import (
    KERNEL_ACCESSORS,
    KEYS,
    MDCCINT_EL1,
    ZCR_EL1,
    ZCR_EL2,
    ZCR_EL3,
)
from spe_unicorn.arch.access.spe import STEERING_ACCESSORS
from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    SVE_TRAP,
    Accessor,
    SysRegTable,
    SystemAccessTrap,
    access,
)
from spe_unicorn.arch.exceptions.routing import Routed, sve_access_trap
from spe_unicorn.arch.exceptions.syndromes import SVE_ACCESS_TRAP, system_register_trap
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers import timer as t
from spe_unicorn.arch.registers.system import (
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    HCR_EL2,
    MDCR_EL2,
)
from spe_unicorn.arch.rules.effective import (
    el_is_in_host,
    have_el,
    lower_security_state,
    tge,
)

_READ: Final = 1 << 16
"""As ``arch.access.fine_grained_traps.trap_id`` has it."""
_TZ, _TFP, _E2H, _TGE = 1 << 8, 1 << 10, 1 << 34, 1 << 27
_ZCR: Final = frozenset({ZCR_EL1, ZCR_EL2, ZCR_EL3})
_VIRTUAL: Final = frozenset({t.CNTVCT_EL0, t.CNTV_TVAL_EL0, t.CNTV_CTL_EL0, t.CNTV_CVAL_EL0})
_PHYSICAL: Final = frozenset({t.CNTPCT_EL0, t.CNTP_TVAL_EL0, t.CNTP_CTL_EL0, t.CNTP_CVAL_EL0})
_LOOKED_AT: Final[tuple[Accessor, ...]] = (
    *KERNEL_ACCESSORS,
    *(a for a in TIMER_ACCESSORS if a.register in _VIRTUAL | _PHYSICAL and a.encoding.op1 == 3),
    *(a for a in STEERING_ACCESSORS if a.register is MDCR_EL2),
)
ENGINE_REGISTERS: Final = SysRegTable(KERNEL_ACCESSORS)
"""The accessors of registers whose traps the engine may take elsewhere than we would."""

UNTRAPPED_IN_SECURE_STATE: Final = frozenset(KEYS)
"""Registers whose accesses at Secure EL1 the engine takes to EL2, enabled or not."""


def missed_traps(pe: PE) -> dict[int, Routed]:
    """The traps at the PE's Exception level that the engine misses, by the number of an access.

    The syndrome of an access has its register, Rt, as 0.
    """
    found = {}
    for accessor in _LOOKED_AT:
        for read in (True, False):
            if (accessor.read if read else accessor.write) is None:
                continue
            verdict = access(pe, accessor, read)
            if isinstance(verdict, SystemAccessTrap) and not _engine_takes(pe, accessor, verdict):
                number = accessor.encoding.key | (_READ if read else 0)
                found[number] = trap_of(accessor, verdict, 0, read)
    return found


def trap_of(accessor: Accessor, verdict: SystemAccessTrap, rt: int, read: bool) -> Routed:
    """Where a trapped access goes, and with which syndrome."""
    if verdict.ec == SVE_TRAP:
        return Routed(verdict.target_el, SVE_ACCESS_TRAP)
    syndrome = system_register_trap(accessor.encoding, rt, read, verdict.ec)
    return Routed(verdict.target_el, syndrome)


def _engine_takes(pe: PE, accessor: Accessor, verdict: SystemAccessTrap) -> bool:
    """Whether the engine raises an exception, which then is ours to route."""
    register = accessor.register
    redirected = pe.el == EL2 and el_is_in_host(pe, EL2)
    if accessor.encoding.op1 == 5:
        return True  # an _EL12 name is ours altogether
    if register in _ZCR:
        return verdict.target_el == _engine_sve_target(pe) and not redirected
    if register is CPACR_EL1:
        return not redirected
    if register in _VIRTUAL:
        return "CNTKCTL" in verdict.rule.name or verdict.rule.name.endswith("host")
    if register in _PHYSICAL:
        return "CNTHCTL" not in verdict.rule.name or not (pe.el == EL0 and tge(pe))
    if register is MDCCINT_EL1:
        return "TDCC" not in verdict.rule.name
    return register is not MDCR_EL2


def sve_traps(pe: PE) -> bool:
    """Whether SVE traps at the PE's Exception level otherwise than the engine has it."""
    if Feature.FEAT_SVE not in pe.features:
        # the engine traps it by CPTR_EL3.EZ, unless FP is kept from it
        return not _engine_sve_target(pe)
    routed = sve_access_trap(pe)
    if routed is None:
        return False
    return routed.syndrome != SVE_ACCESS_TRAP or routed.target_el != _engine_sve_target(pe)


def _engine_sve_target(pe: PE) -> int:
    """Where the engine takes SVE operations, 0 for nowhere."""
    secure = lower_security_state(pe) is SecurityState.SECURE
    hcr = 0 if secure or not have_el(pe, EL2) else pe.registers.raw(HCR_EL2)
    host = hcr & _E2H and hcr & _TGE
    if pe.el <= EL1 and not host:
        cpacr = pe.registers.read(CPACR_EL1)
        if _keeps(cpacr.ZEN, pe.el):
            return EL2 if hcr & _TGE else EL1
        if _keeps(cpacr.FPEN, pe.el):
            return 0
    if pe.el <= EL2 and not secure and have_el(pe, EL2):
        cptr = pe.registers.raw(CPTR_EL2)
        if cptr & _TZ:
            return EL2
        if cptr & _TFP:
            return 0
    if not have_el(pe, EL3):
        return 0 if Feature.FEAT_SVE in pe.features else EL3
    return 0 if pe.registers.read(CPTR_EL3).EZ else EL3


def _keeps(enable: int, el: int) -> bool:
    """A two-bit enable of CPACR_EL1: x0 keeps everybody out, 01 EL0."""
    return not enable & 1 or (enable == 0b01 and el == EL0)
