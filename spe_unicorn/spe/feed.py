"""The PMU events of sampling (Arm ARM D14.3): their numbers, and which ones a sample generates."""

from __future__ import annotations

from enum import IntEnum

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.spe.filter import Filter, Flag


class SampleEvent(IntEnum):
    """Numbers of the PMU events of sampling."""

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


class Feed:
    """Tells which events a taken sample generates on a core with certain features.

    The tests of the filters count whether or not the filters are enabled, and whatever becomes of
    the sample.
    """

    def __init__(self, features: Features) -> None:
        pairs = [p for feature, group in _BY_FLAG.items() if feature in features for p in group]
        # Plain numbers: this is looked up for each sample.
        self._by_flags = [
            [int(SampleEvent.FEED), *(int(event) for flag, event in pairs if flags & flag)]
            for flags in range(1 << len(Flag))
        ]
        self._tests = Feature.FEAT_SPEv1p2 in features
        self._sources = Feature.FEAT_SPE_FDS in features

    def events(
        self, filter_: Filter, flags: int, events: int, total: int, source: int | None
    ) -> list[int]:
        """The numbers of the events; arguments as of :meth:`Filter.keeps`."""
        result = self._by_flags[flags].copy()
        if self._tests:
            if filter_.meets_type(flags):
                result.append(_FEED_OP)
            if filter_.meets_events(events):
                result.append(_FEED_EVENT)
            if total >= filter_.min_latency:
                result.append(_FEED_LAT)
        if self._sources and filter_.has_source(flags, source) and filter_.meets_source(source):
            result.append(_FEED_DS)
        return result


_FEED_OP = int(SampleEvent.FEED_OP)
_FEED_EVENT = int(SampleEvent.FEED_EVENT)
_FEED_LAT = int(SampleEvent.FEED_LAT)
_FEED_DS = int(SampleEvent.FEED_DS)
