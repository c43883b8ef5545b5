"""Runs a board as a debugger outside wants it: the loop between GDB and the machine.

While GDB holds the machine nothing of the machine moves. When GDB lets it go on, the board runs as
without a debugger, and :mod:`spe_unicorn.host.run.debug_stops` stops it. An error of the connection
ends the connection and never the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from spe_unicorn.debug.gdb.backwards import Backwards
from spe_unicorn.debug.gdb.breakpoints import Breakpoints
from spe_unicorn.debug.gdb.client import Client
from spe_unicorn.debug.gdb.commands import Commands, Killed
from spe_unicorn.debug.gdb.connection import Connection, ConnectionLost, Listener
from spe_unicorn.debug.gdb.events import EventBreaks
from spe_unicorn.debug.gdb.monitor import Monitor
from spe_unicorn.debug.gdb.recent import RecentRecords
from spe_unicorn.debug.gdb.replies import SIGINT, SIGNALS, SIGTRAP, why
from spe_unicorn.debug.gdb.resume import DETACH, RUN_ON, Resume
from spe_unicorn.debug.gdb.surroundings import Surroundings
from spe_unicorn.debug.gdb.who import Who
from spe_unicorn.debug.travel import HISTORY, InterruptedTravelError, PastError, Travel
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.ports import DebugReason, Ending
from spe_unicorn.host.run.debug_stops import Stopped
from spe_unicorn.machine.board import Board

_LOOK: Final = 1 << 6
"""Steps of a range between two checks of whether GDB wants something."""
_LAST: Final = frozenset({Ending.LIMIT, Ending.FAILED})
"""Endings after which GDB can look at the machine, and the machine does not go on."""


class Debugger:
    """Drives ``board`` for whoever connects at ``listener``.

    ``why_no_samples`` says for each PE why it has no records. With ``waits`` nothing runs before a
    debugger has connected. ``history`` is how many bytes the past may take, 0 to keep none.
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
        self._client = Client(listener, self._commands, self._gone, around.say)
        self._history = history
        self._travel: Travel | None = None
        """The past, while there is a debugger."""
        self._asked = False
        """Whether the run was stopped because a debugger wants something."""
        self.breakpoints = Breakpoints()
        self.events = EventBreaks(board)
        self._records = RecentRecords(board)
        self.monitor = Monitor(
            board, self.events, self._records, why_no_samples, self._client.print, self._changed
        )
        Who(board, self.monitor, self.events, lambda: self._travel, self._leave, self._arrive)
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
        """Close the connection of the debugger, and listen no more."""
        self._client.close()
        self._listener.close()
        self._records.close()

    def wanted(self) -> bool:
        """Receive what has arrived. Whether a debugger wants the machine to stop."""
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
                self._client.tell_last(f"W{(self._board.exit_status or 0) & 0xFF:02x}")
                return ending
            left_alone = self._client.connection is None and not self._asked
            if ending is Ending.STOPPED and left_alone:
                resume = self._remembering(RUN_ON)  # the stop was noted just before GDB went
                continue
            if ending is Ending.UNTIL or left_alone:
                return ending
            last = ending in _LAST
            resume = self._hold(self._reply(ending, stopped, resume))
            if last and resume is not None and not resume.backwards:
                statuses = self._around.statuses or {}
                self._client.tell_last(f"W{statuses.get(ending, 1):02x}")
                return ending
        return Ending.INTERRUPTED

    def _go(self, resume: Resume, goal: int | None, until: int) -> Ending:
        """Let the board run until something ends that."""
        board = self._board
        board.stop_no_more()
        self._tell_forgotten()
        if self._around.stopping():
            return Ending.INTERRUPTED
        steps = 0
        while True:
            for pe in board.pes:
                step = (pe.cpu.pc, pe.cpu.executed) if pe.number in resume.steps else None
                pe.runner.stops.resume(
                    self.breakpoints.addresses, step, self.breakpoints.watchpoints, events=True
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
            here = pe.cpu.pc
            if not first <= here < end and pe.cpu.unfinished != (here, pe.cpu.executed):
                return ending
            steps += 1
            if steps % _LOOK == 0:
                self._look()

    def _stopped(self) -> Stopped | None:
        """Why a PE was stopped, None if none was. All breakpoints are then taken off the PEs."""
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
        self._leave()
        (number,) = resume.steps
        if self._travel is None:
            self._client.print("nothing of the past is kept: see --history\n")
            return self._reply_of(SIGTRAP, "replaylog:begin;", number)
        said, signal = "", SIGTRAP
        try:
            if resume.backwards == "bs":
                self._travel.step_back(number)
            else:
                back = Backwards(self._board, self.breakpoints, self._travel)
                pe, stopped = back.to_last_stop()
                number, said = pe.number, self._why(pe.number, stopped)
        except InterruptedTravelError:
            number, signal = self._board.running.number, SIGINT
        except PastError:
            said = "replaylog:begin;"
        finally:
            self._arrive()
        return self._reply_of(signal, said, number)

    def _leave(self) -> None:
        """Get ready to go to another moment."""
        self._board.stop_no_more()
        self._release()
        self._asked = False
        self._tell_forgotten()

    def _arrive(self) -> None:
        """The machine stands at another moment. A request to stop on the way is done."""
        self._release()
        self._asked = False

    def _commands(self, connection: Connection) -> Commands:
        """The object that answers the packets of a new debugger."""
        return Commands(
            self._board,
            self.breakpoints,
            self.monitor,
            connection.stop_acknowledging,
            self._changed,
        )

    def _gone(self) -> None:
        """The debugger has gone: forget its breakpoints and events, also while the machine runs."""
        self.breakpoints.clear()
        self.events.clear()
        self._release()

    def _changed(self) -> None:
        """The debugger has written registers or memory, which becomes a part of the history."""
        if self._travel is not None:
            self._travel.changed()

    def _tell_forgotten(self) -> None:
        """Have GDB print what its writes make the next move forget: it waits for a stop by now."""
        travel = self._travel
        if travel is None:
            return
        if travel.forgets_past:
            self._client.print(f"the past begins here, at operation {travel.position}\n")
        elif travel.forgets_up_to is not None:
            self._client.print(
                f"operations {travel.position} to {travel.forgets_up_to} are forgotten: they do not"
                " follow from what was written here\n"
            )

    # Stop replies

    def _reply(self, ending: Ending, stopped: Stopped | None, resume: Resume) -> str:
        """The stop reply after a run of the board. GDB prints our sentences about it first."""
        pe = self._board.running
        said = ""
        signal = SIGTRAP
        if stopped is not None:
            said = self._why(pe.number, stopped)
            if stopped.reason is DebugReason.EVENT and pe.number in resume.steps:
                signal = SIGINT  # GDB takes SIGTRAP for the end of its step, and goes on
        elif ending in SIGNALS and not (self._asked and ending is Ending.ASLEEP):
            signal = SIGNALS[ending]
            self._client.print(f"{self._around.why_ended(ending)}\n")
        elif self._asked and not self._client.new:
            signal = SIGINT
        self._asked = False
        return self._reply_of(signal, said, pe.number)

    def _why(self, number: int, stopped: Stopped | None) -> str:
        """The reason of a stop, as a stop reply has it; GDB prints the sentence about an event."""
        if stopped is None:
            return ""
        if stopped.detail:
            self._client.print(f"{stopped.detail}\n")
        return why(stopped, self.breakpoints, self._board.pes[number].cpu.pc)

    def _reply_of(self, signal: int, said: str, number: int) -> str:
        if self._client.commands is None:
            return ""
        self._client.commands.select(number)
        registers = self._client.commands.expedited(number)
        return f"T{signal:02x}{said}thread:{number + 1:x};{registers}"

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
            if self._client.connection is not None and str(killed):
                with suppress(ConnectionLost):
                    self._client.connection.send(b"OK")
            self._client.drop()
            self._around.killed()
            return None
        finally:
            self._around.held(False)

    def _remembering(self, resume: Resume | None) -> Resume | None:
        """Keep the past from now on while there is a debugger; forget it otherwise."""
        wanted = resume is not None and self._client.connection is not None and self._history > 0
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
        """Answer the packets that have arrived, or wait a little if there are none."""
        try:
            if reply and self._client.connection is not None and self._client.commands is not None:
                self._client.commands.stop = reply
                if not self._client.new:
                    self._client.connection.send(reply.encode())
            self._client.new = False
            resume = self._answer_packets()
            if resume is None:
                self._client.wait()
        except ConnectionLost as lost:
            self._client.drop()
            self._around.say(f"{lost}; the machine waits for the next one")
            return None
        return resume

    def _answer_packets(self) -> Resume | None:
        """Answer the packets that have arrived. How the machine goes on, None if it stands."""
        connection, commands = self._client.connection, self._client.commands
        if connection is None or commands is None:
            return None
        while (packet := connection.packet()) is not None:
            answer = commands.answer(packet)
            if isinstance(answer, Resume):
                if answer is DETACH:
                    connection.send(b"OK")
                    self._client.drop()
                return answer
            connection.send(answer)
        return None

    # Connections

    def _look(self) -> None:
        """While the machine runs: check whether a debugger has come, or wants something."""
        try:
            if self._client.has_come():
                self._ask()
            if self._client.connection is not None:
                self._client.connection.receive()
                if self._client.connection.interrupted():
                    self._ask()
        except ConnectionLost as lost:
            self._client.drop()
            goes_on = "waits for the next one" if self._asked else "runs on"
            self._around.say(f"{lost}; the machine {goes_on}")

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._board.stop()
