"""The two-speed loop: far from a sample the guest runs natively, near it exactly.

Before each run of the engine the runner grants a budget: the operations before the next
chosen one, or before a limit. The compiled hook stops the engine before the block that
would exceed it. From there the chosen operation is either described by its block's plan, which
lets the block run (see ``blocks``), or the runner steps to it. What comes out is the same either
way, and the same as with ``host.run.reference``, which does nothing but step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.arch.pe import EL2
from spe_unicorn.decode import decode
from spe_unicorn.host.engine.engine import NEVER, lib
from spe_unicorn.host.engine.surviving import ABORTED, surviving_aborts
from spe_unicorn.host.engine.untranslatable import translation_fails
from spe_unicorn.host.native.state import (
    CODE_WORDS,
    CONTROLS_WRITTEN,
    MARKS_OF_HOST_OPERATIONS,
    NOTICE_RETURN,
    SAMPLES,
    UNBOUNDED,
    Stop,
    signed,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import Latch
from spe_unicorn.host.pe.stops import CALLS, StopHandler
from spe_unicorn.host.ports import NEVER_HAPPENS, ORDERING, Ending, Watcher
from spe_unicorn.host.run.blocks import Block, Blocks
from spe_unicorn.host.run.engine_runs import AT_AN_OPERATION, EngineRuns
from spe_unicorn.host.run.horizons import Horizon, arrived, nearest
from spe_unicorn.host.run.population import Population
from spe_unicorn.host.run.probes import Probes
from spe_unicorn.host.run.watching import distance
from spe_unicorn.signals import Signal
from spe_unicorn.spe.sampler import Sampler

_FIRST_SLICE: Final = 1 << 20
_SLICES: Final = (1 << 12, 1 << 28)
"""Least and most operations between two looks at the clock, the user and the limits."""
_SLICE_SECONDS: Final = 0.03
"""What a slice should take, so that Ctrl-C is served within a tenth of a second."""
_STOPS: Final = 1 << 10
"""Stops of the engine after which a slice is over all the same: each costs microseconds."""
_BATCH: Final = 1 << 6
"""So many samples at least are planned at once."""
_PAGE: Final = 1 << 12
_HALTS: Final = 1 << 12
"""Addresses where the engine halts, from which on they are found out anew."""
_MASK: Final = (1 << 64) - 1


class Runner:
    """Runs one PE. ``handler`` carries out what a stop is about."""

    TRANSIT = (
        *("_began", "_goal", "_slice", "_slice_began", "_slice_over", "_stops"),
        *("running", "stopping"),
    )
    WIRING = ("watcher",)

    def __init__(self, cpu: UnicornCPU, unit: Sampler, handler: StopHandler) -> None:
        self.cpu = cpu
        self.unit = unit
        self.handler = handler
        self.stopping = False
        """Set by anybody, at any time: the run ends within a slice."""
        self.slice_ended: Signal[[]] = Signal()
        """Told between slices, every few hundredths of a second."""
        self.running = False
        """Whether :meth:`run` is on its way."""
        self.watcher: Watcher | None = None
        """Told of what no hook sees; set by :meth:`watch`."""
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        self._cracker = unit.cracker
        self._blocks = Blocks(cpu.hooks, unit.cracker)
        self._latch = Latch(cpu, unit.cracker)
        self._population = Population(cpu, unit, self._blocks, self._latch)
        self._probes = Probes(cpu, unit, self._blocks)
        self._slice = _FIRST_SLICE
        self._batch = _BATCH
        """How many samples the hook may take by itself before it stops: twice as many as it took
        the last time, as distances that nobody uses are worked out in vain."""
        self._model = cpu.model
        if self._model is not None:
            self._model.step_by_step(False)
        self._slice_over = False
        self._slice_began = self._stops = 0
        self._began = 0.0
        self._goal = NEVER_HAPPENS
        self._slice_horizon = Horizon(
            lambda: self._slice_began + self._slice, self._look_around, exact=False
        )
        self.horizons = [
            Horizon(lambda: handler.platform.deadline, self._happen),
            Horizon(lambda: self._goal, lambda: Ending.LIMIT),
            self._slice_horizon,
        ]
        """What ends a run of the engine, the next chosen operation apart. What is due first goes
        first; whoever has another reason adds it."""
        if unit.records_previous_target:
            cpu.hooks.follow_flow()
        handler.asked_to_stop = lambda: self.stopping
        handler.execute_one = self._execute_one
        self._runs = EngineRuns(cpu, unit, handler, self._population)
        self._after: Final[dict[Stop, Callable[[Stop, int], None]]] = {
            Stop.NONE: self._after_halt,
            Stop.BUDGET: self._after_budget,
            Stop.EXCEPTION: self._within_block,
            Stop.SYSTEM: self._within_block,
            Stop.UNMAPPED: self._within_block,
            Stop.ACCESS: self._within_block,
            Stop.NOTICED: self._nothing,
            Stop.UNSEEN: self._after_unseen,
            Stop.INTERRUPT: self._after_interrupt,
            Stop.TRAP: self._after_trap,
            Stop.MISALIGNED: self._nothing,
            Stop.WRONG_PATH: self._nothing,
            Stop.UNTRANSLATED: self._after_untranslated,
        }

    def watch(self, watcher: Watcher) -> None:
        """Have ``watcher`` told, from the next run on."""
        self.watcher = self._runs.watcher = watcher
        self.handler.controls.watch_order()

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run from the PE's PC on: at most ``operations``, and not the one at ``until``."""
        self.running = True
        try:
            with surviving_aborts(lib.uc_emu_start):
                return self._run_on(operations, until)
        finally:
            self.running = False
            if self.watcher is not None:
                self.watcher.paused()

    def _run_on(self, operations: int | None, until: int) -> Ending:
        cpu = self.cpu
        handler = self.handler
        handler.ending = None
        self._goal = NEVER_HAPPENS if operations is None else cpu.executed + operations
        if until != NEVER:
            self._engine.forget_code(until, until + 4)
        cpu.forget_el()
        self.unit.refresh()
        self._begin_slice()
        while handler.ending is None:
            executed = cpu.executed
            horizon = arrived(self.horizons, executed)
            pc = cpu.pc
            if pc == until and (horizon is None or not horizon.exact):
                return Ending.UNTIL
            if horizon is None and (self._slice_over or self.stopping):
                horizon = self._slice_horizon
            if horizon is not None:
                ending = horizon.arrive()
                if ending is not None:
                    return ending
                continue
            self._stops += 1
            self._slice_over = self._stops > _STOPS
            slice_left = nearest(self.horizons, exact=False) - executed
            ends = nearest(self.horizons, exact=True)
            left = None if ends == NEVER_HAPPENS else ends - executed
            if (cpu.illegal or pc & self._state.pc_mask) and self._cannot_execute(pc):
                continue
            if pc in self._engine.halts and self._cannot_translate(pc):
                continue
            if handler.memory.letting_through:
                self._go(1, 1, until)
                handler.memory.close()
            else:
                self._go(slice_left, left, until)
        if handler.ending is Ending.INTERRUPTED:
            self.stopping = False
        return handler.ending

    def _cannot_execute(self, pc: int) -> bool:
        """Take what comes before any operation at ``pc``; False if that is for the engine."""
        if self._state.deliver and self.handler.interrupts.take():
            self.unit.refresh()
        elif pc & 3:
            self._carry_out(Stop.MISALIGNED)
        elif self.cpu.virtual.code(pc, 1) is None:
            return False  # an abort of the fetch goes before PSTATE.IL
        else:
            self._at_operation(Stop.TRAP)
        return True

    def _cannot_translate(self, pc: int) -> bool:
        """Carry out the operation at ``pc``, where the engine halts; False if it need not."""
        if self._state.deliver and self.handler.interrupts.take():
            self.unit.refresh()
            return True
        words = self.cpu.virtual.code(pc, 1)
        if words is None or not translation_fails(words[0]):
            self._engine.halt_at(self._engine.halts - {pc})
            return False
        self._at_operation(Stop.TRAP)
        return True

    def _look_for_untranslatable(self) -> None:
        """The engine gave up on the block at the PC: have it halt before the operation.

        And of all such operations of the page, as each failure costs the engine something.
        """
        pc = self.cpu.pc
        operations = min((_PAGE - pc % _PAGE) // 4, CODE_WORDS)
        words = self.cpu.virtual.code(pc, operations) or ()
        found = {pc + 4 * n & _MASK for n, word in enumerate(words) if translation_fails(word)}
        if not found or self._engine.exhausted:
            self.handler.status = ABORTED
            self.handler.idle()
            return
        halts = self._engine.halts
        self._engine.halt_at(found | (halts if len(halts) < _HALTS else set()))

    def _happen(self) -> None:
        """Something of the platform's is due: a timer, a device."""
        self.handler.platform.happen()

    def _begin_slice(self) -> None:
        self._slice_over = False
        self._stops = 0
        self._slice_began = self.cpu.executed
        self._began = time.monotonic()

    def _look_around(self) -> Ending | None:
        """A slice is over: look at the clock, the user and the limits."""
        self._adapt(self.cpu.executed - self._slice_began, time.monotonic() - self._began)
        self._begin_slice()
        self.slice_ended()
        if self.stopping:
            self.stopping = False
            return Ending.INTERRUPTED
        return None

    def _adapt(self, operations: int, seconds: float) -> None:
        """Size slices by the guest's speed, which was that many operations in ``seconds``."""
        fitting = int(operations * _SLICE_SECONDS / max(seconds, 1e-6))
        self._slice = max(_SLICES[0], min(_SLICES[1], fitting, self._slice * 4))

    def _go(self, slice_left: int, left: int | None, until: int) -> None:
        """Run the engine once, or thrice around an exact step, and do what its stop asks for.

        ``slice_left`` operations is where to stop for a look, at a block's boundary; ``left``
        where to stop exactly.
        """
        cpu = self.cpu
        unit = self.unit
        state = self._state
        began = cpu.executed
        exact = left is not None and left <= slice_left
        ends = began + (left if left is not None and exact else slice_left)
        self._population.look_at_translations()
        state.horizon = ends
        state.exact = exact
        budget, members, itself = ends - began, UNBOUNDED, False
        if unit.enabled:
            hit = unit.until_hit()
            if self._cracker is not None:
                members, itself = hit - 1, self._plan_samples()
            elif hit <= budget:
                budget, itself = hit - 1, self._plan_samples()
        stop = self._runs.run(budget, until, itself, members)
        self._settle(stop)
        if stop is not Stop.BUDGET or state.block & state.pc_mask:
            return
        # before a block that holds a chosen operation, or the end, or for want of room
        ahead = ends - cpu.executed
        block = int(state.block_operations)
        k = self._chosen_place()
        if exact and k is not None and k >= ahead:
            k = None
        ended = exact and ahead < block
        first = k + 1 if k is not None else ahead if ended else 0
        if state.watch & MARKS_OF_HOST_OPERATIONS and self._trap(first):
            return
        if k is not None:
            if k > 0:
                # it is then the first of a block of its own, which may well have a plan
                self._run_exactly(k)
            else:
                self._step()
        elif ended:
            self._run_exactly(ahead)
        elif ahead < block:
            self._slice_over = True

    def _chosen_place(self) -> int | None:
        """Where in the block before which the engine stands the next chosen operation is."""
        unit = self.unit
        if not unit.enabled:
            return None
        hit = unit.until_hit()
        block = self._begun()
        if block is None or hit > len(block.plans):
            return None
        self._probes.consider(self._state.block & _MASK, block, hit - 1)
        return block.plans[hit - 1].place

    def _plan_samples(self) -> bool:
        """Let the compiled hook take samples by itself, where it may.

        It may not where the next sample needs a stop: its record may cause a management event, its
        block may hold what somebody watches for, or the core model is to tell what it alone did.
        """
        unit = self.unit
        room = min(self._batch, unit.quiet_records())
        if not room or self._runs.watched or self._model is not None:
            return False
        self.cpu.hooks.samples.allow(unit.following(room))
        return True

    def _run_exactly(self, operations: int) -> bool:
        """Run a number of operations of the block before which the engine stands.

        False if something came in between.
        """
        if not operations:
            return True
        target = self.cpu.pc + 4 * operations & _MASK
        self._engine.forget_code(self.cpu.pc, self.cpu.pc + 4)
        stop = self._runs.run(operations, target, straight=True)
        if stop is Stop.NONE and self.cpu.pc == target and not self.handler.status:
            self._population.count_all()
            return True
        self._settle(stop)
        return False

    def _step(self) -> None:
        """Execute the next operation, which is the chosen one or one that is watched for."""
        cpu = self.cpu
        operations = self._latch.begin(cpu.pc)
        first = operations[0]
        if self._model is not None:
            self._model.begin()
        if self._runs.checking():
            self._runs.learn(1)
        self._engine.forget_code(first.pc, first.pc + 4)
        stop = self._runs.run(1, first.pc + 4 & _MASK, straight=True)
        if self.handler.memory.lets_through(stop):
            self._state.budget += 1
            self._population.pass_by(-len(operations))
            stop = self._runs.run(1, first.pc + 4 & _MASK, straight=True)
        self.handler.memory.close()
        if stop in AT_AN_OPERATION and not self._runs.finished(stop):
            self._state.budget += 1
            self._population.pass_by(-len(operations))
            self._at_operation(stop)
            return
        if first.instruction.mark is Mark.ERET:
            cpu.returned(first.el)
        call = stop is Stop.EXCEPTION and self._state.interrupt in CALLS
        for member in self._population.select(len(operations)):
            operation = operations[member]
            operation.exception = call
            if not call:
                self._latch.finish(operation, cpu.pc)
            self._population.complete(operation)
        self._population.take_wrong_path()
        if first.instruction.mark is Mark.ERET:
            self._state.notice = 1
        self._notices()
        self._tell(first)
        if stop in AT_AN_OPERATION:
            self._carry_out(stop)
        elif first.instruction.mark is Mark.WFI or self.handler.status:
            self.handler.idle()

    def _tell(self, operation: Operation) -> None:
        """An operation was executed by itself: maybe somebody watches for it."""
        if self.watcher is not None and operation.instruction.mark in ORDERING:
            self.watcher.executed(operation.instruction.mark, operation.pc)

    # After a run

    def _settle(self, stop: Stop) -> None:
        """Count what has been executed, complete samples that are due, carry the stop out."""
        done = self._count_executed(stop)
        self._complete_samples(stop, done)
        state = self._state
        if state.notice == NOTICE_RETURN and done == state.block_operations:
            self.cpu.returned(int(state.level))
        self._notices()
        self._after[stop](stop, done)

    def _count_executed(self, stop: Stop) -> int:
        """Give back operations of the last block that were not executed; how many of it were."""
        state = self._state
        begun = int(state.block_operations)
        if stop not in AT_AN_OPERATION and stop is not Stop.NONE:
            return begun
        done = self._runs.executed_of_block(stop)
        state.budget += begun - done
        if done < begun:  # what comes next is no branch's target, wherever a block begins
            state.flow_next = signed(state.block + 4 * done & _MASK)
            if self._cracker is not None and self.unit.enabled:
                self._population.pass_by(-self._population.weight_from(done))
        return done

    def _complete_samples(self, stop: Stop, done: int) -> None:
        """Complete what the hook noted, and the sample of the last block if that came so far."""
        samples = int(self._state.samples_in_ring)
        if samples:
            self._batch = max(_BATCH, min(2 * samples, SAMPLES))
            self._population.complete_noted()
        if self._state.pending:
            self._population.complete_pending(stop, done)
        self._population.count_all()

    # What each stop asks for, told how many operations of the last block were executed

    def _nothing(self, stop: Stop, done: int) -> None:
        """The next run begins with it: all that the stop is for has been done."""

    def _after_halt(self, stop: Stop, done: int) -> None:
        if self.handler.status or not self._runs.halted():
            self.handler.idle()

    def _after_budget(self, stop: Stop, done: int) -> None:
        if self.unit.enabled or self._state.watch:
            self._after_unseen(stop, done)

    def _after_unseen(self, stop: Stop, done: int) -> None:
        if self._begun() is None:
            self._enter_block()

    def _after_interrupt(self, stop: Stop, done: int) -> None:
        self.handler.interrupts.take()
        self.unit.refresh()

    def _after_trap(self, stop: Stop, done: int) -> None:
        operations = int(self._state.block_operations)
        if not self._trap(operations):
            # what the block is marked for traps at another Exception level
            self._run_exactly(operations)

    def _after_untranslated(self, stop: Stop, done: int) -> None:
        self._look_for_untranslatable()

    def _within_block(self, stop: Stop, done: int) -> None:
        """The engine stopped at an operation, which the host carries out."""
        if self.handler.memory.lets_through(stop):
            return
        if stop is Stop.ACCESS and self.handler.controls.alignment.fault() is None:
            self._runs.learn(max(int(self._state.block_operations) - done, 1))
        elif self._runs.finished(stop):
            self._carry_out(stop)
        else:
            self._at_operation(stop)

    def _at_operation(self, stop: Stop) -> None:
        """The engine stands before an operation that the host carries out."""
        cpu = self.cpu
        if stop is Stop.TRAP and self._model is not None:
            self._model.begin()  # the engine has not tried it
        # at an exception the PC may no longer be the operation's: hooks of others saw it, too
        pc = self._state.pc & _MASK if stop is Stop.EXCEPTION else cpu.pc
        members = self._population.members(pc)
        self._population.pass_by(members)
        cpu.ahead = -1
        selected = self._population.select(members)
        cpu.ahead = 0
        begun = self._latch.begin(pc, stop is not Stop.TRAP) if selected else []
        operations = [begun[member] for member in selected]
        self._state.budget -= 1
        raised = self.handler.handle(stop)
        if not raised and cpu.pc == pc + 4 & _MASK:
            cpu.advance_step()
        self._state.flow_next = signed(pc + 4 & _MASK)
        system = self.handler.system
        redirected, system.redirected = system.redirected, None
        for operation in operations:
            if redirected is not None:
                self._latch.redirected(operation, redirected, self.unit.profiles(EL2))
            if raised:
                self._latch.raised(operation, translated=stop is Stop.ACCESS)
            else:
                self._latch.finish(operation, self.cpu.pc)
            self._population.complete(operation)
        if self.watcher is not None and stop is Stop.TRAP and not raised:
            words = cpu.virtual.code(pc, 1)
            if words and decode(words[0]).mark is Mark.ERET:
                self.watcher.executed(Mark.ERET, pc)
        self.unit.refresh()

    def _execute_one(self) -> None:
        """Have the engine execute the operation at the PC, which has been counted."""
        executed = self.cpu.executed
        self._run_alone(self.cpu.pc)
        self._state.granted = executed + self._state.budget

    def _run_alone(self, pc: int) -> None:
        self._state.begin(1)
        self._engine.forget_code(pc, pc + 4)
        self._engine.run(pc, pc + 4 & _MASK)

    def _carry_out(self, stop: Stop) -> None:
        self.handler.handle(stop)
        self.unit.refresh()

    def _notices(self) -> None:
        """An ERET or a write to a steering register, after everything before it was counted."""
        state = self._state
        if not state.notice:
            return
        state.notice = 0
        self.cpu.forget_el()
        if state.stale_code:
            # the engine sees stores by the guest to code, but not through every mapping of it
            state.stale_code = 0
            self._engine.forget_all_code()
        if state.controls_written:
            if state.controls_written & CONTROLS_WRITTEN:
                self.handler.controls_written()
                self._population.reload()
            else:
                self.cpu.steering.resync_cells()
                self.unit.recollect()
            state.controls_written = 0
            if self.watcher is not None:
                self.watcher.controls_written(self.cpu.pc - 4 & _MASK)
        self.handler.returned()
        self.unit.refresh()

    def _trap(self, operations: int) -> bool:
        """Run the block before which the engine stands, up to what is not for the engine.

        Or to what somebody watches for, and do that. False, and nothing has run, if there is
        neither among its first ``operations``.
        """
        block = self._begun()
        assert block is not None
        is_host_operation = self.handler.controls.is_host_operation
        watched = distance(self.watcher, block.code)
        k = next((k for k, i in enumerate(block.code[:watched]) if is_host_operation(i)), watched)
        if k >= min(operations, len(block.code)):
            return False
        if self._run_exactly(k):
            if is_host_operation(block.code[k]):
                self._at_operation(Stop.TRAP)
            else:
                self._step()
        return True

    def _begun(self) -> Block | None:
        """What is known of the block that began last, or before which the engine stopped."""
        state = self._state
        return self._blocks.find(state.block & _MASK, int(state.block_operations))

    def _enter_block(self) -> None:
        state = self._state
        address = state.block & _MASK
        words = self.cpu.virtual.code(address, int(state.block_operations))
        if words is None:
            raise RuntimeError(f"the engine runs code at {address:#x} that cannot be read")
        self._blocks.enter(address, words)
