"""A run as plain data, and its key: what it is made of, and nothing of where or when it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.session.campaigns.files import (
    FILES,
    FOLDER,
    WITHIN,
    files_below,
    is_written,
    named,
)
from spe_unicorn.session.campaigns.plan import Limits, Plan, PlannedRun


@dataclass(frozen=True)
class FileOf:
    """A file by its contents; guests see the ``name``."""

    digest: str
    name: str


OwnCopy = Callable[[Path | None, str], Path]
"""Copies a file to a name in a folder of the run's own; of no file it makes a folder."""


@dataclass(frozen=True)
class Job:
    """One run. ``options`` are those without files; ``files`` are all files, by where they belong.

    A file that is an option belongs to the option's name; one within a text to a name such as
    ``drive.0``; one in the folder of semihosting to ``semihosting_dir/NAME``. ``texts`` are the
    texts around files: of each option what stands before, where the file belongs, what behind.
    """

    key: str
    options: dict[str, Any]
    files: dict[str, FileOf]
    texts: dict[str, list[list[str]]]
    has_folder: bool
    sampling: dict[str, Any] | None
    input: str
    limits: Limits

    def machine(
        self, path_of: Callable[[FileOf], Path], own_copy: OwnCopy | None = None
    ) -> MachineOptions:
        """The machine, its files where ``path_of`` says.

        ``own_copy`` makes a copy of a file that the run may change, below a folder of the run's
        own, and returns it; for no name it returns that folder. Without, there are no copies.
        """
        files: dict[str, Any] = {name: path_of(self.files[name]) for name in self._plain()}
        for option, rows in self.texts.items():
            values = []
            for before, place, behind in rows:
                path = path_of(self.files[place])
                if own_copy is not None and is_written(option, behind):
                    path = own_copy(path, f"{place}/{path.name}")
                values.append(f"{before}{path}{behind}")
            files[option] = values[0] if option == "core" else tuple(values)
        if self.has_folder:
            files[FOLDER] = Path(FOLDER)
            if own_copy is not None:
                files[FOLDER] = own_copy(None, FOLDER)
                for place in self.files:
                    if place.startswith(f"{FOLDER}/"):
                        own_copy(path_of(self.files[place]), place)
        options: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.options.items()
        }
        return MachineOptions(**options, **files, sampling=self._sampling())

    def _plain(self) -> list[str]:
        return [name for name in self.files if name in FILES]

    def _sampling(self) -> Sampling | None:
        if self.sampling is None:
            return None
        return Sampling(**{**self.sampling, "kinds": tuple(self.sampling["kinds"])})

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which :meth:`from_json` makes an equal job."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Job:
        """The job that :meth:`to_json` was asked of."""
        files = {name: FileOf(**file) for name, file in data["files"].items()}
        return cls(**{**data, "files": files, "limits": Limits(**data["limits"])})


@dataclass(frozen=True)
class Jobs:
    """The runs of a plan in their order, each once, and where the files of a digest are."""

    runs: list[Job]
    paths: dict[str, Path]


def jobs_of(plan: Plan, version: str) -> Jobs:
    """The runs of a plan for a version of the package. Raises OSError for files that go away."""
    digests: dict[str, str] = {}
    paths: dict[str, Path] = {}

    def file_of(path: str) -> FileOf:
        if path not in digests:
            digests[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            paths.setdefault(digests[path], Path(path))
        return FileOf(digests[path], Path(path).name)

    runs = {job.key: job for job in (_job(run, plan.limits, version, file_of) for run in plan.runs)}
    return Jobs(list(runs.values()), paths)


def _job(run: PlannedRun, limits: Limits, version: str, file_of: Callable[[str], FileOf]) -> Job:
    options = dict(run.options)
    files: dict[str, FileOf] = {
        name: file_of(options.pop(name)) for name in FILES if name in options
    }
    texts: dict[str, list[list[str]]] = {}
    for option in WITHIN:
        values = options.get(option, ())
        values = (values,) if isinstance(values, str) else values
        if not values or (option == "core" and not Path(named(option, values[0]).file).is_file()):
            continue
        del options[option]
        texts[option] = []
        for number, text in enumerate(values):
            found = named(option, text)
            place = f"{option}.{number}"
            files[place] = file_of(found.file)
            texts[option].append([found.before, place, found.behind])
    folder = options.pop(FOLDER, None)
    if folder is not None:
        for name in files_below(Path(folder)):
            files[f"{FOLDER}/{name}"] = file_of(str(Path(folder, name)))
    sampling = None if run.sampling is None else asdict(run.sampling)
    what = {
        "version": version,
        "files": {name: asdict(file) for name, file in files.items()},
        "texts": texts,
        "folder": folder is not None,
        # Defaults are options, too: a plan that spells one out has the same runs.
        "options": {
            name: value
            for name, value in vars(run.machine).items()
            if name not in (*FILES, *texts, FOLDER, "sampling")
            and isinstance(value, (str, int, bool, tuple, type(None)))
        },
        "sampling": sampling,
        "input": run.input,
        "max_insns": limits.max_insns,
    }
    text = json.dumps(what, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Job(key, options, files, texts, folder is not None, sampling, run.input, limits)
