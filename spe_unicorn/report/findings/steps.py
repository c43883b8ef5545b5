"""Samples that keep step with a loop: their shares are not those of what is executed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Has
from spe_unicorn.report.findings.evidence import EVIDENCE, Finding
from spe_unicorn.report.samples import Labels, Samples
from spe_unicorn.report.texts import distinct
from spe_unicorn.symbols.table import printable

_ALWAYS = 0.95
"""The share of samples that are followed by the same operation from which on they keep step."""
_CHANCE = 0.6
"""The share of an operation from which on it follows most others by chance."""
_MANY = 0.5
"""The share of a PE's samples that have to keep step."""


def in_step(samples: Samples) -> Iterator[Finding]:
    """Samples of which each is followed by the same other one: an interval that fits a loop.

    It is told before all else, as it makes the shares of everything else doubtful.
    """
    arrays = samples.arrays
    with_pc = arrays.where(Has.PC)
    for cpu in np.unique(arrays.cpu[with_pc]).tolist():
        rows = np.flatnonzero(with_pc & (arrays.cpu == cpu))
        labels = samples.labels("address")[rows]
        share, said = _stepping(samples.pcs[rows], labels)
        if not share:
            continue
        of_pe = f" of PE {cpu}" if len(np.unique(arrays.cpu)) > 1 else ""
        yield Finding(
            1.0,
            f"{share:.0%} of the samples{of_pe} keep step with a loop, {said}: shares are not those"
            " of what is executed; have the interval vary (PMSIRR_EL1.RND, no --no-jitter)",
        )


def _stepping(pcs: npt.NDArray[np.uint64], labels: Labels) -> tuple[float, str]:
    """The share of samples that are always followed by the same other operation, and which.

    0 if too few are.
    """
    values, codes = distinct(pcs)
    counts = np.bincount(codes, minlength=len(values))
    if np.max(counts) > _CHANCE * len(pcs) or np.count_nonzero(counts >= EVIDENCE) < 2:
        return 0.0, ""
    pairs = codes[:-1].astype(np.int64) * len(counts) + codes[1:]
    found = distinct(pairs)
    each, places = found.values, found.first
    often = np.bincount(found.numbers, minlength=len(each))
    best = np.zeros(len(counts), np.int64)
    np.maximum.at(best, each // len(counts), often)
    followed = np.bincount(codes[:-1], minlength=len(counts))
    # an operation that is followed by itself may be a loop of only that
    itself = each // len(counts) == each % len(counts)
    alone = np.zeros(len(counts), np.int64)
    alone[(each // len(counts))[itself]] = often[itself]
    steps = (followed >= EVIDENCE) & (best >= _ALWAYS * followed) & (alone < best)
    share = float(followed[steps].sum() / len(pcs))
    if share < _MANY:
        return 0.0, ""
    usual = np.flatnonzero(steps)[np.argmax(followed[steps])]
    place = int(places[(each // len(counts) == usual) & (often == best[usual])][0])
    at, then = (printable(str(label)) for label in labels[place : place + 2])
    return share, f"as {at} is always followed by {then}"
