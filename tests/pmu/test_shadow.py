"""The shadow of synchronous counters, and where there is none (Arm ARM D13.2.2), by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.registers.pmu import PMECR_EL1, PMEVTYPER
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.decode import decode
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.monitors import PerformanceMonitors
from spe_unicorn.pmu.shadow import HIGHEST_THRESHOLD, Shadow, synchronizes
from tests.pmu.monitored_pe import LEVELS, SYNC, MonitoredPE

PC = 0x4000_1000
LAST = (1 << 64) - 1


def shadowed(
    event: int, length: int, threshold: int | None = None
) -> tuple[PerformanceMonitors, MonitoredPE]:
    """Counter 0 counts ``event`` synchronously at EL0, its exception unmasked to EL1."""
    pe = MonitoredPE(SYNC | LEVELS, el=0)
    pe.set(SCR_EL3, NS=1)
    pe.set(MDCR_EL3, PMEE=1)
    pe.set(MDCR_EL2, HPMN=1, PMEE=1)
    pe.set(PMECR_EL1, PMEE=3, KPME=1)
    thresholds = {} if threshold is None else {event: threshold}
    subject = PerformanceMonitors(pe, 1, shadow=Shadow({event: length}, thresholds))
    subject.configure(0, PMEVTYPER.of(evtCount=event, SYNC=1).value)
    subject.s.control = subject.s.enabled = subject.s.noticed = 1
    return subject, pe


def observed(subject: PerformanceMonitors, event: int, operations: int) -> int | None:
    """Which of so many operations with ``event``, from 1 on, makes the exception pending."""
    for number in range(1, operations + 1):
        subject.event(event)
        subject.completed(PC + 4 * number)
        if subject.s.pending:
            assert subject.s.address == PC + 4 * number
            return number
    return None


@pytest.mark.parametrize("length", [0, 1, 5, 300])
def test_so_many_operations_after_the_overflow_observe_it(length: int) -> None:
    subject, _ = shadowed(E.BR_RETIRED, length)
    subject.s.values[0] = LAST - 1
    assert observed(subject, E.BR_RETIRED, 400) == 2 + length
    assert (subject.s.values[0], subject.s.overflowed) == (length, 1)


def test_an_operation_without_the_event_observes_nothing() -> None:
    subject, _ = shadowed(E.BR_RETIRED, 1)
    subject.s.values[0] = LAST
    assert observed(subject, E.BR_RETIRED, 1) is None
    assert observed(subject, E.LD_RETIRED, 50) is None
    assert observed(subject, E.BR_RETIRED, 1) == 1


def test_operations_while_it_is_masked_are_some_of_them() -> None:
    subject, pe = shadowed(E.BR_RETIRED, 3)
    subject.s.values[0] = LAST
    pe.el = 1
    pe.pm = True
    assert observed(subject, E.BR_RETIRED, 2) is None
    pe.pm = False
    assert observed(subject, E.BR_RETIRED, 2) == 2


def test_a_counter_that_is_written_in_its_shadow_makes_it_no_longer() -> None:
    """The flag is 1, so what overflows again is the same overflow: the shadow stays finite."""
    subject, _ = shadowed(E.BR_RETIRED, 2)
    for number in range(2):
        subject.s.values[0] = LAST
        assert observed(subject, E.BR_RETIRED, 1) is None, number
    subject.s.values[0] = LAST
    assert observed(subject, E.BR_RETIRED, 1) == 1


def test_another_event_has_no_shadow() -> None:
    subject, _ = shadowed(E.BR_RETIRED, 2)
    subject.configure(0, PMEVTYPER.of(evtCount=E.INST_RETIRED, SYNC=1).value)
    subject.s.values[0] = LAST
    assert observed(subject, E.INST_RETIRED, 3) == 1


# B after A


@pytest.mark.parametrize(
    ("threshold", "value", "between", "shadow"),
    [
        (None, LAST, 0, 0),  # the highest threshold that is allowed: one event overflows
        (None, LAST - 1, 0, 3),
        (LAST - 9, LAST - 9, 0, 0),
        (LAST - 9, LAST - 10, 0, 3),
        (LAST - 9, LAST - 9, 4, 0),  # it holds from A on, for whichever B
        (0, 0, 0, 0),
    ],
)
def test_there_is_no_shadow_after_synchronisation_at_the_threshold(
    threshold: int | None, value: int, between: int, shadow: int
) -> None:
    subject, _ = shadowed(E.BR_RETIRED, 3, threshold)
    subject.s.values[0] = value
    subject.synchronized()
    assert observed(subject, E.BR_RETIRED, between) is None
    if value == 0:
        subject.s.values[0] = LAST
    first = LAST - subject.s.values[0] + 1
    assert observed(subject, E.BR_RETIRED, 20) == first + shadow


@pytest.mark.parametrize("value", [0, 1 << 63, LAST])
def test_there_is_no_shadow_after_synchronisation_with_the_flag_set(value: int) -> None:
    subject, _ = shadowed(E.BR_RETIRED, 3)
    subject.s.values[0] = value
    subject.s.overflowed = 1
    subject.synchronized()
    assert observed(subject, E.BR_RETIRED, 1) == 1


def test_synchronisation_ends_a_shadow() -> None:
    subject, _ = shadowed(E.BR_RETIRED, 100)
    subject.s.values[0] = LAST
    assert observed(subject, E.BR_RETIRED, 10) is None
    subject.synchronized()
    assert observed(subject, E.BR_RETIRED, 1) == 1


def test_it_has_to_stay_unmasked_from_synchronisation_to_the_operation() -> None:
    subject, pe = shadowed(E.BR_RETIRED, 2)
    subject.s.values[0] = LAST
    subject.synchronized()
    pe.set(PMECR_EL1, PMEE=0)
    assert observed(subject, E.LD_RETIRED, 1) is None  # executed while it is disabled
    pe.set(PMECR_EL1, PMEE=3, KPME=1)
    assert observed(subject, E.BR_RETIRED, 9) == 3


def test_synchronisation_while_it_is_masked_says_nothing() -> None:
    subject, pe = shadowed(E.BR_RETIRED, 2)
    subject.s.values[0] = LAST
    pe.el, pe.pm = 1, True
    subject.synchronized()
    pe.pm = False
    assert observed(subject, E.BR_RETIRED, 9) == 3


def test_a_second_synchronisation_takes_nothing_back() -> None:
    """The first one's B may come after the second one."""
    subject, _ = shadowed(E.BR_RETIRED, 2)
    subject.s.values[0] = LAST
    subject.synchronized()
    subject.s.values[0] = 5
    subject.synchronized()
    subject.s.values[0] = LAST
    assert observed(subject, E.BR_RETIRED, 9) == 1


# What it is made of


def test_what_a_core_says() -> None:
    assert Shadow.of(ImpDef()) is None
    assert Shadow.of(ImpDef(pmu_shadow=(("BR_RETIRED", 0),))) is None
    assert Shadow.of(ImpDef(pmu_shadow=(("BR_RETIRED", 1),))) is not None
    assert HIGHEST_THRESHOLD == 0xFFFF_FFFF_FFFF_FFFF


@pytest.mark.parametrize(
    ("word", "does"),
    [
        (0xD503_3FDF, True),  # ISB
        (0xD501_421F, True),  # MSR PM, #0
        (0xD501_431F, True),  # MSR PM, #1
        (0xD518_4320, True),  # MSR PM, X0
        (0xD538_4320, False),  # MRS X0, PM
        (0xD503_3F9F, False),  # DSB SY
        (0xD503_42DF, False),  # MSR DAIFSet, #2
        (0xD503_201F, False),  # NOP
    ],
)
def test_which_instructions_synchronise(word: int, does: bool) -> None:
    assert synchronizes(decode(word)) is does
