"""Accesses that take long although they hit: unaligned ones, and loads of what was just stored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spe_unicorn.output.arrays import Has, canonical
from spe_unicorn.report.findings.evidence import (
    EVIDENCE,
    OFTEN,
    Finding,
    all_cycles,
    cycles,
    kind,
    places,
    where,
)
from spe_unicorn.report.samples import Samples
from spe_unicorn.spe.packets import Event

_MUCH = 1.5
"""How many times as long as usual an access takes before that is told."""
_GRANULE = 16
"""Bytes of memory that a store and a load are compared by: the widest register."""
_MOST_OF = 0.5
"""The share of a place's loads whose bytes are stored to from which on the stores are the cause."""


def unaligned(samples: Samples) -> Iterator[Finding]:
    """Accesses with extra latency by their alignment: what is saved is what they take longer.

    They are compared with the aligned ones of the place or, where it has too few, of all places.
    """
    arrays = samples.arrays
    whole = all_cycles(samples)
    bad = samples.with_event(Event.MISALIGNED)
    accesses = arrays.where(Has.VA)
    aligned = np.flatnonzero(accesses & ~bad)
    for group in places(samples, accesses):
        rows = group.rows[bad[group.rows]]
        share = len(rows) / len(group.rows)
        if share < OFTEN or len(rows) < EVIDENCE // 2:
            continue
        beside = group.rows[~bad[group.rows]]
        compared = beside if len(beside) >= EVIDENCE // 2 else aligned
        if len(compared) < EVIDENCE // 2:
            continue
        usual = float(np.median(arrays.total[compared]))
        took = float(np.median(arrays.total[rows]))
        if took <= usual:
            continue
        yield Finding(
            max(0.0, cycles(samples, rows) - usual * len(rows)) / whole,
            f"{cycles(samples, group.rows) / whole:.0%} of all latency: accesses in {where(group)},"
            f" {share:.0%} not aligned; these take {took:.0f} cycles, aligned ones {usual:.0f}",
        )


def waits_for_stores(samples: Samples) -> Iterator[Finding]:
    """Loads that hit L1D and yet take long, of bytes that are stored to: they wait for the store.

    What is saved is what they take longer than loads that hit elsewhere.
    """
    arrays = samples.arrays
    whole = all_cycles(samples)
    addressed = arrays.where(Has.VA)
    loads = (
        kind(samples, store=False)
        & addressed
        & samples.with_event(Event.L1D_ACCESS)
        & ~samples.with_event(Event.L1D_MISS)
        & ~samples.with_event(Event.MISALIGNED)
        & ~samples.with_event(Event.TLB_WALK)
    )
    stores = np.flatnonzero(kind(samples, store=True) & addressed)
    granules = canonical(arrays.va) // np.uint64(_GRANULE)
    stored = np.isin(granules, granules[stores])
    others = np.flatnonzero(loads & ~stored)
    if len(stores) < EVIDENCE // 2 or len(others) < EVIDENCE:
        return  # nothing to compare with
    usual = float(np.median(arrays.total[others]))
    for group in places(samples, loads):
        rows = group.rows[stored[group.rows]]
        took = float(np.median(arrays.total[rows])) if len(rows) else 0.0
        if len(rows) < _MOST_OF * len(group.rows) or took < _MUCH * usual:
            continue
        matching = stores[np.isin(granules[stores], granules[rows])]
        by = max(_places_of(samples, matching), default=(0, ""))[1]
        yield Finding(
            max(0.0, cycles(samples, rows) - usual * len(rows)) / whole,
            f"{cycles(samples, group.rows) / whole:.0%} of all latency: loads in {where(group)} hit"
            f" L1D and take {took:.0f} cycles, others {usual:.0f};"
            f" {len(rows) / len(group.rows):.0%} are of bytes that {by} stores: keep them in a"
            " register",
        )


def _places_of(
    samples: Samples, rows: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[tuple[int, str]]:
    """How many of some samples there are in each place, and its name."""
    among = np.zeros(len(samples), bool)
    among[rows] = True
    groups = samples.groups(("line", "inline"), np.ones(len(samples)), among)
    return [(len(group.rows), where(group)) for group in groups]
