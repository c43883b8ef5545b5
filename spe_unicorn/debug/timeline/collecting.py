"""Collects the marks of a driver's time line, a bounded number of them.

Nothing of it shows in the guest. Barriers and returns are seen while SPE may be in use: while a
buffer or profiling is enabled, and after a write of one of SPE's registers up to the next context
synchronization event. The Exception level is that at each mark.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from spe_unicorn.arch.access.syndrome_text import entry_text
from spe_unicorn.arch.access.verdicts import Allowed
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Mark as Ordering
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1, PMBPTR_EL1
from spe_unicorn.devices.gicv3 import PMBIRQ
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.host.ports import Watcher
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit

MOST_MARKS: Final = 50_000
"""Marks of one PE that are kept, the first ones."""
MOST_RECORDS: Final = 20_000
"""Of these, marks of records."""
LANES: Final = (
    "Exception level",
    "profiling",
    "registers",
    "records",
    "management events",
    "interrupt 21",
    "exceptions",
    "barriers",
    "mistakes",
)
"""The lanes of a PE, from top to bottom; the first two have spans."""
_SPE: Final = ("PMS", "PMB")
"""How the names of SPE's registers begin."""
_WORDS: Final = {
    Ordering.PSB_CSYNC: "PSB CSYNC",
    Ordering.DSB: "DSB",
    Ordering.ISB: "ISB",
    Ordering.ERET: "ERET",
}
_RELAXED: Final = frozenset({Ordering.ISB, Ordering.ERET})
"""Context synchronization events."""


class Mark(NamedTuple):
    """Something that happened: on which lane, and at which operation of the PE, from 1 up."""

    lane: str
    operation: int
    pc: int
    el: int
    text: str


class Fill(NamedTuple):
    """The buffer after an operation: PMBPTR_EL1, and the limit, 0 while it is not enabled."""

    operation: int
    pointer: int
    limit: int


@dataclass
class Line:
    """The time line of one PE."""

    number: int
    marks: list[Mark] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    levels: list[tuple[int, int]] = field(default_factory=list)
    """From which operation on the PE was seen at which Exception level."""
    enabled: list[tuple[int, int]] = field(default_factory=list)
    """From which operation on profiling was enabled, 1, or was not, 0."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Marks that were not kept, by lane."""
    end: int = 0
    """How many operations the PE has executed."""


def collect(board: Board) -> list[Line]:
    """The time lines of a board's PEs, which grow while it runs from now on."""
    return [_Collector(board, pe).line for pe in board.pes]


