"""Takes exceptions on a PE, and ends the run with a sentence if one repeats itself for ever."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.access.syndrome_text import entry_text, fault_status_text
from spe_unicorn.arch.exceptions.entry import (
    ExceptionEntry,
    ExceptionRecord,
    ExceptionType,
    vector_address,
)
from spe_unicorn.arch.exceptions.routing import abort_target, default_target, route_interrupt
from spe_unicorn.arch.exceptions.syndromes import (
    ILLEGAL_STATE,
    PC_ALIGNMENT,
    UNDEFINED,
    Syndrome,
    software_step,
)
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.rules.debug import debug_target, step_is_pending
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.host.pe.cpu import UnicornCPU

_EXTERNAL = FaultRecord(Fault.SyncExternal, 0)
_BY_TABLES = frozenset({Fault.AccessFlag, Fault.Translation, Fault.Permission})
"""Faults that descriptors make."""


class Exceptions:
    """Takes exceptions on one PE. ``fail`` ends the run: the reason in a sentence, and a hint."""

    def __init__(self, cpu: UnicornCPU, fail: Callable[[str, str], None]) -> None:
        self._cpu = cpu
        self.fail = fail
        self.interrupted: Callable[[], bool] = lambda: False
        """Lets time pass until an interrupt is taken where the PE is; False if none ever is."""

    def take(self, record: ExceptionRecord, target_el: int) -> None:
        """Take an exception. If nothing but itself can ever follow it, end the run before it.

        The entry itself does not depend on what is at the vector. The fetch there is the next thing
        to happen, and may abort. If that goes on for ever, an interrupt that a higher Exception
        level takes may still come.
        """
        cpu = self._cpu
        before = cpu.pstate
        entry = cpu.entries.take(record, target_el)
        if not self._repeats(entry, before):
            return
        if self._is_interruptible() and self.interrupted():
            return
        hint = self._hint(entry)
        cpu.set_pstate(entry.spsr)
        cpu.pc = entry.elr
        what = entry_text(record, entry)
        if entry.vector == entry.elr:
            reason = f"{what} at the first instruction of its own vector"
        else:
            reason = f"{what}, and no code at its vector {entry.vector:#x}"
        self.fail(reason, hint)

    def _hint(self, entry: ExceptionEntry) -> str:
        """What to do about an exception just taken, if it repeats itself for ever."""
        table = f"VBAR_EL{entry.target_el}"
        fault = self._cpu.virtual.fetch_fault(entry.vector)
        if fault is None or fault.kind not in _BY_TABLES:
            return f"set {table} to a table of exception vectors before anything can fault"
        what = fault_status_text(fault.fsc)
        return f"have the vectors at {table} mapped, to be executed: their fetch ends in {what}"

    def _repeats(self, entry: ExceptionEntry, before: int) -> bool:
        """Whether an exception just taken from PSTATE ``before`` leads to itself for ever.

        It does if it was taken at its own vector and has changed nothing of PSTATE, or if the fetch
        at its vector does so. A Software Step exception comes before either.
        """
        if step_is_pending(self._cpu, entry.pstate):
            return False
        if entry.vector == entry.elr:
            return entry.pstate.value == before
        return self._never_fetches(entry.vector, entry.target_el)

    def _is_interruptible(self) -> bool:
        """Whether a higher Exception level takes IRQs or FIQs, whatever PSTATE masks here."""
        kinds = (ExceptionType.IRQ, ExceptionType.FIQ)
        return not all(route_interrupt(self._cpu, kind, mask=True).masked for kind in kinds)

    def _never_fetches(self, vector: int, el: int) -> bool:
        """Whether the fetch at a vector of ``el``, where the PE is, aborts to ``el`` for ever."""
        cpu = self._cpu
        if cpu.virtual.code(vector, 1) is not None:
            return False
        fault = cpu.virtual.fetch_fault(vector)
        if fault is None or abort_target(cpu, fault) != el:
            return False
        vbar = cpu.registers.raw(banked.VBAR[el])
        of_abort = vector_address(vbar, el, el, 1, ExceptionType.SYNC)
        return vector == of_abort or self._never_fetches(of_abort, el)

    def synchronous(self, syndrome: Syndrome, target_el: int, far: int | None = None) -> None:
        """Take a synchronous exception to an Exception level; ``far`` is a virtual address."""
        self.take(ExceptionRecord(ExceptionType.SYNC, syndrome, far), target_el)

    def undefined(self) -> None:
        """The operation at the PC is UNDEFINED."""
        self.synchronous(UNDEFINED, default_target(self._cpu))

    def illegal_state(self) -> None:
        """PSTATE.IL is set: no operation is executed."""
        self.synchronous(ILLEGAL_STATE, default_target(self._cpu))

    def step(self) -> None:
        """Take a pending Software Step exception, which the engine does not take.

        Where it does, it has just stepped an operation, or the host has, which says so.
        """
        cpu = self._cpu
        target = debug_target(cpu, security_state_at(cpu, cpu.el))
        self.synchronous(software_step(stepped=cpu.s.stepped == (cpu.pc, cpu.executed)), target)

    def misaligned_pc(self) -> None:
        """The PC is no multiple of 4."""
        cpu = self._cpu
        self.synchronous(PC_ALIGNMENT, default_target(cpu), cpu.pc)

    def external_abort(self, syndrome: Syndrome, far: int | None) -> None:
        """A synchronous External abort: SCR_EL3.EA takes it to EL3."""
        self.synchronous(syndrome, abort_target(self._cpu, _EXTERNAL), far)
