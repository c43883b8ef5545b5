"""Many samples completed at once come to what they come to one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import Access, CostClass, Family, Instruction, Operation, Timing
from spe_unicorn.arch.registers.spe import (
    PMBPTR_EL1,
    PMSCR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
)
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1
from spe_unicorn.spe import batch
from spe_unicorn.spe.sample import (
    HAS_DATA_SOURCE,
    HAS_PA,
    HAS_PREVIOUS_TARGET,
    HAS_TARGET,
    HAS_VA,
)
from tests.spe.bench import LIMIT, SMALL, Bench
from tests.support.fakes import ALU, BRANCH, EL1_ONLY, V1P2, WITH_EL2, alu

LOAD = Instruction(0xF940_0000, family=Family.LOAD, cost=CostClass.LOAD, access=Access(0, 0, 8, 8))
SELECT = Instruction(0x9A80_0000, conditional=True)
DIVIDE = Instruction(0x9AC0_0800, cost=CostClass.DIVIDE)
INSTRUCTIONS = [ALU, LOAD, BRANCH, SELECT, DIVIDE]
KINDS = [batch.Kind(instruction) for instruction in INSTRUCTIONS]
APART = 1000
"""Cycles between two samples, unless said otherwise."""


@dataclass
class Sample:
    """An operation, and when it was selected."""

    operation: Operation
    selected_at: int

    @property
    def row(self) -> list[int]:
        """It as a batch takes it, worked out from the descriptions of the columns."""
        operation = self.operation
        row = [0] * batch.COLUMNS
        row[batch.KIND] = INSTRUCTIONS.index(operation.instruction)
        row[batch.WAY] = (batch.CONDITION_FAILED if operation.condition_failed else 0) | (
            batch.MISALIGNED if operation.misaligned else 0
        )
        row[batch.PC], row[batch.EL] = operation.pc, operation.el
        row[batch.TIME], row[batch.SELECTED_AT] = operation.time, self.selected_at
        row[batch.HAS] = HAS_DATA_SOURCE
        for column, value, bit in (
            (batch.VA, operation.va, HAS_VA),
            (batch.PA, operation.pa, HAS_PA),
            (batch.TARGET, operation.target, HAS_TARGET),
            (batch.PREVIOUS_TARGET, operation.previous_target, HAS_PREVIOUS_TARGET),
        ):
            if value is not None:
                row[column] = value
                row[batch.HAS] |= bit
        row[batch.PREVIOUS_EL] = operation.previous_target_el
        return [value - (value >> 63 << 64) for value in row]


def rows(samples: list[Sample]) -> object:
    return np.array([sample.row for sample in samples], np.int64)


def prepared(
    features: Features = EL1_ONLY,
    interval: int = 1,
    *,
    impdef: ImpDef = SMALL,
    timing: Timing | None = None,
    **pmscr: int,
) -> Bench:
    """A bench whose buffer has had its first record, so that its page is known."""
    bench = Bench(features, impdef=impdef, timing=timing)
    bench.program(**pmscr)
    bench.registers.write(PMSIRR_EL1, interval << 8)
    bench.see_no_records()
    bench.sample()
    return bench


def members(bench: Bench, samples: list[Sample]) -> int:
    """How many members of the population go by up to the last of the samples."""
    distances = bench.unit.following(len(samples))
    return bench.unit.until_hit() + sum(distances[: len(samples) - 1])


def one_by_one(bench: Bench, samples: list[Sample]) -> None:
    for sample in samples:
        count = bench.unit.until_hit()
        bench.now = sample.selected_at
        assert bench.unit.advance(count)
        bench.unit.complete(sample.operation)


def seen(bench: Bench) -> tuple[object, ...]:
    registers = bench.registers
    return (
        bench.memory.bytes,
        bench.unit.statistics,
        bench.events.counts,
        registers.raw(PMBPTR_EL1),
        registers.raw(PMSICR_EL1),
        bench.unit.until_hit(),
        bench.reported,
    )


addresses = st.integers(0, (1 << 64) - 1)


@st.composite
def operations(draw: st.DrawFn) -> Operation:
    instruction = draw(st.sampled_from(INSTRUCTIONS))
    operation = Operation(instruction, draw(addresses), draw(st.integers(0, 1)))
    operation.time = draw(st.integers(0, 1 << 56))
    if instruction.access is not None:
        operation.va = draw(addresses)
        operation.pa = draw(st.none() | st.integers(0, (1 << 48) - 1))
        operation.misaligned = draw(st.booleans())
    elif instruction.family is Family.BRANCH and draw(st.booleans()):
        operation.target, operation.target_el = draw(addresses), operation.el
    elif instruction.conditional:
        operation.condition_failed = draw(st.booleans())
    if draw(st.booleans()):
        operation.previous_target = draw(addresses)
        operation.previous_target_el = draw(st.integers(0, 1))
    return operation


@given(
    made=st.lists(operations(), min_size=1, max_size=12),
    interval=st.integers(1, 5),
    pmscr=st.fixed_dictionaries({}, optional={n: st.just(1) for n in ("CX", "PA", "TS")}),
    loads_only=st.booleans(),
    least=st.sampled_from([0, 5, 13]),
    features=st.sampled_from([EL1_ONLY, WITH_EL2]),
)
def test_samples_at_once_come_to_what_they_come_to_one_by_one(
    made: list[Operation],
    interval: int,
    pmscr: dict[str, int],
    loads_only: bool,
    least: int,
    features: Features,
) -> None:
    benches = [prepared(features, interval, **pmscr) for _ in range(2)]
    begin = benches[0].now
    samples = [Sample(o, begin + (n + 1) * APART) for n, o in enumerate(made)]
    for bench in benches:
        bench.registers.write(CONTEXTIDR_EL1, 0x1234_5678)
        bench.registers.write(PMSLATFR_EL1, least)
        fields = {"FT": int(loads_only), "LD": int(loads_only), "FL": int(bool(least))}
        bench.registers.write(PMSFCR_EL1, PMSFCR_EL1.of(**fields).value)
        bench.unit.refresh()
    one_by_one(benches[0], samples)
    at_once = benches[1].unit
    assert at_once.complete_all(rows(samples), KINDS, members(benches[1], samples))
    assert seen(benches[1]) == seen(benches[0])


def test_a_load_made_in_a_batch_has_the_bytes_that_the_architecture_says() -> None:
    bench = prepared(PA=1, TS=1)
    operation = Operation(LOAD, 0xFFFF_8000_1234_5678, 1, time=0x42)
    operation.va, operation.pa = 0x1122_3344_5566_7788, 0x8000_0788
    sample = Sample(operation, bench.now + APART)
    start = bench.registers.raw(PMBPTR_EL1)
    assert bench.unit.complete_all(rows([sample]), KINDS, bench.unit.until_hit())
    expected = bytes.fromhex(
        "98 0500"  # total latency: issue and four cycles of a load
        "99 0100"  # issue
        "9a 0100"  # translation
        "b0 78563412 0080ff a0"  # PC at EL1, Non-secure
        "b2 8877665544332211"  # VA with its tag
        "b3 88070080 000000 80"  # PA, Non-secure
        "49 00"  # a load of a general-purpose register
        "52 0200"  # retired
        "71 4200000000000000"  # timestamp
    )
    assert len(expected) <= 64
    assert bench.memory.read(start, 64) == expected.ljust(64, b"\0")
    assert bench.registers.raw(PMBPTR_EL1) == start + 64


COMPLETED = ("one by one", "at once")


def completed(bench: Bench, sample: Sample, how: str) -> bytes:
    """The record of a sample that is completed ``how``."""
    start = bench.registers.raw(PMBPTR_EL1)
    if how == "one by one":
        one_by_one(bench, [sample])
    else:
        assert bench.unit.complete_all(rows([sample]), KINDS, bench.unit.until_hit())
    return bench.memory.read(start, 64) or b""


@pytest.mark.parametrize("how", COMPLETED)
@pytest.mark.parametrize(("count_size", "most"), [(2, "ff0f"), (3, "ffff")])
def test_each_counter_is_saturated_by_itself(how: str, count_size: int, most: str) -> None:
    timing = Timing(0x1_0005, 0x1_0006, 0x1_0007)
    bench = prepared(impdef=replace(SMALL, count_size=count_size), timing=timing)
    sample = Sample(Operation(LOAD, 0x1000, 1, va=0x7000), bench.now + 10_000_000)
    assert completed(bench, sample, how).startswith(
        bytes.fromhex(f"98 {most} 99 {most} 9a {most} b0")
    )


@pytest.mark.parametrize("how", COMPLETED)
def test_counters_that_fit_are_not_saturated(how: str) -> None:
    bench = prepared(timing=Timing(0xFFFF, 0xFFFE, 0xFFFD))
    sample = Sample(Operation(LOAD, 0x1000, 1, va=0x7000), bench.now + 10_000_000)
    assert completed(bench, sample, how).startswith(bytes.fromhex("98 ffff 99 feff 9a fdff b0"))


@pytest.mark.parametrize("how", COMPLETED)
@pytest.mark.parametrize(
    ("el", "previous_el", "pc", "previous"),
    [(1, 0, "a0", "80"), (0, 1, "80", "a0"), (1, 1, "a0", "a0"), (0, 0, "80", "80")],
)
def test_a_previous_branch_target_has_its_own_exception_level(
    how: str, el: int, previous_el: int, pc: str, previous: str
) -> None:
    bench = prepared(EL1_ONLY | V1P2 | {Feature.FEAT_SPE_PBT}, timing=Timing(2, 1))
    operation = Operation(ALU, 0x4000_1234, el)
    operation.previous_target, operation.previous_target_el = 0xFFFF_8000_4001_5678, previous_el
    record = completed(bench, Sample(operation, bench.now + APART), how)
    expected = bytes.fromhex(
        "98 0200"  # total latency
        "99 0100"  # issue
        f"b0 34120040 000000 {pc}"  # PC, Non-secure
        f"b4 78560140 0080ff {previous}"  # previous branch target, Non-secure
        "48 00"  # an operation of no other kind
        "52 0200"  # retired
        "01"  # end
    )
    assert record == expected.ljust(64, b"\0")


def test_samples_that_may_collide_are_left_to_be_completed_one_by_one() -> None:
    bench = prepared()
    first = bench.now + APART
    divide = Operation(DIVIDE, 0x1000, 1)  # 13 cycles from its selection
    meeting = [Sample(divide, first), Sample(alu(), first + 12)]
    before = seen(bench)
    assert not bench.unit.complete_all(rows(meeting), KINDS, members(bench, meeting))
    assert seen(bench) == before
    apart = [Sample(divide, first), Sample(alu(), first + 13)]
    assert bench.unit.complete_all(rows(apart), KINDS, members(bench, apart))


def test_a_sample_behind_a_batch_collides_with_its_last_one() -> None:
    bench = prepared()
    divide = Operation(DIVIDE, 0x1000, 1)
    sample = Sample(divide, bench.now + APART)
    assert bench.unit.complete_all(rows([sample]), KINDS, bench.unit.until_hit())
    bench.now = sample.selected_at + 12
    assert not bench.unit.advance(bench.unit.until_hit())
    assert bench.unit.statistics.collisions == 1


def test_whoever_is_told_of_each_operation_is_told_of_each() -> None:
    bench = prepared()
    bench.unit.recorded.connect(lambda record, operation: None)
    sample = Sample(alu(), bench.now + APART)
    assert not bench.unit.complete_all(rows([sample]), KINDS, bench.unit.until_hit())


def test_records_that_may_not_fit_are_left_to_be_written_one_by_one() -> None:
    bench = prepared()
    bench.registers.write(PMBPTR_EL1, LIMIT - 2 * 64)
    bench.sample()
    samples = [Sample(alu(), bench.now + APART * (n + 1)) for n in range(2)]
    assert not bench.unit.complete_all(rows(samples), KINDS, members(bench, samples))


def test_a_stream_observer_hears_of_a_whole_batch_at_once() -> None:
    bench = prepared()
    heard: list[bytes] = []
    bench.unit.streamed.connect(heard.append)
    samples = [Sample(alu(), bench.now + APART * (n + 1)) for n in range(3)]
    start = bench.registers.raw(PMBPTR_EL1)
    assert bench.unit.complete_all(rows(samples), KINDS, members(bench, samples))
    assert heard == [bench.memory.read(start, 3 * 64)]


def test_other_samples_than_those_that_are_selected_are_a_mistake_of_ours() -> None:
    bench = prepared()
    sample = Sample(alu(), bench.now + APART)
    first = bench.unit.until_hit()
    said = f"1 samples end with member {first + 1}; the interval selects {first}"
    with pytest.raises(RuntimeError, match=said):
        bench.unit.complete_all(rows([sample]), KINDS, first + 1)


def test_what_registers_collect_is_looked_at_anew() -> None:
    bench = prepared(PA=0)
    benches = bench, prepared(PA=0)
    for each in benches:
        each.registers.write(PMSCR_EL1, PMSCR_EL1.of(E0SPE=1, E1SPE=1, PA=1).value)
        each.unit.refresh()
        each.sample()
    samples = [Sample(Operation(LOAD, 0x1000, 1, va=0x7000, pa=0x7000), bench.now + APART)]
    one_by_one(benches[0], samples)
    assert benches[1].unit.complete_all(rows(samples), KINDS, members(benches[1], samples))
    assert seen(benches[1]) == seen(benches[0])


SVE_LOAD = replace(LOAD, word=0xA540_0000, sve=True)


def asked_by(judged: list[tuple[batch.Kind, int]]) -> batch.Batch:
    """A batch that writes down what it asks."""
    outcome = batch.Outcome(True, 0, Timing(1, 1, 0), 0, 0, ())

    def judge(kind: batch.Kind, way: int) -> batch.Outcome:
        judged.append((kind, way))
        return outcome

    return batch.Batch(judge, 0xFFF)


def test_kinds_are_judged_ahead_some_at_a_time_by_their_usual_ways() -> None:
    """Conditions can fail. Nobody asks ahead about a vector length."""
    judged: list[tuple[batch.Kind, int]] = []
    several = asked_by(judged)
    kinds = [batch.Kind(i) for i in (ALU, SVE_LOAD, LOAD, SELECT, DIVIDE)]
    several.foresee(kinds, 3)
    assert judged == [(kinds[0], 0), (kinds[2], 0)]
    judged.clear()
    several.foresee(kinds, 3)
    assert judged == [(kinds[3], 0), (kinds[3], batch.CONDITION_FAILED), (kinds[4], 0)]
    judged.clear()
    several.foresee(kinds, 3)
    assert judged == []
    several.forget()
    several.foresee(kinds, 1)
    assert judged == [(kinds[0], 0)]


def test_a_kind_that_was_judged_ahead_is_not_asked_about_again() -> None:
    judged: list[tuple[batch.Kind, int]] = []
    several = asked_by(judged)
    several.look_up(rows([Sample(alu(), 5)]), KINDS)
    several.foresee(KINDS, len(KINDS))
    assert len(judged) == len(set(judged)) == len(INSTRUCTIONS) + 2  # BRANCH and SELECT
    failed = Operation(SELECT, 0x1000, 1, condition_failed=True)
    several.look_up(rows([Sample(alu(), 5), Sample(failed, 9)]), KINDS)
    assert len(judged) == len(INSTRUCTIONS) + 2


def test_samples_judged_ahead_are_completed_alike() -> None:
    ahead, bench = prepared(), prepared()
    samples = [Sample(alu(), bench.now + n * APART) for n in (1, 2)]
    ahead.unit.foresee(KINDS, len(KINDS))
    for each in (ahead, bench):
        assert each.unit.complete_all(rows(samples), KINDS, members(each, samples))
    assert seen(ahead) == seen(bench)
