"""The sample filters: which sampled operations become records (Arm ARM D17.5).

A filter that software enables without anything to select by is CONSTRAINED UNPREDICTABLE: it drops
everything or acts as if it were disabled. ``ImpDef.empty_filter_drops`` is that choice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from typing import NamedTuple


class Flag(IntFlag):
    """What an operation counts as for the type filter; bit n is controlled by PMSFCR_EL1[16+n]."""

    NONE = 0
    B = 1
    """A branch, taken or not."""
    LD = 2
    """Reads memory: a load, or an atomic that returns the old value."""
    ST = 4
    """Writes memory: a store, or any atomic."""
    FP = 8
    """Floating point, or a load or store of a scalar in a SIMD&FP register."""
    SIMD = 16
    """A vector operation, or a load or store of vectors."""


_LD = int(Flag.LD)  # a plain number: it is tested for each sample
_ALL_FLAGS = 0x1F
_ALL_TYPES = (1 << 32) - 1


def types_matching(controls: int, masks: int) -> int:
    """The flag combinations that pass, as a set of bits: bit n for the flags n.

    A control whose mask bit is 1 must equal the operation's flag. The controls that are set and
    whose mask bit is 0 are a group: an operation has at least one of their flags, unless the group
    is empty.
    """
    group = controls & ~masks
    result = 0
    for flags in range(_ALL_FLAGS + 1):
        if (not group or flags & group) and flags & masks == controls & masks:
            result |= 1 << flags
    return result


@dataclass(frozen=True)
class Filter:
    """The filters as programmed: what each tests, and which of them are enabled.

    The tests stand apart from the enables because PMU events count what meets a test whether or
    not its filter is enabled. ``types`` is a set as of :func:`types_matching`, ``sources`` a set
    of Data Source values, ``required`` and ``forbidden`` are bits of the Events packet, and
    ``min_latency`` is in cycles.
    """

    types: int = _ALL_TYPES
    required: int = 0
    forbidden: int = 0
    min_latency: int = 0
    sources: int = 0
    FT: bool = False
    FE: bool = False
    FnE: bool = False
    FL: bool = False
    FDS: bool = False
    type_selected: bool = False
    """Some type control or mask is set."""
    drops_all: bool = False
    """A constrained case in which nothing passes."""

    @property
    def active(self) -> bool:
        """Whether any operation could be dropped."""
        return self.FT or self.FE or self.FnE or self.FL or self.FDS or self.drops_all

    def keeps(self, flags: int, events: int, total: int, source: int | None) -> bool:
        """Whether an operation passes every enabled filter.

        ``total`` is the total latency in cycles, not saturated; ``source`` is its Data Source.
        """
        return not (
            self.drops_all
            or (self.FT and not self.types >> flags & 1)
            or (self.FE and self.required & ~events)
            or (self.FnE and self.forbidden & events)
            or (self.FL and total < self.min_latency)
            or (self.FDS and self.has_source(flags, source) and not self.meets_source(source))
        )

    def meets_type(self, flags: int) -> bool:
        """The type test, which nothing meets while no type is selected."""
        return self.type_selected and bool(self.types >> flags & 1)

    def meets_events(self, events: int) -> bool:
        """The event test and the inverted event test."""
        return not (self.required & ~events or self.forbidden & events)

    def has_source(self, flags: int, source: int | None) -> bool:
        """Whether the data source filter applies: loads and returning atomics that have one."""
        return source is not None and bool(flags & _LD)

    def meets_source(self, source: int | None) -> bool:
        """The data source test, by bits 5:0."""
        return source is not None and bool(self.sources >> (source & 0x3F) & 1)


class FilterRegisters(NamedTuple):
    """The registers that program the filters; each value holds implemented bits only."""

    pmsfcr: int = 0
    pmsevfr: int = 0
    pmsnevfr: int = 0
    pmslatfr: int = 0
    pmsdsfr: int = 0


@lru_cache(maxsize=64)
def programmed_filter(registers: FilterRegisters, *, eft: bool, empty_filter_drops: bool) -> Filter:
    """The filter that the registers describe.

    The same registers have the same filter: what is known of it then need not be found anew.
    ``eft`` is FEAT_SPE_EFT, with which a type filter without any control keeps everything by rule.
    """
    pmsfcr, pmsevfr, pmsnevfr, pmslatfr, pmsdsfr = registers
    controls = pmsfcr >> 16 & _ALL_FLAGS
    masks = pmsfcr >> 48 & _ALL_FLAGS
    asked = {
        "FE": bool(pmsfcr & 1),
        "FT": bool(pmsfcr & 2),
        "FL": bool(pmsfcr & 4),
        "FnE": bool(pmsfcr & 8),
    }
    contradiction = asked["FE"] and asked["FnE"] and pmsevfr & pmsnevfr
    usable = {
        "FE": bool(pmsevfr) and not contradiction,
        "FT": eft or bool(controls),
        "FL": bool(pmslatfr),
        "FnE": bool(pmsnevfr) and not contradiction,
    }
    constrained = any(asked[name] and not usable[name] for name in asked)
    return Filter(
        types=types_matching(controls, masks),
        required=pmsevfr,
        forbidden=pmsnevfr,
        min_latency=pmslatfr,
        sources=pmsdsfr,
        FDS=bool(pmsfcr & 0x10),
        type_selected=bool(controls | masks),
        drops_all=constrained and empty_filter_drops,
        **{name: asked[name] and usable[name] for name in asked},
    )


def chosen_filter(types: Collection[Flag] = (), min_latency: int = 0) -> Filter:
    """A filter for sampling from outside: any of ``types`` (all if empty), ``min_latency`` cycles.

    Raises ValueError for a negative latency.
    """
    if min_latency < 0:
        raise ValueError(f"a latency is at least 0 cycles, got {min_latency}")
    controls = 0
    for flag in types:
        controls |= flag
    return Filter(
        types=types_matching(controls, 0),
        min_latency=min_latency,
        FT=bool(controls),
        FL=bool(min_latency),
        type_selected=bool(controls),
    )
