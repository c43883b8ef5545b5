from math import isclose

from spe_unicorn.report.views.difference import chance_of, difference, totals
from spe_unicorn.report.views.overview import View
from spe_unicorn.spe.packets import Event
from tests.report.recordings import samples
from tests.support.samples import load, other


def test_what_moved_most_comes_first_with_both_shares():
    before = samples(*[load(0x40000100)] * 50, *[other(0x40000140)] * 50)
    after = samples(*[load(0x40000100)] * 90, *[other(0x40000140)] * 10)
    table = difference(before, after, "symbol", View())
    assert [(round(row[0], 3), row[1], row[2], row[3], row[4], row[-1]) for row in table.rows] == [
        (0.4, 0.5, 0.9, 50, 90, "main"),
        (-0.4, 0.5, 0.1, 50, 10, "work"),
    ]
    assert [row[6] for row in table.rows] == ["*", "*"]


def test_larger_differences_come_first_up_or_down_and_equal_ones_by_name():
    """Of 64 samples: main 32 and 32, work 16 and 24, no symbol 16 and 8."""
    places = (0x40000100, 0x40000140, 0x40000200)

    def of(*counts):
        pairs = zip(places, counts, strict=True)
        return samples(*(record for at, count in pairs for record in [load(at)] * count))

    rows = difference(of(32, 16, 16), of(32, 24, 8), "symbol", View()).rows
    moved = [(row[0], row[-1]) for row in rows]
    assert moved == [(-0.125, "[unknown]"), (0.125, "work"), (0.0, "main")]
    rows = difference(of(32, 16, 16), of(16, 24, 24), "symbol", View()).rows
    assert [row[-1] for row in rows] == ["main", "[unknown]", "work"]


def test_what_is_in_one_recording_alone_is_shown():
    table = difference(samples(load(0x40000100)), samples(other(0x40000140)), "symbol", View())
    assert sorted((row[1], row[2], row[-1]) for row in table.rows) == [
        *((0.0, 1.0, "work"), (1.0, 0.0, "main")),
    ]


def test_equal_recordings_differ_by_nothing():
    records = [load(0x40000100)] * 7 + [other(0x40000140)] * 5
    table = difference(samples(*records), samples(*records), "symbol", View())
    assert {(row[0], row[5], row[6]) for row in table.rows} == {(0.0, 1.0, "")}


def test_small_differences_can_be_left_out_and_are_counted():
    records = [load(0x40000100)] * 99 + [other(0x40000140)]
    table = difference(samples(*records), samples(*records[1:]), "symbol", View(limit=0.05))
    assert [row[-1] for row in table.rows] == ["main"]
    one = difference(samples(*records), samples(*records[1:]), "symbol", View(rows=1))
    assert one.note.startswith("1 more differ less; ")


def test_chance_is_that_of_the_test_of_two_proportions():
    # 60 of 100 against 50 of 100: z = 0.1 / sqrt(0.55 * 0.45 * 0.02) = 1.421, p = 0.155
    assert isclose(chance_of(60, 100, 50, 100), 0.1553, abs_tol=0.0002)
    # ten times as many samples: z = 4.495, p = 7e-6
    assert isclose(chance_of(600, 1000, 500, 1000), 6.96e-6, rel_tol=0.01)
    assert chance_of(5, 5, 7, 7) == 1.0
    assert chance_of(0, 0, 1, 7) is None


def marks(hot_before, hot_after, **view):
    """The mark of main, of 100 samples of each recording."""
    before, after = (
        samples(*[load(0x40000100)] * hot, *[other(0x40000140)] * (100 - hot))
        for hot in (hot_before, hot_after)
    )
    table = difference(before, after, "symbol", View(**view))
    return {row[-1]: row[6] for row in table.rows}["main"]


