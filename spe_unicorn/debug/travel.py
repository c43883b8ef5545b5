"""Back in time: snapshots taken as a machine runs, and exact replay from them.

A position is a number of operations of all PEs together since reset. :attr:`Travel.end` is the
farthest position that the machine has come to. Before that position a run is a replay: input from
outside comes from a log, nothing is printed or recorded a second time, and no host file is touched.
After it the machine runs as any other.

Somebody outside may write registers or memory at any place (:meth:`Travel.changed`). The write is
then part of the history: it stands at its place as a snapshot taken after it, and whoever comes
there by a replay goes on from that snapshot.

>>> travel = Travel(machine.board)
>>> travel.run(1_000_000)
>>> travel.back_to(999_000)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.calls.semihosting import Semihosting
from spe_unicorn.machine.inputs import InputLog
from spe_unicorn.machine.snapshot.board_state import BoardSaver, BoardState
from spe_unicorn.machine.snapshot.pages import NO_PAGES, PAGE
from spe_unicorn.parts import signals_of

HISTORY: Final = 256 << 20
"""Bytes of the host that the past takes by default."""
_FIRST_SPACING: Final = 1 << 21
"""Operations between two snapshots at first; the distance doubles when there are many."""
_FOR_A_PAGE: Final = 1 << 8
"""The least distance of snapshots for each page of memory in use: saving reads all pages."""
_MOST: Final = 64
"""The most snapshots at a time."""
_LATEST: Final = 8
"""So many of the latest snapshots are kept when others are forgotten."""
_STATE: Final = 64 << 10
"""Bytes of the host that a snapshot takes beside its pages, about."""
_FOR_INPUTS: Final = 8
"""Inputs between two snapshots may take one in so many bytes of the past."""
_REASONS: Final = 2
"""So often a PE may stop at one place: at a breakpoint, and in front of a watched access."""
_KEPT_ALWAYS: Final = "slice_ended"
"""The signal by which the user and the clock are heard: it is not muted in a replay."""

_GOES_ON_CHANGED: Final = frozenset({Ending.ASLEEP, Ending.FAILED})
"""Endings after which somebody outside may have written what lets the machine go on."""
_STOPS: Final = frozenset({Ending.STOPPED, Ending.UNTIL})
"""Endings of a run that a debugger has stopped."""

Run = Callable[[int | None, bool], Ending]
"""Runs the board for at most so many operations; a debugger's stops end the run sooner.

