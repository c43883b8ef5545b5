"""What to do first: sentences on what costs most, each with its evidence.

A rule looks at the samples of one place and tells what of their time could be saved. It is silent
where there are too few samples to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

import numpy as np

from spe_unicorn.output.arrays import Has, canonical
from spe_unicorn.report.findings.evidence import (
    EVIDENCE,
    LINE,
    OFTEN,
    Finding,
    all_cycles,
    cycles,
    kind,
    places,
    where,
)
from spe_unicorn.report.findings.hits import unaligned, waits_for_stores
from spe_unicorn.report.findings.steps import in_step
from spe_unicorn.report.samples import UNKNOWN, Group, Samples
from spe_unicorn.spe.packets import Event, OperationClass
from spe_unicorn.symbols.table import printable

MOST = 5
"""Sentences that are told."""
_ENOUGH = 100
"""Samples below which shares say little: at 50 % the spread is 5 points."""
_CHANCE = 0.35
"""A share of branches that go one way from which on, up to half, no predictor does well by it."""
_LEAST = 0.01
"""A share of all cycles that is not worth a sentence."""
_PAGE = 4096


def first(samples: Samples) -> list[str]:
    """At most :data:`MOST` sentences, what could save most first.

    Of more samples than some 260,000 the sentences are of so many.
    """
    samples = samples.chosen()
    if len(samples) < _ENOUGH:
        return [f"{len(samples)} samples are too few to say what costs most: sample more often"]
    if not samples.arrays.where(Has.TOTAL).any():
        return []
    found = [finding for rule in RULES for finding in rule(samples)]
    found.sort(key=lambda finding: (-finding.saving, finding.sentence))
    return [finding.sentence for finding in found if finding.saving >= _LEAST][:MOST]


def misses(samples: Samples) -> Iterator[Finding]:
    """Loads that miss the L1 data cache: what is saved is what their misses take longer."""
    whole = all_cycles(samples)
    missed = samples.with_event(Event.L1D_MISS)
    loads = kind(samples, store=False) & samples.arrays.where(Has.VA)
    for group in places(samples, loads):
        rows = group.rows[missed[group.rows]]
        hits = group.rows[~missed[group.rows]]
        share = len(rows) / len(group.rows)
        if share < OFTEN or len(rows) < EVIDENCE // 2:
            continue
        usual = float(np.median(samples.arrays.total[hits])) if len(hits) else 4.0
        saved = max(0.0, cycles(samples, rows) - usual * len(rows))
        of_all = cycles(samples, group.rows) / whole
        yield Finding(
            saved / whole,
            f"{of_all:.0%} of all latency: loads{_of_object(samples, group)} in {where(group)},"
            f" {share:.0%} miss L1D; {_pattern(samples, group)}",
        )


def _of_object(samples: Samples, group: Group) -> str:
    """The object that nearly all accesses of a place go to."""
    labels = samples.labels("data")[group.rows]
    names, counts = np.unique(labels.astype(str), return_counts=True)
    name = str(names[np.argmax(counts)])
    if name == UNKNOWN or name.startswith("0x") or np.max(counts) < 0.9 * len(labels):
        return ""
    return f" of {printable(name)}"


def _pattern(samples: Samples, group: Group) -> str:
    """The working set of a place's accesses and, where they go by one, their stride.

    Of one line it is told who else stores to it, where PEs take it from one another.
    """
    addresses = np.unique(canonical(samples.arrays.va)[group.rows])
    lines = np.unique(addresses // np.uint64(LINE))
    said = f"{_some(len(addresses), 'address', 'es')} sampled in {_some(len(lines), 'line')}"
    if len(lines) == 1:
        writers = _writers(samples, lines[0])
        if len(writers) > 1:
            pes = ", ".join(map(str, writers))
            return f"{said}, which PEs {pes} store to and take from one another"
    steps = np.diff(addresses)
    if len(steps) >= EVIDENCE:
        stride = gcd(*steps.tolist())
        if stride > LINE // 4:
            used = max(1, LINE // stride)
            return f"{said}, all multiples of {stride} bytes apart: a line serves {used} of them"
    span = int(addresses[-1] - addresses[0]) + 1
    if span == 1:
        return said
    return f"{said} over {span >> 10} KiB" if span >= 1 << 10 else f"{said} over {span} bytes"


def _some(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{plural if count > 1 else ''}"


def _writers(samples: Samples, line: np.uint64) -> list[int]:
    """The PEs that were sampled as they stored to a line."""
    arrays = samples.arrays
    stores = kind(samples, store=True) & arrays.where(Has.VA)
    stores &= canonical(arrays.va) // np.uint64(LINE) == line
    found: list[int] = np.unique(arrays.cpu[stores]).tolist()
    return found


def mispredictions(samples: Samples) -> Iterator[Finding]:
    """Branches that are mispredicted: what is saved is what these samples take longer."""
    arrays = samples.arrays
    whole = all_cycles(samples)
    missed = samples.with_event(Event.MISPREDICTED)
    passed = samples.with_event(Event.NOT_TAKEN)
    branches = arrays.where(Has.OPERATION) & (arrays.op_class == OperationClass.BRANCH)
    for group in places(samples, branches):
        rows = group.rows[missed[group.rows]]
        right = group.rows[~missed[group.rows]]
        share = len(rows) / len(group.rows)
        if share < OFTEN or len(rows) < EVIDENCE // 2:
            continue
        usual = float(np.median(arrays.total[right])) if len(right) else 1.0
        saved = max(0.0, cycles(samples, rows) - usual * len(rows))
        taken = 1 - float(passed[group.rows].mean())
        wrong = 1 - float(passed[rows].mean())
        yield Finding(
            saved / whole,
            f"{cycles(samples, group.rows) / whole:.0%} of all latency: branches in"
            f" {where(group)}, {share:.0%} mispredicted; {taken:.0%} of them are taken,"
            f" and {wrong:.0%} of the mispredicted{_direction(taken)}",
        )


def _direction(taken: float) -> str:
    """What the share of branches that are taken says of how they could be predicted."""
    if _CHANCE <= taken <= 1 - _CHANCE:
        return ": their direction is close to chance, which a conditional select needs not predict"
    return ""


def walks(samples: Samples) -> Iterator[Finding]:
    """Accesses whose translation needs a walk: what is saved is their translation latency."""
    arrays = samples.arrays
    whole = all_cycles(samples)
    walked = samples.with_event(Event.TLB_WALK)
    timed = arrays.where(Has.TRANSLATION) & arrays.where(Has.VA)
    for group in places(samples, timed):
        rows = group.rows[walked[group.rows]]
        if len(rows) < EVIDENCE // 2 or len(rows) < OFTEN * len(group.rows):
            continue
        pages = len(np.unique(canonical(arrays.va)[group.rows] // np.uint64(_PAGE)))
        spent = int(arrays.translation[rows].sum(dtype=np.int64))
        yield Finding(
            spent / whole,
            f"{spent / whole:.0%} of all latency: translations in {where(group)},"
            f" {len(rows) / len(group.rows):.0%} of its accesses walk the tables;"
            f" they were sampled in {pages} pages of 4 KiB",
        )


def shared_lines(samples: Samples) -> Iterator[Finding]:
    """Cache lines of which PEs use different bytes, and at least one writes: false sharing."""
    arrays = samples.arrays
    whole = all_cycles(samples)
    rows = np.flatnonzero(arrays.where(Has.VA))
    if len(np.unique(arrays.cpu[rows])) < 2:
        return
    addresses = canonical(arrays.va)
    stores = kind(samples, store=True)
    lines, number = np.unique(addresses[rows] // np.uint64(LINE), return_inverse=True)
    number = number.reshape(-1)
    often = np.flatnonzero(np.bincount(number, minlength=len(lines)) >= EVIDENCE)
    for each in often.tolist():
        members = rows[number == each]
        users = {
            pe: set(addresses[members[arrays.cpu[members] == pe]].tolist())
            for pe in np.unique(arrays.cpu[members]).tolist()
        }
        shared = set.intersection(*users.values()) if len(users) > 1 else set()
        writers = np.unique(arrays.cpu[members[stores[members]]])
        if len(users) < 2 or not len(writers) or shared:
            continue
        names = samples.labels("data")[members]
        missing = members[samples.with_event(Event.L1D_MISS)[members]]
        saved = cycles(samples, missing)
        pes = ", ".join(str(pe) for pe in users)
        yield Finding(
            saved / whole,
            f"{cycles(samples, members) / whole:.0%} of all latency: PEs {pes} use different bytes"
            f" of the line at {int(lines[each]) * LINE:#x} ({printable(str(names[0]))}), and"
            f" {len(writers)} of them write it",
        )


RULES: tuple[Callable[[Samples], Iterator[Finding]], ...] = (
    in_step,
    misses,
    mispredictions,
    walks,
    unaligned,
    waits_for_stores,
    shared_lines,
)
"""What is looked for."""
