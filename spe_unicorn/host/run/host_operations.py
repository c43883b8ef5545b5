"""Operations that the host executes in the engine's place, and what is due after a block."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.pe import EL2
from spe_unicorn.bits import signed
from spe_unicorn.decode import decode
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import CONTROLS_WRITTEN
from spe_unicorn.host.run.parts import Parts

_MASK: Final = (1 << 64) - 1


class HostOperations:
    """Has the handler of one PE carry out stops, and samples the operations they concern."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def execute(self, stop: Stop) -> None:
        """Execute the operation before which the engine stopped; count and sample it."""
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
        begun = describer.begin(pc, stop is not Stop.TRAP) if selected else []
        state.budget -= 1
        parts.handler.controls.checks.observers.executes(pc)
        translated = bool(selected) and stop is Stop.ACCESS and self._translates()
        raised = parts.handler.handle(stop)
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
                describer.raised(operation, translated=translated)
            else:
                describer.finish(operation, cpu.pc)
            parts.population.complete(operation)
        if parts.model is not None:
            parts.model.end()
        if stop is Stop.TRAP and not raised:
            self._tell_of_return(pc)
        parts.unit.refresh()

    def _translates(self) -> bool:
        """Whether the operation at the PC translates its address before what it raises.

        Watchpoints are compared after translation. Breakpoints and alignment go first.
        """
        checks = self._parts.handler.controls.checks
        return checks.debug.breaks() is None and checks.alignment.fault() is None

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

    def catch_up(self) -> None:
        """Do what compiled code left to be done after the block. Everything has been counted.

        That is for an ERET, instruction cache maintenance, or writes of steering registers.
        """
        parts, state = self._parts, self._parts.state
        if not state.notice:
            return
        state.notice = 0
        parts.cpu.forget_el()
        if state.stale_code:
            # the engine misses stores by the guest to code through some mappings of it
            state.stale_code = 0
            parts.engine.forget_all_code()
        if state.controls_written:
            self._apply_controls()
        parts.handler.returned()
        parts.unit.refresh()

    def _apply_controls(self) -> None:
        """Work out anew what depends on the registers that the guest has written."""
        parts, state = self._parts, self._parts.state
        if state.controls_written & CONTROLS_WRITTEN:
            parts.handler.controls.work_out_write(parts.handler.controls_written)
            parts.population.reload()
        else:
            parts.cpu.steering.resync_cells()
            parts.unit.recollect()
        state.controls_written = 0
        parts.watching.controls_written(parts.cpu.pc - 4 & _MASK)
