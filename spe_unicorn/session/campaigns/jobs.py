"""A run as plain data, with a key that depends on what runs, not on where or when it runs."""

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
    FOLDERS,
    WITHIN,
    is_written,
    named,
    what_is_below,
)
from spe_unicorn.session.campaigns.plan import Limits, Plan, PlannedRun

Row = dict[str, Any]
"""A row of the table of runs: its values by column."""


@dataclass(frozen=True)
class FileOf:
    """A file: the SHA-256 of its contents, and its ``name``, which guests can see."""

    digest: str
    name: str

    def within(self, folder: Path) -> Path:
        """Where a folder of kept files holds this file."""
        return folder / self.digest / self.name


@dataclass(frozen=True)
class FolderOf:
    """A folder of which the run gets a copy. Its files are in :attr:`Job.files` as ``place/NAME``.

    ``behind`` is the text that an option has after the folder's name, such as ``,readonly``.
    ``folders`` and ``programs`` are names within the folder: of its folders, and of its files that
    are executable.
    """

    place: str
    name: str
    behind: str
    folders: list[str]
    programs: list[str]


OwnCopy = Callable[[Path | None, str, bool], Path]
"""Makes a copy in the run's own folder, and returns the copy. It is called with a file, the name of
the copy, and whether the copy is executable. For None in place of a file it makes a folder."""


@dataclass(frozen=True)
class Job:
    """One run, as plain data.

    ``options`` holds the options that name no file. ``files`` holds all files by their places. The
    place of a file that is the whole value of an option is the option's name. The place of a file
    that a text names is such as ``drive.0``. The place of a file in a folder is such as
    ``semihosting_dir/NAME`` or ``share.0/NAME``. ``texts`` holds the options whose texts name a
    file: for each text what stands before the name, the place of the file, and what stands after
    it. ``count`` names the events that are counted.
    """

    key: str
    options: dict[str, Any]
    files: dict[str, FileOf]
    texts: dict[str, list[list[str]]]
    folders: dict[str, list[FolderOf]]
    sampling: dict[str, Any] | None
    input: str
    count: list[str]
    limits: Limits
    watch: bool = False
    """Whether the run is looked at for mistakes."""
    cover: bool = False
    """Whether the run notes what it executes; no part of the key."""

    def machine(
        self, path_of: Callable[[FileOf], Path], own_copy: OwnCopy | None = None
    ) -> MachineOptions:
        """The machine's options, with each file at the path that ``path_of`` gives.

        ``own_copy`` copies folders, and files that the run may change. Without ``own_copy`` nothing
        is copied, and a folder is its bare name: enough to describe the run, not to run it.
        """
        files: dict[str, Any] = {name: path_of(self.files[name]) for name in self._plain()}
        for option, rows in self.texts.items():
            values = []
            for before, place, behind in rows:
                path = path_of(self.files[place])
                if own_copy is not None and is_written(option, behind):
                    path = own_copy(path, f"{place}/{path.name}", False)
                values.append(f"{before}{path}{behind}")
            files[option] = values[0] if option == "core" else tuple(values)
        for option, folders in self.folders.items():
            texts = [f"{self._folder(each, path_of, own_copy)}{each.behind}" for each in folders]
            files[option] = Path(texts[0]) if option == "semihosting_dir" else tuple(texts)
        options: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.options.items()
        }
        return MachineOptions(**options, **files, sampling=self._sampling())

    def _folder(
        self, folder: FolderOf, path_of: Callable[[FileOf], Path], own_copy: OwnCopy | None
    ) -> Path:
        """Copy a folder for the run, and return the copy."""
        if own_copy is None:
            return Path(folder.name)
        top = own_copy(None, folder.place, False)
        for name in folder.folders:
            own_copy(None, f"{folder.place}/{name}", False)
        for place, file in self.files.items():
            if place.startswith(f"{folder.place}/"):
                below = place.partition("/")[2]
                own_copy(path_of(file), place, below in folder.programs)
        return top

    @property
    def program(self) -> FileOf | None:
        """The file whose symbols name the places of the run; None for a run without a program."""
        return self.files.get("firmware") or self.files.get("kernel")

    def _plain(self) -> list[str]:
        """The options whose whole value is the name of a file."""
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
        """The job of which :meth:`to_json` made ``data``."""
        files = {name: FileOf(**file) for name, file in data["files"].items()}
        folders = {
            option: [FolderOf(**each) for each in found]
            for option, found in data["folders"].items()
        }
        limits = Limits(**data["limits"])
        return cls(**{**data, "files": files, "folders": folders, "limits": limits})


@dataclass(frozen=True)
class Jobs:
    """The runs of a plan in its order, equal ones once.

    ``paths`` has an original file for each digest. Only the store reads it, to keep its content.
    """

    runs: list[Job]
    paths: dict[str, Path]


def jobs_of(plan: Plan, version: str) -> Jobs:
    """The jobs of a plan for a version of the package.

    Raises OSError if a file cannot be read. Raises FileError if a folder cannot be taken any more.
    """
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
    """The job of a run.

    Its key is a hash of all that decides its results. The limits on time and memory are no part of
    the key: they only decide whether there are results.
    """
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
    folders = {
        name: _folders(name, options.pop(name), file_of, files)
        for name in FOLDERS
        if options.get(name)
    }
    sampling = None if run.sampling is None else asdict(run.sampling)
    what: dict[str, Any] = {
        "version": version,
        "files": {name: asdict(file) for name, file in files.items()},
        "texts": texts,
        "folders": {name: [asdict(each) for each in found] for name, found in folders.items()},
        # Defaults are options, too: a plan that spells one out has the same runs.
        "options": {
            name: value
            for name, value in vars(run.machine).items()
            if name not in (*FILES, *texts, *folders, "sampling")
            and isinstance(value, (str, int, bool, tuple, type(None)))
        },
        "sampling": sampling,
        "input": run.input,
        "max_insns": limits.max_insns,
    }
    if run.count:
        what["count"] = run.count
    if run.watch:
        what["watch"] = True
    text = json.dumps(what, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    count = list(run.count)
    return Job(key, options, files, texts, folders, sampling, run.input, count, limits, run.watch)


def _folders(
    option: str, value: Any, file_of: Callable[[str], FileOf], files: dict[str, FileOf]
) -> list[FolderOf]:
    """The folders of an option. The files in them are added to ``files``."""
    found = []
    for number, text in enumerate((value,) if isinstance(value, str) else value):
        name = named(option, text)
        top, place = Path(name.file), option if isinstance(value, str) else f"{option}.{number}"
        below = what_is_below(top)
        for each in below.files:
            files[f"{place}/{each}"] = file_of(str(top / each))
        found.append(FolderOf(place, top.name, name.behind, below.folders, below.programs))
    return found
