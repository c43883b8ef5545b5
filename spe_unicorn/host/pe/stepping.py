"""The plain way to run an engine: one operation, and a report of what became of it.

Nothing but steps may run on such an engine. The hooks are asked for nothing: they stop the engine
where Python is needed, and that is all.
"""

from __future__ import annotations

from typing import Final

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.bits import signed
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.state.ledger import executed_so_far, goes_on_at
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.amended.mending import Mending
from spe_unicorn.host.pe.stops import CALLS, PREFETCH_ABORT, StopHandler

_PLENTY: Final = 1 << 40
"""Operations granted to a step, so that no block is refused for its length."""


class Stepping:
    """Runs of one PE's engine over a single operation each."""

    def __init__(self, handler: StopHandler) -> None:
        self._handler = handler
        self._cpu = cpu = handler.cpu
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        self._mending = Mending(cpu)

    def run(self, pc: int, *, enabled: bool, speculates: bool) -> RunReport:
        """Have the engine execute the operation at ``pc``, where the PE stands.

        ``enabled`` says whether profiling is, ``speculates`` whether wrong paths count. The block
        of the report is only the operation.
        """
        cpu, state, checks = self._cpu, self._state, self._handler.controls.checks
        cpu.forget_el()
        before = cpu.executed
        words = cpu.virtual.code(pc, 1)
        if words:
            self._mending.begin(words[0])
        # with PSTATE.SS the Software Step exception comes after one operation
        steps = bool(cpu.pstate & SPSR.SS.mask)
        ends = before + _PLENTY
        request = RunRequest(pc, NEVER, _PLENTY, ends, ends, straight=True, collects=True)
        request.checking = checks.at(cpu.el) if checks.active else 0
        request.speculates = speculates
        request.flow = (enabled, cpu.el) if cpu.hooks.follows_flow else None
        request.write(state)
        if request.checking:
            checks.learn(pc, 1)
        status = self._engine.step(pc)
        cpu.stand()
        stop = Stop(state.stop)
        call = stop is Stop.EXCEPTION and state.interrupt in CALLS
        stepped = stop is Stop.EXCEPTION and cpu.entries.at_step
        finished = call or stepped or self._fetch_failed(stop)
        report = RunReport(stop, status, pc, 1, 0, call, finished)
        # The engine fetches the next operation before it stops, and that can fault, or fail to be
        # translated. If it is the fetch of this operation that does, the PC has not moved.
        if report.within:
            executed = call or (stepped and steps) or (finished and cpu.pc != pc)
        else:
            executed = status != ABORTED or cpu.pc != pc
        # the hook has counted the whole block of the operation
        executed_so_far(state, before + executed)
        goes_on_at(state, signed(pc + 4 if executed else pc))
        self._handler.status = status
        if executed and words:
            self._mending.executed()
            if cpu.coverage is not None:
                cpu.coverage.stepped(words[0], pc)
            if cpu.calls is not None:
                cpu.calls.stepped(words[0], pc)
        return report._replace(done=int(executed))

    def _fetch_failed(self, stop: Stop) -> bool:
        """Whether the engine stopped at a fetch."""
        state = self._state
        if stop is Stop.EXCEPTION:
            return bool(state.interrupt == PREFETCH_ABORT)
        return stop is Stop.UNMAPPED and state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED

    def execute_counted(self) -> None:
        """Have the engine execute the operation at the PC, which has been counted already."""
        executed = self._cpu.executed
        self._state.begin(_PLENTY)
        goes_on_at(self._state, signed(self._cpu.pc))  # it has been told as the host's
        self._engine.step(self._cpu.pc)
        executed_so_far(self._state, executed)
