"""What the unit as a whole tells: management events, collisions, PMU events."""

from __future__ import annotations

import itertools

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.operation import Instruction, Operation, Timing
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL2,
    PMSDSFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
)
from spe_unicorn.arch.registers.system import (
    MDCR_EL3,
)
from spe_unicorn.spe.feed import SampleEvent
from tests.spe.bench import BUFFER, LIMIT, Bench
from tests.support.fakes import (
    ATOMIC,
    BRANCH,
    EL1_ONLY,
    EXC,
    STORE,
    V1P2,
    V1P3,
    WITH_EL2,
    WITH_EL3,
    alu,
    load,
)

# Management events


def test_full_buffer_stops_profiling_and_raises_the_interrupt() -> None:
    bench = Bench()
    bench.program()
    for _ in range((LIMIT - BUFFER) // 64 - 1):
        bench.sample()
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.line.levels == []
    bench.sample()
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=0, MSS=1)
    assert bench.registers.raw(PMBPTR_EL1) == LIMIT
    assert bench.line.levels == [True]
    assert not bench.unit.enabled
    assert bench.unit.statistics.written == 1024
    assert bench.unit.statistics.management_events == {"full": 1}
    assert bench.events.counts[SampleEvent.BUFFER_FULL] == 1


def test_profiling_goes_on_when_software_makes_room_and_clears_s() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMBPTR_EL1, LIMIT - 64)
    bench.sample()
    assert not bench.unit.enabled
    count = bench.registers.raw(PMSICR_EL1)
    bench.registers.write(PMBPTR_EL1, BUFFER)
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.refresh()
    assert bench.unit.enabled
    assert bench.line.levels == [True, False]
    assert bench.registers.raw(PMSICR_EL1) == count
    bench.sample()
    assert len(bench.records()) == 1


def test_clearing_s_without_making_room_is_full_again_at_the_next_record() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMBPTR_EL1, LIMIT - 64)
    bench.sample()
    written = dict(bench.memory.bytes)
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.refresh()
    bench.sample()
    assert bench.pmbsr().S == 1
    assert bench.memory.bytes == written
    statistics = bench.unit.statistics
    assert (statistics.written, statistics.lost) == (1, 1)
    assert statistics.management_events == {"full": 2}


def test_setting_s_by_hand_raises_the_interrupt_and_stops() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMBSR_EL1, PMBSR_EL1.of(S=1).value)
    bench.unit.refresh()
    assert bench.line.levels == [True]
    assert not bench.unit.enabled


def test_observers_are_told_of_the_record_before_the_event() -> None:
    bench = Bench()
    bench.program()
    order: list[str] = []
    bench.unit.recorded.connect(lambda *_: order.append("record"))
    bench.unit.managed.connect(lambda *_: order.append("event"))
    bench.registers.write(PMBPTR_EL1, LIMIT - 64)
    bench.sample()
    assert order == ["record", "event"]


def test_discard_mode_writes_nothing_and_never_fills() -> None:
    bench = Bench(EL1_ONLY | V1P2)
    bench.program()
    bench.registers.write(PMBLIMITR_EL1, PMBLIMITR_EL1.of(E=1, FM=2).value)
    bench.registers.write(PMBPTR_EL1, 0xFFFF_FFFF_FFFF_FF80)
    bench.unit.refresh()
    for _ in range(3):
        bench.sample()
    assert bench.memory.written() is None
    assert bench.pmbsr() == PMBSR_EL1(0)
    assert bench.registers.raw(PMBPTR_EL1) == 0xFFFF_FFFF_FFFF_FF80
    assert bench.unit.statistics.discarded == 3
    assert bench.events.counts[SampleEvent.FILTRATE] == 3
    assert bench.seen == []


# Routing of events with FEAT_SPE_EXC


