"""The virt board: one PE, RAM, a console, firmware calls, and the sampling unit.

``run`` and ``record`` are this object with two kinds of sampling unit. Devices answer at their
places in physical memory; semihosting and PSCI answer at ``HLT``, ``HVC`` and ``SMC``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spe_unicorn.arch.access import SPE_ACCESSORS, STEERING_ACCESSORS, SysRegTable
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.sysreg import SysReg
from spe_unicorn.arch.system_registers import CNTVOFF_EL2
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.profile import Core
from spe_unicorn.devices import gicv3
from spe_unicorn.devices.empty import EmptyECAM, EmptyVirtioSlots
from spe_unicorn.devices.gicv3 import GICPort, GICv3
from spe_unicorn.devices.gicv3_access import gic_accessors
from spe_unicorn.devices.gicv3_virtual_registers import ICH_HCR_EL2
from spe_unicorn.devices.pl011 import PL011
from spe_unicorn.devices.pl031 import PL031
from spe_unicorn.devices.timer import FREQUENCY, GenericTimer
from spe_unicorn.devices.timer_access import TIMER_ACCESSORS
from spe_unicorn.host import device_registers
from spe_unicorn.host.controls import answer_el12_names
from spe_unicorn.host.cpu import EngineException, UnicornCPU
from spe_unicorn.host.engine import Engine, new_engine
from spe_unicorn.host.handling import HVC, NEVER_HAPPENS, DeviceRegister, Ending, StopHandler
from spe_unicorn.host.interrupts import Interrupts
from spe_unicorn.host.memory import Ram, RamMemory
from spe_unicorn.host.runner import Runner
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.image import Image
from spe_unicorn.machine.memory_map import RAM_BASE, Region
from spe_unicorn.machine.psci import CPUOff, PowerState, is_psci, psci_call
from spe_unicorn.machine.semihosting import Exit, HeapInfo, Semihosting
from spe_unicorn.machine.shared_folder import SharedFolder
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.spe.absent import NoSampler
from spe_unicorn.spe.external import ExternalSampler
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.sampler import Sampler
from spe_unicorn.spe.unit import StatisticalProfilingUnit


@dataclass(frozen=True)
class External:
    """Sampling from outside: every ``period``-th operation that ``filter_`` keeps."""

    period: int
    filter_: Filter


@dataclass(frozen=True)
class Options:
    """How a board is built. ``ram`` is in bytes; ``write`` and ``read`` are the console's ends.

    ``read`` waits and returns up to that many bytes, none at the end of input.
    """

    core: Core
    write: Callable[[bytes], None]
    read: Callable[[int], bytes] = lambda size: b""
    ram: int = 128 << 20
    seed: int = 0
    external: External | None = None
    semihosting_folder: Path | None = None
    command_line: bytes = b""


class Device(Protocol):
    """What is behind a window of physical memory; ``offset`` and ``size`` are in bytes."""

    def read(self, offset: int, size: int) -> int:
        """A load."""
        ...

    def write(self, offset: int, size: int, value: int) -> None:
        """A store."""
        ...


class PMBIRQ:
    """The interrupt line of the Profiling Buffer, on its way to the GIC, for others to watch."""

    def __init__(self, line: IRQLine) -> None:
        self.level = False
        self.on_change: Callable[[bool], None] | None = None
        self._line = line

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        self.level = level
        self._line.set_level(level)
        if self.on_change is not None:
            self.on_change(level)


class _GuestMemory:
    """The virtual memory of the code that makes a semihosting call."""

    def __init__(self, cpu: UnicornCPU) -> None:
        self.read = cpu.read_virtual
        self.write = cpu.write_virtual


class Board:
    """One virt machine. Load an image, then run it.

    Raises MemoryError when the host has not enough memory for ``ram``.
    """

    def __init__(self, options: Options, runner: type[Runner] = Runner) -> None:
        self.options = options
        core = options.core
        random = RandomSource(options.seed)
        self.ram = Ram(RAM_BASE, options.ram)
        self.memory = RamMemory(self.ram)
        engine = Engine(new_engine())
        self.ram.map_into(engine.uc)
        features = core.features
        if options.external is not None:
            features = frozenset(f for f in features if not f.name.startswith("FEAT_SPE"))
        self.cpu = UnicornCPU(engine, self.memory, features, core.impdef, random)
        self.cpu.own(core.midr, self.memory.gaps())
        answer_el12_names(self.cpu.hooks)
        self.deadline = NEVER_HAPPENS
        interrupts = Interrupts(self.cpu)
        self.gic = GICv3(
            [
                GICPort(
                    self.cpu,
                    0,
                    interrupts.irq,
                    interrupts.fiq,
                    interrupts.virq,
                    interrupts.vfiq,
                )
            ]
        )
        self.timer = GenericTimer(
            physical=self.gic.ppi(0, gicv3.PHYSICAL_TIMER),
            virtual=self.gic.ppi(0, gicv3.VIRTUAL_TIMER),
            el2_physical=self.gic.ppi(0, gicv3.EL2_PHYSICAL_TIMER),
            el2_virtual=self.gic.ppi(0, gicv3.EL2_VIRTUAL_TIMER),
            secure_physical=self.gic.ppi(0, gicv3.SECURE_PHYSICAL_TIMER),
            cntvoff=lambda: self.cpu.registers.raw(CNTVOFF_EL2),
        )
        self.pmbirq = PMBIRQ(self.gic.ppi(0, gicv3.PMBIRQ))
        self.events = EventJunction()
        """PMU events so far."""
        self.unit = self._sampler(random, interrupts.profiling)
        self.uart = PL011(options.write, self.gic.spi(32 + memory_map.UART_SPI))
        self.rtc = PL031(self.cpu, FREQUENCY, self.gic.spi(32 + memory_map.RTC_SPI))
        self._devices: tuple[tuple[Region, Device], ...] = (
            (memory_map.GIC_DISTRIBUTOR, self.gic.distributor),
            (memory_map.GIC_REDISTRIBUTORS, self.gic.redistributors),
            (memory_map.UART, self.uart),
            (memory_map.RTC, self.rtc),
            (memory_map.VIRTIO, EmptyVirtioSlots()),
            (memory_map.PCIE_ECAM, EmptyECAM()),
        )
        folder = options.semihosting_folder
        self._semihosting = Semihosting(
            _GuestMemory(self.cpu),
            write=options.write,
            read=options.read,
            nanoseconds=lambda: self.cpu.cycles,
            command_line=options.command_line,
            heap=HeapInfo(),
            folder=SharedFolder(folder) if folder is not None else None,
        )
        table, registers = self._device_registers()
        self.handler = StopHandler(self.cpu, self, table, registers, interrupts)
        self.cpu.hooks.ask_by(self.handler.answer)
        self.runner = runner(self.cpu, self.unit, self.handler)
        self.image: Image | None = None
        self.conduit: str | None = "hvc"
        """How PSCI is called, ``hvc`` or ``smc``; None where the guest owns EL3."""
        self.exit_status: int | None = None
        """What the guest ended with, 0 to 255; None while it has not."""

    def _sampler(self, random: RandomSource, exception: IRQLine) -> Sampler:
        cpu, core = self.cpu, self.options.core
        model = ConstantModel()
        external = self.options.external
        if external is not None:
            return ExternalSampler(cpu, external.period, model, external.filter_, core.features)
        if Feature.FEAT_SPE not in core.features:
            return NoSampler(cpu, model)
        return StatisticalProfilingUnit(
            cpu,
            self.memory,
            model,
            random.stream("interval"),
            cpu.counted,
            pmbirq=self.pmbirq,
            exception=exception,
            events=self.events,
        )

    def load(self, image: Image) -> None:
        """Copy an image into RAM and have the PE start at its entry, at EL1."""
        for segment in image.segments:
            self.memory.write(segment.address, segment.data)
        self.image = image
        self.gic.reset(nonsecure=True)
        self.cpu.start(EL1, image.entry)
        self.handler.steered()
        self.unit.reload()

    def run(self, operations: int | None = None) -> Ending:
        """Run until the guest ends, or for a number of operations."""
        return self.runner.run(operations)

    # Around the PE: host.handling.Platform

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        return self._device_at(address) is not None

    def read(self, address: int, size: int) -> int:
        """A load from a device."""
        found = self._device_at(address)
        return found[1].read(address - found[0].base, size) if found else 0

    def write(self, address: int, size: int, value: int) -> None:
        """A store to a device."""
        found = self._device_at(address)
        if found:
            found[1].write(address - found[0].base, size, value)
            self._set_deadline()

    def _device_at(self, address: int) -> tuple[Region, Device] | None:
        return next((found for found in self._devices if address in found[0]), None)

    def happen(self) -> None:
        """Time has come for a timer or the clock: drive their lines, and see what is next."""
        self.timer.update(self.cpu.physical_count())
        self.rtc.update()
        self._set_deadline()

    def _set_deadline(self) -> None:
        """The number of executed operations at which a line changes by itself."""
        now = self.cpu.physical_count()
        counts = [self.timer.next_deadline(now), self.rtc.next_deadline()]
        due = [count for count in counts if count is not None]
        self.deadline = (min(due) << 4) - int(self.cpu.state.skipped) if due else NEVER_HAPPENS

    def _device_registers(self) -> tuple[SysRegTable, dict[type[SysReg], DeviceRegister]]:
        """The System registers that are devices', and how they are reached."""
        interface = self.gic.cpu_interfaces[0]
        gic = gic_accessors(lambda: ICH_HCR_EL2(interface.read(ICH_HCR_EL2)))
        registers = device_registers.registers(self.cpu, self.timer, interface, self._set_deadline)
        device_registers.install(self.cpu, gic)
        table = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS, *TIMER_ACCESSORS, *gic))
        return table, registers

    def call(self, exception: EngineException) -> bool:
        """PSCI, by the one instruction that leads to us: higher levels may be the guest's."""
        engine = self.cpu.engine
        function = engine.x(0)
        called_by = "hvc" if exception.number == HVC else "smc"
        if called_by != self.conduit or not is_psci(function):
            return False
        answer = psci_call(function, [engine.x(n) for n in (1, 2, 3)], {0: PowerState.ON})
        if isinstance(answer, int):
            engine.set_x(0, answer)
        elif isinstance(answer, CPUOff):
            self.handler.ending = Ending.ASLEEP  # there is no other PE to turn it on again
        else:
            self._end(0)
        return True

    def semihosting(self) -> bool:
        """A semihosting call: W0 is the operation, X1 its parameter."""
        engine = self.cpu.engine
        answer = self._semihosting.call(engine.x(0) & 0xFFFF_FFFF, engine.x(1))
        if isinstance(answer, Exit):
            self._end(answer.status)
        else:
            engine.set_x(0, answer)
        return True

    def _end(self, status: int) -> None:
        self.exit_status = status
        self.handler.ending = Ending.EXIT
