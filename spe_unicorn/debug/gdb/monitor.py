"""The commands behind GDB's ``monitor``, each of which is answered with text.

A command that cannot be read is answered with its usage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.registers.by_name import Registers
from spe_unicorn.debug.gdb.events import EVENTS, EventBreaks, EventError
from spe_unicorn.debug.gdb.memory import translate
from spe_unicorn.debug.gdb.recent import RecentRecords
from spe_unicorn.debug.gdb.registers import group_of
from spe_unicorn.debug.places import place
from spe_unicorn.debug.system_registers import SystemRegisters
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.output.line import record_line
from spe_unicorn.spe.packets import canonical_address
from spe_unicorn.spe.unit import StatisticalProfilingUnit

FLUSH: Final = "GDB keeps registers of its own: say `maintenance flush register-cache` to it."
_MOST_RECORDS: Final = 1 << 12


class MonitorError(ValueError):
    """A monitor command that cannot be done; the message is one line."""


@dataclass(frozen=True)
class MonitorCommand:
    """One command: its usage, and a few words about it."""

    usage: str
    help: str
    run: Callable[[ProcessingElement, Sequence[str]], str]
    writes: bool = False
    """Whether the command changes the machine."""


class Monitor:
    """The commands of one board. ``why`` says for each PE why it has no records."""

    def __init__(
        self,
        board: Board,
        events: EventBreaks,
        records: RecentRecords,
        why: Callable[[], Sequence[str | None]],
        say: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._board = board
        self._events = events
        self._records = records
        self._why = why
        self._say = say
        self._changed = changed
        self.commands: dict[str, MonitorCommand] = {
            "help": MonitorCommand("help", "these commands", self._help),
            "regs": MonitorCommand(
                "regs [GROUP|NAME]",
                "System registers with their fields: spe, pmu, gic, timer, fgt, id, system",
                self._regs,
            ),
            "set": MonitorCommand(
                "set NAME[.FIELD] VALUE",
                "write a System register, or a field of it",
                self._set,
                True,
            ),
            "spe": MonitorCommand("spe", "what SPE of this cpu does, and has done", self._spe),
            "records": MonitorCommand(
                "records [N]", "the last N records, 10 if not said", self._last
            ),
            "irq": MonitorCommand("irq", "interrupts that are pending or active", self._irq),
            "translate": MonitorCommand(
                "translate VA [EL]",
                "the physical address behind a virtual one, also of another Exception level",
                self._translate,
            ),
            "why-no-samples": MonitorCommand(
                "why-no-samples", "why a cpu has no records", self._no_samples
            ),
            "reset": MonitorCommand(
                "reset", "start the machine from what was loaded; time goes on", self._reset, True
            ),
            "break-sysreg": MonitorCommand(
                "break-sysreg NAME r|w|rw|off",
                "stop after an access to a System register",
                self._break_sysreg,
            ),
            "break-event": MonitorCommand(
                f"break-event {'|'.join(EVENTS)} [off]",
                "stop after an event",
                self._break_event,
            ),
        }
        """By name. Whoever brings another command adds it."""

    def command(self, pe: ProcessingElement, text: str) -> bytes:
        """Do a command and answer its packet. The text of the answer goes to ``say``."""
        words = text.split()
        name, arguments = (words[0], words[1:]) if words else ("help", [])
        known = self.commands.get(name)
        try:
            if known is None:
                raise MonitorError(f"there is no `{name}`; `monitor help` names what there is")
            said = known.run(pe, arguments)
            if known.writes and arguments[:1] != ["save"]:
                self._changed()
        except (MonitorError, EventError) as error:
            said = f"{error}"
        if said:
            self._say(said + "\n")
        return b"OK"

    def usage(self, name: str) -> MonitorError:
        """The error that a command is not written so."""
        return MonitorError(f"it is written: monitor {self.commands[name].usage}")

    def _help(self, _pe: ProcessingElement, _words: Sequence[str]) -> str:
        width = max(len(command.usage) for command in self.commands.values())
        return "\n".join(f"{c.usage:{width}}  {c.help}" for c in self.commands.values())

    def _regs(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if len(words) > 1:
            raise self.usage("regs")
        system = SystemRegisters(pe)
        asked = words[0].lower() if words else None
        lines = [
            repr(register(system.raw(register)))
            for register in system
            if asked is None or asked in (group_of(register), register.__name__.lower())
        ]
        if not lines:
            raise MonitorError(f"this core has no register and no group `{words[0]}`")
        return "\n".join(lines)

    def _set(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if len(words) != 2:
            raise self.usage("set")
        name, _, field = words[0].partition(".")
        system = SystemRegisters(pe)
        if any(r.read_only and r.__name__ == name.upper() for r in system):
            raise MonitorError(f"{name.upper()} is read-only")
        registers = Registers(system)
        try:
            value = int(words[1], 0)
            register = getattr(registers, name.upper())
            setattr(register, field, value) if field else setattr(registers, name.upper(), value)
        except (AttributeError, LookupError, ValueError) as error:
            raise MonitorError(f"{words[0]}: {error}") from error
        return f"{register!r}. {FLUSH}"

    def _spe(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if words:
            raise self.usage("spe")
        unit = pe.unit
        counts = unit.statistics
        if not isinstance(unit, StatisticalProfilingUnit):
            return f"cpu {pe.number} has no SPE of its own: this run samples from outside"
        lines = [
            f"cpu {pe.number}: profiling is {'enabled' if unit.enabled else 'disabled'}"
            f" at EL{pe.cpu.el}, PMBIRQ is {int(pe.pmbirq.level)}",
            f"{counts.population} operations of the population, {counts.selected} selected,"
            f" {counts.collisions} collisions, {counts.filtered} filtered,"
            f" {counts.discarded} discarded, {counts.lost} lost,"
            f" {counts.written} records of {counts.bytes} bytes",
        ]
        events = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.management_events.items()))
        lines.append(f"management events: {events or 'none'}")
        return "\n".join([*lines, self._regs(pe, ["spe"])])

    def _last(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if len(words) > 1 or (words and not words[0].strip("0").isdecimal()):
            raise self.usage("records")
        number = min(int(words[0][:9]) if words else 10, _MOST_RECORDS)
        found = self._records.last(pe.number, number)
        if not found:
            return f"cpu {pe.number} has no records"
        lines = []
        for record in found:
            where = None if record.pc is None else canonical_address(record.pc.value)
            shown = "" if where is None else f"{place(self._board, where)}: "
            lines.append(f"{shown}{record_line(record)}")
        return "\n".join(lines)

    def _irq(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if words:
            raise self.usage("irq")
        inputs = pe.interrupts
        levels = (
            ("IRQ", inputs.irq.level),
            ("FIQ", inputs.fiq.level),
            ("virtual IRQ", inputs.virq.level),
            ("virtual FIQ", inputs.vfiq.level),
            ("SPE profiling exception", inputs.profiling.level),
            ("SError", inputs.s.serror),
        )
        asserted = ", ".join(name for name, level in levels if level)
        lines = [f"cpu {pe.number}: {asserted or 'nothing'} asserted"]
        routing = self._board.peripherals.gic.routing
        for title, bank in (("private", routing.private[pe.number]), ("shared", routing.shared)):
            for what, bits in (
                ("pending and enabled", bank.pending & bank.s.enabled),
                ("pending, not enabled", bank.pending & ~bank.s.enabled),
                ("active", bank.s.active),
            ):
                if bits:
                    numbers = [bank.first + n for n in range(bank.count) if bits >> n & 1]
                    lines.append(f"{title} {what}: INTID {', '.join(map(str, numbers))}")
        return "\n".join(lines)

    def _translate(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if not 1 <= len(words) <= 2:
            raise self.usage("translate")
        try:
            address = int(words[0], 0)
            el = int(words[1].lower().removeprefix("el")) if len(words) > 1 else None
        except ValueError:
            raise self.usage("translate") from None
        if not 0 <= address < 1 << 64 or el not in (None, 0, 1, 2, 3):
            raise self.usage("translate")
        level = pe.cpu.el if el is None else el
        found = translate(pe, address, el)
        if found is None:
            return f"{address:#x} is not mapped for cpu {pe.number} at EL{level}"
        return f"{address:#x} is physical address {found[0]:#x} ({found[1].name}) at EL{level}"

    def _no_samples(self, _pe: ProcessingElement, words: Sequence[str]) -> str:
        if words:
            raise self.usage("why-no-samples")
        return "\n".join(
            f"cpu {n}: {why or 'it has records, or its guest wants none'}"
            for n, why in enumerate(self._why())
        )

    def _reset(self, _pe: ProcessingElement, words: Sequence[str]) -> str:
        if words:
            raise self.usage("reset")
        self._board.begin_again()
        return f"the machine was reset. {FLUSH}"

    def _break_sysreg(self, _pe: ProcessingElement, words: Sequence[str]) -> str:
        if len(words) != 2 or words[1] not in ("r", "w", "rw", "off"):
            raise self.usage("break-sysreg")
        name, how = words
        if how == "off":
            return self._events.forget_register(name)
        return self._events.break_at_register(name, read="r" in how, write="w" in how)

    def _break_event(self, _pe: ProcessingElement, words: Sequence[str]) -> str:
        if not 1 <= len(words) <= 2 or words[0] not in EVENTS or words[1:] not in ([], ["off"]):
            raise self.usage("break-event")
        return self._events.break_at(words[0], on=len(words) == 1)
