"""Every program that comes along, on both populations, with and without caches: as it is stepped.

The bounded part gives each program one of the four combinations and looks at two windows. The rest
is left to the slow run.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from spe_unicorn.cores.profile import ModelName
from tests.firmware.conftest import WholeRun
from tests.firmware.differences import NAMES, differences
from tests.firmware.programs import BENCHMARKS

CORES = {"instructions": "max", "micro-operations": "neoverse-v2"}
MODELS: tuple[ModelName, ...] = ("none", "cache")
COMBINATIONS = list(product(CORES, MODELS))
LONG = {*BENCHMARKS, "spe_access", "timer_count"}
"""Programs of which the whole takes too long with caches, or is a single loop."""
SHORT_OF_THEM = 400_000
"""Operations from the start of a long one within which its windows lie."""


def chosen(name: str) -> tuple[str, ModelName]:
    """The combination that the bounded part tries: all four turn up."""
    return COMBINATIONS[NAMES.index(name) % len(COMBINATIONS)]


def begins(name: str, whole_run: WholeRun, **options: Any) -> list[int]:
    """Where two windows begin: a third and two thirds into what the program executes."""
    length = SHORT_OF_THEM if name in LONG else whole_run(name, **options).operations
    return [length // 3, 2 * length // 3]


def found(
    name: str, population: str, model: ModelName, period: int | None, window: int, run: WholeRun
) -> dict[str, str]:
    """What differs in two windows of a program, sampled by itself or each ``period`` members."""
    options: dict[str, Any] = {"core": CORES[population], "model": model}
    return differences(name, begins(name, run, **options), window, period=period, **options)


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_in_two_windows_a_program_runs_as_it_is_stepped(name: str, whole_run: WholeRun) -> None:
    assert found(name, *chosen(name), 67, 1200, whole_run) == {}


@pytest.mark.slow
@pytest.mark.parametrize("period", [None, 67])
@pytest.mark.parametrize(("population", "model"), COMBINATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_in_long_windows_a_program_runs_as_it_is_stepped(
    name: str, population: str, model: ModelName, period: int | None, whole_run: WholeRun
) -> None:
    assert found(name, population, model, period, 20_000, whole_run) == {}


def test_every_combination_is_tried() -> None:
    assert {chosen(name) for name in NAMES} == set(COMBINATIONS)
