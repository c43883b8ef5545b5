"""The virt board as a whole: puts its parts together, starts it, resets it and runs it.

The parts have files of their own: the PEs (``processors``, ``pe``, ``schedule``), the devices
(``peripherals``), what comes from outside (``outside``), firmware calls (``calls/firmware``) and
the host's files (``storage/stores``).
"""

from __future__ import annotations

from functools import partial

from spe_unicorn.arch.pe import EL1, EL2, SecurityState
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.host.pe.access.shared_gic import SharedGIC
from spe_unicorn.host.pe.access.shared_uart import SharedUART
from spe_unicorn.host.pe.calls.executed import ExecutedCalls, Stacks
from spe_unicorn.host.pe.calls.frames import FrameRecords
from spe_unicorn.host.pe.calls.unwinding import Unwinder
from spe_unicorn.host.pe.covering import Covered, Covering, merged
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.runner import AnyRunner, Runner
from spe_unicorn.machine.boot.fw_cfg import fw_cfg_items
from spe_unicorn.machine.boot.image import Image, LoadError
from spe_unicorn.machine.boot.plan import BootPlan
from spe_unicorn.machine.boot.ram_fill import fill_ram
from spe_unicorn.machine.calls.firmware import Firmware, Running
from spe_unicorn.machine.calls.psci import CPUOn
from spe_unicorn.machine.console_ends import NO_CONSOLE, ConsoleEnds
from spe_unicorn.machine.event_samplers import weighs
from spe_unicorn.machine.inputs import Inputs
from spe_unicorn.machine.memory_map import RAM_BASE, UART
from spe_unicorn.machine.names import Names
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.outside import Outside
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.machine.peripherals import Peripherals, Wiring
from spe_unicorn.machine.processors import processors
from spe_unicorn.machine.samplers import sampler_of
from spe_unicorn.machine.schedule import Schedule
from spe_unicorn.machine.storage.flash_files import more_memory
from spe_unicorn.machine.storage.stores import Stores
from spe_unicorn.machine.storage.virtio import VirtioSlots
from spe_unicorn.signals import Signal


