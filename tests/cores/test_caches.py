"""Caches and TLBs against sequences worked out by hand, and against a plain model of LRU."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.cores.caches import (
    L1D_ACCESS,
    L1D_REFILL,
    L2_TLB_ACCESS,
    L2D_ACCESS,
    L2D_MISS,
    LLC_ACCESS,
    LLC_MISS,
    TLB_ACCESS,
    TLB_WALK,
    DataSide,
    Grain,
    SharedCache,
)
from spe_unicorn.cores.model_numbers import Level

HIT = TLB_ACCESS | L1D_ACCESS
FROM_L2 = L1D_REFILL | L2D_ACCESS
FROM_LLC = FROM_L2 | L2D_MISS | LLC_ACCESS
FROM_MEMORY = FROM_LLC | LLC_MISS
FROM_L2_TLB = L2_TLB_ACCESS
WALKED = L2_TLB_ACCESS | TLB_WALK


def small(last: SharedCache | None = None) -> DataSide:
    """2 pages of 2, 2x2 of 4; 2 sets of 2 lines, 4 of 2; after it 8 sets of 2."""
    return DataSide(
        l1_tlb=Level(2, 2),
        l2_tlb=Level(4, 2),
        l1d=Level(4, 2),
        l2=Level(8, 2),
        last=last or SharedCache(Level(16, 2)),
    )


def outcomes(side: DataSide, *addresses: int, size: int = 8) -> list[int]:
    """What each access alone did."""
    found = []
    for address in addresses:
        side.begin()
        side.access(address, size)
        found.append(side.outcome)
    return found


def test_the_first_access_goes_to_memory_and_the_second_hits() -> None:
    assert outcomes(small(), 0x1000, 0x1038) == [HIT | FROM_MEMORY | WALKED, HIT]


def test_bits_are_those_of_the_events_packet() -> None:
    # L1D access 2, refill 3, TLB access 4, walk 5, LLC access 8, miss 9, L2D access 19, miss 20
    assert outcomes(small(), 0x1000)[0] & 0xFFFF_FFFF == 0x18_033C


def test_a_third_line_of_a_set_drives_out_the_least_recent_one() -> None:
    # lines 0, 2 and 4 share set 0 of L1D; in L2 they lie in sets 0, 2 and 0
    side = small()
    outcomes(side, 0x000, 0x080, 0x000, 0x100)
    assert outcomes(side, 0x000, 0x100, 0x080) == [HIT, HIT, HIT | FROM_L2]


def test_a_line_that_l2_lost_comes_from_the_last_level_cache() -> None:
    # lines 0, 4 and 8 share set 0 of L1D and of L2; in the last level sets 0, 4 and 0
    side = small()
    outcomes(side, 0x000, 0x100, 0x200)
    assert outcomes(side, 0x000) == [HIT | FROM_LLC]


def test_a_line_that_all_lost_comes_from_memory() -> None:
    side = small()
    outcomes(side, 0x000, 0x200, 0x400)  # lines 0, 8 and 16: set 0 everywhere
    assert outcomes(side, 0x000) == [HIT | FROM_MEMORY]


def test_an_access_that_crosses_a_line_touches_both() -> None:
    side = small()
    assert outcomes(side, 0x1000, 0x103C, 0x1040) == [
        HIT | FROM_MEMORY | WALKED,
        HIT | FROM_MEMORY,
        HIT,
    ]


def test_an_access_that_crosses_a_page_walks_for_the_next_one() -> None:
    assert outcomes(small(), 0x1FC0, 0x1FFC, 0x2000)[1:] == [HIT | FROM_MEMORY | WALKED, HIT]


def test_a_page_that_the_first_tlb_lost_is_found_in_the_second() -> None:
    side = small()
    outcomes(side, 0x0_0000, 0x0_1040, 0x0_2080)  # pages 0 and 2 share a set of the second
    assert outcomes(side, 0x0_0000)[0] & WALKED == FROM_L2_TLB


def test_a_page_that_both_tlbs_lost_is_walked_for() -> None:
    side = small()
    outcomes(side, 0x0_0000, 0x0_2000, 0x0_4000)  # one set in both
    assert outcomes(side, 0x0_0000)[0] & WALKED == WALKED


def test_tlb_maintenance_forgets_pages_and_no_lines() -> None:
    side = small()
    outcomes(side, 0x1000)
    side.forget_translations()
    assert outcomes(side, 0x1000, 0x1000) == [HIT | WALKED, HIT]


def test_outcomes_of_one_operation_add_up() -> None:
    side = small()
    outcomes(side, 0x1000)
    side.begin()
    side.access(0x1000, 8)
    side.access(0x1040, 8)
    assert side.outcome == HIT | FROM_MEMORY


def test_the_outcome_of_each_access_is_told_by_its_place() -> None:
    side = small()
    outcomes(side, 0x1000)
    side.begin()
    side.access(0x1000, 8)
    side.access(0x1038, 16)  # reaches into the next line
    assert side.outcome_at(0x1000, 8) == HIT
    assert side.outcome_at(0x1040, 1) == HIT | FROM_MEMORY
    assert side.outcome_at(0x1048, 8) == 0
    side.begin()
    assert side.outcome_at(0x1000, 64) == 0


def test_pes_share_only_the_last_level() -> None:
    last = SharedCache(Level(16, 2))
    one, other = small(last), small(last)
    outcomes(one, 0x1000)
    assert outcomes(other, 0x1000) == [HIT | FROM_LLC | WALKED]


def test_a_fully_associative_level_keeps_any_set_of_pages() -> None:
    side = DataSide(
        l1_tlb=Level(48, 48),
        l2_tlb=Level(64, 4),
        l1d=Level(4, 2),
        l2=Level(8, 2),
        last=SharedCache(Level(16, 2)),
    )
    pages = [page << 16 for page in range(48)]
    outcomes(side, *pages)
    assert all(not o & L2_TLB_ACCESS for o in outcomes(side, *pages))
    outcomes(side, 48 << 16)
    assert outcomes(side, 0)[0] & L2_TLB_ACCESS


class PlainLevel:
    """Least recently used, as a dictionary keeps order."""

    def __init__(self, level: Level) -> None:
        self.ways = level.ways
        self.sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(level.sets)]

    def touch(self, number: int) -> bool:
        found = self.sets[number % len(self.sets)]
        hit = number in found
        found[number] = None
        found.move_to_end(number)
        if len(found) > self.ways:
            found.popitem(last=False)
        return hit


class PlainSide:
    """The two TLBs and three caches of :func:`small`."""

    def __init__(self) -> None:
        sizes = (Level(2, 2), Level(4, 2)), (Level(4, 2), Level(8, 2), Level(16, 2))
        self.tlbs, self.caches = ([PlainLevel(level) for level in levels] for levels in sizes)

    def access(self, address: int, size: int) -> int:
        outcome = HIT
        for page in range(address // 4096, (address + size - 1) // 4096 + 1):
            missed = [not tlb.touch(page) for tlb in self.tlbs[:1]]
            if missed[0]:
                outcome |= L2_TLB_ACCESS if self.tlbs[1].touch(page) else WALKED
        for line in range(address // 64, (address + size - 1) // 64 + 1):
            for cache, missed_here in zip(
                self.caches, (FROM_L2, FROM_LLC, FROM_MEMORY), strict=True
            ):
                if cache.touch(line):
                    break
                outcome |= missed_here
        return outcome


@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 0x800), st.integers(0, 0x8000)), st.sampled_from([1, 8, 64])
        ),
        max_size=200,
    )
)
def test_any_sequence_of_accesses_does_what_a_plain_model_does(
    accesses: list[tuple[int, int]],
) -> None:
    side, plain = small(), PlainSide()
    for address, size in accesses:
        assert outcomes(side, address, size=size) == [plain.access(address, size)]


@pytest.mark.parametrize(
    ("entries", "ways", "message"),
    [
        (48, 5, "48 entries are not whole sets of 5"),
        (0, 1, "0 entries are not whole sets of 1"),
        (4, 0, "4 entries are not whole sets of 0"),
        (12, 4, "12 entries in sets of 4 are 3 sets"),
    ],
)
def test_impossible_sizes_are_refused(entries: int, ways: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Level(entries, ways)


@pytest.mark.parametrize("name", ["line", "page"])
def test_lines_and_pages_are_powers_of_two(name: str) -> None:
    with pytest.raises(ValueError, match=f"a {name} of 96 bytes is no power of two"):
        Grain(**{name: 96})
