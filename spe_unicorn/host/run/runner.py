"""The two-speed loop: far from a sample the guest runs natively, near it exactly.

Before each run of the engine the runner grants a budget: the operations before the nearest
horizon. The compiled hook stops the engine before the block that would exceed it. From there the
chosen operation is either described by its block's plan, so that the block can run (see
``blocks``), or the runner steps to it. The records are the same either way, and the same as those
of ``host.run.reference``, which does nothing but step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from spe_unicorn.bits import signed
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.engine.engine import NEVER, lib
from spe_unicorn.host.engine.roomy import RoomyTLB
from spe_unicorn.host.engine.surviving import surviving_aborts
from spe_unicorn.host.native.state.ledger import executed_so_far, goes_on_at
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import NEVER_HAPPENS, Ending, Watcher
from spe_unicorn.host.run.chosen import ChosenOperation
from spe_unicorn.host.run.debug_stops import DebugStops
from spe_unicorn.host.run.horizons import Approach, Horizon, Horizons
from spe_unicorn.host.run.host_operations import HostOperations
from spe_unicorn.host.run.parts import parts_of
from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.slices import Slices
from spe_unicorn.signals import Signal
from spe_unicorn.spe.sampler import Sampler

if TYPE_CHECKING:
    from spe_unicorn.host.run.reference import ReferenceRunner

_MASK = (1 << 64) - 1
AnyRunner: TypeAlias = "Runner | ReferenceRunner"
"""What runs a PE: fast, or for comparison one operation at a time."""


class TurnOffer(NamedTuple):
    """How compiled code may take turns of a PE: see ``native.turns``."""

    limit: int
    """The number of executed operations at which Python is needed, without the platform's time."""
    slice: int
    """Operations of a slice."""
    gic_at: int
    """``State.gic_at``."""
    uart_at: int
    """``State.uart_at``."""
    own_calls: int
    """``State.own_calls``."""
    sleeps_at: int
    """The Exception levels at which no WFI traps, a bit each; not EL0, whose controls may change
    unseen."""


NO_TURNS: Final = TurnOffer(0, 0, 0, 0, 0, 0)
"""For a PE that is off, and takes no turns."""


