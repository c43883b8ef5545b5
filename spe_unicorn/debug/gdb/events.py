"""Events that a debugger stops at: accesses to System registers, SPE's events, exceptions.

Each event stops the machine after the operation that caused it, on the PE where it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from spe_unicorn.arch.access.syndrome_text import entry_text
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord, ExceptionType
from spe_unicorn.debug.tracing.accesses import Access, AccessWatch, Registers
from spe_unicorn.debug.verdicts import fields
from spe_unicorn.host.native.state.actions import READ, WRITE
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit

EVENTS: Final = ("buffer-full", "collision", "irq", "exception")
"""The names of events."""
_INTERRUPTS: Final = frozenset({ExceptionType.IRQ, ExceptionType.FIQ})


class EventError(ValueError):
    """An unknown event or register; the message is one line."""


class EventBreaks:
    """The events of one board at which its PEs stop."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._ends: dict[str, list[Callable[[], None]]] = {}
        self.resting = False
        """Whether none of the events stops anything for now."""

    def break_at(self, event: str, *, on: bool) -> str:
        """Stop at one of :data:`EVENTS`, or no longer; a sentence about it."""
        self._forget(event)
        if not on:
            return f"{event} stops nothing"
        connect: Callable[[ProcessingElement], Callable[[], None] | None] = {
            "buffer-full": self._buffer_full,
            "collision": self._collision,
            "irq": self._interrupt,
            "exception": self._synchronous,
        }[event]
        ends = [end for pe in self._board.pes if (end := connect(pe)) is not None]
        if not ends:
            raise EventError(f"no cpu has SPE of its own, so there is no {event}")
        self._ends[event] = ends
        return f"a cpu stops at {event}"

    def break_at_register(self, name: str, *, read: bool, write: bool) -> str:
        """Stop after reads or writes of a System register by name; a sentence about it."""
        kinds = {kind for kind, asked in ((READ, read), (WRITE, write)) if asked}
        found = Registers(self._board.pes[0]).named(name)
        if found is None:
            raise EventError(f"there is no System register `{name}`")
        name, keys = found
        self._forget(name)
        system = {(kind, key) for kind in kinds for key in keys}
        self._ends[name] = [self._watch(pe, name, system) for pe in self._board.pes]
        how = " and ".join(word for word, asked in (("read", read), ("write", write)) if asked)
        return f"a cpu stops after each {how} of {name}"

    def _watch(
        self, pe: ProcessingElement, name: str, system: Collection[tuple[int, int]]
    ) -> Callable[[], None]:
        registers = Registers(pe)

        def on_access(access: Access) -> None:
            if not reaches(registers, access, name):
                return
            pc, did = access.pc, "read" if access.kind == READ else "written"
            if access.raised:
                self._stop(pe, f"{name} was not {did} at {pc:#x}: it raised an exception")
                return
            value = value_text(registers, access, pe.cpu.features)
            self._stop(pe, f"{name} was {did} at {pc:#x}: {value}")

        return pe.handler.controls.checks.observe(AccessWatch(pe, system, on_access))

    def forget_register(self, name: str) -> str:
        """Stop no longer at accesses to a register; a sentence about it."""
        for known in list(self._ends):
            if known.lower() == name.lower():
                self._forget(known)
                return f"{known} stops nothing"
        raise EventError(f"nothing stops at `{name}`")

    def clear(self) -> None:
        """Stop at no event any more."""
        for name in list(self._ends):
            self._forget(name)

    def _forget(self, name: str) -> None:
        for end in self._ends.pop(name, ()):
            end()

    # The events of one PE

    def _stop(self, pe: ProcessingElement, detail: str) -> None:
        if not self.resting:
            pe.runner.stops.stop(detail)

    def _buffer_full(self, pe: ProcessingElement) -> Callable[[], None] | None:
        if not isinstance(pe.unit, StatisticalProfilingUnit):
            return None

        def on_management(event: ManagementEvent, el: int) -> None:
            if event.is_full:
                self._stop(
                    pe, f"the Profiling Buffer is full at {event.address:#x}, says PMBSR_EL{el}"
                )

        return pe.unit.managed.wire(on_management)

    def _collision(self, pe: ProcessingElement) -> Callable[[], None]:
        return pe.unit.collided.wire(
            lambda: self._stop(pe, "a sample was chosen while another was on its way")
        )

    def _interrupt(self, pe: ProcessingElement) -> Callable[[], None]:
        return self._exception(pe, interrupts=True)

    def _synchronous(self, pe: ProcessingElement) -> Callable[[], None]:
        return self._exception(pe, interrupts=False)

    def _exception(self, pe: ProcessingElement, *, interrupts: bool) -> Callable[[], None]:
        def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
            if (record.kind in _INTERRUPTS) is interrupts:
                self._stop(
                    pe, f"{entry_text(record, entry)} from {entry.elr:#x} to EL{entry.target_el}"
                )

        return pe.cpu.exception_taken.wire(on_exception)


def reaches(registers: Registers, access: Access, name: str) -> bool:
    """Whether an access was one of this register: an alias may have reached another one."""
    register = registers.reached(access.key)
    return register is None or register.__name__ == name


def value_text(registers: Registers, access: Access, features: object) -> str:
    """What an access read, or what the register holds after it, with the register's fields."""
    register, held = registers.reached(access.key), registers.held(access.key)
    value = access.value if access.kind == READ or held is None else held
    return f"{value:#x}{'' if register is None else fields(register, value, features)}"
