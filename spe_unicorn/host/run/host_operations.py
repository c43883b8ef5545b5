"""What the host does in the engine's place: operations, interrupts, what compiled code left to do.

Both runners have it done here. How they find the chosen operation is their own.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.arch.pe import EL2
from spe_unicorn.bits import signed
from spe_unicorn.decode import decode
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.native.exceptions.exception import TRAP
from spe_unicorn.host.native.state.ledger import charge, goes_on_at
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import CONTROLS_WRITTEN, caught_up
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.untranslated import Untranslated
from spe_unicorn.host.run.watching import Watching
from spe_unicorn.spe.sampler import Sampler

_MASK: Final = (1 << 64) - 1


class Members:
    """The members of the sample population: each is told to ``unit`` when its operation comes."""

    DERIVED: tuple[str, ...] = ("_epoch",)

    def __init__(self, cpu: UnicornCPU, unit: Sampler) -> None:
        self._cpu = cpu
        self._unit = unit
        self._state = cpu.hooks.state
        self._epoch = int(self._state.epoch)

    def members(self, pc: int) -> int:
        """How many members the operation at ``pc`` has."""
        cracker = self._unit.cracker
        if cracker is None:
            return 1
        words = self._cpu.virtual.code(pc, 1) if self._unit.enabled else None
        return len(cracker.parts(decode(words[0]))) if words else 0

    def pass_by(self, members: int) -> None:
        """Count members that went by and that no hook has counted; negative to take back."""

    def select(self, members: int) -> list[int]:
        """Tell the unit of the members of one operation. Return which of them are sampled."""
        if not self._unit.enabled:
            return []
        return [member for member in range(members) if self._unit.advance(1)]

    def take_back(self, members: int, selected: int) -> None:
        """Take back an operation that the unit was told of and that did not retire."""
        self._unit.take_back(members, selected)

    def complete(self, operation: Operation, did: int | None = None) -> None:
        """Have the unit make a record of ``operation``, with the buffer's translations of now.

        ``did`` is as in :meth:`Sampler.complete`.
        """
        self.refresh_translations()
        self._unit.complete(operation, did)
        self._unit.refresh()

    def reload(self) -> None:
        """Work out profiling anew: a register that steers it or translation was written."""
        self._epoch = int(self._state.epoch)
        self._unit.reload()

    def restored(self) -> None:
        """After a restore: the translations of now are those of the restored state."""
        self._epoch = int(self._state.epoch)

    def refresh_translations(self) -> None:
        """Forget the buffer's translations if the guest may have changed them."""
        if self._state.epoch != self._epoch:
            self._epoch = int(self._state.epoch)
            self._unit.forget_translations()


