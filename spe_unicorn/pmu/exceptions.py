"""The events of an exception that is taken, by its kind (Arm ARM D14.3, EXC_TAKEN and EXC_*)."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.pmu.events import PMUEvent as E

_INSTRUCTION_ABORTS: Final = frozenset({EC.InstructionAbort, EC.InstructionAbort + 1})
_DATA_ABORTS: Final = frozenset({EC.DataAbort, EC.DataAbort + 1})
CALLS: Final[dict[int, E]] = {EC.SupervisorCall: E.EXC_SVC, 0x16: E.EXC_HVC, 0x17: E.EXC_SMC}
EXCEPTION_EVENTS: Final = frozenset(
    {
        *(E.EXC_TAKEN, E.EXC_UNDEF, E.EXC_SVC, E.EXC_PABORT, E.EXC_DABORT, E.EXC_IRQ, E.EXC_FIQ),
        *(E.EXC_SMC, E.EXC_HVC, E.EXC_TRAP_PABORT, E.EXC_TRAP_DABORT, E.EXC_TRAP_OTHER),
        *(E.EXC_TRAP_IRQ, E.EXC_TRAP_FIQ),
    }
)
"""All of them."""


def exception_events(record: ExceptionRecord, *, local: bool) -> tuple[E, E]:
    """EXC_TAKEN and the event of the kind of ``record``.

    ``local``: it is taken to EL1, or to EL2 where that has EL0 (HCR_EL2.TGE).
    """
    return E.EXC_TAKEN, _of_kind(record, local)


def is_call(record: ExceptionRecord) -> bool:
    """Whether ``record`` is that of SVC, HVC or SMC, which retire with it."""
    return record.syndrome is not None and record.syndrome.ec in CALLS


def _of_kind(record: ExceptionRecord, local: bool) -> E:
    kind = record.kind
    if kind is ExceptionType.IRQ:
        return E.EXC_IRQ if local else E.EXC_TRAP_IRQ
    if kind is ExceptionType.FIQ:
        return E.EXC_FIQ if local else E.EXC_TRAP_FIQ
    if kind is ExceptionType.SERROR:
        return E.EXC_DABORT if local else E.EXC_TRAP_DABORT
    ec = 0 if record.syndrome is None else record.syndrome.ec
    if ec in _INSTRUCTION_ABORTS:
        return E.EXC_PABORT if local else E.EXC_TRAP_PABORT
    if ec in _DATA_ABORTS:
        return E.EXC_DABORT if local else E.EXC_TRAP_DABORT
    if ec in CALLS and (local or CALLS[ec] is not E.EXC_SVC):
        return CALLS[ec]
    return E.EXC_UNDEF if local else E.EXC_TRAP_OTHER
