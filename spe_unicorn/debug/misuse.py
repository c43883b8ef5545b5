"""Driver mistakes, named as they happen: software does what the architecture asks it not to do.

``misuse_rules`` has the rules, ``misuse_checks`` finds the rules that a value breaks. This file has
what depends on the order of events: it watches a PE, decides when a check is due, and names the
place of the mistake. Watching changes nothing for the guest, and no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.registers.spe import (
    PMBIDR_EL1,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSICR_EL1,
    PMSIRR_EL1,
    SPE_REGISTERS,
)
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3
from spe_unicorn.debug import misuse_checks as checks
from spe_unicorn.debug import misuse_rules as rules
from spe_unicorn.debug.misuse_checks import Problem
from spe_unicorn.debug.misuse_found import Misuse, Misuses
from spe_unicorn.debug.misuse_interrupts import InterruptWatch
from spe_unicorn.debug.misuse_loads import RecordsOnTheirWay
from spe_unicorn.debug.misuse_rules import Rule
from spe_unicorn.debug.synchronization import Synchronization
from spe_unicorn.debug.verdicts import fields
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.native.reads import NoticedLoads
from spe_unicorn.host.native.shadow.blocks import CheckedAccesses, accesses_of
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.runner import AnyRunner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.spe.enabling import (
    discards,
    profiling_buffer_on,
    profiling_chosen,
    profiling_stopped,
    statistical_profiling_enabled,
)
from spe_unicorn.spe.lateness.parts import LOCKED
from spe_unicorn.spe.management import PMBSR_BY_EL, ManagementEvent
from spe_unicorn.spe.sampler import Sampler
from spe_unicorn.spe.unit import StatisticalProfilingUnit

__all__ = ["Misuse", "Misuses", "watch_misuse"]

_CONTROLS: Final = frozenset({PMSCR_EL1, PMSCR_EL2})
"""Registers whose enables act in program order, without a context synchronization event."""
_ENABLES: Final = 0b11
"""The bits of both that choose which Exception levels are profiled."""
_GOES_ON: Final = frozenset({*_CONTROLS, PMBLIMITR_EL1, *PMBSR_BY_EL.values()})
"""Registers with whose last write software lets profiling begin, or go on."""
_COUNTERS: Final = frozenset({PMSICR_EL1, PMSIRR_EL1})
"""Registers that act in program order: a context synchronization event orders accesses to them."""
_MRS_MSR: Final = 0xFFF0_0000
_MSR: Final = 0xD510_0000


class Profiled(Protocol):
    """What can be watched: a PE of a board, or SPE attached to an engine."""

    @property
    def cpu(self) -> UnicornCPU:
        """The PE."""
        ...

    @property
    def unit(self) -> Sampler:
        """What samples the PE."""
        ...

    @property
    def handler(self) -> StopHandler:
        """What carries System register accesses out."""
        ...

    @property
    def runner(self) -> AnyRunner:
        """What runs the PE."""
        ...


def watch_misuse(
    machine: Board | Profiled,
    on_first: Callable[[Misuse], None] | None = None,
    symbolize: Callable[[int], str | None] | None = None,
) -> Misuses:
    """Watch a board, or what ``attach`` gave, for mistakes in how its guest programs SPE.

    Call it before the machine runs. ``symbolize`` names addresses, those of a board by its symbols
    unless given. Nothing is found where SPE is not the guest's to program.
    """
    if isinstance(machine, Board):
        misuses = Misuses(symbolize or machine.names.symbol, on_first, machine.names.line)
    else:
        misuses = Misuses(symbolize or (lambda _: None), on_first)
    pes: tuple[Profiled, ...] = machine.pes if isinstance(machine, Board) else (machine,)
    for number, pe in enumerate(pes):
        if isinstance(pe.unit, StatisticalProfilingUnit):
            _Watch(
                pe,
                pe.unit,
                misuses,
                number if len(pes) > 1 else None,
                machine if isinstance(machine, Board) else None,
            )
    return misuses


@dataclass(frozen=True)
class _Place:
    pc: int
    el: int


@dataclass(frozen=True)
class _Written:
    """A write to a register: where, and what the register then held."""

    place: _Place
    value: int


@dataclass(frozen=True)
class _Stop:
    """A management event: its kind, after how many operations it came, where profiling began."""

    kind: str
    executed: int
    place: _Place


@dataclass
class _Since:
    """What is remembered of a PE since it was reset."""

    fresh: bool
    """Whether the watch has seen every write since the reset."""
    order: Synchronization = field(default_factory=Synchronization)
    read_at: dict[type[SysReg], int] = field(default_factory=dict)
    """The members whose effects were visible when each register was last read."""
    writers: dict[type[SysReg], _Written] = field(default_factory=dict)
    """The last write to each register, in the order of these writes."""
    unsynchronized: set[type[SysReg]] = field(default_factory=set)
    """Registers written since the last context synchronization event."""
    unchecked: bool = True
    """Whether anything was written since the configuration was last checked."""
    enabling: tuple[_Place, str] | None = None
    """A write that would have enabled profiling if PMBSR_ELx.S had not been set."""
    refilling: tuple[_Place, str] | None = None
    """A write of a new pointer while PMBSR_ELx.S was set."""
    unaligned: tuple[_Place, str] | None = None
    """A write of an unaligned pointer with which nothing has been profiled so far."""
    pointer: int | None = None
    """What software last read from PMBPTR_EL1 or wrote to it."""
    end: tuple[_Place, str] | None = None
    """A write over a pointer that the unit had moved and nobody read, with no record since."""
    stopped: _Stop | None = None
    """The last management event, while software has not looked at PMBSR_ELx."""
    lost: bool = False
    """Whether the last management event lost data and PMBPTR_EL1 was not written since."""


class _Watch:
    """Watches one PE; a ``host.run.watching.Watcher``."""

    def __init__(
        self,
        pe: Profiled,
        unit: StatisticalProfilingUnit,
        misuses: Misuses,
        number: int | None,
        board: Board | None,
    ) -> None:
        cpu = self._cpu = pe.cpu
        self._unit = unit
        self._runner = pe.runner
        self._misuses = misuses
        self._number = number
        self._board = board
        """The board of the PE, None without one. On a board every write since a reset is seen."""
        self._interrupts: InterruptWatch | None = None
        if board is not None and isinstance(pe, ProcessingElement):
            self._interrupts = InterruptWatch(board, pe, self._on_interrupt_misuse)
            misuses.at_end.append(self._finish)
        self._since = _Since(fresh=board is not None and not cpu.executed)
        self._translation = checks.translation(cpu)
        loads = NoticedLoads(cpu.hooks, self._checked_accesses)
        self._records = RecordsOnTheirWay(unit, loads, self._look_at_loads)
        pe.handler.system.accessed.connect(self._on_access)
        cpu.exception_taken.connect(self._on_exception)
        unit.managed.connect(self._on_management)
        unit.made.connect(self._on_made)
        pe.runner.horizons.append(self._records.horizon)
        pe.runner.watch(self)

    def _checked_accesses(self) -> CheckedAccesses | None:
        """What has blocks look for loads by themselves: on a board, where they may."""
        board = self._board
        return None if board is None else accesses_of(self._cpu.hooks, board.memory, board.ram)

    # Called by the runner: host.run.watching.Watcher

    @property
    def tracking(self) -> bool:
        """Whether barriers and returns matter now: some effect may not be ordered yet."""
        return (
            self._unit.armed
            or self._since.order.visible != self._population
            or self._records.pending
            or bool(self._since.unsynchronized)
            or self._since.enabling is not None
            or self._since.refilling is not None
            or (self._interrupts is not None and self._interrupts.tracking)
        )

    @property
    def at_once(self) -> bool:
        """Whether a context synchronization event may do more than move ``Synchronization``."""
        since = self._since
        return (
            since.unchecked
            or bool(since.unsynchronized)
            or since.enabling is not None
            or since.refilling is not None
            or (self._interrupts is not None and self._interrupts.tracking)
        )

    def reset(self) -> None:
        """The PE was reset: forget all that came before."""
        self._look_at_loads()
        self._since = _Since(fresh=self._board is not None)
        self._translation = checks.translation(self._cpu)
        self._since.order.everything(self._population)
        self._records.forget()
        if self._interrupts is not None:
            self._interrupts.reset()

    def executed(self, mark: Mark, pc: int) -> None:
        """An ISB, a PSB CSYNC, a DSB or an ERET."""
        self._look_at_loads()
        if mark is Mark.DSB:
            self._since.order.dsb(self._population)
            self._records.are_written(self._since.order.written)
            return
        if mark is Mark.PSB_CSYNC:
            self._since.order.psb_csync()
            return
        returned = mark is Mark.ERET
        if returned and self._interrupts is not None:
            self._interrupts.returned()
        self._context_synchronization(self._cpu.el, _Place(pc, self._cpu.el), returned=returned)

    def synchronized(self, executed: int, members: int) -> None:
        """Context synchronization events, the last one after ``executed`` operations."""
        if self._records.loaded_before(executed):
            self._look_at_loads()
        self._since.order.context_synchronization(self._population - members)

    def paused(self) -> None:
        """A run has ended."""
        self._look_at_loads()

    def controls_written(self, pc: int) -> None:
        """A register of the translation regime, of EL2 or EL3 was written."""
        before, self._translation = self._translation, checks.translation(self._cpu)
        words = self._cpu.virtual.code(pc, 1)
        if not words or words[0] & _MRS_MSR != _MSR:
            return
        place = _Place(pc, self._cpu.el)
        encoding = Encoding.from_key(words[0] >> 5 & 0xFFFF)
        for register in (MDCR_EL2, MDCR_EL3):
            if register.encoding == encoding:
                for problem in checks.steering(self._cpu, register):
                    what = f"{_write(register, self._cpu)}: {problem.what}"
                    self._report(problem.rule, place, what)
        cpu = self._cpu
        writing = profiling_buffer_on(cpu) and not profiling_stopped(cpu) and not discards(cpu)
        if before == self._translation or not writing or not self._in_flight:
            return
        changes = [
            f"{name} {value:#x} -> {self._translation.get(name, 0):#x}"
            for name, value in before.items()
            if value != self._translation.get(name)
        ]
        self._report(rules.CONTEXT_BEFORE_DRAIN, place, ", ".join(changes) or "another owner")

    def foresees_records(self) -> bool:
        """Loads from the next records are looked out for from now on."""
        self._records.expect(self._unit.ahead())
        return True

    def _on_exception(self, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        if self._interrupts is not None:
            self._interrupts.entered(record.kind, entry.vector, entry.target_el)
        place = _Place(self._cpu.pc, self._cpu.el)
        self._context_synchronization(entry.target_el, place, returned=False)

    def _on_management(self, event: ManagementEvent, el: int) -> None:
        since, cpu = self._since, self._cpu
        since.unchecked = True
        since.lost = event.data_lost or event.external_abort
        began = [w.place for register, w in since.writers.items() if register in _GOES_ON]
        place = began[-1] if began else _Place(cpu.pc, cpu.el)
        since.stopped = _Stop(event.kind, cpu.counted(), place)

    def _finish(self, patience: int) -> None:
        """The run is over: report what stays undone."""
        told = self._interrupts is not None and self._interrupts.finish(patience)
        stop = self._since.stopped
        if stop is None or told or not profiling_stopped(self._cpu):
            return
        since = self._cpu.counted() - stop.executed
        if since < patience:
            return
        what = f"a management event ({stop.kind}) stopped profiling {since} operations before the"
        what += " end, and software has neither read nor written PMBSR_ELx since"
        if self._interrupts is not None:
            what += f"; {self._interrupts.enabled_instead()}"
        self._report(rules.STOP_NOT_SERVED, stop.place, what)

    def _on_made(self, records: bytes, members: Sequence[int], after: Sequence[int] | None) -> None:
        self._since.end = None
        self._records.made(records, members, after or (self._cpu.counted(),))

    def _look_at_loads(self) -> None:
        """Report loads from records that are not certain to be in memory."""
        for load, what in self._records.loaded(self._since.order.written):
            place = _Place(load.pc, load.el)
            if self._since.order.swapped:
                what += ": the DSB came before the PSB CSYNC, and belongs after it"
            self._report(rules.RECORDS_NOT_SYNCHRONIZED, place, what, load.executed + 1)

    def _on_access(self, access: SystemAccess) -> None:
        register = access.register
        if register is None or register not in SPE_REGISTERS:
            return
        if register is PMBIDR_EL1:
            self._misuses.identified = True
        if not self._runner.running:
            # the engine's owner runs it without a runner, so nobody sees the barriers in between
            self._since.order.everything(self._population)
            self._since.unsynchronized.clear()
            self._records.are_written(self._since.order.written)
        if access.read:
            self._read(register, access)
        else:
            self._write(register, access)

    # Reads

    def _read(self, register: type[SysReg], access: SystemAccess) -> None:
        """A register was read. If the unit writes it, it may not show every profiled operation."""
        status = issubclass(register, PMBSR)
        if status:
            self._since.stopped = None
        if not status and register not in (PMBPTR_EL1, PMSICR_EL1):
            return
        if register is PMBPTR_EL1:
            self._since.pointer = access.value
            if self._since.end is not None:
                self._report(rules.END_NOT_READ, *self._since.end)
                self._since.end = None
        visible = self._since.order.visible
        if register in _COUNTERS:
            visible = self._since.order.fenced
        before = self._since.read_at.get(register, 0)
        self._since.read_at[register] = visible
        if visible == self._population:
            return
        if (status or self._unit.enabled) and visible > before:
            return  # software polls: it has synchronized what there was at the last read
        missing = self._population - visible
        what = (
            f"MRS {access.name}: {access.value:#x}"
            f"{fields(register, access.value, self._cpu.features)},"
            f" with {missing} profiled operations not synchronized"
        )
        self._report(rules.READ_NOT_SYNCHRONIZED, _Place(access.pc, access.el), what)

    # Writes

    def _write(self, register: type[SysReg], access: SystemAccess) -> None:
        cpu = self._cpu
        if issubclass(register, PMBSR):
            self._since.stopped = None
            if self._interrupts is not None:
                self._interrupts.status_written(access.value)
        place = _Place(access.pc, access.el)
        what = f"MSR {access.name}, {access.value:#x}{fields(register, access.value, cpu.features)}"
        problems = list(checks.written(cpu, register, access.value))
        if register is PMBPTR_EL1:
            self._translation = checks.translation(cpu)  # of the half that it lies in now
            self._since.unaligned = (place, f"{what}: {problems[0].what}") if problems else None
        else:
            for problem in problems:
                self._report(problem.rule, place, f"{what}: {problem.what}")
        if register not in _CONTROLS:
            self._written_in_order(register, access, place, what)
        if register in LOCKED and checks.locked(cpu, register, access.value, _before(access)):
            self._report(rules.WRITE_WHILE_BUFFER_ENABLED, place, what)
        before = self._since.writers.pop(register, None)
        self._since.writers[register] = _Written(place, cpu.registers.raw(register))
        self._since.unchecked = True
        if register is PMBPTR_EL1:
            self._since.lost = False
            end = _before(access)
            unread = self._since.pointer not in (None, end)
            over = f"{what}, over {end:#x}, which nobody had read; then PMBPTR_EL1 was read"
            self._since.end = (place, over) if unread else None
            self._since.pointer = cpu.registers.raw(register)
        enabled = statistical_profiling_enabled(cpu, cpu.el)
        if enabled:
            others = self._since.unsynchronized - {register}
            if not self._unit.enabled and others:
                names = ", ".join(sorted(other.__name__ for other in others))
                self._report(
                    rules.SETUP_NOT_SYNCHRONIZED,
                    place,
                    f"{what} enables profiling, with no ISB since the write to {names}",
                )
            self._check_configuration(place)
        elif profiling_stopped(cpu):
            if self._enables(register, access):
                self._since.enabling = place, what
            elif register is PMBPTR_EL1 and before is not None and profiling_buffer_on(cpu):
                self._since.refilling = place, what
        if register not in _CONTROLS:
            self._since.unsynchronized.add(register)
        if not self._unit.armed:
            self._records.expect(())

    def _enables(self, register: type[SysReg], access: SystemAccess) -> bool:
        """Whether a write sets an enable that was 0."""
        set_now = access.value & ~_before(access)
        if register in _CONTROLS:
            return bool(set_now & _ENABLES)
        return register is PMBLIMITR_EL1 and bool(set_now & PMBLIMITR_EL1.E.mask)

    def _written_in_order(
        self, register: type[SysReg], access: SystemAccess, place: _Place, what: str
    ) -> None:
        """Report a write to a register whose old value samples may still need."""
        if self._unit.enabled:
            self._report(rules.WRITE_WHILE_PROFILING, place, f"{what}, profiling EL{access.el}")
            return
        was_on = self._unit.armed
        if register is PMBLIMITR_EL1:
            was_on = bool(_before(access) & PMBLIMITR_EL1.E.mask)
        elif not was_on:
            was_on = profiling_buffer_on(self._cpu)
        stopped = profiling_stopped(self._cpu)
        if issubclass(register, PMBSR):
            stopped = stopped or bool(_before(access) & PMBSR.S.mask)
        done = self._since.order.fenced if register in _COUNTERS else self._since.order.drained
        missing = self._population - done
        if was_on and not stopped and missing:
            what = f"{what}, with {missing} profiled operations not synchronized"
            self._report(rules.WRITE_BEFORE_DRAIN, place, what)

    # At a context synchronization event

    def _context_synchronization(self, el: int, place: _Place, *, returned: bool) -> None:
        """The PE goes on at ``el`` after a context synchronization event at ``place``."""
        cpu = self._cpu
        self._since.order.context_synchronization(self._population)
        self._since.unsynchronized.clear()
        if self._since.unchecked and statistical_profiling_enabled(cpu, el):
            self._check_configuration(place)
        if not profiling_stopped(cpu):
            self._since.enabling = self._since.refilling = None
        elif profiling_buffer_on(cpu) and profiling_chosen(cpu, el):
            self._report_stopped(self._since.enabling)
            self._since.enabling = None
            if returned:
                self._report_stopped(self._since.refilling)
                self._since.refilling = None

    def _report_stopped(self, enabling: tuple[_Place, str] | None) -> None:
        if enabling is None:
            return
        place, what = enabling
        cpu = self._cpu
        status = next(
            f"{register.__name__} {value:#x}{fields(register, value, cpu.features)}"
            for register in cpu.registers
            if issubclass(register, PMBSR) and (value := cpu.registers.raw(register)) & PMBSR.S.mask
        )
        self._report(rules.ENABLED_WHILE_STOPPED, place, f"{what}, and {status}")

    def _check_configuration(self, place: _Place) -> None:
        """Check new values: profiling becomes enabled with them at ``place``, or goes on."""
        if not self._since.unchecked:
            return
        self._since.unchecked = False
        for problem in self._problems():
            self._report(problem.rule, self._writer(problem, place), problem.what)
        if self._since.fresh and not self._misuses.identified:
            self._misuses.identified = True  # once is enough
            self._report(rules.IDENTIFICATION_NOT_READ, place, "nothing has read PMBIDR_EL1")
        if self._since.unaligned is not None and not discards(self._cpu):
            self._report(rules.POINTER_UNALIGNED, *self._since.unaligned)
            self._since.unaligned = None
        if self._since.lost:
            self._since.lost = False
            what = f"PMBPTR_EL1 {self._cpu.registers.raw(PMBPTR_EL1):#x} is that of the event"
            self._report(rules.RESUMED_AFTER_LOSS, place, what)

    def _problems(self) -> Iterator[Problem]:
        """What is wrong with how SPE is programmed."""
        cpu = self._cpu
        unknown = {}
        if self._since.fresh:
            needed = checks.needed(cpu).items()
            unknown = {r: rule for r, rule in needed if r not in self._since.writers}
        for rule in dict.fromkeys(unknown.values()):
            held = [
                f"{r.__name__}, which is {cpu.registers.raw(r):#x}"
                for r, its in unknown.items()
                if its is rule
            ]
            yield Problem(rule, f"nothing has written {', nor '.join(held)}")
        for problem in checks.configuration(cpu):
            if unknown.keys().isdisjoint(problem.registers):
                yield problem
        if self._board is not None and self._board.image is not None and PMBPTR_EL1 not in unknown:
            symbols = self._board.image.symbols
            sp = cpu.engine.get(SP)
            yield from checks.buffer(cpu, self._unit.in_memory, symbols, sp)

    def _writer(self, problem: Problem, place: _Place) -> _Place:
        """The place of the write that made the problem; ``place`` if nothing was written.

        If the unit has moved the pointer since it was written, the mistake is the last write with
        which software let profiling go on.
        """
        writers = self._since.writers
        pointer = writers.get(PMBPTR_EL1)
        now = self._cpu.registers.raw(PMBPTR_EL1)
        if PMBPTR_EL1 in problem.registers and pointer is not None and pointer.value != now:
            went_on = (*problem.registers, *PMBSR_BY_EL.values())
            return [w.place for register, w in writers.items() if register in went_on][-1]
        for register in problem.registers:
            if register in writers:
                return writers[register].place
        return place

    @property
    def _population(self) -> int:
        return self._unit.statistics.population

    @property
    def _in_flight(self) -> bool:
        """Whether there are profiled operations that no PSB CSYNC has synchronized."""
        return self._since.order.drained != self._population

    def _on_interrupt_misuse(self, rule: Rule, pc: int, el: int, what: str) -> None:
        self._report(rule, _Place(pc, el), what)

    def _report(self, rule: Rule, place: _Place, what: str, operation: int | None = None) -> None:
        if operation is None:
            operation = self._cpu.counted()
        self._misuses.add(rule, place.pc, place.el, operation, self._number, what)


def _before(access: SystemAccess) -> int:
    """What a register of SPE held before it was accessed."""
    if access.old is None:
        raise RuntimeError(f"{access.name}, accessed at {access.pc:#x}, held nothing before")
    return access.old


def _write(register: type[SysReg], cpu: UnicornCPU) -> str:
    """A write to a register that the engine has, with the value that the register then has."""
    value = cpu.registers.raw(register)
    return f"MSR {register.__name__}, {value:#x}{fields(register, value, cpu.features)}"
