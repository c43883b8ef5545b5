"""How many samples the compiled hook is allowed at once, by how many it took in the last batch."""

from __future__ import annotations

import pytest

from spe_unicorn.host.native.state.sample_row import SAMPLES
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.native.tables import SampleRing


@pytest.mark.parametrize(
    ("taken", "worth"),
    [(0, 64), (1, 64), (8, 64), (9, 72), (64, 512), (511, 4088), (512, 4096), (SAMPLES, 4096)],
)
def test_eight_times_as_many_are_worth_it_as_there_were(taken: int, worth: int) -> None:
    state = State()
    ring = SampleRing(state)
    assert ring.worth == 64
    state.samples_in_ring = taken
    assert len(ring.take()) == taken
    assert (ring.worth, state.samples_in_ring) == (worth, 0)


def test_a_short_batch_makes_the_next_plan_short_again() -> None:
    state = State()
    ring = SampleRing(state)
    worth = []
    for taken in (64, 512, SAMPLES, 20, 160):
        state.samples_in_ring = taken
        ring.take()
        worth.append(ring.worth)
    assert worth == [512, 4096, 4096, 160, 1280]