def test_a_difference_is_marked_below_one_in_a_hundred():
    # 50 and 68 of 100: z = 0.18 / sqrt(0.59 * 0.41 * 0.02) = 2.588, p = 0.0097
    assert marks(50, 68) == marks(68, 50) == "*"
    # 50 and 67 of 100: z = 0.17 / sqrt(0.585 * 0.415 * 0.02) = 2.440, p = 0.0147
    assert marks(50, 67) == marks(67, 50) == ""


def test_chance_is_counted_by_samples_whatever_they_weigh():
    def lasting(cycles):
        return load(0x40000100, counters=((0, cycles), (1, 1), (2, 0)))

    rest = [load(0x40000140)] * 5 + [other(0x40000140)] * 5  # of the latter none has a latency
    before, after = samples(*[lasting(10)] * 10, *rest), samples(*[lasting(1000)] * 10, *rest)
    rows = difference(before, after, "symbol", View(by="latency")).rows
    # main has 100 of 165 cycles, then 10,000 of 10,065; and 10 of 20 samples in both
    assert rows[0][-1] == "main"
    assert isclose(rows[0][0], 10_000 / 10_065 - 100 / 165)
    assert rows[0][3:7] == (10, 10, 1.0, "")
    # of 20 samples, not of the 15 that have a latency: z = 0.25 / sqrt(0.375 * 0.625 * 0.1) = 1.633
    fewer = samples(*[lasting(10)] * 5, *[load(0x40000140)] * 10, *[other(0x40000140)] * 5)
    rows = difference(before, fewer, "symbol", View(by="latency")).rows
    (row,) = [row for row in rows if row[-1] == "main"]
    assert isclose(row[5], 0.1025, abs_tol=0.0005)


def test_a_share_at_the_limit_is_shown():
    found = samples(*[load(0x40000100)] * 95, *[other(0x40000140)] * 5)
    shown = difference(found, found, "symbol", View(limit=0.05)).rows
    assert sorted(row[-1] for row in shown) == ["main", "work"]
    assert len(difference(found, found, "symbol", View(limit=0.0501)).rows) == 1


def test_what_is_small_in_one_recording_alone_is_shown():
    before = samples(*[load(0x40000100)] * 99, other(0x40000140))
    after = samples(*[load(0x40000100)] * 50, *[other(0x40000140)] * 50)
    for pair in ((before, after), (after, before)):
        assert len(difference(*pair, "symbol", View(limit=0.05)).rows) == 2


def test_several_recordings_of_a_side_count_as_one():
    before = [samples(*[load(0x40000100)] * 20, *[other(0x40000140)] * n) for n in (10, 30)]
    after = samples(*[load(0x40000100)] * 40, *[other(0x40000140)] * 40)
    assert difference(before, after, "symbol", View()).rows == [
        *difference(after, after, "symbol", View()).rows
    ]


def lasting(cycles):
    counters = ((0, cycles), (1, 1), (2, 0))
    return load(0x40000100, counters=counters, events=Event.RETIRED)


def test_each_label_has_its_mean_latency_on_both_sides():
    before = [samples(lasting(10), other(0x40000140)), samples(lasting(40), lasting(40))]
    (main, work) = difference(before, samples(lasting(8)), "symbol", View()).rows
    if main[-1] == "work":
        main, work = work, main
    # (10 + 40 + 40) / 3; an operation without a latency has none
    assert main[7:] == (30.0, 8.0, "main")
    assert work[7:] == (None, None, "work")


def test_totals_tell_of_samples_and_cycles_and_events():
    missing = load(0x40000100, counters=((0, 100), (1, 1), (2, 0)), events=Event.L1D_MISS)
    before = samples(missing, lasting(20), lasting(30), lasting(50))
    rows = {row[0]: row[1:] for row in totals(before, samples(lasting(20), lasting(30))).rows}
    assert rows["samples"] == ("4", "2", "-50.00%")
    assert rows["cycles of total latency"] == ("200", "50", "-75.00%")
    assert rows["mean latency in cycles"] == ("50.00", "25.00", "-50.00%")
    assert rows["L1D misses, of all samples"] == ("25.00%", "0.00%", "-25.00 points")
    assert "mispredicted branches, of all samples" not in rows
