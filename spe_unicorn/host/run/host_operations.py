"""Operations that the host executes in the engine's place, and exceptions before an operation."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.pe import EL2
from spe_unicorn.bits import signed
from spe_unicorn.decode import decode
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.run.parts import Parts

_MASK: Final = (1 << 64) - 1


class HostOperations:
    """Has the handler of one PE carry out stops, and samples the operations they concern."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def execute(self, stop: Stop, fault: FailedCheck | None = None) -> None:
        """Execute the operation before which the engine stopped; count and sample it.

        At ``Stop.ACCESS``, ``fault`` is what the checks before the operation found.
        """
        parts = self._parts
        cpu, state, describer = parts.cpu, parts.state, parts.describer
        if stop is Stop.TRAP and parts.model is not None:
            parts.model.saw_nothing()  # the engine has not begun the operation
        # at an exception, a hook of somebody else may have changed the PC already
        pc = state.pc & _MASK if stop is Stop.EXCEPTION else cpu.pc
        # before the unit hears of the operation, whose events count when it is done
        parts.counting.hosts(pc)
        members = parts.population.members(pc)
        parts.population.pass_by(members)
        cpu.ahead = -1
        counted, unretired = parts.unit.enabled, int(state.unretired)
        selected = parts.population.select(members)
        cpu.ahead = 0
        if stop is Stop.TRAP or pc in parts.engine.halts:
            cpu.hooks.begin_at_host(pc, cpu.el, enabled=counted)
        begun = describer.begin(pc, begun=True) if selected else []
        state.budget -= 1
        parts.handler.controls.checks.observers.executes(pc)
        raised = parts.handler.handle(stop, fault)
        # the entry of an exception was counted at the entry; a call to the board has retired
        parts.counting.hosted(raised=raised and not cpu.whole)
        if parts.unit.retired_only and counted and state.unretired != unretired:
            parts.population.take_back(members, len(selected))
            selected = []
        if not raised and cpu.pc == pc + 4 & _MASK:
            cpu.advance_step()
        state.flow_next = signed(pc + 4 & _MASK)
        system = parts.handler.system
        redirected, system.redirected = system.redirected, None
        for member in selected:
            operation = begun[member]
            if redirected is not None:
                describer.redirected(operation, redirected, parts.unit.profiles(EL2))
            if raised:
                describer.raised(operation, translated=fault is not None and fault.translated)
            else:
                describer.finish(operation, cpu.pc)
            parts.population.complete(operation)
        if parts.model is not None:
            parts.model.end()
        if stop is Stop.TRAP and not raised:
            self._tell_of_return(pc)
        parts.unit.refresh()

    def _tell_of_return(self, pc: int) -> None:
        """Tell the watcher if the operation that was executed at ``pc`` is an ERET."""
        if self._parts.watching.watcher is None:
            return
        words = self._parts.cpu.virtual.code(pc, 1)
        if words and decode(words[0]).mark is Mark.ERET:
            self._parts.watching.executed(Mark.ERET, pc)

    def carry_out(self, stop: Stop) -> None:
        """Do what a stop asks for. Its operation has been counted, and sampled if it was chosen."""
        self._parts.handler.handle(stop)
        self._parts.unit.refresh()

    def take_interrupt(self) -> bool:
        """Take an interrupt if one may be taken now; True if that happened."""
        if not self._parts.state.deliver or not self._parts.handler.interrupts.take():
            return False
        self._parts.handler.memory.close()  # the operation that was let through does not come
        self._parts.unit.refresh()
        return True

    def take_step(self) -> bool:
        """Take a Software Step exception if one is pending; True if that happened."""
        handler = self._parts.handler
        if not handler.controls.checks.debug.step_is_pending():
            return False
        handler.exceptions.step()
        self._parts.unit.refresh()
        return True
