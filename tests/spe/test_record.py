from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.spe.packets import (
    AddressIndex,
    BadPacket,
    CounterIndex,
    DataAddress,
    InstructionAddress,
    PacketType,
    PhysicalAddress,
)
from spe_unicorn.spe.record import (
    PlacedRecord,
    Record,
    RecordLayout,
    decode_stream,
    encode,
    layout_for,
    operation_type_value,
    padded_size,
)

TOTAL, ISSUE, TRANSLATION = CounterIndex.TOTAL, CounterIndex.ISSUE, CounterIndex.TRANSLATION


def pc(va, el, ns=1, nse=0):
    return InstructionAddress.of(VA=va, EL=el, NS=ns, NSE=nse)


def only_record(data):
    (placed,) = decode_stream(data)
    assert isinstance(placed, PlacedRecord), placed
    return placed.record


# Captures of real machines: their padding and packet order are not ours, so they are read only.
CAPTURED = {
    "load at NS EL1": (
        "b0 f4d329100080ff a0 99 0b00 98 0d00 52 1600 49 00 b2 d040d8700000ff 00 9a 0100"
        "000000 71 a51fb32014000000",
        Record(
            pc=pc(0xFF80001029D3F4, 1),
            counters=((TOTAL, 13), (ISSUE, 11), (TRANSLATION, 1)),
            events=0x16,
            op_class=1,
            op_payload=0,
            va=DataAddress(0x00FF000070D840D0),
            timestamp=86447955877,
        ),
    ),
    "other operation": (
        "b0 7cf929100080ff a0 99 0200 98 0300 52 0200 48 00 000000 71 ef1fb32014000000",
        Record(
            pc=pc(0xFF80001029F97C, 1),
            counters=((TOTAL, 3), (ISSUE, 2)),
            events=0x02,
            op_class=0,
            timestamp=0x1420B31FEF,
        ),
    ),
    "branch not taken, mispredicted": (
        "b0 00e1202aeeb7ff c0 99 0200 98 0300 52 c200 4a 01 b1 04e1202aeeb7ff c0 000000000000"
        "71 3fe951b9a91c0000",
        Record(
            pc=pc(0xFFB7EE2A20E100, 2),
            target=pc(0xFFB7EE2A20E104, 2),
            counters=((TOTAL, 3), (ISSUE, 2)),
            events=0xC2,
            op_class=2,
            op_payload=1,
            timestamp=0x1CA9B951E93F,
        ),
    ),
    "load with context and source": (
        "b0 d0c2a1ed66baff c0 0000000000 65 805f0000 49 00 52 1600 99 0400 98 0c00"
        "b2 286b0903370eff 00 9a 0100 000000000000000000 43 00 0000 71 2e652f6a0a000000",
        Record(
            pc=pc(0xFFBA66EDA1C2D0, 2),
            context_el2=0x5F80,
            counters=((TOTAL, 12), (ISSUE, 4), (TRANSLATION, 1)),
            events=0x16,
            op_class=1,
            va=DataAddress(0x00FF0E3703096B28),
            data_source=0,
            timestamp=0xA6A2F652E,
        ),
    ),
    "taken branch at EL0 without timestamp": (
        "b0 e04321bffd7f00 80" + "00" * 10 + "4a 01 52 0200 99 2700 98 2800"
        "b1 084421bffd7f00 80" + "00" * 24 + "01",
        Record(
            pc=pc(0x7FFDBF2143E0, 0),
            target=pc(0x7FFDBF214408, 0),
            counters=((TOTAL, 40), (ISSUE, 39)),
            events=0x02,
            op_class=2,
            op_payload=1,
        ),
    ),
    "extended headers": (
        "22 99 ff01 22 b0 9a78563412000000 48 00 42 02 01",
        Record(
            counters=((17, 511),),
            addresses=((16, 0x123456789A),),
            events=0x02,
            events_size=1,
            op_class=0,
        ),
    ),
}

