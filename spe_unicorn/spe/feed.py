"""The PMU events of sampling (Arm ARM D14.3): their numbers, and which ones a sample generates."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.spe.filter import Filter, Flag


class SampleEvent(IntEnum):
    """Numbers of the PMU events of sampling, whose full names begin with ``SAMPLE_``."""

    POP = 0x4000
    """A member of the population went by."""
    FEED = 0x4001
    """A sample was taken."""
    FILTRATE = 0x4002
    """A sample passed the filters."""
    COLLISION = 0x4003
    """A selection found the unit busy."""
    FEED_DS = 0x8122
    """A load came from a data source that PMSDSFR_EL1 chooses."""
    BUFFER_FULL = 0x8123
    """A buffer full management event."""
    FEED_BR = 0x812A
    FEED_LD = 0x812B
    FEED_ST = 0x812C
    FEED_OP = 0x812D
    """A sample meets the test of the type filter."""
    FEED_EVENT = 0x812E
    """A sample meets the tests of the event filter and the inverted event filter."""
    FEED_LAT = 0x812F
    """A sample meets the test of the latency filter."""
    FEED_FP = 0x8348
    FEED_SIMD = 0x8349


_BY_FLAG = {
    Feature.FEAT_SPEv1p2: (
        (Flag.B, SampleEvent.FEED_BR),
        (Flag.LD, SampleEvent.FEED_LD),
        (Flag.ST, SampleEvent.FEED_ST),
    ),
    Feature.FEAT_SPE_EFT: (
        (Flag.FP, SampleEvent.FEED_FP),
        (Flag.SIMD, SampleEvent.FEED_SIMD),
    ),
}
"""The events of what an operation is, by the feature that brings them."""


_TYPE, _EVENTS, _LATENCY, _SOURCE, _KEPT = (1 << len(Flag) + n for n in range(5))
"""Bits of a key, above the flags: which tests a sample meets, and that it passed the filters."""
_BY_TEST = (
    (_TYPE, SampleEvent.FEED_OP),
    (_EVENTS, SampleEvent.FEED_EVENT),
    (_LATENCY, SampleEvent.FEED_LAT),
    (_SOURCE, SampleEvent.FEED_DS),
    (_KEPT, SampleEvent.FILTRATE),
)


class Feed:
    """Tells which events a taken sample generates on a core with certain features.

    The tests of the filters count whether or not the filters are enabled, and whatever becomes of
    the sample.
    """

    DERIVED = ("_sets", "_filter", "_keys")

    def __init__(self, features: Features) -> None:
        self._pairs = [p for f, group in _BY_FLAG.items() if f in features for p in group]
        self._tests = Feature.FEAT_SPEv1p2 in features
        self._sources = Feature.FEAT_SPE_FDS in features
        self._sets: dict[int, tuple[int, ...]] = {}
        """The events of a sample by its key. Few different keys occur."""
        self._filter: Filter | None = None
        self._keys: list[int] = []
        """The part of a key that the flags decide with this filter, by the flags."""

    def events(
        self, filter_: Filter, flags: int, events: int, total: int, source: int | None, kept: bool
    ) -> tuple[int, ...]:
        """The numbers of the events; arguments of :meth:`Filter.keeps`, and its result ``kept``."""
        if filter_ is not self._filter:
            self._use(filter_)
        key = self._keys[flags]
        if kept:
            key |= _KEPT
        if self._tests:
            if filter_.meets_events(events):
                key |= _EVENTS
            if total >= filter_.min_latency:
                key |= _LATENCY
        if self._sources and filter_.has_source(flags, source) and filter_.meets_source(source):
            key |= _SOURCE
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = tuple(self._named(key))
        return found

    def _use(self, filter_: Filter) -> None:
        self._filter = filter_
        self._keys = [
            flags | (_TYPE if self._tests and filter_.meets_type(flags) else 0)
            for flags in range(1 << len(Flag))
        ]

    def _named(self, key: int) -> Iterator[int]:
        yield int(SampleEvent.FEED)
        for flag, event in self._pairs:
            if key & flag:
                yield int(event)
        for bit, event in _BY_TEST:
            if key & bit:
                yield int(event)