@pytest.mark.parametrize(
    ("pmsee", "ee", "register"),
    [(0b00, 0b00, PMBSR_EL1), (0b01, 0b11, PMBSR_EL2), (0b11, 0b00, PMBSR_EL3)],
)
def test_full_is_recorded_at_the_level_that_wants_it(
    pmsee: int, ee: int, register: type[PMBSR_EL1 | PMBSR_EL2 | PMBSR_EL3]
) -> None:
    bench = Bench(WITH_EL3 | EXC)
    bench.registers.write(MDCR_EL3, MDCR_EL3.of(PMSEE=pmsee).value)
    bench.program()
    bench.registers.write(PMSCR_EL2, PMSCR_EL2.of(EE=ee).value)
    bench.registers.write(PMBPTR_EL1, LIMIT - 64)
    bench.unit.refresh()
    bench.sample()
    for other in (PMBSR_EL1, PMBSR_EL2, PMBSR_EL3):
        expected = other.of(S=1, MSS=1) if other is register else other(0)
        assert bench.registers.read(other) == expected
    assert not bench.unit.enabled
    assert bench.line.levels == ([True] if register is PMBSR_EL1 else [])


# Collisions


def test_collision_is_counted_marked_and_not_sampled() -> None:
    bench = Bench(timing=Timing(300, 1))
    bench.program()
    assert bench.run(alu())
    assert not bench.run(alu()), "257 cycles later the first operation is still in flight"
    assert bench.pmbsr() == PMBSR_EL1.of(COLL=1)
    assert bench.line.levels == []
    statistics = bench.unit.statistics
    assert (statistics.selected, statistics.collisions, statistics.written) == (2, 1, 1)
    assert bench.events.counts[SampleEvent.COLLISION] == 1


def test_next_selection_after_a_collision_is_one_interval_later() -> None:
    bench = Bench(timing=Timing(300, 1))
    bench.program()
    bench.run(alu())
    bench.run(alu())
    assert bench.unit.until_hit() == 257
    assert bench.run(alu()), "514 cycles later it has completed"


def test_direct_read_of_coll_after_a_context_synchronisation_event_returns_1() -> None:
    bench = Bench(timing=Timing(300, 1))
    bench.program()
    bench.run(alu())
    bench.run(alu())
    bench.unit.refresh()  # what a context synchronisation event comes to
    assert bench.registers.read(PMBSR_EL1).COLL == 1


def test_an_operation_in_flight_for_exactly_one_interval_does_not_collide() -> None:
    bench = Bench(timing=Timing(257, 1))
    bench.program()
    assert bench.run(alu())
    assert bench.run(alu())


def test_two_operations_may_be_in_flight_where_the_core_says_so() -> None:
    bench = Bench(impdef=ImpDef(max_sampled_operations=2), timing=Timing(600, 1))
    bench.program()
    assert [bench.run(alu()) for _ in range(5)] == [True, True, False, True, True]


def test_coll_is_marked_where_other_events_go() -> None:
    bench = Bench(WITH_EL2 | EXC, timing=Timing(300, 1))
    bench.program()
    bench.registers.write(PMSCR_EL2, PMSCR_EL2.of(EE=0b11).value)
    bench.unit.refresh()
    bench.run(alu())
    bench.run(alu())
    assert bench.registers.read(PMBSR_EL2) == PMBSR_EL2.of(COLL=1)
    assert bench.pmbsr() == PMBSR_EL1(0)


# PMU events and statistics


def test_population_is_counted_whether_sampled_or_not() -> None:
    bench = Bench()
    bench.program()
    bench.sample()
    bench.run(alu(), 43)
    assert bench.unit.statistics.population == 300
    assert bench.events.counts[SampleEvent.POP] == 300


FEED_EVENTS = (
    "FEED_BR", "FEED_LD", "FEED_ST", "FEED_OP", "FEED_EVENT", "FEED_LAT", "FEED_FP", "FEED_SIMD",
)  # fmt: skip


