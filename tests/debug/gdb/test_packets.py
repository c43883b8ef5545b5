"""Frames of GDB's remote protocol; expectations are worked out from GDB's manual."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.debug.gdb.packets import Event, ProtocolError, Reader, frame, unescape


def test_a_packet_ends_with_the_sum_of_its_data() -> None:
    assert frame(b"OK") == b"$OK#9a"
    assert frame(b"") == b"$#00"


def test_bytes_that_mean_something_are_escaped() -> None:
    # 0x23 0x24 0x7d 0x2a exclusive-or 0x20: 0x03 0x04 0x5d 0x0a, each after 0x7d
    assert frame(b"#$}*") == b"$}\x03}\x04}]}\n#" + b"%02x" % (4 * 0x7D + 3 + 4 + 0x5D + 10 & 255)


@given(st.binary(max_size=300), st.integers(1, 7))
def test_what_is_framed_arrives_in_whatever_pieces(data: bytes, size: int) -> None:
    wire = frame(data)
    reader = Reader()
    arrived = [p for k in range(0, len(wire), size) for p in reader.feed(wire[k : k + size])]
    assert arrived == [data]


def test_acknowledgements_between_packets_mean_nothing() -> None:
    assert Reader().feed(b"++$g#67+") == [b"g"]


@pytest.mark.parametrize("noise", [b" ", b"\r\n", b"k", b"\0"])
def test_noise_between_packets_is_an_error_and_no_packet_beside_it_is_given(noise: bytes) -> None:
    with pytest.raises(ProtocolError, match="outside a packet"):
        Reader().feed(b"$g#67" + noise + b"$g#67")


def test_control_c_is_an_event_of_its_own_in_its_place() -> None:
    assert Reader().feed(b"$c#63\x03$g#67") == [b"c", Event.INTERRUPT, b"g"]


def test_a_wrong_sum_is_refused_and_the_next_packet_is_read() -> None:
    assert Reader().feed(b"$g#68$g#66$g#67") == [Event.REFUSED, Event.REFUSED, b"g"]
    assert Reader().feed(b"$g#zz") == [Event.REFUSED]


def test_a_request_to_repeat_is_told() -> None:
    assert Reader().feed(b"-") == [Event.REPEAT]


def test_a_packet_without_end_is_not_kept_for_ever() -> None:
    reader = Reader()
    for _ in range(32):
        assert reader.feed(b"$" + b"x" * 1023) == []
    with pytest.raises(ProtocolError, match="more than 32784 bytes"):
        reader.feed(b"x" * 17)


@given(st.binary(max_size=2000))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with suppress(ProtocolError):
        for packet in Reader().feed(data):
            assert isinstance(packet, bytes | Event)


def test_an_escape_at_the_end_stands_for_nothing() -> None:
    assert unescape(b"a}") == b"a"
