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
from typing import Final

from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.pe.maintenance import hear, maintained
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.signals import Signal

TURN: Final = 1 << 14
"""Operations of a turn while another PE has something to do."""
_LONG_TURN: Final = 1 << 24
"""Operations of a turn while none has; it ends when that changes. The first ones are shorter."""
_SLICE_SECONDS: Final = 0.03
"""Seconds of the host between two looks at the user and the clock."""


class Schedule:
    """Runs the PEs of one machine.

    ``rtc_due`` is when its clock drives a line, None for never. ``wait`` waits for what comes from
    outside, where nothing else can wake a PE; False if nothing will.
    """

    def __init__(
        self,
        pes: Sequence[ProcessingElement],
        rtc_due: Callable[[], int | None],
        wait: Callable[[], bool] = lambda: False,
    ) -> None:
        self.pes = tuple(pes)
        self.running = self.pes[0]
        """The PE whose turn it is, or was last."""
        self.slice_ended: Signal[[]] = Signal()
        """Told between turns, every few hundredths of a second."""
        self._rtc_due = rtc_due
        self._wait = wait
        self._time = 0
        self._last = -1
        self._left = 0
        self._length = TURN
        self._alone = False
        """Whether no other PE had anything to do when the turn began."""
        self._stopping = False
        self._looked = 0.0
        for pe in self.pes:
            pe.alone = False
            pe.interrupts.became_pending.connect(self.changed)

    def stop(self) -> None:
        """End the run soon; from anywhere, at any time."""
        self._stopping = True
        self.running.runner.stopping = True

    def restarted(self) -> None:
        """The machine was reset: it begins with the first PE's turn."""
        self.running = self.pes[0]
        self._last = -1
        self._left = 0

    def changed(self) -> None:
        """Another PE than the running one may have something to do now."""
        running = self.running
        others = (pe for pe in self.pes if pe is not running)
        if self._alone and running.handler.ending is None and any(pe.runnable for pe in others):
            running.handler.ending = Ending.TURN

    def run(self, operations: int | None, until: int = NEVER) -> Ending:
        """Run all PEs, at most ``operations`` of them together, and not the one at ``until``."""
        left = operations
        while True:
            self._look()
            if self._stopping:
                return self._stopped()
            if left == 0:
                return Ending.LIMIT
            self._wake_sleepers()
            if not self._choose():
                if not self._skip():
                    return Ending.ASLEEP
                continue
            done, ending = self._run(left, until)
            if left is not None:
                left -= done
            if ending is Ending.INTERRUPTED:
                return self._stopped()
            if ending not in (Ending.LIMIT, Ending.ASLEEP, Ending.TURN):
                return ending

    def _stopped(self) -> Ending:
        self._stopping = False
        for pe in self.pes:
            pe.runner.stopping = False
        return Ending.INTERRUPTED

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked > _SLICE_SECONDS:
            self._looked = now
            self.slice_ended()

    def _choose(self) -> bool:
        """Go on with the turn, or begin that of the next PE; False if there is none."""
        if self._left and self.running.runnable and not self.running.waits:
            return True
        count = len(self.pes)
        first = self._last + 1
        able = [pe for n in range(count) if (pe := self.pes[(first + n) % count]).runnable]
        awake = [pe for pe in able if not pe.waits]
        if not awake:
            return False
        again = awake[0] is self.running and self._alone
        self._alone = len(able) == 1
        self._length = min(2 * self._length, _LONG_TURN) if self._alone and again else TURN
        self._left = self._length
        self.running = awake[0]
        self._last = self.running.number
        self.running.asleep = self.running.dozing = False
        for pe in able:
            if pe.dozing:
                pe.patience -= 1
                pe.dozing = pe.patience > 0
        self.running.move_to(self._time)
        return True

    def _run(self, left: int | None, until: int) -> tuple[int, Ending]:
        """Run the PE whose turn it is, up to what happens first; how many operations, and why."""
        pe = self.running
        cpu = pe.cpu
        bounds = [self._left]
        if left is not None:
            bounds.append(left)
        due = self._next_sleeper()
        if due is not None:
            bounds.append(due - self._time)
        before = cpu.executed
        ending = pe.run(min(bounds), until)
        done = cpu.executed - before
        self._time = cpu.cycles
        self._left -= done
        if ending is Ending.ASLEEP:
            pe.asleep = pe.on
        if ending in (Ending.ASLEEP, Ending.TURN):
            self._left = 0
        elif not self._left:
            pe.turn_over()
        self._spread_maintenance(pe)
        return done, ending

    def _spread_maintenance(self, pe: ProcessingElement) -> None:
        """Let the others hear of TLB and instruction cache maintenance before they run again."""
        maintenance = maintained(pe.cpu)
        if maintenance is not None:
            for other in self.pes:
                if other is not pe:
                    hear(other.cpu, maintenance)

    # Those who wait

    def _sleepers(self) -> list[ProcessingElement]:
        return [pe for pe in self.pes if pe.waits]

    def _next_sleeper(self) -> int | None:
        """The time at which a timer of a PE that waits goes off, None for never."""
        times = [pe.due for pe in self._sleepers()]
        return min((due for due in times if due is not None), default=None)

    def _wake_sleepers(self) -> None:
        """Let timers go off whose time has come while another PE ran."""
        for pe in self._sleepers():
            due = pe.due
            if due is not None and due <= self._time:
                pe.move_to(self._time)
                if pe.runnable and self._alone:
                    self._left = 0

    def _skip(self) -> bool:
        """All wait: let time pass to the next thing that happens; False if nothing ever will.

        A WFE that nothing ends is over after the time of a turn.
        """
        dozing = [pe for pe in self.pes if pe.on and pe.dozing]
        events = {pe: pe.event_due or self._time + TURN for pe in dozing}
        times = [self._next_sleeper(), self._rtc_due(), *events.values()]
        due = min((at for at in times if at is not None), default=None)
        if due is None:
            return self._wait()
        self._time = max(self._time, due)
        for pe in self.pes:
            pe.move_to(self._time)
        for pe, event in events.items():
            if event <= self._time:
                pe.dozing = False
        return True
