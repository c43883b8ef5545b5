"""Coherence against sequences worked out by hand, and against a plain model of who holds what."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.operation import Instruction, Operation, Timing
from spe_unicorn.cores.cache_model import CacheModel, last_level
from spe_unicorn.cores.caches import (
    FROM_PEER_CLUSTER,
    FROM_PEER_CORE,
    L1D_ACCESS,
    L1D_REFILL,
    L2D_ACCESS,
    L2D_MISS,
    LLC_ACCESS,
    LLC_MISS,
    MODIFIED_ELSEWHERE,
    SNOOPED,
    DataSide,
    Happening,
    SharedCache,
)
from spe_unicorn.cores.coherence import access_among_peers
from spe_unicorn.cores.model_numbers import Level
from tests.cores.small_caches import ATOMIC, LOAD, NUMBERS, STORE

HIT = L1D_ACCESS
FROM_L2 = HIT | L1D_REFILL | L2D_ACCESS
OUTSIDE = FROM_L2 | L2D_MISS
FROM_LLC = OUTSIDE | LLC_ACCESS
FROM_MEMORY = FROM_LLC | LLC_MISS
CORE = OUTSIDE | SNOOPED | FROM_PEER_CORE
CLUSTER = OUTSIDE | SNOOPED | FROM_PEER_CLUSTER
DATA = ~(1 << 4 | 1 << 5 | 1 << 32)
"""All but what TLBs did."""
LINE = 0x1000
AWAY = (0x1100, 0x1200)
"""Lines of the same set of L1D as LINE, of L2 as well, of the last level the second alone."""


def pes(count: int = 4, cluster: int = 2) -> list[DataSide]:
    """PEs with 2 sets of 2 lines of L1D and 4 of 2 of L2 each, and 8 sets of 2 for all."""
    last = SharedCache(Level(16, 2), count, cluster)
    return [
        DataSide(l1_tlb=Level(2, 2), l2_tlb=Level(4, 2), l1d=Level(4, 2), l2=Level(8, 2), last=last)
        for _ in range(count)
    ]


def did(side: DataSide, address: int, write: bool, size: int = 8) -> int:
    """What one access did, but for its translation."""
    side.begin()
    access_among_peers(side, address, size, write)
    return side.outcome & DATA


def load(side: DataSide, address: int = LINE) -> int:
    return did(side, address, False)


def store(side: DataSide, address: int = LINE) -> int:
    return did(side, address, True)


def test_bits_are_those_of_the_events_packet() -> None:
    # data that another PE modified 21, data from another PE's caches 23
    assert MODIFIED_ELSEWHERE == 0x20_0000
    assert SNOOPED == 0x80_0000


def test_what_another_pe_stored_comes_from_there_modified_and_then_hits() -> None:
    one, other, *_ = pes()
    assert [store(one), store(one), load(one)] == [FROM_MEMORY, HIT, HIT]
    assert [load(other), load(other)] == [CORE | MODIFIED_ELSEWHERE, HIT]
    assert load(one) == HIT  # both have it now


def test_a_store_takes_the_line_from_all_others() -> None:
    one, other, third, _ = pes()
    for side in (one, other, third):
        load(side)
    assert [store(one), load(one)] == [HIT, HIT]
    assert load(other) == CORE | MODIFIED_ELSEWHERE
    # the load left it in the last level, unmodified; PE 2 is of the other cluster
    assert load(third) == FROM_LLC


def test_counters_in_one_line_go_to_and_fro_and_padded_ones_stay() -> None:
    one, other = pes(2)
    first = [(load(one, LINE), store(one, LINE)) for _ in range(2)]
    assert first == [(FROM_MEMORY, HIT), (HIT, HIT)]
    for _ in range(3):
        assert (load(other, LINE + 8), store(other, LINE + 8)) == (CORE | MODIFIED_ELSEWHERE, HIT)
        assert (load(one, LINE), store(one, LINE)) == (CORE | MODIFIED_ELSEWHERE, HIT)
    one, other = pes(2)
    for side, address in ((one, LINE), (other, LINE + 64)):
        assert (load(side, address), store(side, address)) == (FROM_MEMORY, HIT)
    for _ in range(3):
        for side, address in ((one, LINE), (other, LINE + 64)):
            assert (load(side, address), store(side, address)) == (HIT, HIT)


def test_a_store_that_misses_takes_what_another_modified() -> None:
    one, other, *_ = pes()
    store(one)
    assert [store(other), load(other)] == [CORE | MODIFIED_ELSEWHERE, HIT]
    assert load(one) == CORE | MODIFIED_ELSEWHERE


def test_an_unmodified_line_comes_from_the_cluster_before_the_last_level() -> None:
    one, other, third, fourth = pes()
    assert load(one) == FROM_MEMORY
    assert load(other) == CORE
    assert load(third) == FROM_LLC
    assert load(fourth) == CORE


def test_another_cluster_is_asked_for_what_it_modified_or_the_last_level_lost() -> None:
    one, _, third, _ = pes()
    store(one)
    assert load(third) == CLUSTER | MODIFIED_ELSEWHERE
    one, other, third, _ = pes()
    load(one)
    # lines 0x48 and 0x50 are of the last level's set 0, as 0x40 is, and leave PE 0's caches alone
    load(other, 0x1200)
    load(other, 0x1400)
    assert load(third) == CLUSTER


def test_a_line_that_left_l1d_modified_is_modified_in_l2() -> None:
    one, other, *_ = pes()
    store(one)
    # lines 0x42 and 0x46 are of L1D's set 0, too, and of L2's set 2, where 0x40 is not
    load(one, 0x1080)
    load(one, 0x1180)
    assert load(one) == FROM_L2
    assert load(other) == CORE | MODIFIED_ELSEWHERE


def test_a_line_that_left_both_is_found_in_the_last_level() -> None:
    one, other, *_ = pes()
    store(one)
    load(one, 0x1100)  # lines 0x44 and 0x4C: L1D's set 0 and L2's
    load(one, 0x1300)
    assert load(other) == FROM_LLC


def test_a_place_that_another_pe_emptied_is_filled_first() -> None:
    one, other, *_ = pes()
    load(one, 0x1000)
    load(one, 0x1080)
    store(other, 0x1080)  # of the two lines of L1D's set 0 the more recent one
    load(one, 0x1100)
    assert load(one, 0x1000) == HIT


def test_an_access_across_two_lines_tells_of_both() -> None:
    one, other, *_ = pes()
    store(one, LINE)
    assert did(other, LINE + 0x3C, False) == FROM_MEMORY | CORE | MODIFIED_ELSEWHERE


def test_events_of_the_last_level_are_what_leaves_the_cluster() -> None:
    one, other, third, _ = pes()
    store(one)
    store(other)
    store(third)
    assert [side.happened(Happening.L2D_REFILL) for side in (one, other, third)] == [1, 1, 1]
    assert [side.happened(Happening.FROM_PEER_CORE) for side in (one, other, third)] == [0, 1, 0]
    assert [side.happened(Happening.LLC_REFILL) for side in (one, other, third)] == [1, 0, 1]


TWO_CLUSTERS = replace(NUMBERS, cluster=2, peer_core=40, peer_cluster=100)


def timing(model: CacheModel, instruction: Instruction, *accesses: tuple[int, bool]) -> Timing:
    """An operation that makes 8-byte accesses, each a load or a store."""
    model.begin()
    for address, write in accesses:
        access_among_peers(model.data, address, 8, write)
    return model.timing(Operation(instruction, 0, 1, va=accesses[0][0]))


def models() -> list[CacheModel]:
    """Three PEs, of which the first two are a cluster; each knows the page of LINE."""
    last = last_level(TWO_CLUSTERS, 3)
    found = [CacheModel(TWO_CLUSTERS, last) for _ in range(3)]
    for number, model in enumerate(found):
        access_among_peers(model.data, LINE + 0x400 + number * 0x40, 8, False)
    return found


def test_loads_tell_of_the_peer_and_wait_for_it() -> None:
    one, other, third = models()
    access, refill, tlb, llc, llc_miss = (1 << n for n in (2, 3, 4, 8, 9))
    l2, l2_miss, modified, snooped = (1 << n for n in (19, 20, 21, 23))
    near = access | refill | tlb
    timing(one, STORE, (LINE, True))
    # 1 to issue, 40 for the data
    expected = Timing(41, 1, 1, near | l2 | l2_miss | modified | snooped, 0x9)
    assert timing(other, LOAD, (LINE, False)) == expected
    timing(one, STORE, (LINE, True))
    expected = Timing(101, 1, 1, near | llc | llc_miss | l2 | l2_miss | modified | snooped, 0xC)
    assert timing(third, LOAD, (LINE, False)) == expected
    # a store completes into the store buffer; PE 0 has the line as well, and is nearer
    assert timing(other, STORE, (LINE, True)) == Timing(2, 1, 1, near)
    # an atomic takes 6 instead of a load's 4
    expected = Timing(43, 1, 1, near | l2 | l2_miss | modified | snooped, 0x9)
    assert timing(one, ATOMIC, (LINE, False), (LINE, True)) == expected


def test_of_several_lines_the_one_that_took_longest_is_told() -> None:
    one, other, _ = models()
    timing(one, STORE, (LINE, True))
    assert timing(other, LOAD, (LINE, False), (LINE + 0x40, False)).data_source == 0xE


LINES = st.one_of(st.integers(0, 20), st.integers(0, 6).map(lambda n: 4 * n))


class PlainLevel:
    """Sets of lines, the most recent last."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets: list[list[int]] = [[] for _ in range(sets)]
        self.ways = ways

    def touch(self, line: int) -> tuple[bool, int | None]:
        """Make it the most recent one: whether it was there, and what had to go."""
        found = self.sets[line % len(self.sets)]
        was = line in found
        if was:
            found.remove(line)
        found.append(line)
        return was, found.pop(0) if len(found) > self.ways else None

    def drop(self, line: int) -> None:
        found = self.sets[line % len(self.sets)]
        if line in found:
            found.remove(line)

    def __contains__(self, line: int) -> bool:
        return line in self.sets[line % len(self.sets)]


