"""Arrays of records hold what the plain reader finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.output.arrays import Has, canonical, read_arrays
from spe_unicorn.output.reader import Stream
from spe_unicorn.spe.packets import BadPacket, canonical_address
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from tests.support.samples import branch, load, of_every_sort, other, pc, store, stream

SORTS = list(of_every_sort())


def a_stream(records, align=6, cpu=0, offset=0):
    return Stream(cpu, offset, 0, memoryview(stream(records, align)))


def assert_alike(streams):
    arrays, bad = read_arrays(streams)
    found = [(s, f) for s in streams for f in decode_stream(s.data)]
    plain = [(s, f) for s, f in found if isinstance(f, PlacedRecord)]
    assert [arrays.record(row) for row in range(len(arrays))] == [f.record for _, f in plain]
    assert arrays.cpu.tolist() == [s.cpu for s, _ in plain]
    assert arrays.offset.tolist() == [s.offset + f.start for s, f in plain]
    assert bad == [(s, f) for s, f in found if isinstance(f, BadPacket)]


@pytest.mark.parametrize("align", [0, 6])
def test_records_of_every_sort_are_in_the_arrays(align: int) -> None:
    assert_alike([a_stream(SORTS * 2, align)])


def test_streams_follow_each_other_with_their_cpu_and_place() -> None:
    assert_alike([a_stream(SORTS, 6, 1), a_stream([load()], 0, 0, 640), a_stream(SORTS, 0, 2, 64)])


def test_no_streams_and_empty_ones_give_empty_arrays() -> None:
    for streams in ([], [a_stream([])], [a_stream([]), a_stream([])]):
        arrays, bad = read_arrays(streams)
        assert (len(arrays), bad) == (0, [])
        assert all(len(column) == 0 for column in (arrays.cpu, arrays.pc, arrays.events))


def test_columns_hold_the_payloads_and_say_which_records_have_them() -> None:
    arrays, _ = read_arrays([a_stream([load(), branch(), other(timestamp=None)])])
    assert arrays.where(Has.VA).tolist() == [True, False, False]
    assert arrays.where(Has.TARGET).tolist() == [False, True, False]
    assert arrays.where(Has.TIMESTAMP).tolist() == [True, True, False]
    assert arrays.total.tolist() == [13, 2, 0]
    assert arrays.op_class.tolist() == [1, 2, 0]
    assert arrays.data_source.tolist() == [8, 0, 0]
    assert arrays.va[0] == 0x20 << 56 | 0x40008008
    assert arrays.events.dtype == np.uint64


def test_addresses_become_canonical_as_the_packets_rule_has_it() -> None:
    values = [0, 1 << 55, 0xA0 << 56 | 0x1234, 0xA0 << 56 | 1 << 55 | 0x8000, (1 << 64) - 1]
    plain = [canonical_address(value) for value in values]
    assert canonical(np.array(values, np.uint64)).tolist() == plain


def test_some_rows_can_be_taken_by_number_or_by_truth() -> None:
    arrays, _ = read_arrays([a_stream(SORTS)])
    every_third = np.arange(len(SORTS)) % 3 == 0
    taken = arrays.take(every_third)
    assert [taken.record(row) for row in range(len(taken))] == SORTS[::3]
    again = arrays.take(np.array([5, len(SORTS) - 1]))
    assert [again.record(row) for row in range(2)] == [SORTS[5], SORTS[-1]]


@given(
    st.lists(st.sampled_from(SORTS), max_size=30),
    st.sampled_from([0, 3, 6]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
)
def test_damaged_streams_give_the_records_that_the_plain_reader_finds(records, align, damage):
    data = bytearray(stream(records, align))
    for place, value in damage:
        if data:
            data[int(place * len(data))] = value
    assert_alike([Stream(3, 128, 0, memoryview(bytes(data)))])


@given(st.integers(0, 3), st.integers(0, (1 << 56) - 1), st.integers(0, 0xFFFF))
def test_any_value_of_a_payload_comes_out_as_it_went_in(el, address, cycles):
    records = [load(pc=pc(address, el), counters=((0, cycles),)), store(pc=pc(address, el, 0))]
    assert_alike([a_stream(records, 0)])
