"""The wall: each run of the engine is one request, and comes to one report.

What may be done in the run stands in the request, which the hooks only read. What the run came to
stands in the report, which is never changed.
"""

from __future__ import annotations

from typing import Final

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.operation import Mark
from spe_unicorn.decode import decode
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.counting.modelled import AWAITED
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.native.exceptions.exception import enter_irq
from spe_unicorn.host.native.marks import MARK_EVENT, MARK_FENCE, MARK_ORDER
from spe_unicorn.host.native.requests import Accelerator, Grant, RunRequest
from spe_unicorn.host.native.sampling.awaited import MISPREDICTIONS
from spe_unicorn.host.native.state.budget import NOTICE_RETURN, end_here
from spe_unicorn.host.native.state.ledger import grant_members, members_so_far
from spe_unicorn.host.native.state.report import AT_AN_OPERATION, RunReport, interrupted_at
from spe_unicorn.host.native.state.request import OWN_HVC, OWN_SMC, PASSES_EACH, PASSES_SOME
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import forget_access, go_on
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import CALLS, PREFETCH_ABORT, StopHandler
from spe_unicorn.host.run.population import Population
from spe_unicorn.host.run.watching import Watching
from spe_unicorn.signals import Signal
from spe_unicorn.spe.sampler import Goal, Sampler

_ACCESSES: Final = 1 << 8
"""Device accesses in a run after which it ends, so that Ctrl-C and limits are looked at."""
_MASK: Final = (1 << 64) - 1
_OWN_CALLS: Final = {None: OWN_HVC | OWN_SMC, "hvc": 0, "smc": OWN_HVC}
"""``State.own_calls`` by how firmware is called. An SMC where that is by HVC is UNDEFINED."""
_OF_DEVICES: Final = (Stop.UNMAPPED, Stop.SYSTEM)
"""Stops before an operation that may concern only a device."""
_WITHIN: Final = frozenset({*AT_AN_OPERATION, Stop.NONE, Stop.UNTRANSLATED})
"""Stops that are not before a block which has not been counted."""
_STOPS: Final = {int(stop): stop for stop in Stop}
"""``Stop`` by ``State.stop``: a look-up takes a quarter of the time of ``Stop(number)``."""


class _Events:
    """Has the engine execute what changes Event Registers and nothing else.

    That is a SEV while no PE waits in a WFE, and a WFE that does not wait.
    """

    def __init__(self, handler: StopHandler) -> None:
        self._handler = handler

    def offer(self, request: RunRequest) -> None:
        """Say so for a run in which blocks with SEV and WFE are looked out for."""
        platform, controls = self._handler.platform, self._handler.controls
        quiet = request.only_counted and not request.checking and not request.watched
        if quiet and request.watch & MARK_EVENT:
            request.sends_events = not platform.event_awaited
            request.passes_wfe = PASSES_SOME
            if platform.restless and not controls.traps_wfe:
                request.passes_wfe = PASSES_EACH
                request.control_set = 0  # a write may have WFEs trapped


class _WFIs:
    """Has compiled code go on after a WFI with an interrupt pending, which completes at once."""

    def __init__(self, waits: Signal[[]]) -> None:
        self._waits = waits
        """What is told of each WFI."""

    def offer(self, request: RunRequest) -> None:
        """Say so for a run after which nobody asks what ended it."""
        request.passes_wfi = request.in_rows and not request.watched and not self._waits


