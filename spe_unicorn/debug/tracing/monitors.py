"""The trace of the Performance Monitors: overflows, PMUIRQ, their exception, and writes."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.syndrome_text import entry_text
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.exceptions.syndromes import EC, ProfilingSource
from spe_unicorn.arch.registers.pmu import CYCLE_COUNTER, INSTRUCTION_COUNTER
from spe_unicorn.debug.tracing.accesses import Access, AccessWatch, Registers
from spe_unicorn.debug.tracing.tracer import Tracer
from spe_unicorn.debug.verdicts import fields
from spe_unicorn.devices.gicv3 import PMUIRQ
from spe_unicorn.host.native.state.actions import WRITE
from spe_unicorn.pmu.counting import Standstill
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.pmu.standstill import standstill_text
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_NAMES: Final = {CYCLE_COUNTER: "the cycle counter", INSTRUCTION_COUNTER: "the instruction counter"}
_STEERING: Final = frozenset({"MDCR_EL2", "MDCR_EL3"})
_OF_SPE: Final = ("PMB", "PMS")


def trace_pmu(to: Tracer) -> None:
    """Counters that overflow or stand still, PMUIRQ, PMU Profiling exceptions, and writes."""
    pe = to.pe
    registers = Registers(pe)
    standing = _Standing(to)

    def on_overflow(counter: int, event: int) -> None:
        pc, el = pe.cpu.pc, pe.cpu.el
        if to.wants(pc, el):
            name = _NAMES.get(counter, f"counter {counter}")
            known = _event(event)
            data = {"what": "overflow", "counter": counter, "event": event, "name": known}
            to.tell("pmu", f"{name} ({known}) overflowed", data, pc, el)
        standing.look(pc, el)

    def on_driven(number: int, intid: int, level: bool) -> None:
        pc, el = pe.cpu.pc, pe.cpu.el
        if number == pe.number and intid == PMUIRQ and to.wants(pc, el):
            to.tell("pmu", f"PMUIRQ {int(level)}", {"what": "PMUIRQ", "level": level}, pc, el)

    def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        syndrome, el = record.syndrome, entry.spsr >> 2 & 3
        if syndrome is None or syndrome.ec != EC.Profiling or not to.wants(entry.elr, el):
            return
        if syndrome.iss >> 1 == ProfilingSource.PMU:
            what = entry_text(record, entry)
            data = {"what": "exception", "exception": what, "to_el": entry.target_el}
            text = f"{what} from {to.place(entry.elr)} EL{el} to EL{entry.target_el}"
            to.tell("pmu", text, data, entry.elr, el)

    def on_write(access: Access) -> None:
        pc, el = access.pc, access.el
        if to.board.inputs.replaying or not to.wants(pc, el):
            return
        register = registers.reached(access.key)
        if register is None:
            return
        name, value = register.__name__, access.value
        said = " raised an exception" if access.raised else fields(register, value, pe.cpu.features)
        data = {"what": "write", "register": name, "value": hex(value), "raised": access.raised}
        to.tell("pmu", f"{to.place(pc)} EL{el} MSR {name}, {value:#x}{said}", data, pc, el)
        standing.look(pc, el)

    def on_management(_event: ManagementEvent, _el: int) -> None:
        standing.look(pe.cpu.pc, pe.cpu.el)

    written = {
        (WRITE, key)
        for register in (*pe.cpu.registers, *pe.device_registers)
        if _matters(register.__name__)
        for key in registers.keys(register)
    }
    watch = AccessWatch(pe, written, on_write)
    to.ends.callback(pe.handler.controls.checks.observe(watch))
    to.ends.callback(pe.counting.monitors.overflew.connect(on_overflow))
    if isinstance(pe.unit, StatisticalProfilingUnit):
        to.ends.callback(pe.unit.managed.connect(on_management))
    to.ends.callback(pe.cpu.exception_taken.connect(on_exception))
    to.ends.callback(to.board.peripherals.gic.routing.driven.connect(on_driven))


class _Standing:
    """Tells which enabled counters stand still, and why, as often as that changes."""

    def __init__(self, to: Tracer) -> None:
        self._to = to
        self._told: dict[int, str] = {}
        """Why each counter stood still when it was last looked at."""

    def look(self, pc: int, el: int) -> None:
        """Look at all counters at the present Exception level."""
        to, pe = self._to, self._to.pe
        monitors = pe.counting.monitors
        found: dict[int, str] = {}
        for counter in range(INSTRUCTION_COUNTER + 1):
            kept = monitors.standstill(counter)
            if kept is not None and kept not in (Standstill.ABSENT, Standstill.DISABLED):
                found[counter] = standstill_text(monitors, pe.cpu, counter, kept)
        again = [n for n in self._told if n not in found and monitors.counts(n)]
        news = [n for n, why in found.items() if self._told.get(n) != why]
        self._told = found
        if not to.wants(pc, el):
            return
        for why in dict.fromkeys(found[n] for n in news):
            self._tell([n for n in news if found[n] == why], "stand still", why, pc, el)
        if again:
            self._tell(again, "count again", None, pc, el)

    def _tell(self, counters: list[int], what: str, why: str | None, pc: int, el: int) -> None:
        monitors = self._to.pe.counting.monitors
        names = [
            f"{_NAMES.get(n, f'counter {n}')} ({_event(monitors.event_of(n))})" for n in counters
        ]
        data = {"what": what, "counters": counters, "why": why}
        one = len(counters) == 1
        said = what.replace(" ", "s ", 1) if one else what
        if why is not None:
            said = f"{'is' if one else 'are'} enabled, and {said}: {why}"
        self._to.tell("pmu", f"{', '.join(names)} {said}", data, pc, el)


def _event(number: int) -> str:
    return PMUEvent(number).name if number in set(PMUEvent) else f"event {number:#x}"


def _matters(name: str) -> bool:
    """Whether a register by its name is the Performance Monitors', or steers them."""
    return name in _STEERING or (name.startswith("PM") and not name.startswith(_OF_SPE))
