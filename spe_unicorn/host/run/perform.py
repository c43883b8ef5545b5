"""Does what ``host.run.decide`` says is to be done after a stop of the engine.

Some of it is an exact run of the engine, of a given number of operations of one block: up to a
horizon, or over a single operation. A stop that ends such a run early is treated as every other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from spe_unicorn.arch.operation import Instruction, Mark, Operation
from spe_unicorn.decode import decode
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.native.marks import MARKS_OF_HOST_OPERATIONS
from spe_unicorn.host.native.requests import Grant
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.ledger import charge
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.accounts import Accounts
from spe_unicorn.host.run.blocks import Block
from spe_unicorn.host.run.chosen import ChosenOperation
from spe_unicorn.host.run.decide import Action, Do, decide, inspect_stop
from spe_unicorn.host.run.horizons import Approach, Horizons
from spe_unicorn.host.run.host_operations import HostOperations
from spe_unicorn.host.run.parts import Parts
from spe_unicorn.host.run.slices import Slices

_MASK: Final = (1 << 64) - 1


class _Step(NamedTuple):
    """An operation that has a run of its own, as it was before that run."""

    instruction: Instruction
    pc: int
    level: int
    operations: list[Operation]
    """What describes its members."""
    members: int


class Performer:
    """Settles the stops of one PE's engine."""

    def __init__(
        self,
        parts: Parts,
        host: HostOperations,
        horizons: Horizons,
        chosen: ChosenOperation,
        slices: Slices,
    ) -> None:
        self._parts = parts
        self._host = host
        self._horizons = horizons
        self._chosen = chosen
        self._slices = slices
        self._accounts = Accounts(parts)
        handler = parts.handler
        self.acts: Final[dict[Do, Callable[[Action], object]]] = {
            Do.NOTHING: lambda action: None,
            Do.IDLE: lambda action: handler.idle(),
            Do.GO_ON_IN_BLOCK: self._go_on_in_block,
            Do.ADD_BLOCK: self._add_block,
            Do.TAKE_INTERRUPT: lambda action: host.take_interrupt(),
            Do.GO_TO_TRAP: self._go_to_trap,
            Do.FIND_UNTRANSLATED: lambda action: host.untranslated.find(),
            Do.STEP: lambda action: self._step_at_event(),
            Do.LEARN: self._learn,
            Do.LET_THROUGH: self._lets_through,
            Do.ADMIT: self._admit,
            Do.END: self._end,
            Do.EXECUTE: lambda action: host.execute(action.report.stop, action.fault),
            Do.CARRY_OUT: lambda action: host.carry_out(action.report.stop),
            Do.REFETCH: lambda action: self.refetch(),
        }
        """What each :class:`Do` does."""

    def after_run(self, report: RunReport) -> None:
        """A run of the engine is over: count it, then do what its stop asks for."""
        self._accounts.count_run(report)
        self._host.catch_up()
        self._parts.handler.controls.check_new_code(self._parts.cpu.pc)
        self.perform(decide(report, inspect_stop(report, self._parts.handler)))

    def perform(self, action: Action) -> None:
        """Do what has been decided."""
        self.acts[action.do](action)

    # Before a block

    def _add_block(self, action: Action) -> bool | None:
        """Add the block before which the engine stands to the table, unless it is known.

        True if it was added, None if its code is not there any more: the stop that came of that
        has been treated.
        """
        report, parts = action.report, self._parts
        if parts.blocks.begun() is not None:
            return False
        words = parts.cpu.virtual.code(report.block, report.operations)
        if words is None:
            self.refetch()
            return None
        parts.blocks.add(report.block, words)
        return True

    def _go_on_in_block(self, action: Action) -> None:
        """Go on to the first horizon in the block before which the engine stands.

        There may be none: the engine may have stopped there because the ring of samples was full.
        """
        report, parts = action.report, self._parts
        added: bool | None = False
        looks_out = parts.state.watch & MARKS_OF_HOST_OPERATIONS or parts.handler.controls.mends
        if parts.unit.enabled or parts.state.watch or looks_out:
            added = self._add_block(action)
        if added is None:
            return
        executed = parts.cpu.executed
        end = executed + report.operations
        found = self._horizons.first_within(end)
        if found is None:
            if self._horizons.nearest()[1] < end:
                self._slices.over = True
            return
        horizon, at = found
        chosen = horizon.approach is Approach.CHOSEN
        if looks_out and self._run_to_host_operation(at - executed + chosen):
            return
        if chosen and added and self._chosen.planned():
            return  # the block is now known, so compiled code may sample the operation by itself
        if at > executed:
            # after this the chosen operation begins a block of its own, whose plan may suffice
            self.run(at - executed)
        elif chosen:
            horizon.arrive()

    def _go_to_trap(self, action: Action) -> None:
        """Execute the next block up to an operation that the host may have to execute."""
        operations = action.report.operations
        if self._run_to_host_operation(operations):
            return
        # no operation traps at this Exception level; the last one may be an ERET
        if self.run(operations - 1):
            self.step()

    def _run_to_host_operation(self, operations: int) -> bool:
        """Run up to the first operation of the block that the host executes, and execute it.

        An operation that an observer watches for, or has to judge, or that has to be mended,
        counts, too: it is stepped over. Return False, with nothing run, if neither is among the
        first ``operations`` of the block before which the engine stands.
        """
        parts = self._parts
        block = self._block_as_it_is(operations)
        is_host_operation = parts.handler.controls.is_host_operation
        alone = parts.watching, parts.counting, parts.mending
        watched = min(each.distance(block.code) for each in alone)
        k = next((k for k, i in enumerate(block.code[:watched]) if is_host_operation(i)), watched)
        if k >= min(operations, len(block.code)):
            return False
        if self.run(k):
            # the operations before it may have rewritten it
            words = parts.cpu.virtual.code(parts.cpu.pc, 1)
            if words is None:
                self.refetch()
            elif not is_host_operation(decode(words[0])):
                self.step()
            elif not self._host.take_step():
                self._host.execute_trapped()
        return True

    def _block_as_it_is(self, operations: int) -> Block:
        """The block before which the engine stands.

        It is added anew if the guest has rewritten it without the maintenance that starts an epoch:
        the engine executes what is there now. ``operations`` is for the message of the RuntimeError
        that is raised if no block has begun.
        """
        parts = self._parts
        block = parts.blocks.begun()
        if block is None:
            raise RuntimeError(f"no block has begun; {operations} operations were to be run of it")
        address = int(parts.state.block) & _MASK
        words = parts.cpu.virtual.code(address, len(block.code))
        if words is None or words == tuple(instruction.word for instruction in block.code):
            return block
        return parts.blocks.add(address, words)

    # At an operation

    def _reads(self) -> bool:
        """Whether the next operation can be read."""
        return self._parts.cpu.virtual.code(self._parts.cpu.pc, 1) is not None

    def _learn(self, action: Action) -> None:
        report = action.report
        self._parts.runs.learn(max(report.operations - report.done, 1))

    def _lets_through(self, action: Action) -> bool:
        """Let the engine execute the operation, if that was decided; True if it was."""
        if action.do is Do.LET_THROUGH:
            self._parts.handler.controls.checks.let_through()
            return True
        return action.do is Do.ADMIT and self._parts.handler.refused.admits()

    def _admit(self, action: Action) -> None:
        if not self._lets_through(action):
            self.perform(action._replace(do=action.refused))

    def _step_at_event(self) -> None:
        """Execute the operation that was taken back as it made an awaited event."""
        model = self._parts.model
        if model is None:
            raise RuntimeError("there is no core model, and one of its events was awaited")
        model.awaited.again()
        try:
            self.step()
        finally:
            model.awaited.over()

    def _end(self, action: Action) -> None:
        self._parts.handler.ending = Ending.WATCHED

    # Runs of an exact number of operations

    def run(self, operations: int) -> bool:
        """Run a number of operations of the block before which the engine stands.

        Return False if another stop came first. That stop has then been treated.
        """
        if operations <= 0:
            return True
        parts = self._parts
        cpu = parts.cpu
        pc = cpu.pc
        if not self._reads():
            self.refetch()
            return False
        target = pc + 4 * operations & _MASK
        parts.engine.forget_code(pc, pc + 4)
        parts.counting.goes_straight(operations)
        report = parts.runs.run(parts.runs.straight(pc, operations))
        if report.stop is Stop.NONE and cpu.pc == target and not report.status:
            parts.counting.ran_straight()
            parts.population.count_all()
            return True
        self.after_run(report)
        return False

    def refetch(self) -> None:
        """The code at the PC cannot be read: have the engine fetch it anew, then treat its stop.

        A guest that changes tables without TLB maintenance may run code that the engine has
        translated before, and whose entry in its TLB has given way to another. From now on the
        tables decide, as they may at any time, so the fetch faults. Raises RuntimeError if the
        engine finds what cannot be read.
        """
        parts, cpu = self._parts, self._parts.cpu
        pc, executed = cpu.pc, cpu.executed
        if parts.model is not None:
            parts.model.end()
        parts.engine.flush_tlb()
        limits = int(parts.state.limit), int(parts.state.horizon)
        self.after_run(parts.runs.run(parts.runs.request(pc, NEVER, limits, Grant(0))))
        if cpu.pc == pc and cpu.executed == executed and parts.handler.ending is None:
            raise RuntimeError(f"the engine runs code at {pc:#x} that cannot be read")

    def step(self) -> None:
        """Execute the operation at the PC: the chosen one, or one that is watched for."""
        parts = self._parts
        cpu = parts.cpu
        pc, executed = cpu.pc, cpu.executed
        words = cpu.virtual.code(pc, 1)
        if words is None:
            self.refetch()
            return
        members = parts.population.members(pc)
        step = _Step(decode(words[0]), pc, cpu.el, parts.describer.begin_sampled(pc), members)
        if parts.model is not None:
            parts.model.begin()
        if parts.runs.checking():
            parts.runs.learn(1)
        parts.engine.forget_code(pc, pc + 4)
        report, action = self._step_over(step)
        # if it has been executed, what is refused is the fetch of the next one
        if not report.finished and self._lets_through(action):
            self._take_back(members)
            report, action = self._step_over(step)
        elif not report.finished and action.do is Do.ADMIT:
            action = action._replace(do=action.refused)
        parts.handler.refused.close()
        if action.do is Do.TAKE_INTERRUPT and cpu.executed == executed:
            # the interrupt comes before the operation
            self._end_for_model()
            self.after_run(report)
        elif report.within and not report.finished:
            self._take_back(members)
            if action.do is Do.END:
                self._end_for_model()
            self.perform(action)
        else:
            parts.mending.executed()
            self._stepped(step, action)

    def _step_over(self, step: _Step) -> tuple[RunReport, Action]:
        """Run one operation, and decide what is to be done after that."""
        self._parts.mending.begin(step.instruction.word)
        report = self._parts.runs.run(self._parts.runs.straight(step.pc, 1, awaits=False))
        return report, decide(report, inspect_stop(report, self._parts.handler))

    def _take_back(self, members: int) -> None:
        """Take back an operation of ``members`` members that was granted and not executed."""
        charge(self._parts.state, -1)
        self._parts.population.pass_by(-members)

    def _end_for_model(self) -> None:
        """The core model no longer notes what the sampled operation does."""
        if self._parts.model is not None:
            self._parts.model.end()

    def _stepped(self, step: _Step, action: Action) -> None:
        """The operation has been executed: count and sample it, then do what its stop asks for."""
        parts, report = self._parts, action.report
        mark = step.instruction.mark
        parts.counting.stepped(step.instruction, step.pc)
        if mark is Mark.ERET:
            parts.cpu.returned(step.level)
        # while profiling is disabled it may have no member
        for member in parts.population.select(step.members):
            operation = step.operations[member]
            operation.exception = report.call
            if not report.call:
                parts.describer.finish(operation, parts.cpu.pc)
            parts.population.complete(operation)
        self._end_for_model()
        parts.population.take_wrong_path()
        if mark is Mark.ERET:
            end_after_block(parts.state)
        self._host.catch_up()
        parts.watching.executed(mark, step.pc)
        if report.within:
            self.perform(action)
        elif mark is Mark.WFI or report.status:
            parts.handler.idle()
