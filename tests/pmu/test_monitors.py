"""Counters counting: overflow, chains, freezes, synchronous mode, each worked out by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Features
from spe_unicorn.arch.registers.pmu import (
    PMCR_EL0,
    PMECR_EL1,
    PMEVTYPER,
    PMICFILTR_EL0,
)
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1
from spe_unicorn.arch.registers.system import MDCR_EL2, SCR_EL3
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.monitors import PerformanceMonitors
from tests.pmu.monitored_pe import (
    ALL,
    CYCLES,
    FREEZE,
    INSTRUCTIONS,
    LEVELS,
    P5,
    P7,
    PMU,
    SYNC,
    F,
    MonitoredPE,
    monitors,
)

PC = 0x4000_1000


def operation(subject: PerformanceMonitors, *events: int, pc: int = PC) -> None:
    """An instruction that retires."""
    subject.retired()
    for event in events:
        subject.event(event)
    subject.cycles(1)
    subject.completed(pc)


def test_each_counter_counts_its_event() -> None:
    subject, _ = monitors(E.INST_RETIRED, E.BR_RETIRED, E.LD_RETIRED, E.CPU_CYCLES)
    operation(subject)
    operation(subject, E.BR_RETIRED)
    operation(subject, E.BR_RETIRED, E.LD_RETIRED)
    assert subject.s.values[:4] == [3, 2, 1, 3]
    assert subject.s.values[CYCLES] == 3


def test_cpu_cycles_and_the_cycle_counter_agree() -> None:
    subject, _ = monitors(E.CPU_CYCLES)
    for count in (1, 16, 5):
        subject.cycles(count)
        subject.completed(PC)
    assert subject.s.values[0] == subject.s.values[CYCLES] == 22


@pytest.mark.parametrize("control", [0, 1])
@pytest.mark.parametrize("enabled", [0, 1])
def test_a_counter_counts_where_it_is_enabled_and_all_are(control: int, enabled: int) -> None:
    subject, _ = monitors(E.INST_RETIRED, control=control, enabled=enabled)
    operation(subject)
    assert subject.s.values[0] == control * enabled


def test_what_happened_up_to_a_disabling_write_is_counted_and_nothing_after_it() -> None:
    subject, _ = monitors(E.INST_RETIRED)
    operation(subject)
    subject.retired()  # the MSR itself
    subject.completed(PC)
    subject.s.enabled = 0
    operation(subject)
    assert (subject.s.values[0], subject.s.overflowed) == (2, 0)


def test_counters_of_el2_have_an_enable_of_their_own() -> None:
    subject, pe = monitors(E.INST_RETIRED, E.INST_RETIRED, features=P7 | LEVELS)
    pe.set(MDCR_EL2, HPMN=1)
    operation(subject)
    assert subject.s.values[:2] == [1, 0]
    pe.set(MDCR_EL2, HPMN=1, HPME=1)
    subject.s.control = 0
    operation(subject)
    assert subject.s.values[:2] == [1, 1]


def test_nothing_counts_in_debug_state() -> None:
    subject, pe = monitors(E.INST_RETIRED)
    pe.halted = True
    operation(subject)
    assert subject.s.values == [0] * 33


def test_filters_hold_for_the_level_that_the_event_happens_at() -> None:
    subject, pe = monitors(E.INST_RETIRED)
    subject.configure(0, subject.s.types[0] | PMEVTYPER.of(P=1).value)
    operation(subject)
    pe.el = 0
    operation(subject)
    assert subject.s.values[0] == 1


def test_the_cycle_counter_is_prohibited_with_dp_only() -> None:
    for dp, cycles in ((0, 1), (1, 0)):
        control = PMCR_EL0.of(E=1, DP=dp).value
        subject, pe = monitors(E.CPU_CYCLES, features=P7 | LEVELS, control=control)
        pe.set(SCR_EL3, NS=0)  # Secure, with SPME 0
        operation(subject)
        assert (subject.s.values[0], subject.s.values[CYCLES]) == (0, cycles)


# Overflow


@pytest.mark.parametrize(
    ("features", "lp", "before", "after", "overflow"),
    [
        (PMU, 0, 0xFFFF_FFFE, 0xFFFF_FFFF, 0),
        (PMU, 0, 0xFFFF_FFFF, 0, 1),
        (P5, 0, 0xFFFF_FFFF, 0x1_0000_0000, 1),  # goes on after bit 31
        (P5, 0, 0x7_FFFF_FFFF, 0x8_0000_0000, 1),
        (P5, 1, 0xFFFF_FFFF, 0x1_0000_0000, 0),
        (P5, 1, (1 << 64) - 1, 0, 1),
    ],
)
def test_an_event_counter_overflows_at_32_bits_or_with_lp_at_64(
    features: Features, lp: int, before: int, after: int, overflow: int
) -> None:
    control = PMCR_EL0.of(E=1, LP=lp).value
    subject, _ = monitors(E.INST_RETIRED, features=features, control=control)
    subject.s.values[0] = before
    operation(subject)
    assert (subject.s.values[0], subject.s.overflowed) == (after, overflow)


@pytest.mark.parametrize(("hlp", "overflowed"), [(0, 0b10), (1, 0b00)])
def test_hlp_is_lp_for_the_counters_of_el2(hlp: int, overflowed: int) -> None:
    control = PMCR_EL0.of(E=1, LP=1).value
    events = (E.INST_RETIRED, E.INST_RETIRED)
    subject, pe = monitors(*events, features=P7 | LEVELS, control=control)
    pe.set(MDCR_EL2, HPMN=1, HPME=1, HLP=hlp)
    subject.s.values[:2] = [0xFFFF_FFFF] * 2
    operation(subject)
    assert subject.s.overflowed == overflowed


def test_where_overflow_is_an_exception_every_counter_overflows_at_64_bits() -> None:
    subject, pe = monitors(E.INST_RETIRED, features=SYNC | LEVELS)
    pe.set(PMECR_EL1, PMEE=3)
    subject.s.values[0] = 0xFFFF_FFFF  # LP is 0
    operation(subject)
    assert subject.s.overflowed == 0
    pe.set(PMECR_EL1, PMEE=0)
    subject.s.values[0] = 0xFFFF_FFFF
    operation(subject)
    assert subject.s.overflowed == 1


def test_the_cycle_counter_overflows_at_64_bits() -> None:
    subject, _ = monitors(features=PMU)
    subject.s.values[CYCLES] = 0xFFFF_FFFF
    subject.cycles(1)
    subject.completed(PC)
    assert (subject.s.values[CYCLES], subject.s.overflowed) == (1 << 32, 0)
    subject.s.values[CYCLES] = (1 << 64) - 2
    subject.cycles(5)
    subject.completed(PC)
    assert (subject.s.values[CYCLES], subject.s.overflowed) == (3, 1 << 31)


def test_the_instruction_counter_is_there_with_its_feature_only() -> None:
    for features, count in ((P7, 0), (P7 | {F.FEAT_PMUv3_ICNTR}, 1)):
        subject, _ = monitors(features=features)
        operation(subject)
        assert subject.s.values[INSTRUCTIONS] == count


# CHAIN


def test_an_odd_counter_counts_the_overflows_of_the_one_below_it() -> None:
    subject, _ = monitors(E.CPU_CYCLES, E.CHAIN, E.CHAIN, E.CPU_CYCLES, features=P5)
    subject.s.values[0] = 0xFFFF_FFFF
    subject.cycles(1)
    subject.completed(PC)
    assert subject.s.values[:3] == [1 << 32, 1, 0]
    subject.cycles(3 << 32)
    subject.completed(PC)
    assert subject.s.values[1] == 4
    assert subject.s.overflowed & 0b111 == 0b001


def test_a_chain_overflows_itself() -> None:
    subject, _ = monitors(E.INST_RETIRED, E.CHAIN, features=PMU)
    subject.s.values[:2] = [0xFFFF_FFFF] * 2
    operation(subject)
    assert (subject.s.values[:2], subject.s.overflowed) == ([0, 0], 0b11)


def test_no_chain_at_64_bits_or_across_hpmn() -> None:
    subject, _ = monitors(E.INST_RETIRED, E.CHAIN, control=PMCR_EL0.of(E=1, LP=1).value)
    subject.s.values[0] = (1 << 64) - 1
    operation(subject)
    assert (subject.s.values[1], subject.s.overflowed) == (0, 1)
    subject, pe = monitors(E.INST_RETIRED, E.CHAIN, features=P7 | LEVELS)
    pe.set(MDCR_EL2, HPMN=1, HPME=1)
    subject.s.values[0] = 0xFFFF_FFFF
    operation(subject)
    assert (subject.s.values[1], subject.s.overflowed) == (0, 1)


# Freezes


def test_fzo_stops_the_counters_behind_the_operation_that_overflowed() -> None:
    control = PMCR_EL0.of(E=1, FZO=1).value
    subject, _ = monitors(E.INST_RETIRED, E.BR_RETIRED, E.INST_RETIRED, control=control)
    subject.s.values[0] = 0xFFFF_FFFE
    for _ in range(4):
        operation(subject, E.BR_RETIRED)
    # the second operation overflows; all that it did is counted
    assert subject.s.values[:3] == [1 << 32, 2, 2]
    assert subject.s.values[CYCLES] == 4  # DP is 0
    subject.s.overflowed = 0
    operation(subject, E.BR_RETIRED)
    assert subject.s.values[1] == 3


@pytest.mark.parametrize(("dpfzs", "dp", "cycles"), [(0, 1, 1), (1, 1, 0), (1, 0, 1)])
def test_spe_stops_the_cycle_counter_with_dpfzs_and_dp_only(
    dpfzs: int, dp: int, cycles: int
) -> None:
    features = FREEZE | ({F.FEAT_SPE_DPFZS} if dpfzs else set())
    control = PMCR_EL0.of(E=1, FZS=1, DP=dp).value
    subject, pe = monitors(E.CPU_CYCLES, features=features, control=control, stopped=True)
    pe.set(PMBLIMITR_EL1, E=1, PMFZ=1)
    operation(subject)
    assert (subject.s.values[0], subject.s.values[CYCLES]) == (0, cycles)


# Software


def test_pmswinc_increments_the_counters_of_sw_incr_that_it_names() -> None:
    subject, _ = monitors(E.SW_INCR, E.SW_INCR, E.BR_RETIRED)
    subject.software_increment(0b110)
    subject.completed(PC)
    assert subject.s.values[:3] == [0, 1, 0]


# Interrupt and exception


def test_the_interrupt_is_high_while_a_noticed_counter_has_overflowed() -> None:
    subject, _ = monitors(E.INST_RETIRED, E.BR_RETIRED, noticed=0b01)
    subject.s.values[:2] = [0xFFFF_FFFF, 0xFFFF_FFFF]
    operation(subject, E.BR_RETIRED)
    assert subject.s.overflowed == 0b11
    assert subject.interrupt
    subject.s.overflowed = 0b10  # nobody asked to hear of this one
    assert not subject.interrupt
    subject.s.overflowed = 0b01
    subject.s.control = 0
    assert not subject.interrupt


SYNC_BIT = PMEVTYPER.of(SYNC=1).value


def synchronous(
    *events: int, el: int = 0, more: Features = frozenset()
) -> tuple[PerformanceMonitors, MonitoredPE]:
    """Counters in synchronous mode, their exceptions going to EL1."""
    subject, pe = monitors(*events, features=SYNC | LEVELS | more, el=el, noticed=ALL)
    pe.set(PMECR_EL1, PMEE=3, KPME=1)
    for counter in range(len(events)):
        subject.configure(counter, subject.s.types[counter] | SYNC_BIT)
    subject.configure(INSTRUCTIONS, PMICFILTR_EL0.of(SYNC=1).value)
    return subject, pe


def test_the_operation_that_overflows_makes_the_exception_pending_and_no_other() -> None:
    subject, _ = synchronous(E.BR_RETIRED)
    subject.s.values[0] = (1 << 64) - 2
    operation(subject, E.BR_RETIRED, pc=PC)
    operation(subject, pc=PC + 4)
    assert not subject.s.pending
    assert subject.exception is None
    operation(subject, E.BR_RETIRED, pc=PC + 8)
    assert subject.s.pending
    assert subject.s.address == PC + 8
    assert subject.exception == 1
    assert not subject.interrupt
    assert subject.s.values[0] == 0  # accurate, and no overshoot
    assert subject.entered()
    assert not subject.s.pending


def test_a_later_operation_with_the_event_makes_it_pending_while_the_flag_is_set() -> None:
    subject, pe = synchronous(E.BR_RETIRED)
    subject.s.values[0] = (1 << 64) - 1
    pe.el = 2  # EL1's exception is masked above EL1
    subject.configure(0, subject.s.types[0] | PMEVTYPER.of(NSH=1).value)
    operation(subject, E.BR_RETIRED, pc=PC)
    assert (subject.s.pending, subject.s.overflowed & 1) == (False, 1)
    pe.el = 0
    operation(subject, pc=PC + 4)  # no branch
    assert not subject.s.pending
    operation(subject, E.BR_RETIRED, pc=PC + 8)
    assert subject.s.pending
    assert subject.s.address == PC + 8
    assert subject.s.values[0] == 1  # the overshoot is seen


def test_an_operation_that_counts_by_several_overshoots() -> None:
    subject, _ = synchronous(E.SW_INCR)
    subject.s.values[0] = (1 << 64) - 1
    subject.event(E.SW_INCR, 3)
    subject.completed(PC)
    assert subject.s.pending
    assert subject.s.values[0] == 2


@pytest.mark.parametrize("before", [0, 1 << 63, (1 << 64) - 1])
def test_there_is_no_shadow_whatever_the_counter_holds(before: int) -> None:
    """D13.2.2: a flag that is set, or a value from which one event overflows."""
    subject, _ = synchronous(E.BR_RETIRED)
    subject.s.values[0] = before
    subject.s.overflowed = 0 if before == (1 << 64) - 1 else 1
    operation(subject, E.BR_RETIRED, pc=PC)
    assert subject.s.pending


def test_an_operation_that_raises_makes_nothing_pending() -> None:
    subject, _ = synchronous(E.BR_RETIRED)
    subject.s.overflowed = 1
    subject.event(E.BR_RETIRED)
    subject.completed(PC, raised=True)
    assert not subject.s.pending


def test_a_pending_exception_that_was_masked_meanwhile_does_not_linger() -> None:
    subject, pe = synchronous(E.BR_RETIRED, el=1)
    subject.s.overflowed = 1
    operation(subject, E.BR_RETIRED)
    assert subject.exception == 1
    pe.pm = True
    assert subject.exception is None
    operation(subject)  # executed with the exception masked
    pe.pm = False
    assert subject.exception is None


def test_a_return_that_restores_ppend_leaves_it() -> None:
    subject, _ = synchronous(E.BR_RETIRED)
    subject.s.pending = True
    subject.retired()
    subject.completed(PC, restored=True)
    assert subject.exception == 1


def test_sync_with_another_event_counts_nothing() -> None:
    subject, _ = synchronous(E.LD_RETIRED)
    operation(subject, E.LD_RETIRED)
    assert subject.s.values[0] == 0


def test_the_instruction_counter_has_a_synchronous_mode() -> None:
    subject, _ = synchronous()
    subject.s.values[INSTRUCTIONS] = (1 << 64) - 1
    operation(subject)
    assert subject.s.pending
    assert subject.s.overflowed == 1 << 32


@pytest.mark.parametrize("missing", ["noticed", "enabled", "event", "exception"])
def test_every_condition_is_needed(missing: str) -> None:
    subject, pe = synchronous(E.BR_RETIRED)
    subject.configure(INSTRUCTIONS, 0)
    subject.s.overflowed = 1
    if missing == "noticed":
        subject.s.noticed = 0
    if missing == "enabled":
        subject.s.enabled = 0
    if missing == "exception":
        pe.set(PMECR_EL1, PMEE=0, KPME=1)
    operation(subject, *([] if missing == "event" else [E.BR_RETIRED]))
    assert not subject.s.pending


@pytest.mark.parametrize(("threshold", "pending"), [(1, True), (2, False)])
def test_a_software_increment_below_its_threshold_makes_nothing_pending(
    threshold: int, pending: bool
) -> None:
    """R_NZLVW asks for an event that the counter has counted. TC 0b101: at least TH, as one."""
    subject, _ = synchronous(E.SW_INCR, more=frozenset({F.FEAT_PMUv3_TH}))
    above = PMEVTYPER.of(TC=0b101, TH=threshold).value
    subject.configure(0, subject.s.types[0] | above)
    subject.s.overflowed = 1
    subject.software_increment(1)
    subject.completed(PC)
    assert subject.s.pending is pending


def test_a_counter_that_is_not_synchronous_raises_it_asynchronously() -> None:
    subject, _ = synchronous(E.BR_RETIRED)
    subject.configure(0, subject.s.types[0] & ~SYNC_BIT)
    subject.s.values[0] = (1 << 64) - 1
    operation(subject, E.BR_RETIRED)
    assert subject.exception == 1
    assert not subject.s.pending


def test_overflows_of_synchronous_counters_freeze_nothing() -> None:
    subject, _ = synchronous(E.BR_RETIRED, E.SW_INCR)
    subject.s.control = PMCR_EL0.of(E=1, FZO=1).value
    subject.s.overflowed = 1
    operation(subject, E.BR_RETIRED, E.SW_INCR)
    assert subject.s.values[:2] == [1, 1]


def test_an_overflow_flag_with_sync_freezes_nothing_whatever_the_event() -> None:
    """LD_RETIRED is no synchronous event: its counter stands still, and its flag can be written."""
    subject, _ = synchronous(E.LD_RETIRED, E.SW_INCR)
    subject.s.control = PMCR_EL0.of(E=1, FZO=1).value
    subject.s.overflowed = 1
    operation(subject, E.LD_RETIRED, E.SW_INCR)
    assert subject.s.values[:2] == [0, 1]


def test_more_counters_than_registers_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 31 event counters, got 32"):
        PerformanceMonitors(MonitoredPE(P7), 32)


# Batches


def test_a_batch_moves_counters_as_its_operations_one_by_one() -> None:
    events = (E.INST_RETIRED, E.BR_RETIRED)
    (one, _), (batch, _) = monitors(*events), monitors(*events)
    for subject in (one, batch):
        subject.s.values[1] = 0xFFFF_FFFE
    for _ in range(2):
        operation(one, E.BR_RETIRED)
    batch.landed({0: 2, 1: 2, CYCLES: 2}, batch.live(), PC)
    assert batch.s == one.s
    assert batch.s.overflowed == 0b10


def test_what_counts_is_said_for_the_current_level() -> None:
    subject, pe = monitors(E.INST_RETIRED, E.INST_RETIRED)
    subject.configure(0, subject.s.types[0] | PMEVTYPER.of(U=1).value)
    assert subject.live() == 0b11 | 1 << CYCLES
    pe.el = 0
    assert subject.live() == 0b10 | 1 << CYCLES
    subject.s.control = 0
    assert subject.live() == 0


def test_how_far_an_overflow_is() -> None:
    subject, _ = monitors(E.INST_RETIRED)
    subject.s.values[0] = 0x1_FFFF_FFF0
    subject.s.values[CYCLES] = (1 << 64) - 5
    assert subject.until_overflow(0) == 0x10
    assert subject.until_overflow(CYCLES) == 5
    assert subject.event_of(0) == 0x08
    assert subject.event_of(CYCLES) == 0x11
