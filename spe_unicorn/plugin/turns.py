"""Who has the engine: a run of the attachment's, which counts, or the user's, which does not."""

from __future__ import annotations

from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.native.delivery import deliver_so
from spe_unicorn.host.native.state.budget import UNBOUNDED
from spe_unicorn.host.native.state.ledger import (
    begin_epoch,
    executed_so_far,
    grant,
    register_written,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.plugin.around import Raised


class Turns:
    """Takes the engine over for a run of the attachment's, and lets it go for the user's own."""

    def __init__(
        self, cpu: UnicornCPU, handler: StopHandler, counting: Counting, interrupts: Raised
    ) -> None:
        self._cpu = cpu
        self._handler = handler
        self._counting = counting
        self._interrupts = interrupts
        self._executed = 0

    def set_aside(self) -> None:
        """What ran outside took its time, but is not counted."""
        state = self._cpu.state
        executed = self._cpu.executed - self._executed
        state.skipped += executed
        executed_so_far(state, int(state.granted - state.budget) - executed)
        self._counting.changed()

    def ran_aside(self) -> int:
        """Operations of a run of the user's own, until they are set aside."""
        return 0 if self._interrupts.running else self._cpu.executed - self._executed

    def enter(self) -> None:
        """Take over counts and exceptions."""
        cpu, state = self._cpu, self._cpu.state
        self._handler.system.stopped()
        self._counting.count_executed()
        self.set_aside()
        grant(state, 0)
        state.nothing_is_due()
        state.unattended = 0
        register_written(state)
        begin_epoch(state)  # the user may have written registers or tables
        if cpu.model is not None:
            cpu.model.stopped(executed=False, pc=cpu.pc)
        cpu.hooks.stop_at_exceptions()

    def leave(self) -> None:
        """Have the user's own runs of the engine stop for nothing of ours."""
        self.let_go()
        self._cpu.hooks.ignore_exceptions()

    def let_go(self) -> None:
        """Count what runs from here on as the user's."""
        cpu, state = self._cpu, self._cpu.state
        self._executed = cpu.executed
        state.begin(UNBOUNDED)
        state.nothing_is_due()
        deliver_so(state, 0)
        state.unattended = 1
