"""Who may access the generic timer's registers (Arm ARM D24.11, the access pseudocode).

Not modelled: nested virtualization's accesses to memory and CNTHCTL_EL2.{EL1NVVCT,EL1NVPCT}, Debug
state, and the Secure EL2 timers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.access.accessors import (
    NOT_AT_EL0,
    accessor,
    allowed,
    el2_name,
    trap,
    undefined,
)
from spe_unicorn.arch.access.shapes import hypervisor_register
from spe_unicorn.arch.access.verdicts import Accessor, Levels, Step, Steps, Test
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers import timer as t
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTKCTL_EL1,
    CNTVOFF_EL2,
    SCR_EL3,
)
from spe_unicorn.arch.rules.effective import (
    el2_enabled,
    el_is_in_host,
    have_el,
    lower_security_state,
    tge,
)


@dataclass(frozen=True)
class _Controls:
    """What lets EL0 and EL1 at a counter or a timer.

    ``kernel`` are the fields of CNTKCTL_EL1 of which EL0 needs one, ``host`` those of CNTHCTL_EL2
    where EL0 belongs to a host at EL2. ``guest`` traps EL1, and EL0 under it, to EL2.
    """

    kernel: tuple[str, ...]
    host: tuple[str, ...]
    guest: Test | None = None
    guest_text: str = ""


def _host_at_el0(pe: PE) -> bool:
    return el_is_in_host(pe, EL0)


def _host_at_el2(pe: PE) -> bool:
    return el_is_in_host(pe, EL2)


def _mask(register: type[SysReg], *names: str) -> int:
    return sum(register.field(name).mask for name in names)


def _physical_guest(without_e2h: str, with_e2h: str) -> Test:
    """CNTHCTL_EL2's enable for EL1 is 0.

    It moves with HCR_EL2.E2H: without, it stands where the field ``without_e2h`` has its place in
    the layout with E2H.
    """
    low, high = _mask(CNTHCTL_EL2, without_e2h), _mask(CNTHCTL_EL2, with_e2h)

    def test(pe: PE) -> bool:
        if not el2_enabled(pe) or _host_at_el0(pe):
            return False
        mask = high if _host_at_el2(pe) else low
        return pe.registers.raw(CNTHCTL_EL2) & mask == 0

    return test


def _virtual_guest(field: str) -> Test:
    """CNTHCTL_EL2's trap for the virtual counter or timer is 1; FEAT_ECV has them."""
    mask = _mask(CNTHCTL_EL2, field)

    def test(pe: PE) -> bool:
        if Feature.FEAT_ECV not in pe.features or not el2_enabled(pe) or _host_at_el0(pe):
            return False
        return pe.registers.raw(CNTHCTL_EL2) & mask != 0

    return test


_PHYSICAL_COUNT: Final = _Controls(
    ("EL0PCTEN",),
    ("EL0PCTEN",),
    _physical_guest("EL0PCTEN", "EL1PCTEN"),
    "CNTHCTL_EL2.EL1PCTEN is 0",
)
_VIRTUAL_COUNT: Final = _Controls(
    ("EL0VCTEN",), ("EL0VCTEN",), _virtual_guest("EL1TVCT"), "CNTHCTL_EL2.EL1TVCT is 1"
)
_PHYSICAL_TIMER: Final = _Controls(
    ("EL0PTEN",),
    ("EL0PTEN",),
    _physical_guest("EL0VCTEN", "EL1PTEN"),  # EL1PCEN, bit 1, without E2H
    "CNTHCTL_EL2.EL1PTEN (EL1PCEN without E2H) is 0",
)
_VIRTUAL_TIMER: Final = _Controls(
    ("EL0VTEN",), ("EL0VTEN",), _virtual_guest("EL1TVT"), "CNTHCTL_EL2.EL1TVT is 1"
)
_FREQUENCY: Final = _Controls(("EL0PCTEN", "EL0VCTEN"), ("EL0PCTEN", "EL0VCTEN"))


def _from_el0(controls: _Controls) -> Steps:
    """The traps on the way from EL0."""
    kernel, host = _mask(CNTKCTL_EL1, *controls.kernel), _mask(CNTHCTL_EL2, *controls.host)
    text = f"{' and '.join(controls.kernel)} of CNTKCTL_EL1 is 0"
    host_text = f"{' and '.join(controls.host)} of CNTHCTL_EL2 is 0"

    def kernel_off(pe: PE) -> bool:
        return not _host_at_el0(pe) and pe.registers.raw(CNTKCTL_EL1) & kernel == 0

    def host_off(pe: PE) -> bool:
        return _host_at_el0(pe) and pe.registers.raw(CNTHCTL_EL2) & host == 0

    return (
        trap(EL0, EL2, "CNTKCTL/TGE", text, lambda pe: kernel_off(pe) and tge(pe)),
        trap(EL0, EL1, "CNTKCTL", text, kernel_off),
        *_from_guest(EL0, controls),
        trap(EL0, EL2, "CNTHCTL/host", host_text, host_off),
    )


def _from_guest(el: int, controls: _Controls) -> Steps:
    if controls.guest is None:
        return ()
    return (trap(el, EL2, "CNTHCTL", controls.guest_text, controls.guest),)


def _counter(register: type[SysReg], controls: _Controls) -> Accessor:
    levels = (
        (*_from_el0(controls), allowed(EL0, register)),
        (*_from_guest(EL1, controls), allowed(EL1, register)),
        (allowed(EL2, register),),
        (allowed(EL3, register),),
    )
    return accessor(register, read=levels, write=None)


