"""Records of real cores, decoded and encoded again byte for byte.

The first two are those of ``src/quipper/arm_spe_decoder_test.cc`` in google/perf_data_converter
(BSD 3-Clause). The third is of an Ampere Altra (Neoverse N1), from issue 123 of
AmpereComputing/ampere-lts-kernel, whose dump begins after the PC: that and the padding behind it
are those of the record after it there. The fourth is in ``tests/unit/test_spe_decoder.py`` of Arm's
spe-parser (Apache-2.0), which has its packets without what is between them, and the timestamp of
the record before it; the timestamp here is that one.
"""

from __future__ import annotations

import pytest

from spe_unicorn.cores.profile import load_core
from spe_unicorn.spe.packets import (
    AddressIndex,
    CounterIndex,
    DataAddress,
    InstructionAddress,
    OperationClass,
    Packet,
    PacketType,
    PhysicalAddress,
    read_packet,
)
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream, encode, layout_for

LOAD = bytes.fromhex(
    "b0d0c2a1ed66baffc0 0000000000 65805f0000 4900 521600 990400 980c00 b2286b0903370eff00 9a0100"
    "000000000000000000 4300 0000 712e652f6a0a000000"
)
NOT_TAKEN = bytes.fromhex(
    "b0e0b0efed66baffc0 0000000000 650e000000 4a01 524200 991000 981100 b1e4b0efed66baffc0"
    "00000000000000000000000000000000 718d652f6a0a000000"
)
ALTRA = bytes.fromhex(
    "b088b6cb8f22d4ffc0 00000000000000000000 4900 521e03 995101 98f501 b2509ed7f13e40ff00 9a0100"
    "b3509ed7713f400080 430c 0000 71b39ae9bd3e070000"
)
WITHOUT_PADDING = bytes.fromhex(
    "b000b6a9e4aaaa0080 4900 521600 990400 980800 b243da5de6aaaa0000 9a0100 b3435a952c03080080 4300"
    "71aff90481000c0000"
)
PERF_SAYS = (
    ("99 07 00", PacketType.COUNTER, CounterIndex.ISSUE, 7),
    ("98 0b 00", PacketType.COUNTER, CounterIndex.TOTAL, 11),
    ("b0 5c 8b 8c 86 c2 c0 ff c0", PacketType.ADDRESS, AddressIndex.PC, 0xC0FF_C0C2_868C_8B5C),
    (
        "b1 e0 89 8c 86 c2 c0 ff c0",
        PacketType.ADDRESS,
        AddressIndex.BRANCH_TARGET,
        0xC0FF_C0C2_868C_89E0,
    ),
    ("71 6c f8 a5 83 00 0c 00 00", PacketType.TIMESTAMP, 0, 13196348225644),
    ("49 16", PacketType.OPERATION_TYPE, OperationClass.LOAD_STORE, 0x16),
    ("4a 02", PacketType.OPERATION_TYPE, OperationClass.BRANCH, 2),
    ("52 1e 03", PacketType.EVENTS, 0, 0x31E),
)
"""Single packets of the same captures, which that file has with what perf says of them."""
TOTAL, ISSUE, TRANSLATION = CounterIndex.TOTAL, CounterIndex.ISSUE, CounterIndex.TRANSLATION


def decoded(data: bytes) -> Record:
    (found,) = decode_stream(data)
    assert isinstance(found, PlacedRecord)
    return found.record


@pytest.mark.parametrize("data", [LOAD, NOT_TAKEN, ALTRA])
def test_a_captured_record_is_encoded_again_byte_for_byte(data: bytes) -> None:
    core = load_core("neoverse-n1")
    assert len(data) == 1 << core.impdef.align
    assert encode(decoded(data), core.impdef.align, slots=core.impdef.record_slots) == data


def test_what_the_captured_records_say() -> None:
    """As the test from which they are says it, and as perf prints the third."""
    load, branch, altra = map(decoded, (LOAD, NOT_TAKEN, ALTRA))
    assert load.counters == ((TOTAL, 12), (ISSUE, 4), (TRANSLATION, 1))
    assert load.va is not None
    assert load.pc is not None
    assert load.pc.value & (1 << 56) - 1 == 0xFF_BA66_EDA1_C2D0
    assert load.pc.value >> 61 & 3 == 2
    assert load.va.value == 0xFF_0E37_0309_6B28
    assert (load.context_el2, load.events, load.data_source) == (0x5F80, 0x16, 0)
    assert load.timestamp == 44731163950
    assert branch.op_class == OperationClass.BRANCH
    assert (branch.events, branch.counters) == (0x42, ((TOTAL, 17), (ISSUE, 16)))
    assert (altra.counter(TOTAL), altra.counter(ISSUE), altra.data_source) == (501, 337, 12)
    assert altra.timestamp == 7966055570099


def test_a_captured_record_without_its_padding_has_the_packets_in_our_order() -> None:
    core = load_core("neoverse-n1")
    record = decoded(WITHOUT_PADDING)
    assert (record.pc, record.va, record.pa) == (
        InstructionAddress(0x8000_AAAA_E4A9_B600),  # EL0, Non-secure
        DataAddress(0xAAAA_E65D_DA43),
        PhysicalAddress(0x8000_0803_2C95_5A43),  # Non-secure
    )
    assert record.counters == ((TOTAL, 8), (ISSUE, 4), (TRANSLATION, 1))
    assert (record.op_payload, record.events, record.data_source) == (0, 0x16, 0)
    encoded = encode(record, core.impdef.align, slots=core.impdef.record_slots)
    assert len(encoded) == 64
    (placed,) = decode_stream(encoded)
    assert isinstance(placed, PlacedRecord)
    assert b"".join(packet.encode() for _, packet in placed.packets) == WITHOUT_PADDING


@pytest.mark.parametrize(("text", "kind", "index", "value"), PERF_SAYS)
def test_a_captured_packet_says_what_perf_says_of_it(
    text: str, kind: PacketType, index: int, value: int
) -> None:
    data = bytes.fromhex(text)
    packet = Packet(kind, index, value, len(data) - 1)
    assert read_packet(data, 0) == (packet, len(data))
    assert packet.encode() == data


def test_a_branch_that_is_not_taken_has_the_next_operation_as_its_target() -> None:
    branch = decoded(NOT_TAKEN)
    assert branch.pc is not None
    assert branch.target is not None
    assert branch.target.value == branch.pc.value + 4


def test_events_of_four_bytes_move_what_follows_and_not_the_timestamp() -> None:
    """Then the data source ends where the timestamp begins: 53 + 2 = 55."""
    layout = layout_for(
        contexts=(0, 1),
        counters=(0, 1, 2),
        addresses=(0, 2, 3),
        data_source=1,
        events=4,
        timestamp=True,
        slots=True,
    )
    offsets = {(kind.name, index): offset for kind, index, offset, _ in layout.places}
    assert offsets["DATA_SOURCE", 0] == 54
    assert offsets["TIMESTAMP", 0] == 56
    assert offsets["ADDRESS", 2] == 33
    assert layout.size == 64


def test_a_packet_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="ADDRESS packet 4 has no place"):
        layout_for(addresses=(0, 4), slots=True)
    with pytest.raises(ValueError, match="its place taken by another"):
        layout_for(addresses=(0, 1, 2), slots=True)
