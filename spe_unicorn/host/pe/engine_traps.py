"""Traps of the engine's own registers that it does not take, or takes to a wrong Exception level.

The rule: where the verdict of ``arch.access`` for an access is a trap, the trap is taken, whoever
owns the register. A trap that the engine takes by itself is left to the engine, so in the usual
states the hooks have nothing to look out for. A trap that it misses is found in the block, and
taken before the operation is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from spe_unicorn.arch.access.debug import EMULATED, may_trap
from spe_unicorn.arch.access.fine_grained_traps import READ_BIT
from spe_unicorn.arch.access.kernel import (
    KERNEL_ACCESSORS,
    KEYS,
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
from spe_unicorn.arch.registers.sysreg import SysReg
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

_TZ = 1 << 8
_TFP = 1 << 10
_E2H = 1 << 34
_TGE = 1 << 27
_VIRTUAL: Final = frozenset({t.CNTVCT_EL0, t.CNTV_TVAL_EL0, t.CNTV_CTL_EL0, t.CNTV_CVAL_EL0})
_PHYSICAL: Final = frozenset({t.CNTPCT_EL0, t.CNTP_TVAL_EL0, t.CNTP_CTL_EL0, t.CNTP_CVAL_EL0})
ENGINE_REGISTERS: Final = SysRegTable(KERNEL_ACCESSORS)
"""The accessors of registers whose traps the engine may take to a wrong Exception level."""

UNTRAPPED_IN_SECURE_STATE: Final = frozenset(KEYS)
"""Registers whose accesses at Secure EL1 the engine traps to EL2 even if EL2 is not enabled."""


def missed_traps(pe: PE) -> dict[int, Routed]:
    """The traps at the PE's Exception level that the engine misses, by the number of an access.

    The syndrome of an access has its register, Rt, as 0.
    """
    found = {}
    debug = _OF_DEBUG[pe.el] if may_trap(pe) else ()
    for accessor, takes, directions in (*_CAN_BE_MISSED[pe.el], *debug):
        for reads in directions:
            verdict = access(pe, accessor, read=reads[0])
            if isinstance(verdict, SystemAccessTrap) and not takes(pe, verdict):
                for read in reads:
                    number = accessor.encoding.key | (READ_BIT if read else 0)
                    found[number] = trap_of(accessor, verdict, 0, read=read)
    return found


def trap_of(accessor: Accessor, verdict: SystemAccessTrap, rt: int, *, read: bool) -> Routed:
    """Where a trapped access goes, and with which syndrome."""
    if verdict.ec == SVE_TRAP:
        return Routed(verdict.target_el, SVE_ACCESS_TRAP)
    syndrome = system_register_trap(accessor.encoding, rt, read, verdict.ec)
    return Routed(verdict.target_el, syndrome)


_Takes = Callable[[PE, SystemAccessTrap], bool]
"""Whether the engine raises an exception for a trap. The host then routes it."""


def _is_host_at_el2(pe: PE) -> bool:
    return pe.el == EL2 and el_is_in_host(pe, EL2)


def _takes_zcr(pe: PE, trap: SystemAccessTrap) -> bool:
    return trap.target_el == _engine_sve_target(pe) and not _is_host_at_el2(pe)


def _takes_cpacr(pe: PE, trap: SystemAccessTrap) -> bool:
    return not _is_host_at_el2(pe)


def _takes_virtual(pe: PE, trap: SystemAccessTrap) -> bool:
    return "CNTKCTL" in trap.rule.name or trap.rule.name.endswith("host")


def _takes_physical(pe: PE, trap: SystemAccessTrap) -> bool:
    return "CNTHCTL" not in trap.rule.name or not (pe.el == EL0 and tge(pe))


def _takes_physical_count(pe: PE, trap: SystemAccessTrap) -> bool:
    """Without E2H the engine asks CNTHCTL_EL2.EL1PCEN, the timer's bit, about EL0."""
    if pe.el == EL0 and "CNTHCTL" in trap.rule.name and not el_is_in_host(pe, EL2):
        return False
    return _takes_physical(pe, trap)


def _takes_nothing(pe: PE, trap: SystemAccessTrap) -> bool:
    return False


_SOME_TRAPS_MISSED: Final[dict[type[SysReg], _Takes]] = {
    **dict.fromkeys((ZCR_EL1, ZCR_EL2, ZCR_EL3), _takes_zcr),
    **dict.fromkeys(_VIRTUAL, _takes_virtual),
    **dict.fromkeys(_PHYSICAL, _takes_physical),
    t.CNTPCT_EL0: _takes_physical_count,
    CPACR_EL1: _takes_cpacr,
    MDCR_EL2: _takes_nothing,
}
"""Registers of whose traps the engine misses some. It takes all traps of its other registers."""

_Missable = tuple[Accessor, _Takes, tuple[tuple[bool, ...], ...]]


def _can_be_missed(
    el: int, accessors: Iterable[Accessor], missed: Mapping[type[SysReg], _Takes]
) -> tuple[_Missable, ...]:
    """Those of ``accessors`` that have a trap at an Exception level which the engine may miss.

    With each come the directions to ask about, True for reads: one where both trap alike. The host
    answers every _EL12 name, so none of them is here.
    """
    found: list[_Missable] = []
    for accessor in accessors:
        register = accessor.register
        takes = None if register is None else missed.get(register)
        if takes is None or accessor.encoding.op1 == _OP1_OF_EL12:
            continue
        ways = {True: accessor.read, False: accessor.write}
        traps = [
            read
            for read, levels in ways.items()
            if levels and any(isinstance(s.verdict, SystemAccessTrap) for s in levels[el])
        ]
        if len(traps) == 2 and accessor.read is accessor.write:
            found.append((accessor, takes, ((True, False),)))
        elif traps:
            found.append((accessor, takes, tuple((read,) for read in traps)))
    return tuple(found)


_OP1_OF_EL12: Final = 5
_CAN_BE_MISSED: Final = tuple(
    _can_be_missed(
        el, (*KERNEL_ACCESSORS, *TIMER_ACCESSORS, *STEERING_ACCESSORS), _SOME_TRAPS_MISSED
    )
    for el in range(4)
)
_ALL_OF_DEBUG: Final = {a.register: _takes_nothing for a in EMULATED if a.register is not None}
_OF_DEBUG: Final = tuple(_can_be_missed(el, EMULATED, _ALL_OF_DEBUG) for el in range(4))


def sve_traps(pe: PE) -> bool:
    """Whether a trap of SVE at the PE's Exception level differs from what the engine does."""
    if Feature.FEAT_SVE not in pe.features:
        # the engine traps SVE by CPTR_EL3.EZ, unless FP traps first
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
    """Whether a two-bit enable of CPACR_EL1 traps at ``el``: x0 traps everywhere, 01 at EL0."""
    return not enable & 1 or (enable == 0b01 and el == EL0)
