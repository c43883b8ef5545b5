"""The rows of the blocks: made anew where a state that was restored wants other events."""

from __future__ import annotations

import numpy as np
import pytest

from spe_unicorn.host.counting.tallies import Tallies, TalliesState
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.native.tables import BlockTable

PLANS = np.zeros(3, np.int64)
LOADS, STORES = 0x06, 0x07  # LD_RETIRED, ST_RETIRED
JUMPS = 0x0C  # PC_WRITE_RETIRED


@pytest.mark.parametrize(
    ("before", "after", "anew"),
    [((), (), False), ((LOADS,), (LOADS,), False), ((LOADS,), (STORES,), True)],
)
def test_blocks_are_forgotten_only_for_other_events(
    before: tuple[int, ...], after: tuple[int, ...], anew: bool
) -> None:
    state = State()
    blocks = BlockTable(state)
    tallies = Tallies(state, blocks)
    tallies.want(before)
    tallies.between_runs()
    blocks.add(0x1000, [0xD503201F], PLANS, marks=0, members=1)
    tallies.restore(TalliesState(after))
    tallies.between_runs()
    assert (blocks.find(0x1000, 1) is None) == anew


def test_events_that_were_wanted_in_between_have_blocks_forgotten() -> None:
    """Blocks that were added then have rows of theirs."""
    state = State()
    blocks = BlockTable(state)
    tallies = Tallies(state, blocks)
    tallies.want([LOADS])
    blocks.add(0x1000, [0xD503201F], PLANS, marks=0, members=1)
    tallies.restore(TalliesState(()))
    tallies.between_runs()
    assert blocks.find(0x1000, 1) is None


def test_a_block_of_no_operation_ends_with_no_jump() -> None:
    """The engine makes one where a software step is due before the first operation."""
    state = State()
    tallies = Tallies(state, BlockTable(state))
    tallies.want([JUMPS])
    tallies.add_block(0, ())
    assert tallies.of(JUMPS) == 0
