"""The reference runner: it executes one operation at a time.

It shares with the fast runner what happens at an operation. It shares nothing of how the next
chosen operation is found: it has no blocks, plans or budgets. A core model hears of branches from
the decoder. Tests compare the two runners.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.bits import signed
from spe_unicorn.decode import decode
from spe_unicorn.decode.words import WFI
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.native.state.ledger import executed_so_far, goes_on_at
from spe_unicorn.host.native.state.report import AT_AN_OPERATION
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import Found
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import CALLS, StopHandler
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.accounts import Accounts
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.sampler import Sampler

_PLENTY: Final = 1 << 40


class ReferenceRunner(Runner):
    """Runs one PE by stepping. Nothing else may run on its engine."""

    def __init__(
        self, cpu: UnicornCPU, unit: Sampler, handler: StopHandler, counting: Counting
    ) -> None:
        super().__init__(cpu, unit, handler, counting)
        self._accounts = Accounts(self._parts)
        if cpu.model is not None:
            cpu.model.step_by_step(on=True)

    def stand_by(self) -> None:
        """Take each turn here."""

    def _run_engine(self, pc: int, executed: int, until: int, limits: tuple[int, int]) -> None:
        """Execute the operation at the PC, and do what its stop asks for."""
        parts, cpu, state, unit = self._parts, self.cpu, self._state, self.unit
        words = cpu.virtual.code(cpu.pc, 1)
        # an abort of the fetch goes first
        if words is not None and self._host.take_interrupt():
            return
        parts.population.look_at_translations()
        if parts.model is not None:
            parts.model.begin()
        checks = self.handler.controls.checks
        step = checks.debug.step_is_pending()
        if words and not step and self.handler.controls.is_host_operation(decode(words[0])):
            self._host.execute(Stop.TRAP)
            return
        before = cpu.executed
        begun = cpu.pc
        # with PSTATE.SS the Software Step exception comes after one operation
        pending = bool(cpu.pstate & SPSR.SS.mask)
        members = parts.population.members(cpu.pc)
        chosen = unit.enabled and unit.until_hit() <= members
        operations = parts.describer.begin(cpu.pc) if chosen else []
        level = cpu.el
        stop = self._run_one()
        if stop is Stop.ACCESS:
            executed_so_far(state, before)  # nothing has been executed
        found, fault = checks.look() if stop is Stop.ACCESS else (Found.NOTHING, None)
        if stop is Stop.ACCESS and found is Found.NOTHING:
            checks.let_through()
            stop = self._run_one()
        elif stop is Stop.UNMAPPED and self.handler.memory.admits():
            stop = self._run_one()
        self.handler.memory.close()
        # the hook has counted the rest of the block as executed
        goes_on_at(state, signed(begun + 4))
        at_operation = stop in AT_AN_OPERATION
        call = stop is Stop.EXCEPTION and state.interrupt in CALLS
        # the engine fetches the next operation before it stops, and that fetch can fault; if the
        # fetch of this operation faults, the PC has not moved
        fetch = at_operation and not call and parts.runs.finished(stop)
        stepped = stop is Stop.EXCEPTION and parts.runs.stepped() and pending
        executed = call or not at_operation or (fetch and cpu.pc != begun) or stepped
        executed_so_far(state, before + executed)
        done = decode(words[0]) if executed and words else None
        if done is not None:
            parts.counting.stepped(done, begun)
        if done is not None and parts.model is not None:
            parts.model.executed(done, begun, cpu.pc)
        if executed:
            self._sample(operations, members, call)
        if done is not None and done.mark is Mark.ERET:
            cpu.returned(level)
        self._accounts.catch_up()
        if done is not None:
            parts.watching.executed(done.mark, begun)
        if stop is Stop.ACCESS and fault is None:
            self.handler.ending = Ending.WATCHED
        elif at_operation and not executed and not parts.runs.finished(stop):
            self._host.execute(stop, fault)
        elif at_operation:
            self._host.carry_out(stop)
        elif self.handler.status or words == (WFI,):
            self.handler.idle()
        unit.refresh()

    def _sample(self, operations: list[Operation], members: int, call: bool) -> None:
        """Count the operation that was executed, and complete its sampled members."""
        parts = self._parts
        parts.population.pass_by(members)
        for member in parts.population.select(members):
            operation = operations[member]
            operation.exception = call
            if not call:
                parts.describer.finish(operation, self.cpu.pc)
            parts.population.complete(operation)
        parts.population.take_wrong_path()
        self.unit.told()

    def _run_alone(self, pc: int) -> None:
        self._state.begin(_PLENTY)
        self._engine.step(pc)

    def _run_one(self) -> Stop:
        state = self._state
        self.cpu.forget_el()
        begun = self.cpu.pc
        request = self._parts.runs.straight(begun, _PLENTY)
        request.collects, request.begins_anew = True, False
        request.write(state)
        if request.checking:
            self._parts.runs.learn(1)
        self.handler.status = self._engine.step(begun)
        self.cpu.stand()
        if self.handler.status == ABORTED:
            # the engine failed to translate the block of the operation, or the next block
            self._untranslated.find()
            if self.handler.ending is None:
                self.handler.status = self._engine.step(begun) if self.cpu.pc == begun else 0
        return Stop(state.stop)
