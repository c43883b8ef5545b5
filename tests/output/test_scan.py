"""The fast scanner finds what the plain reader finds: records, bad packets, in the same order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.output.scan import Scanner
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.spe.record import PlacedRecord, decode_stream, encode
from tests.support.samples import branch, load, of_every_sort, other, store, stream

SORTS = list(of_every_sort())


def plainly(data):
    """Records by place, where their padding ends, and bad packets, as the plain reader has them."""
    for found in decode_stream(data):
        if isinstance(found, BadPacket):
            yield found
            continue
        behind = found.end
        while behind < len(data) and not data[behind]:
            behind += 1
        yield found.start, found.end - found.start, behind


def fast(data, scanner=None):
    for found in (scanner or Scanner()).scan(data):
        if isinstance(found, BadPacket):
            yield found
        else:
            layout, start, behind = found
            yield start, layout.size, behind


def assert_alike(data):
    assert list(fast(data)) == list(plainly(data))
    assert list(fast(memoryview(data))) == list(plainly(data))


def fields_as_found(data):
    """Every packet of every record by the layouts of the scanner."""
    for layout, start, _ in Scanner().scan(data):
        yield [(start + f.offset, f.kind, f.size) for f in layout.fields]


@pytest.mark.parametrize("align", [0, 3, 6, 11])
def test_records_of_every_sort_are_found_where_they_are(align: int) -> None:
    data = stream(SORTS * 3, align)
    assert_alike(data)
    plain = [p for p in decode_stream(data) if isinstance(p, PlacedRecord)]
    assert len(plain) == 3 * len(SORTS)
    assert list(fields_as_found(data)) == [
        [(offset, packet.type, packet.size) for offset, packet in p.packets] for p in plain
    ]


def test_layouts_learned_from_one_stream_serve_the_next() -> None:
    scanner = Scanner()
    data = stream([load(), store(), branch(), other()] * 5)
    for _ in range(3):
        assert list(fast(data, scanner)) == list(plainly(data))


def test_more_layouts_than_are_remembered_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spe_unicorn.output.scan.MAX_LAYOUTS", 3)
    monkeypatch.setattr("spe_unicorn.output.scan._REMEMBERED", 5)
    assert_alike(stream(SORTS * 3, 0))


def test_long_headers_and_padding_between_packets_are_read() -> None:
    long_counter = b"\x20\x98\x05\x00"  # the extended form of a header that has a short one
    record = b"\xb0" + bytes(7) + b"\xa0" + bytes(3) + long_counter + b"\x52\x02\x00\x01"
    assert_alike((record + bytes(5)) * 4)


def test_empty_streams_and_padding_alone_hold_nothing() -> None:
    for data in (b"", bytes(1), bytes(1000)):
        assert list(fast(data)) == []


record = st.sampled_from(SORTS)
align = st.sampled_from([0, 2, 4, 6, 7])
damage = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6)


@given(st.lists(record, min_size=1, max_size=40), align, damage, st.floats(0, 1))
def test_damaged_and_cut_streams_are_read_as_the_plain_reader_reads_them(
    records, align, damage, cut
):
    data = bytearray(stream(records, align))
    for place, value in damage:
        data[int(place * len(data))] = value
    assert_alike(bytes(data[: int(cut * len(data)) + 1]))


@given(st.lists(st.tuples(record, st.integers(0, 7)), min_size=1, max_size=30))
def test_records_of_several_alignments_in_one_stream_are_found(records):
    assert_alike(b"".join(encode(one, align) for one, align in records))


@given(st.binary(max_size=300))
def test_noise_is_read_as_the_plain_reader_reads_it(data):
    assert_alike(data)