def _timer(register: type[SysReg], at_el2: type[SysReg], controls: _Controls) -> Accessor:
    """A timer of EL1 and EL0; for a host at EL2, and EL0 under it, its name means ``at_el2``."""
    levels = (
        (
            *_from_el0(controls),
            allowed(EL0, at_el2, _host_at_el0),
            allowed(EL0, register),
        ),
        (*_from_guest(EL1, controls), allowed(EL1, register)),
        (allowed(EL2, at_el2, _host_at_el2), allowed(EL2, register)),
        (allowed(EL3, register),),
    )
    return accessor(register, read=levels, write=levels)


def _secure_timer(register: type[SysReg]) -> Accessor:
    """The timer of EL3, which SCR_EL3.ST lends to Secure EL1."""

    def not_secure(pe: PE) -> bool:
        return lower_security_state(pe) is not SecurityState.SECURE

    def kept(pe: PE) -> bool:
        return not pe.registers.read(SCR_EL3).ST

    levels = (
        NOT_AT_EL0,
        (
            undefined("EL1/NS", "it is a register of Secure state", not_secure),
            undefined("EL1/EEL2", "Secure EL2 is enabled", el2_enabled),
            trap(EL1, EL3, "ST", "SCR_EL3.ST is 0", kept),
            allowed(EL1, register),
        ),
        (undefined("EL2", "it is a register of Secure EL1 and EL3"),),
        (allowed(EL3, register),),
    )
    return accessor(register, read=levels, write=levels)


def _frequency() -> Accessor:
    """CNTFRQ_EL0: read as counters are, written at the highest Exception level alone."""

    def not_highest(el: int) -> Step:
        def test(pe: PE) -> bool:
            return any(have_el(pe, higher) for higher in range(el + 1, EL3 + 1))

        return undefined(f"EL{el}/highest", "only the highest Exception level writes it", test)

    register = t.CNTFRQ_EL0
    read = (
        (*_from_el0(_FREQUENCY), allowed(EL0, register)),
        (allowed(EL1, register),),
        (allowed(EL2, register),),
        (allowed(EL3, register),),
    )
    write = (
        (undefined("EL0", "it is never written at EL0"),),
        (not_highest(EL1), allowed(EL1, register)),
        (not_highest(EL2), allowed(EL2, register)),
        (allowed(EL3, register),),
    )
    return accessor(register, read=read, write=write)


def _kernel_control() -> Accessor:
    """CNTKCTL_EL1, whose name means CNTHCTL_EL2 to a host at EL2."""
    levels: Levels = (
        NOT_AT_EL0,
        (allowed(EL1, CNTKCTL_EL1),),
        (allowed(EL2, CNTHCTL_EL2, _host_at_el2), allowed(EL2, CNTKCTL_EL1)),
        (allowed(EL3, CNTKCTL_EL1),),
    )
    return accessor(CNTKCTL_EL1, read=levels, write=levels)


TIMER_ACCESSORS: Final[tuple[Accessor, ...]] = (
    _frequency(),
    _counter(t.CNTPCT_EL0, _PHYSICAL_COUNT),
    _counter(t.CNTPCTSS_EL0, _PHYSICAL_COUNT),
    _counter(t.CNTVCT_EL0, _VIRTUAL_COUNT),
    _counter(t.CNTVCTSS_EL0, _VIRTUAL_COUNT),
    _timer(t.CNTP_TVAL_EL0, t.CNTHP_TVAL_EL2, _PHYSICAL_TIMER),
    _timer(t.CNTP_CTL_EL0, t.CNTHP_CTL_EL2, _PHYSICAL_TIMER),
    _timer(t.CNTP_CVAL_EL0, t.CNTHP_CVAL_EL2, _PHYSICAL_TIMER),
    _timer(t.CNTV_TVAL_EL0, t.CNTHV_TVAL_EL2, _VIRTUAL_TIMER),
    _timer(t.CNTV_CTL_EL0, t.CNTHV_CTL_EL2, _VIRTUAL_TIMER),
    _timer(t.CNTV_CVAL_EL0, t.CNTHV_CVAL_EL2, _VIRTUAL_TIMER),
    *(
        hypervisor_register(register)
        for register in (t.CNTHP_TVAL_EL2, t.CNTHP_CTL_EL2, t.CNTHP_CVAL_EL2)
    ),
    *(
        hypervisor_register(register, needs=Feature.FEAT_VHE)
        for register in (t.CNTHV_TVAL_EL2, t.CNTHV_CTL_EL2, t.CNTHV_CVAL_EL2)
    ),
    _secure_timer(t.CNTPS_TVAL_EL1),
    _secure_timer(t.CNTPS_CTL_EL1),
    _secure_timer(t.CNTPS_CVAL_EL1),
    el2_name(t.CNTP_TVAL_EL02, t.CNTP_TVAL_EL0),
    el2_name(t.CNTP_CTL_EL02, t.CNTP_CTL_EL0),
    el2_name(t.CNTP_CVAL_EL02, t.CNTP_CVAL_EL0),
    el2_name(t.CNTV_TVAL_EL02, t.CNTV_TVAL_EL0),
    el2_name(t.CNTV_CTL_EL02, t.CNTV_CTL_EL0),
    el2_name(t.CNTV_CVAL_EL02, t.CNTV_CVAL_EL0),
    _kernel_control(),
    el2_name(t.CNTKCTL_EL12, CNTKCTL_EL1),
    hypervisor_register(CNTHCTL_EL2),
    hypervisor_register(CNTVOFF_EL2, nvmem=0x60),
)
"""Every name of the generic timer but CNTPOFF_EL2, which steers SPE (``arch.access.spe``)."""