class Board:
    """One virt machine. Load an image, then run it.

    ``cpu``, ``unit``, ``pmbirq``, ``handler`` and ``runner`` are those of the first PE. Raises
    MemoryError when the host has not enough memory for ``ram``, and ``cores.profile.CoreError``.
    """

    WIRING = ("begins",)

    def __init__(
        self,
        options: MachineOptions,
        console: ConsoleEnds = NO_CONSOLE,
        runner: type[AnyRunner] = Runner,
    ) -> None:
        self.options = options
        self.core = options.profile.with_model(options.model)
        self.inputs = Inputs(console, lambda: self.executed)
        """What comes from outside; in a replay, what came in the run before."""
        self.ram = Ram(RAM_BASE, options.ram)
        fill_ram(self.ram, options.ram_fill, options.seed)
        self.stores = Stores(options, self.inputs)
        """What flash, drives and shared folders hold."""
        self.memory = RamMemory(self.ram, *more_memory(options, self.stores.flash))
        weighed = weighs(self.core, options.sampling)
        made = processors(options, self.core, self.memory, weighed=weighed)
        self.models = [processor.model for processor in made]
        """The core model of each PE."""
        wiring = Wiring(
            [processor.gic_port() for processor in made],
            self.memory,
            self.inputs.ends,
            self,
            self._secure,
            self._power_pin,
            two_security_states=options.secure,
            flash_files=self.stores.logged_flash,
            fw_cfg=fw_cfg_items(options),
            virtio=partial(VirtioSlots, options, self.stores, self.inputs),
        )
        self.peripherals = Peripherals(wiring)
        if options.secure:
            for processor, interface in zip(made, self.peripherals.gic.cpu_interfaces, strict=True):
                processor.interrupts.irq_and_fiq = interface.irq_and_fiq
        self.outside = Outside(
            self.inputs, self.peripherals, lambda: self.executed, self._work_out_deadlines
        )
        """Typed text and the power key, on their way to the devices."""
        self.pes = tuple(
            ProcessingElement(
                processor,
                self,
                sampler_of(self.core, options.sampling, self.memory, processor),
                runner,
            )
            for processor in made
        )
        handlers = [pe.handler for pe in self.pes]
        if wanted("gic") and not options.secure:
            self._shared_gic = SharedGIC(self.peripherals.gic, handlers)
        if wanted("uart"):
            self._shared_uart = SharedUART(
                self.peripherals.uart, UART.base, handlers, self._waits_for_lines
            )
        if options.check_alignment:
            for pe in self.pes:
                pe.handler.controls.checks.alignment.check_everywhere()
        first = self.pes[0]
        self.cpu, self.unit, self.pmbirq = first.cpu, first.unit, first.pmbirq
        self._schedule = (
            Schedule(self.pes, self._devices_due, self.outside.wait, options.turn)
            if options.smp > 1
            else None
        )
        self.firmware = Firmware(
            options,
            self.inputs,
            sum(region.size for region in self.memory.regions),
            self.pes,
            Running(lambda: self.running, self._turn_on, self._asked_to_stop),
        )
        """What answers HVC, SMC and semihosting calls."""
        self.names = Names(lambda: self.image)
        """Symbols and source lines of the code that runs."""
        self.begins: BootPlan | Image | None = None
        """What the machine starts from, also after a reset by the guest."""
        self.slice_ended: Signal[[]] = Signal()
        """Told every few hundredths of a second of the host while the machine runs."""
        for looks in (*(pe.runner for pe in self.pes), self._schedule):
            if looks is not None:
                looks.slice_ended.wire(self._each_slice)

    def cover(self) -> None:
        """Note from now on which operations each PE executes (:attr:`covered`)."""
        for pe in self.pes:
            if pe.cpu.coverage is None:
                by_blocks = isinstance(pe.runner, Runner)
                pe.cpu.coverage = Covering(pe.cpu, by_blocks=by_blocks)

    def follow_calls(self, way: str = "fp") -> None:
        """Note from now on which calls led to each sample (``Sampler.led``).

        They are found by frame records (``fp``), by call frame information (``cfi``), or as calls
        and returns are executed (``calls``).
        """
        stacks = Stacks() if way == "calls" else None
        for pe in self.pes:
            cpu = pe.cpu
            if cpu.callers is not None:
                continue
            if stacks is not None:
                by_blocks = isinstance(pe.runner, Runner)
                cpu.callers = cpu.calls = ExecutedCalls(cpu, stacks, by_blocks=by_blocks)
            else:
                cpu.callers = (Unwinder if way == "cfi" else FrameRecords)(cpu, self.names)

    def forget_calls(self) -> None:
        """After a restore: which calls led there is not known, where calls are followed."""
        followed = [pe.cpu.calls for pe in self.pes if pe.cpu.calls is not None]
        for calls in followed[:1]:
            calls.stacks.forget()
        for calls in followed:
            calls.restored()

    @property
    def coverage_full(self) -> bool:
        """Whether a PE has executed so many blocks that not all of them are in :attr:`covered`."""
        return any(pe.cpu.coverage.full for pe in self.pes if pe.cpu.coverage is not None)

    @property
    def covered(self) -> Covered:
        """What all PEs have executed since :meth:`cover`; nothing without it."""
        each = [pe.cpu.coverage.so_far() for pe in self.pes if pe.cpu.coverage is not None]
        return merged(each)

    @property
    def image(self) -> Image | None:
        """What the first PE starts in, with its symbols; None while nothing is loaded."""
        return self.begins.image if isinstance(self.begins, BootPlan) else self.begins

    @property
    def exit_status(self) -> int | None:
        """The status with which the guest ended, 0 to 255; None while it runs."""
        return self.firmware.s.exit_status

    @property
    def handler(self) -> StopHandler:
        """What carries out the stops of the first PE."""
        return self.pes[0].handler

    @property
    def runner(self) -> AnyRunner:
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

    def _waits_for_lines(self) -> bool:
        """Whether nobody is told of stores to devices, or of single characters of output."""
        return not self.peripherals.bus.stored and self.inputs.ends.patient()

    def _power_pin(self, pin: int, level: bool) -> None:
        self.firmware.power_pin(pin, level)

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
        self.firmware.conduit = plan.conduit
        self.reset(nonsecure=not plan.secure)
        for pe in self.pes if plan.all_start else self.pes[:1]:
            pe.start(plan.el, plan.entry, plan.x)

    def begin_again(self) -> None:
        """Reset the machine: it starts from what was loaded, and time goes on."""
        if isinstance(self.begins, BootPlan):
            self.start(self.begins)
        elif self.begins is not None:
            self.load(self.begins)

    def reset(self, *, nonsecure: bool) -> None:
        """Reset all devices, and turn all PEs off. Time and memory stay as they are.

        With ``nonsecure`` the GIC is as firmware leaves it to a kernel.
        """
        self.peripherals.reset(nonsecure=nonsecure)
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
        self.outside.press_if_asked()
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
                self._each_slice()  # a guest that resets again and again ends no slice
            elif ending is not Ending.LIMIT or goal == self.executed:
                return ending

    def reached(self) -> None:
        """End the run after the current operation: what the caller waited for has happened."""
        self.running.handler.ending = Ending.UNTIL

    def close(self) -> None:
        """Close the files that the guest left open, and those of its flash and drives."""
        self.firmware.close()
        self.stores.close()

    def stop(self) -> None:
        """Have the run end soon. May be called from any thread or signal handler, at any time."""
        if self._schedule is None:
            self.pes[0].runner.stopping = True
        else:
            self._schedule.stop()

    def _work_out_deadlines(self) -> None:
        """Work out anew when a device drives a line next: one got something from outside."""
        for pe in self.pes:
            pe.work_out_deadline()

    def stop_no_more(self) -> None:
        """Forget a :meth:`stop` that no run has come to."""
        for pe in self.pes:
            pe.runner.stopping = False
        if self._schedule is not None:
            self._schedule.stop_no_more()

    def _asked_to_stop(self) -> bool:
        """Serve the user and the clock while something takes long. Whether the run must end."""
        self._each_slice()
        return any(pe.runner.stopping for pe in self.pes)

    def _each_slice(self) -> None:
        self.outside.poll()
        self.slice_ended()
        self.outside.press_if_asked()

    # Around the PEs: machine.pe.Surroundings

    def send_event(self, pe: ProcessingElement) -> None:
        """A SEV: others that wait in a WFE go on; the next WFE of the rest does not wait."""
        for other in self.pes:
            if other.s.dozing and not other.s.polls:
                other.wake()
                self.running.handler.ending = Ending.TURN
            elif other is not pe:
                other.cpu.events.set()

    @property
    def event_awaited(self) -> bool:
        """Whether a PE waits in a WFE."""
        return any(pe.s.dozing and not pe.s.polls for pe in self.pes)

    def awaits_event(self) -> None:
        """A PE waits in a WFE: from now on have an SEV of any PE tell the board."""
        for pe in self.pes:
            pe.hear_events()

    def passes(self, pe: ProcessingElement) -> int | None:
        """How many cycles pass for one of several PEs that repeats an exception, None for ever."""
        return None if self._schedule is None else self._schedule.passes(pe)

    def _turn_on(self, call: CPUOn) -> None:
        """CPU_ON: the PE begins at the level at which the first one did."""
        if self._schedule is None:
            raise RuntimeError(f"PE {call.affinity} is to go on, and there is only the caller")
        self.peripherals.gic.reset_cpu_interface(call.affinity)
        el = EL1 if self.firmware.conduit == "hvc" else EL2
        self.pes[call.affinity].start(el, call.entry, (call.context,))
        self._schedule.changed()
