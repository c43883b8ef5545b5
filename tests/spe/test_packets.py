from __future__ import annotations

import pytest

from spe_unicorn.spe.packets import (
    BadPacket,
    DataAddress,
    Event,
    InstructionAddress,
    Packet,
    PacketType,
    PhysicalAddress,
    canonical_address,
    header,
    payload_size,
    read_packet,
    saturated,
    skip_packet,
)

EVERY_PACKET = {
    "00": (PacketType.PADDING, 0, 0, 0),
    "01": (PacketType.END, 0, 0, 0),
    "42 7f": (PacketType.EVENTS, 0, 0x7F, 1),
    "52 c2 01": (PacketType.EVENTS, 0, 0x1C2, 2),
    "62 16 00 02 80": (PacketType.EVENTS, 0, 0x80020016, 4),
    "72 01 02 03 04 05 06 07 08": (PacketType.EVENTS, 0, 0x0807060504030201, 8),
    "43 0e": (PacketType.DATA_SOURCE, 0, 0x0E, 1),
    "53 34 12": (PacketType.DATA_SOURCE, 0, 0x1234, 2),
    "48 01": (PacketType.OPERATION_TYPE, 0, 1, 1),
    "49 bc": (PacketType.OPERATION_TYPE, 1, 0xBC, 1),
    "4a 1a": (PacketType.OPERATION_TYPE, 2, 0x1A, 1),
    "64 34 12 00 00": (PacketType.CONTEXT, 0, 0x1234, 4),
    "65 80 5f 00 00": (PacketType.CONTEXT, 1, 0x5F80, 4),
    "71 a5 1f b3 20 14 00 00 00": (PacketType.TIMESTAMP, 0, 86447955877, 8),
    "98 ff 0f": (PacketType.COUNTER, 0, 0xFFF, 2),
    "9c 02 00": (PacketType.COUNTER, 4, 2, 2),
    "9f ff ff": (PacketType.COUNTER, 7, 0xFFFF, 2),
    "21 98 05 00": (PacketType.COUNTER, 8, 5, 2),
    "23 9f 05 00": (PacketType.COUNTER, 31, 5, 2),
    "b4 f0 0f 00 10 00 80 ff b0": (PacketType.ADDRESS, 4, 0xB0FF800010000FF0, 8),
    "b7 01 00 00 00 00 00 00 00": (PacketType.ADDRESS, 7, 1, 8),
    "22 b0 9a 78 56 34 12 00 00 00": (PacketType.ADDRESS, 16, 0x123456789A, 8),
    "23 b7 00 00 00 00 00 00 00 80": (PacketType.ADDRESS, 31, 1 << 63, 8),
}


@pytest.mark.parametrize("text", EVERY_PACKET)
def test_packet_is_read(text: str) -> None:
    data = bytes.fromhex(text)
    assert read_packet(data, 0) == (Packet(*EVERY_PACKET[text]), len(data))


@pytest.mark.parametrize("text", EVERY_PACKET)
def test_packet_is_written(text: str) -> None:
    assert Packet(*EVERY_PACKET[text]).encode() == bytes.fromhex(text)


def test_long_header_of_a_small_index_is_read() -> None:
    assert read_packet(bytes.fromhex("20 99 ff 01"), 0) == (
        Packet(PacketType.COUNTER, 1, 511, 2),
        4,
    )


@pytest.mark.parametrize(
    "text",
    ["02", "1f", "24 b0", "3f 98", "40", "4b 00", "63", "66", "67", "70", "80", "97", "a0", "af",
     "b8", "ff", "20 00", "20 52", "22 42", "23 a0"],
)  # fmt: skip
def test_reserved_header_is_a_bad_packet(text: str) -> None:
    data = bytes.fromhex(text) + bytes(8)
    assert isinstance(read_packet(data, 0), BadPacket)


@pytest.mark.parametrize("text", ["98", "98 01", "b0 01 02 03 04 05 06 07", "20", "21 98 05"])
def test_packet_cut_short_is_bad(text: str) -> None:
    data = bytes.fromhex(text)
    assert read_packet(data, 0) == BadPacket(0, data, "the data ends inside the packet")


def test_known_headers_are_those_of_the_architecture() -> None:
    firsts = [byte for byte in range(256) if not 0x20 <= byte < 0x24]
    read = {byte: read_packet(bytes([byte, *bytes(8)]), 0) for byte in firsts}
    known = {byte for byte in firsts if not isinstance(read[byte], BadPacket)}
    assert known == {
        *(0x00, 0x01),
        *(0x42, 0x52, 0x62, 0x72),
        *(0x43, 0x53),
        *(0x48, 0x49, 0x4A),
        *(0x64, 0x65, 0x71),
        *range(0x98, 0xA0),
        *range(0xB0, 0xB8),
    }