class PlainPE:
    def __init__(self) -> None:
        self.l1, self.l2 = PlainLevel(2, 2), PlainLevel(4, 2)
        self.modified: set[int] = set()

    def holds(self, line: int) -> bool:
        return line in self.l1 or line in self.l2


class PlainBoard:
    """What the documentation says, with a set of modified lines for each PE."""

    def __init__(self, count: int, cluster: int) -> None:
        self.pes = [PlainPE() for _ in range(count)]
        self.last = PlainLevel(8, 2)
        self.cluster = cluster

    def access(self, number: int, line: int, write: bool) -> int:
        pe = self.pes[number]
        others = [(n, p) for n, p in enumerate(self.pes) if p is not pe and p.holds(line)]
        outcome = HIT
        if not pe.l1.touch(line)[0]:
            outcome = FROM_L2
            if not pe.l2.touch(line)[0]:
                outcome = self.outside(number, line, write, others)
        # what is in no cache any more is in the last level or in memory
        pe.modified = {modified for modified in pe.modified if pe.holds(modified)}
        if write:
            for _, other in others:
                other.l1.drop(line)
                other.l2.drop(line)
                other.modified.discard(line)
            pe.modified.add(line)
        return outcome

    def outside(
        self, number: int, line: int, write: bool, others: list[tuple[int, PlainPE]]
    ) -> int:
        near = [p for n, p in others if n // self.cluster == number // self.cluster]
        dirty = [p for _, p in others if line in p.modified]
        assert len(dirty) <= 1
        assert not dirty or len(others) == 1
        modified = MODIFIED_ELSEWHERE if dirty else 0
        if near:
            if dirty and not write:
                self.last.touch(line)
                dirty[0].modified.discard(line)
            return CORE | modified
        there = self.last.touch(line)[0]
        if dirty and not write:
            dirty[0].modified.discard(line)
        if dirty or (others and not there):
            return CLUSTER | modified
        return FROM_LLC if there else FROM_MEMORY


@given(
    st.sampled_from([(2, 1), (2, 2), (4, 2), (3, 4)]),
    st.lists(st.tuples(st.integers(0, 3), LINES, st.booleans()), max_size=200),
)
def test_any_sequence_of_accesses_does_what_a_plain_model_does(
    board: tuple[int, int], accesses: list[tuple[int, int, bool]]
) -> None:
    sides, plain = pes(*board), PlainBoard(*board)
    for chosen, line, write in accesses:
        number = chosen % len(sides)
        assert did(sides[number], line * 64, write) == plain.access(number, line, write)


@given(st.lists(st.tuples(LINES, st.booleans()), max_size=200))
def test_a_pe_of_which_no_other_works_finds_what_it_finds_alone(
    accesses: list[tuple[int, bool]],
) -> None:
    among, *_ = pes(2)
    (alone,) = pes(1)
    for line, write in accesses:
        found = did(among, line * 64, write)
        alone.begin()
        alone.access(line * 64, 8)
        assert found == alone.outcome & DATA
