"""The virt board: PEs, RAM, a console, firmware calls, and the sampling units.

``run`` and ``record`` are this object with two kinds of sampling unit. Devices answer at their
places in physical memory; semihosting and PSCI answer at ``HLT``, ``HVC`` and ``SMC``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from spe_unicorn.arch.counter import Rate
from spe_unicorn.arch.features import Features
from spe_unicorn.arch.pe import EL1, EL2, SecurityState
from spe_unicorn.arch.ports import Clock, CoreModel, IRQLine
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.devices.gicv3 import GICPort
from spe_unicorn.host.engine.engine import NEVER, Engine, new_engine
from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.host.pe.controls import answer_el12_names
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import Ending, EngineException
from spe_unicorn.host.run.models import core_models
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.boot.fw_cfg import fw_cfg_items
from spe_unicorn.machine.boot.image import Image, LoadError
from spe_unicorn.machine.boot.plan import BootPlan
from spe_unicorn.machine.bus import NonSecureMemory
from spe_unicorn.machine.calls.answers import answer_call
from spe_unicorn.machine.calls.guest_memory import GuestMemory
from spe_unicorn.machine.calls.psci import CPUOn, SystemAction
from spe_unicorn.machine.calls.semihosting import Exit, HeapInfo, Semihosting
from spe_unicorn.machine.calls.shared_folder import SharedFolder
from spe_unicorn.machine.console_ends import NO_CONSOLE, ConsoleEnds
from spe_unicorn.machine.event_samplers import weighs
from spe_unicorn.machine.inputs import FILE, KEY, Inputs, LoggedFile, ReplayError
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.names import Names
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.machine.peripherals import Peripherals
from spe_unicorn.machine.samplers import sampler_of
from spe_unicorn.machine.schedule import Schedule
from spe_unicorn.machine.storage.flash_files import flash_files, more_memory
from spe_unicorn.machine.storage.host_folder import HostFolder
from spe_unicorn.machine.storage.virtio import Drives, VirtioSlots
from spe_unicorn.signals import Signal
from spe_unicorn.stateful import Stateful

_SECOND: Final = 1_000_000_000
"""Nanoseconds."""


@dataclass(slots=True)
class BoardState:
    """What is saved of a board, beside its parts."""

    exit_status: int | None = None
    """What the guest ended with, 0 to 255; None while it has not."""


class Board(Stateful[BoardState]):
    """One virt machine. Load an image, then run it.

    ``cpu``, ``unit``, ``pmbirq``, ``handler`` and ``runner`` are those of the first PE. Raises
    MemoryError when the host has not enough memory for ``ram``, and ``cores.profile.CoreError``.
    """

    WIRING = ("begins", "conduit")
    TRANSIT = ("_key_asked",)

    def __init__(
        self,
        options: MachineOptions,
        console: ConsoleEnds = NO_CONSOLE,
        runner: type[Runner] = Runner,
    ) -> None:
        self.options = options
        self.core = options.profile.with_model(options.model)
        self.inputs = Inputs(console, lambda: self.executed)
        """What comes from outside."""
        self._console = self.inputs.ends
        self.ram = Ram(RAM_BASE, options.ram)
        self._files = flash_files(options)
        self._drives = Drives(options.drive, self.inputs)
        self._shares = [HostFolder(text) for text in options.share]
        self.memory = RamMemory(self.ram, *more_memory(options, self._files))
        features = self.core.features
        if options.sampling is not None:
            features = frozenset(f for f in features if not f.name.startswith("FEAT_SPE"))
        self.models: list[CoreModel] = []
        """The core model of each PE."""
        self._make_model = core_models(self.core, options.model, options.smp)
        self._entropy = RandomSource(options.seed).stream("TRNG")
        sources = [RandomSource(options.seed, number) for number in range(options.smp)]
        cpus = [self._cpu(number, features, source) for number, source in enumerate(sources)]
        interrupts = [Interrupts(cpu, by_state=options.secure) for cpu in cpus]
        ports = [
            GICPort(cpu, number, i.irq, i.fiq, i.virq, i.vfiq)
            for number, (cpu, i) in enumerate(zip(cpus, interrupts, strict=True))
        ]
        self.peripherals = Peripherals(
            ports,
            self.memory,
            self._console,
            self,
            self._secure,
            self._power_pin,
            two_security_states=options.secure,
            flash_files={at: LoggedFile(f, self.inputs) for at, f in self._files.items()},
            fw_cfg=fw_cfg_items(options),
            virtio=partial(self._virtio, options),
        )
        if options.secure:
            for inputs, interface in zip(
                interrupts, self.peripherals.gic.cpu_interfaces, strict=True
            ):
                inputs.signals = interface.signals
        self.pes = tuple(
            ProcessingElement(
                number,
                cpu,
                inputs,
                self,
                sampler_of(self.core, options.sampling, self.memory, model, source),
                runner,
                self.core.counters,
                source,
            )
            for number, (cpu, inputs, model, source) in enumerate(
                zip(cpus, interrupts, self.models, sources, strict=True)
            )
        )
        if options.check_alignment:
            for pe in self.pes:
                pe.handler.controls.checks.alignment.check_everywhere()
        first = self.pes[0]
        self.cpu, self.unit, self.pmbirq = first.cpu, first.unit, first.pmbirq
        self._schedule = (
            Schedule(self.pes, self._devices_due, self.wait) if options.smp > 1 else None
        )
        self._semihosting = self._host_of_calls()
        self.names = Names(lambda: self.image)
        """Names and source lines of what runs."""
        self.conduit: str | None = "hvc"
        """How PSCI is called, ``hvc`` or ``smc``; None where the guest owns EL3."""
        self.begins: BootPlan | Image | None = None
        """What the machine starts from, again after a reset by the guest."""
        self.s = BoardState()
        self._key_asked = False
        self.slice_ended: Signal[[]] = Signal()
        """Told every few hundredths of a second of the host while the machine runs."""
        for looks in (*(pe.runner for pe in self.pes), self._schedule):
            if looks is not None:
                looks.slice_ended.wire(self._each_slice)

    def _host_of_calls(self) -> Semihosting:
        folder = self.options.semihosting_dir
        return Semihosting(
            GuestMemory(
                sum(region.size for region in self.memory.regions),
                lambda: self.running,
                self.inputs.stored,
            ),
            write=self._console.write,
            read=self._console.read,
            stopping=self._asked_to_stop,
            nanoseconds=lambda: self.running.cpu.cycles * _SECOND // self.options.frequency,
            command_line=self.options.command_line,
            heap=HeapInfo(),
            folder=SharedFolder(Path(folder)) if folder is not None else None,
        )

    def _virtio(
        self,
        options: MachineOptions,
        memory: NonSecureMemory,
        clock: Clock,
        irq: Callable[[int], IRQLine],
    ) -> VirtioSlots:
        random = RandomSource(options.seed).stream("virtio")
        return VirtioSlots(
            options,
            self._drives,
            self._shares,
            memory,
            clock,
            irq,
            random.bits64,
            partial(self.inputs.answer, FILE),
            self._console,
        )

    def _cpu(self, number: int, features: Features, random: RandomSource) -> UnicornCPU:
        core = self.core
        engine = Engine(new_engine(self.options.smp))
        for region in self.memory.regions:
            region.map_into(engine.uc)
        rate = Rate.of(self.options.frequency)
        cpu = UnicornCPU(engine, self.memory, features, core.impdef, random, rate=rate)
        self.models.append(self._make_model(cpu, self.memory.ranges()))
        cpu.own(
            core.midr,
            self.memory,
            affinity=number,
            weighed=weighs(core, self.options.sampling),
        )
        answer_el12_names(cpu.hooks)
        return cpu

    @property
    def image(self) -> Image | None:
        """What the first PE starts in, with its symbols; None while nothing is loaded."""
        return self.begins.image if isinstance(self.begins, BootPlan) else self.begins

    @property
    def exit_status(self) -> int | None:
        """What the guest ended with, 0 to 255; None while it has not."""
        return self.s.exit_status

    @property
    def handler(self) -> StopHandler:
        """What carries out the stops of the first PE."""
        return self.pes[0].handler

    @property
    def runner(self) -> Runner:
        """What runs the first PE."""
        return self.pes[0].runner

    @property
    def running(self) -> ProcessingElement:
        """The PE that runs, or ran last."""
        return self.pes[0] if self._schedule is None else self._schedule.running

    @property
    def executed(self) -> int:
        """Operations that all PEs together have attempted since the machine began."""
        return sum(pe.cpu.executed for pe in self.pes)

    def physical_count(self) -> int:
        """The system counter: an ``arch.ports.Clock``."""
        return self.running.cpu.physical_count()

    def _secure(self) -> bool:
        """Whether the access that the running PE makes is to the Secure address space."""
        cpu = self.running.cpu
        if cpu.secure_memory is not None:
            return cpu.secure_memory.space is PASpace.Secure
        return security_state_at(cpu, cpu.el) is not SecurityState.NON_SECURE

    def _devices_due(self) -> int | None:
        return self.pes[0].cycles_of(self.peripherals.next_deadline())

    # Running

    def load(self, image: Image) -> None:
        """Copy an image into RAM and have the first PE start at its entry, at EL1."""
        for segment in image.segments:
            self.memory.fill(segment.address, segment.data)
        self.begins = image
        self.reset(nonsecure=True)
        self.pes[0].start(EL1, image.entry)

    def start(self, plan: BootPlan) -> None:
        """Fill memory and set the PEs up, so that :meth:`run` begins as the plan says.

        A reset by the guest begins there again: what was loaded is loaded anew, other memory keeps
        what it holds. Raises LoadError for a piece where the board has no memory.
        """
        for piece in plan.pieces:
            filled = self.memory.fill(piece.address, piece.data)
            rest = piece.size - len(piece.data)
            if not filled or not self.memory.clear(piece.address + len(piece.data), rest):
                raise LoadError(f"{piece.name}: the board has no memory at {piece.address:#x}")
        self.begins = plan
        self.conduit = plan.conduit
        self.reset(nonsecure=not plan.secure)
        for pe in self.pes if plan.all_start else self.pes[:1]:
            pe.start(plan.el, plan.entry, plan.x)

    def begin_again(self) -> None:
        """Reset the machine: it starts from what was loaded, and time goes on."""
        if isinstance(self.begins, BootPlan):
            self.start(self.begins)
        elif self.begins is not None:
            self.load(self.begins)

    def reset(self, nonsecure: bool) -> None:
        """Reset all devices, and turn all PEs off. Time and memory stay as they are.

        With ``nonsecure`` the GIC is as firmware leaves it to a kernel.
        """
        self.peripherals.reset(nonsecure)
        for pe in self.pes:
            pe.s.on = False
            pe.wake()
        if self._schedule is not None:
            self._schedule.restarted()

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run until the guest ends, or for a number of operations of all PEs together.

        It ends where a PE arrives at the virtual address ``until``, before the operation there. A
        PE that stands there already has to come back; at its first operation it has just arrived.
        """
        self._press_power_key()
        goal = None if operations is None else self.executed + operations
        for pe in self.pes:
            pe.leaves = pe.cpu.executed > 0 and until != NEVER and pe.cpu.pc == until
        while True:
            left = None if goal is None else goal - self.executed
            if self._schedule is None:
                ending = self.pes[0].run(left, until)
            else:
                ending = self._schedule.run(left, until)
            if ending is Ending.RESET and self.begins is not None:
                self.begin_again()
                self._each_slice()  # a guest that resets at once comes to the end of no slice
            elif ending is not Ending.LIMIT or goal == self.executed:
                return ending

    def reached(self) -> None:
        """What the run was to go up to has happened: it ends after the operation that runs."""
        self.running.handler.ending = Ending.UNTIL

    def drive_digests(self) -> dict[str, str]:
        """What tells apart the contents of drives that no guest changes, by their files' names."""
        return self._drives.digests()

    def close(self) -> None:
        """Close the files that the guest left open, and those of its flash and drives."""
        self._semihosting.close()
        for file in self._files.values():
            file.close()
        self._drives.close()
        for folder in self._shares:
            folder.give_back()

    def stop(self) -> None:
        """Have the run end soon; from anywhere, at any time."""
        if self._schedule is None:
            self.pes[0].runner.stopping = True
        else:
            self._schedule.stop()

    def press_power_key(self) -> None:
        """Press the power key soon; from anywhere, at any time."""
        self._key_asked = True

    def _press_power_key(self) -> bool:
        """Press the key if that was asked for; whether it was."""
        if not self._key_asked or self.inputs.replaying:
            return False
        self._key_asked = False
        self._key_down()
        self.inputs.pressed()
        return True

    def _key_down(self) -> None:
        self.peripherals.power_key.press()
        self._look_at_clock()

    def _look_at_clock(self) -> None:
        """Between two operations, a device has come to drive a line some time from now."""
        for pe in self.pes:
            pe.look_at_clock()

    def poll(self) -> None:
        """Look, between two operations, at what was typed, for devices that listen."""
        uart, virtio = self.peripherals.uart, self.peripherals.virtio
        self.inputs.between = True
        try:
            if uart.listening:
                uart.poll()
            if virtio.listening:
                virtio.poll()
                self._look_at_clock()
        finally:
            self.inputs.between = False

    def hear_again(self) -> None:
        """In a replay: let happen what came from outside where the machine stands."""
        log = self.inputs.log
        while log is not None and log.due() == self.executed:
            if log.take(self.executed, KEY) is not None:
                self._key_down()
                continue
            before = log.cursor
            self.poll()
            if log.cursor == before:
                raise ReplayError(f"nobody takes what was typed after {self.executed} operations")

    def stop_no_more(self) -> None:
        """Forget a :meth:`stop` that no run has come to."""
        for pe in self.pes:
            pe.runner.stopping = False
        if self._schedule is not None:
            self._schedule.stop_no_more()

    def _asked_to_stop(self) -> bool:
        """Look at the user and the clock while something takes long; whether the run is to end."""
        self._each_slice()
        return any(pe.runner.stopping for pe in self.pes)

    def _each_slice(self) -> None:
        self.poll()
        self.slice_ended()
        self._press_power_key()

    # Around the PEs: machine.pe.Surroundings

    def wait(self) -> bool:
        """Nothing but input can wake the machine: wait for it; False if none can come."""
        uart, virtio = self.peripherals.uart.listening, self.peripherals.virtio.listening
        key = self.peripherals.gpio.listening
        came = (uart or key) and self._console.wait()
        typed = came and uart
        if not came and (virtio or key):
            typed = self._console.wait_virtio() and virtio
        if typed:
            self.poll()
        return self._press_power_key() or typed

    def call(self, pe: ProcessingElement, exception: EngineException) -> bool:
        """Firmware's answer to an HVC or SMC; False where the call is the guest's."""
        answer = answer_call(pe, exception, self.conduit, self.pes, self._entropy.bits64)
        if isinstance(answer, CPUOn):
            self._turn_on(answer)
        elif isinstance(answer, SystemAction):
            self._system(pe, answer)
        return answer is not False

    def _system(self, pe: ProcessingElement, action: SystemAction) -> None:
        """The machine as a whole goes off, or is reset."""
        if action is SystemAction.RESET and self.options.reboot:
            pe.handler.ending = Ending.RESET
        else:
            self._end(pe, 0)

    def _power_pin(self, pin: int, level: bool) -> None:
        """An output of the Secure PL061 changed: firmware at EL3 switches the machine by it."""
        action = memory_map.POWER_PINS.get(pin)
        if level and action is not None:
            self._system(self.running, SystemAction(action))

    def send_event(self) -> None:
        """SEV: what waits in a WFE goes on, and the next WFE of any other does not wait."""
        for pe in self.pes:
            if pe.s.dozing and not pe.s.polls:
                pe.wake()
                self.running.handler.ending = Ending.TURN
            else:
                pe.cpu.events.set()

    def event_awaited(self) -> None:
        """A PE waits in a WFE: SEV is seen from now on, on all of them."""
        for pe in self.pes:
            pe.hear_events()

    def _turn_on(self, call: CPUOn) -> None:
        """CPU_ON: the PE begins at the level at which the first one did."""
        assert self._schedule is not None  # there is another PE than the caller
        self.peripherals.gic.reset_cpu_interface(call.affinity)
        el = EL1 if self.conduit == "hvc" else EL2
        self.pes[call.affinity].start(el, call.entry, (call.context,))
        self._schedule.changed()

    def semihosting(self, pe: ProcessingElement) -> bool:
        """A semihosting call: W0 is the operation, X1 its parameter."""
        engine = pe.cpu.engine
        operation, parameter = engine.x(0) & 0xFFFF_FFFF, engine.x(1)
        answer = self.inputs.call(
            lambda: self._semihosting.call(operation, parameter), pe.cpu.virtual.write
        )
        if isinstance(answer, Exit):
            self._end(pe, answer.status)
        else:
            engine.set_x(0, answer)
        return True

    def _end(self, pe: ProcessingElement, status: int) -> None:
        self.s.exit_status = status
        pe.handler.ending = Ending.EXIT
