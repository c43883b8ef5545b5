"""GDB's ``monitor who REG``: goes back to the last write of a System register.

The search is an exact replay of the past, in which only the writes of that register stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spe_unicorn.debug.gdb.backwards import Backwards
from spe_unicorn.debug.gdb.breakpoints import Breakpoints
from spe_unicorn.debug.gdb.events import EventBreaks, reaches, value_text
from spe_unicorn.debug.gdb.monitor import FLUSH, Monitor, MonitorCommand, MonitorError
from spe_unicorn.debug.places import place
from spe_unicorn.debug.tracing.accesses import Access, AccessWatch, Registers
from spe_unicorn.debug.travel import InterruptedTravelError, PastError, Travel
from spe_unicorn.host.native.state.actions import WRITE
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement


class Who:
    """Adds ``who REG`` to a monitor's commands.

    ``travel`` gives the past, None where none is kept. ``leaving`` is called before the machine
    moves, and ``arrived`` after it.
    """

    def __init__(
        self,
        board: Board,
        monitor: Monitor,
        events: EventBreaks,
        travel: Callable[[], Travel | None],
        leaving: Callable[[], None],
        arrived: Callable[[], None],
    ) -> None:
        self._board = board
        self._monitor = monitor
        self._events = events
        self._travel = travel
        self._leaving = leaving
        self._arrived = arrived
        monitor.commands["who"] = MonitorCommand(
            "who REG", "go back to the last write of a System register", self._do
        )

    def _do(self, pe: ProcessingElement, words: Sequence[str]) -> str:
        if len(words) != 1:
            raise self._monitor.usage("who")
        found = Registers(pe).named(words[0])
        if found is None:
            raise MonitorError(f"there is no System register `{words[0]}`")
        travel = self._travel()
        if travel is None:
            raise MonitorError("nothing of the past is kept from before here")
        self._leaving()
        ends = pe.handler.controls.checks.observe(self._watch(pe, *found))
        self._events.resting = True
        try:
            return self._go(pe, found[0], travel)
        except InterruptedTravelError:
            raise MonitorError(f"interrupted at operation {travel.position}. {FLUSH}") from None
        finally:
            self._events.resting = False
            ends()
            self._arrived()

    def _watch(self, pe: ProcessingElement, name: str, keys: frozenset[int]) -> AccessWatch:
        """Stops the PE after each write of the register."""
        registers = Registers(pe)

        def on_access(access: Access) -> None:
            if reaches(registers, access, name) and not access.raised:
                where = place(self._board, access.pc)
                value = value_text(registers, access, pe.cpu.features)
                pe.runner.stops.stop(f"wrote {name} at {where} EL{access.el}: {value}")

        return AccessWatch(pe, {(WRITE, key) for key in keys}, on_access)

    def _go(self, pe: ProcessingElement, name: str, travel: Travel) -> str:
        """Go to the operation of the last write; sentences about it."""
        start = travel.position
        try:
            back = Backwards(self._board, Breakpoints(), travel)
            _, stopped = back.to_last_stop(here=True)
        except PastError:
            begin = travel.begin
            travel.back_to(start)
            said = f"no instruction of cpu {pe.number} wrote {name} since operation {begin}"
            by_gdb = _by_gdb(travel, begin, start)
            return "\n".join([f"{said}: the machine stands where it stood", *by_gdb])
        after = travel.position
        travel.back_to(after - 1)
        said = f"operation {after - 1}: cpu {pe.number} {stopped.detail}"
        by_gdb = _by_gdb(travel, after, start)
        return "\n".join([said, *by_gdb, f"the machine stands before that operation. {FLUSH}"])


def _by_gdb(travel: Travel, first: int, last: int) -> list[str]:
    """A sentence about what GDB itself wrote at the positions from ``first`` to ``last``."""
    writes = [f"{at}" for at in travel.writes if first <= at <= last]
    if not writes:
        return []
    return [f"GDB itself wrote registers or memory after that, at operation {', '.join(writes)}"]
