from __future__ import annotations

from spe_unicorn.pmu.junction import EventJunction


def test_events_are_counted_one_by_one_and_together() -> None:
    junction = EventJunction()
    junction.event(0x4001)
    junction.event(0x4000, 257)
    junction.events((0x4001, 0x812B))
    junction.events((0x4001, 0x812B))
    junction.events((0x812B,))
    assert junction.counts == {0x4000: 257, 0x4001: 3, 0x812B: 3}


def test_counts_are_in_the_order_of_their_numbers() -> None:
    junction = EventJunction()
    junction.events((0x8123, 0x4002))
    junction.event(0x4000)
    assert list(junction.counts) == [0x4000, 0x4002, 0x8123]


def test_nothing_is_counted_before_it_happens() -> None:
    assert EventJunction().counts == {}
