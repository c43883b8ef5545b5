"""Runs of exactly so many operations of one block: up to a horizon, and over single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.decode import decode
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.native.requests import Grant
from spe_unicorn.host.native.state.budget import BUDGET_SPENT
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.host_operations import HostOperations
from spe_unicorn.host.run.parts import Parts

_MASK: Final = (1 << 64) - 1


class ExactRuns:
    """The exact runs of one PE. ``settle`` carries out a stop that ends one early."""

    def __init__(
        self, parts: Parts, host: HostOperations, settle: Callable[[RunReport], None]
    ) -> None:
        self._parts = parts
        self._host = host
        self._settle = settle

    def run(self, operations: int) -> bool:
        """Run a number of operations of the block before which the engine stands.

        Return False if another stop came first. That stop has then been carried out.
        """
        if operations <= 0:
            return True
        parts = self._parts
        cpu = parts.cpu
        pc = cpu.pc
        if not self.finds_code():
            return False
        target = pc + 4 * operations & _MASK
        parts.engine.forget_code(pc, pc + 4)
        parts.counting.goes_straight(operations)
        report = parts.runs.run(parts.runs.straight(pc, operations))
        if report.stop is Stop.NONE and cpu.pc == target and not report.status:
            parts.counting.ran_straight()
            parts.population.count_all()
            return True
        self._settle(report)
        return False

    def finds_code(self) -> bool:
        """Whether the next operation can be read; if not, :meth:`refetch` has been called."""
        if self._parts.cpu.virtual.code(self._parts.cpu.pc, 1) is not None:
            return True
        self.refetch()
        return False

    def refetch(self) -> None:
        """The code at the PC cannot be read: have the engine fetch it anew, and carry out the stop.

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
        self._settle(parts.runs.run(parts.runs.request(pc, NEVER, limits, Grant(0))))
        if cpu.pc == pc and cpu.executed == executed and parts.handler.ending is None:
            raise RuntimeError(f"the engine runs code at {pc:#x} that cannot be read")

    def run_to_host_operation(self, operations: int) -> bool:
        """Run up to the first operation of the block that the host executes, and execute it.

        An operation that somebody watches for, or has to judge, counts, too: it is stepped over.
        Return False, with nothing run, if neither is among the first ``operations`` of the block
        before which the engine stands.
        """
        parts = self._parts
        block = parts.blocks.begun()
        if block is None:
            raise RuntimeError(f"no block has begun; {operations} operations were to be run of it")
        is_host_operation = parts.handler.controls.is_host_operation
        watched = min(parts.watching.distance(block.code), parts.counting.distance(block.code))
        k = next((k for k, i in enumerate(block.code[:watched]) if is_host_operation(i)), watched)
        if k >= min(operations, len(block.code)):
            return False
        if self.run(k):
            if is_host_operation(block.code[k]):
                if self.finds_code() and not self._host.take_step():
                    self._host.execute(Stop.TRAP)
            else:
                self.step()
        return True

    def step(self) -> None:
        """Execute the operation at the PC: the chosen one, or one that somebody watches for."""
        parts = self._parts
        cpu = parts.cpu
        pc, level, executed = cpu.pc, cpu.el, cpu.executed
        words = cpu.virtual.code(pc, 1)
        if words is None:
            self.refetch()
            return
        instruction = decode(words[0])
        operations = parts.describer.begin(pc)
        members = parts.population.members(pc)
        if parts.model is not None:
            parts.model.begin()
        if parts.runs.checking():
            parts.runs.learn(1)
        parts.engine.forget_code(pc, pc + 4)
        report = self._step_over(pc)
        if parts.handler.memory.lets_through(report.stop):
            self._take_back(members)
            report = self._step_over(pc)
        parts.handler.memory.close()
        if report.stop is Stop.INTERRUPT and cpu.executed == executed:
            # the interrupt comes before the operation
            if parts.model is not None:
                parts.model.end()
            self._settle(report)
            return
        if report.within and not report.finished:
            self._not_executed(report.stop, members)
            return
        parts.counting.stepped(instruction, pc)
        mark = instruction.mark
        if mark is Mark.ERET:
            cpu.returned(level)
        self._sample(operations, members, report.call)
        if mark is Mark.ERET:
            parts.state.notice = BUDGET_SPENT
        self._host.catch_up()
        parts.watching.executed(mark, pc)
        if report.within:
            self._host.carry_out(report.stop)
        elif mark is Mark.WFI or report.status:
            parts.handler.idle()

    def _step_over(self, pc: int) -> RunReport:
        return self._parts.runs.run(self._parts.runs.straight(pc, 1))

    def _not_executed(self, stop: Stop, members: int) -> None:
        """The engine stopped before the operation: the host executes it, or the run ends."""
        parts = self._parts
        self._take_back(members)
        if stop is not Stop.EXCEPTION and not self.finds_code():
            return
        if stop is not Stop.ACCESS or parts.handler.controls.checks.fault() is not None:
            self._host.execute(stop)
            return
        parts.handler.ending = Ending.WATCHED
        if parts.model is not None:
            parts.model.end()

    def _sample(self, operations: list[Operation], members: int, call: bool) -> None:
        """Complete the sampled members of the operation that was executed, which has ``members``.

        While profiling is disabled it may have none.
        """
        parts = self._parts
        for member in parts.population.select(members):
            operation = operations[member]
            operation.exception = call
            if not call:
                parts.describer.finish(operation, parts.cpu.pc)
            parts.population.complete(operation)
        if parts.model is not None:
            parts.model.end()
        parts.population.take_wrong_path()

    def _take_back(self, members: int) -> None:
        """Take back an operation of ``members`` members that was granted and not executed."""
        self._parts.state.budget += 1
        self._parts.population.pass_by(-members)
