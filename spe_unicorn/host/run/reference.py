"""The reference: one operation at a time, nothing clever.

It shares with the fast runner what happens *at* an operation and nothing of how the next chosen one
is found: no blocks, no plans, no budgets. A core model hears of branches from the decoder. Tests
hold the two together.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.decode import decode
from spe_unicorn.decode.words import WFI
from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.native.state import Stop, signed
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import CALLS, StopHandler
from spe_unicorn.host.ports import ORDERING
from spe_unicorn.host.run.engine_runs import AT_AN_OPERATION
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.sampler import Sampler

_PLENTY: Final = 1 << 40


class ReferenceRunner(Runner):
    """Runs one PE by stepping. Only for an engine on which nothing else runs."""

    def __init__(self, cpu: UnicornCPU, unit: Sampler, handler: StopHandler) -> None:
        super().__init__(cpu, unit, handler)
        if self._model is not None:
            self._model.step_by_step(True)

    def _go(self, slice_left: int, left: int | None, until: int) -> None:
        """Execute the operation at the PC, and do what its stop asks for."""
        cpu = self.cpu
        state = self._state
        unit = self.unit
        self._population.look_at_translations()
        if state.deliver and self.handler.interrupts.take():
            self.unit.refresh()
            return
        words = cpu.virtual.code(cpu.pc, 1)
        if self._model is not None:
            self._model.begin()
        if words and self.handler.controls.is_host_operation(decode(words[0])):
            self._at_operation(Stop.TRAP)
            return
        before = cpu.executed
        begun = cpu.pc
        pending = bool(cpu.pstate & SPSR.SS.mask)  # software step executes an operation first
        members = self._population.members(cpu.pc)
        chosen = unit.enabled and unit.until_hit() <= members
        operations = self._latch.begin(cpu.pc) if chosen else []
        sleeps = words == (WFI,)
        level = cpu.el
        stop = self._run_one()
        if self.handler.memory.lets_through(stop):
            stop = self._run_one()
        self.handler.memory.close()
        state.flow_next = signed(begun + 4)  # the hook took the rest of the block for executed, too
        at_operation = stop in AT_AN_OPERATION
        call = stop is Stop.EXCEPTION and state.interrupt in CALLS
        # the engine fetches the next operation before it stops: that can fault, and if this one
        # itself cannot be fetched it has not moved
        fetch = at_operation and not call and self._runs.finished(stop)
        stepped = stop is Stop.EXCEPTION and self._runs.stepped() and pending
        executed = call or not at_operation or (fetch and cpu.pc != begun) or stepped
        state.granted = before + executed + state.budget
        if executed and words and self._model is not None:
            self._model.executed(decode(words[0]), begun, cpu.pc)
        if executed:
            self._population.pass_by(members)
            for member in self._population.select(members):
                operation = operations[member]
                operation.exception = call
                if not call:
                    self._latch.finish(operation, cpu.pc)
                self._population.complete(operation)
            self._population.take_wrong_path()
        if executed and words and decode(words[0]).mark is Mark.ERET:
            cpu.returned(level)
        self._notices()
        if executed and words and self.watcher is not None:
            mark = decode(words[0]).mark
            if mark in ORDERING:
                self.watcher.executed(mark, begun)
        if at_operation and not executed and not self._runs.finished(stop):
            self._at_operation(stop)
        elif at_operation:
            self._carry_out(stop)
        elif self.handler.status or sleeps:
            self.handler.idle()
        self.unit.refresh()

    def _run_alone(self, pc: int) -> None:
        self._state.begin(_PLENTY)
        self._engine.step(pc)

    def _run_one(self) -> Stop:
        state = self._state
        state.begin(_PLENTY)
        state.collects = True
        state.speculates = self._population.wrong_paths is not None and self.unit.enabled
        state.checking = self._runs.checking()
        if state.checking:
            self._runs.learn(1)
        self.cpu.forget_el()
        self._runs.note_flow()
        begun = self.cpu.pc
        self.handler.status = self._engine.step(begun)
        if self.handler.status == ABORTED:
            # it translates the operation's block, or after it the next one
            self._look_for_untranslatable()
            if self.handler.ending is None:
                self.handler.status = self._engine.step(begun) if self.cpu.pc == begun else 0
        return Stop(state.stop)
