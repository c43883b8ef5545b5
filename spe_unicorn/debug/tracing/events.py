"""Traces of what the machine has signals for: System registers, exceptions, interrupts, SPE."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.access.syndrome_text import entry_text
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Operation
from spe_unicorn.debug.tracing.tracer import Tracer
from spe_unicorn.debug.verdicts import changes, fields, outcome
from spe_unicorn.devices.gicv3.routing import PRIVATE
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.output.line import record_line
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.record import PlacedRecord, read_record
from spe_unicorn.spe.unit import StatisticalProfilingUnit


def shown(number: int | None) -> str | None:
    """A number as hexadecimal text, which JSON has no number for; None stays None."""
    return None if number is None else hex(number)


def trace_sysreg(to: Tracer) -> None:
    """Each access to a System register that the rules answer: SPE, what steers it, the GIC."""
    features = to.pe.cpu.features

    def on_access(access: SystemAccess) -> None:
        if not to.wants(access.pc, access.el):
            return
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
        data = {
            "access": "read" if access.read else "write",
            "register": access.name,
            "value": shown(access.value),
            "verdict": verdict,
            "rule": rule,
            "old": shown(access.old),
            "new": shown(access.new),
        }
        where = f"{to.place(access.pc)} EL{access.el}"
        to.tell("sysreg", f"{where} {what} {verdict} [{rule}]{did}", data, access.pc, access.el)

    to.ends.callback(to.pe.handler.system.accessed.connect(on_access))


def trace_exception(to: Tracer) -> None:
    """Each exception that is taken."""

    def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        el = entry.spsr >> 2 & 3
        if not to.wants(entry.elr, el):
            return
        what = entry_text(record, entry)
        data = {
            "exception": what,
            "esr": shown(entry.esr),
            "far": shown(entry.far),
            "to_el": entry.target_el,
            "vector": shown(entry.vector),
        }
        text = (
            f"{what} from {to.place(entry.elr)} EL{el} to EL{entry.target_el}"
            f" vector {to.place(entry.vector)}"
        )
        to.tell("exception", text, data, entry.elr, el)

    to.ends.callback(to.pe.cpu.exception_taken.connect(on_exception))


def trace_spe(to: Tracer) -> None:
    """Each record, what was dropped since the one before, and each management event."""
    pe = to.pe
    counts = pe.unit.statistics
    seen = {name: getattr(counts, name) for name in ("collisions", "filtered", "discarded", "lost")}

    def dropped() -> dict[str, int]:
        """How many selected operations became no record since the last call, by reason."""
        found = {}
        for name, before in seen.items():
            seen[name] = getattr(counts, name)
            if seen[name] != before:
                found[name] = seen[name] - before
        return found

    def after(found: dict[str, int]) -> str:
        words = ", ".join(f"{number} {name}" for name, number in found.items())
        return f" after {words}" if words else ""

    def on_record(record: bytes, operation: Operation) -> None:
        pc = operation.pc
        if not to.wants(pc, operation.el):
            return
        placed = read_record(record, 0)
        if not isinstance(placed, PlacedRecord):
            raise RuntimeError(f"record {counts.written} of {pc:#x} is none: {placed.reason}")
        line, before = record_line(placed.record), dropped()
        data = {"what": "record", "number": counts.written, "record": line, "dropped": before}
        text = f"record {counts.written} of {to.place(pc)}: {line}{after(before)}"
        to.tell("spe", text, data, pc, operation.el)

    def on_management(event: ManagementEvent, el: int) -> None:
        pc, level = pe.cpu.pc, pe.cpu.el
        if not to.wants(pc, level):
            return
        lost, before = ", data lost" if event.data_lost else "", dropped()
        data = {
            "what": "management event",
            "event": str(event.kind),
            "address": shown(event.address),
            "data_lost": event.data_lost,
            "register": f"PMBSR_EL{el}",
            "dropped": before,
        }
        text = f"management event {event.kind} at {event.address:#x}{lost}, in PMBSR_EL{el}"
        to.tell("spe", text + after(before), data, pc, level)

    def on_pmbirq(level: bool) -> None:
        pc, el = pe.cpu.pc, pe.cpu.el
        if to.wants(pc, el):
            to.tell("spe", f"PMBIRQ {int(level)}", {"what": "PMBIRQ", "level": level}, pc, el)

    to.ends.callback(pe.unit.recorded.connect(on_record))
    if isinstance(pe.unit, StatisticalProfilingUnit):
        to.ends.callback(pe.unit.managed.connect(on_management))
    to.ends.callback(pe.pmbirq.changed.connect(on_pmbirq))
    if pe.pmbirq.level:  # PMBSR_EL1.S is UNKNOWN after a reset
        on_pmbirq(True)


def trace_irq(to: Tracer) -> None:
    """Each input of the GIC that changes, each interrupt that is acknowledged and deactivated."""
    pe = to.pe
    routing = to.board.peripherals.gic.routing

    def tell(intid: int, what: str, data: dict[str, object], *, where: bool) -> None:
        pc, el = pe.cpu.pc, pe.cpu.el
        if to.wants(pc, el):
            at = f" at {to.place(pc)} EL{el}" if where else ""
            to.tell("irq", f"INTID {intid} {what}{at}", {"intid": intid, **data}, pc, el)

    def on_driven(number: int, intid: int, level: bool) -> None:
        # an SPI belongs to no PE: the first PE's trace has it
        if pe.number == (number if intid < PRIVATE else 0):
            data: dict[str, object] = {"what": "level", "level": level}
            tell(intid, f"level {int(level)}", data, where=False)

    def told(what: str) -> Callable[[int, int], None]:
        def on_change(number: int, intid: int) -> None:
            if number == pe.number:
                tell(intid, what, {"what": what}, where=True)

        return on_change

    to.ends.callback(routing.driven.connect(on_driven))
    to.ends.callback(routing.activated.connect(told("acknowledged")))
    to.ends.callback(routing.deactivated.connect(told("deactivated")))
