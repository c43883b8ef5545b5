"""Twenty mistakes in shipped drivers that pass here: which a search finds, and which are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import spe_unicorn
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.campaigns.plan import Limits
from spe_unicorn.session.torture.search import drawn, tried_names
from spe_unicorn.session.torture.trials import Trials
from tests.session.planted import MISTAKES, Mistake

NAMES = tried_names(["buffer_locked", "late_writes", "late_records", "late_bytes", "stale_status"])
MOST = 30
STRONG: list[dict[str, Any]] = [
    {"buffer_locked": True},
    {"late_writes": 1024},
    {"late_records": 4},
    {"late_bytes": True},
    {"stale_status": 256},
]


def batches() -> Iterator[list[dict[str, Any]]]:
    for first in range(0, MOST, 2):
        yield [drawn("max", 0, number, NAMES) for number in (first, first + 1)]


def test_there_are_twenty_of_them_and_each_is_another() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) == 20


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_search_finds_what_a_program_can_tell(mistake: Mistake, tmp_path: Path) -> None:
    options = MachineOptions(mistake.planted(tmp_path), core="max")
    with closing(Trials(options, Limits(8_000_000, 60.0), 2, spe_unicorn.__version__, None)) as run:
        assert all(verdict.passed for verdict in run([{}]))
        assert bool(run.misuses()) == mistake.told
        if mistake.found:
            assert any(not verdict.passed for trials in batches() for verdict in run(trials))
        else:
            assert all(verdict.passed for verdict in run(STRONG))
