"""Snapshots of failed runs from shortly before their ends, for whoever wants to look at one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from spe_unicorn.session.campaigns.jobs import Job, Row
from spe_unicorn.session.campaigns.store import Store
from spe_unicorn.session.reproduce import command_words

SNAPSHOT: Final = "before.snapshot"
"""The file in the folder of a run."""
MOST: Final = 20
"""The most runs of a campaign that have one: a snapshot takes some MB."""
_BEFORE: Final = 1_000_000
"""So many operations before the end it is taken, or at the start."""


def keep_snapshots(
    failed: Iterable[tuple[Job, Row]], store: Store, processes: int
) -> dict[str, Path]:
    """Take a snapshot of each failed run that has none, by running it again up to there.

    The snapshots by the keys of the runs, the first :data:`MOST`. Runs that end by a limit of the
    host, that were refused, or that may change files have none.
    """
    wanted = [(job, row) for job, row in failed if row.get("operations") and not job.folders]
    with ThreadPoolExecutor(processes) as pool:
        paths = pool.map(lambda pair: _kept(pair[0], pair[1], store), wanted[:MOST])
        return {
            job.key: path
            for (job, _), path in zip(wanted[:MOST], paths, strict=True)
            if path is not None
        }


def _kept(job: Job, row: Row, store: Store) -> Path | None:
    path = store.report(job) / SNAPSHOT
    if path.exists():
        return path
    changed: list[Path] = []

    def own_copy(original: Path | None, _name: str, _is_program: bool) -> Path:
        changed.append(original or Path())
        return original or Path()

    options = job.machine(store.kept, own_copy)
    if changed:
        return None
    at = str(max(0, row["operations"] - _BEFORE))
    more: tuple[str, ...] = ("--snapshot-at", at, "--snapshot", str(path), "--until", at, "-q")
    if options.sampling is not None:
        more = (*more, "-o", "/dev/null", "--format", "raw")
    command = [sys.executable, "-m", "spe_unicorn", *command_words(options, more)[1:]]
    try:
        subprocess.run(
            command,
            input=job.input.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=job.limits.timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return path if path.exists() else None