@pytest.mark.parametrize(
    ("byte", "size"),
    [(0x00, 0), (0x02, 0), (0x1F, 0), (0x40, 1), (0x4B, 1), (0x50, 2), (0x6F, 4), (0x70, 8),
     (0x80, 1), (0x98, 2), (0xA5, 4), (0xB0, 8), (0xC0, 1), (0xFF, 8)],
)  # fmt: skip
def test_every_header_has_a_size(byte: int, size: int) -> None:
    assert payload_size(byte) == size


def test_unknown_packets_are_skipped_by_their_size() -> None:
    assert skip_packet(bytes([0x6F]) + bytes(8), 0) == 5
    assert skip_packet(bytes([0x30, 0xB1]) + bytes(8), 0) == 10
    assert skip_packet(bytes([0x30, 0x00]) + bytes(8), 0) == 2


@pytest.mark.parametrize(
    ("kind", "index", "size", "message"),
    [
        (PacketType.COUNTER, 32, 2, "COUNTER packet has indexes 0 to 31, got 32"),
        (PacketType.CONTEXT, 2, 4, "CONTEXT packet has indexes 0 to 1, got 2"),
        (PacketType.EVENTS, 0, 3, "EVENTS packet has a payload of 1, 2, 4, 8 bytes, got 3"),
        (PacketType.TIMESTAMP, 0, 4, "TIMESTAMP packet has a payload of 8 bytes, got 4"),
    ],
)
def test_packet_that_does_not_exist_is_refused(
    kind: PacketType, index: int, size: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        header(kind, index, size)


@pytest.mark.parametrize("value", [0x10000, -1])
def test_value_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="COUNTER packet takes 2 bytes"):
        Packet(PacketType.COUNTER, 0, value, 2).encode()


def test_instruction_address_carries_state_and_56_bits() -> None:
    address = InstructionAddress(0xA0FF_8000_1029_D3F4)
    assert (address.VA, address.EL, address.NS, address.NSE) == (0xFF_8000_1029_D3F4, 1, 1, 0)


@pytest.mark.parametrize(
    ("el", "ns", "nse", "top"),
    [(0, 1, 0, 0x80), (2, 1, 0, 0xC0), (1, 1, 1, 0xB0), (1, 0, 0, 0x20), (3, 0, 0, 0x60)],
)
def test_instruction_address_top_byte(el: int, ns: int, nse: int, top: int) -> None:
    address = InstructionAddress.of(VA=0x1000, EL=el, NS=ns, NSE=nse)
    assert address.value == top << 56 | 0x1000


def test_data_address_has_its_tag_in_the_top_byte() -> None:
    address = DataAddress(0x2000_0000_0040_1008)
    assert (address.TAG, address.VA) == (0x20, 0x40_1008)


def test_physical_address_fields() -> None:
    address = PhysicalAddress(0xD500_0000_8000_1008)
    assert (address.NS, address.NSE, address.CH, address.PAT) == (1, 1, 1, 5)
    assert address.PA == 0x8000_1008


def test_canonical_address_follows_bit_55() -> None:
    assert canonical_address(0xA0FF_8000_1029_D3F4) == 0xFFFF_8000_1029_D3F4
    assert canonical_address(0x2000_0000_0040_1008) == 0x40_1008


@pytest.mark.parametrize(
    ("cycles", "size", "held"),
    [(0xFFF, 2, 0xFFF), (0x1000, 2, 0xFFF), (0x1000, 3, 0x1000), (0x12345, 3, 0xFFFF), (0, 2, 0)],
)
def test_counter_saturates(cycles: int, size: int, held: int) -> None:
    assert saturated(cycles, size) == held


def test_events_have_the_architecture_s_bits() -> None:
    retired_l1d_tlb = Event.RETIRED | Event.L1D_ACCESS | Event.TLB_ACCESS
    assert retired_l1d_tlb == 0x16
    assert Event.RETIRED | Event.NOT_TAKEN | Event.MISPREDICTED == 0xC2
    assert Event.SVE_PARTIAL == 0x20000
    assert Event.SMCU == 1 << 25


def test_each_event_has_the_bit_that_the_architecture_gives_it() -> None:
    """Arm ARM D18.2.8, the Events packet."""
    bits = {
        "EXCEPTION": 0,
        "RETIRED": 1,
        "L1D_ACCESS": 2,
        "L1D_MISS": 3,
        "TLB_ACCESS": 4,
        "TLB_WALK": 5,
        "NOT_TAKEN": 6,
        "MISPREDICTED": 7,
        "LLC_ACCESS": 8,
        "LLC_MISS": 9,
        "REMOTE_ACCESS": 10,
        "MISALIGNED": 11,
        "SVE_PARTIAL": 17,
        "SVE_EMPTY": 18,
        "L2D_ACCESS": 19,
        "L2D_MISS": 20,
        "MODIFIED_HIT": 21,
        "RECENTLY_FETCHED": 22,
        "SNOOPED": 23,
        "STREAMING": 24,
        "SMCU": 25,
    }
    assert {event.name: event.value for event in Event} == {n: 1 << b for n, b in bits.items()}
