"""Traces: a line for each thing of a kind that happens on a board.

A line begins with the number of the operation (the first one of the run is 1), so that traces of
different kinds can be laid side by side. On a board of several PEs that is the number of the PE's
own operation, after the PE's own number. The same run gives the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spe_unicorn.arch.access.syndrome_text import entry_text
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Operation
from spe_unicorn.debug.places import place
from spe_unicorn.debug.verdicts import changes, fields, outcome
from spe_unicorn.devices.gicv3.routing import PRIVATE
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.output.line import record_line
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.record import PlacedRecord, read_record
from spe_unicorn.spe.unit import StatisticalProfilingUnit

Write = Callable[[str], None]
"""Takes a line, newline included."""
Tracer = Callable[[Board, ProcessingElement, Write], None]


def trace(board: Board, kind: str, write: Write) -> None:
    """Have ``write`` told of what happens on a board, by one of :data:`TRACERS`."""
    for pe in board.pes:
        TRACERS[kind](board, pe, write)


def _moment(board: Board, pe: ProcessingElement) -> str:
    """Which operation it is, and whose."""
    number = str(pe.cpu.counted())
    return number if len(board.pes) == 1 else f"cpu {pe.number} {number}"


def trace_sysreg(board: Board, pe: ProcessingElement, write: Write) -> None:
    """Each access to a System register that the rules answer: SPE, what steers it, the GIC."""
    features = pe.cpu.features

    def on_access(access: SystemAccess) -> None:
        register = access.register
        what = f"MRS {access.name}" if access.read else f"MSR {access.name}, {access.value:#x}"
        did = ""
        if register is not None:
            said = fields(register, access.value, features)
            if access.read:
                did = f": {access.value:#x}{said}"
            elif access.old is None or access.new is None:  # a device's, whose reads have effects
                what += said
            else:
                did = f": {changes(register, access.old, access.new, features)}"
                if ignored := access.value & ~access.new:
                    did += f", bits {ignored:#x} ignored"
        rule = access.verdict.rule.name
        renamed = register is None or register.__name__ != access.name
        verdict = outcome(access.verdict) if renamed else "allowed"
        where = f"{place(board, access.pc)} EL{access.el}"
        write(f"{_moment(board, pe)} sysreg {where} {what} {verdict} [{rule}]{did}\n")

    pe.handler.system.accessed.connect(on_access)


def trace_exception(board: Board, pe: ProcessingElement, write: Write) -> None:
    """Each exception that is taken."""

    def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        write(
            f"{_moment(board, pe)} exception {entry_text(record, entry)}"
            f" from {place(board, entry.elr)} EL{entry.spsr >> 2 & 3} to EL{entry.target_el}"
            f" vector {place(board, entry.vector)}\n"
        )

    pe.cpu.exception_taken.connect(on_exception)


def trace_spe(board: Board, pe: ProcessingElement, write: Write) -> None:
    """Each record, what was dropped since the one before, and each management event."""
    counts = pe.unit.statistics
    seen = {"collisions": 0, "filtered": 0, "discarded": 0, "lost": 0}

    def dropped() -> str:
        """What was selected and did not become a record since this was last asked."""
        words = []
        for name, before in seen.items():
            now = getattr(counts, name)
            seen[name] = now
            if now != before:
                words.append(f"{now - before} {name}")
        return f" after {', '.join(words)}" if words else ""

    def on_record(record: bytes, operation: Operation) -> None:
        placed = read_record(record, 0)
        assert isinstance(placed, PlacedRecord)
        pc = operation.pc
        write(
            f"{_moment(board, pe)} spe record {counts.written} of {place(board, pc)}:"
            f" {record_line(placed.record)}{dropped()}\n"
        )

    def on_management(event: ManagementEvent, el: int) -> None:
        lost = ", data lost" if event.data_lost else ""
        write(
            f"{_moment(board, pe)} spe management event {event.kind} at {event.address:#x}"
            f"{lost}, in PMBSR_EL{el}{dropped()}\n"
        )

    def on_pmbirq(level: bool) -> None:
        write(f"{_moment(board, pe)} spe PMBIRQ {int(level)}\n")

    pe.unit.recorded.connect(on_record)
    if isinstance(pe.unit, StatisticalProfilingUnit):
        pe.unit.managed.connect(on_management)
    pe.pmbirq.changed.connect(on_pmbirq)
    if pe.pmbirq.level:  # PMBSR_EL1.S is UNKNOWN after a reset
        on_pmbirq(True)


def trace_irq(board: Board, pe: ProcessingElement, write: Write) -> None:
    """Each input of the GIC that changes, each interrupt that is acknowledged and deactivated."""
    routing = board.peripherals.gic.routing

    def mine(number: int, intid: int) -> bool:
        """Whether it is told with this PE: an SPI's input is nobody's, so with the first one."""
        return pe.number == (number if intid < PRIVATE else 0)

    def on_driven(number: int, intid: int, level: bool) -> None:
        if mine(number, intid):
            write(f"{_moment(board, pe)} irq INTID {intid} level {int(level)}\n")

    def told(what: str) -> Callable[[int, int], None]:
        def on_change(number: int, intid: int) -> None:
            if number == pe.number:
                where = f"{place(board, pe.cpu.pc)} EL{pe.cpu.el}"
                write(f"{_moment(board, pe)} irq INTID {intid} {what} at {where}\n")

        return on_change

    routing.driven.connect(on_driven)
    routing.activated.connect(told("acknowledged"))
    routing.deactivated.connect(told("deactivated"))


TRACERS: Final[Mapping[str, Tracer]] = {
    "sysreg": trace_sysreg,
    "exception": trace_exception,
    "spe": trace_spe,
    "irq": trace_irq,
}
"""What can be traced."""
