"""One PE of the board, with what it alone has: timers, sampling unit, interrupt inputs, runner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol

from spe_unicorn.arch.access.caches import CACHE_ACCESSORS
from spe_unicorn.arch.access.core import answers, core_accessors
from spe_unicorn.arch.access.debug import DEBUG_ACCESSORS
from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.access.verdicts import Accessor, SysRegTable
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import CNTHCTL_EL2, CNTKCTL_EL1
from spe_unicorn.arch.rules.effective import physical_count_offset, virtual_count_offset
from spe_unicorn.cores.profile import Core
from spe_unicorn.decode.words import WFE
from spe_unicorn.devices import gicv3
from spe_unicorn.devices.gicv3.access import gic_accessors
from spe_unicorn.devices.gicv3.virtual_registers import ICH_HCR_EL2
from spe_unicorn.devices.timer import GenericTimer, TimerLines, next_event
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.counting.counting import Counting, monitored
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.state.actions import Action
from spe_unicorn.host.native.state.ledger import register_written
from spe_unicorn.host.native.state.steer import set_due
from spe_unicorn.host.native.turns.standing import (
    NEAR,
    NEAR_WORDS,
    WFE_AWAITED,
    WFE_HEARD,
    WFE_SEARCHED,
)
from spe_unicorn.host.pe.access import monitor_registers
from spe_unicorn.host.pe.access.shared_timers import share_timers
from spe_unicorn.host.pe.maintenance import Maintenance, apply_maintenance
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import NEVER_HAPPENS, DeviceRegister, Ending, EngineException
from spe_unicorn.host.run.horizons import Horizon
from spe_unicorn.host.run.runner import AnyRunner
from spe_unicorn.host.run.watching import Silicon
from spe_unicorn.instructions.known.judging import absent
from spe_unicorn.machine import device_registers
from spe_unicorn.machine.memory_map import timed
from spe_unicorn.machine.options import LONGEST_TURN
from spe_unicorn.machine.outside import Outside
from spe_unicorn.machine.peripherals import Peripherals
from spe_unicorn.machine.polling import Look, polled, unchanged, watched_exclusively
from spe_unicorn.machine.processors import Processor
from spe_unicorn.plain import Bits64, Count, Within
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.signals import Signal
from spe_unicorn.spe.lateness.whole import ON_TIME, late_line
from spe_unicorn.spe.lateness.window import Window
from spe_unicorn.spe.sampler import Sampler
from spe_unicorn.spe.unit import StatisticalProfilingUnit
from spe_unicorn.stateful import Stateful

TURN: Final = LONGEST_TURN
"""Operations of a turn while another PE has something to do, if the machine has no shorter ones."""
SHORT_TURN: Final = 1 << 8
"""Operations of the first turn of a PE after it was found to poll. Each later one is twice as long,
up to TURN. At the end of each it is looked whether the PE polls again."""
_PATIENCE: Final = 1 << 6
"""Turns that others begin while a PE that polls waits. Then it executes its loop again."""
_BUSY: Final = 1 << 8
"""Operations since its last WFE from which on a PE has not just been polling."""
_ADDRESSES: Final = 1 << 64
_MOST_NAPS: Final = 4
"""The most that ``PEState.naps`` counts to: the longest wait in a WFE is 2 to this power."""

MakeSampler = Callable[["ProcessingElement"], Sampler]
"""Makes the sampling unit of a PE, whose lines and junction of events are there already."""


class PMBIRQ:
    """The interrupt line of the Profiling Buffer, on its way to the GIC, for others to watch."""

    DERIVED = ("level",)

    def __init__(self, line: IRQLine) -> None:
        self.level = False
        self.changed: Signal[[bool]] = Signal()
        """Told of the level each time the line is driven."""
        self._line = line

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        self.level = level
        self._line.set_level(level)
        self.changed(level)


class Firmware(Protocol):
    """What answers the calls of the PEs of a board."""

    @property
    def conduit(self) -> str | None:
        """How PSCI is called, ``hvc`` or ``smc``; None where the guest owns EL3."""
        ...

    def call(self, pe: ProcessingElement, exception: EngineException) -> bool:
        """Firmware answers an HVC or SMC of ``pe``; False where there is no firmware."""
        ...

    def semihosting(self, pe: ProcessingElement) -> bool:
        """The host answers ``HLT #0xF000``."""
        ...