class Runner:
    """Runs one PE. ``handler`` carries out what each stop asks for."""

    TRANSIT = ("_goal", "_one_operation", "running", "stopping")

    def __init__(
        self, cpu: UnicornCPU, unit: Sampler, handler: StopHandler, counting: Counting
    ) -> None:
        self.cpu = cpu
        self.unit = unit
        self.handler = handler
        self.stopping = False
        """Set by anybody, at any time: the run ends within a slice."""
        self.slice_ended: Signal[[]] = Signal()
        """Told between slices, every few hundredths of a second."""
        self.running = False
        """Whether :meth:`run` has begun and not returned."""
        self.stops = DebugStops(cpu, handler.controls.checks)
        """Where a debugger has the PE stop."""
        if unit.follows_branches:
            cpu.hooks.follow_flow()
        if cpu.model is not None:
            cpu.model.step_by_step(on=False)
        self._parts = parts_of(cpu, unit, handler, counting)
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        parts = self._parts
        self._host = HostOperations(unit, handler, counting, parts.population, parts.watching)
        self._chosen = ChosenOperation(self._parts)
        self._slices = Slices()
        self.horizons = Horizons()
        """What ends a run of the engine. If several are due, they are served in this order. A new
        reason to end runs is one more entry."""
        self._performer = Performer(
            self._parts, self._host, self.horizons, self._chosen, self._slices
        )
        self._translations = RoomyTLB(cpu.engine, cpu.executed)
        self._observers = handler.controls.checks.observers
        self._goal = NEVER_HAPPENS
        """The number of executed operations at which the caller wants the run to end."""
        self._one_operation = NEVER_HAPPENS
        """The number of operations after the next one, if memory is open only to that one."""
        self._slice = Horizon(lambda: self._slices.end, self._end_slice, Approach.BLOCK)
        for horizon in (
            Horizon(lambda: handler.platform.deadline, self._let_happen),
            Horizon(lambda: self._goal, lambda: Ending.LIMIT),
            Horizon(counting.due, counting.count_executed),
            Horizon(lambda: self._observers.due, lambda: self._observers.take()),
            Horizon(lambda: self._one_operation, lambda: None),
            Horizon(lambda: self._translations.due, self._translations.flush),
            self._slice,
            Horizon(self._chosen.at, self._performer.step, Approach.CHOSEN),
        ):
            self.horizons.append(horizon)
        handler.asked_to_stop = lambda: self.stopping
        handler.execute_one = self._execute_one
        handler.lacking.by_hooks = wanted("instructions")

    @property
    def watcher(self) -> Watcher | None:
        """The :class:`Watcher` of operations that no hook sees; set by :meth:`watch`."""
        return self._parts.watching.watcher

    def watch(self, watcher: Watcher, *, orders: bool = False) -> None:
        """Have ``watcher`` told, from the next run on. One that ``orders`` is never muted."""
        self._parts.watching.watch(watcher, orders=orders)
        self.handler.controls.watch_order()

    def mute(self, muted: bool) -> None:
        """Tell the watcher nothing from now on, or tell it again."""
        self._parts.watching.mute(muted)

    @property
    def at_rest(self) -> bool:
        """Whether nothing is half done: no run, no sample, nothing that a hook noticed."""
        state = self._state
        noticed = state.notice or state.controls_written or state.stale_code or state.wrong
        return not (self.running or state.samples_in_ring or state.pending or noticed)

    def restored(self) -> None:
        """After a restore of the PE's state: forget what was counted before."""
        self._parts.population.restored()
        self._parts.runs.collected = False
        self._translations.begin(self.cpu.executed)

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run from the PE's PC on: at most ``operations``, and not the one at ``until``."""
        with surviving_aborts(lib.uc_emu_start):
            return self.turn(operations, until)

    def turn(self, operations: int | None, until: int) -> Ending:
        """As :meth:`run`, for who is in :func:`surviving_aborts` for many turns."""
        executed = self.cpu.executed
        ends = NEVER_HAPPENS if operations is None else executed + operations
        self._begin_turn(executed, min(ends, self.stops.goal))
        try:
            if until != NEVER:
                self._engine.forget_code(until, until + 4)
            self.cpu.forget_el()
            self.unit.refresh()
            self._parts.counting.count_executed()
            return self._run_on(until)
        finally:
            self._end_turn()

    def resume(self, status: int, began: int, operations: int, until: int) -> Ending:
        """Go on with a turn of ``operations`` that began after ``began``, as :meth:`turn` does.

        Compiled code has begun it (``native.turns``), and the engine, which was to run up to
        ``until``, has stopped with ``status``.
        """
        self._begin_turn(began, began + operations)
        try:
            self._slices.count_stop()
            self._after_run(self._parts.runs.resume(status, until & _MASK))
            self._host.tell_observers()
            return self._run_on(NEVER)
        finally:
            self._end_turn()

    def offer_turns(self) -> TurnOffer | None:
        """Prepare turns that compiled code takes; None if Python has to take them."""
        parts = self._parts
        self.cpu.forget_el()
        self.unit.refresh()
        parts.counting.count_executed()
        if not wanted("turns") or not self._suits_turns() or self.handler.platform.restless:
            return None
        inline = self.cpu.hooks.inline
        if inline is not None:
            inline.prepare()
        answered = parts.runs.prepare_turns()
        self._goal = NEVER_HAPPENS
        limit, _ = self.horizons.nearest()
        answers = answered.gic_at, answered.uart_at, answered.own_calls
        return TurnOffer(limit, self._slices.length, *answers, self.handler.sleeps_at())

    def _suits_turns(self) -> bool:
        """Whether turns of this PE are for compiled code, by all that Python knows."""
        cpu, controls = self.cpu, self.handler.controls
        checked = self._observers.active or any(map(controls.checks.at, range(4)))
        stopped = self.stops.active or self._engine.halts or self.handler.refused.letting_through
        return (
            self._parts.runs.suits_turns
            and self._parts.counting.counts_nothing
            and controls.has_no_sets
            and self.at_rest
            and not (checked or stopped or cpu.illegal or self._parts.runs.collected)
        )

    def turns_were_taken(self) -> None:
        """Compiled code has taken whole turns: tell of what was executed."""
        self.cpu.forget_el()
        self._parts.runs.turns_taken()
        self._parts.population.count_all()

    def _begin_turn(self, began: int, goal: int) -> None:
        """Begin a turn after ``began`` operations, to end at ``goal``."""
        self.running = True
        self.handler.ending = None
        self._goal = goal
        self._begin_slice(began)

    def _end_turn(self) -> None:
        self.running = False
        self._observers.turn_ended()
        self._parts.watching.paused()

    def _run_on(self, until: int) -> Ending:
        cpu = self.cpu
        handler = self.handler
        while handler.ending is None:
            executed, pc = cpu.executed, cpu.pc
            limits = self.horizons.nearest()
            horizon = self.horizons.arrived(executed) if executed >= min(limits) else None
            # places at which the caller or a debugger wants the run to end
            if pc == until and (horizon is None or horizon is self._slice):
                return Ending.UNTIL
            if self.stops.active:
                if self.stops.reached(pc, executed):
                    return Ending.STOPPED
                self.stops.insert(pc)
            # numbers of operations: what is due now may end the run, or change what comes next
            if horizon is None and (self._slices.over or self.stopping):
                horizon = self._slice
            if horizon is not None:
                ending = horizon.arrive()
                if ending is not None:
                    return ending
                continue
            # run the engine up to the nearest horizon, and treat its stop
            self._slices.count_stop()
            if not self._host.comes_first(pc):
                self._go(pc, executed, until, limits)
            self._host.tell_observers()
        if handler.ending is Ending.INTERRUPTED:
            self.stopping = False
        return handler.ending

    def _let_happen(self) -> None:
        """Let happen what is due on the platform: a timer, a device."""
        self.handler.platform.happen()

    def _begin_slice(self, executed: int) -> None:
        self._slices.begin(executed)
        inline = self.cpu.hooks.inline
        if inline is not None:
            inline.prepare()

    def _end_slice(self) -> Ending | None:
        """A slice is over: look at the clock, the user and the limits."""
        executed = self.cpu.executed
        self._slices.adapt(executed)
        self._begin_slice(executed)
        self.handler.controls.checks.relax()
        self.handler.controls.relax()
        self.slice_ended()
        if self.stopping:
            self.stopping = False
            return Ending.INTERRUPTED
        return None

    def _go(self, pc: int, executed: int, until: int, limits: tuple[int, int]) -> None:
        """Run the engine up to the nearest horizon, and do what its stop asks for.

        ``pc`` is the PE's PC, ``executed`` how many operations it has executed, and ``limits`` are
        the nearest horizons.
        """
        if not self.handler.refused.letting_through:
            self._run_engine(pc, executed, until, limits)
            return
        self._one_operation = executed + 1
        self._run_engine(pc, executed, until, self.horizons.nearest())
        self._one_operation = NEVER_HAPPENS
        self.handler.refused.close()

    def _run_engine(self, pc: int, executed: int, until: int, limits: tuple[int, int]) -> None:
        parts = self._parts
        parts.population.refresh_translations()
        grant = self._chosen.grant(min(limits) - executed)
        self._after_run(parts.runs.run(parts.runs.request(pc, until, limits, grant)))

    def _after_run(self, report: RunReport) -> None:
        """A run of the engine is over: count it, and do what its stop asks for."""
        inline = self.cpu.hooks.inline
        if inline is not None and not inline.prepared:
            inline.prepare()
        self._performer.after_run(report)

    def _execute_one(self) -> None:
        """Have the engine execute the operation at the PC, which has been counted already."""
        executed = self.cpu.executed
        goes_on_at(self._state, signed(self.cpu.pc))  # it has been told as the host's
        self._run_alone(self.cpu.pc)
        executed_so_far(self._state, executed)

    def _run_alone(self, pc: int) -> None:
        self._state.begin(1)
        self._engine.forget_code(pc, pc + 4)
        self._engine.run(pc, pc + 4 & _MASK)
