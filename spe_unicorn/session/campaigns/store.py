"""The folder of a campaign. A run in it is complete, even if campaigns were killed meanwhile.

```text
files/DIGEST/NAME            what the runs were made of
runs/KEY/                    a finished run: row.json, console.txt, report.txt, errors.txt,
                             coverage.json
records/key=KEY/records.parquet   its records
runs.parquet                 a row a run, in the order of the plan
```
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spe_unicorn.machine.options import SWITCHES
from spe_unicorn.session.campaigns.files import FILES, FOLDERS, WITHIN, FileError
from spe_unicorn.session.campaigns.jobs import FileOf, Job, Jobs, Row
from spe_unicorn.session.campaigns.noticed import Noticed
from spe_unicorn.session.campaigns.worker import (
    COVERED,
    NOTICED,
    OUTPUT,
    ROW,
    count_column,
    records_file,
)

SaveRecords = Callable[[Path, list[bytes], Path | None], int]
"""Writes the records of a run to a file, given the bytes of each PE and the program, None for none.
Returns how many records there are."""

COLUMNS: dict[str, type] = {
    "key": str,
    **dict.fromkeys(FILES, str),
    **dict.fromkeys(("core", "model"), str),
    **dict.fromkeys(("ram", "smp", "turn", "el", "clock", "seed"), int),
    **dict.fromkeys(("strict", *SWITCHES), bool),
    **dict.fromkeys(("pflash", "fw_cfg", "drive", "load", *FOLDERS), str),
    **dict.fromkeys(("check", "ram_fill"), str),
    **dict.fromkeys(("append", "arguments", "input"), str),
    "interval": int,
    "event": str,
    "kinds": str,
    "min_latency": int,
    "jitter": bool,
    **dict.fromkeys(("ending", "cause"), str),
    "exit_status": int,
    "pc": int,
    "symbol": str,
    "checks": int,
    **dict.fromkeys(("operations", "population", "selected", "collisions", "filtered"), int),
    **dict.fromkeys(("discarded", "lost", "written", "bytes", "management_events"), int),
    "records": int,
    **dict.fromkeys(("records_sha256", "console_sha256"), str),
    "host": str,
    "host_seconds": float,
    "host_resident": int,
}
"""The columns of a row, with their types; all may be empty. Only those from ``host`` on differ
between two runs of a plan. ``host_resident`` is in bytes. Events that are counted have columns of
their own: :func:`columns`."""

FINE = frozenset({"exit", "limit"})
"""The endings of a run that are no errors: its guest ended it, or ``max_insns``."""


def is_error(row: Mapping[str, object]) -> bool:
    """Whether a run ended otherwise than by its guest or by ``max_insns``."""
    return row["ending"] not in FINE


def is_failure(row: Mapping[str, object]) -> bool:
    """Whether it is an error, the guest's status is not 0, or checks of memory found something."""
    return is_error(row) or bool(row.get("exit_status")) or bool(row.get("checks"))


def columns(jobs: Jobs) -> dict[str, type]:
    """The columns of the rows of ``jobs``: :data:`COLUMNS`, with the counts before ``records``."""
    found: dict[str, type] = {}
    for name, kind in COLUMNS.items():
        if name == "records":
            found |= {count_column(event): int for job in jobs.runs for event in job.count}
        found[name] = kind
    return found


class BusyError(Exception):
    """Another campaign writes into the folder."""