class EngineRuns:
    """The runs of one PE's engine."""

    TRANSIT = ("_position", "_until", "collected")

    def __init__(
        self,
        cpu: UnicornCPU,
        unit: Sampler,
        handler: StopHandler,
        population: Population,
        watching: Watching,
        counting: Counting,
    ) -> None:
        self._until = NEVER
        self._position = 0
        """Members gone by before the turns that compiled code takes."""
        """The address at which the last run was to end."""
        self.collected = False
        """Whether the last run noticed writes to registers of which only records tell. If not, the
        cells of such registers may be old."""
        own: dict[str, Accelerator] = {
            "events": _Events(handler),
            "sampling": population.sampling_registers,
            "wfi": _WFIs(handler.waits),
        }
        self._accelerators = tuple(one for name, one in own.items() if wanted(name))
        """What this room has to offer; what the board has stands at the handler."""
        self._cpu = cpu
        self._unit = unit
        self._handler = handler
        self._population = population
        self._watching = watching
        self._counting = counting
        counting.awaits = lambda: self.awaits
        handler.system.quiet = lambda: True not in unit.enabled_at
        self._state = cpu.hooks.state
        self._cracker = unit.cracker
        self._model = cpu.model
        self._may_await = (
            wanted("awaited")
            and cpu.model is not None
            and cpu.model.awaited.suits
            and cpu.secure_memory is None
        )
        """Whether anything of the machine allows that runs end at awaited events."""
        self._only_counted = cpu.secure_memory is None and self._model is None
        """Whether each operation is only counted where members are operations: no observer has to
        be told of one."""

    def request(self, pc: int, until: int, limits: tuple[int, int], grant: Grant) -> RunRequest:
        """What a run from ``pc`` up to ``until``, with what it is granted, may do.

        ``limits`` are the nearest exact horizon, and the nearest one at the boundary of a block.
        """
        request = RunRequest(
            pc, until, grant.budget, limits[0], min(limits), grant.members, grant.samples_itself
        )
        self._steer(request)
        self._set_watch(request)
        self._await(request)
        request.weigh = self._cracker is not None and self._unit.enabled
        memory = self._cpu.secure_memory
        request.goes_through = not request.tally and (memory is None or not memory.admitting)
        request.only_counted = request.goes_through and self._only_counted and not request.weigh
        request.in_rows = (
            request.only_counted and not request.checking and not self._cpu.engine.halts
        )
        for accelerator in (*self._handler.accelerators, *self._accelerators):
            accelerator.offer(request)
        return request

    def straight(self, pc: int, operations: int, *, awaits: bool = True) -> RunRequest:
        """What a run of exactly ``operations`` operations in a row from ``pc`` on may do.

        Without ``awaits`` it does not end at an operation that makes an awaited event.
        """
        ends = self._cpu.executed + operations
        until = pc + 4 * operations & _MASK
        request = RunRequest(pc, until, operations, ends, ends, straight=True)
        self._steer(request)
        if awaits:
            self._await(request)
        return request

    @property
    def awaits(self) -> bool:
        """Whether a run that begins now stops at an operation that makes an awaited event.

        Not where somebody sees that the operation has begun twice.
        """
        model, handler = self._model, self._handler
        return (
            model is not None
            and self._may_await
            and self._cpu.hooks.inline is not None
            and not self._state.checked
            and not handler.controls.checks.observers.active
            and not self.checking()
            and not (self._population.wrong_paths and MISPREDICTIONS in self._counting.awaited)
        )

    @property
    def goal(self) -> Goal | None:
        """The event by which a run that begins now stops at the chosen operation."""
        unit, cpu = self._unit, self._cpu
        goal = unit.awaited() if unit.enabled and self.awaits else None
        if goal is not None and AWAITED[goal.event] == MISPREDICTIONS:
            # the branch has been executed by then: what led to it is not known any more
            return None if cpu.hooks.follows_flow or cpu.callers is not None else goal
        return goal

    def _await(self, request: RunRequest) -> None:
        """Say which counts of the core model end the run."""
        unit = self._unit
        if not self.awaits:
            return
        goals = dict(self._counting.awaited)
        goal = self.goal
        if goal is not None:
            what = AWAITED[goal.event]
            goals[what] = min(goal.total, goals.get(what, goal.total))
            unit.waits = True
        request.goals = goals

    def _steer(self, request: RunRequest) -> None:
        """Say what holds for any run of this PE that begins now."""
        cpu, unit = self._cpu, self._unit
        unit.waits = False
        request.watched = self._watching.watched
        request.heard = bool(self._handler.system.accessed)
        collects = request.watched or True in unit.enabled_at
        request.collects = collects or cpu.follows_context
        request.own_calls = self._own_calls
        request.checking = self.checking()
        request.speculates = self._population.wrong_paths is not None and unit.enabled
        request.begins_anew = True
        request.flow = (unit.enabled, cpu.el) if cpu.hooks.follows_flow else None
        if not request.straight:
            request.tally = cpu.tally

    def _set_watch(self, request: RunRequest) -> None:
        """Say what the hooks have to look out for in the blocks of the run."""
        watched = self._watching.tracking
        self._handler.controls.offer(request, self._unit.enabled_at, watched=watched)
        if watched:
            # where the population is operations, what came of it up to one that was noted can be
            # told, so compiled code notes context synchronization events and need not stop
            operations = self._cracker is None and self._population.wrong_paths is None
            request.notes_fences = operations and not self._watching.at_once
            request.watch |= MARK_ORDER if request.notes_fences else MARK_ORDER | MARK_FENCE

    def run(self, request: RunRequest) -> RunReport:
        """Run the engine by ``request`` until something stops it."""
        state, population = self._state, self._population
        # write the request, and what is left of the population
        if request.collects and not self.collected:
            self._cpu.steering.resync_cells()
        self.collected = request.collects
        position = 0 if self._cracker is None else population.position
        request.write(state)
        if self._model is not None:
            self._model.awaited.arm(request.goals)
            if self._model.awaited.closes_in:
                forget_access(state)
        self._allow_rows(request)
        population.row = None
        if self._cracker is not None:
            # the hook subtracts weights from `members` even where the population is operations
            grant_members(state, position, request.members)
            if request.straight:
                population.row = population.weights(request.pc, request.budget)
        # run the engine, from the vector if compiled code enters an interrupt first
        self._until = request.until
        begin = self._first(request)
        stop = Stop.INTERRUPT
        if begin is not None:
            status = self._cpu.execute(
                begin, request.until, through=request.goes_through, wfis=request.passes_wfi
            )
            stop = self._stopped(status)
            if request.goes_through:
                stop = self._go_on(stop, request.until)
            stop = self._read_stop(stop)
        if self._model is not None:
            self._model.awaited.stand()
        # where members are micro-operations, correct what the hook counted as operations
        if self._cracker is not None and not request.weigh:
            members_so_far(state, position)
        if population.row is not None:
            population.pass_by(sum(population.row[: request.budget - int(state.budget)]))
        # report, and tell the core model where the engine stands
        report = interrupted_at(request.pc) if begin is None else self._report(stop)
        if self._cpu.coverage is not None:
            self._cpu.coverage.ran(report)
        if self._cpu.calls is not None:
            self._cpu.calls.ran(report)
        if self._model is not None:
            pc = state.pc & _MASK if report.stop is Stop.EXCEPTION else self._cpu.pc
            self._model.stopped(executed=report.stop in _WITHIN and report.whole, pc=pc)
            self._model.awaited.disarm()
        return report

    def _first(self, request: RunRequest) -> int | None:
        """Where the engine begins. None if it does not: an interrupt is for Python to enter.

        An interrupt that is due comes before the first operation. Compiled code enters one if it
        can, and the engine then begins at the vector. An abort of the fetch goes first: it is the
        engine that finds it.
        """
        state, cpu = self._state, self._cpu
        if not state.deliver or not self._handler.interrupts.due:
            return request.pc
        if cpu.virtual.code(request.pc, 1) is None:
            return request.pc
        if request.only_counted and enter_irq.called(cpu.engine.handle.value, state.address):
            return int(state.scratch) & _MASK
        return None

    def _report(self, stop: Stop) -> RunReport:
        """What the run of the engine that has just ended by ``stop`` came to."""
        state = self._state
        begun = int(state.block_operations)
        counted = stop in AT_AN_OPERATION or stop is Stop.NONE
        done = self._executed_of_block(stop) if counted else begun
        call = stop is Stop.EXCEPTION and state.interrupt in CALLS
        status = self._handler.status
        halted = stop is Stop.NONE and self.halted()
        finished = self.finished(stop)
        return RunReport(stop, status, state.block & _MASK, begun, done, call, finished, halted)

    @property
    def _own_calls(self) -> int:
        """``State.own_calls``."""
        return _OWN_CALLS[self._handler.platform.conduit]

    @property
    def suits_turns(self) -> bool:
        """Whether compiled code may begin runs, as nobody has to be told of an operation."""
        nobody = not (self._cpu.tally or self._watching.watched)
        return self._only_counted and nobody and True not in self._unit.enabled_at

    def prepare_turns(self) -> RunRequest:
        """Prepare runs that compiled code begins in turns; return what holds for all of them."""
        pc, now = self._cpu.pc, self._cpu.executed
        request = self.request(pc, NEVER, (now, now), Grant(0))
        self._allow_rows(request)
        self._position = self._population.position
        return request

    def turns_taken(self) -> None:
        """Compiled code has taken turns, whole ones or the first part of one: no member went by."""
        if self._cracker is not None:
            members_so_far(self._state, self._position)

    def _allow_rows(self, request: RunRequest) -> None:
        """Say whether the run that begins may carry out what the engine lacks in rows."""
        if self._state.lacking:
            self._handler.lacking.set_row_end(request.until if request.in_rows else None)

    def resume(self, status: int, until: int) -> RunReport:
        """Go on with a run up to ``until`` that compiled code has begun; it ended with ``status``.

        Return what came of it, as :meth:`run` does.
        """
        self._until = until
        self.turns_taken()
        self._cpu.stand()
        stop = self._go_on(self._stopped(self._cpu.engine.ended(status)), until)
        report = self._report(self._read_stop(stop))
        if self._cpu.coverage is not None:
            self._cpu.coverage.ran(report)
        if self._cpu.calls is not None:
            self._cpu.calls.ran(report)
        return report

    def _read_stop(self, stop: Stop) -> Stop:
        """The engine stands: see at which Exception level, and whether ``stop`` is one at all."""
        state = self._state
        if state.notice == NOTICE_RETURN:
            self._cpu.left_from(int(state.level))
        else:
            self._cpu.forget_el()
        if stop is Stop.EXCEPTION and self._trapped_at_its_end():
            self._cpu.pc = self._cpu.pc + 4 & _MASK
            return Stop.NONE
        return stop

    def _stopped(self, status: int) -> Stop:
        """A run of the engine has ended with ``status``: pass on what it had for others.

        Return why it stopped.
        """
        state, handler = self._state, self._handler
        stop = _STOPS[state.stop]
        if stop is Stop.AWAITED and self._model is not None:
            self._model.awaited.take_back()
        if state.control_set:
            handler.controls.take_over_set()
        if status == ABORTED and stop is Stop.NONE:
            stop, status = Stop.UNTRANSLATED, 0
        handler.status = status
        try:
            if state.uart_sent:
                handler.uart_sent(int(state.uart_sent))
        finally:  # the console may raise; a run that follows is told of none of this again
            if state.sent:
                handler.platform.send_event()
            if state.rose:
                handler.interrupts_rose(int(state.rose))
        return stop

    def _go_on(self, stop: Stop, until: int) -> Stop:
        """Go on after stops that take an access to a device and nothing else.

        Return why the engine has stopped in the end.
        """
        for _ in range(_ACCESSES):
            if stop not in _OF_DEVICES:
                return stop
            pc = self._cpu.pc
            answer = self._answer_device(stop, pc)
            if answer is not Stop.NONE:
                return answer
            if self._cpu.coverage is not None:
                self._cpu.coverage.answered(pc)
            go_on(self._state)
            stop = self._stopped(self._cpu.execute(pc + 4 & _MASK, until, through=True))
        return stop

    def _answer_device(self, stop: Stop, pc: int) -> Stop:
        """Carry out the access at ``pc``, where the engine is, if it concerns only a device.

        Return why the run has to end all the same: ``Stop.NONE`` if it can go on, ``stop`` if
        nothing has been done.
        """
        state = self._state
        self._cpu.forget_el()
        if state.pending or state.notice or state.wrong or state.event_due:
            return stop
        handler, platform = self._handler, self._handler.platform
        deadline = platform.deadline
        answers = handler.refused if stop is Stop.UNMAPPED else handler.system
        if not answers.access_within_run(pc) and not (
            state.weigh and self._population.learn_begun() and answers.access_within_run(pc)
        ):
            return stop
        if platform.deadline != deadline or handler.ending is not None:
            # the access has moved the next horizon, or ends the run: this run of the engine is over
            end_here(state)
        if state.budget <= 0 and self._cpu.s.stepped == (self._cpu.pc, self._cpu.executed):
            # the engine would take the Software Step exception, which is for the next run
            return Stop.NOTICED
        return Stop.NONE

    def _trapped_at_its_end(self) -> bool:
        """Whether the WFI by which the engine ends a run at an address was trapped.

        The exception then looks like one of the operation before it, which has been executed.
        """
        cpu = self._cpu
        following = cpu.pc + 4 & _MASK
        if following != self._until and following not in cpu.engine.halts:
            return False
        syndrome = cpu.entries.of_engine().record.syndrome
        if syndrome is None or syndrome.ec != EC.WFxTrap:
            return False
        words = cpu.virtual.code(cpu.pc, 1)
        return words is not None and decode(words[0]).mark is not Mark.WFI

    def halted(self) -> bool:
        """Whether the engine, which no hook stopped, is at an address where the run must end.

        A WFI of the guest just before that address stops the engine, too. That WFI is then the last
        operation of its block.
        """
        cpu, state = self._cpu, self._state
        pc = cpu.pc
        if pc == self._until:
            return True
        if pc not in cpu.engine.halts:
            return False
        if int(state.block + 4 * state.block_operations) & _MASK != pc:
            return True
        words = cpu.virtual.code(pc - 4 & _MASK, 1)
        return words is None or decode(words[0]).mark is not Mark.WFI

    def checking(self) -> int:
        """What is checked before the next operation: ``State.checking``."""
        checks = self._handler.controls.checks
        return checks.at(self._cpu.el) if checks.active else 0

    def learn(self, operations: int) -> None:
        """Tell the hook before each operation what to check at the next ``operations``."""
        self._handler.controls.checks.learn(self._cpu.pc, operations)

    def _executed_of_block(self, stop: Stop) -> int:
        """How many operations of the block that began last were executed before the stop."""
        state = self._state
        begun = int(state.block_operations)
        pc = state.pc if stop is Stop.EXCEPTION else self._cpu.pc
        if stop is Stop.EXCEPTION:
            whole = state.interrupt == PREFETCH_ABORT or self._cpu.entries.at_step
        elif stop is Stop.UNMAPPED:
            whole = state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED
        else:
            whole = stop is Stop.NONE and pc == self._until
        if whole:
            return begun
        index = int(pc - state.block & _MASK) >> 2
        if stop is Stop.EXCEPTION and state.interrupt not in CALLS:
            # a user's hook may have moved the PC on; the operation is in the block all the same
            return min(begun - 1, index)
        return min(begun, index)

    def finished(self, stop: Stop) -> bool:
        """Whether the last operation of the block that began last has been executed."""
        state = self._state
        if stop is Stop.EXCEPTION:
            told = state.interrupt in CALLS or state.interrupt == PREFETCH_ABORT
            return told or self._cpu.entries.at_step
        return stop is Stop.UNMAPPED and state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED
