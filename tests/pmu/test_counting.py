"""Filters, prohibitions and freezes, case by case as the manual lists them."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers.pmu import PMCR_EL0, PMEVTYPER
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.pmu.counting import (
    counters_below_el2,
    cycles_disabled,
    filtered,
    frozen_by_overflow,
    frozen_by_spe,
    of_el2,
    prohibited,
)
from tests.pmu.monitored_pe import FREEZE, LEVELS, P5, P7, PMU, F, MonitoredPE

SECURE, NON_SECURE, REALM = {"NS": 0, "EEL2": 1}, {"NS": 1}, {"NS": 1, "NSE": 1}


@pytest.mark.parametrize(
    ("state", "el", "bits", "counted"),
    [
        (NON_SECURE, 0, {}, True),
        (NON_SECURE, 0, {"U": 1}, False),
        (NON_SECURE, 0, {"U": 1, "NSU": 1}, True),
        (NON_SECURE, 0, {"NSU": 1}, False),
        (NON_SECURE, 0, {"P": 1, "NSK": 1, "M": 1}, True),
        (SECURE, 0, {"U": 1, "NSU": 1}, False),
        (SECURE, 0, {"NSU": 1}, True),
        (REALM, 0, {"U": 1, "RLU": 1}, True),
        (REALM, 0, {"RLU": 1}, False),
        (NON_SECURE, 1, {}, True),
        (NON_SECURE, 1, {"P": 1}, False),
        (NON_SECURE, 1, {"P": 1, "NSK": 1}, True),
        (NON_SECURE, 1, {"NSK": 1}, False),
        (SECURE, 1, {"P": 1, "NSK": 1}, False),
        (REALM, 1, {"P": 1, "RLK": 1}, True),
        (REALM, 1, {"RLK": 1}, False),
        (NON_SECURE, 2, {}, False),
        (NON_SECURE, 2, {"NSH": 1}, True),
        (NON_SECURE, 2, {"NSH": 1, "SH": 1}, True),
        (SECURE, 2, {}, False),
        (SECURE, 2, {"NSH": 1}, True),
        (SECURE, 2, {"NSH": 1, "SH": 1}, False),
        (SECURE, 2, {"SH": 1}, True),
        (REALM, 2, {"RLH": 1}, True),
        (REALM, 2, {"NSH": 1, "RLH": 1}, False),
        (NON_SECURE, 3, {}, True),
        (NON_SECURE, 3, {"M": 1}, False),
        (NON_SECURE, 3, {"P": 1}, False),
        (NON_SECURE, 3, {"P": 1, "M": 1}, True),
    ],
)
def test_filters(state: dict[str, int], el: int, bits: dict[str, int], counted: bool) -> None:
    pe = MonitoredPE(P7 | LEVELS | {F.FEAT_RME})
    pe.set(SCR_EL3, **state)
    assert filtered(pe, el, PMEVTYPER.of(**bits).value) is not counted


def test_without_el3_p_and_u_say_all() -> None:
    pe = MonitoredPE(P7)
    for el, bit in ((0, "U"), (1, "P")):
        assert not filtered(pe, el, 0)
        assert filtered(pe, el, PMEVTYPER.of(**{bit: 1}).value)


@pytest.mark.parametrize(
    ("secure", "el", "mdcr3", "mdcr2", "el1s", "el2s"),
    [
        # whose counters are prohibited: EL1's, EL2's
        (False, 1, {}, {}, False, False),
        (True, 1, {}, {}, True, True),  # SPME 0
        (True, 1, {"SPME": 1}, {}, False, False),
        (True, 1, {"MPMX": 1}, {}, False, False),  # MPMX is about EL3 alone
        (False, 3, {}, {}, True, True),
        (False, 3, {"SPME": 1}, {}, False, False),
        (False, 3, {"MPMX": 1}, {}, True, True),
        (False, 3, {"SPME": 1, "MPMX": 1}, {}, True, False),
        (False, 2, {}, {"HPMD": 1}, True, False),
        (False, 1, {}, {"HPMD": 1}, False, False),
        (False, 2, {}, {}, False, False),
    ],
)
def test_prohibitions(
    secure: bool,
    el: int,
    mdcr3: dict[str, int],
    mdcr2: dict[str, int],
    el1s: bool,
    el2s: bool,
) -> None:
    pe = MonitoredPE(P7 | LEVELS)
    pe.set(SCR_EL3, NS=not secure, EEL2=1)
    pe.set(MDCR_EL3, **mdcr3)
    pe.set(MDCR_EL2, **mdcr2)
    assert prohibited(pe, el, el2s=False) is el1s
    assert prohibited(pe, el, el2s=True) is el2s


def test_prohibitions_of_later_versions_are_not_those_of_earlier_ones() -> None:
    pe = MonitoredPE(P5 | LEVELS)
    pe.set(SCR_EL3, NS=1)
    pe.registers.set_raw(MDCR_EL3, MDCR_EL3.of(SPME=1).value | 1 << 35)  # MPMX needs p7
    assert not prohibited(pe, 3, el2s=False)
    pe = MonitoredPE((PMU | LEVELS) - {F.FEAT_PMUv3p1, F.FEAT_PMUv3p4})
    pe.registers.set_raw(SCR_EL3, 1)
    pe.registers.set_raw(MDCR_EL2, 1 << 17)  # HPMD needs p1
    assert not prohibited(pe, 2, el2s=False)


@pytest.mark.parametrize(
    ("secure", "el", "mdcr3", "mdcr2", "disabled"),
    [
        (True, 1, {"SCCD": 1}, {}, True),
        (False, 1, {"SCCD": 1}, {}, False),
        (False, 3, {"SCCD": 1}, {}, True),
        (False, 3, {"MCCD": 1}, {}, True),
        (True, 1, {"MCCD": 1}, {}, False),
        (False, 2, {}, {"HCCD": 1}, True),
        (False, 1, {}, {"HCCD": 1}, False),
    ],
)
def test_the_cycle_counter_has_prohibitions_of_its_own(
    secure: bool, el: int, mdcr3: dict[str, int], mdcr2: dict[str, int], disabled: bool
) -> None:
    pe = MonitoredPE(P7 | LEVELS)
    pe.set(SCR_EL3, NS=not secure)
    pe.set(MDCR_EL3, **mdcr3)
    pe.set(MDCR_EL2, **mdcr2)
    assert cycles_disabled(pe, el) is disabled


@pytest.mark.parametrize(("hpmn", "mine"), [(0, 0), (2, 2), (6, 6), (9, 6)])
def test_hpmn_parts_the_event_counters(hpmn: int, mine: int) -> None:
    pe = MonitoredPE(P7 | LEVELS)
    pe.set(MDCR_EL2, HPMN=hpmn)
    assert counters_below_el2(pe, 6) == mine
    assert [of_el2(pe, n, 6) for n in range(6)] == [n >= mine for n in range(6)]
    assert not of_el2(pe, 31, 6)
    assert not of_el2(pe, 32, 6)


def test_without_el2_all_counters_are_el1_s() -> None:
    assert counters_below_el2(MonitoredPE(P7), 6) == 6


@pytest.mark.parametrize(
    ("fzo", "hpmfzo", "overflows", "el1s", "el2s"),
    [
        (0, 0, 0b1111, False, False),
        (1, 0, 0b0001, True, False),
        (1, 0, 0b0100, False, False),  # a counter of EL2's freezes none of EL1's
        (0, 1, 0b0100, False, True),
        (0, 1, 0b0010, False, False),
        (1, 1, 0b0110, True, True),
        (1, 1, 1 << 31, False, False),  # the cycle counter freezes none
        (1, 1, 1 << 32, True, False),  # the instruction counter is one of EL1's
    ],
)
def test_an_overflow_freezes_its_own_range(
    fzo: int, hpmfzo: int, overflows: int, el1s: bool, el2s: bool
) -> None:
    pe = MonitoredPE(P7 | LEVELS)
    pe.set(MDCR_EL2, HPMN=2, HPMFZO=hpmfzo)
    control = PMCR_EL0.of(FZO=fzo)
    assert frozen_by_overflow(pe, control, overflows, 4, el2s=False) is el1s
    assert frozen_by_overflow(pe, control, overflows, 4, el2s=True) is el2s


@pytest.mark.parametrize(
    ("stopped", "e", "pmfz", "fzs", "hpmfzs", "el1s", "el2s"),
    [
        (True, 1, 1, 1, 1, True, True),
        (True, 1, 1, 1, 0, True, False),
        (True, 1, 1, 0, 1, False, True),
        (False, 1, 1, 1, 1, False, False),
        (True, 0, 1, 1, 1, False, False),  # disabling the buffer unfreezes
        (True, 1, 0, 1, 1, False, False),
    ],
)
def test_spe_freezes_counters_while_it_has_stopped(
    stopped: bool, e: int, pmfz: int, fzs: int, hpmfzs: int, el1s: bool, el2s: bool
) -> None:
    pe = MonitoredPE(FREEZE | LEVELS)
    pe.set(PMBLIMITR_EL1, E=e, PMFZ=pmfz)
    pe.set(MDCR_EL2, HPMFZS=hpmfzs)
    control = PMCR_EL0.of(FZS=fzs)
    assert frozen_by_spe(pe, control, el2s=False, stopped=stopped) is el1s
    assert frozen_by_spe(pe, control, el2s=True, stopped=stopped) is el2s