class _Collector:
    """Collects the marks of one PE; a ``host.ports.Watcher``."""

    def __init__(self, board: Board, pe: ProcessingElement) -> None:
        self.line = Line(pe.number)
        self._pe = pe
        self._records = 0
        self._written = False
        """Whether a register of SPE was written since the last context synchronization event."""
        self._other: Watcher | None = pe.runner.watcher
        pe.runner.watch(self)
        pe.handler.system.accessed.connect(self._on_access)
        pe.cpu.exception_taken.connect(self._on_exception)
        pe.unit.recorded.connect(self._on_record)
        pe.pmbirq.changed.connect(self._on_pmbirq)
        if isinstance(pe.unit, StatisticalProfilingUnit):
            pe.unit.managed.connect(self._on_management)
        routing = board.peripherals.gic.routing
        routing.activated.connect(lambda number, intid: self._on_gic(number, intid, "taken"))
        routing.deactivated.connect(lambda number, intid: self._on_gic(number, intid, "ended"))

    # Marks

    def _mark(self, lane: str, text: str, pc: int | None = None, el: int | None = None) -> None:
        cpu, line = self._pe.cpu, self.line
        now = cpu.counted()
        line.end = max(line.end, now)
        records = lane == "records"
        if len(line.marks) >= MOST_MARKS or (records and self._records >= MOST_RECORDS):
            line.left_out[lane] += 1
        else:
            self._records += records
            there = cpu.pc if pc is None else pc
            line.marks.append(Mark(lane, now, there, cpu.el if el is None else el, text))
        self._look(now)

    def _look(self, now: int) -> None:
        """See at which Exception level the PE is, and whether profiling is enabled there."""
        self._note(self.line.levels, now, self._pe.cpu.el)
        self._note(self.line.enabled, now, int(self._pe.unit.enabled))

    @staticmethod
    def _note(known: list[tuple[int, int]], now: int, value: int) -> None:
        """Something has a value from now on."""
        if (not known or known[-1][1] != value) and len(known) < MOST_MARKS:
            known.append((now, value))

    def _fill(self) -> None:
        """Note how full the buffer is."""
        cpu, fills = self._pe.cpu, self.line.fills
        if PMBPTR_EL1 not in cpu.registers or len(fills) >= MOST_MARKS:
            return
        limit = cpu.registers.read(PMBLIMITR_EL1)
        end = limit.LIMIT << PMBLIMITR_EL1.LIMIT.lsb if limit.E else 0
        fills.append(Fill(cpu.counted(), cpu.registers.raw(PMBPTR_EL1), end))

    # What happens

    def _on_access(self, access: SystemAccess) -> None:
        if not access.name.startswith(_SPE):
            return
        allowed = isinstance(access.verdict, Allowed)
        if access.read and allowed:
            return
        self._written = True
        text = f"M{'RS' if access.read else 'SR'} {access.name}"
        if not access.read:
            text += f" = {access.value:#x}"
        if not allowed:
            text += f": {type(access.verdict).__name__}"
        self._mark("registers", text, access.pc, access.el)
        self._fill()

    def _on_exception(self, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        text = f"{entry_text(record, entry)} to EL{entry.target_el}"
        self._mark("exceptions", text, entry.elr, entry.spsr >> 2 & 3)
        self._note(self.line.levels, self._pe.cpu.counted(), entry.target_el)

    def _on_record(self, record: bytes, operation: Operation) -> None:
        self._mark("records", f"record of {len(record)} bytes", operation.pc, operation.el)
        self._fill()

    def _on_management(self, event: ManagementEvent, el: int) -> None:
        lost = ", data lost" if event.data_lost else ""
        self._mark("management events", f"{event.kind}{lost}: PMBSR_EL{el}")
        self._fill()

    def _on_pmbirq(self, level: bool) -> None:
        self._mark("interrupt 21", "pending" if level else "no longer pending")

    def _on_gic(self, number: int, intid: int, what: str) -> None:
        if number == self.line.number and intid == PMBIRQ:
            self._mark("interrupt 21", what)

    # host.ports.Watcher

    @property
    def tracking(self) -> bool:
        """Whether SPE may be in use, or another watcher cares."""
        unit = self._pe.unit
        in_use = self._written or unit.armed or any(unit.enabled_at)
        return in_use or (self._other is not None and self._other.tracking)

    @property
    def at_once(self) -> bool:
        """Each event is a mark."""
        return self.tracking

    def reset(self) -> None:
        """The PE was reset."""
        self._mark("registers", "reset")
        if self._other is not None:
            self._other.reset()

    def executed(self, mark: Ordering, pc: int) -> None:
        """A barrier or a return was executed."""
        if mark in _RELAXED:
            self._written = False
        self._mark("barriers", _WORDS[mark], pc)
        if self._other is not None:
            self._other.executed(mark, pc)

    def synchronized(self, executed: int, members: int) -> None:
        """There were context synchronization events, which no hook saw one by one."""
        self._written = False
        if self._other is not None:
            self._other.synchronized(executed, members)

    def paused(self) -> None:
        """A run has come to its end."""
        self.line.end = max(self.line.end, self._pe.cpu.counted())
        if self._other is not None:
            self._other.paused()

    def controls_written(self, pc: int) -> None:
        """A register that steers SPE may have been written."""
        if self._other is not None:
            self._other.controls_written(pc)

    def foresees_records(self) -> bool:
        """Each record is a mark where it is made."""
        return False
