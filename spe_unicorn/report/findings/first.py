"""What to do first: sentences on what costs most, each with its evidence.

A rule looks at the samples of one place and tells what of their time could be saved. It is silent
where there are too few samples to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Has, canonical
from spe_unicorn.report.samples import UNKNOWN, Group, Samples, Truths
from spe_unicorn.spe.packets import Event, OperationClass
from spe_unicorn.symbols.table import printable

MOST = 5
"""Sentences that are told."""
_ENOUGH = 100
"""Samples below which shares say little: at 50 % the spread is 5 points."""
_EVIDENCE = 20
"""Samples of a place below which nothing is said of it."""
_LEAST = 0.01
"""A share of all cycles that is not worth a sentence."""
_LINE = 64
"""Bytes of a cache line."""
_PAGE = 4096
_OFTEN = 0.05
"""A share of accesses that miss, or of branches that are mispredicted, from which on it is told."""


class Finding(NamedTuple):
    """A sentence, and the share of all cycles of latency that it could save, from 0 to 1."""

    saving: float
    sentence: str


def first(samples: Samples) -> list[str]:
    """At most :data:`MOST` sentences, what could save most first."""
    if len(samples) < _ENOUGH:
        return [f"{len(samples)} samples are too few to say what costs most: sample more often"]
    if not samples.arrays.where(Has.TOTAL).any():
        return []
    found = [finding for rule in RULES for finding in rule(samples)]
    found.sort(key=lambda finding: (-finding.saving, finding.sentence))
    return [finding.sentence for finding in found if finding.saving >= _LEAST][:MOST]


def _kind(samples: Samples, *, store: bool) -> Truths:
    arrays = samples.arrays
    result: Truths = (
        arrays.where(Has.OPERATION)
        & (arrays.op_class == OperationClass.LOAD_STORE)
        & ((arrays.op_payload & 1) == int(store))
    )
    return result


def _cycles(samples: Samples, rows: npt.NDArray[np.int64]) -> int:
    return int(samples.arrays.total[rows].sum(dtype=np.int64))


def _all_cycles(samples: Samples) -> int:
    return int(samples.arrays.total.sum(dtype=np.int64))


def _places(samples: Samples, among: Truths) -> Iterator[Group]:
    """Samples by line and function, only places with enough of them."""
    timed = among & samples.arrays.where(Has.PC)
    for group in samples.groups(("line", "inline"), np.ones(len(samples)), timed):
        if len(group.rows) >= _EVIDENCE:
            yield group


def _where(group: Group) -> str:
    """``longest_match (deflate.c:1417)``, as far as it is known."""
    line, functions = (printable(label) for label in group.labels)
    symbol = functions.partition(" < ")[0]  # the code was written in this one
    if symbol == UNKNOWN:
        return "code without a symbol"
    return symbol if line == UNKNOWN else f"{symbol} ({line})"


def misses(samples: Samples) -> Iterator[Finding]:
    """Loads that miss the L1 data cache: what is saved is what their misses take longer."""
    whole = _all_cycles(samples)
    missed = samples.with_event(Event.L1D_MISS)
    loads = _kind(samples, store=False) & samples.arrays.where(Has.VA)
    for group in _places(samples, loads):
        rows = group.rows[missed[group.rows]]
        hits = group.rows[~missed[group.rows]]
        share = len(rows) / len(group.rows)
        if share < _OFTEN or len(rows) < _EVIDENCE // 2:
            continue
        usual = float(np.median(samples.arrays.total[hits])) if len(hits) else 4.0
        saved = max(0.0, _cycles(samples, rows) - usual * len(rows))
        of_all = _cycles(samples, group.rows) / whole
        yield Finding(
            saved / whole,
            f"{of_all:.0%} of all latency: loads{_of_object(samples, group)} in {_where(group)},"
            f" {share:.0%} miss L1D; {_pattern(samples, group)}",
        )


def _of_object(samples: Samples, group: Group) -> str:
    """The object that nearly all accesses of a place go to."""
    labels = samples.labels("data")[group.rows]
    names, counts = np.unique(labels.astype(str), return_counts=True)
    name = str(names[counts.argmax()])
    if name == UNKNOWN or name.startswith("0x") or counts.max() < 0.9 * len(labels):
        return ""
    return f" of {printable(name)}"


def _pattern(samples: Samples, group: Group) -> str:
    """The working set of a place's accesses and, where they go by one, their stride."""
    addresses = np.unique(canonical(samples.arrays.va)[group.rows])
    lines = len(np.unique(addresses // np.uint64(_LINE)))
    said = f"{len(addresses)} addresses sampled in {lines} lines"
    steps = np.diff(addresses)
    if len(steps) >= _EVIDENCE:
        stride = gcd(*steps.tolist())
        if stride > _LINE // 4:
            used = max(1, _LINE // stride)
            return f"{said}, all multiples of {stride} bytes apart: a line serves {used} of them"
    span = int(addresses[-1] - addresses[0]) + 1
    return f"{said} over {span >> 10} KiB" if span >= 1 << 10 else f"{said} over {span} bytes"


def mispredictions(samples: Samples) -> Iterator[Finding]:
    """Branches that are mispredicted: what is saved is what these samples take longer."""
    arrays = samples.arrays
    whole = _all_cycles(samples)
    missed = samples.with_event(Event.MISPREDICTED)
    passed = samples.with_event(Event.NOT_TAKEN)
    branches = arrays.where(Has.OPERATION) & (arrays.op_class == OperationClass.BRANCH)
    for group in _places(samples, branches):
        rows = group.rows[missed[group.rows]]
        right = group.rows[~missed[group.rows]]
        share = len(rows) / len(group.rows)
        if share < _OFTEN or len(rows) < _EVIDENCE // 2:
            continue
        usual = float(np.median(arrays.total[right])) if len(right) else 1.0
        saved = max(0.0, _cycles(samples, rows) - usual * len(rows))
        taken = 1 - float(passed[group.rows].mean())
        yield Finding(
            saved / whole,
            f"{_cycles(samples, group.rows) / whole:.0%} of all latency: branches in"
            f" {_where(group)}, {share:.0%} mispredicted; {taken:.0%} of them are taken",
        )


def walks(samples: Samples) -> Iterator[Finding]:
    """Accesses whose translation needs a walk: what is saved is their translation latency."""
    arrays = samples.arrays
    whole = _all_cycles(samples)
    walked = samples.with_event(Event.TLB_WALK)
    timed = arrays.where(Has.TRANSLATION) & arrays.where(Has.VA)
    for group in _places(samples, timed):
        rows = group.rows[walked[group.rows]]
        if len(rows) < _EVIDENCE // 2 or len(rows) < _OFTEN * len(group.rows):
            continue
        pages = len(np.unique(canonical(arrays.va)[group.rows] // np.uint64(_PAGE)))
        cycles = int(arrays.translation[rows].sum(dtype=np.int64))
        yield Finding(
            cycles / whole,
            f"{cycles / whole:.0%} of all latency: translations in {_where(group)},"
            f" {len(rows) / len(group.rows):.0%} of its accesses walk the tables;"
            f" they were sampled in {pages} pages of 4 KiB",
        )


def shared_lines(samples: Samples) -> Iterator[Finding]:
    """Cache lines of which PEs use different bytes, and at least one writes: false sharing."""
    arrays = samples.arrays
    whole = _all_cycles(samples)
    rows = np.flatnonzero(arrays.where(Has.VA))
    if len(np.unique(arrays.cpu[rows])) < 2:
        return
    addresses = canonical(arrays.va)
    stores = _kind(samples, store=True)
    lines, number = np.unique(addresses[rows] // np.uint64(_LINE), return_inverse=True)
    number = number.reshape(-1)
    often = np.flatnonzero(np.bincount(number, minlength=len(lines)) >= _EVIDENCE)
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
        saved = _cycles(samples, missing)
        pes = ", ".join(str(pe) for pe in users)
        yield Finding(
            saved / whole,
            f"{_cycles(samples, members) / whole:.0%} of all latency: PEs {pes} use different bytes"
            f" of the line at {int(lines[each]) * _LINE:#x} ({printable(str(names[0]))}), and"
            f" {len(writers)} of them write it",
        )


RULES: tuple[Callable[[Samples], Iterator[Finding]], ...] = (
    misses,
    mispredictions,
    walks,
    shared_lines,
)
"""What is looked for."""
