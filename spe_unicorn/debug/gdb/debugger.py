"""Runs a board as a debugger outside wants it: the loop between GDB and the machine.

While GDB holds the machine nothing of it moves. When GDB lets it go on, the board runs as it does
without a debugger, and stops where :mod:`spe_unicorn.host.run.debug_stops` has it stop. An error of
the connection ends the connection and never the run.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from spe_unicorn.debug.gdb.backwards import Backwards
from spe_unicorn.debug.gdb.breakpoints import Breakpoints
from spe_unicorn.debug.gdb.commands import Commands, Killed
from spe_unicorn.debug.gdb.connection import Connection, ConnectionLost, Listener
from spe_unicorn.debug.gdb.events import EventBreaks
from spe_unicorn.debug.gdb.monitor import Monitor
from spe_unicorn.debug.gdb.recent import RecentRecords
from spe_unicorn.debug.gdb.resume import DETACH, RUN_ON, Resume
from spe_unicorn.debug.travel import HISTORY, InterruptedTravelError, PastError, Travel
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.ports import DebugReason, Ending
from spe_unicorn.host.run.debug_stops import Stopped
from spe_unicorn.machine.board import Board

_PATIENCE: Final = 0.05
"""Seconds between two looks at whether the run is to end while GDB holds the machine."""
_LOOK: Final = 1 << 6
"""Steps of a range after which it is looked whether GDB wants something."""
_LONGEST_TEXT: Final = 1 << 12
SIGINT, SIGABRT, SIGTRAP = 2, 6, 5
_SIGNALS: Final = {
    Ending.LIMIT: SIGINT,
    Ending.ASLEEP: SIGTRAP,
    Ending.FAILED: SIGABRT,
}
"""How GDB is told that the run cannot go on, or not as it is."""
_LAST: Final = frozenset({Ending.LIMIT, Ending.FAILED})
"""After which GDB can look, and nothing goes on."""
_HELD: Final = b"E.another debugger holds this machine"


@dataclass(frozen=True)
class Surroundings:
    """What the debugger asks of whoever runs the machine.

    ``say`` prints a sentence for the user of this program, ``stopping`` is whether the run is to
    end, ``held`` is told when GDB begins to hold the machine and when that ends, ``killed`` that
    GDB has ended the run. ``why_ended`` says in a sentence why a run cannot go on, ``statuses`` are
    what the program then exits with.
    """

    say: Callable[[str], None]
    stopping: Callable[[], bool] = lambda: False
    held: Callable[[bool], None] = lambda _: None
    killed: Callable[[], None] = lambda: None
    why_ended: Callable[[Ending], str] = lambda ending: ending.value
    statuses: Mapping[Ending, int] | None = None


class Debugger:
    """Drives ``board`` for whoever connects at ``listener``.

    ``why_no_samples`` says of each PE why it has no records. With ``waits`` nothing runs before a
    debugger has connected. ``history`` is how many bytes of the past are kept to go back to, 0 for
    none.
    """

    def __init__(
        self,
        board: Board,
        listener: Listener,
        around: Surroundings,
        why_no_samples: Callable[[], Sequence[str | None]] = lambda: (),
        *,
        waits: bool = True,
        history: int = HISTORY,
    ) -> None:
        self._board = board
        self._listener = listener
        self._around = around
        self._waits = waits
        self._connection: Connection | None = None
        self._commands: Commands | None = None
        self._history = history
        self._travel: Travel | None = None
        """The past, while there is a debugger."""
        self._new = False
        """Whether the debugger has just come: it asks by itself why the machine stands."""
        self._asked = False
        """Whether the run was stopped because a debugger wants something."""
        self.breakpoints = Breakpoints()
        self.events = EventBreaks(board)
        self._records = RecentRecords(board)
        self.monitor = Monitor(
            board, self.events, self._records, why_no_samples, self._print, self._changed
        )
        self._while_running = ExitStack()

    # Running

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run the board, as :meth:`Board.run` does; a debugger may hold it in between."""
        goal = None if operations is None else self._board.executed + operations
        end_of_listening = self._board.slice_ended.connect(self._look)
        try:
            return self._drive(goal, until)
        finally:
            end_of_listening()
            self._release()

    def close(self) -> None:
        """Let go of the debugger, and listen no more."""
        self._drop()
        self._listener.close()
        self._records.close()

    def wanted(self) -> bool:
        """Look at what has arrived; whether a debugger wants the machine to stop."""
        self._look()
        return self._asked

    def _drive(self, goal: int | None, until: int) -> Ending:
        resume: Resume | None = RUN_ON
        if self._waits:
            self._waits = False
            resume = self._hold(None)
        while resume is not None:
            if resume.backwards:
                resume = self._hold(self._go_back(resume))
                continue
            ending = self._go(resume, goal, until)
            stopped = self._stopped()
            if self._around.stopping():
                return ending
            if ending is Ending.EXIT:
                self._tell_of_end(f"W{(self._board.exit_status or 0) & 0xFF:02x}")
                return ending
            if ending is Ending.UNTIL or (self._connection is None and not self._asked):
                return ending
            last = ending in _LAST
            resume = self._hold(self._reply(ending, stopped))
            if last and resume is not None and not resume.backwards:
                statuses = self._around.statuses or {}
                self._tell_of_end(f"W{statuses.get(ending, 1):02x}")
                return ending
        return Ending.INTERRUPTED

    def _go(self, resume: Resume, goal: int | None, until: int) -> Ending:
        """Let the board run until something ends that."""
        board = self._board
        board.stop_no_more()
        if self._around.stopping():
            return Ending.INTERRUPTED
        steps = 0
        while True:
            for pe in board.pes:
                step = (pe.cpu.pc, pe.cpu.executed) if pe.number in resume.steps else None
                pe.runner.stops.resume(
                    self.breakpoints.addresses, step, self.breakpoints.watchpoints
                )
            left = None if goal is None else max(goal - board.executed, 0)
            if self._travel is None:
                ending = board.run(left, until)
            else:
                ending = self._travel.forwards(self._travel.up_to(until), goal)
            pe = board.running
            stopped = pe.runner.stops.stopped
            first, end = resume.ranges.get(pe.number, (0, 0))
            if stopped is None or stopped.reason is not DebugReason.STEP:
                return ending
            if not first <= pe.cpu.pc < end:
                return ending
            steps += 1
            if steps % _LOOK == 0:
                self._look()

    def _stopped(self) -> Stopped | None:
        """What a PE was stopped by; all stops are over then."""
        found = None
        for pe in self._board.pes:
            found = found or pe.runner.stops.stopped
        self._release()
        return found

    def _release(self) -> None:
        for pe in self._board.pes:
            pe.runner.stops.resume(())

    # Backwards

    def _go_back(self, resume: Resume) -> str:
        """Undo operations; the stop reply."""
        self._board.stop_no_more()
        self._release()
        self._asked = False
        (number,) = resume.steps
        if self._travel is None:
            self._print("nothing of the past is kept: see --history\n")
            return self._reply_of(SIGTRAP, "replaylog:begin;", number)
        why, signal = "", SIGTRAP
        try:
            if resume.backwards == "bs":
                self._travel.step_back(number)
            else:
                back = Backwards(self._board, self.breakpoints, self._travel)
                pe, stopped = back.to_last_stop()
                number, why = pe.number, self._why(pe.number, stopped)
        except InterruptedTravelError:
            number, signal = self._board.running.number, SIGINT
        except PastError:
            why = "replaylog:begin;"
        finally:
            self._release()
        self._asked = False
        return self._reply_of(signal, why, number)

    def _changed(self) -> None:
        """The debugger has written something: what was before leads here no more."""
        if self._travel is not None:
            self._travel.changed()

    # Stop replies

    def _reply(self, ending: Ending, stopped: Stopped | None) -> str:
        """What GDB is told of a stop; sentences of ours are printed there before."""
        pe = self._board.running
        why = ""
        signal = SIGTRAP
        if stopped is not None:
            why = self._why(pe.number, stopped)
        elif ending in _SIGNALS and not (self._asked and ending is Ending.ASLEEP):
            signal = _SIGNALS[ending]
            self._print(f"{self._around.why_ended(ending)}\n")
        elif self._asked and not self._new:
            signal = SIGINT
        self._asked = False
        return self._reply_of(signal, why, pe.number)

    def _why(self, number: int, stopped: Stopped | None) -> str:
        """What a stop reply says of a stop; what an event was is printed in GDB."""
        if stopped is None:
            return ""
        if stopped.reason is DebugReason.BREAKPOINT:
            hardware = self.breakpoints.is_hardware(self._board.pes[number].cpu.pc)
            return "hwbreak:;" if hardware else "swbreak:;"
        if stopped.reason is DebugReason.WATCHPOINT:
            return f"{self.breakpoints.kind_of_watch(stopped.address)}:{stopped.address:x};"
        if stopped.detail:
            self._print(f"{stopped.detail}\n")
        return ""

    def _reply_of(self, signal: int, why: str, number: int) -> str:
        if self._commands is None:
            return ""
        self._commands.select(number)
        registers = self._commands.expedited(number)
        return f"T{signal:02x}{why}thread:{number + 1:x};{registers}"

    def _tell_of_end(self, reply: str) -> None:
        if self._connection is not None:
            with suppress(ConnectionLost):
                self._connection.send(reply.encode())
            self._drop()

    # While GDB holds the machine

    def _hold(self, reply: str | None) -> Resume | None:
        """Answer packets until the machine is to go on; None if the run is to end.

        ``reply`` is the stop reply that GDB waits for, None if it waits for none.
        """
        self._asked = False
        self._around.held(True)
        try:
            return self._remembering(self._serve(reply))
        except Killed as killed:
            if self._connection is not None and str(killed):
                with suppress(ConnectionLost):
                    self._connection.send(b"OK")
            self._drop()
            self._around.killed()
            return None
        finally:
            self._around.held(False)

    def _remembering(self, resume: Resume | None) -> Resume | None:
        """Keep the past from here on, while there is a debugger and the run goes on."""
        wanted = resume is not None and self._connection is not None and self._history > 0
        if wanted and self._travel is None:
            self._travel = Travel(self._board, self._history)
        elif not wanted and self._travel is not None:
            self._travel.close()
            self._travel = None
        return resume

    def _serve(self, reply: str | None) -> Resume | None:
        resume = None
        while resume is None and not self._around.stopping():
            resume = self._serve_once(reply)
            reply = None
        return resume

    def _serve_once(self, reply: str | None) -> Resume | None:
        """Answer what there is to answer, and wait a little if there is nothing."""
        try:
            if reply and self._connection is not None and self._commands is not None:
                self._commands.stop = reply
                if not self._new:
                    self._connection.send(reply.encode())
            self._new = False
            resume = self._answer_packets()
            if resume is None:
                self._await()
        except ConnectionLost as lost:
            self._drop()
            self._around.say(f"{lost}; the machine waits for the next one")
            return None
        return resume

    def _answer_packets(self) -> Resume | None:
        """Answer what has arrived; how the machine goes on, None if it does not yet."""
        connection, commands = self._connection, self._commands
        if connection is None or commands is None:
            return None
        connection.interrupted = False  # the machine stands already
        while (packet := connection.packet()) is not None:
            answer = commands.answer(packet)
            if isinstance(answer, Resume):
                if answer is DETACH:
                    connection.send(b"OK")
                    self._drop()
                return answer
            connection.send(answer)
        return None

    def _await(self) -> None:
        """Wait a little for something to arrive."""
        ready: list[Listener | Connection] = [self._listener]
        if self._connection is not None:
            ready.append(self._connection)
        for source in select.select(ready, (), (), _PATIENCE)[0]:
            if source is self._listener:
                self._accept()
            elif source is self._connection and self._connection is not None:
                self._connection.receive()

    # Connections

    def _look(self) -> None:
        """While the machine runs: see whether a debugger has come, or wants something."""
        try:
            if select.select((self._listener,), (), (), 0)[0] and self._accept():
                self._ask()
            if self._connection is not None:
                self._connection.receive()
                if self._connection.interrupted:
                    self._connection.interrupted = False
                    self._ask()
        except ConnectionLost as lost:
            self._drop()
            self._around.say(f"{lost}; the machine runs on")

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._board.stop()

    def _accept(self) -> bool:
        """Take a debugger that has come, unless there is one already."""
        if self._connection is not None:
            try:
                self._connection.receive()  # it may have gone just before
            except ConnectionLost as lost:
                self._around.say(f"{lost}; the next one has come")
                self._drop()
        if self._connection is not None and self._connection.waiting:
            return False  # before the next one comes, this one is answered
        connection = self._listener.accept()
        if connection is None:
            return False
        if self._connection is not None:
            with suppress(ConnectionLost):
                connection.send(_HELD)
            connection.close()
            self._around.say("a second debugger was turned away: one holds this machine already")
            return False
        self._connection = connection
        self._new = True
        self._commands = Commands(
            self._board,
            self.breakpoints,
            self.monitor,
            connection.stop_acknowledging,
            self._changed,
        )
        return True

    def _drop(self) -> None:
        """The debugger has gone: nothing of its is left."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._commands = None
        self.breakpoints.clear()
        self.events.clear()

    def _print(self, text: str) -> None:
        """Have GDB print a text."""
        data = text.encode()
        try:
            while data and self._connection is not None:
                self._connection.send(b"O" + data[:_LONGEST_TEXT].hex().encode())
                data = data[_LONGEST_TEXT:]
        except ConnectionLost as lost:
            self._drop()
            self._around.say(str(lost))
