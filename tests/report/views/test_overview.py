"""The tables of a report, counted by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.output.reader import RecordFile
from spe_unicorn.output.tasks import Act, TaskEvent
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import KEYS, PERF_KEYS, WEIGHTS, Samples, percentiles
from spe_unicorn.report.views.overview import View, grouped, overview
from spe_unicorn.spe.packets import DataAddress
from tests.report.recordings import samples, stream_of
from tests.support.samples import branch, load, of_every_sort, other, store

FOUR = (load(0x40000100), store(0x40000124), other(0x40000140), branch(0x40000144))


def table(found, title, **view):
    (one,) = [t for t in overview(found, View(**view)) if t.title.startswith(title)]
    return one


def test_functions_hold_the_samples_of_all_their_labels() -> None:
    rows = table(samples(*FOUR), "Functions").rows
    # load 13 and store 3 cycles in main, a branch of 2 and a record without a latency in work
    assert rows == [(0.5, 2, 8.0, "main"), (0.5, 2, 2.0, "work")]


def test_shares_can_be_of_latency_or_of_an_event() -> None:
    by_latency = table(samples(*FOUR), "Functions", by="latency")
    assert by_latency.title == "Functions by cycles of total latency"
    assert by_latency.rows == [(16 / 18, 2, 8.0, "main"), (2 / 18, 1, 2.0, "work")]
    assert table(samples(*FOUR), "Functions", by="l1d-miss").rows == [(1.0, 1, 13.0, "main")]
    assert table(samples(*FOUR), "Functions", by="mispredict").rows == [(1.0, 1, 2.0, "work")]


def test_instructions_are_named_by_their_nearest_label() -> None:
    assert [row[-1] for row in table(samples(*FOUR), "Instructions").rows] == [
        *("loop+0x4", "main", "work", "work+0x4"),
    ]


def test_latencies_are_told_of_each_kind_with_percentiles_that_occurred() -> None:
    records = [load(counters=((0, cycles), (1, 1), (2, 0))) for cycles in range(1, 101)]
    rows = table(samples(*records, *FOUR[1:]), "Latency").rows
    assert rows[0] == ("load", "total", 100, 50.5, 1, 50, 90, 99, 100)
    assert [row[:3] for row in rows[1:]] == [
        *(("load", "issue", 100), ("load", "translation", 100)),
        *(("store", "total", 1), ("store", "issue", 1), ("store", "translation", 1)),
        *(("branch", "total", 1), ("branch", "issue", 1)),
    ]


def test_percentiles_are_values_that_occurred() -> None:
    assert percentiles([10, 20], (50, 51, 100)) == [10, 20, 20]


def test_data_sources_are_of_the_records_that_have_one() -> None:
    rows = table(samples(*FOUR, load(data_source=0x77)), "Data sources").rows
    assert rows == [(0.5, 1, 13.0, "L2"), (0.5, 1, 13.0, "source 0x77")]


def test_mispredicted_branches_have_their_own_rate() -> None:
    right, wrong = branch(0x40000144, events=0x02), branch(0x40000144, events=0x82)
    elsewhere = branch(0x40000148, events=0x82)
    rows = table(samples(wrong, right, right, right, elsewhere), "Mispredicted").rows
    assert rows == [(0.5, 1, 0.25, "work+0x4"), (0.5, 1, 1.0, "work+0x8")]


def test_mispredicted_branches_are_sorted_and_cut_by_their_number() -> None:
    often, once, never = (
        branch(address, events=events)
        for address, events in ((0x40000148, 0x82), (0x40000144, 0x82), (0x4000014C, 0x02))
    )
    found = samples(once, often, often, often, never, load(events=0x82))
    both = [(0.75, 3, 1.0, "work+0x8"), (0.25, 1, 1.0, "work+0x4")]
    assert table(found, "Mispredicted").rows == both
    assert table(found, "Mispredicted", limit=0.25).rows == both
    assert table(found, "Mispredicted", limit=0.26).rows == both[:1]
    assert table(found, "Mispredicted", rows=1).rows == both[:1]


def test_a_function_with_just_the_least_share_is_shown() -> None:
    found = samples(load(), load(), load(), other(0x40000140))
    assert [row[-1] for row in table(found, "Functions", limit=0.25).rows] == ["main", "work"]
    assert [row[-1] for row in table(found, "Functions", limit=0.26).rows] == ["main"]


def test_the_tree_of_calls_is_there_where_the_recording_has_calls() -> None:
    found = samples(load(0x40000140))
    assert not [t for t in overview(found, View()) if t.title == "Calls"]
    found.recording.file.calls.add(0, (0x40000108,))
    (tree,) = [t for t in overview(found, View()) if t.title == "Calls"]
    assert [row[-1] for row in tree.rows] == ["main", "  work"]


def test_data_are_told_by_object_or_by_mebibyte() -> None:
    far = load(va=DataAddress(0x41234567))
    (rows,) = [t.rows for t in overview(samples(load(), far), View()) if t.title == "Data"]
    assert [row[-1] for row in rows] == ["0x41200000-0x412fffff", "buffer"]


def test_pes_and_threads_are_told_apart() -> None:
    streams = [stream_of([load(context_el1=5), load()], 0), stream_of([load(context_el2=9)], 3)]
    found = Samples(Recording(RecordFile("a.data", "perf", streams)))
    tables = {t.title: [row[-1] for row in t.rows] for t in overview(found, View())}
    assert tables["PEs"] == ["0", "3"]
    assert tables["Threads"] == ["CONTEXTIDR_EL1 0x5", "CONTEXTIDR_EL2 0x9", "[unknown]"]


def test_threads_have_the_names_that_the_recording_gives_them() -> None:
    file = RecordFile("a.data", "perf", [stream_of([load(context_el1=5), load(context_el1=6)])])
    file.acts.append(TaskEvent(Act.NAME, 5, 5, name="dd"))
    (names,) = [
        [row[-1] for row in t.rows]
        for t in overview(Samples(Recording(file)), View())
        if t.title == "Threads"
    ]
    assert names == ["CONTEXTIDR_EL1 0x6", "dd 5"]


def test_small_rows_are_left_out_and_told_of_together() -> None:
    found = samples(*[load(0x40000100)] * 6, *[other(0x40000140)] * 3, other(0x40001000))
    assert table(found, "Functions", limit=0.2).note == "1 more with 10.00% together"
    cut = table(found, "Functions", rows=1)
    assert [row[-1] for row in cut.rows] == ["main"]
    assert cut.note == "2 more with 40.00% together"


def test_tables_that_would_say_nothing_are_left_out() -> None:
    bare = samples(other(timestamp=None), program=None)
    assert [t.title for t in overview(bare, View())] == ["Instructions", "Operations", "PEs"]


def test_one_table_by_several_keys() -> None:
    found = grouped(samples(*FOUR), View(), ("symbol", "el", "op"))
    assert [column.name for column in found.columns] == [
        *("share", "samples", "mean latency", "symbol", "el", "op"),
    ]
    assert [row[3:] for row in found.rows] == [
        *(("main", "EL1", "load general"), ("main", "EL1", "store general")),
        *(("work", "EL1", "branch conditional"), ("work", "EL1", "other")),
    ]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("by", WEIGHTS)
def test_every_sample_is_in_one_group_of_every_key(key: str, by: str) -> None:
    found = samples(*of_every_sort())
    weights = found.weights(by)
    groups = found.groups((key,), weights)
    assert sum(group.weight for group in groups) == weights.sum()
    rows = sorted(int(row) for group in groups for row in group.rows)
    assert rows == [row for row in range(len(found)) if weights[row] > 0]


def test_the_words_of_perf_stand_for_keys_that_there_are() -> None:
    assert set(PERF_KEYS.values()) <= set(KEYS)


@pytest.mark.parametrize(
    ("by", "bit"), [("l1d-miss", 3), ("tlb-walk", 5), ("mispredict", 7), ("llc-miss", 9)]
)
def test_a_sample_weighs_one_by_the_event_that_it_has(by: str, bit: int) -> None:
    # bits of the Events packet, Arm ARM D18.2.6
    with_it = other(events=1 << bit | 2, events_size=2)
    without = other(events=0xFFFF & ~(1 << bit), events_size=2)
    assert samples(with_it, without, other()).weights(by).tolist() == [1.0, 0.0, 0.0]


def test_a_sample_weighs_its_total_latency_or_one() -> None:
    found = samples(load(counters=((0, 700), (1, 30), (2, 5))), other())
    assert found.weights("latency").tolist() == [700.0, 0.0]
    assert found.weights("samples").tolist() == [1.0, 1.0]
    assert [group.weight for group in found.groups(("address",), found.weights("latency"))] == [700]
