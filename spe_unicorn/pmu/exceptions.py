"""The events of an exception that is taken: EXC_TAKEN, and one by kind and place (Arm ARM D14.1.5).

Table D14-1 names the event by the exception class and by whether the exception is taken locally.
All exceptions are taken to AArch64 state here.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.rules.effective import el_is_in_host
from spe_unicorn.pmu.events import PMUEvent as E

CALLS: Final = frozenset({EC.SupervisorCall, EC.HypervisorCall, EC.MonitorCall})
"""The exception classes of SVC, HVC and SMC, trapped SVC and SMC among them."""
EXCEPTION_EVENTS: Final = frozenset(
    {
        E.EXC_TAKEN,
        E.EXC_UNDEF,
        E.EXC_SVC,
        E.EXC_PABORT,
        E.EXC_DABORT,
        E.EXC_IRQ,
        E.EXC_FIQ,
        E.EXC_SMC,
        E.EXC_HVC,
        E.EXC_TRAP_PABORT,
        E.EXC_TRAP_DABORT,
        E.EXC_TRAP_OTHER,
        E.EXC_TRAP_IRQ,
        E.EXC_TRAP_FIQ,
    }
)
"""All of them."""

_Pair = tuple[E, E]
"""The event of an exception that is taken locally, and that of one that is not."""
_PABORT: Final[_Pair] = (E.EXC_PABORT, E.EXC_TRAP_PABORT)
_DABORT: Final[_Pair] = (E.EXC_DABORT, E.EXC_TRAP_DABORT)
_OTHER: Final[_Pair] = (E.EXC_UNDEF, E.EXC_TRAP_OTHER)
_BY_CLASS: Final[dict[int, _Pair]] = {
    EC.SupervisorCall: (E.EXC_SVC, E.EXC_TRAP_OTHER),
    EC.HypervisorCall: (E.EXC_HVC, E.EXC_HVC),
    **dict.fromkeys((EC.InstructionAbort, EC.InstructionAbort + 1, EC.PCAlignment), _PABORT),
    **dict.fromkeys((EC.Breakpoint, EC.Breakpoint + 1, EC.SoftwareBreakpoint), _PABORT),
    **dict.fromkeys((EC.SoftwareStep, EC.SoftwareStep + 1), _PABORT),
    **dict.fromkeys((EC.DataAbort, EC.DataAbort + 1, EC.SPAlignment), _DABORT),
    **dict.fromkeys((EC.Watchpoint, EC.Watchpoint + 1), _DABORT),
}
"""Table D14-1 by exception class, SMC apart. Classes that are not here are :data:`_OTHER`."""
_ASYNCHRONOUS: Final[dict[ExceptionType, _Pair]] = {
    ExceptionType.IRQ: (E.EXC_IRQ, E.EXC_TRAP_IRQ),
    ExceptionType.FIQ: (E.EXC_FIQ, E.EXC_TRAP_FIQ),
    ExceptionType.SERROR: _DABORT,
}


def taken_locally(pe: PE, target_el: int) -> bool:
    """Whether an exception that ``pe`` takes to ``target_el`` is Taken locally (D14.1.1).

    That is to the current Exception level, from EL0 to EL1, or from EL0 to EL2 while
    HCR_EL2.{E2H,TGE} is {1,1}. ``pe`` stands where the exception is taken from.
    """
    if pe.el != EL0:
        return target_el == pe.el
    return target_el == EL1 or (target_el == EL2 and el_is_in_host(pe, EL0))


def exception_events(record: ExceptionRecord, target_el: int, *, local: bool) -> tuple[E, E]:
    """EXC_TAKEN, and the event by the kind of ``record`` and by where it is taken.

    ``local`` is :func:`taken_locally` of ``target_el``.
    """
    return E.EXC_TAKEN, _of_kind(record, target_el, local=local)


def is_call(record: ExceptionRecord) -> bool:
    """Whether ``record`` is that of SVC, HVC or SMC, which retire with it."""
    return record.syndrome is not None and record.syndrome.ec in CALLS


def _of_kind(record: ExceptionRecord, target_el: int, *, local: bool) -> E:
    pair = _ASYNCHRONOUS.get(record.kind)
    if pair is None:
        ec = 0 if record.syndrome is None else record.syndrome.ec
        if ec == EC.MonitorCall and target_el == EL3:
            return E.EXC_SMC
        pair = _BY_CLASS.get(ec, _OTHER)
    return pair[0] if local else pair[1]
