"""The Performance Monitors' registers as software finds them, by Exception level."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Features
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers.fgt import HDFGRTR2_EL2, HDFGWTR2_EL2
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.pmu.monitors import PerformanceMonitors
from spe_unicorn.pmu.views import VIEWED, MonitorView
from tests.pmu.monitored_pe import LEVELS, P7, PMU, SYNC, F, MonitoredPE

EVENTS = frozenset({0x00, 0x08, 0x11, 0x1E, 0x21, 0x3A, 0x4000, 0x4001, 0x4004, 0x4020})
EVERY = SYNC | LEVELS | {F.FEAT_FGT, F.FEAT_FGT2}
C, F0 = 1 << 31, 1 << 32


def view(
    features: Features = EVERY, el: int = 1, hpmn: int = 6
) -> tuple[MonitorView, PerformanceMonitors, MonitoredPE]:
    pe = MonitoredPE(features, el)
    pe.set(SCR_EL3, NS=1, FGTEn2=1)
    pe.set(MDCR_EL3, EnPM2=1)
    pe.set(MDCR_EL2, HPMN=hpmn)
    pe.set(HDFGRTR2_EL2, nPMICFILTR_EL0=1)
    pe.set(HDFGWTR2_EL2, nPMICFILTR_EL0=1)
    monitors = PerformanceMonitors(pe, 6)
    return MonitorView(pe, monitors, EVENTS), monitors, pe


@pytest.mark.parametrize(
    ("set_", "clear"),
    [
        (r.PMCNTENSET_EL0, r.PMCNTENCLR_EL0),
        (r.PMOVSSET_EL0, r.PMOVSCLR_EL0),
        (r.PMINTENSET_EL1, r.PMINTENCLR_EL1),
    ],
)
def test_pairs_set_and_clear_the_same_bits(
    set_: type[r.PMURegister], clear: type[r.PMURegister]
) -> None:
    subject, _, _ = view()
    subject.write(set_, 0b101 | C | F0)
    assert subject.read(set_) == subject.read(clear) == 0b101 | C | F0
    subject.write(set_, 0b010)
    subject.write(clear, 0b001 | C)
    assert subject.read(set_) == subject.read(clear) == 0b110 | F0


def test_there_are_no_bits_of_counters_that_there_are_not() -> None:
    subject, _, _ = view(PMU | LEVELS)
    subject.write(r.PMCNTENSET_EL0, (1 << 64) - 1)
    assert subject.read(r.PMCNTENSET_EL0) == 0b11_1111 | C


def test_counters_of_el2_neither_show_nor_change_below_it() -> None:
    subject, monitors, pe = view(el=2, hpmn=4)
    subject.write(r.PMCNTENSET_EL0, 0b11_0001)
    pe.el = 1
    assert subject.read(r.PMCNTENSET_EL0) == 0b1
    subject.write(r.PMCNTENCLR_EL0, (1 << 33) - 1)
    assert monitors.s.enabled == 0b11_0000
    pe.set(SCR_EL3, NS=0, FGTEn2=1)  # Secure, where no EL2 is enabled
    assert subject.read(r.PMCNTENSET_EL0) == 0b11_0000


def test_pmcr_tells_how_many_counters_the_reader_has() -> None:
    subject, _, pe = view(hpmn=4)
    assert [_n(subject, pe, el) for el in range(4)] == [4, 4, 6, 6]
    pe.set(SCR_EL3, NS=0)
    assert _n(subject, pe, 1) == 6


def _n(subject: MonitorView, pe: MonitoredPE, el: int) -> int:
    pe.el = el
    value = subject.read(r.PMCR_EL0)
    assert value >> 6 & 1  # LC
    return r.PMCR_EL0(value).N


def test_pmcr_keeps_what_the_core_has_and_forgets_what_it_was_told_to_do() -> None:
    subject, _, _ = view(P7 | LEVELS)
    subject.write(r.PMCR_EL0, (1 << 64) - 1)
    # FZO, LP, DP, E; N is 6 and LC reads as 1; FZS needs SPE
    assert subject.read(r.PMCR_EL0) == 1 << 9 | 1 << 7 | 1 << 5 | 1 | 6 << 11 | 1 << 6


@pytest.mark.parametrize(("el", "left"), [(1, [4, 5]), (2, []), (3, [])])
def test_pmcr_p_resets_the_event_counters_that_the_writer_has(el: int, left: list[int]) -> None:
    subject, monitors, _ = view(el=el, hpmn=4)
    monitors.s.values = [7] * 33
    monitors.s.overflowed = ALL = (1 << 33) - 1
    subject.write(r.PMCR_EL0, r.PMCR_EL0.of(P=1).value)
    assert [n for n in range(6) if monitors.s.values[n]] == left
    assert (monitors.s.values[31], monitors.s.values[32]) == (7, 7)
    assert monitors.s.overflowed == ALL  # flags stay
    subject.write(r.PMCR_EL0, r.PMCR_EL0.of(C=1).value)
    assert (monitors.s.values[31], monitors.s.values[32]) == (0, 7)


@pytest.mark.parametrize(("features", "width"), [(PMU | LEVELS, 32), (P7 | LEVELS, 64)])
def test_event_counters_are_as_wide_as_the_version_has_them(features: Features, width: int) -> None:
    subject, _, _ = view(features)
    subject.write(r.PMEVCNTRS[2], (1 << 64) - 1)
    assert subject.read(r.PMEVCNTRS[2]) == (1 << width) - 1
    subject.write(r.PMCCNTR_EL0, (1 << 64) - 1)
    assert subject.read(r.PMCCNTR_EL0) == (1 << 64) - 1


def test_pmselr_selects_what_the_x_registers_are() -> None:
    subject, monitors, pe = view()
    pe.set(r.PMSELR_EL0, SEL=3)
    subject.write(r.PMXEVTYPER_EL0, 0x21)
    subject.write(r.PMXEVCNTR_EL0, 99)
    assert (monitors.s.types[3], monitors.s.values[3]) == (0x21, 99)
    assert (subject.read(r.PMXEVTYPER_EL0), subject.read(r.PMXEVCNTR_EL0)) == (0x21, 99)
    pe.set(r.PMSELR_EL0, SEL=31)
    subject.write(r.PMXEVTYPER_EL0, 0x8000_0021)
    assert subject.read(r.PMCCFILTR_EL0) == 0x8000_0000  # it has no event


def test_types_keep_what_the_core_has() -> None:
    subject, _, _ = view(P7)
    subject.write(r.PMEVTYPERS[0], (1 << 64) - 1)
    assert subject.read(r.PMEVTYPERS[0]) == 0xC000_FFFF
    subject, _, _ = view()
    subject.write(r.PMICFILTR_EL0, 0)
    assert subject.read(r.PMICFILTR_EL0) == 0x0008


def test_pmswinc_and_pmzr_reach_the_counters_of_the_writer_alone() -> None:
    subject, monitors, _ = view(hpmn=2)
    monitors.s.control, monitors.s.enabled = 1, 0b111
    subject.write(r.PMSWINC_EL0, 0b111)  # type 0 is SW_INCR
    monitors.completed(0)
    assert monitors.s.values[:3] == [1, 1, 0]
    monitors.s.values = [7] * 33
    subject.write(r.PMZR_EL0, 0b101 | F0)
    assert [n for n in (0, 1, 2, 31, 32) if monitors.s.values[n]] == [1, 2, 31]


def test_the_events_that_there_are_stand_in_pmceid() -> None:
    subject, _, _ = view()
    low = 1 << 0x00 | 1 << 0x08 | 1 << 0x11 | 1 << 0x1E
    assert subject.read(r.PMCEID0_EL0) == low | 1 << 32 | 1 << 33 | 1 << 36
    assert subject.read(r.PMCEID1_EL0) == 1 << 1 | 1 << 26 | 1 << 32


# EL0


def test_el0_with_uen_has_the_counters_that_pmuacr_gives_it() -> None:
    subject, monitors, pe = view(el=0)
    pe.set(r.PMUSERENR_EL0, UEN=1)
    pe.set(r.PMUACR_EL1, P=0b010, C=1)
    monitors.s.values = [7] * 33
    counters = (r.PMEVCNTRS[0], r.PMEVCNTRS[1], r.PMCCNTR_EL0, r.PMICNTR_EL0)
    assert [subject.read(c) for c in counters] == [0, 7, 7, 0]
    for counter in counters:
        subject.write(counter, 8)
    assert [monitors.s.values[n] for n in (0, 1, 31, 32)] == [7, 8, 8, 7]
    subject.write(r.PMCNTENSET_EL0, (1 << 33) - 1)
    assert monitors.s.enabled == 0b010 | C


@pytest.mark.parametrize(
    ("el", "shown"), [(1, 0b000111 | C | F0), (2, 0b111111 | C | F0), (3, 0b111111 | C | F0)]
)
def test_pmuacr_has_the_counters_of_its_level_and_no_others(el: int, shown: int) -> None:
    """Six counters, of which three are EL2's."""
    subject, _, pe = view(el=el, hpmn=3)
    subject.write(r.PMUACR_EL1, (1 << 64) - 1)
    assert subject.read(r.PMUACR_EL1) == shown
    assert pe.registers.raw(r.PMUACR_EL1) == shown


