"""The random streams: the published sequence, names, looking ahead."""

from __future__ import annotations

from spe_unicorn.arch.random_source import RandomSource, RandomStream


def test_sequence_is_splitmix64_as_published() -> None:
    stream = RandomStream(1234567)
    assert [stream.bits64() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_equal_seeds_and_names_give_equal_streams() -> None:
    first, second = (RandomSource(7).stream("RNDR") for _ in range(2))
    assert [first.byte() for _ in range(9)] == [second.byte() for _ in range(9)]


def test_a_name_or_a_seed_of_its_own_gives_a_stream_of_its_own() -> None:
    states = {
        RandomSource(seed).stream(name).state for seed in (0, 1, -1) for name in ("RNDR", "reset")
    }
    assert len(states) == 6


def test_streams_never_change_between_releases() -> None:
    assert RandomSource(0).stream("sample interval").state == 0xE71D03CD153D4BCF


def test_peeking_takes_nothing() -> None:
    stream = RandomStream(5)
    assert stream.peek_byte() == stream.peek_byte() == stream.byte()
    assert stream.peek_byte() == stream.byte()
