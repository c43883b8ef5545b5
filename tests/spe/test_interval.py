"""The interval counters against hand-worked examples and against their one-member reference."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.decode import decode
from spe_unicorn.spe.interval import BiasedInterval, IntervalCounters, PeriodicInterval


class Bytes(RandomStream):
    """A stream that gives listed bytes, then fails."""

    def __init__(self, *values: int) -> None:
        super().__init__(0)
        self.values = list(values)

    def byte(self) -> int:
        return self.values.pop(0)

    def peek_byte(self) -> int:
        return self.values[0]


def counters(
    pmsicr: int,
    interval: int,
    rnd: int = 0,
    *,
    ernd: bool = False,
    random: RandomStream | None = None,
) -> IntervalCounters:
    result = IntervalCounters(random or RandomStream(1), ernd=ernd)
    result.PMSIRR.set(interval << 8 | rnd)
    result.PMSICR.set(pmsicr)
    return result


def hits(subject: IntervalCounters, members: int) -> list[int]:
    """The numbers of the selected members, counted from 1, one by one."""
    return [i for i in range(1, members + 1) if subject.count_one()]


def test_interval_1_from_zero_selects_every_257th_member() -> None:
    subject = counters(0, interval=1)
    subject.enable()
    assert hits(subject, 800) == [257, 514, 771]


def test_restored_count_5_selects_the_fifth_member_and_then_every_1025th() -> None:
    subject = counters(5, interval=4)
    subject.enable()
    assert hits(subject, 2100) == [5, 1030, 2055]


def test_enabling_with_a_nonzero_counter_continues_from_it() -> None:
    subject = counters(0x1234, interval=1)
    subject.enable()
    assert subject.PMSICR.get() == 0x1234


def test_enabling_with_zero_loads_interval_with_a_zero_low_byte() -> None:
    subject = counters(0, interval=4)
    subject.enable()
    assert subject.PMSICR.get() == 0x400


def test_enabling_with_zero_and_rnd_loads_a_random_low_byte() -> None:
    subject = counters(0, interval=4, rnd=1, random=Bytes(0x5A))
    subject.enable()
    assert subject.PMSICR.get() == 0x45A


def test_enabling_with_zero_and_ernd_loads_a_zero_low_byte_and_no_ecount() -> None:
    subject = counters(0, interval=4, rnd=1, ernd=True, random=Bytes())
    subject.enable()
    assert subject.PMSICR.get() == 0x400


@pytest.mark.parametrize("bit", range(8, 32))
def test_each_bit_of_interval_counts(bit: int) -> None:
    subject = counters(0, interval=1 << (bit - 8))
    subject.enable()
    assert subject.PMSICR.get() == 1 << bit
    assert subject.until_hit() == (1 << bit) + 1
    assert subject.pass_hits(3) == 3 * ((1 << bit) + 1)


def test_count_has_32_bits() -> None:
    subject = counters(0xFFFF_FFFF, interval=1)
    assert subject.until_hit() == 0xFFFF_FFFF
    assert subject.advance(0xFFFF_FFFF)


def test_count_is_reloaded_by_the_selected_member_itself() -> None:
    subject = counters(1, interval=2)
    assert subject.count_one()
    assert subject.PMSICR.get() == 0x200


def test_the_member_after_a_reload_leaves_count_alone() -> None:
    subject = counters(1, interval=2)
    subject.count_one()
    subject.count_one()
    assert subject.PMSICR.get() == 0x200
    subject.count_one()
    assert subject.PMSICR.get() == 0x1FF


def test_random_low_byte_widens_the_gap_by_itself() -> None:
    subject = counters(1, interval=4, rnd=1, random=Bytes(0, 255, 7))
    assert hits(subject, 1 + 1025 + 1280) == [1, 1 + 1025, 1 + 1025 + 1280]


def test_random_ecount_selects_that_many_members_after_the_count() -> None:
    subject = counters(0, interval=4, rnd=1, ernd=True, random=Bytes(10, 0, 255, 0))
    subject.enable()
    found = hits(subject, 4 * 1025 + 255)
    assert found == [1025 + 10, 2 * 1025, 3 * 1025 + 255, 4 * 1025]


def test_ecount_of_zero_selects_at_once() -> None:
    subject = counters(3, interval=1, rnd=1, ernd=True, random=Bytes(0))
    assert hits(subject, 3) == [3]


def test_gaps_without_ernd_lie_in_1025_to_1280_with_their_mean_in_the_middle() -> None:
    gaps = _gaps(ernd=False)
    assert min(gaps) == 1025
    assert max(gaps) == 1280
    assert abs(sum(gaps) / len(gaps) - 1152.5) < 3 * 73.9 / len(gaps) ** 0.5


def test_gaps_with_ernd_lie_in_770_to_1280_with_mean_1025() -> None:
    gaps = _gaps(ernd=True)
    assert min(gaps) >= 770
    assert max(gaps) <= 1280
    assert abs(sum(gaps) / len(gaps) - 1025) < 0.2  # the random parts cancel but for the ends


def _gaps(*, ernd: bool) -> list[int]:
    subject = counters(0, interval=4, rnd=1, ernd=ernd)
    subject.enable()
    result = []
    for _ in range(4000):
        result.append(subject.until_hit())
        assert subject.advance(result[-1])
    return result[1:]


def test_saved_ecount_selects_whatever_rnd_says() -> None:
    subject = counters(3 << 56 | 0x100, interval=1, rnd=0, ernd=True)
    assert hits(subject, 300) == [3, 256]


def test_count_zero_beside_a_saved_ecount_is_loaded_by_the_first_member() -> None:
    subject = counters(2 << 56, interval=1, ernd=True)
    subject.enable()
    assert subject.PMSICR.get() == 2 << 56
    assert hits(subject, 600) == [2, 258, 515]


def test_ecount_does_not_exist_without_ernd() -> None:
    subject = counters(3 << 56 | 5, interval=1)
    assert subject.PMSICR.get() == 5


def test_interval_zero_acts_as_one() -> None:
    subject = counters(0, interval=0)
    subject.enable()
    assert hits(subject, 600) == [257, 514]


def test_switching_off_and_on_loses_no_member() -> None:
    whole = counters(0, interval=1)
    whole.enable()
    parts = counters(0, interval=1)
    found = []
    for start in range(0, 3000, 3):
        parts.enable()
        found += [start + i for i in hits(parts, 3)]
    assert found == hits(whole, 3000)


@pytest.mark.parametrize("burst", [1, 2, 5, 256, 257, 258])
def test_no_place_in_a_burst_of_enabled_members_is_favoured(burst: int) -> None:
    """Profiling goes off and on around each burst; every place in it is sampled alike."""
    subject = counters(0, interval=1, rnd=1, ernd=True, random=RandomStream(7))
    seen = [0] * burst
    samples = 0
    place = 0
    subject.enable()
    while samples < 50 * burst:
        members = min(subject.until_hit(), burst - place)
        if subject.advance(members):
            seen[(place + members - 1) % burst] += 1
            samples += 1
        place += members
        if place == burst:
            place = 0
            subject.enable()
    chi_square = sum((n - 50) ** 2 / 50 for n in seen)
    assert chi_square < burst + 5 * (2 * burst) ** 0.5


def test_advancing_past_a_selected_member_is_refused() -> None:
    with pytest.raises(ValueError, match="selected 2 before the last"):
        counters(5, interval=4).advance(7)


ecounts = st.one_of(st.just(0), st.integers(0, 255))
counts = st.one_of(st.integers(0, 3), st.integers(0, 600), st.integers(0, 0xFFFF))


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    ernd=st.booleans(),
    rnd=st.integers(0, 1),
    interval=st.integers(0, 3),
    steps=st.lists(
        st.one_of(
            st.just("hit"),
            st.integers(1, 700),
            st.tuples(ecounts, counts),
            st.tuples(st.integers(0, 3), st.integers(0, 1), st.just("irr")),
        ),
        max_size=12,
    ),
)
def test_looking_ahead_selects_what_the_reference_selects(
    seed: int, ernd: bool, rnd: int, interval: int, steps: list[object]
) -> None:
    fast = counters(0, interval, rnd, ernd=ernd, random=RandomStream(seed))
    slow_random = RandomStream(seed)
    slow = counters(0, interval, rnd, ernd=ernd, random=slow_random)
    for step in steps:
        if isinstance(step, tuple) and len(step) == 3:
            for subject in (fast, slow):
                subject.PMSIRR.set(step[0] << 8 | step[1])
        elif isinstance(step, tuple):
            for subject in (fast, slow):
                subject.PMSICR.set(step[0] << 56 | step[1])
        else:
            ahead = fast.until_hit()
            following = fast.following(3).tolist()
            members = ahead if step == "hit" else min(int(str(step)), ahead)
            expected = [slow.count_one() for _ in range(members)]
            assert not any(expected[:-1])
            assert expected[-1] == (members == ahead)
            assert fast.advance(members) == expected[-1]
            if members == ahead:
                assert fast.until_hit() == following[0]
                assert fast.following(2).tolist() == following[1:]
        assert fast.PMSICR.get() == slow.PMSICR.get()
        assert fast.s == slow.s
        assert fast._random.state == slow_random.state


@given(
    pmsicr=st.one_of(
        st.integers(0, 700), st.builds(lambda e, c: e << 56 | c, *[st.integers(0, 255)] * 2)
    ),
    interval=st.integers(0, 3),
    rnd=st.integers(0, 1),
    ernd=st.booleans(),
    seed=st.integers(0, 1 << 32),
    hits_=st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_passing_many_selections_is_passing_them_one_by_one(
    pmsicr: int, interval: int, rnd: int, ernd: bool, seed: int, hits_: list[int]
) -> None:
    leaping, stepping = (
        counters(pmsicr, interval, rnd, ernd=ernd, random=RandomStream(seed)) for _ in range(2)
    )
    for subject in (leaping, stepping):
        subject.enable()
    for count in hits_:
        distances = leaping.following(count).tolist()
        members = []
        while len(members) < count:
            members.append(stepping.until_hit())
            assert stepping.advance(members[-1])
        assert distances[: count - 1] == members[1:][: len(distances)]
        assert leaping.pass_hits(count) == sum(members)
        assert leaping.s == stepping.s
        assert leaping.until_hit() == stepping.until_hit()


def test_fixed_interval_selects_every_period() -> None:
    subject = PeriodicInterval(3)
    assert [subject.advance(1) for _ in range(7)] == [False, False, True] * 2 + [False]
    assert subject.until_hit() == 2
    assert subject.advance(2)


@pytest.mark.parametrize(
    ("pmsicr", "distances"),
    [
        (0x80, [257, 257, 257]),
        (3 << 56 | 0x80, [125, 257, 257]),
        (0x83 << 56 | 0x80, [3, 254, 257]),
        (0x80 << 56 | 0x80, [257, 257, 257]),
    ],
)
def test_distances_between_the_selections_to_come(pmsicr: int, distances: list[int]) -> None:
    assert counters(pmsicr, 1, 0, ernd=True).following(3).tolist() == distances


def test_looking_at_the_distances_takes_no_random_number() -> None:
    random = RandomStream(7)
    subject = counters(0x80, 1, 1, ernd=True, random=random)
    before = random.state
    assert subject.following(4).tolist() == subject.following(4).tolist()
    assert random.state == before


def test_fixed_interval_has_one_distance() -> None:
    assert PeriodicInterval(3).following(2).tolist() == [3, 3]


def test_fixed_interval_refuses_a_period_of_zero() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        PeriodicInterval(0)


@pytest.mark.parametrize(("period", "least", "most"), [(1000, 875, 1125), (8, 7, 9), (7, 7, 7)])
def test_varied_distances_are_uniform_within_an_eighth_around_the_period(
    period: int, least: int, most: int
) -> None:
    distances = PeriodicInterval(period, RandomStream(5)).following(200_000).tolist()
    assert (min(distances), max(distances)) == (least, most)
    counts = Counter(distances)
    expected = 200_000 / (most - least + 1)
    assert len(counts) == most - least + 1
    assert all(abs(n - expected) < 6 * expected**0.5 for n in counts.values())
    assert abs(sum(distances) / 200_000 - period) < 0.001 * period


def test_varied_distances_are_those_that_were_foreseen_however_they_are_passed() -> None:
    one, leaps, batches = (PeriodicInterval(1000, RandomStream(5)) for _ in range(3))
    foreseen = [one.until_hit(), *one.following(9).tolist()]
    assert len({*foreseen}) > 5
    hits = [member for member in range(1, sum(foreseen) + 1) if one.advance(1)]
    assert [later - earlier for earlier, later in pairwise([0, *hits])] == foreseen
    for distance in foreseen:
        assert leaps.until_hit() == distance
        assert leaps.advance(distance)
    assert batches.pass_hits(4) == sum(foreseen[:4])
    assert batches.pass_hits(1) == foreseen[4]
    assert batches.pass_hits(5) == sum(foreseen[5:])
    assert one.until_hit() == leaps.until_hit() == batches.until_hit()


@pytest.mark.parametrize("length", [8, 10, 16, 100])
def test_no_place_of_a_loop_is_favoured_by_varied_distances(length: int) -> None:
    subject = PeriodicInterval(1000, RandomStream(5))
    place, places = 0, Counter[int]()
    for _ in range(100 * length):
        place = (place + subject.pass_hits(1)) % length
        places[place] += 1
    assert len(places) == length
    assert all(50 < count < 160 for count in places.values())


@pytest.mark.parametrize(
    ("interval", "length", "seen"), [(1, 257, 256), (4, 1025, 256), (4, 41, 41), (1, 256, 256)]
)
def test_a_loop_as_long_as_the_interval_has_places_that_ernd_never_selects(
    interval: int, length: int, seen: int
) -> None:
    subject = counters(0, interval, 1, ernd=True, random=RandomStream(3))
    subject.enable()
    place, places = 0, set()
    for _ in range(20_000):
        place = (place + subject.pass_hits(1)) % length
        places.add(place)
    assert len(places) == seen


def test_a_loop_as_long_as_the_interval_is_seen_everywhere_without_ernd() -> None:
    subject = counters(0, 1, 1, ernd=False, random=RandomStream(3))
    subject.enable()
    place, places = 0, set()
    for _ in range(20_000):
        place = (place + subject.pass_hits(1)) % 257
        places.add(place)
    assert len(places) == 257


# What implementations choose (Arm ARM D17.3)


def chosen(
    interval: int, rnd: int, choices: ImpDef, pmsicr: int = 0, bytes_: tuple[int, ...] = ()
) -> IntervalCounters:
    random = Bytes(*bytes_) if bytes_ else RandomStream(1)
    result = IntervalCounters(random, ernd=True, choices=choices)
    result.PMSIRR.set(interval << 8 | rnd)
    result.PMSICR.set(pmsicr)
    result.enable()
    return result


def test_a_reload_after_the_random_count_makes_the_interval_longer_by_it() -> None:
    """INTERVAL 1: the counter is zero after 257 members, then as many more as the byte says."""
    before = chosen(1, 1, ImpDef(), bytes_=(10, 0, 200, 3, 3))
    assert hits(before, 1028) == [257 + 10, 514, 771 + 200]
    after = chosen(1, 1, ImpDef(late_reload=True), bytes_=(10, 0, 200, 3, 3))
    first = 257 + 10
    assert hits(after, 1100) == [first, first + 257, first + 2 * 257 + 200]


@pytest.mark.parametrize("pmsicr", [0, 5, 0x1_0000])
def test_a_later_sampling_point_moves_every_selection_by_as_much(pmsicr: int) -> None:
    usual = hits(chosen(1, 0, ImpDef(), pmsicr), 70_000)
    moved = hits(chosen(1, 0, ImpDef(sampling_point=4), pmsicr), 70_004)
    assert moved == [number + 4 for number in usual]


def test_what_software_reads_does_not_tell_the_sampling_point() -> None:
    moved = chosen(1, 0, ImpDef(sampling_point=4), 100)
    assert moved.PMSICR.get() == 100
    moved.advance(99)
    assert moved.PMSICR.get() == 1
    moved.count_one()
    assert moved.PMSICR.get() == 0x100  # reloaded, and the selection is to come
    assert moved.until_hit() == 4


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 3),
    st.integers(0, 1),
    st.booleans(),
    st.integers(0, 16),
    st.integers(0, 1 << 10) | st.integers(0, 255).map(lambda ecount: ecount << 56 | 7),
)
def test_a_chosen_interval_is_the_same_in_steps_and_one_by_one(
    interval: int, rnd: int, late: bool, point: int, pmsicr: int
) -> None:
    choices = ImpDef(late_reload=late, sampling_point=point)
    one, many = (chosen(interval, rnd, choices, pmsicr) for _ in range(2))
    expected = hits(one, 3000)
    assert many.following(3)[: len(expected) - 1].tolist() == [
        b - a for a, b in pairwise(expected[:4])
    ]
    at = 0
    for number in expected[:2]:
        step = many.until_hit()
        assert many.advance(step)
        at += step
        assert at == number
    if len(expected) > 4:
        assert at + many.pass_hits(3) == expected[4]


def operation(pc: int, target: int | None, *, misspeculated: bool = False) -> Operation:
    found = Operation(decode(0xD503_201F), pc, 1, 0, misspeculated=misspeculated)
    found.previous_target = target
    return found


def test_a_biased_interval_goes_on_to_the_target_of_the_next_branch() -> None:
    subject = BiasedInterval(PeriodicInterval(4))
    assert subject.until_hit() == 4
    assert subject.advance(4)
    assert subject.moves(operation(0x1008, 0x1000))  # in the same 16 bytes
    assert subject.until_hit() == 1
    assert subject.advance(1)
    assert subject.moves(operation(0x100C, 0x1000))
    assert subject.advance(1)
    assert not subject.moves(operation(0x2000, 0x2000))  # the next target
    assert subject.until_hit() == 2


def test_a_biased_interval_tells_that_it_selects_again_meanwhile() -> None:
    subject = BiasedInterval(PeriodicInterval(2))
    assert subject.advance(2)
    assert subject.moves(operation(0x1004, 0x1000))
    assert subject.advance(1)
    assert not subject.again
    assert subject.moves(operation(0x1008, 0x1000))
    assert subject.advance(1)
    assert subject.again


@pytest.mark.parametrize(
    ("pc", "target", "misspeculated"),
    [
        (0x1000, 0x1000, False),  # the target itself
        (0x1010, 0x100C, False),  # the next 16 bytes
        (0x1004, None, False),  # nobody knows of a branch
        (0x1004, 0x1000, True),  # a wrong path
    ],
)
def test_a_biased_interval_leaves_others_alone(
    pc: int, target: int | None, misspeculated: bool
) -> None:
    subject = BiasedInterval(PeriodicInterval(4))
    assert subject.advance(4)
    assert not subject.moves(operation(pc, target, misspeculated=misspeculated))
    assert subject.until_hit() == 4


def test_what_a_biased_interval_moves_is_lost_where_profiling_is_disabled() -> None:
    subject = BiasedInterval(PeriodicInterval(4))
    assert subject.advance(4)
    assert subject.moves(operation(0x1004, 0x1000))
    subject.enable()
    assert subject.until_hit() == 4