The second argument is True if this call continues a run that a limit of ours has ended. A stop at
the place where the machine stands then ends the run at once. Otherwise the machine first leaves
that place.
"""


class PastError(LookupError):
    """A position before all that is kept. GDB is told ``replaylog:begin``."""


class InterruptedTravelError(Exception):
    """The run was ended while the machine went back: it stands somewhere on the way."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A snapshot: its position, and how much had come from outside by then.

    ``written``: somebody outside wrote at this place, so that no replay leads to this state.
    """

    at: int
    state: BoardState
    inputs: int
    written: bool = False


class Travel:
    """The past of one board, which takes at most ``history`` bytes of the host.

    From now on run the board by :meth:`run` alone. Raises NotAtRestError within a run.
    """

    def __init__(self, board: Board, history: int = HISTORY) -> None:
        self._board = board
        self._history = history
        self._saver = BoardSaver(board)
        self._live = [p for p, part in self._saver.parts.items() if isinstance(part, Semihosting)]
        """Paths of parts that no snapshot restores: host files stay as they are at the end."""
        self._overfull = False
        """Whether the last operation had more input than the log may hold between two snapshots."""
        self._log = self._empty_log()
        self._moments: list[_Moment] = []
        self._spacing = _FIRST_SPACING
        self._muted = False
        self._signals = [
            signal for path, signal in signals_of(board).items() if not path.endswith(_KEPT_ALWAYS)
        ]
        self._saved_at: list[int] = []
        """Positions of all snapshots: saving forgets translations, and a replay does the same."""
        self._end = board.executed
        self._changed = False
        """Whether somebody outside wrote something that no snapshot holds yet."""
        self._stands = board.executed
        """Where the machine stood after its last move."""
        self._save()

    @property
    def position(self) -> int:
        """Where the machine stands."""
        return self._board.executed

    @property
    def begin(self) -> int:
        """The first position that can be gone back to."""
        return self.position if self.forgets_past else self._moments[0].at

    @property
    def end(self) -> int:
        """The farthest position that the machine has come to, and can come to again."""
        return self.position if self._changed else self._end

    @property
    def replaying(self) -> bool:
        """Whether the next operation has been executed before."""
        return self.position < self.end

    @property
    def size(self) -> int:
        """Bytes of the host that the past takes, about."""
        pages = {id(page) for m in self._moments for page in m.state.memory.pages.values()}
        return len(pages) * PAGE + len(self._moments) * _STATE + self._log.size

    @property
    def writes(self) -> list[int]:
        """The positions at which somebody outside wrote, as far as they are kept."""
        return [moment.at for moment in self._moments if moment.written]

    def close(self) -> None:
        """Go to the end, and forget the past; the board can be run without this object again."""
        self._keep_changes()
        self._go_to_end()
        self._board.inputs.log = None
        self._moments.clear()

    def changed(self) -> None:
        """Registers or memory were written from outside; the next move of the machine keeps that.

        The write becomes a part of the history. What had come after this place does not follow from
        it, and is forgotten. If the machine was taken to another moment as a whole, the past begins
        anew there.
        """
        self._changed = True

    @property
    def forgets_past(self) -> bool:
        """Whether the next move forgets all that came before: another moment was loaded."""
        return self._changed and self.position != self._stands

    @property
    def forgets_up_to(self) -> int | None:
        """The position up to which the next move forgets what had come after this place.

        None where it forgets nothing, or also what came before.
        """
        forgets = self._changed and not self.forgets_past and self.position < self._end
        return self._end if forgets else None

    def _keep_changes(self) -> None:
        """Make what was written from outside a part of the history, before the machine moves."""
        if not self._changed:
            return
        here = self.position
        self._mute(muted=False)
        if self.forgets_past:
            self._log = self._empty_log()
            self._moments.clear()
            self._saved_at.clear()
        self._changed = False
        self._log.cut()
        del self._saved_at[bisect_left(self._saved_at, here) :]
        while self._moments and self._moments[-1].at >= here:
            self._moments.pop()
        self._end = here
        self._save(written=bool(self._moments))

    def _came_to_change(self, before: int) -> bool:
        """In a replay from ``before`` on: take over what somebody outside wrote at this place."""
        if self.position == before:
            return False
        moment = self._moments[self._before(self.position)]
        if not moment.written or moment.at != self.position:
            return False
        self._restore(moment)
        return True

    # Forwards

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run as :meth:`Board.run` does, from wherever the machine stands."""
        goal = None if operations is None else self.position + operations
        return self.forwards(self.up_to(until), goal)

    def up_to(self, until: int) -> Run:
        """Runs the board up to a virtual address."""

        def run(left: int | None, goes_on: bool) -> Ending:
            if goes_on and self._board.running.cpu.pc == until:
                return Ending.UNTIL
            return self._board.run(left, until)

        return run

    def forwards(self, run: Run, goal: int | None = None) -> Ending:
        """Have ``run`` run the board in pieces up to the position ``goal``, None for no limit.

        Snapshots and inputs are kept on the way.
        """
        self._keep_changes()
        goes_on = False
        while True:
            self._enter()
            self._overfull = False
            before = self.position
            ending = run(self._piece(goal), goes_on)
            goes_on = True
            self._end = max(self._end, self.position)
            self._board.outside.replay()
            self._forget_again()
            if self._came_to_change(before) and ending in _GOES_ON_CHANGED:
                ending = Ending.LIMIT
            if ending is Ending.UNTIL and self._overfull:
                self._enter()
                self._save()
                if not self._stopped():
                    continue
                ending = Ending.STOPPED
            if ending is not Ending.LIMIT or (goal is not None and self.position >= goal):
                self._enter()
                return ending
            if not self.replaying and self.position >= self._moments[-1].at + self._distance():
                self._enter()
                self._save()

    def _forget_again(self) -> None:
        """In a replay: forget translations where a snapshot was taken, as saving did."""
        if self.replaying:
            number = bisect_left(self._saved_at, self.position)
            if self._saved_at[number : number + 1] == [self.position]:
                self._saver.forget_microarchitecture()

    def _piece(self, goal: int | None) -> int:
        """How many operations there are to the next position at which a piece ends."""
        here = self.position
        places = [self._moments[-1].at + self._distance()]
        if self.replaying:
            due = self._log.due()
            places = [self.end if due is None else min(due, self.end)]
            number = bisect_right(self._saved_at, here)
            places += self._saved_at[number : number + 1]
        if goal is not None:
            places.append(goal)
        return max(min(places) - here, 0)

    def _distance(self) -> int:
        pages = len(self._moments[-1].state.memory.pages)
        return max(self._spacing, pages * _FOR_A_PAGE)

    def _enter(self) -> None:
        """Mute observers in a replay, and let them hear again at its end."""
        self._stands = self.position
        self._log.replaying = self.replaying
        self._mute(muted=self.replaying)

    def _mute(self, *, muted: bool) -> None:
        if muted == self._muted:
            return
        self._muted = muted
        for signal in self._signals:
            signal.mute(muted)
        for pe in self._board.pes:
            pe.runner.mute(muted)

    # The past

    def _empty_log(self) -> InputLog:
        log = InputLog(self._history // _FOR_INPUTS, self._end_piece)
        self._board.inputs.log = log
        return log

    def _end_piece(self) -> None:
        """End the piece after the operation that runs, unless it ends anyway."""
        if self._board.running.handler.ending is None:
            self._overfull = True
            self._board.reached()

    def _stopped(self) -> bool:
        return any(pe.runner.stops.stopped is not None for pe in self._board.pes)

    def _save(self, *, written: bool = False) -> None:
        earlier = self._moments[-1].state.memory if self._moments else NO_PAGES
        state = self._saver.save(earlier, self._live)
        self._log.begin_at_snapshot()
        self._saved_at.append(self.position)
        self._moments.append(_Moment(self.position, state, self._log.cursor, written))
        if sum(not moment.written for moment in self._moments) > _MOST:
            self._thin_out()
            self._spacing *= 2
        if self.size > self._history:
            self._thin_out()
        while self.size > self._history and len(self._moments) > 1:
            del self._moments[0]
            self._log.forget(self._moments[0].inputs)

    def _thin_out(self) -> None:
        """Forget every other snapshot; the first, the latest and what was written are kept."""
        old, latest = self._moments[:-_LATEST], self._moments[-_LATEST:]
        forgotten = {moment.at for moment in [m for m in old if not m.written][1::2]}
        self._moments = [m for m in old if m.written or m.at not in forgotten] + latest

    def _restore(self, moment: _Moment) -> None:
        self._saver.restore(moment.state, self._live)
        self._log.cursor = moment.inputs
        self._enter()

    def _before(self, position: int) -> int:
        """The number of the latest snapshot at or before a position. Raises PastError."""
        for number in range(len(self._moments) - 1, -1, -1):
            if self._moments[number].at <= position:
                return number
        raise PastError(f"nothing is kept from before operation {self.begin}")

    # Backwards

    def back_to(self, position: int) -> None:
        """Have the machine stand where it stood after so many operations.

        Raises PastError for a place before :attr:`begin`, ValueError for one after :attr:`end`, and
        InterruptedTravelError where the run is ended on the way (``Board.stop``).
        """
        if self._went_to(position) is Ending.INTERRUPTED:
            raise InterruptedTravelError

    def _went_to(self, position: int) -> Ending:
        """Go to a place of the past, unless the run is ended on the way: INTERRUPTED then."""
        self._keep_changes()
        if position > self.end:
            raise ValueError(f"operation {position} has not come yet: {self.end} is the last")
        for pe in self._board.pes:
            pe.runner.stops.resume(())  # no breakpoint and no event ends this run
        moment = self._moments[self._before(position)]
        if not moment.at <= self.position <= position:
            self._restore(moment)
        while self.position < position:
            before = self.position
            if self.forwards(self.up_to(NEVER), position) is Ending.INTERRUPTED:
                return Ending.INTERRUPTED
            if self.position == before:
                raise RuntimeError(f"the replay stands still at operation {before}")
        return Ending.LIMIT

    def _go_to_end(self) -> None:
        while self.replaying:  # also if the run is ended on the way
            self._went_to(self.end)
        self._enter()

    def step_back(self, number: int | None = None) -> None:
        """Undo the last operation of a PE, by default of the one whose turn it is.

        What other PEs have done since is undone with it. Raises PastError where there is none that
        could be undone; the machine then stands at the beginning of what is kept. Raises
        InterruptedTravelError as :meth:`back_to`.
        """
        self._keep_changes()
        pe = self._board.running if number is None else self._board.pes[number]
        count = pe.cpu.executed
        low, high = self.begin, self.position - 1
        with self._or_begin():
            if count == 0 or high < low:
                raise PastError("nothing is kept from before")
            self.back_to(high)
            if pe.cpu.executed != count - 1:
                # other PEs executed the last operations: find the last position with one less
                while low < high:
                    middle = (low + high + 1) // 2
                    self.back_to(middle)
                    low, high = (middle, high) if pe.cpu.executed < count else (low, middle - 1)
                self.back_to(low)
                if pe.cpu.executed != count - 1:
                    raise PastError("nothing is kept from before")

    def back_to_stop(self, run: Run, *, here: bool = False) -> None:
        """Go back to the last place before this one where ``run`` is stopped.

        With ``here`` a stop at this place counts too, if the last operation caused it.

        ``run`` runs the board up to a limit, and ends by STOPPED or UNTIL where a debugger stops
        it: at a breakpoint, or in front of a watched access. It is called once more at each stop,
        and has to go on from there. Raises PastError where there is none; the machine then stands
        at the beginning of what is kept. Raises InterruptedTravelError where ``run`` ends by
        INTERRUPTED.
        """
        self._keep_changes()
        end = self.position
        last = end + here
        with self._or_begin():
            number = self._before(end - 1)
            while True:
                self._restore(self._moments[number])
                found = self._last_stop(run, end, last - 1)
                if found is not None:
                    self.back_to(found)
                    return
                if not number:
                    raise PastError("no breakpoint was come to since the beginning of what is kept")
                # a stop at the position of that snapshot is found from the snapshot before it
                last = self._moments[number].at + 1
                end = min(end, last)
                number -= 1

    def _last_stop(self, run: Run, end: int, last: int) -> int | None:
        """The last position up to ``last`` at which ``run``, which goes up to ``end``, stops."""
        found = None
        stuck = 0
        while self.position < end:
            before = self.position
            ending = self.forwards(run, end)
            if ending is Ending.INTERRUPTED:
                raise InterruptedTravelError
            if ending in _STOPS and self.position <= last:
                found = self.position
            stuck = stuck + 1 if self.position == before else 0
            if stuck > _REASONS * len(self._board.pes):
                break  # every PE stops where it stands, so no operation is executed any more
        return found

    @contextmanager
    def _or_begin(self) -> Iterator[None]:
        try:
            yield
        except PastError:
            self.back_to(self.begin)
            raise
