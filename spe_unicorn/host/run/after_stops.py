"""After each run of the engine: count what was executed, and do what the stop asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.bits import signed
from spe_unicorn.host.native.state.budget import NOTICE_RETURN
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.engine_runs import AT_AN_OPERATION
from spe_unicorn.host.run.exact_runs import ExactRuns
from spe_unicorn.host.run.host_operations import HostOperations
from spe_unicorn.host.run.parts import Parts
from spe_unicorn.host.run.untranslated import Untranslated

_MASK: Final = (1 << 64) - 1


class AfterStops:
    """Settles the stops of one PE's engine."""

    TRANSIT = ("entered",)

    def __init__(self, parts: Parts, untranslated: Untranslated) -> None:
        self.entered = False
        """Whether the block before which the engine stands was unknown when it stopped."""
        self._parts = parts
        self._untranslated = untranslated
        self.host = HostOperations(parts)
        self.exact = ExactRuns(parts, self.host, self.settle)
        self.handlers: Final[dict[Stop, Callable[[Stop, int], None]]] = {
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
        """What is done after each kind of stop. Each function gets the stop, and the number of
        operations of the last block that were executed."""

    def settle(self, stop: Stop) -> None:
        """Count what was executed, complete the samples that are due, then carry out the stop."""
        done = self._count_executed(stop)
        self._parts.counting.after_run(done)
        self._complete_samples(stop, done)
        state = self._parts.state
        if state.sev:
            self._send_event(stop, done)
        if state.fence:
            self._tell_of_fence()
        if state.notice == NOTICE_RETURN and done == state.block_operations:
            self._parts.cpu.returned(int(state.level))
        self.host.catch_up()
        self.handlers[stop](stop, done)

    def _count_executed(self, stop: Stop) -> int:
        """Give back the operations of the last block that did not execute; return how many did."""
        parts, state = self._parts, self._parts.state
        begun = int(state.block_operations)
        if stop not in AT_AN_OPERATION and stop is not Stop.NONE:
            return begun
        done = parts.runs.executed_of_block(stop)
        state.budget += begun - done
        # the next operation follows in order, even if the engine begins a block at it
        if done < begun:
            state.flow_next = signed(state.block + 4 * done & _MASK)
            if parts.cracker is not None and parts.unit.enabled:
                parts.population.pass_by(-parts.population.weight_from(done))
        return done

    def _complete_samples(self, stop: Stop, done: int) -> None:
        """Complete the samples that the hook noted, and that of the last block if it executed."""
        population = self._parts.population
        if self._parts.state.samples_in_ring:
            population.complete_noted()
        if self._parts.state.pending:
            population.complete_pending(stop, done)
        population.count_all()

    def _send_event(self, stop: Stop, done: int) -> None:
        """The block that began last has a SEV. Send the event, if the block came so far."""
        number = int(self._parts.state.sev)
        self._parts.state.sev = 0
        before_a_block = stop not in AT_AN_OPERATION and stop is not Stop.NONE
        if before_a_block or done >= number:
            self._parts.handler.platform.send_event()

    def _tell_of_fence(self) -> None:
        """Tell the watcher of the last context synchronization event that was executed."""
        parts, state = self._parts, self._parts.state
        executed = parts.cpu.executed
        # the block that began last may have been left before its end
        fence = int(state.fence if state.fence <= executed else state.fence_before)
        if fence:
            members = executed - fence if parts.unit.enabled else 0
            parts.watching.synchronized(fence, members)

    def _nothing(self, stop: Stop, done: int) -> None:
        """Do nothing: what the stop is for is already done, or is done before the next run."""

    def _after_halt(self, stop: Stop, done: int) -> None:
        """After a stop by no hook: a WFI, the address where the run must end, or an error."""
        handler = self._parts.handler
        if handler.status or not self._parts.runs.halted():
            handler.idle()

    def _after_budget(self, stop: Stop, done: int) -> None:
        """After the budget is used up: the next block may hold a horizon, so enter it."""
        if self._parts.unit.enabled or self._parts.state.watch:
            self._after_unseen(stop, done)

    def _after_unseen(self, stop: Stop, done: int) -> None:
        """Enter the block before which the engine stands into the block table."""
        self.entered = self._parts.blocks.begun() is None
        if not self.entered:
            return
        state = self._parts.state
        address = state.block & _MASK
        words = self._parts.cpu.virtual.code(address, int(state.block_operations))
        if words is None:
            raise RuntimeError(f"the engine runs code at {address:#x} that cannot be read")
        self._parts.blocks.enter(address, words)

    def _after_interrupt(self, stop: Stop, done: int) -> None:
        """Take the interrupt that is due before the next block."""
        self._parts.handler.interrupts.take()
        self._parts.unit.refresh()

    def _after_trap(self, stop: Stop, done: int) -> None:
        """Execute the next block up to an operation that the host may have to execute."""
        operations = int(self._parts.state.block_operations)
        if self.exact.run_to_host_operation(operations):
            return
        # no operation traps at this Exception level; the last one may be an ERET
        if self.exact.run(operations - 1):
            self.exact.step()

    def _after_untranslated(self, stop: Stop, done: int) -> None:
        """Find the operation of the next block that the engine cannot translate."""
        self._untranslated.find()

    def _within_block(self, stop: Stop, done: int) -> None:
        """Execute the operation at which the engine stopped."""
        parts = self._parts
        if parts.handler.memory.lets_through(stop):
            return
        checks = parts.handler.controls.checks
        if stop is Stop.ACCESS and checks.fault() is None:
            if not checks.known:
                parts.runs.learn(max(int(parts.state.block_operations) - done, 1))
            elif checks.stops_outside():
                parts.handler.ending = Ending.WATCHED
        elif parts.runs.finished(stop):
            self.host.carry_out(stop)
        else:
            self.host.execute(stop)
