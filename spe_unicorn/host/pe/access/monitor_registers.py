"""The registers of the Performance Monitors on the machine: who answers which access.

The engine has some of them, with values that the guest must never see. It lacks the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from spe_unicorn.arch.access.fine_grained_traps import READ_BIT
from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.state.actions import READ, WRITE, Action
from spe_unicorn.host.ports import DeviceRegister
from spe_unicorn.pmu.views import VIEWED, MonitorView

_ENGINE_COUNTERS: Final = 4
_IN_ENGINE: Final[tuple[type[SysReg], ...]] = (
    r.PMCR_EL0,
    r.PMCNTENSET_EL0,
    r.PMCNTENCLR_EL0,
    r.PMOVSCLR_EL0,
    r.PMOVSSET_EL0,
    r.PMSWINC_EL0,
    r.PMSELR_EL0,
    r.PMCEID0_EL0,
    r.PMCEID1_EL0,
    r.PMCCNTR_EL0,
    r.PMCCFILTR_EL0,
    r.PMXEVTYPER_EL0,
    r.PMXEVCNTR_EL0,
    r.PMUSERENR_EL0,
    r.PMINTENSET_EL1,
    r.PMINTENCLR_EL1,
    r.PMMIR_EL1,
    *r.PMEVCNTRS[:_ENGINE_COUNTERS],
    *r.PMEVTYPERS[:_ENGINE_COUNTERS],
)
ENGINES: Final = frozenset(register.encoding.key for register in _IN_ENGINE)
"""``Encoding.key`` of the registers that the engine has."""


@dataclass(frozen=True)
class ViewedRegister:
    """A register that shows the counters.

    ``count_executed`` comes before each access, ``changed`` after a write.
    """

    view: MonitorView
    register: type[SysReg]
    count_executed: Callable[[], None]
    changed: Callable[[], None]

    def read(self) -> int:
        """What an MRS gives, now."""
        self.count_executed()
        return self.view.read(self.register)

    def write(self, value: int) -> None:
        """What an MSR does, now."""
        self.count_executed()
        self.view.write(self.register, value)
        self.changed()


@dataclass(frozen=True)
class PlainRegister:
    """A register that holds what was written. ``changed`` is called after each write."""

    registers: RegisterFile
    register: type[SysReg]
    count_executed: Callable[[], None]
    changed: Callable[[], None]

    def read(self) -> int:
        """What an MRS gives."""
        return self.registers.raw(self.register)

    def write(self, value: int) -> None:
        """What an MSR does."""
        self.count_executed()
        self.registers.write(self.register, value)
        self.changed()


def registers(
    file: RegisterFile,
    view: MonitorView,
    implemented: int,
    count_executed: Callable[[], None],
    changed: Callable[[], None],
) -> dict[type[SysReg], DeviceRegister]:
    """Each register of the Performance Monitors of a PE with ``implemented`` event counters."""
    absent = {*r.PMEVCNTRS[implemented:], *r.PMEVTYPERS[implemented:]}
    result: dict[type[SysReg], DeviceRegister] = {
        register: ViewedRegister(view, register, count_executed, changed)
        for register in VIEWED
        if register not in absent
    }
    for register in r.PMU_VALUES:
        if register in file and register not in result:
            result[register] = PlainRegister(file, register, count_executed, changed)
    return result


def install(hooks: NativeHooks, accessors: Iterable[Accessor], lacking: Action) -> None:
    """Have Python answer the accesses, in the middle of a run where the engine has the register.

    ``lacking`` is the action for registers that the engine lacks.
    """
    for accessor in accessors:
        action = Action.ASK if is_engines(accessor.encoding.key) else lacking
        hooks.accesses.act(action, accessor.encoding, READ, WRITE)


@lru_cache
def asked_at_el3(implemented: int, features: Features) -> dict[int, tuple[Accessor, bool]]:
    """Accesses to the engine's registers that may be UNDEFINED even at EL3, where it traps nothing.

    ``implemented`` is the number of event counters. Return the accessor, and whether the access is
    a read, by ``trap_id``.
    """
    if Feature.FEAT_EL3 not in features:
        return {}
    absent = range(implemented, _ENGINE_COUNTERS)
    asked: set[type[SysReg]] = {r.PMXEVTYPER_EL0, r.PMXEVCNTR_EL0}
    asked |= {bank[n] for n in absent for bank in (r.PMEVCNTRS, r.PMEVTYPERS)}
    if Feature.FEAT_PMUv3 not in features:
        asked = set(_IN_ENGINE)
    return {
        accessor.encoding.key | (READ_BIT if read else 0): (accessor, read)
        for accessor in pmu_accessors(implemented)
        if accessor.register in asked
        for read in (True, False)
    }


def is_engines(key: int) -> bool:
    """Whether the engine has a register of its own at :attr:`Encoding.key`."""
    return key in ENGINES
