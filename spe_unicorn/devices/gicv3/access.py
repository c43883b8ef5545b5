"""Who may access the GIC's System registers (Arm IHI 0069, the access pseudocode).

The System register interface is always on: SRE and Enable of ICC_SRE_ELx are RAO/WI, so nothing
traps by them. Not modelled: fine-grained traps of ICC_IGRPEN<n>_EL1, and Debug state.
"""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.access.accessors import (
    NESTED_AT_EL1,
    NOT_AT_EL0,
    accessor,
    allowed,
    trap,
    undefined,
)
from spe_unicorn.arch.access.shapes import hypervisor_register, monitor_register
from spe_unicorn.arch.access.verdicts import Accessor, Levels, Step, Steps, Test
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.arch.rules.effective import el2_enabled
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3 import virtual_registers as v
from spe_unicorn.devices.gicv3.virtual_registers import ICH_HCR_EL2

_GROUP0 = {
    icc.ICC_IAR0_EL1: v.ICV_IAR0_EL1,
    icc.ICC_EOIR0_EL1: v.ICV_EOIR0_EL1,
    icc.ICC_HPPIR0_EL1: v.ICV_HPPIR0_EL1,
    icc.ICC_BPR0_EL1: v.ICV_BPR0_EL1,
    icc.ICC_AP0R0_EL1: v.ICV_AP0R0_EL1,
    icc.ICC_IGRPEN0_EL1: v.ICV_IGRPEN0_EL1,
}
_GROUP1 = {
    icc.ICC_IAR1_EL1: v.ICV_IAR1_EL1,
    icc.ICC_EOIR1_EL1: v.ICV_EOIR1_EL1,
    icc.ICC_HPPIR1_EL1: v.ICV_HPPIR1_EL1,
    icc.ICC_BPR1_EL1: v.ICV_BPR1_EL1,
    icc.ICC_AP1R0_EL1: v.ICV_AP1R0_EL1,
    icc.ICC_IGRPEN1_EL1: v.ICV_IGRPEN1_EL1,
}
_COMMON = {
    icc.ICC_PMR_EL1: v.ICV_PMR_EL1,
    icc.ICC_RPR_EL1: v.ICV_RPR_EL1,
    icc.ICC_CTLR_EL1: v.ICV_CTLR_EL1,
    icc.ICC_DIR_EL1: v.ICV_DIR_EL1,
}
_SGIS = (icc.ICC_SGI0R_EL1, icc.ICC_SGI1R_EL1, icc.ICC_ASGI1R_EL1)

_WRITE_ONLY = frozenset({icc.ICC_EOIR0_EL1, icc.ICC_EOIR1_EL1, icc.ICC_DIR_EL1, *_SGIS})

Controls = Callable[[], ICH_HCR_EL2]


def gic_accessors(ich_hcr: Controls) -> tuple[Accessor, ...]:
    """The accessors of one PE, whose ICH_HCR_EL2 ``ich_hcr`` gives."""

    def of(
        registers: dict[type[SysReg], type[SysReg]], traps: tuple[str, ...], routes: str
    ) -> list[Accessor]:
        return [
            _interface(
                register,
                guest=(
                    *_hypervisor_traps(ich_hcr, register, traps),
                    allowed(EL1, virtual, _routed_to_el2(routes)),
                ),
                routes=routes,
            )
            for register, virtual in registers.items()
        ]

    return (
        *of(_GROUP0, ("TALL0",), "FIQ"),
        *of(_GROUP1, ("TALL1",), "IRQ"),
        *of(_COMMON, ("TC",), "both"),
        *(_generate_sgi(ich_hcr, register) for register in _SGIS),
        _sre_el1(),
        _sre_el2(),
        monitor_register(icc.ICC_SRE_EL3),
        monitor_register(icc.ICC_CTLR_EL3),
        monitor_register(icc.ICC_IGRPEN1_EL3),
        *(hypervisor_register(register) for register in v.ICH_REGISTERS),
    )