def test_el1_leaves_what_el2_gave_in_pmuacr() -> None:
    subject, _, pe = view(el=1, hpmn=3)
    pe.registers.set_raw(r.PMUACR_EL1, 0b111001)
    assert subject.read(r.PMUACR_EL1) == 0b001
    subject.write(r.PMUACR_EL1, C | 0b010)
    assert pe.registers.raw(r.PMUACR_EL1) == C | 0b111010
    pe.set(HDFGWTR2_EL2)  # nPMICFILTR_EL0 0: EL2 traps writes of the instruction counter's filter
    subject.write(r.PMUACR_EL1, F0)
    assert pe.registers.raw(r.PMUACR_EL1) == 0b111000


def test_el0_only_reads_the_kinds_of_counters_that_er_cr_and_ir_name() -> None:
    subject, monitors, pe = view(el=0)
    pe.set(r.PMUACR_EL1, P=0b1, C=1, F0=1)
    for bit, kept in (("ER", 0), ("CR", 31), ("IR", 32)):
        pe.set(r.PMUSERENR_EL0, UEN=1, **{bit: 1})
        monitors.s.values = [7] * 33
        for counter in (r.PMEVCNTRS[0], r.PMCCNTR_EL0, r.PMICNTR_EL0):
            subject.write(counter, 8)
        assert [n for n in (0, 31, 32) if monitors.s.values[n] == 7] == [kept]
        subject.write(r.PMZR_EL0, 1 | C | F0)
        assert [n for n in (0, 31, 32) if monitors.s.values[n]] == [kept]


