from __future__ import annotations

from spe_unicorn.spe.tally import Tally


def test_the_first_thousand_samples_are_counted_then_64_of_512() -> None:
    tally = Tally()
    for n in range(1024 + 10 * 512):
        tally.one(n, 7)
    assert all(key in tally.counts for key in [(n, 7) for n in range(1024)])
    later = {pc for pc, _ in tally.counts if pc >= 1024}
    assert later == {n for n in range(1024, 1024 + 10 * 512) if n // 64 % 8 == 0}


def test_several_samples_at_once_are_counted_as_one_by_one() -> None:
    one, batches = Tally(), Tally()
    places = [(n % 37, n % 5) for n in range(5000)]
    for place in places:
        one.one(*place)
    at = 0
    while at < len(places):
        size = (at * 7) % 1500 + 1
        batch = places[at : at + size]
        counted = [(*place, 1) for part in batches.counted(len(batch)) for place in batch[part]]
        batches.several(len(batch), counted)
        at += size
    assert batches.counts == one.counts
    assert batches.samples == one.samples


def test_places_are_bounded() -> None:
    tally = Tally()
    for n in range(1 << 20):
        tally.one(n, 0)
    assert len(tally.counts) == 1 << 16