class Surroundings(Protocol):
    """What is around the PEs of a board."""

    core: Core
    memory: RamMemory
    peripherals: Peripherals
    outside: Outside

    @property
    def firmware(self) -> Firmware:
        """Asked in a run alone: it is there once all PEs are."""
        ...

    def send_event(self, pe: ProcessingElement) -> None:
        """All PEs but ``pe``, which sends it, hear of an event."""
        ...

    @property
    def event_awaited(self) -> bool:
        """Whether a PE waits in a WFE."""
        ...

    def awaits_event(self) -> None:
        """A PE waits in a WFE from now on."""
        ...

    def passes(self, pe: ProcessingElement) -> int | None:
        """How many cycles pass for one of several PEs that repeats an exception, None for ever."""
        ...


@dataclass(slots=True)
class PEState:
    """What is saved of a PE as the machine runs it; what it computes with is its engine's."""

    on: bool = False
    """Whether it executes, or waits for an interrupt, at all (PSCI)."""
    asleep: bool = False
    """Whether it is in a WFI that its run did not end by itself."""
    dozing: bool = False
    """Whether it is in a WFE or polls, which ends by itself if nothing else ends it."""
    patience: Count = 0
    """How many more turns others may begin before the PE is woken from its WFE or its polling."""
    naps: Annotated[int, Within(0, _MOST_NAPS)] = 0
    """WFEs in a row that came at most ``_BUSY`` operations after the one before.

    At most ``_MOST_NAPS``. ``patience`` begins as 2 to this power, so a PE that finds nothing to do
    waits longer each time.
    """
    dozed: Count = 0
    """How many operations the PE had executed at its last WFE."""
    spun: Count = 0
    """One more than it had executed when it last repeated an exception, 0 for never."""
    awaits: list[Look] = field(default_factory=list)
    """Memory whose change ends the wait, as it was."""
    polls: bool = False
    """Whether it waits in a loop that looks at memory, and not in a WFE."""
    turn: Count = TURN
    """Operations of its next turn, at most."""
    hears: bool = False
    """Whether a PE of this machine has waited by WFE: from then on each WFE and SEV is seen."""
    restless: bool = False
    """Whether its WFEs do not wait in its next turn, as nothing is to come that would end that."""
    innocent: set[Bits64] = field(default_factory=set)
    """Pieces of code, as the PC divided by ``NEAR``, near which no WFE is looked for any more.

    The PE was there at the end of a turn in which each WFE would have been seen, and none was.
    """


