"""Each filter rule by hand, the constrained cases, and a one-line reference for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.spe.filter import Filter, FilterRegisters, Flag, chosen_filter, programmed_filter

FE, FT, FL, FnE, FDS = (1 << n for n in range(5))
B, LD, ST, FP, SIMD = (1 << 16 + n for n in range(5))
Bm, LDm, STm, FPm, SIMDm = (1 << 48 + n for n in range(5))

ALU = Flag.NONE
LOAD = Flag.LD
STORE = Flag.ST
ATOMIC = Flag.LD | Flag.ST
BRANCH = Flag.B


def programmed(
    pmsfcr: int,
    *,
    pmsevfr: int = 0,
    pmsnevfr: int = 0,
    pmslatfr: int = 0,
    pmsdsfr: int = 0,
    eft: bool = False,
    drops: bool = False,
) -> Filter:
    registers = FilterRegisters(pmsfcr, pmsevfr, pmsnevfr, pmslatfr, pmsdsfr)
    return programmed_filter(registers, eft=eft, empty_filter_drops=drops)


def kept_types(filter_: Filter) -> set[int]:
    return {flags for flags in range(32) if filter_.keeps(flags, 0, 0, None)}


def test_nothing_enabled_keeps_everything() -> None:
    subject = programmed(LD | ST, pmsevfr=0xFFFF, pmslatfr=1000)
    assert not subject.active
    assert subject.keeps(BRANCH, 0, 0, None)


def test_event_filter_wants_every_chosen_event() -> None:
    subject = programmed(FE, pmsevfr=0x84)
    assert subject.keeps(ALU, 0x86, 0, None)
    assert not subject.keeps(ALU, 0x82, 0, None)
    assert not subject.keeps(ALU, 0x06, 0, None)


def test_inverted_event_filter_rejects_on_any_chosen_event() -> None:
    subject = programmed(FnE, pmsnevfr=0x84)
    assert subject.keeps(ALU, 0x02, 0, None)
    assert not subject.keeps(ALU, 0x82, 0, None)
    assert not subject.keeps(ALU, 0x06, 0, None)


def test_latency_filter_keeps_the_minimum_itself() -> None:
    subject = programmed(FL, pmslatfr=20)
    assert subject.keeps(ALU, 0, 20, None)
    assert not subject.keeps(ALU, 0, 19, None)


def test_latency_filter_compares_the_count_before_saturation() -> None:
    assert programmed(FL, pmslatfr=0xFFFF).keeps(ALU, 0, 0x10000, None)


@pytest.mark.parametrize(
    ("controls", "kept"),
    [
        (LD, {LOAD, ATOMIC}),
        (ST, {STORE, ATOMIC}),
        (B, {BRANCH}),
        (LD | ST, {LOAD, STORE, ATOMIC}),
        (LD | ST | B, {LOAD, STORE, ATOMIC, BRANCH}),
    ],
)
def test_type_filter_keeps_what_has_a_chosen_flag(controls: int, kept: set[Flag]) -> None:
    subject = programmed(FT | controls)
    found = {f for f in (ALU, LOAD, STORE, ATOMIC, BRANCH) if subject.keeps(f, 0, 0, None)}
    assert found == kept


def test_extended_type_filter_loads_but_not_atomics() -> None:
    subject = programmed(FT | LD | LDm | STm, eft=True)
    assert subject.keeps(LOAD, 0, 0, None)
    assert not subject.keeps(ATOMIC, 0, 0, None)
    assert not subject.keeps(STORE, 0, 0, None)


def test_extended_type_filter_any_operation_but_branches() -> None:
    subject = programmed(FT | Bm, eft=True)
    assert subject.keeps(ALU, 0, 0, None)
    assert subject.keeps(ATOMIC, 0, 0, None)
    assert not subject.keeps(BRANCH | Flag.LD, 0, 0, None)


def test_extended_type_filter_fp_or_simd_loads() -> None:
    subject = programmed(FT | LD | LDm | FP | SIMD, eft=True)
    assert subject.keeps(LOAD | Flag.FP, 0, 0, None)
    assert subject.keeps(LOAD | Flag.SIMD, 0, 0, None)
    assert not subject.keeps(LOAD, 0, 0, None)
    assert not subject.keeps(STORE | Flag.FP, 0, 0, None)


def test_extended_type_filter_fp_and_simd_both() -> None:
    subject = programmed(FT | FP | FPm | SIMD | SIMDm, eft=True)
    assert subject.keeps(Flag.FP | Flag.SIMD, 0, 0, None)
    assert not subject.keeps(Flag.FP, 0, 0, None)


def test_extended_type_filter_without_controls_keeps_everything() -> None:
    assert kept_types(programmed(FT, eft=True, drops=True)) == set(range(32))


def test_data_source_filter_looks_at_loads_that_have_one() -> None:
    subject = programmed(FDS, pmsdsfr=1 << 0xD)
    assert subject.keeps(LOAD, 0, 0, 0xD)
    assert subject.keeps(ATOMIC, 0, 0, 0xD)
    assert not subject.keeps(LOAD, 0, 0, 0x8)
    assert not subject.keeps(ATOMIC, 0, 0, 0x8)
    assert subject.keeps(LOAD, 0, 0, None)
    assert subject.keeps(STORE, 0, 0, 0x8)
    assert subject.keeps(ALU, 0, 0, None)


def test_data_source_filter_looks_at_six_bits() -> None:
    assert programmed(FDS, pmsdsfr=1 << 0xD).keeps(LOAD, 0, 0, 0x4D)


def test_data_source_filter_with_nothing_chosen_drops_loads_that_have_one() -> None:
    subject = programmed(FDS)
    assert not subject.keeps(LOAD, 0, 0, 0)
    assert subject.keeps(STORE, 0, 0, None)


EMPTY = [
    pytest.param({"pmsfcr": FE}, id="no event required"),
    pytest.param({"pmsfcr": FnE}, id="no event forbidden"),
    pytest.param({"pmsfcr": FL}, id="no minimum latency"),
    pytest.param({"pmsfcr": FT}, id="no type"),
    pytest.param(
        {"pmsfcr": FE | FnE, "pmsevfr": 0x82, "pmsnevfr": 0x80}, id="event required and forbidden"
    ),
]


@pytest.mark.parametrize("registers", EMPTY)
def test_empty_filter_acts_as_if_disabled(registers: dict[str, int]) -> None:
    subject = programmed(**registers)
    assert all(subject.keeps(flags, e, 0, None) for flags in range(32) for e in (0, 0x82))


@pytest.mark.parametrize("registers", EMPTY)
def test_empty_filter_drops_everything_where_the_core_chose_so(registers: dict[str, int]) -> None:
    subject = programmed(**registers, drops=True)
    assert subject.active
    assert not any(subject.keeps(flags, e, 0, None) for flags in range(32) for e in (0, 0x82))


def test_an_empty_filter_leaves_the_others_working() -> None:
    subject = programmed(FE | FL, pmslatfr=9)
    assert subject.keeps(ALU, 0, 9, None)
    assert not subject.keeps(ALU, 0, 8, None)


def test_all_filters_must_pass() -> None:
    subject = programmed(FE | FT | FL | LD, pmsevfr=0x80, pmslatfr=5)
    assert subject.keeps(LOAD, 0x82, 5, None)
    assert not subject.keeps(STORE, 0x82, 5, None)
    assert not subject.keeps(LOAD, 0x02, 5, None)
    assert not subject.keeps(LOAD, 0x82, 4, None)


def test_type_test_is_met_by_nothing_while_no_type_is_selected() -> None:
    assert not any(programmed(0, eft=True).meets_type(flags) for flags in range(32))


def test_tests_are_met_whether_or_not_their_filters_are_enabled() -> None:
    subject = programmed(LD, pmsevfr=0x2, pmsnevfr=0x80, pmsdsfr=1 << 8)
    assert subject.meets_type(LOAD)
    assert not subject.meets_type(STORE)
    assert subject.meets_events(0x2)
    assert not subject.meets_events(0x82)
    assert subject.meets_source(8)
    assert not subject.meets_source(0)
    assert not subject.meets_source(None)


def test_chosen_types_keep_any_of_them() -> None:
    subject = chosen_filter([Flag.LD, Flag.B])
    assert subject.keeps(ATOMIC, 0, 0, None)
    assert subject.keeps(BRANCH, 0, 0, None)
    assert not subject.keeps(STORE, 0, 0, None)


def test_nothing_chosen_keeps_everything() -> None:
    assert not chosen_filter().active


def test_chosen_latency_is_a_minimum() -> None:
    assert not chosen_filter(min_latency=7).keeps(ALU, 0, 6, None)
    assert chosen_filter(min_latency=7).keeps(ALU, 0, 7, None)


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0 cycles, got -1"):
        chosen_filter(min_latency=-1)


bits5 = st.integers(0, 31)
events16 = st.integers(1, 0xFFFF)


@given(
    controls=bits5, masks=bits5, flags=bits5, required=events16, forbidden=events16,
    events=st.integers(0, 0xFFFF), minimum=st.integers(1, 50), total=st.integers(0, 60),
    enabled=st.integers(0, 15),
)  # fmt: skip
def test_filters_agree_with_a_line_for_each_rule(
    controls: int,
    masks: int,
    flags: int,
    required: int,
    forbidden: int,
    events: int,
    minimum: int,
    total: int,
    enabled: int,
) -> None:
    forbidden &= ~required
    subject = programmed(
        enabled | controls << 16 | masks << 48,
        pmsevfr=required,
        pmsnevfr=forbidden,
        pmslatfr=minimum,
        eft=True,
    )
    group = controls & ~masks
    assert subject.keeps(flags, events, total, None) == (
        (not enabled & FE or events & required == required)
        and (not enabled & FnE or events & forbidden == 0)
        and (not enabled & FL or total >= minimum)
        and (not enabled & FT or group == 0 or flags & group != 0)
        and (not enabled & FT or flags & masks == controls & masks)
    )
