"""What is around a PE of the user's: nothing of ours, but for what SPE raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from unicorn import Uc, UcError
from unicorn import unicorn_const as uc_const
from unicorn.unicorn_py3.unicorn import HOOK_INTR_CFUNC

from spe_unicorn.arch.access.verdicts import Accessor, SysRegTable, SystemAccessTrap
from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import NEVER_HAPPENS, DeviceRegister, Ending, EngineException
from spe_unicorn.instructions.rows import Uses
from spe_unicorn.plugin.errors import ProfilingExceptionError, TrappedAccessError

_UNDEFINED: Final = 1
"""The engine's number for an Undefined exception."""
_RAISED: Final = {
    ExceptionType.SYNC: "the SPE Profiling exception",
    ExceptionType.SERROR: "an SError",
}
"""What SPE raises."""


class Raised(Interrupts):
    """What SPE raises, in runs of the attachment's: nothing else interrupts the PE."""

    def __init__(self, cpu: UnicornCPU) -> None:
        super().__init__(cpu)
        self.running = False
        """Whether a run of the attachment's is on its way."""
        self.end: Callable[[Exception], None] = _raise
        """Ends the run, which then raises."""

    def update(self) -> None:
        """Runs of the user's own are not to stop for what is pending."""
        if self.running:
            super().update()

    def _enter(self, record: ExceptionRecord, target_el: int) -> None:
        cpu = self._cpu
        what = _RAISED.get(record.kind)
        if what is None or cpu.registers.raw(banked.VBAR[target_el]):
            super()._enter(record, target_el)
        else:
            self.end(ProfilingExceptionError(what, target_el, cpu.pc))


class UsersHandler(StopHandler):
    """What a stop asks for when everything around the PE is the user's."""

    error: Exception | None = None

    def __init__(
        self,
        cpu: UnicornCPU,
        interrupts: Raised,
        table: SysRegTable,
        registers: Mapping[type[SysReg], DeviceRegister],
    ) -> None:
        super().__init__(cpu, _NoPlatform(), table, registers, interrupts)
        self._uc = cpu.engine.uc
        interrupts.end = self.end

    def handle(self, stop: Stop, fault: FailedCheck | None = None) -> bool:
        """System accesses are ours; exceptions have already been with the user's hooks."""
        self.system.stopped()
        if stop is Stop.SYSTEM:
            return super().handle(stop)
        if stop is Stop.EXCEPTION and (self._masks() or self._is_carried_out()):
            return False
        if stop is Stop.TRAP and _raise_undefined(self._uc):
            return True
        if not _exception_hooks(self._uc):
            self.end(UcError(uc_const.UC_ERR_EXCEPTION))
        return True

    def _masks(self) -> bool:
        """Whether the PE stands at an MSR PM, #<imm>; it is then done."""
        cpu = self.cpu
        words = cpu.virtual.code(cpu.pc, 1)
        if not words or not self.system.sets_process_state(words[0]):
            return False
        cpu.pc = cpu.pc + 4
        return True

    def _is_carried_out(self) -> bool:
        """Whether the PE stands at an instruction that the engine lacks; it is then done.

        Loads and stores, and what traps, are left to the user.
        """
        cpu = self.cpu
        words = cpu.virtual.code(cpu.pc, 1)
        row = self.lacking.find(words[0]) if words else None
        if not words or row is None or row.uses & Uses.MEMORY or self.lacking.trap(row):
            return False
        self.lacking.carry_out(row, words[0])
        return True

    def idle(self) -> None:
        """WFI, the user's stop, or an error of the engine, which is the user's to see."""
        if self.status:
            self.end(UcError(self.status))
        self.ending = Ending.INTERRUPTED

    def prevents_trap(self, accessor: Accessor, trap: SystemAccessTrap) -> bool:
        """A trap enters the guest's vectors if it has any, else it is the caller's to see."""
        if self.cpu.registers.raw(banked.VBAR[trap.target_el]):
            return False
        self.end(TrappedAccessError(accessor.name, self.cpu.pc, trap))
        return True

    def fail(self, reason: str, hint: str = "") -> None:
        """What cannot go on is the caller's to see, too."""
        super().fail(reason, hint)
        self.end(RuntimeError(reason))

    def end(self, error: Exception) -> None:
        """The run is over, and raises ``error``."""
        self.error = error
        self.ending = Ending.FAILED


class _NoPlatform:
    """No device, no firmware, no host behind the PE, and nothing that happens by itself."""

    deadline = NEVER_HAPPENS

    def happen(self) -> None:
        """Nothing does."""

    def wait(self) -> bool:
        """Nothing ends the wait."""
        return False

    def claims(self, address: int) -> bool:
        """No device is ours."""
        return False

    def read(self, address: int, size: int) -> int:
        """Nobody asks."""
        raise LookupError(f"no device at {address:#x}")

    def write(self, address: int, size: int, value: int) -> None:
        """Nobody asks."""
        raise LookupError(f"no device at {address:#x}")

    def give_way(self) -> bool:
        """To nobody: there are no other PEs."""
        return False

    def wait_for_event(self) -> None:
        """A WFE completes at once."""

    event_awaited = restless = False
    """No WFE waits."""

    def send_event(self) -> None:
        """Nobody hears of it."""

    conduit = None
    """HVC and SMC are the user's."""

    def call(self, exception: EngineException) -> bool:
        """So nobody answers them."""
        return False

    def semihosting(self) -> bool:
        """So is HLT."""
        return False


class NoLine:
    """An interrupt that goes nowhere: there is no interrupt controller."""

    def set_level(self, level: bool) -> None:
        """Nobody hears of it."""


def _exception_hooks(uc: Uc) -> list[HOOK_INTR_CFUNC]:
    """The user's hooks that take exceptions; without any, the engine ends the run."""
    return [hook for hook in uc._callbacks.values() if isinstance(hook, HOOK_INTR_CFUNC)]


def _raise_undefined(uc: Uc) -> bool:
    """Have the user's hooks see an Undefined exception, as the engine does; False for none."""
    hooks = _exception_hooks(uc)
    for hook in hooks:
        hook(uc._uch, _UNDEFINED, None)
    return bool(hooks)


def _raise(error: Exception) -> None:
    raise error
