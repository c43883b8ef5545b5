"""Random programs: both runners and a plain trace agree on what is sampled and on all else.

The trace knows nothing of sampling: it lists every operation that the engine attempts, with the
memory that it touches. Sampling from outside with period ``p`` must pick every ``p``-th of it.
"""

from __future__ import annotations

import pytest

from spe_unicorn.cores.profile import Core, ModelName
from tests.support.random_runs import (
    MAX,
    NEOVERSE,
    PERIODS,
    assert_same_by_unit,
    assert_same_from_outside,
)

COMBINATIONS: tuple[tuple[Core, ModelName], ...] = (
    (MAX, "none"),
    (NEOVERSE, "none"),
    (MAX, "cache"),
)


@pytest.mark.sweep
@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("seed", range(6))
def test_sampled_from_outside_it_runs_as_it_is_stepped(seed: int, period: int) -> None:
    assert_same_from_outside(100 * period + seed, period, min(3000, 400 * period))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(24))
def test_sampled_by_the_unit_it_runs_as_it_is_stepped(seed: int) -> None:
    assert_same_by_unit(seed, 2500)


@pytest.mark.sweep
@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("seed", range(3))
def test_micro_operations_sampled_from_outside_are_as_stepped(seed: int, period: int) -> None:
    assert_same_from_outside(100 * period + seed, period, min(2000, 300 * period), NEOVERSE)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12))
def test_micro_operations_sampled_by_the_unit_are_as_stepped(seed: int) -> None:
    assert_same_by_unit(seed, 2500, NEOVERSE)


@pytest.mark.sweep
@pytest.mark.parametrize("period", [1, 3, 64])
@pytest.mark.parametrize("seed", range(6))
def test_with_caches_it_runs_as_it_is_stepped(seed: int, period: int) -> None:
    assert_same_from_outside(200 * period + seed, period, min(2000, 200 * period), MAX, "cache")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6))
def test_with_caches_and_the_unit_it_runs_as_it_is_stepped(seed: int) -> None:
    assert_same_by_unit(500 + seed, 2000, MAX, "cache")


@pytest.mark.sweep
@pytest.mark.parametrize("core", [MAX, NEOVERSE], ids=["instructions", "micro-operations"])
@pytest.mark.parametrize("seed", range(6))
def test_gathers_and_authenticated_loads_run_as_they_are_stepped(seed: int, core: Core) -> None:
    period = PERIODS[seed % len(PERIODS)]
    assert_same_from_outside(700 + seed, period, min(2000, 400 * period), core, sve=True)
    assert_same_by_unit(700 + seed, 2000, core, sve=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_many_programs_with_gathers_run_as_they_are_stepped(first: int) -> None:
    for seed in range(first, first + 100):
        period = PERIODS[seed % len(PERIODS)]
        # not Neoverse with caches: the trace knows nothing of wrong paths
        core, model = COMBINATIONS[seed % len(COMBINATIONS)]
        operations = min(4000, 600 * period)
        assert_same_from_outside(40_000 + seed, period, operations, core, model, sve=True)
        assert_same_by_unit(40_000 + seed, 4000, core, model, sve=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_many_programs_with_caches_run_as_they_are_stepped(first: int) -> None:
    for seed in range(first, first + 100):
        period = PERIODS[seed % len(PERIODS)]
        operations = min(4000, 600 * period)
        assert_same_from_outside(20_000 + seed, period, operations, MAX, "cache")
        assert_same_by_unit(20_000 + seed, 4000, MAX, "cache")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 100))
def test_many_programs_sampled_from_outside_run_as_they_are_stepped(first: int) -> None:
    for seed in range(first, first + 100):
        period = PERIODS[seed % len(PERIODS)]
        assert_same_from_outside(10_000 + seed, period, min(4000, 600 * period))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 100))
def test_many_programs_sampled_by_the_unit_run_as_they_are_stepped(first: int) -> None:
    for seed in range(first, first + 100):
        assert_same_by_unit(10_000 + seed, 4000)
