"""Where an overflow goes and when the exception is masked, line by line from the manual."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers.pmu import PMECR_EL1
from spe_unicorn.arch.registers.system import HCR_EL2, MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.pmu.profiling_exception import (
    OverflowRoute,
    exception_masked,
    exception_unmasked,
    overflow_route,
    returned_ppend,
)
from tests.pmu.monitored_pe import LEVELS, P7, SYNC, MonitoredPE

IRQ, NOTHING = OverflowRoute(None, True), OverflowRoute(None, False)


def to(el: int) -> OverflowRoute:
    return OverflowRoute(el, False)


def pe_with(
    pmee3: int, pmee2: int, pmee1: int, *, el: int = 1, tge: int = 0, eel2: int = 1, ns: int = 1
) -> MonitoredPE:
    pe = MonitoredPE(SYNC | LEVELS, el)
    pe.set(SCR_EL3, NS=ns, EEL2=eel2)
    pe.set(HCR_EL2, TGE=tge)
    pe.set(MDCR_EL3, PMEE=pmee3)
    pe.set(MDCR_EL2, PMEE=pmee2)
    pe.set(PMECR_EL1, PMEE=pmee1)
    return pe


@pytest.mark.parametrize(
    ("pmee", "route"),
    [
        ((0b00, 0b11, 0b11), IRQ),  # EL3 keeps the interrupt
        ((0b11, 0b00, 0b00), to(3)),
        ((0b10, 0b11, 0b11), NOTHING),  # reserved
        ((0b01, 0b00, 0b11), IRQ),
        ((0b01, 0b11, 0b00), to(2)),
        ((0b01, 0b10, 0b11), NOTHING),
        ((0b01, 0b01, 0b00), IRQ),
        ((0b01, 0b01, 0b11), to(1)),
        ((0b01, 0b01, 0b01), NOTHING),  # reserved in PMECR_EL1
        ((0b01, 0b01, 0b10), NOTHING),
    ],
)
def test_pmee_is_asked_from_el3_down(pmee: tuple[int, int, int], route: OverflowRoute) -> None:
    assert overflow_route(pe_with(*pmee)) == route


def test_el1_s_exception_goes_to_el2_with_tge() -> None:
    assert overflow_route(pe_with(1, 1, 3, tge=1)) == to(2)


def test_an_el2_that_is_not_enabled_is_not_asked() -> None:
    assert overflow_route(pe_with(1, 3, 3, ns=0, eel2=0)) == to(1)
    assert overflow_route(pe_with(1, 3, 3, ns=0, eel2=1)) == to(2)


def test_without_the_feature_it_is_always_the_interrupt() -> None:
    assert overflow_route(MonitoredPE(P7 | LEVELS)) == IRQ


@pytest.mark.parametrize(
    ("el", "target", "kpme", "pm", "pmee2", "masked"),
    [
        (0, 1, 0, False, 1, False),  # from EL0 always
        (1, 1, 1, False, 1, False),
        (1, 1, 0, False, 1, True),
        (1, 1, 1, True, 1, True),
        (2, 1, 1, False, 1, True),  # from above never
        (3, 1, 1, False, 1, True),
        (1, 2, 0, True, 3, False),
        (2, 2, 1, False, 3, False),
        (2, 2, 1, False, 1, True),  # EL1's, sent to EL2 by TGE
        (2, 2, 0, False, 3, True),
        (2, 3, 0, True, 0, False),
        (3, 3, 1, False, 0, False),  # even from EL3
        (3, 3, 1, True, 0, True),
    ],
)
def test_masks(el: int, target: int, kpme: int, pm: bool, pmee2: int, masked: bool) -> None:
    pe = MonitoredPE(SYNC | LEVELS, el)
    pe.pm = pm
    pe.set(MDCR_EL2, PMEE=pmee2)
    pe.set(PMECR_EL1, KPME=kpme, PMEE=3)
    assert exception_masked(pe, target) is masked


def test_nothing_is_taken_in_debug_state() -> None:
    pe = pe_with(3, 0, 0, el=1)
    assert exception_unmasked(pe)
    pe.halted = True
    assert not exception_unmasked(pe)


def test_ppend_comes_back_only_where_the_return_unmasks() -> None:
    for saved in (False, True):
        for before in (False, True):
            for after in (False, True):
                back = returned_ppend(saved=saved, masked_before=before, unmasked_after=after)
                assert back == (saved and before and after)