def test_without_uen_el0_has_no_instruction_counter() -> None:
    subject, monitors, pe = view(el=0)
    pe.set(r.PMUSERENR_EL0, EN=1)
    subject.write(r.PMCNTENSET_EL0, 1 | C | F0)
    assert monitors.s.enabled == 1 | C


@pytest.mark.parametrize("hidden_by", ["EnPM2", "FGTEn2", "nPMICFILTR_EL0"])
def test_bits_f0_show_nothing_where_the_instruction_counter_is_trapped(hidden_by: str) -> None:
    subject, monitors, pe = view()
    monitors.s.enabled = F0
    assert subject.read(r.PMCNTENSET_EL0) == F0
    if hidden_by == "EnPM2":
        pe.set(MDCR_EL3)
    elif hidden_by == "FGTEn2":
        pe.set(SCR_EL3, NS=1)
    else:
        pe.set(HDFGRTR2_EL2)
    at = []
    for el in (1, 2, 3):
        pe.el = el
        at.append(subject.read(r.PMCNTENSET_EL0))
    assert at == [0, 0 if hidden_by == "EnPM2" else F0, F0]


def test_writes_program_what_counts() -> None:
    subject, monitors, _ = view()
    subject.write(r.PMCNTENSET_EL0, 0b11)
    subject.write(r.PMCNTENCLR_EL0, 0b01)
    subject.write(r.PMCR_EL0, 1)
    subject.write(r.PMEVTYPERS[1], 0x08)
    monitors.retired(5)
    monitors.completed(0)
    assert subject.read(r.PMEVCNTRS[1]) == 5
    assert len(VIEWED) == len(r.PMU_REGISTERS) - 3
    for register in VIEWED:
        subject.read(register)
