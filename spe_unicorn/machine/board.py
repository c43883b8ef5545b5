"""The virt board: one PE, RAM, a console, firmware calls, and the sampling unit.

``run`` and ``record`` are this object with two kinds of sampling unit. Devices answer at their
places in physical memory; semihosting and PSCI answer at ``HLT``, ``HVC`` and ``SMC``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.profile import Core
from spe_unicorn.devices.pl011 import PL011
from spe_unicorn.host.cpu import EngineException, UnicornCPU
from spe_unicorn.host.engine import Engine, new_engine
from spe_unicorn.host.handling import Ending, StopHandler
from spe_unicorn.host.memory import Ram, RamMemory
from spe_unicorn.host.runner import Runner
from spe_unicorn.machine.image import Image
from spe_unicorn.machine.psci import PowerState, SystemAction, is_psci, psci_call
from spe_unicorn.machine.semihosting import Exit, HeapInfo, Semihosting
from spe_unicorn.machine.shared_folder import SharedFolder
from spe_unicorn.spe.external import ExternalSampler
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.sampler import Sampler
from spe_unicorn.spe.unit import StatisticalProfilingUnit

RAM_BASE = 0x4000_0000
UART_BASE = 0x0900_0000
UART_SIZE = 0x1000
"""As on QEMU's virt machine."""


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


class PMBIRQ:
    """The interrupt line of the Profiling Buffer, which nothing routes yet: a level to look at."""

    def __init__(self) -> None:
        self.level = False
        self.on_change: Callable[[bool], None] | None = None

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        self.level = level
        if self.on_change is not None:
            self.on_change(level)


class EventCounts:
    """PMU events as they pass, counted by number: what a PMU would see."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def event(self, number: int, count: int = 1) -> None:
        """Event ``number`` happened ``count`` times."""
        self.counts[number] = self.counts.get(number, 0) + count


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
        self.cpu.own(core.midr)
        self.pmbirq = PMBIRQ()
        self.unit = self._sampler(random)
        self.uart = PL011(options.write)
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
        self.handler = StopHandler(self.cpu, self)
        self.runner = runner(self.cpu, self.unit, self.handler)
        self.image: Image | None = None
        self.exit_status: int | None = None
        """What the guest ended with, 0 to 255; None while it has not."""

    def _sampler(self, random: RandomSource) -> Sampler:
        cpu, core = self.cpu, self.options.core
        model = ConstantModel()
        external = self.options.external
        if external is not None:
            return ExternalSampler(cpu, external.period, model, external.filter_, core.features)
        return StatisticalProfilingUnit(
            cpu,
            self.memory,
            model,
            random.stream("interval"),
            cpu.counted,
            pmbirq=self.pmbirq,
        )

    def load(self, image: Image) -> None:
        """Copy an image into RAM and have the PE start at its entry, at EL1."""
        for segment in image.segments:
            self.memory.write(segment.address, segment.data)
        self.image = image
        self.cpu.start(EL1, image.entry)
        self.unit.reload()

    def run(self, operations: int | None = None) -> Ending:
        """Run until the guest ends, or for a number of operations."""
        return self.runner.run(operations)

    # Around the PE: host.handling.Platform

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        return UART_BASE <= address < UART_BASE + UART_SIZE

    def read(self, address: int, size: int) -> int:
        """A load from a device."""
        return self.uart.read(address - UART_BASE, size)

    def write(self, address: int, size: int, value: int) -> None:
        """A store to a device."""
        self.uart.write(address - UART_BASE, size, value)

    def call(self, exception: EngineException) -> bool:
        """PSCI, by HVC or SMC: the guest was started below EL2 and EL3, which are ours."""
        engine = self.cpu.engine
        function = engine.x(0)
        if not is_psci(function):
            return False
        answer = psci_call(function, [engine.x(n) for n in (1, 2, 3)], {0: PowerState.ON})
        if isinstance(answer, int):
            engine.set_x(0, answer)
        elif isinstance(answer, SystemAction):
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
