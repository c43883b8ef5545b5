"""After each run of the engine: count what was executed, before anything is done for the stop."""

from __future__ import annotations

from typing import Final

from spe_unicorn.bits import signed
from spe_unicorn.host.native.state.budget import NOTICE_RETURN
from spe_unicorn.host.native.state.ledger import charge, goes_on_at
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.transit import pstate_restored
from spe_unicorn.host.run.parts import Parts

_MASK: Final = (1 << 64) - 1


class Accounts:
    """Counts what one PE's engine has executed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def count_run(self, report: RunReport) -> None:
        """Count what was executed, and complete the samples that are due."""
        if not report.begun:
            return
        self._complete_return(report)
        self._give_back(report)
        self._parts.counting.after_run(report.block, report.operations, report.done)
        self._complete_samples(report)
        state = self._parts.state
        if state.event_due:
            self._complete_event(report)
        if state.fence:
            self._tell_of_fence()
        if state.notice == NOTICE_RETURN and report.whole:
            self._parts.cpu.returned(int(state.level))

    def _complete_return(self, report: RunReport) -> None:
        """Complete PSTATE after an ERET at the end of the last block, if it was executed."""
        state = self._parts.state
        if state.restored:
            if report.whole:
                self._parts.cpu.complete_return(int(state.restored))
            pstate_restored(state)

    def _give_back(self, report: RunReport) -> None:
        """Give back the operations of the last block that were granted and not executed."""
        if report.whole:
            return
        parts, state = self._parts, self._parts.state
        charge(state, report.done - report.operations)
        # the next operation follows in order, even if the engine begins a block at it
        goes_on_at(state, signed(report.block + 4 * report.done & _MASK))
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

    def _complete_event(self, report: RunReport) -> None:
        """The block that began last has a SEV or ends with a WFE: so it was, if it came so far."""
        parts, due = self._parts, int(self._parts.state.event_due)
        if due < 0 and report.whole:
            parts.cpu.events.take(-1 - due)
        elif due > 0 and (report.before or report.done >= due):
            parts.cpu.events.set()
            parts.handler.platform.send_event()

    def _tell_of_fence(self) -> None:
        """Tell the watcher of the last context synchronization event that was executed."""
        parts, state = self._parts, self._parts.state
        executed = parts.cpu.executed
        # the block that began last may have been left before its end
        fence = int(state.fence if state.fence <= executed else state.fence_before)
        if fence:
            members = executed - fence if parts.unit.enabled else 0
            parts.watching.synchronized(fence, members)