def fed(bench: Bench) -> set[str]:
    return {name for name in FEED_EVENTS if bench.events.counts[SampleEvent[name]]}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (alu(), {"FEED_EVENT", "FEED_LAT"}),
        (load(), {"FEED_LD", "FEED_EVENT", "FEED_LAT", "FEED_OP"}),
        (Operation(STORE, 0, 1), {"FEED_ST", "FEED_EVENT", "FEED_LAT"}),
        (Operation(ATOMIC, 0, 1), {"FEED_LD", "FEED_ST", "FEED_EVENT", "FEED_LAT", "FEED_OP"}),
        (Operation(BRANCH, 0, 1), {"FEED_BR", "FEED_EVENT", "FEED_LAT"}),
        (
            Operation(Instruction(0x4E20D400, fp=True, simd=True), 0, 1),
            {"FEED_FP", "FEED_SIMD", "FEED_EVENT", "FEED_LAT"},
        ),
    ],
)
def test_samples_feed_the_events_of_what_they_are(operation: Operation, expected: set[str]) -> None:
    bench = Bench(EL1_ONLY | V1P2 | {Feature.FEAT_SPE_EFT, Feature.FEAT_SPE_FPF})
    bench.program()
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(LD=1).value)
    bench.unit.refresh()
    bench.sample(operation)
    assert fed(bench) == expected
    assert bench.events.counts[SampleEvent.FEED] == 1
    assert bench.events.counts[SampleEvent.FILTRATE] == 1


def test_tests_of_filters_feed_although_the_filters_are_off() -> None:
    bench = Bench(EL1_ONLY | V1P2)
    bench.program()
    bench.registers.write(PMSNEVFR_EL1, 0x40)
    bench.registers.write(PMSLATFR_EL1, 100)
    bench.unit.refresh()
    bench.sample(Operation(BRANCH, 0, 1, condition_failed=True))
    assert fed(bench) == {"FEED_BR"}


@pytest.mark.parametrize(("total", "feeds"), [(99, False), (100, True), (101, True)])
def test_a_total_latency_of_minlat_and_above_feeds_feed_lat(total: int, feeds: bool) -> None:
    bench = Bench(EL1_ONLY | V1P2, timing=Timing(total, 1))
    bench.program()
    bench.registers.write(PMSLATFR_EL1, 100)
    bench.unit.refresh()
    bench.sample()
    assert ("FEED_LAT" in fed(bench)) is feeds


def test_filtered_samples_feed_but_do_not_filtrate() -> None:
    bench = Bench(EL1_ONLY | V1P2)
    bench.program()
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(FT=1, ST=1).value)
    bench.unit.refresh()
    bench.sample(load())
    assert bench.events.counts[SampleEvent.FEED] == 1
    assert bench.events.counts[SampleEvent.FEED_LD] == 1
    assert bench.events.counts[SampleEvent.FILTRATE] == 0


def test_before_v1p2_there_are_four_events() -> None:
    bench = Bench()
    bench.program()
    bench.sample(load())
    assert set(bench.events.counts) == {SampleEvent.POP, SampleEvent.FEED, SampleEvent.FILTRATE}


@pytest.mark.parametrize(("chosen", "count"), [(1 << 0xD, 1), (1 << 0x8, 0)])
def test_loads_from_a_chosen_source_feed(chosen: int, count: int) -> None:
    features = EL1_ONLY | V1P3 | {
        Feature.FEAT_SPEv1p4,
        Feature.FEAT_SPE_CRR,
        Feature.FEAT_SPE_LDS,
        Feature.FEAT_SPE_FDS,
    }  # fmt: skip
    bench = Bench(features, timing=Timing(9, 1, data_source=0xD))
    bench.program()
    bench.registers.write(PMSDSFR_EL1, chosen)
    bench.unit.refresh()
    bench.sample(load())
    assert bench.events.counts[SampleEvent.FEED_DS] == count


def test_every_selection_ends_in_one_way() -> None:
    bench = Bench(EL1_ONLY | V1P2, timing=Timing(300, 1))
    bench.program()
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(FT=1, LD=1).value)
    bench.registers.write(PMBPTR_EL1, LIMIT - 5 * 64)
    bench.unit.refresh()
    for operation in itertools.cycle((alu(), load())):
        if not bench.unit.enabled:
            break
        bench.run(operation)
        if bench.unit.statistics.selected % 5 == 0:
            bench.now += 1000
    s = bench.unit.statistics
    assert s.collisions > 0
    assert s.filtered > 0
    assert s.written == 5
    assert s.selected == s.collisions + s.filtered + s.written + s.discarded + s.lost
    assert s.bytes == 5 * 64


def test_reset_is_noticed_when_the_unit_is_told() -> None:
    bench = Bench()
    bench.program()
    bench.registers.reset(lambda: 0)
    bench.unit.reload()
    assert not bench.unit.enabled
    assert bench.registers.raw(PMSICR_EL1) == 0
