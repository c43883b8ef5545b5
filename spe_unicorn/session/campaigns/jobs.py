"""A run as plain data, and its key: what it is made of, and nothing of where or when it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.session.campaigns.plan import FILES, Limits, Plan, PlannedRun


@dataclass(frozen=True)
class FileOf:
    """A file by its contents; guests see the ``name``."""

    digest: str
    name: str


@dataclass(frozen=True)
class Job:
    """One run. ``files`` are those of its options, by the option; ``options`` are all others."""

    key: str
    options: dict[str, Any]
    files: dict[str, FileOf]
    sampling: dict[str, Any] | None
    input: str
    limits: Limits

    def machine(self, path_of: Callable[[FileOf], Path]) -> MachineOptions:
        """The machine, its files where ``path_of`` says."""
        files: dict[str, Any] = {name: path_of(file) for name, file in self.files.items()}
        if "core" in files:
            files["core"] = str(files["core"])
        options = dict(self.options)
        options["arguments"] = tuple(options.get("arguments", ()))
        return MachineOptions(**options, **files, sampling=self._sampling())

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
    core = options.get("core")
    if core is not None and Path(core).is_file():
        files["core"] = file_of(options.pop("core"))
    sampling = None if run.sampling is None else asdict(run.sampling)
    machine = run.machine
    what = {
        "version": version,
        "files": {name: asdict(file) for name, file in files.items()},
        # Defaults are options, too: a plan that spells one out has the same runs.
        "options": {
            name: value
            for name, value in vars(machine).items()
            if name not in (*FILES, "sampling", *(["core"] if "core" in files else []))
            and isinstance(value, (str, int, bool, tuple, type(None)))
        },
        "sampling": sampling,
        "input": run.input,
        "max_insns": limits.max_insns,
    }
    text = json.dumps(what, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Job(key, options, files, sampling, run.input, limits)
