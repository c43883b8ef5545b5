"""System registers that belong to devices: the timer's, the GIC's CPU interface's, the caches'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from spe_unicorn.arch.access.verdicts import Accessor
from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers.caches import CCSIDR_EL1, CLIDR_EL1, CSSELR_EL1, CTR_EL0
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.timer import (
    CNTPCT_EL0,
    CNTPCTSS_EL0,
    CNTVCT_EL0,
    CNTVCTSS_EL0,
    COMPARATORS,
)
from spe_unicorn.arch.rules.cache_identification import Caches, ccsidr_el1, clidr_el1, ctr_el0
from spe_unicorn.arch.rules.effective import el_is_in_host, physical_count_offset
from spe_unicorn.devices.gicv3.cpu_interface import CPUInterface
from spe_unicorn.devices.timer import GenericTimer
from spe_unicorn.host.native.state.actions import READ, WRITE, Action
from spe_unicorn.host.pe.access.shared_timers import TIMER_NAMES
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import DeviceRegister, PlainDeviceRegister, TimedDeviceRegister


@dataclass(frozen=True)
class GICRegister(PlainDeviceRegister):
    """A register of the CPU interface."""

    interface: CPUInterface
    register: type[SysReg]

    def read(self) -> int:
        """What an MRS gives. A read of an acknowledge register acknowledges the interrupt."""
        return self.interface.read(self.register)

    def write(self, value: int) -> None:
        """What an MSR does."""
        self.interface.write(self.register, value)


@dataclass(frozen=True)
class TimerRegister(TimedDeviceRegister):
    """A register of the generic timer. ``changed`` is called after each write."""

    timer: GenericTimer
    register: type[SysReg]
    cpu: UnicornCPU
    changed: Callable[[], None]

    def read(self) -> int:
        """What an MRS gives, now."""
        return self.timer.read(self.register, self.cpu.physical_count(), self.cpu.el)

    def write(self, value: int) -> None:
        """What an MSR does, now."""
        self.timer.write(self.register, value, self.cpu.physical_count(), self.cpu.el)
        self.changed()


@dataclass(frozen=True)
class CountRegister:
    """A view of the system counter, less an offset in ticks."""

    cpu: UnicornCPU
    offset: Callable[[], int]

    def read(self) -> int:
        """The count now."""
        return (self.cpu.physical_count() - self.offset()) % (1 << 64)

    def write(self, value: int) -> None:
        """It is read-only: no accessor leads here."""
        raise LookupError("a counter cannot be written")


@dataclass(frozen=True)
class CacheRegister:
    """A register that describes caches; CSSELR_EL1 may select which."""

    cpu: UnicornCPU
    value: Callable[[int], int]

    def read(self) -> int:
        """What an MRS gives, now."""
        return self.value(self.cpu.engine.system(CSSELR_EL1.encoding))

    def write(self, value: int) -> None:
        """It is read-only: no accessor leads here."""
        raise LookupError("sizes of caches cannot be written")


def cache_registers(cpu: UnicornCPU, caches: Caches) -> dict[type[SysReg], DeviceRegister]:
    """The registers by which software finds these caches, answered from now on.

    The engine answers CTR_EL0 where it gives the same value.
    """
    clidr = clidr_el1(caches).value
    engine = cpu.engine.system(CTR_EL0.encoding)
    ctr = ctr_el0(caches, engine)
    found: dict[type[SysReg], DeviceRegister] = {
        CLIDR_EL1: CacheRegister(cpu, lambda selected: clidr),
        CCSIDR_EL1: CacheRegister(cpu, partial(ccsidr_el1, caches, cpu.features)),
        CTR_EL0: CacheRegister(cpu, lambda selected: ctr),
    }
    for register in found:
        if register is not CTR_EL0 or ctr != engine:
            cpu.hooks.accesses.act(Action.ASK, register.encoding, READ)
    return found


def registers(
    cpu: UnicornCPU,
    timer: GenericTimer,
    interface: CPUInterface,
    changed: Callable[[], None],
) -> dict[type[SysReg], DeviceRegister]:
    """Each device register of a PE. ``changed`` is called after a write to a timer."""

    def virtual_offset() -> int:
        return 0 if el_is_in_host(cpu, cpu.el) else timer.virtual_offset()

    def physical_offset() -> int:
        return 0 if cpu.el >= EL2 else physical_count_offset(cpu)

    physical, virtual = CountRegister(cpu, physical_offset), CountRegister(cpu, virtual_offset)
    result: dict[type[SysReg], DeviceRegister] = {
        CNTPCT_EL0: physical,
        CNTPCTSS_EL0: physical,
        CNTVCTSS_EL0: virtual,
        CNTVCT_EL0: virtual,
    }
    for register in COMPARATORS:
        result[register] = TimerRegister(timer, register, cpu, changed)
    for register in sorted(interface.registers, key=lambda r: r.__name__):
        result[register] = GICRegister(interface, register)
    return result


def install(cpu: UnicornCPU, gic: tuple[Accessor, ...]) -> None:
    """Have the hooks ask for accesses to registers that the engine has, and stop for the others."""
    hooks = cpu.hooks
    for accessor in TIMER_NAMES:
        hooks.accesses.act(Action.ASK, accessor.encoding, READ, WRITE)
    for accessor in gic:
        hooks.accesses.act(Action.STOP, accessor.encoding, READ, WRITE)
    for register in (CNTPCTSS_EL0, CNTVCTSS_EL0):
        if register.implemented(cpu.features):
            hooks.accesses.act(Action.STOP, register.encoding, READ)
