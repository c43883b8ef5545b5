"""Ticks of the system counter, by hand: 62.5 MHz whatever the PE does in a second."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.counter import FREQUENCY, Rate


@pytest.mark.parametrize(
    ("clock", "rate"),
    [
        (1_000_000_000, (1, 16)),
        (100_000_000, (5, 8)),  # 62.5 in 100
        (2_500_000_000, (1, 40)),
        (1_000_000, (125, 2)),  # 62.5 ticks a cycle
        (10_000_000_000, (1, 160)),
        (62_000_000, (125, 124)),
        (62_500_000, (1, 1)),
        (1_001_000, (62_500, 1_001)),
    ],
)
def test_the_ratio_is_exact(clock: int, rate: tuple[int, int]) -> None:
    found = Rate.of(clock)
    assert (found.ticks_of, found.cycles_of) == rate
    assert found.ticks(clock) == FREQUENCY
    assert found.cycles(FREQUENCY) == clock


@pytest.mark.parametrize(
    "clock", [100_000_000, 1_000_000, 62_000_000, 1_000_000_000, 62_500_000, 1_001_000]
)
def test_a_count_is_reached_at_its_cycle_and_not_before(clock: int) -> None:
    rate = Rate.of(clock)
    for count in range(1, 300):
        assert rate.ticks(rate.cycles(count)) >= count
        assert rate.ticks(rate.cycles(count) - 1) < count


@pytest.mark.parametrize("clock", [0, -1, 999_999, 999_000, 1_500_500, 10_000_001_000])
def test_other_clocks_are_refused(clock: int) -> None:
    with pytest.raises(ValueError, match="allowed are whole kHz from 1M to 10G"):
        Rate.of(clock)
