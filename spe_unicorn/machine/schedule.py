"""Several PEs on one host thread: they take turns, and time goes on from turn to turn.

A turn is a number of operations of one PE. Time is the machine's: a turn begins when the one
before it ended, so a PE that has seen a message sees no clock that is behind the sender's. While a
PE waits for its turn, time passes for it as for a thread of a multithreaded core that cannot issue.
Nothing here depends on the host: equal runs have equal turns.

A PE that waits in a loop around a WFE leaves its turns to others. WFE can be seen only at some cost
to all code (``host.run.blocks``), so it is looked for only in a PE that has been found near one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from spe_unicorn.host.engine.engine import NEVER, lib
from spe_unicorn.host.engine.surviving import surviving_aborts
from spe_unicorn.host.native.turns.take import LONG_TURN
from spe_unicorn.host.pe.maintenance import apply_maintenance, maintained
from spe_unicorn.host.ports import NEVER_HAPPENS, Ending
from spe_unicorn.machine.pe import SHORT_TURN, TURN, ProcessingElement
from spe_unicorn.machine.turns.relay import Midway, Relay
from spe_unicorn.plain import Count, Within
from spe_unicorn.signals import Signal
from spe_unicorn.stateful import Stateful, expect

_SLICE_SECONDS: Final = 0.03
"""Seconds of the host between two looks at the user and the clock."""
_FRUITLESS: Final = 1 << 6
"""So often all PEs wait with nothing due. From then on their WFEs do not wait."""


@dataclass(slots=True)
class ScheduleState:
    """What is saved of the turns."""

    running: Annotated[int, Within(0, 7)] = 0
    """The number of the PE whose turn it is, or was last."""
    time: Count = 0
    """Where the last turn ended, in cycles."""
    last: Annotated[int, Within(-1, 7)] = -1
    """The number of the PE that had the last turn, -1 for none."""
    left: Count = 0
    """Operations of the turn that are left."""
    length: Count = TURN
    """Operations of the turn as it began."""
    until_look: Count = TURN
    """The most operations of a turn before memory that a PE waits for is looked at again.

    SHORT_TURN once the number of PEs that wait so has changed, then twice as many for each turn.
    """
    awaiting: Annotated[int, Within(0, 8)] = 0
    """How many PEs waited for memory to change when it was last looked at."""
    fruitless: Count = 0
    """How often in a row all PEs waited, some in a WFE, and nothing was due, up to _FRUITLESS."""
    executed: Count = 0
    """Operations that all PEs had executed the last time."""
    alone: bool = False
    """Whether no other PE had anything to do when the turn began."""


class Schedule(Stateful[ScheduleState]):
    """Runs the PEs of one machine.

    ``devices_due`` is when one of its devices drives a line by itself, None for never. ``wait``
    waits for what comes from outside, where nothing else can wake a PE; False if nothing will.
    """

    TRANSIT = ("_stopping", "_looked", "_runs", "_over", "_time_moves")

    def __init__(
        self,
        pes: Sequence[ProcessingElement],
        devices_due: Callable[[], int | None],
        wait: Callable[[], bool] = lambda: False,
        turn: int = TURN,
    ) -> None:
        self.pes = tuple(pes)
        self._after = tuple(
            (*self.pes[number + 1 :], *self.pes[: number + 1]) for number in range(len(pes))
        )
        """For each PE, by its number, all PEs in the order of turns after its own; it comes last.

        -1, where no PE has had a turn, gives the row of the last PE, which begins with the first.
        """
        self.s = ScheduleState()
        self.slice_ended: Signal[[]] = Signal()
        """Told between turns, every few hundredths of a second."""
        self._devices_due = devices_due
        self._turn = turn
        self._relay = Relay(self.pes, turn)
        self._wait = wait
        self._stopping = False
        self._looked = 0.0
        self._runs = False
        """Whether a PE runs."""
        self._over = False
        """Whether the turn of the PE that runs ends with the operation that it executes."""
        self._time_moves = False
        """Whether PEs that wait are looked after, between two runs: interrupts end no turn then."""
        for pe in self.pes:
            pe.alone = False
            pe.interrupts.became_pending.wire(partial(self._interrupted, pe))

    def check(self, state: ScheduleState) -> None:
        """Raise StateError for PEs that there are not."""
        expect(max(state.running, state.last) < len(self.pes), "a PE's turn")

    @property
    def running(self) -> ProcessingElement:
        """The PE whose turn it is, or was last."""
        return self.pes[self.s.running]

    def stop(self) -> None:
        """End the run soon; from anywhere, at any time."""
        self._stopping = True
        self.running.runner.stopping = True

    def restarted(self) -> None:
        """The machine was reset: it begins with the first PE's turn."""
        self.s.running = 0
        self.s.last = -1
        self.s.left = 0

    def _interrupted(self, pe: ProcessingElement) -> None:
        """An interrupt of ``pe`` may be pending: where that ends its wait, it is its turn soon."""
        if pe is not self.running and (pe.s.asleep or pe.s.dozing):
            pe.wake()
            self._end_turn()
        else:
            self.changed()

    def changed(self) -> None:
        """Another PE than the running one may have something to do now."""
        if self.s.alone:
            running = self.running
            if any(pe.runnable for pe in self.pes if pe is not running):
                self._end_turn()

    def _end_turn(self) -> None:
        """The turn is over: with the operation that runs, or at once for what comes from outside.

        The operation may end the run as well, as where output has come that it was to go up to.
        """
        handler = self.running.handler
        if self._runs:
            self._over = True
            if handler.ending is None:
                handler.ending = Ending.TURN
        elif not self._time_moves:
            self.s.left = 0

    def run(self, operations: int | None, until: int = NEVER) -> Ending:
        """Run all PEs, at most ``operations`` of them together, and not the one at ``until``."""
        with surviving_aborts(lib.uc_emu_start):  # once, not for each turn
            return self._run_turns(operations, until)

    def _run_turns(self, operations: int | None, until: int) -> Ending:
        left = operations
        while True:
            self._end_slice()
            if self._stopping:
                return self._stopped()
            if left == 0:
                return Ending.LIMIT
            midway = None
            if until == NEVER:
                _, passed, midway = self._relay.take(self.s, left, self._devices_due)
                if left is not None:
                    left -= passed
            if midway is None:
                if left == 0:
                    continue
                self._time_moves = True
                self._wake_sleepers()
                chosen = self._choose()
                self._time_moves = False
                if not chosen:
                    if not self._skip():
                        return Ending.ASLEEP
                    continue
            done, ending = self._run(left, until, midway)
            if left is not None:
                left -= done
            if ending is Ending.INTERRUPTED:
                return self._stopped()
            if self.running.runner.stops.stopped is not None:
                return Ending.STOPPED
            if ending not in (Ending.LIMIT, Ending.ASLEEP, Ending.TURN):
                return ending

    def stop_no_more(self) -> None:
        """Forget a :meth:`stop` that no run has come to."""
        self._stopping = False

    def _stopped(self) -> Ending:
        self._stopping = False
        for pe in self.pes:
            pe.runner.stopping = False
        return Ending.INTERRUPTED

    def _end_slice(self) -> None:
        now = time.monotonic()
        if now - self._looked > _SLICE_SECONDS:
            self._looked = now
            self.slice_ended()

    def _choose(self) -> bool:
        """Go on with the turn, or begin that of the next PE; False if there is none."""
        s = self.s
        if s.left and self.running.runnable and not self.running.waits:
            return True
        self._wake_for_memory()
        able = [pe for pe in self._after[s.last] if pe.runnable]
        for chosen in able:
            if not chosen.waits:
                break
        else:
            return False
        again = s.alone and chosen is self.running
        s.alone = len(able) == 1
        if s.alone:
            s.length = min(2 * s.length, LONG_TURN) if again else self._turn
        else:
            s.length = min(self._turn, chosen.s.turn, s.until_look)
        s.left = s.length
        s.running = s.last = chosen.number
        chosen.wake()
        for pe in able:
            if pe.s.dozing:
                pe.s.patience -= 1
                if not pe.s.patience:
                    pe.wake()
        chosen.move_to(s.time)
        return True

    def _wake_for_memory(self) -> None:
        """Wake the PEs that wait for memory which has changed.

        While any PE waits so, turns are short at first, so that it soon goes on. They get longer as
        long as the number of PEs that wait stays the same.
        """
        waiting = [pe for pe in self.pes if pe.s.awaits]
        for pe in waiting:
            if not pe.sees_nothing_new:
                pe.wake()
        self.s.until_look = min(2 * self.s.until_look, TURN)
        if len(waiting) != self.s.awaiting:
            self.s.awaiting = len(waiting)
            self.s.until_look = SHORT_TURN if waiting else TURN

    def _run(self, left: int | None, until: int, midway: Midway | None) -> tuple[int, Ending]:
        """Run the PE whose turn it is, up to what happens first; how many operations, and why.

        Go on with the turn that compiled code has begun, if it has begun one.
        """
        s, pe = self.s, self.running
        cpu = pe.cpu
        self._runs, self._over = True, False
        try:
            if midway is None:
                before = cpu.executed
                ending = self._begin(pe, left, until)
            else:
                before = midway.began
                ending = pe.resume(*midway)
        finally:
            self._runs = False
        done = cpu.executed - before
        s.time = cpu.cycles
        s.left -= done
        if ending is Ending.ASLEEP:
            pe.s.asleep = pe.s.on
        if self._over or ending in (Ending.ASLEEP, Ending.TURN):
            s.left = 0
        elif not s.left:
            pe.turn_over()
        if not s.left:
            pe.s.restless = False
        self._spread_maintenance(pe)
        return done, ending

    def _begin(self, pe: ProcessingElement, left: int | None, until: int) -> Ending:
        s = self.s
        most = min(s.left, self._next_sleeper() - s.time)
        if left is not None and left < most:
            most = left
        for other in self.pes:
            other.cpu.state.waits = s.alone or other.s.asleep or other.s.dozing
        return pe.run(most, until)

    def _spread_maintenance(self, pe: ProcessingElement) -> None:
        """Let the others hear of TLB and instruction cache maintenance before they run again."""
        maintenance = maintained(pe.cpu)
        if maintenance is not None:
            for other in self.pes:
                if other is not pe:
                    apply_maintenance(other.cpu, maintenance)
                    if other.s.polls:
                        other.wake()  # it may look at other memory now

    # Those who wait

    def passes(self, pe: ProcessingElement) -> int | None:
        """How many cycles pass for ``pe``, whose turn it is and which repeats an exception.

        A turn while others execute something; if none does, up to what happens next. None if
        nothing will ever happen.
        """
        others = [other for other in self.pes if other is not pe and other.s.on]
        if any(other.s.dozing or not (other.waits or other.spins) for other in others):
            return self._turn
        devices = self._devices_due()
        times = [pe.due, *(other.due for other in others)]
        due = min(times if devices is None else (*times, devices))
        return None if due == NEVER_HAPPENS else max(1, due - pe.cpu.cycles)

    def _next_sleeper(self) -> int:
        """The time at which a timer of a PE that waits goes off, NEVER_HAPPENS for never."""
        due = NEVER_HAPPENS
        for pe in self.pes:
            if pe.due < due and pe.waits:
                due = pe.due
        return due

    def _wake_sleepers(self) -> None:
        """Let timers go off whose time has come while another PE ran."""
        for pe in [pe for pe in self.pes if pe.due <= self.s.time and pe.waits]:
            pe.move_to(self.s.time)
            if pe.runnable and self.s.alone:
                self.s.left = 0

    def _skip(self) -> bool:
        """All wait: let time pass to the next thing that happens; False if nothing ever will.

        A WFE that nothing ends is over after the time of a turn. Where there is nothing but such
        WFEs, and has been for long, the PEs have turns in which their WFEs do not wait.
        """
        dozing = [pe for pe in self.pes if pe.s.on and pe.s.dozing]
        streams = {pe: pe.event_due for pe in dozing}
        devices = self._devices_due()
        sleeper = self._next_sleeper()
        waiting = [pe for pe in dozing if not pe.s.polls]
        due_never = sleeper == NEVER_HAPPENS and devices is None and not any(streams.values())
        if waiting and due_never and self._is_fruitless():
            for pe in waiting:
                pe.wake()
                pe.s.restless = True
            return True
        if not due_never:
            self.s.fruitless = 0
        events = {pe: stream or self.s.time + TURN for pe, stream in streams.items()}
        times = [sleeper, *events.values()]
        due = min(times if devices is None else (*times, devices))
        if due == NEVER_HAPPENS:
            return self._wait()
        self.s.time = max(self.s.time, due)
        for pe in self.pes:
            pe.move_to(self.s.time)
        for pe, event in events.items():
            if event <= self.s.time:
                pe.wake()
        return True

    def _is_fruitless(self) -> bool:
        """Whether it has been so for long that nothing is due, and all PEs wait."""
        s = self.s
        executed = sum(pe.cpu.executed for pe in self.pes)
        most = LONG_TURN if s.fruitless == _FRUITLESS else SHORT_TURN
        if executed - s.executed > most * len(self.pes):
            s.fruitless = 0
        s.executed = executed
        s.fruitless = min(s.fruitless + 1, _FRUITLESS)
        return s.fruitless == _FRUITLESS