class ProcessingElement(Stateful[PEState]):
    """A PE on its engine; implements ``host.pe.stops.Platform`` for itself.

    ``sampler`` makes the sampling unit, ``runner`` is the class of its runner.
    """

    DERIVED = ("_of_devices",)
    TRANSIT = ("leaves",)
    WIRING = ("alone",)

    def __init__(
        self,
        processor: Processor,
        board: Surroundings,
        sampler: MakeSampler,
        runner: type[AnyRunner],
    ) -> None:
        self.number = number = processor.number
        self.cpu = cpu = processor.cpu
        self.interrupts = interrupts = processor.interrupts
        self._board = board
        counters = board.core.counters
        gic = board.peripherals.gic
        lines = TimerLines(
            physical=gic.ppi(number, gicv3.PHYSICAL_TIMER),
            virtual=gic.ppi(number, gicv3.VIRTUAL_TIMER),
            el2_physical=gic.ppi(number, gicv3.EL2_PHYSICAL_TIMER),
            el2_virtual=gic.ppi(number, gicv3.EL2_VIRTUAL_TIMER),
            secure_physical=gic.ppi(number, gicv3.SECURE_PHYSICAL_TIMER),
        )
        self.timer = GenericTimer(
            lines,
            cntvoff=lambda: virtual_count_offset(cpu),
            cntpoff=lambda: physical_count_offset(cpu),
        )
        self.pmbirq = PMBIRQ(gic.ppi(number, gicv3.PMBIRQ))
        self.events = EventJunction()
        """PMU events so far."""
        self.samples_counted: Callable[[Counting], None] | None = None
        """Told what counts here, for a unit that samples by it."""
        self.unit = sampler(self)
        self.pmuirq = late_line(
            cpu.impdef,
            cpu.impdef.late_overflow,
            gic.ppi(number, gicv3.PMUIRQ),
            lambda: cpu.executed,
            processor.random.stream("late overflow"),
        )
        """The interrupt line of the Performance Monitors where it rises late; else None."""
        self._unknown_counters = processor.random.stream("PMU")
        self.counting = monitored(
            cpu,
            counters,
            self.pmuirq or gic.ppi(number, gicv3.PMUIRQ),
            interrupts.monitors,
            self.events,
            cracker=board.core.cracking,
        )
        """Counts for the Performance Monitors."""
        late_writes = None
        if most := cpu.impdef.late_pmu_writes:
            window = Window.of(cpu.impdef, lambda: cpu.executed)
            late_writes = self.counting.delay(most, window)
        self.counting.totals.sampling = lambda: self.unit.enabled
        if self.samples_counted is not None:
            self.samples_counted(self.counting)
        self.started: Signal[[]] = Signal()
        """Told when it was reset and is about to begin."""
        self.s = PEState()
        self.alone = True
        """Whether there is no other PE, so that time may pass while this one waits."""
        self.leaves = False
        """Whether it stands where the run is to end, and is to execute that operation first."""
        self._of_devices = NEVER_HAPPENS
        """The time, in cycles, at which a device drives a line by itself."""
        set_due(cpu.state, NEVER_HAPPENS)
        table, self.device_registers = self._device_registers(pmu_accessors(counters))
        """The System registers that are devices', and how they are reached."""
        self.handler = StopHandler(cpu, self, table, self.device_registers, interrupts)
        core = board.core
        if core.strict:
            self.handler.controls.withhold(absent(core.features, core.impdef, core.architecture))
        cpu.hooks.ask_by(self.handler.system.answer)
        if wanted("timers"):
            share_timers(cpu, self.timer)
        self.runner = runner(cpu, self.unit, self.handler, self.counting)
        if isinstance(self.unit, StatisticalProfilingUnit) and self.unit.lateness is not ON_TIME:
            silicon = Silicon(cpu, self.unit)
            self.handler.system.late = self.unit.lateness.writes
            self.handler.waits.wire(silicon.settle)
            self.runner.horizons.append(silicon.horizon)
            self.runner.watch(silicon, orders=True)
        if self.pmuirq is not None:
            line = self.pmuirq
            self.handler.waits.wire(line.settle)
            self.runner.horizons.append(Horizon(lambda: line.due, line.happen))
        if late_writes is not None:
            self.handler.waits.wire(late_writes.settle)
            self.runner.horizons.append(Horizon(lambda: late_writes.due, late_writes.happen))
            self.runner.watch(late_writes, orders=True)

    def start(self, el: int, entry: int, x: tuple[int, ...] = ()) -> None:
        """Reset, then begin at ``entry`` and ``el``, with ``x`` in X0 and those that follow.

        The registers of the GIC's CPU interface are reset by who resets the GIC.
        """
        cpu = self.cpu
        self.timer.reset()
        self.work_out_deadline()
        self.interrupts.reset()
        self.counting.before_reset()
        cpu.start(el, entry)
        self.counting.reset(self._unknown_counters.bits64, el)
        for number, value in enumerate(x):
            cpu.engine.set_x(number, value)
        self.handler.controls_written()
        self.unit.reset()
        if self.runner.watcher is not None:
            self.runner.watcher.reset()
        self.s.innocent.clear()
        self.s.on = True
        self.wake()
        self.started()

    def _derive(self) -> None:
        self.handler.controls_written()
        self.work_out_deadline()

    def run(self, operations: int | None, until: int = NEVER) -> Ending:
        """Run it, at most ``operations``, and not the one at ``until`` unless it stands there."""
        if self.alone and (slept := self._slept()) is not None:
            return slept
        if self.leaves and (operations is None or operations > 0):
            self.leaves = False
            operations, until = 1, NEVER
        run = self.runner.run if self.alone else self.runner.turn
        self.handler.sleeping = False  # also if it was woken, or restored, from a WFI for ever
        ending = run(operations, until)
        if self.alone:
            self.s.asleep = self.handler.sleeping
        return ending

    def resume(self, status: int, began: int, operations: int, until: int) -> Ending:
        """Go on with a turn that compiled code has begun: see :meth:`Runner.resume`."""
        return self.runner.resume(status, began, operations, until)

    def turns_taken(self, *, whole: bool) -> None:
        """Compiled code has taken turns of this PE; ``whole`` unless it is midway in the last."""
        if whole:
            self.runner.turns_were_taken()
        self._look_at_devices()

    def _slept(self) -> Ending | None:
        """What a run ends in that begins in a WFI or turned off; None once the PE goes on."""
        handler = self.handler
        if not self.s.on:
            return Ending.ASLEEP
        if not self.s.asleep:
            return None
        handler.ending = None
        handler.sleep()
        self.s.asleep = handler.sleeping
        if handler.ending is Ending.INTERRUPTED:
            self.runner.stopping = False
        return handler.ending

    def resync(self) -> None:
        """Registers or memory were written from outside: work out anew what follows from them.

        Translations and translated code are forgotten, as by maintenance of everything.
        """
        cpu = self.cpu
        cpu.forget_el()
        register_written(cpu.state)
        apply_maintenance(cpu, Maintenance(tlb=True, flush=True, code=True))
        if cpu.model is not None:
            cpu.model.stopped(executed=False, pc=cpu.pc)
        self.handler.controls_written()
        self.unit.reload()
        self.counting.changed()

    @property
    def runnable(self) -> bool:
        """Whether it has something to execute."""
        s = self.s
        return s.on and (not s.asleep or self.interrupts.pending)

    @property
    def waits(self) -> bool:
        """Whether it is in a WFI or WFE that no interrupt ends."""
        s = self.s
        return s.on and (s.asleep or s.dozing) and not self.interrupts.pending

    def wake(self) -> None:
        """What it waited for has happened, or may have."""
        self.s.asleep = self.s.dozing = self.s.polls = False
        self.s.awaits.clear()

    @property
    def sees_nothing_new(self) -> bool:
        """Whether memory that it waits for is as it was when it began to wait."""
        return unchanged(self.cpu, self.s.awaits)

    def turn_over(self) -> None:
        """A whole turn has gone by: see whether it polls, or stands in a loop around a WFE.

        A PE that polls waits for memory from now on. Where a WFE is near the PC, each WFE is seen
        in the next turn, which ends there. If the PE executes none, the place is innocent.
        """
        self.s.turn = min(2 * self.s.turn, TURN)
        looks = polled(self.cpu)
        if looks is not None:
            self.s.dozing = self.s.polls = True
            self.s.awaits = looks
            self.s.patience = _PATIENCE
            self.s.turn = SHORT_TURN
            return
        if self.s.hears:
            return
        controls = self.handler.controls
        place = self.cpu.pc // NEAR
        if controls.waits_for_events:
            controls.waits_for_events = False
            self.s.innocent.add(place)
        elif place not in self.s.innocent:
            pieces = ((place + n) * NEAR % _ADDRESSES for n in (-1, 0, 1))
            lines = (self.cpu.virtual.code(piece, NEAR_WORDS) for piece in pieces)
            controls.waits_for_events = any(words and WFE in words for words in lines)

    @property
    def wfes(self) -> int:
        """What :meth:`turn_over` does about WFEs: see ``host.native.turns.standing``."""
        if self.s.hears:
            return WFE_HEARD
        return WFE_AWAITED if self.handler.controls.waits_for_events else WFE_SEARCHED

    def cycles_of(self, count: int | None) -> int | None:
        """The time, in cycles, at which the system counter has reached ``count``.

        None where ``count`` is None, which is never, and for a time that no machine lives to see.
        """
        time = NEVER_HAPPENS if count is None else self.cpu.rate.cycles(count)
        return None if time >= NEVER_HAPPENS else time

    @property
    def event_due(self) -> int | None:
        """The time, in cycles, of the next event of the event streams, None if they are off."""
        now = self.cpu.physical_count()
        registers = self.cpu.registers
        streams: list[tuple[CNTKCTL_EL1 | CNTHCTL_EL2, int]]
        streams = [(registers.read(CNTKCTL_EL1), now - self.timer.virtual_offset())]
        if CNTHCTL_EL2 in registers:
            streams.append((registers.read(CNTHCTL_EL2), now))
        ticks = [
            next_event(
                c.EVNTI,
                count,
                evntis=bool(c.EVNTIS),
                evntdir=bool(c.EVNTDIR),
                evnten=bool(c.EVNTEN),
            )
            for c, count in streams
        ]
        soon = min((n for n in ticks if n is not None), default=None)
        return None if soon is None else self.cpu.rate.cycles(now + soon)

    def move_to(self, time: int) -> None:
        """Let time pass up to ``time``, in cycles, while this PE stands.

        After that what has come due happens.
        """
        cpu = self.cpu
        cpu.state.skipped = time - cpu.executed
        self._look_at_devices()
        if time >= min(self.due, self._of_devices):
            self.happen()

    def host_address(self, address: int, size: int) -> int | None:
        """Where the host has ``size`` bytes at a physical address; None where there is no RAM."""
        return self._board.memory.host_address(address, size)

    # Around the PE: host.pe.stops.Platform

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        return self._board.peripherals.bus.claims(address)

    def read(self, address: int, size: int) -> int:
        """A load from a device."""
        return self._board.peripherals.bus.read(address, size)

    def write(self, address: int, size: int, value: int) -> None:
        """A store to a device."""
        self._board.peripherals.bus.write(address, size, value)
        if timed(address):
            self.work_out_deadline()

    def happen(self) -> None:
        """Time has come for a timer or a device: drive their lines, and see what is next."""
        self.timer.update(self.cpu.physical_count())
        self._board.peripherals.update()
        self.work_out_deadline()

    def wait(self) -> bool:
        """Let time pass to what happens next, if that is this PE's matter alone."""
        if not self.alone:
            return False
        if self.deadline == NEVER_HAPPENS:
            self.s.asleep = True  # for who looks while we wait for input
            try:
                return self._board.outside.wait()
            finally:
                self.s.asleep = False
        self.cpu.state.skipped += max(0, self.deadline - self.cpu.executed)
        self.happen()
        return True

    def give_way(self) -> bool:
        """End the turn of a PE that repeats one exception: for it a turn of time passes.

        False if it has no other PEs, or if nothing will ever happen to it.
        """
        cycles = None if self.alone else self._board.passes(self)
        if cycles is None:
            return False
        self.s.spun = self.cpu.executed + 1
        self.cpu.state.skipped += cycles
        self.happen()
        self.handler.ending = Ending.TURN
        return True

    @property
    def spins(self) -> bool:
        """Whether it has done nothing since its last :meth:`give_way`, and no interrupt is due."""
        return self.s.spun == self.cpu.executed + 1 and not self.interrupts.due

    def wait_for_event(self) -> None:
        """A WFE ends the turn. The PE waits longer after each WFE that soon follows another."""
        if self.alone or self.s.restless:
            return
        busy = self.cpu.executed - self.s.dozed > _BUSY
        self.s.dozed = self.cpu.executed
        self.s.naps = 0 if busy else min(self.s.naps + 1, _MOST_NAPS)
        self.s.patience = 1 << self.s.naps
        self.s.dozing = True
        self.s.awaits = watched_exclusively(self.cpu)
        self.handler.ending = Ending.TURN
        self._board.awaits_event()

    @property
    def restless(self) -> bool:
        """Whether no WFE of this PE waits in its turn of now."""
        return self.s.restless

    def hear_events(self) -> None:
        """From now on see each WFE and SEV of this PE."""
        if not self.s.hears:
            self.s.hears = True
            self.handler.controls.waits_for_events = True

    @property
    def event_awaited(self) -> bool:
        """Whether a PE waits in a WFE."""
        return self._board.event_awaited

    def send_event(self) -> None:
        """All other PEs hear of an event."""
        self._board.send_event(self)

    def call(self, exception: EngineException) -> bool:
        """Firmware answers an HVC or SMC; False where there is no firmware."""
        return self._board.firmware.call(self, exception)

    @property
    def conduit(self) -> str | None:
        """How PSCI is called, ``hvc`` or ``smc``; None where the guest owns EL3."""
        return self._board.firmware.conduit

    def semihosting(self) -> bool:
        """The host answers ``HLT #0xF000``."""
        return self._board.firmware.semihosting(self)

    def work_out_deadline(self) -> None:
        """Work out anew at how many executed operations a line changes by itself."""
        due = self.cycles_of(self.timer.next_deadline(self.cpu.physical_count()))
        set_due(self.cpu.state, NEVER_HAPPENS if due is None else due)
        self._look_at_devices()

    def _look_at_devices(self) -> None:
        """See when a device drives a line next."""
        due = self.cycles_of(self._board.peripherals.next_deadline())
        self._of_devices = NEVER_HAPPENS if due is None else due

    @property
    def due(self) -> int:
        """The time, in cycles, at which a timer of its own drives a line by itself."""
        return int(self.cpu.state.due)

    @property
    def deadline(self) -> int:
        """How many operations it has executed when a line changes by itself."""
        due = min(int(self.cpu.state.due), self._of_devices)
        return NEVER_HAPPENS if due == NEVER_HAPPENS else due - int(self.cpu.state.skipped)

    def _device_registers(
        self, monitors: tuple[Accessor, ...]
    ) -> tuple[SysRegTable, dict[type[SysReg], DeviceRegister]]:
        """The System registers that are devices', and how they are reached."""
        interface = self._board.peripherals.gic.cpu_interfaces[self.number]
        gic = gic_accessors(lambda: ICH_HCR_EL2(interface.read(ICH_HCR_EL2)))
        registers = device_registers.registers(
            self.cpu, self.timer, interface, self.work_out_deadline
        )
        own = core_accessors(self._board.core.registers)
        registers |= answers(own, self._board.core.register_values)
        registers |= self.counting.registers
        registers |= device_registers.cache_registers(self.cpu, self._board.core.caches)
        device_registers.install(self.cpu, (*gic, *own))
        monitor_registers.install(self.cpu.hooks, monitors, Action.STOP)
        table = SysRegTable(
            (
                *SPE_ACCESSORS,
                *STEERING_ACCESSORS,
                *TIMER_ACCESSORS,
                *DEBUG_ACCESSORS,
                *CACHE_ACCESSORS,
                *gic,
                *own,
                *monitors,
            )
        )
        return table, registers