# Made with the packet order of the architecture's pseudocode: read and written.
WORKED = {
    "load atomic with everything": (
        6,
        "64 34120000 65 cdab0000 98 2a00 99 0500 9a 0300 b0 0001400000000080"
        "b2 0810400000000020 b3 0810008000000080 43 00 49 16 52 1600 71 8877665544332211 0000",
        Record(
            context_el1=0x1234,
            context_el2=0xABCD,
            counters=((TOTAL, 42), (ISSUE, 5), (TRANSLATION, 3)),
            pc=pc(0x400100, 0),
            va=DataAddress.of(TAG=0x20, VA=0x401008),
            pa=PhysicalAddress.of(NS=1, PA=0x80001008),
            data_source=0,
            op_class=1,
            op_payload=0x16,
            events=0x16,
            timestamp=0x1122334455667788,
        ),
    ),
    "BL with GCS in Realm EL1": (
        4,
        "98 0700 99 0100 b0 001000100080ffb0 b1 002000100080ffb0 b2 f80fff1f0080ffff"
        "b4 f00f00100080ffb0 4a 0c 62 16000000 01" + "00" * 14,
        Record(
            counters=((TOTAL, 7), (ISSUE, 1)),
            pc=pc(0xFF800010001000, 1, nse=1),
            target=pc(0xFF800010002000, 1, nse=1),
            va=DataAddress(0xFFFF80001FFF0FF8),
            previous_target=pc(0xFF800010000FF0, 1, nse=1),
            op_class=2,
            op_payload=0x0C,
            events=0x16,
            events_size=4,
        ),
    ),
    "minimal, misspeculated": (2, "42 00 01 00", Record(events=0, events_size=1)),
    "faulting store": (
        3,
        "98 0900 99 0200 b0 0002400000000080 49 01 42 03 01" + "00" * 4,
        Record(
            counters=((TOTAL, 9), (ISSUE, 2)),
            pc=pc(0x400200, 0),
            op_class=1,
            op_payload=1,
            events=0x03,
            events_size=1,
        ),
    ),
    "SVE gather load, partly predicated": (
        6,
        "98 1e00 99 0200 9a 0100 b0 0003400000000080 b2 10007f0000000000 49 bc 62 16000200"
        "71 e803000000000000" + "00" * 21,
        Record(
            counters=((TOTAL, 30), (ISSUE, 2), (TRANSLATION, 1)),
            pc=pc(0x400300, 0),
            va=DataAddress(0x7F0010),
            op_class=1,
            op_payload=0xBC,
            events=0x20016,
            events_size=4,
            timestamp=1000,
        ),
    ),
    "CSEL with a false condition": (
        0,
        "64 07000000 98 0100 99 0000 b0 0004400000000080 48 01 42 42 01",
        Record(
            context_el1=7,
            counters=((TOTAL, 1), (ISSUE, 0)),
            pc=pc(0x400400, 0),
            op_class=0,
            op_payload=1,
            events=0x42,
            events_size=1,
        ),
    ),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_record_is_read(name: str) -> None:
    text, record = CAPTURED[name]
    assert only_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize("name", WORKED)
def test_worked_example_is_read(name: str) -> None:
    _, text, record = WORKED[name]
    assert only_record(bytes.fromhex(text)) == record


@pytest.mark.parametrize("name", WORKED)
def test_worked_example_is_written(name: str) -> None:
    align, text, record = WORKED[name]
    assert encode(record, align).hex(" ") == bytes.fromhex(text).hex(" ")


def test_captured_stream_is_read_without_knowing_alignment() -> None:
    data = b"".join(bytes.fromhex(text) for text, _ in CAPTURED.values())
    records = [placed.record for placed in decode_stream(data)]
    assert records == [record for _, record in CAPTURED.values()]


words = {size: st.integers(0, (1 << 8 * size) - 1) for size in (1, 2, 4, 8)}


def indexed(indexes, values):
    return st.dictionaries(indexes, values).map(lambda items: tuple(sorted(items.items())))


def register(kind):
    return st.none() | words[8].map(kind)


@st.composite
def records(draw):
    events_size = draw(st.sampled_from([1, 2, 4, 8]))
    data_source_size = draw(st.sampled_from([1, 2]))
    data_source = draw(st.none() | words[data_source_size])
    op_class = draw(st.none() | st.integers(0, 2))
    return Record(
        events=draw(words[events_size]),
        events_size=events_size,
        op_class=op_class,
        op_payload=0 if op_class is None else draw(words[1]),
        pc=draw(register(InstructionAddress)),
        target=draw(register(InstructionAddress)),
        va=draw(register(DataAddress)),
        pa=draw(register(PhysicalAddress)),
        previous_target=draw(register(InstructionAddress)),
        addresses=draw(indexed(st.integers(5, 31), words[8])),
        context_el1=draw(st.none() | words[4]),
        context_el2=draw(st.none() | words[4]),
        counters=draw(indexed(st.integers(0, 31), words[2])),
        data_source=data_source,
        data_source_size=1 if data_source is None else data_source_size,
        timestamp=draw(st.none() | words[8]),
    )


@given(records(), st.integers(0, 11))
def test_reading_undoes_writing(record, align):
    data = encode(record, align)
    assert len(data) % (1 << align) == 0
    assert only_record(data) == record


@given(st.lists(records(), max_size=4), st.integers(0, 11))
def test_stream_is_read_without_knowing_alignment(expected, align):
    data = b"".join(encode(record, align) for record in expected)
    assert [placed.record for placed in decode_stream(data)] == expected


@given(st.binary(max_size=300))
def test_any_bytes_are_read_to_their_end(data):
    end = 0
    for found in decode_stream(data):
        start = found.start if isinstance(found, PlacedRecord) else found.offset
        assert end <= start < len(data)
        end = found.end if isinstance(found, PlacedRecord) else start + 1


def test_offsets_are_places_in_the_stream() -> None:
    record = Record(events=2, op_class=0)
    data = bytes(8) + encode(record, 4) + encode(record, 4)
    first, second = decode_stream(data, 8)
    assert (first.start, first.end, second.start, second.end) == (8, 14, 24, 30)
    assert [offset for offset, _ in second.packets] == [24, 26, 29]


def numbered(number, align=6):
    """A record whose payloads look like terminators."""
    return encode(
        Record(
            counters=((TOTAL, 1), (ISSUE, 1)),
            pc=pc(0x40000100 + number, 1),
            op_class=0,
            events=2,
            timestamp=1,
        ),
        align,
    )


def test_bad_packet_is_reported_and_the_next_record_is_read() -> None:
    stream = bytearray(b"".join(numbered(n) for n in range(4)))
    stream[64 + 6] = 0xFF  # was the header of the PC
    found = list(decode_stream(stream))
    assert found[1] == BadPacket(64 + 6, b"\xff", "unknown packet header ff")
    assert [f.start for f in found if isinstance(f, PlacedRecord)] == [0, 128, 192]


def test_bad_first_packet_does_not_make_records_of_its_rest() -> None:
    stream = bytearray(b"".join(numbered(n) for n in range(3)))
    stream[0] = 0x4F  # one byte of payload, so that reading goes on at the counter's second byte
    found = list(decode_stream(stream))
    assert [type(f) for f in found] == [BadPacket, PlacedRecord, PlacedRecord]
    assert [f.start for f in found[1:]] == [64, 128]


@pytest.mark.parametrize(
    ("size", "offset", "reason"),
    [
        (16, 15, "the data ends inside the packet"),
        (19, 17, "the data ends inside the packet"),
        (20, 0, "the data ends inside the record"),
    ],
)
def test_stream_cut_short_is_reported(size: int, offset: int, reason: str) -> None:
    data = numbered(0)[:size]
    assert list(decode_stream(data)) == [BadPacket(offset, data[offset:], reason)]


def test_two_packets_of_a_kind_are_bad() -> None:
    (bad,) = decode_stream(bytes.fromhex("98 0100 98 0200 42 00 01"))
    assert bad == BadPacket(
        3, bytes.fromhex("98 0200"), "a second COUNTER packet in the record at 0x0"
    )


def test_record_without_events_is_bad() -> None:
    bad, good = decode_stream(bytes.fromhex("98 0100 01 42 00 01"))
    assert bad == BadPacket(3, b"\x01", "the record at 0x0 ends without an EVENTS packet")
    assert good.record == Record(events=0, events_size=1)


def test_padding_alone_holds_no_record() -> None:
    assert list(decode_stream(bytes(128))) == []


def test_layout_fills_the_places_in_order() -> None:
    layout = layout_for(
        contexts=(0,), counters=(0, 1), addresses=(0,), events=1, timestamp=False, align=0
    )
    values = (7, 1, 0, 0x8000000000400400, operation_type_value(0, 1), 0x42)
    assert layout.pack(*values) == bytes.fromhex(WORKED["CSEL with a false condition"][1])
    assert (layout.end, layout.size) == (25, 25)


def test_layout_knows_its_padded_size() -> None:
    layout = layout_for(counters=(0, 1, 2), addresses=(0, 2, 3), timestamp=True, align=6)
    assert (layout.end, layout.size) == (50, 64)
    assert padded_size(65, 6) == 128


def test_budget_of_the_largest_load() -> None:
    options = {
        "contexts": (0, 1),
        "counters": (0, 1, 2),
        "addresses": (0, 2, 3),
        "data_source": 1,
    }
    assert layout_for(**options, events=2, timestamp=True).end == 62
    assert layout_for(**options, events=4, timestamp=True).end == 64


def test_value_that_does_not_fit_is_refused_by_name() -> None:
    layout = layout_for(counters=(0, 1))
    with pytest.raises(ValueError, match="COUNTER packet 1 takes 2 bytes, got 0x10000"):
        layout.pack(1, 0x10000, operation_type_value(0, 0), 2)
    with pytest.raises(ValueError, match="the record takes 4 values, got 1"):
        layout.pack(1)


def test_packet_cannot_be_laid_out_twice() -> None:
    with pytest.raises(ValueError, match="one COUNTER packet with index 0"):
        RecordLayout([(PacketType.COUNTER, 0, 2), (PacketType.COUNTER, 0, 2)], 0)


def test_address_with_a_field_is_refused_among_the_others() -> None:
    with pytest.raises(ValueError, match="address 2 belongs into the field va"):
        encode(Record(events=0, addresses=((AddressIndex.DATA_VA, 1),)), 0)


def test_missing_counter_is_none() -> None:
    record = Record(events=0, counters=((TOTAL, 9),))
    assert record.counter(TOTAL) == 9
    assert record.counter(ISSUE) is None
    assert record.cycles == {"total": 9}


def test_counters_have_the_names_of_json_and_tables() -> None:
    """Index 17 is IMPLEMENTATION DEFINED and has no name."""
    record = Record(events=0, counters=((TOTAL, 30), (ISSUE, 2), (TRANSLATION, 1), (4, 3), (17, 9)))
    named = {"total": 30, "issue": 2, "translation": 1, "alternate_issue": 3, "17": 9}
    assert record.cycles == named
