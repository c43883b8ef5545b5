"""What ends a run of the engine: one list, and what is due first goes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

import spe_unicorn
from spe_unicorn.arch.operation import Mark
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.host.ports import NEVER_HAPPENS, Ending
from spe_unicorn.host.run import slices
from spe_unicorn.host.run.horizons import Approach, Horizon, Horizons
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.host.run.slices import Slices
from spe_unicorn.host.run.watching import Silicon
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.sampler import SampledCore
from spe_unicorn.spe.unit import StatisticalProfilingUnit
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000


def at(operations: int, approach: Approach = Approach.EXACT) -> Horizon:
    return Horizon(lambda: operations, lambda: None, approach)


def test_the_first_of_the_list_that_is_reached_goes_first() -> None:
    late, early, never = at(10), at(5), at(NEVER_HAPPENS)
    assert Horizons([never, late, early]).arrived(4) is None
    assert Horizons([never, late, early]).arrived(5) is early
    assert Horizons([never, late, early]).arrived(10) is late


def test_exact_horizons_and_others_are_looked_at_apart() -> None:
    horizons = [at(10), at(7, Approach.BLOCK), at(30), at(2, Approach.CHOSEN)]
    assert Horizons(horizons).nearest() == (10, 7)
    assert Horizons([at(2, Approach.CHOSEN), at(8)]).nearest() == (8, NEVER_HAPPENS)
    assert Horizons([]).nearest() == (NEVER_HAPPENS, NEVER_HAPPENS)


def test_a_chosen_operation_has_not_arrived_before_compiled_code_had_its_chance() -> None:
    chosen, limit = at(5, Approach.CHOSEN), at(9)
    assert Horizons([chosen, limit]).arrived(5) is None
    assert Horizons([chosen, limit]).arrived(9) is limit


def test_in_a_block_the_nearest_place_counts_and_a_limit_goes_before_a_sample() -> None:
    chosen, limit, slice_end = at(5, Approach.CHOSEN), at(7), at(1, Approach.BLOCK)
    assert Horizons([chosen, slice_end, limit]).first_within(8) == (chosen, 5)
    assert Horizons([chosen, slice_end, limit]).first_within(5) is None
    assert Horizons([slice_end, limit]).first_within(8) == (limit, 7)
    same = at(5)
    assert Horizons([chosen, same]).first_within(8) == (same, 5)


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(slices, "time", watch)
    return watch


def test_a_slice_takes_thirty_milliseconds_as_fast_as_the_last_one_was(watch: Watch) -> None:
    """Within limits: 4096 and 2**28 operations, and four times the last slice."""
    one = Slices()
    one.begin(1000)
    first = one.length
    assert one.end == 1000 + first
    expected = first
    for operations, seconds, length in (
        (first, 0.06, first // 2),
        (first // 2, 0.015, first),
        (first // 4, 0.0075, first),  # a slice that ended early says how fast it was, too
        (first, 0.001, 4 * first),
        (1 << 40, 0.001, 16 * first),
        (1 << 40, 0.001, 64 * first),
        (1 << 40, 0.001, 256 * first),
        (1 << 40, 0.001, 1 << 28),
        (10, 9.0, 1 << 12),
        (1 << 12, 0.0, 1 << 14),  # a clock that stands divides by nothing
    ):
        executed = one.end
        one.begin(executed)
        assert one.end == executed + expected
        watch.seconds += seconds
        one.adapt(executed + operations)
        assert one.length == pytest.approx(length, abs=2)
        expected = one.length


def test_a_slice_ends_early_after_1024_stops_of_the_engine() -> None:
    one = Slices()
    for _ in range(2):
        one.begin(0)
        for _ in range(1024):
            one.count_stop()
        assert not one.over
        one.count_stop()
        assert one.over


def test_a_horizon_of_somebody_elses_ends_a_run_at_its_very_operation() -> None:
    image = image_of({CODE: a.code([a.add_imm(0, 0, 1)] * 7 + [a.b(-28)])}, CODE)
    machine = Machine(image)
    (runner,) = (pe.runner for pe in machine.board.pes)
    seen: list[int] = []
    places = [13, 1001]

    def arrive() -> Ending | None:
        seen.append(runner.cpu.executed)
        places.pop(0)
        return None if places else Ending.INTERRUPTED

    runner.horizons.append(Horizon(lambda: places[0] if places else NEVER_HAPPENS, arrive))
    assert runner.run(5000) is Ending.INTERRUPTED
    assert seen == [13, 1001]
    assert runner.cpu.executed == 1001


def test_python_forgets_code_through_one_door() -> None:
    package = Path(spe_unicorn.__file__).parent
    found = {
        source.name
        for source in package.rglob("*.py")
        if "ctl_flush_tb" in (text := source.read_text("utf-8")) or "ctl_remove_cache" in text
    }
    assert found == {"engine.py"}


@pytest.mark.parametrize("interval", [7, 13, 50])
@pytest.mark.parametrize("slice_length", [1, 9, 45])
def test_a_limit_holds_where_a_slice_ends_in_its_block(interval: int, slice_length: int) -> None:
    image = image_of({CODE: a.code([a.add_imm(0, 0, 1)] * 19 + [a.b(-76)])}, CODE)
    machine = Machine(image)
    (pe,) = machine.board.pes
    features = machine.board.options.profile.features
    pe.unit = ExternalSampler(
        pe.cpu, Asked(interval), SampledCore(ConstantModel(), features=features)
    )
    pcs: list[int] = []
    pe.unit.recorded.connect(lambda record, operation: pcs.append(operation.pc))
    machine.go_on_with(Runner)
    total = 0
    for operations in range(1, 60):
        pe.runner._slices._length = slice_length
        assert pe.runner.run(operations) is Ending.LIMIT
        total += operations
        assert pe.cpu.executed == total
    places = range(interval - 1, total, interval)
    assert pcs == [CODE + 4 * (place % 20) for place in places]


# What late parts of a unit are told


class Unit:
    """A unit whose lateness is itself; it keeps what it was told, in order."""

    records = writes = None

    def __init__(self) -> None:
        self.told: list[str] = []
        self.lateness = self

    def __getattr__(self, name: str) -> Any:
        return lambda: self.told.append(name)


def silicon() -> tuple[Silicon, Unit]:
    unit = Unit()
    return Silicon(cast(Any, None), cast(StatisticalProfilingUnit, unit)), unit


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        (Mark.PSB_CSYNC, "psb_csync"),
        (Mark.DSB, "dsb"),
        (Mark.ISB, "context_synchronization"),
        (Mark.ERET, "context_synchronization"),
    ],
)
def test_a_barrier_is_told_and_then_the_unit_looks_again(mark: Mark, told: str) -> None:
    subject, unit = silicon()
    subject.executed(mark, 0)
    assert unit.told == [told, "refresh"]


def test_a_pe_that_waits_lets_all_happen_before_the_unit_looks_again() -> None:
    subject, unit = silicon()
    subject.settle()
    assert unit.told == ["settle", "refresh"]
