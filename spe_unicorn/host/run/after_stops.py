"""After each run of the engine: count what was executed, and do what the stop asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.bits import signed
from spe_unicorn.host.native.state.budget import NOTICE_RETURN
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.exact_runs import ExactRuns
from spe_unicorn.host.run.host_operations import HostOperations
from spe_unicorn.host.run.parts import Parts
from spe_unicorn.host.run.untranslated import Untranslated

_MASK: Final = (1 << 64) - 1


class AfterStops:
    """Settles the stops of one PE's engine."""

    TRANSIT = ("entered", "left")

    def __init__(self, parts: Parts, untranslated: Untranslated) -> None:
        self.entered = False
        """Whether the block before which the engine stands was unknown when it stopped."""
        self.left = False
        """Whether the PE no longer stands where the engine stopped: the code is not there."""
        self._parts = parts
        self._untranslated = untranslated
        self.host = HostOperations(parts)
        self.exact = ExactRuns(parts, self.host, self.settle)
        self.handlers: Final[dict[Stop, Callable[[RunReport], None]]] = {
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
        """What is done after each kind of stop."""

    def settle(self, report: RunReport) -> None:
        """Count what was executed, complete the samples that are due, then carry out the stop."""
        self.left = False
        self._give_back(report)
        self._parts.counting.after_run(report.done)
        self._complete_samples(report)
        state = self._parts.state
        if state.sev:
            self._send_event(report)
        if state.fence:
            self._tell_of_fence()
        if state.notice == NOTICE_RETURN and report.whole:
            self._parts.cpu.returned(int(state.level))
        self.host.catch_up()
        self.handlers[report.stop](report)

    def _give_back(self, report: RunReport) -> None:
        """Give back the operations of the last block that were granted and not executed."""
        if report.whole:
            return
        parts, state = self._parts, self._parts.state
        state.budget += report.operations - report.done
        # the next operation follows in order, even if the engine begins a block at it
        state.flow_next = signed(report.block + 4 * report.done & _MASK)
        if parts.cracker is not None and parts.unit.enabled:
            parts.population.pass_by(-parts.population.weight_from(report.done))

    def _complete_samples(self, report: RunReport) -> None:
        """Complete the samples that the hook noted, and that of the last block if it executed."""
        population = self._parts.population
        if self._parts.state.samples_in_ring:
            population.complete_noted()
        if self._parts.state.pending:
            population.complete_pending(report)
        population.count_all()

    def _send_event(self, report: RunReport) -> None:
        """The block that began last has a SEV. Send the event, if the block came so far."""
        number = int(self._parts.state.sev)
        self._parts.state.sev = 0
        if report.before or report.done >= number:
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

    def _nothing(self, report: RunReport) -> None:
        """Do nothing: what the stop is for is already done, or is done before the next run."""

    def _after_halt(self, report: RunReport) -> None:
        """After a stop by no hook: a WFI, the address where the run must end, or an error."""
        handler = self._parts.handler
        if report.status or not self._parts.runs.halted():
            handler.idle()

    def _after_budget(self, report: RunReport) -> None:
        """After the budget is used up: the next block may hold a horizon, so enter it."""
        if self._parts.unit.enabled or self._parts.state.watch:
            self._after_unseen(report)

    def _after_unseen(self, report: RunReport) -> None:
        """Enter the block before which the engine stands into the block table."""
        self.entered = self._parts.blocks.begun() is None
        if not self.entered:
            return
        words = self._parts.cpu.virtual.code(report.block, report.operations)
        if words is None:
            self.exact.refetch()
            self.entered, self.left = False, True
            return
        self._parts.blocks.enter(report.block, words)

    def _after_interrupt(self, report: RunReport) -> None:
        """Take the interrupt that is due before the next block."""
        self._parts.handler.interrupts.take()
        self._parts.unit.refresh()

    def _after_trap(self, report: RunReport) -> None:
        """Execute the next block up to an operation that the host may have to execute."""
        if self.exact.run_to_host_operation(report.operations):
            return
        # no operation traps at this Exception level; the last one may be an ERET
        if self.exact.run(report.operations - 1):
            self.exact.step()

    def _after_untranslated(self, report: RunReport) -> None:
        """Find the operation of the next block that the engine cannot translate."""
        self._untranslated.find()

    def _within_block(self, report: RunReport) -> None:
        """Execute the operation at which the engine stopped."""
        parts = self._parts
        if parts.handler.memory.lets_through(report.stop):
            return
        checks = parts.handler.controls.checks
        if report.stop is Stop.ACCESS and checks.fault() is None:
            if not checks.known:
                parts.runs.learn(max(report.operations - report.done, 1))
            elif checks.stops_outside():
                parts.handler.ending = Ending.WATCHED
        elif report.finished:
            self.host.carry_out(report.stop)
        elif report.stop is Stop.EXCEPTION or self.exact.finds_code():
            self.host.execute(report.stop)
