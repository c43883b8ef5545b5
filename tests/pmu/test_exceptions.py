"""Which event an exception is: Arm ARM Table D14-1 and "Taken locally" (D14.1.1), by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.exceptions.syndromes import Syndrome
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.registers import system
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.exceptions import EXCEPTION_EVENTS, exception_events, taken_locally
from tests.pmu.monitored_pe import LEVELS, MonitoredPE

EL0, EL1, EL2, EL3 = range(4)
PABORT = (E.EXC_PABORT, E.EXC_TRAP_PABORT)
DABORT = (E.EXC_DABORT, E.EXC_TRAP_DABORT)
OTHER = (E.EXC_UNDEF, E.EXC_TRAP_OTHER)
TABLE = {
    0x15: (E.EXC_SVC, E.EXC_TRAP_OTHER),  # SVC
    0x16: (E.EXC_HVC, E.EXC_HVC),  # HVC
    0x20: PABORT,  # Instruction Abort from below
    0x21: PABORT,  # Instruction Abort from the current Exception level
    0x22: PABORT,  # PC alignment
    0x24: DABORT,  # Data Abort from below
    0x25: DABORT,  # Data Abort from the current Exception level
    0x26: DABORT,  # SP alignment
    0x30: PABORT,  # Breakpoint from below
    0x31: PABORT,  # Breakpoint from the current Exception level
    0x32: PABORT,  # Software step from below
    0x33: PABORT,  # Software step from the current Exception level
    0x34: DABORT,  # Watchpoint from below
    0x35: DABORT,  # Watchpoint from the current Exception level
    0x3C: PABORT,  # BRK
}
"""Exception classes of AArch64 that are neither EXC_UNDEF nor EXC_TRAP_OTHER, SMC apart."""
NO_CLASS = frozenset({0x17, 0x1E, 0x2D, 0x2F, 0x38, 0x3A})
"""SMC; classes with several rows (granule protection, GCS); SError; what AArch32 state has."""


@pytest.mark.parametrize("ec", sorted(set(range(64)) - NO_CLASS))
def test_the_class_names_the_event(ec: int) -> None:
    record = ExceptionRecord(ExceptionType.SYNC, Syndrome(ec))
    local, trapped = TABLE.get(ec, OTHER)
    for target in (EL1, EL2, EL3):
        assert exception_events(record, target, local=True) == (E.EXC_TAKEN, local)
        assert exception_events(record, target, local=False) == (E.EXC_TAKEN, trapped)


@pytest.mark.parametrize(
    ("target", "local", "event"),
    [
        (EL3, True, E.EXC_SMC),  # of EL3
        (EL3, False, E.EXC_SMC),  # of EL1 or EL2
        (EL2, False, E.EXC_TRAP_OTHER),  # trapped by HCR_EL2.TSC
    ],
)
def test_an_smc_is_one_where_el3_takes_it(target: int, local: bool, event: E) -> None:
    record = ExceptionRecord(ExceptionType.SYNC, Syndrome(0x17))
    assert exception_events(record, target, local=local) == (E.EXC_TAKEN, event)


@pytest.mark.parametrize(
    ("kind", "local", "trapped"),
    [
        (ExceptionType.IRQ, E.EXC_IRQ, E.EXC_TRAP_IRQ),
        (ExceptionType.FIQ, E.EXC_FIQ, E.EXC_TRAP_FIQ),
        (ExceptionType.SERROR, E.EXC_DABORT, E.EXC_TRAP_DABORT),
    ],
)
def test_what_is_asynchronous_has_no_class(kind: ExceptionType, local: E, trapped: E) -> None:
    record = ExceptionRecord(kind, Syndrome(0x2F) if kind is ExceptionType.SERROR else None)
    for target in (EL1, EL2, EL3):
        assert exception_events(record, target, local=True) == (E.EXC_TAKEN, local)
        assert exception_events(record, target, local=False) == (E.EXC_TAKEN, trapped)


def test_every_event_of_exceptions_is_one_of_the_table() -> None:
    kinds = {event for pair in (*TABLE.values(), OTHER) for event in pair}
    kinds |= {E.EXC_SMC, E.EXC_IRQ, E.EXC_TRAP_IRQ, E.EXC_FIQ, E.EXC_TRAP_FIQ, E.EXC_TAKEN}
    assert kinds == EXCEPTION_EVENTS


def pe(el: int, *, e2h: int = 0, tge: int = 0, ns: int = 1, eel2: int = 0) -> PE:
    found = MonitoredPE(LEVELS, el)
    found.set(system.SCR_EL3, NS=ns, EEL2=eel2, RW=1)
    found.set(system.HCR_EL2, E2H=e2h, TGE=tge, RW=1)
    return found


@pytest.mark.parametrize("tge", [0, 1])
@pytest.mark.parametrize("e2h", [0, 1])
@pytest.mark.parametrize("el", [EL1, EL2, EL3])
def test_above_el0_the_current_level_is_the_local_one(el: int, e2h: int, tge: int) -> None:
    for target in range(el, EL3 + 1):
        assert taken_locally(pe(el, e2h=e2h, tge=tge), target) == (target == el)


@pytest.mark.parametrize(
    ("e2h", "tge", "target", "local"),
    [
        (0, 0, EL1, True),
        (1, 0, EL1, True),
        (0, 0, EL2, False),
        (1, 0, EL2, False),
        (0, 1, EL2, False),  # not locally, says the note
        (1, 1, EL2, True),
        (0, 0, EL3, False),
        (1, 1, EL3, False),
    ],
)
def test_el1_or_a_host_is_local_to_el0(e2h: int, tge: int, target: int, local: bool) -> None:
    assert taken_locally(pe(EL0, e2h=e2h, tge=tge), target) == local


def test_effective_values_decide_of_the_host_of_el0() -> None:
    """Without EL2 in Secure state, or without FEAT_VHE, nobody is a host."""
    assert not taken_locally(pe(EL0, e2h=1, tge=1, ns=0), EL2)
    assert taken_locally(pe(EL0, e2h=1, tge=1, ns=0, eel2=1), EL2)
    older = pe(EL0, e2h=1, tge=1)
    older.features -= {Feature.FEAT_VHE}  # type: ignore[misc]
    assert not taken_locally(older, EL2)
