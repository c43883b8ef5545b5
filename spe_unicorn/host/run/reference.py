"""The reference runner: it executes one operation at a time, and looks at each.

It shares with ``host.run.runner`` what happens at an operation that the host executes, and what a
stop asks for. It shares nothing of how the engine runs, how operations are counted, or how the next
chosen one is found: it has no blocks, plans, budgets or rings of samples. A core model hears of
branches from the decoder. Tests compare the two runners.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.decode import decode
from spe_unicorn.decode.words import WFI
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.engine.engine import NEVER, lib
from spe_unicorn.host.engine.roomy import RoomyTLB
from spe_unicorn.host.engine.surviving import ABORTED, surviving_aborts
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.host.pe.stepping import Stepping
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import NEVER_HAPPENS, Ending, Watcher
from spe_unicorn.host.run.debug_stops import DebugStops
from spe_unicorn.host.run.decide import Action, Do, decide, inspect_stop
from spe_unicorn.host.run.horizons import Approach, Horizon, Horizons
from spe_unicorn.host.run.host_operations import HostOperations, Members
from spe_unicorn.host.run.watching import Watching
from spe_unicorn.host.run.wrong_paths import wrong_paths_of
from spe_unicorn.signals import Signal
from spe_unicorn.spe.sampler import Sampler

_SLICE: Final = 1 << 12
"""Operations between two looks at the user and the limits: some hundredths of a second."""


class ReferenceRunner:
    """Runs one PE by stepping. Nothing else may run on its engine."""

    TRANSIT = ("_goal", "_slice_began", "running", "stopping")

    def __init__(
        self, cpu: UnicornCPU, unit: Sampler, handler: StopHandler, counting: Counting
    ) -> None:
        self.cpu = cpu
        self.unit = unit
        self.handler = handler
        self.stopping = False
        """Set by anybody, at any time: the run ends before the next operation."""
        self.slice_ended: Signal[[]] = Signal()
        """Told every few thousand operations."""
        self.running = False
        self.stops = DebugStops(cpu, handler.controls.checks)
        """Where a debugger has the PE stop."""
        if unit.follows_branches:
            cpu.hooks.follow_flow()
        if cpu.model is not None:
            cpu.model.step_by_step(on=True)
        self._counting = counting
        self._observers = handler.controls.checks.observers
        self._watching = Watching()
        self._members = Members(cpu, unit)
        self._describer = OperationDescriber(cpu, unit.cracker)
        self._host = HostOperations(unit, handler, counting, self._members, self._watching)
        self._steps = Stepping(handler)
        self._wrong_paths = wrong_paths_of(cpu, unit)
        self._translations = RoomyTLB(cpu.engine, cpu.executed)
        self._goal, self._slice_began = NEVER_HAPPENS, 0
        self._slice = Horizon(lambda: self._slice_began + _SLICE, self._end_slice, Approach.BLOCK)
        self.horizons = Horizons(
            (
                Horizon(lambda: handler.platform.deadline, lambda: handler.platform.happen()),
                Horizon(lambda: self._goal, lambda: Ending.LIMIT),
                Horizon(counting.due, counting.count_executed),
                Horizon(lambda: self._observers.due, lambda: self._observers.take()),
                Horizon(lambda: self._translations.due, self._translations.flush),
                self._slice,
            )
        )
        """What is due at a number of executed operations. If several are, in this order."""
        handler.asked_to_stop = lambda: self.stopping
        handler.execute_one = self._steps.execute_counted

    @property
    def watcher(self) -> Watcher | None:
        """Who is told of barriers and ERETs; set by :meth:`watch`."""
        return self._watching.watcher

    def watch(self, watcher: Watcher, *, orders: bool = False) -> None:
        """Have ``watcher`` told, from the next run on. One that ``orders`` is never muted."""
        self._watching.watch(watcher, orders=orders)
        self.handler.controls.watch_order()

    def mute(self, muted: bool) -> None:
        """Tell the watcher nothing from now on, or tell it again."""
        self._watching.mute(muted)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is half done."""
        return not self.running

    def restored(self) -> None:
        """After a restore of the PE's state: forget what was counted before."""
        self._members.restored()
        self._translations.begin(self.cpu.executed)

    def offer_turns(self) -> None:
        """Python takes each turn."""

    def turns_were_taken(self) -> None:
        """No turn was taken elsewhere."""

    def resume(self, status: int, began: int, operations: int, until: int) -> Ending:
        """Raise RuntimeError: no turn has been begun elsewhere."""
        raise RuntimeError(f"nobody has begun a turn of {operations} operations at {began}")

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run from the PE's PC on: at most ``operations``, and not the one at ``until``."""
        with surviving_aborts(lib.uc_emu_start):
            return self.turn(operations, until)

    def turn(self, operations: int | None, until: int) -> Ending:
        """As :meth:`run`, for who is in :func:`surviving_aborts` for many turns."""
        self._slice_began = executed = self.cpu.executed
        ends = NEVER_HAPPENS if operations is None else executed + operations
        self._goal = min(ends, self.stops.goal)
        self.running = True
        self.handler.ending = None
        try:
            self.cpu.forget_el()
            self.unit.refresh()
            self._counting.count_executed()
            return self._run_on(until)
        finally:
            self.running = False
            self._observers.turn_ended()
            self._watching.paused()

    def _run_on(self, until: int) -> Ending:
        handler = self.handler
        while handler.ending is None:
            executed, pc = self.cpu.executed, self.cpu.pc
            horizon = self.horizons.arrived(executed)
            if pc == until and (horizon is None or horizon is self._slice):
                return Ending.UNTIL
            if self.stops.active:
                if self.stops.reached(pc, executed):
                    return Ending.STOPPED
                self.stops.insert(pc)
            if horizon is None and self.stopping:
                horizon = self._slice
            if horizon is None:
                self._execute(pc)
                self._host.tell_observers()
            elif (ending := horizon.arrive()) is not None:
                return ending
        if handler.ending is Ending.INTERRUPTED:
            self.stopping = False
        return handler.ending

    def _end_slice(self) -> Ending | None:
        self._slice_began = self.cpu.executed
        self.slice_ended()
        stopping, self.stopping = self.stopping, False
        return Ending.INTERRUPTED if stopping else None

    def _execute(self, pc: int) -> None:
        """Execute the operation at ``pc``, the PE's next one, or take what comes before it."""
        cpu, handler, host = self.cpu, self.handler, self._host
        if host.comes_first(pc):  # a fault of PSTATE.IL or of the PC, a breakpoint
            return
        words = cpu.virtual.code(pc, 1)
        if words is not None and host.take_interrupt():  # else the abort of the fetch goes first
            return
        instruction = decode(words[0]) if words else None
        self._members.refresh_translations()
        if cpu.model is not None:
            cpu.model.begin()
        step = handler.controls.checks.debug.step_is_pending()
        if instruction is not None and not step and handler.controls.is_host_operation(instruction):
            host.execute_trapped()
            return
        members = self._members.members(pc)
        chosen = self.unit.enabled and self.unit.until_hit() <= members
        operations = self._describer.begin_sampled(pc) if chosen else []  # described before it runs
        level = cpu.el
        action = self._step(pc)  # again if checks let it through, or memory is opened
        if action.do is Do.LET_THROUGH:
            handler.controls.checks.let_through()
            action = self._step(pc)
        elif action.do is Do.ADMIT and not action.report.done and handler.refused.admits():
            action = self._step(pc)
        report = action.report
        handler.refused.close()
        if report.done and instruction is not None:  # executed: count, sample and tell of it
            self._counting.stepped(instruction, pc)
            if cpu.model is not None:
                cpu.model.executed(instruction, pc, cpu.pc)
            self._sample(operations, members, call=report.call)
            if instruction.mark is Mark.ERET:
                cpu.returned(level)
            self._watching.executed(instruction.mark, pc)
        host.catch_up()  # from here on what the stop asks for
        if action.do is Do.ADMIT and not (report.done and handler.refused.admits()):
            action = action._replace(do=action.refused)  # what is admitted is the next one's fetch
        if action.do is Do.EXECUTE:
            host.execute(report.stop, action.fault)
        elif action.do is Do.CARRY_OUT:
            host.carry_out(report.stop)
        elif action.do is Do.END:
            handler.ending = Ending.WATCHED
        elif action.do is Do.REFETCH:
            cpu.engine.flush_tlb()
        elif not report.within and (handler.status or words == (WFI,)):
            handler.idle()
        self.unit.refresh()

    def _step(self, pc: int) -> Action:
        """Have the engine execute the operation at ``pc``. Return what is to be done after that."""
        enabled, handler = self.unit.enabled, self.handler
        speculates = self._wrong_paths is not None and enabled
        report = self._steps.run(pc, enabled=enabled, speculates=speculates)
        if report.status == ABORTED:
            self._host.untranslated.find()  # of the operation, or in the next block
            if handler.ending is None:
                handler.status = 0
                if not report.done:
                    report = self._steps.run(pc, enabled=enabled, speculates=speculates)
        return decide(report, inspect_stop(report, handler))

    def _sample(self, operations: list[Operation], members: int, *, call: bool) -> None:
        """Count the operation that was executed, and complete its sampled members.

        If it is a branch that was mispredicted, the wrong path after it counts, too.
        """
        for member in self._members.select(members):
            operation = operations[member]
            operation.exception = call
            if not call:
                self._describer.finish(operation, self.cpu.pc)
            self._members.complete(operation)
        if self._wrong_paths is not None and self.cpu.state.wrong:
            walk = self._wrong_paths.take()
            for member in self._members.select(len(walk)):
                if self.cpu.model is not None:
                    self.cpu.model.saw_nothing()
                self._members.complete(self._describer.misspeculated(*walk[member]))
        self.unit.told()