def _interface(register: type[SysReg], *, guest: Steps, routes: str) -> Accessor:
    """A register of the CPU interface: EL2's say over EL1, then EL3's over both."""
    kept = _routed_to_el3(routes)
    text = "SCR_EL3.{IRQ,FIQ} are 1" if routes == "both" else f"SCR_EL3.{routes} is 1"
    levels = (
        NOT_AT_EL0,
        (*guest, trap(EL1, EL3, "SCR", text, kept), allowed(EL1, register)),
        (trap(EL2, EL3, "SCR", text, kept), allowed(EL2, register)),
        (allowed(EL3, register),),
    )
    return _directed(register, levels)


def _directed(register: type[SysReg], levels: Levels) -> Accessor:
    return accessor(
        register,
        read=None if register in _WRITE_ONLY else levels,
        write=None if register.read_only else levels,
    )


def _generate_sgi(ich_hcr: Controls, register: type[SysReg]) -> Accessor:
    """A guest's SGIs are its hypervisor's business."""
    text = "HCR_EL2.FMO or IMO is 1"
    to_hypervisor = (
        *_hypervisor_traps(ich_hcr, register, ("TC",)),
        trap(EL1, EL2, "HCR", text, _routed_to_el2("both")),
    )
    return _interface(register, guest=to_hypervisor, routes="both")


def _sre_el1() -> Accessor:
    register = icc.ICC_SRE_EL1
    levels = (
        NOT_AT_EL0,
        (allowed(EL1, register),),
        (allowed(EL2, register),),
        (allowed(EL3, register),),
    )
    return accessor(register, read=levels, write=levels)


def _sre_el2() -> Accessor:
    """At EL3 it is there while EL2 is enabled."""
    register = icc.ICC_SRE_EL2
    off = undefined("EL3/EL2Enabled", "EL2 is not enabled", lambda pe: not el2_enabled(pe))
    levels = (
        NOT_AT_EL0,
        NESTED_AT_EL1,
        (allowed(EL2, register),),
        (off, allowed(EL3, register)),
    )
    return accessor(register, read=levels, write=levels)


def _hypervisor_traps(
    ich_hcr: Controls, register: type[SysReg], names: tuple[str, ...]
) -> tuple[Step, ...]:
    """The traps that ICH_HCR_EL2 has for EL1's own accesses."""
    if register is icc.ICC_DIR_EL1:
        names = (*names, "TDIR")

    def step(name: str) -> Step:
        mask = ICH_HCR_EL2.field(name).mask

        def test(pe: PE) -> bool:
            return el2_enabled(pe) and ich_hcr().value & mask != 0

        return trap(EL1, EL2, name, f"ICH_HCR_EL2.{name} is 1", test)

    return tuple(step(name) for name in names)


_HCR = {
    "FIQ": HCR_EL2.field("FMO").mask,
    "IRQ": HCR_EL2.field("IMO").mask,
    "both": HCR_EL2.field("FMO").mask | HCR_EL2.field("IMO").mask,
}
_SCR = {
    "FIQ": SCR_EL3.field("FIQ").mask,
    "IRQ": SCR_EL3.field("IRQ").mask,
    "both": SCR_EL3.field("FIQ").mask | SCR_EL3.field("IRQ").mask,
}


def _routed_to_el2(routes: str) -> Test:
    """EL2 takes physical interrupts of either kind, and so its guest has virtual ones."""
    mask = _HCR[routes]
    return lambda pe: el2_enabled(pe) and pe.registers.raw(HCR_EL2) & mask != 0


def _routed_to_el3(routes: str) -> Test:
    """EL3 takes all interrupts that the register is about."""
    mask = _SCR[routes]

    def test(pe: PE) -> bool:
        return Feature.FEAT_EL3 in pe.features and pe.registers.raw(SCR_EL3) & mask == mask

    return test