class Store:
    """The folder of one campaign. ``save_records`` writes the records of a run."""

    def __init__(self, folder: Path, save_records: SaveRecords) -> None:
        self.folder = folder
        self._save_records = save_records
        for name in ("files", "runs", "records"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def files(self) -> Path:
        """Where :meth:`keep_files` puts files."""
        return self.folder / "files"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder, and remove what unfinished runs have left in it.

        Raises BusyError if another campaign holds the lock.
        """
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyError(f"{self.folder}: another campaign writes here") from None
            for left in self.folder.glob(".run-*"):
                shutil.rmtree(left, ignore_errors=True)
            yield

    def keep_files(self, jobs: Jobs) -> None:
        """Copy the files of all runs into the folder: the originals may change after that.

        Raises OSError. Raises FileError if a file has changed since the plan was read.
        """
        for file in {file for job in jobs.runs for file in job.files.values()}:
            path = jobs.paths[file.digest]
            put_file(self.files, file, path.read_bytes(), source=str(path))

    def kept(self, file: FileOf) -> Path:
        """Where a file is that :meth:`keep_files` has copied."""
        return file.within(self.files)

    def done(self, job: Job) -> Row | None:
        """The row of a run, None if the run has not finished."""
        try:
            row: Row = json.loads((self._place(job) / ROW).read_text())
        except (OSError, ValueError):
            return None
        return row

    @contextmanager
    def new(self) -> Iterator[Path]:
        """An empty folder for a run. It is removed afterwards, unless :meth:`save` has taken it."""
        folder = Path(tempfile.mkdtemp(prefix=".run-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def save(self, job: Job, folder: Path) -> Row:
        """Take what a run has left in ``folder`` into the store; return its row. Raises OSError."""
        row: Row = json.loads((folder / ROW).read_text())
        parts: list[Path] = []
        while (part := folder / records_file(len(parts))).exists():
            parts.append(part)
        records = [part.read_bytes() for part in parts]
        for part in parts:
            part.unlink()
        place = self.folder / "records" / f"key={job.key}"
        shutil.rmtree(place, ignore_errors=True)
        row["records"] = None
        if any(records):
            new = folder / "records"
            new.mkdir()
            program = None if job.program is None else self.kept(job.program)
            row["records"] = self._save_records(new / "records.parquet", records, program)
            os.replace(new, place)
        elif "written" in row:
            row["records"] = 0
        (folder / ROW).write_text(json.dumps(row))
        # The row comes last: a run without a row is run again.
        shutil.rmtree(self._place(job), ignore_errors=True)
        shutil.move(os.fspath(folder), os.fspath(self._place(job)))
        return row

    def console(self, key: str) -> str:
        """What the run with a key printed, the last of it; empty if it printed nothing."""
        try:
            return (self.folder / "runs" / key / OUTPUT).read_text()
        except OSError:
            return ""

    def noticed(self, key: str) -> Noticed | None:
        """What was noticed about the run with a key; None where nobody looked or it was refused."""
        try:
            text = (self.folder / "runs" / key / NOTICED).read_text()
        except OSError:
            return None
        return Noticed.from_json(json.loads(text))

    def covered(self, job: Job) -> Path | None:
        """The file with what a run has executed, None where the run did not note that."""
        path = self._place(job) / COVERED
        return path if path.exists() else None

    def report(self, job: Job) -> Path:
        """The folder of a finished run, where its report is."""
        return self._place(job)

    def rows(self, jobs: Jobs) -> list[Row]:
        """The rows of all finished runs, in the order of the plan."""
        rows, names = [], columns(jobs)
        for job in jobs.runs:
            row = self.done(job)
            if row is not None:
                whole = {**_described(job), **row}
                rows.append({name: whole.get(name) for name in names})
        return rows

    def _place(self, job: Job) -> Path:
        return self.folder / "runs" / job.key


def put_file(folder: Path, file: FileOf, content: bytes, *, source: str) -> None:
    """Write a file to ``folder/DIGEST/NAME``, complete or not at all.

    A file that is there stays, if it has its digest. A host that crashes may leave one cut short.
    Raises OSError. Raises FileError, which names ``source``, if ``content`` has another digest.
    """
    path = file.within(folder)
    if path.exists() and _has_digest(path.read_bytes(), file):
        return
    if not _has_digest(content, file):
        raise FileError(f"{source} has changed since the plan was read")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(part, path)
    except OSError:
        os.unlink(part)
        raise


def _has_digest(content: bytes, file: FileOf) -> bool:
    return hashlib.sha256(content).hexdigest() == file.digest


def _described(job: Job) -> Row:
    """The columns that say what a run is made of."""
    machine = job.machine(lambda file: Path(file.name))
    found = {name: getattr(machine, name, None) for name in COLUMNS}
    found |= {name: None if found[name] is None else str(found[name]) for name in FILES}
    lists = ("arguments", "check", *(name for name in WITHIN if name != "core"))
    sampling = machine.sampling
    if sampling is not None:
        found |= {"interval": sampling.period, "kinds": " ".join(sampling.kinds)}
        found["event"] = sampling.event
        found |= {"min_latency": sampling.min_latency, "jitter": sampling.jitter}
    return {
        **found,
        "key": job.key,
        **{name: " ".join(getattr(machine, name)) or None for name in lists},
        **{
            option: " ".join(f"{each.name}{each.behind}" for each in job.folders.get(option, ()))
            or None
            for option in FOLDERS
        },
        "input": job.input,
    }
