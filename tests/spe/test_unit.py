"""The unit as a whole: registers in, records, events, interrupts and PMU events out."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.operation import Timing
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
)
from spe_unicorn.arch.registers.system import (
    CONTEXTIDR_EL1,
)
from tests.spe.bench import BUFFER, LIMIT, Bench
from tests.support.fakes import (
    EL1_ONLY,
    alu,
    load,
)

# Enabling and counting


def test_enabling_loads_the_counters() -> None:
    bench = Bench()
    bench.program()
    assert bench.unit.enabled
    assert bench.registers.raw(PMSICR_EL1) == 0x100


def test_enabling_with_a_counter_continues_from_it() -> None:
    bench = Bench()
    bench.registers.write(PMSICR_EL1, 5)
    bench.program()
    assert bench.unit.until_hit() == 5


def test_interval_1_selects_every_257th_operation() -> None:
    bench = Bench()
    bench.program()
    assert bench.unit.until_hit() == 257
    bench.sample()
    assert bench.unit.until_hit() == 257


def test_counter_reads_as_it_counts() -> None:
    bench = Bench()
    bench.program()
    bench.run(alu(), 101)
    assert bench.registers.raw(PMSICR_EL1) == 0x100 - 100


def test_counter_written_while_enabled_takes_effect() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMSICR_EL1, 7)
    assert bench.unit.until_hit() == 7


def test_counters_keep_their_values_while_profiling_is_disabled() -> None:
    bench = Bench()
    bench.program()
    bench.run(alu(), 11)
    bench.registers.write(PMSCR_EL1, 0)
    bench.unit.refresh()
    assert not bench.unit.enabled
    assert bench.registers.raw(PMSICR_EL1) == 0x100 - 10
    bench.registers.write(PMSCR_EL1, 3)
    bench.unit.refresh()
    assert bench.unit.until_hit() == 257 - 11


def test_counters_that_software_saves_and_restores_go_on_where_they_were() -> None:
    bench = Bench(EL1_ONLY | {Feature.FEAT_SPE_ERnd})
    bench.program()
    bench.run(alu(), 101)

    def switch(pmsicr: int) -> int:
        bench.registers.write(PMSCR_EL1, 0)
        bench.unit.refresh()
        saved = bench.registers.raw(PMSICR_EL1)
        bench.registers.write(PMSICR_EL1, pmsicr)
        bench.registers.write(PMSCR_EL1, 3)
        bench.unit.refresh()
        return saved

    first = switch(0x42 << 56 | 5)
    assert first == 0x100 - 100
    assert bench.run(alu(), 5), "the other context's COUNT was 5"
    second = switch(first)
    assert second == 0x42 - 5 << 56 | 0x100
    assert bench.unit.until_hit() == 257 - 101
    switch(second)
    assert bench.unit.until_hit() == 0x42 - 5


def test_unsynchronised_read_sees_what_happened_so_far() -> None:
    """Our choice: registers show everything without PSB CSYNC or a synchronisation event."""
    bench = Bench()
    bench.program()
    bench.sample()
    assert bench.registers.raw(PMBPTR_EL1) == BUFFER + 64
    bench.registers.write(PMBPTR_EL1, LIMIT - 64)
    bench.sample()
    assert bench.registers.read(PMBSR_EL1).S == 1


def test_unsynchronised_write_takes_effect_at_once() -> None:
    """Our choice: the next operation is profiled by what was written last."""
    bench = Bench()
    bench.program()
    bench.registers.write(PMSIRR_EL1, 2 << 8)
    bench.registers.write(PMSICR_EL1, 1)
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(FT=1, LD=1).value)
    bench.unit.refresh()  # what a host does after every operation
    assert bench.unit.until_hit() == 1
    bench.sample()
    assert bench.unit.statistics.filtered == 1
    assert bench.unit.until_hit() == 513


def test_a_change_of_exception_level_alone_switches_profiling() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMSCR_EL1, PMSCR_EL1.of(E0SPE=1).value)
    bench.unit.refresh()
    assert not bench.unit.enabled
    assert bench.unit.armed
    bench.pe.el = 0
    bench.unit.refresh()
    assert bench.unit.enabled


def test_not_armed_where_no_level_is_profiled() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMSCR_EL1, 0)
    bench.unit.refresh()
    assert not bench.unit.armed


def test_no_place_after_a_system_call_is_favoured() -> None:
    """EL0 alone is profiled and calls the kernel every 10 operations; the gaps stay exact."""
    bench = Bench()
    bench.program()
    bench.registers.write(PMSCR_EL1, PMSCR_EL1.of(E0SPE=1).value)
    places = [0] * 10
    executed = 0
    while bench.unit.statistics.selected < 100:
        bench.pe.el = 0
        bench.unit.refresh()
        for place in range(10):
            executed += 1
            bench.now += 1
            if bench.unit.advance(1):
                bench.unit.complete(alu(el=0))
                places[place] += 1
        bench.pe.el = 1
        bench.unit.refresh()
    assert executed == pytest.approx(100 * 257, abs=10)
    assert max(places) - min(places) <= 1  # 257 and 10 have no common divisor


def test_equal_seeds_select_alike_and_others_do_not() -> None:
    def gaps(seed: int) -> list[int]:
        bench = Bench(EL1_ONLY | {Feature.FEAT_SPE_ERnd}, seed=seed)
        bench.registers.write(PMSIRR_EL1, 0)
        bench.program()
        bench.registers.write(PMSIRR_EL1, 0x401)
        result = []
        for _ in range(50):
            result.append(bench.unit.until_hit())
            bench.sample()
        return result

    assert gaps(1) == gaps(1)
    assert gaps(1) != gaps(2)


# Records in the guest's memory


def test_records_appear_in_the_buffer_in_order() -> None:
    bench = Bench()
    bench.program()
    for pc in (0x1000, 0x2000, 0x3000):
        bench.sample(alu(pc))
    assert [r.record.pc.VA for r in bench.records() if r.record.pc] == [0x1000, 0x2000, 0x3000]
    assert bench.registers.raw(PMBPTR_EL1) == BUFFER + 3 * 64


def test_observers_see_the_bytes_that_the_guest_sees() -> None:
    bench = Bench()
    bench.program()
    bench.sample()
    bench.sample(load())
    assert b"".join(bench.seen) == bench.memory.read(BUFFER, 128)


def test_what_pmscr_lets_through_is_in_the_record() -> None:
    bench = Bench()
    bench.program(CX=1, PA=1, TS=1)
    bench.registers.write(CONTEXTIDR_EL1, 0x42)
    bench.unit.refresh()
    operation = load()
    operation.time = 999
    bench.sample(operation)
    bench.registers.write(PMSCR_EL1, 3)
    bench.unit.refresh()
    bench.sample(operation)
    full, bare = (placed.record for placed in bench.records())
    assert (full.context_el1, full.timestamp, full.pa is not None) == (0x42, 999, True)
    assert (bare.context_el1, bare.timestamp, bare.pa) == (None, None, None)


def test_registers_at_selection_hold_for_the_sample_whatever_its_operation_writes() -> None:
    bench = Bench()
    bench.program(CX=1)
    bench.registers.write(CONTEXTIDR_EL1, 0x42)
    bench.unit.refresh()
    assert bench.unit.advance(bench.unit.until_hit())
    bench.registers.write(CONTEXTIDR_EL1, 0x43)
    bench.unit.complete(alu())
    assert bench.records()[0].record.context_el1 == 0x42


def test_operation_that_disables_sampling_still_yields_its_record() -> None:
    bench = Bench()
    bench.program()
    assert bench.unit.advance(bench.unit.until_hit())
    bench.registers.write(PMSCR_EL1, 0)
    bench.unit.complete(alu())
    bench.unit.refresh()
    assert not bench.unit.enabled
    assert len(bench.records()) == 1


def test_sampled_system_call_yields_its_record_although_el1_is_not_profiled() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMSCR_EL1, PMSCR_EL1.of(E0SPE=1).value)
    bench.pe.el = 0
    bench.unit.refresh()
    assert bench.unit.advance(bench.unit.until_hit())
    bench.pe.el = 1
    bench.unit.refresh()
    svc = alu(el=0)
    svc.exception = True
    bench.unit.complete(svc)
    (placed,) = bench.records()
    assert placed.record.events == 3
    assert placed.record.pc is not None
    assert placed.record.pc.EL == 0


def test_operation_that_disables_the_buffer_loses_its_record() -> None:
    bench = Bench()
    bench.program()
    assert bench.unit.advance(bench.unit.until_hit())
    bench.registers.write(PMBLIMITR_EL1, LIMIT)
    bench.unit.complete(alu())
    assert bench.memory.written() is None
    assert bench.unit.statistics.lost == 1
    assert bench.registers.raw(PMBPTR_EL1) == BUFFER


def test_completing_without_a_sample_is_refused() -> None:
    bench = Bench()
    bench.program()
    with pytest.raises(RuntimeError, match="no operation is being sampled"):
        bench.unit.complete(alu())


# Filters


def test_filtered_samples_are_counted_and_not_written() -> None:
    bench = Bench()
    bench.program()
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(FT=1, LD=1).value)
    bench.unit.refresh()
    bench.sample(alu())
    bench.sample(load())
    statistics = bench.unit.statistics
    assert (statistics.selected, statistics.filtered, statistics.written) == (2, 1, 1)


def test_latency_filter_sees_the_latency_before_saturation() -> None:
    bench = Bench(impdef=ImpDef(count_size=2), timing=Timing(5000, 1))
    bench.program()
    bench.registers.write(PMSLATFR_EL1, 0xFFF)
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(FL=1).value)
    bench.unit.refresh()
    bench.sample()
    assert bench.records()[0].record.counter(0) == 0xFFF


def test_event_bit_that_the_core_cannot_filter_by_does_not_matter() -> None:
    bench = Bench()
    bench.program()
    # Bit 0 is no filter, bit 1 none where everything has retired: the filter is empty.
    bench.registers.write(PMSEVFR_EL1, 0x03)
    bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(FE=1).value)
    bench.unit.refresh()
    bench.sample()
    bench.registers.write(PMSEVFR_EL1, 0x0B)
    bench.unit.refresh()
    bench.sample()
    statistics = bench.unit.statistics
    assert (statistics.written, statistics.filtered) == (1, 1)
