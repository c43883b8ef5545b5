"""Counting at random: exceptions against Arm's table, programs of the monitors by both runners."""

from __future__ import annotations

import pytest

from spe_unicorn.cores.profile import ModelName, load_core
from tests.host.counting.random_exceptions import assert_counted_by_the_table
from tests.host.counting.random_monitors import assert_counted_the_same


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(3))
def test_exceptions_are_counted_by_the_table(seed: int) -> None:
    assert assert_counted_by_the_table(str(seed)) > 100


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("seed", "el", "core", "model"),
    [
        (0, 1, "generic", "none"),
        (1, 2, "max", "none"),
        (2, 1, "neoverse-v2", "cache"),
        (9, 3, "max", "cache"),
    ],
)
def test_both_runners_count_the_same(seed: int, el: int, core: str, model: ModelName) -> None:
    assert_counted_the_same(str(seed), el, load_core(core), model, 3000)