class HostOperations:
    """Has the handler of one PE carry out stops, and samples the operations they concern."""

    def __init__(
        self,
        unit: Sampler,
        handler: StopHandler,
        counting: Counting,
        members: Members,
        watching: Watching,
    ) -> None:
        self._cpu = cpu = handler.cpu
        self._state = cpu.hooks.state
        self._unit = unit
        self._handler = handler
        self._counting = counting
        self._members = members
        self._watching = watching
        self._describer = OperationDescriber(cpu, unit.cracker)
        self.untranslated = Untranslated(cpu, handler)
        """Operations that the engine cannot translate."""

    def comes_first(self, pc: int) -> bool:
        """Do what is due at ``pc`` if the engine must not do it. Return False if it must."""
        cpu = self._cpu
        if (cpu.illegal or pc & self._state.pc_mask) and self._faulted(pc):
            return True
        if pc not in cpu.engine.halts:
            return False
        if self.take_interrupt() or self.take_step():
            return True
        routed = self._handler.controls.checks.debug.breaks()
        if routed is not None:
            self.execute(Stop.ACCESS, FailedCheck(routed))
            return True
        if not self.untranslated.is_at(pc):
            return False
        self.execute_trapped()
        return True

    def _faulted(self, pc: int) -> bool:
        """Take the exception that PSTATE.IL or a misaligned PC raises before any operation.

        Return False if neither is so, or if an abort of the fetch goes first: the engine finds it.
        """
        if self.take_interrupt() or self.take_step():
            return True
        if pc & 3:
            self.carry_out(Stop.MISALIGNED)
            return True
        if self._cpu.virtual.code(pc, 1) is None:
            return False
        self.execute_trapped()
        return True

    def execute_trapped(self) -> None:
        """Execute the operation at the PC, which the engine must not execute."""
        self.execute(Stop.TRAP)

    def execute(self, stop: Stop, fault: FailedCheck | None = None) -> None:
        """Execute the operation before which the engine stopped; count and sample it.

        At ``Stop.ACCESS``, ``fault`` is what the checks before the operation found.
        """
        cpu, state, describer, unit = self._cpu, self._state, self._describer, self._unit
        if stop is Stop.TRAP and cpu.model is not None:
            cpu.model.saw_nothing()  # the engine has not begun the operation
        # at an exception, a hook of another program may have changed the PC already
        pc = state.pc & _MASK if stop is Stop.EXCEPTION else cpu.pc
        # before the unit hears of the operation, whose events count when it is done
        self._counting.hosts(pc)
        # count its members, and describe it if one of them is the next sample
        members = self._members.members(pc)
        self._members.pass_by(members)
        cpu.ahead = -1
        counted, unretired = unit.enabled, int(state.unretired)
        selected = self._members.select(members)
        cpu.ahead = 0
        if stop is Stop.TRAP or pc in cpu.engine.halts:
            cpu.hooks.begin_at_host(pc, cpu.el, enabled=counted)
        begun = describer.begin_sampled(pc, begun=True) if selected else []
        undefined = stop is Stop.EXCEPTION and state.interrupt == TRAP
        if selected and cpu.model is not None and undefined:
            cpu.model.begin()
        # execute it
        charge(state, 1)
        if cpu.coverage is not None:
            cpu.coverage.executed(pc)
        self._handler.controls.checks.observers.executes(pc)
        raised = self._handler.handle(stop, fault)
        # the entry of an exception was counted at the entry; a call to the board has retired
        self._counting.hosted(raised=raised and not cpu.whole)
        if unit.retired_only and counted and state.unretired != unretired:
            self._members.take_back(members, len(selected))
            selected = []
        # complete PSTATE.SS, the way of branches, and the samples
        if not raised and cpu.pc == pc + 4 & _MASK:
            cpu.advance_step()
        if not raised and self._handler.copying.unfinished == pc == cpu.pc:
            cpu.unfinished = pc, cpu.executed
            goes_on_at(state, signed(pc))
        else:
            goes_on_at(state, signed(pc + 4 & _MASK))
        system = self._handler.system
        nested, system.nested_access = system.nested_access, None
        for member in selected:
            operation = begun[member]
            if nested is not None:
                describer.nested_access(operation, nested, shown=unit.profiles(EL2))
            if raised:
                describer.raised(operation, translated=fault is not None and fault.translated)
            else:
                describer.finish(operation, cpu.pc)
            self._members.complete(operation)
        if cpu.model is not None:
            cpu.model.end()
        if stop is Stop.TRAP and not raised:
            self._tell_watcher(pc, Mark.ERET)
        elif stop is Stop.EXCEPTION and not raised:
            self._tell_watcher(pc, Mark.DSB)
        unit.refresh()

    def _tell_watcher(self, pc: int, mark: Mark) -> None:
        """Tell the watcher if the operation that was executed at ``pc`` has that mark."""
        if not self._watching.watched:
            return
        words = self._cpu.virtual.code(pc, 1)
        if words and decode(words[0]).mark is mark:
            self._watching.executed(mark, pc)

    def carry_out(self, stop: Stop) -> None:
        """Do what a stop asks for. Its operation has been counted, and sampled if it was chosen."""
        self._handler.handle(stop)
        self._unit.refresh()

    def take_interrupt(self) -> bool:
        """Take an interrupt if one may be taken now; True if that happened."""
        if not self._state.deliver or not self._handler.interrupts.take():
            return False
        self._handler.refused.close()  # the operation that was let through does not come
        self._unit.refresh()
        return True

    def take_step(self) -> bool:
        """Take a Software Step exception if one is pending; True if that happened."""
        handler = self._handler
        if not handler.controls.checks.debug.step_is_pending():
            return False
        handler.exceptions.step()
        self._unit.refresh()
        return True

    def tell_observers(self) -> None:
        """The engine stands again: tell counters and observers. Raise what Python raised within."""
        self._counting.count_executed()
        system, checks = self._handler.system, self._handler.controls.checks
        if system.failure is not None:
            failure, system.failure = system.failure, None
            raise failure
        if checks.observers.active:
            checks.observers.run_ended(passing=checks.passing)
            checks.observers.take()

    def catch_up(self) -> None:
        """Do what compiled code left to be done after the block. Everything has been counted.

        That is for an ERET, instruction cache maintenance, or writes of steering registers.
        """
        cpu, state = self._cpu, self._state
        if not state.notice:
            return
        cpu.forget_el()
        if state.stale_code:
            # the engine misses stores by the guest to code through some mappings of it
            cpu.engine.forget_all_code()
        if state.controls_written:
            self._apply_controls()
        caught_up(state)
        self._handler.returned()
        self._unit.refresh()

    def _apply_controls(self) -> None:
        """Work out anew what depends on the registers that the guest has written."""
        cpu, state = self._cpu, self._state
        if state.controls_written & CONTROLS_WRITTEN:
            self._handler.controls.work_out_write(self._handler.controls_written)
            self._members.reload()
        else:
            cpu.steering.resync_cells()
            self._unit.recollect()
        self._watching.controls_written(cpu.pc - 4 & _MASK)
