"""Thresholds, from the table of PMEVTYPER<n>_EL0.TC by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers.pmu import PMCR_EL0, PMEVTYPER, PMEVTYPERS, PMMIR_EL1
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.monitors import PerformanceMonitors
from spe_unicorn.pmu.threshold import Threshold
from spe_unicorn.pmu.views import MonitorView
from tests.pmu.monitored_pe import P7, F, MonitoredPE


@pytest.mark.parametrize(
    ("control", "counted"),
    [
        (0b000, [0, 1, 0, 3]),  # not equal: by the value
        (0b001, [1, 1, 0, 1]),  # not equal: by 1
        (0b010, [0, 0, 2, 0]),  # equal
        (0b011, [0, 0, 1, 0]),
        (0b100, [0, 0, 2, 3]),  # greater than or equal
        (0b101, [0, 0, 1, 1]),
        (0b110, [0, 1, 0, 0]),  # less than
        (0b111, [1, 1, 0, 0]),
    ],
)
def test_values_0_to_3_against_a_threshold_of_2(control: int, counted: list[int]) -> None:
    assert [Threshold(control, 2).counted(value) for value in range(4)] == counted


def test_many_cycles_count_as_one_by_one() -> None:
    less = Threshold(0b111, 1)
    assert less.counted_of(3, 10) == 7
    assert Threshold(0b101, 1).counted_of(3, 10) == 3
    assert Threshold(0b101, 0).counted_of(3, 10) == 10
    assert less.counted_of(1, 0) == 0  # an exception, in no cycle of an operation


def test_control_and_limit_of_0_are_no_threshold() -> None:
    assert Threshold.of(E.BR_RETIRED) is None
    assert Threshold.of(PMEVTYPER.of(evtCount=3, TH=2).value) == Threshold(0, 2)


@pytest.mark.parametrize(("features", "width"), [(P7, 0), (P7 | {F.FEAT_PMUv3_TH}, 12)])
def test_the_width_and_the_fields_are_there_with_the_feature(features: object, width: int) -> None:
    pe = MonitoredPE(features)  # type: ignore[arg-type]
    view = MonitorView(pe, PerformanceMonitors(pe, 6), frozenset())
    assert width == PMMIR_EL1(view.read(PMMIR_EL1)).THWIDTH
    view.write(PMEVTYPERS[0], PMEVTYPER.of(TC=7, TH=0xFFF).value)
    fields = PMEVTYPER(view.read(PMEVTYPERS[0]))
    assert ((7, 0xFFF) if width else (0, 0)) == (fields.TC, fields.TH)


def test_a_software_increment_is_one_event_in_its_cycle() -> None:
    pe = MonitoredPE(P7 | {F.FEAT_PMUv3_TH})
    monitors = PerformanceMonitors(pe, 6)
    monitors.s.control = PMCR_EL0.of(E=1).value
    monitors.s.enabled = 0b11
    monitors.configure(0, PMEVTYPER.of(evtCount=E.SW_INCR, TC=0b101, TH=1).value)
    monitors.configure(1, PMEVTYPER.of(evtCount=E.SW_INCR, TC=0b101, TH=2).value)
    monitors.software_increment(0b11)
    monitors.completed(0)
    assert monitors.s.values[:2] == [1, 0]
