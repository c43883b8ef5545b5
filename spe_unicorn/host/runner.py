"""The two-speed loop: far from a sample the guest runs natively, near it exactly.

Before each run of the engine the runner grants a budget: the operations in front of the next
chosen one, or in front of a limit. The compiled hook stops the engine in front of the block that
would exceed it. From there the chosen operation is either described by its block's plan, which
lets the block run (see ``blocks``), or the runner steps to it. What comes out is the same either
way, and the same as with ``host.reference``, which does nothing but step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.syndromes import EC
from spe_unicorn.host.blocks import Block, Blocks, cracked
from spe_unicorn.host.cpu import UnicornCPU
from spe_unicorn.host.decode import decode
from spe_unicorn.host.engine import NEVER
from spe_unicorn.host.handling import CALLS, NEVER_HAPPENS, PREFETCH_ABORT, Ending, StopHandler
from spe_unicorn.host.latch import Latch
from spe_unicorn.host.native_state import (
    MARK_ORDER,
    MARKS_OF_OURS,
    NOTICE_RETURN,
    SAMPLES,
    STEERED,
    UNBOUNDED,
    Stop,
    signed,
    slot_of,
)
from spe_unicorn.host.noted import Noted
from spe_unicorn.host.watching import ORDERING, Watcher, distance
from spe_unicorn.host.wrong_path import WrongPaths
from spe_unicorn.spe.sampler import Sampler

_FIRST_SLICE: Final = 1 << 20
_SLICES: Final = (1 << 12, 1 << 28)
"""Least and most operations between two looks at the clock, the user and the limits."""
_SLICE_SECONDS: Final = 0.03
"""What a slice should take, so that Ctrl-C is served within a tenth of a second."""
_STOPS: Final = 1 << 10
"""Stops of the engine after which a slice is over all the same: each costs microseconds."""
_ACCESSES: Final = 1 << 8
"""Accesses of devices after which it is looked whether somebody wants something."""
_MOST_PROBES: Final = 256
_PROBE_INTERVAL: Final = 1 << 14
"""Operations between samples from which on probes cost more than they save."""
_MASK: Final = (1 << 64) - 1
AT_AN_OPERATION: Final = frozenset({Stop.EXCEPTION, Stop.SYSTEM, Stop.UNMAPPED, Stop.ACCESS})
"""Stops in front of an operation in the middle of a block, or, for calls, behind it."""
_WITHIN: Final = frozenset({*AT_AN_OPERATION, Stop.NONE})
"""Stops that are not in front of a block which has not been counted."""


class Runner:
    """Runs one PE. ``handler`` carries out what a stop is about.

    The members of the population are operations, or micro-operations where ``unit`` has a cracker.
    Operations are counted down in the hook's budget. Micro-operations are counted beside them, as
    time and limits are in operations.
    """

    def __init__(self, cpu: UnicornCPU, unit: Sampler, handler: StopHandler) -> None:
        self.cpu = cpu
        self.unit = unit
        self.handler = handler
        self.stopping = False
        """Set by anybody, at any time: the run ends within a slice."""
        self.on_slice: Callable[[], None] | None = None
        """Called between slices, every few hundredths of a second."""
        self.running = False
        """Whether :meth:`run` is on its way."""
        self.watcher: Watcher | None = None
        """Told of what no hook sees; set by :meth:`watch`."""
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        self._cracker = unit.cracker
        self._blocks = Blocks(cpu.hooks, unit.cracker)
        self._noted = Noted(self._blocks.instructions)
        self._latch = Latch(cpu, unit.cracker)
        self._wrong_paths: WrongPaths | None = None
        if unit.cracker is not None and unit.wrong_path:
            self._wrong_paths = WrongPaths(cpu, unit.cracker, unit.wrong_path)
        self._known_weights: dict[int, int] = {}
        self._row: list[int] | None = None
        """How many members the operations are that run without being weighed by the hook."""
        self._slice = _FIRST_SLICE
        self._model = cpu.model
        if self._model is not None:
            self._model.step_by_step(False)
        self._probes: set[int] = set()
        self._stepped: set[int] = set()
        self._slice_over = False
        self._target = NEVER
        self._epoch = int(self._state.epoch)
        if unit.records_previous_target:
            cpu.hooks.follow_flow()
        self._plain = (
            self._model is None
            and self._cracker is None
            and cpu.secure_memory is None
            and not cpu.hooks.follows_flow
        )
        """Whether nothing but the counts has to be told of an operation."""
        self._counted = self._position
        """Members gone by of which the unit has been told."""

    @property
    def _watched(self) -> bool:
        """Whether somebody watches now for what no hook sees."""
        return self.watcher is not None and self.watcher.tracking

    def watch(self, watcher: Watcher) -> None:
        """Have ``watcher`` told, from the next run on."""
        self.watcher = watcher
        self.handler.controls.watch_order()

    def run(self, operations: int | None = None, until: int = NEVER) -> Ending:
        """Run from the PE's PC on: at most ``operations``, and not the one at ``until``."""
        self.running = True
        try:
            return self._run_on(operations, until)
        finally:
            self.running = False
            if self.watcher is not None:
                self.watcher.paused()

    def _run_on(self, operations: int | None, until: int) -> Ending:
        cpu = self.cpu
        handler = self.handler
        handler.ending = None
        platform = handler.platform
        goal = None if operations is None else cpu.executed + operations
        if until != NEVER:
            self._engine.forget_code(until, until + 4)
        cpu.forget_el()
        self._refresh()
        slice_began = cpu.executed
        slice_ends = slice_began + self._slice
        stops = 0
        began = time.monotonic()
        while handler.ending is None:
            executed = cpu.executed
            if executed >= platform.deadline:
                platform.happen()
                continue
            if goal is not None and executed >= goal:
                return Ending.LIMIT
            pc = cpu.pc
            if pc == until:
                return Ending.UNTIL
            stops += 1
            if executed >= slice_ends or self._slice_over or stops > _STOPS or self.stopping:
                self._slice_over = False
                stops = 0
                now = time.monotonic()
                self._adapt(executed - slice_began, now - began)
                slice_began = executed
                slice_ends = executed + self._slice
                began = now
                if self.on_slice is not None:
                    self.on_slice()
                if self.stopping:
                    self.stopping = False
                    return Ending.INTERRUPTED
            ends = platform.deadline if goal is None else min(goal, platform.deadline)
            left = None if ends == NEVER_HAPPENS else ends - executed
            if (cpu.illegal or pc & self._state.pc_mask) and self._cannot_execute(pc):
                continue
            if handler.memory.letting_through:
                self._go(1, 1, until)
                handler.memory.close()
            else:
                self._go(slice_ends - executed, left, until)
        return handler.ending

    def _cannot_execute(self, pc: int) -> bool:
        """Take what comes in front of any operation at ``pc``; False if that is for the engine."""
        if self._state.deliver and self.handler.interrupts.take():
            self._refresh()
        elif pc & 3:
            self._carry_out(Stop.MISALIGNED)
        elif self.cpu.read_code(pc, 1) is None:
            return False  # an abort of the fetch goes before PSTATE.IL
        else:
            self._at_operation(Stop.TRAP)
        return True

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
        self._translations()
        state.horizon = ends
        state.exact = exact
        budget, members, gap_floor = ends - began, UNBOUNDED, 0
        if unit.enabled:
            hit = unit.until_hit()
            if self._cracker is not None:
                members, gap_floor = hit - 1, self._plan_samples()
            elif hit <= budget:
                budget, gap_floor = hit - 1, self._plan_samples()
        stop = self._run(budget, until, gap_floor, members)
        self._settle(stop)
        if stop is not Stop.BUDGET or state.block & state.pc_mask:
            return
        # in front of a block that holds a chosen operation, or the end, or for want of room
        ahead = ends - cpu.executed
        block = int(state.block_operations)
        k = self._chosen_place()
        if exact and k is not None and k >= ahead:
            k = None
        ended = exact and ahead < block
        first = k + 1 if k is not None else ahead if ended else 0
        if state.watch & MARKS_OF_OURS and self._trap(first):
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
        """Where in the block in front of which the engine stands the next chosen operation is."""
        unit = self.unit
        if not unit.enabled:
            return None
        hit = unit.until_hit()
        block = self._begun()
        if block is None or hit > len(block.plans):
            return None
        self._consider_probe(self._state.block & _MASK, block, hit - 1)
        return block.plans[hit - 1].place

    def _consider_probe(self, start: int, block: Block, member: int) -> None:
        """Put a probe at an operation that has to be stepped to for the second time.

        A probe costs a few nanoseconds whenever its operation runs, a step some tens of
        microseconds whenever it is sampled: worth it if samples are not too far apart.
        """
        if self._model is not None or not block.suits_probe(member):
            return
        address = start + 4 * block.plans[member].place & _MASK
        if address in self._probes:
            self._blocks.probe(start, block, member)
        elif address in self._stepped:
            if len(self._probes) < _MOST_PROBES and min(self.unit.following(1)) < _PROBE_INTERVAL:
                self._probes.add(address)
                self.cpu.hooks.probe(address)
                self._blocks.probe(start, block, member)
        else:
            self._stepped.add(address)

    def _plan_samples(self) -> int:
        """Let the compiled hook take samples by itself; how far apart at least they are.

        0 where the next sample needs a stop: its record may cause a management event, its block may
        hold what somebody watches for, or the core model is to tell what it alone did.
        """
        unit = self.unit
        room = min(SAMPLES, unit.quiet_records())
        if not room or self._watched or self._model is not None:
            return 0
        gaps = unit.following(room)
        self.cpu.hooks.gaps[: len(gaps)] = gaps
        self._state.room = len(gaps)
        return min(gaps) - 1

    def _run(
        self,
        budget: int,
        until: int,
        gap_floor: int = 0,
        members: int = UNBOUNDED,
        *,
        watch: bool = True,
    ) -> Stop:
        """Grant ``budget`` operations and run the engine until something stops it.

        Without ``watch`` they are so many operations in a row from the PC on.
        """
        state = self._state
        state.granted += budget - state.budget
        state.budget = budget
        state.gap_floor = gap_floor
        self.cpu.forget_el()
        state.watch = state.entries = 0
        collects = self.watcher is not None or True in self.unit.enabled_at
        if collects and not state.collects:
            self.cpu.steering.look_again()
        state.collects = collects
        if watch:
            watched = self._watched
            state.watch = self.handler.controls.levels.watch(self.unit.enabled_at, watched)
            if watched:
                state.watch |= MARK_ORDER
        state.checking = self._checking()
        self._row = None
        position = self._position
        weigh = self._cracker is not None and watch and self.unit.enabled
        state.weigh = weigh
        state.speculates = self._wrong_paths is not None and self.unit.enabled
        if self._cracker is not None:
            # the hook takes weights away from this even where they do not count
            state.members_granted, state.members = position + members, members
            if not watch:
                self._row = self._weights(self.cpu.pc, budget)
        if not gap_floor:
            state.room = 0
        state.look_special()
        self._flow()
        state.stop = state.probe = 0
        state.gap_epoch = state.epoch
        self._target = until
        self.handler.status = self.cpu.execute(until)
        if state.stop == Stop.UNMAPPED and watch and self._plain:
            self._answer_devices(until)
        if state.notice == NOTICE_RETURN:
            self.cpu.left_from(int(state.level))
        else:
            self.cpu.forget_el()
        if until != NEVER and state.stop == Stop.EXCEPTION and self._trapped_at(until):
            state.stop = 0
            self.cpu.pc = until
        state.weigh = 0
        if self._cracker is not None and not weigh:
            state.members_granted = position + state.members
        if self._row is not None:
            self._pass_by(sum(self._row[: budget - int(state.budget)]))
        stop = Stop(state.stop)
        if self._model is not None:
            whole = stop in _WITHIN and self._executed_of_block(stop) == state.block_operations
            pc = state.pc & _MASK if stop is Stop.EXCEPTION else self.cpu.pc
            self._model.stopped(whole, pc)
        return stop

    def _answer_devices(self, until: int) -> None:
        """Go on with the run behind accesses that are nobody's matter but a device's."""
        state = self._state
        platform = self.handler.platform
        deadline = platform.deadline
        for _ in range(_ACCESSES):
            self.cpu.forget_el()
            if state.pending or state.notice or state.weigh:
                return
            if not self.handler.memory.plain_access(self.cpu.pc):
                return
            if platform.deadline != deadline:
                # what comes next is to be worked out anew
                state.granted -= state.budget
                state.budget = state.gap_floor = 0
            state.stop = 0
            self.handler.status = self.cpu.execute(until)
            if state.stop != Stop.UNMAPPED:
                return

    def _flow(self) -> None:
        """Say what holds for the run that begins, for those who follow the program flow."""
        if self.cpu.hooks.follows_flow:
            self._state.flow_enabled = self.unit.enabled
            self._state.flow_el = self.cpu.el

    def _trapped_at(self, until: int) -> bool:
        """Whether the engine's way to end at ``until``, which is a WFI of its own, was trapped.

        The exception then seems to be that of the operation in front, which has been executed.
        """
        cpu = self.cpu
        if cpu.pc + 4 & _MASK != until:
            return False
        syndrome = cpu.engine_exception().record.syndrome
        if syndrome is None or syndrome.ec != EC.WFxTrap:
            return False
        words = cpu.read_code(cpu.pc, 1)
        return words is not None and decode(words[0]).mark is not Mark.WFI

    def _run_exactly(self, operations: int) -> bool:
        """Run a number of operations of the block in front of which the engine stands.

        False if something came in between.
        """
        if not operations:
            return True
        target = self.cpu.pc + 4 * operations & _MASK
        self._engine.forget_code(self.cpu.pc, self.cpu.pc + 4)
        stop = self._run(operations, target, watch=False)
        if stop is Stop.NONE and self.cpu.pc == target and not self.handler.status:
            self._count_all()
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
        if self._checking():
            self._learn(1)
        self._engine.forget_code(first.pc, first.pc + 4)
        stop = self._run(1, first.pc + 4 & _MASK, watch=False)
        if self.handler.memory.lets_through(stop):
            self._state.budget += 1
            self._pass_by(-len(operations))
            stop = self._run(1, first.pc + 4 & _MASK, watch=False)
        self.handler.memory.close()
        if stop in AT_AN_OPERATION and not self._finished(stop):
            self._state.budget += 1
            self._pass_by(-len(operations))
            self._at_operation(stop)
            return
        if first.instruction.mark is Mark.ERET:
            cpu.returned(first.el)
        call = stop is Stop.EXCEPTION and self._state.interrupt in CALLS
        for member in self._select(len(operations)):
            operation = operations[member]
            operation.exception = call
            if not call:
                self._latch.finish(operation, cpu.pc)
            self._complete(operation)
        self._take_wrong_path()
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

    def _finished(self, stop: Stop) -> bool:
        """Whether the last operation of the block that began last has been executed."""
        state = self._state
        if stop is Stop.EXCEPTION and state.interrupt in CALLS:
            return True
        if stop is Stop.EXCEPTION and state.interrupt == PREFETCH_ABORT:
            return True
        return stop is Stop.UNMAPPED and state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED

    # After a run

    def _settle(self, stop: Stop) -> None:
        """Count what has been executed, complete a sample that is due, carry the stop out."""
        state = self._state
        at_operation = stop in AT_AN_OPERATION
        begun = int(state.block_operations)
        done = begun
        if at_operation or stop is Stop.NONE:
            done = self._executed_of_block(stop)
            state.budget += begun - done
            if done < begun:  # what comes next is no branch's target, wherever a block begins
                state.flow_next = signed(state.block + 4 * done & _MASK)
            if self._cracker is not None and done < begun and self.unit.enabled:
                self._pass_by(-self._weight_from(done))
        if state.noted:
            self._complete_noted()
        if state.pending:
            self._complete_pending(stop, done)
        self._count_all()
        if state.notice == NOTICE_RETURN and done == begun:
            self.cpu.returned(int(state.level))
        self._notices()
        if stop is Stop.UNSEEN:
            if self._begun() is None:
                self._enter_block()
        elif stop is Stop.INTERRUPT:
            self.handler.interrupts.take()
            self._refresh()
        elif stop is Stop.TRAP:
            if not self._trap(int(state.block_operations)):
                raise RuntimeError("the engine stopped for an operation that is its own")
        elif stop is Stop.BUDGET:
            looked_at = self.unit.enabled or state.watch
            if looked_at and self._begun() is None:
                self._enter_block()
        elif stop is Stop.NONE:
            if self.cpu.pc != self._target or self.handler.status:
                self.handler.idle()
        elif self.handler.memory.lets_through(stop):
            pass  # the next run begins with it
        elif stop is Stop.ACCESS and self.handler.controls.alignment.fault() is None:
            self._learn(max(begun - done, 1))
        elif at_operation:
            if self._finished(stop):
                self._carry_out(stop)
            else:
                self._at_operation(stop)

    def _checking(self) -> int:
        """Which alignment checks apply to the next operation."""
        alignment = self.handler.controls.alignment
        return alignment.at(self.cpu.el) if alignment.active else 0

    def _learn(self, operations: int) -> None:
        """What the hook in front of operations has to know of the next ones."""
        self.handler.controls.alignment.learn(self.cpu.pc, operations)

    def _executed_of_block(self, stop: Stop) -> int:
        """How many operations of the block that began last were executed before the stop."""
        state = self._state
        begun = int(state.block_operations)
        pc = state.pc if stop is Stop.EXCEPTION else self.cpu.pc
        if stop is Stop.EXCEPTION:
            whole = state.interrupt == PREFETCH_ABORT
        elif stop is Stop.UNMAPPED:
            whole = state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED
        else:
            whole = stop is Stop.NONE and pc == self._target
        if whole:
            return begun
        index = int(pc - state.block & _MASK) >> 2
        if stop is Stop.EXCEPTION and state.interrupt not in CALLS:
            # a user's hook may have moved the PC on; the operation is in the block all the same
            return min(begun - 1, index)
        return min(begun, index)

    def _complete_noted(self) -> None:
        """Complete the samples that the compiled hook took by itself, in order."""
        cpu = self.cpu
        state = self._state
        hooks = cpu.hooks
        instructions = self._blocks.instructions
        rows = hooks.samples[: state.noted]
        state.noted = 0
        executed, skipped = cpu.executed, int(state.skipped)
        self._refresh()  # they may be of several Exception levels
        members = int(rows[-1, 8]) - self._counted
        if self.unit.complete_all(self._noted.described(rows, skipped), instructions, members):
            self._counted += members
            return
        for row in rows.tolist():
            cpu.ahead = executed - (row[2] - skipped + 1)
            if self._count(row[8] - self._counted):
                self.unit.complete(self._latch.sampled(instructions[row[0]], row))
        cpu.ahead = 0

    def _complete_pending(self, stop: Stop, done: int) -> None:
        """The sampled operation's block ran, ``done`` operations of it at least."""
        state = self._state
        member = int(state.pending) - 1
        state.pending = 0
        block, start = self._blocks.at(int(state.slot))
        plan = block.plans[member]
        k = plan.place
        if k >= done:
            return  # an exception came first, or it is the operation at which the engine stands
        cpu = self.cpu
        behind = done - k - 1
        cpu.ahead = behind
        after = sum(plan.place < done for plan in block.plans[member + 1 :])
        if self._count(self._position - after - self._counted):
            following = cpu.pc if k == len(block.code) - 1 else start + 4 * k + 4 & _MASK
            before = cpu.cycles - behind - 1
            operation = self._latch.describe(plan, start + 4 * k & _MASK, before, following)
            operation.exception = not behind and stop is Stop.EXCEPTION and state.interrupt in CALLS
            self._complete(operation)
        cpu.ahead = 0

    def _at_operation(self, stop: Stop) -> None:
        """The engine stands in front of an operation that the host carries out."""
        cpu = self.cpu
        if stop is Stop.TRAP and self._model is not None:
            self._model.begin()  # the engine has not tried it
        # at an exception the PC may no longer be the operation's: hooks of others saw it, too
        pc = self._state.pc & _MASK if stop is Stop.EXCEPTION else cpu.pc
        members = self._members(pc)
        self._pass_by(members)
        cpu.ahead = -1
        selected = self._select(members)
        cpu.ahead = 0
        begun = self._latch.begin(pc, stop is not Stop.TRAP) if selected else []
        operations = [begun[member] for member in selected]
        self._state.budget -= 1
        raised = self.handler.handle(stop)
        self._state.flow_next = signed(pc + 4 & _MASK)
        system = self.handler.system
        redirected, system.redirected = system.redirected, None
        for operation in operations:
            if redirected is not None:
                self._latch.redirected(operation, redirected, self.unit.profiles(EL2))
            if raised:
                self._latch.raised(operation)
            else:
                self._latch.finish(operation, self.cpu.pc)
            self._complete(operation)
        if self.watcher is not None and stop is Stop.TRAP and not raised:
            words = cpu.read_code(pc, 1)
            if words and decode(words[0]).mark is Mark.ERET:
                self.watcher.executed(Mark.ERET, pc)
        self._refresh()

    def _carry_out(self, stop: Stop) -> None:
        self.handler.handle(stop)
        self._refresh()

    def _complete(self, operation: Operation) -> None:
        """Have the unit make a record, with translations as they are now."""
        self._translations()
        self.unit.complete(operation)
        self._refresh()

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
            self._engine.uc.ctl_flush_tb()
        if state.steered:
            if state.steered & STEERED:
                self.handler.steered()
                self._epoch = int(state.epoch)
                self.unit.reload()
            else:
                self.cpu.steering.look_again()
                self.unit.recollect()
            state.steered = 0
            if self.watcher is not None:
                self.watcher.steered(self.cpu.pc - 4 & _MASK)
        self.handler.returned()
        self._refresh()

    def _translations(self) -> None:
        """Forget translations that guest code has made untrue."""
        if self._state.epoch != self._epoch:
            self._epoch = int(self._state.epoch)
            self.unit.forget_translations()

    def _trap(self, operations: int) -> bool:
        """Run the block in front of which the engine stands, up to what is not for the engine.

        Or to what somebody watches for, and do that. False, and nothing has run, if there is
        neither among its first ``operations``.
        """
        block = self._begun()
        assert block is not None
        ours = self.handler.controls.ours
        watched = distance(self.watcher, block.code)
        k = next((k for k, i in enumerate(block.code[:watched]) if ours(i)), watched)
        if k >= min(operations, len(block.code)):
            return False
        if self._run_exactly(k):
            if ours(block.code[k]):
                self._at_operation(Stop.TRAP)
            else:
                self._step()
        return True

    def _begun(self) -> Block | None:
        """What is known of the block that began last, or in front of which the engine stopped."""
        state = self._state
        return self._blocks.find(state.block & _MASK, int(state.block_operations))

    def _enter_block(self) -> None:
        state = self._state
        address = state.block & _MASK
        words = self.cpu.read_code(address, int(state.block_operations))
        if words is None:
            raise RuntimeError(f"the engine runs code at {address:#x} that cannot be read")
        self._blocks.enter(address, words)

    # Counting

    @property
    def _position(self) -> int:
        """Members of the population gone by, operations that do not count among them."""
        state = self._state
        if self._cracker is None:
            return self.cpu.executed
        return int(state.members_granted - state.members)

    def _pass_by(self, members: int) -> None:
        """So many members went by, or fewer, apart from those that the hook has counted."""
        if self._cracker is not None:
            self._state.members -= members

    def _weights(self, pc: int, operations: int) -> list[int]:
        """How many members each of some operations is; none of them where profiling is disabled."""
        if not self.unit.enabled:
            return [0] * operations
        words = self.cpu.read_code(pc, operations) or ()
        return [self._weight(word) for word in words]

    def _weight(self, word: int) -> int:
        weight = self._known_weights.get(word)
        if weight is None:
            weight = self._known_weights[word] = len(cracked(decode(word), self._cracker))
        return weight

    def _members(self, pc: int) -> int:
        """How many members the operation at ``pc`` is."""
        if self._cracker is None:
            return 1
        return sum(self._weights(pc, 1))

    def _weight_from(self, place: int) -> int:
        """How many members the block that began last has from an operation on."""
        if self._row is not None:
            return sum(self._row[place : self._state.block_operations])
        block, _ = self._blocks.at(slot_of(self._state.block, self._state.block_operations))
        return sum(plan.place >= place for plan in block.plans)

    def _count_all(self) -> None:
        """Tell the unit of everything that has been executed since it was last told."""
        if self._count(self._position - self._counted):
            raise RuntimeError("an operation was chosen that nobody looked at")
        self._take_wrong_path()

    def _take_wrong_path(self) -> None:
        """Count what was begun behind a mispredicted branch, if compiled code has left that to us.

        It takes no time: only the branch itself does.
        """
        if not self._state.wrong:
            return
        assert self._wrong_paths is not None
        walk = self._wrong_paths.take()
        if not self.unit.enabled:
            return
        self._pass_by(len(walk))
        for member in self._select(len(walk)):
            if self._model is not None:
                self._model.begin()  # nothing that the model has seen was done by it
            self._complete(self._latch.misspeculated(*walk[member]))

    def _count(self, members: int) -> bool:
        """Tell the unit of members of its population, if they are; True if the last is sampled."""
        self._counted += members
        return bool(members) and self.unit.enabled and self.unit.advance(members)

    def _select(self, members: int) -> list[int]:
        """Tell the unit of the members that one operation is; which of them are sampled."""
        unit = self.unit
        self._counted += members
        if not unit.enabled:
            return []
        selected = []
        done = 0
        while done < members:
            step = min(unit.until_hit(), members - done)
            done += step
            if unit.advance(step):
                selected.append(done - 1)
        return selected

    def _refresh(self) -> None:
        """Look anew whether profiling is enabled: the Exception level or registers changed."""
        self.unit.refresh()
