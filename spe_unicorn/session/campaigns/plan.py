"""Reads ``PLAN.toml``, which names the runs of a campaign. Mistakes are told by line and key."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from spe_unicorn.cores.profile import CoreError
from spe_unicorn.machine.events import one_event, why_not_counted, why_not_sampled
from spe_unicorn.machine.options import MachineOptions, OptionError, Sampling
from spe_unicorn.session.campaigns.files import (
    FILES,
    FOLDERS,
    WITHIN,
    FileError,
    named,
    what_is_below,
)
from spe_unicorn.session.campaigns.toml_lines import TomlLines
from spe_unicorn.session.toml_values import MACHINE, MOST, seconds, size, text, texts, truth, whole

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SAMPLING: Final = {
    "interval": "period",
    "event": "event",
    "kinds": "kinds",
    "min_latency": "min_latency",
}
"""Keys of ``[[runs]]``, and the fields of :class:`Sampling` that they set."""
MOST_RUNS: Final = 1_000_000
"""The most runs that all ``[[runs]]`` of a plan together may come to."""


class PlanError(ValueError):
    """A plan with a mistake. The message is one line: the file, the line, the key, the mistake."""


@dataclass(frozen=True)
class Limits:
    """The most that one run may use: operations, seconds of CPU, bytes of resident memory."""

    max_insns: int | None = 1_000_000_000
    timeout: float = 300.0
    memory: int = 2 << 30


@dataclass(frozen=True)
class PlannedRun:
    """One run: the machine's options by name, how it samples, and the ``input`` that is typed.

    Among the options, ``core`` is the name of a built-in profile or the path of a file. ``count``
    has the events that are counted from outside, by the names that ``spe-unicorn stat -e`` takes.
    With ``watch`` the run is looked at for mistakes, too.
    """

    options: dict[str, Any]
    sampling: Sampling | None = None
    input: str = ""
    count: tuple[str, ...] = ()
    watch: bool = False

    @classmethod
    def of(cls, machine: MachineOptions, *, watch: bool = False) -> PlannedRun:
        """The run of a machine without sampling from outside; its core has to be named."""
        options: dict[str, Any] = {}
        for option in fields(machine):
            value = getattr(machine, option.name)
            if value != option.default:
                options[option.name] = str(value) if isinstance(value, Path) else value
        return cls(options, watch=watch)

    @property
    def machine(self) -> MachineOptions:
        """The options of the run's machine. Raises OptionError."""
        return MachineOptions(**self.options, sampling=self.sampling)


@dataclass(frozen=True)
class Plan:
    """A campaign: its name, the limits of each run, and the runs in their order."""

    name: str
    limits: Limits
    runs: list[PlannedRun] = field(default_factory=list)


def read_plan(path: Path) -> Plan:
    """Read a plan. Files that it names are relative to its folder. Raises PlanError, OSError."""
    try:
        text = path.read_text(encoding="utf-8")
        return _Reader(path, text, tomllib.loads(text)).plan()
    except PlanError:
        raise
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {error}") from None
    except ValueError:  # Python reads no number of thousands of digits
        raise PlanError(f"{path}: a number in it has too many digits") from None
    except MemoryError:
        raise PlanError(f"{path}: is too large for this host") from None


def _event(value: object) -> str:
    name = text(value)
    one_event(name)
    return name


def _events(value: object) -> tuple[str, ...]:
    return tuple(map(_event, texts(value)))


_KEYS: Final[dict[str, Callable[[Any], Any]]] = {
    **MACHINE,
    "count": _events,
    "event": _event,
    "input": text,
    "interval": whole(1),
    "kinds": texts,
    "min_latency": whole(0),
    "jitter": truth,
}
"""The keys of ``[[runs]]``, and what checks a value. A list of values is a run for each of them."""
_LISTS: Final = frozenset(
    {"count", "kinds", *(name for name, check in MACHINE.items() if check is texts)}
)
"""Keys of which one value is a list already."""
_LIMITS: Final[dict[str, Callable[[Any], Any]]] = {
    "max_insns": whole(1),
    "timeout": seconds,
    "memory": size,
}
_TABLES: Final = ("campaign", "limits", "runs")


class _Reader:
    """Reads one plan, and raises PlanError at its first mistake."""

    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        self._path = path
        self._data = data
        self._lines = TomlLines(text)

    def plan(self) -> Plan:
        for name in self._data:
            if name not in _TABLES:
                line = self._lines.key("", name) if not isinstance(self._data[name], dict) else 0
                self._refuse(line or self._lines.header(name), name, _nothing(name, _TABLES))
        campaign = self._table("campaign", {"name": text})
        limits = Limits(**self._table("limits", _LIMITS))
        tables = self._data.get("runs")
        if not isinstance(tables, list) or not tables:
            raise PlanError(f"{self._path}:1: runs: there is no [[runs]], with two brackets")
        choices = []
        left = MOST_RUNS
        for number, table in enumerate(tables):
            choices.append(self._matrix(number, table, left))
            left -= math.prod(map(len, choices[-1].values()))
        runs = [run for number, values in enumerate(choices) for run in self._runs(number, values)]
        return Plan(campaign.get("name", self._path.stem), limits, runs)

    def _table(self, name: str, keys: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
        table = self._data.get(name, {})
        if not isinstance(table, dict):
            self._refuse(self._lines.header(name), name, f"is a table: write [{name}]")
        result = {}
        for key, value in table.items():
            line = self._lines.key(name, key)
            if key not in keys:
                self._refuse(line, key, _nothing(key, keys))
            result[key] = self._checked(line, key, keys[key], value)
        return result

    def _matrix(self, number: int, table: Any, most: int) -> dict[str, Sequence[Any]]:
        """The values of each key of one ``[[runs]]``, of at most ``most`` combinations."""
        if not isinstance(table, dict):
            self._refuse(1, "runs", "is a list of tables: write [[runs]], with two brackets")
        choices: dict[str, Sequence[Any]] = {}
        for written, value in table.items():
            key = written.replace("-", "_")
            line = self._lines.key("runs", written, number)
            if key not in _KEYS:
                self._refuse(line, written, _nothing(key, _KEYS))
            is_range = key == "seed" and isinstance(value, str)
            choices[key] = (
                self._seeds(line, value) if is_range else list(self._choices(line, key, value))
            )
        if not any(name in choices for name in ("firmware", "kernel", "bios", "pflash")):
            line = self._lines.header("runs", number)
            self._refuse(line, "firmware", "is missing; so are kernel, bios and pflash")
        if "interval" not in choices:
            for key in ("event", "kinds", "min_latency", "jitter"):
                if key in choices:
                    line = self._lines.key("runs", key, number)
                    self._refuse(line, key, "goes with interval only")
        size = math.prod(map(len, choices.values()))
        if size > most:
            line = self._lines.header("runs", number)
            before = f" and {MOST_RUNS - most} before them" if most < MOST_RUNS else ""
            self._refuse(line, "runs", f"{size} combinations{before} are more than {MOST_RUNS}")
        return choices

    def _runs(self, number: int, choices: dict[str, Sequence[Any]]) -> Iterator[PlannedRun]:
        """All combinations of the values of one ``[[runs]]``. The last key changes fastest."""
        for combination in itertools.product(*choices.values()):
            yield self._run(number, dict(zip(choices, combination, strict=True)))

    def _seeds(self, line: int, value: str) -> range:
        """The seeds of a text such as ``0-99``."""
        match = re.fullmatch(r"([0-9]{1,19})-([0-9]{1,19})", value)
        first, last = map(int, match.groups()) if match else (1, 0)
        if not first <= last <= MOST:
            said = f'is a number up to {MOST}, a list, or such as "0-99", got {value!r:.40}'
            self._refuse(line, "seed", said)
        if last - first >= MOST_RUNS:
            self._refuse(line, "seed", f"{last - first + 1} seeds are more than {MOST_RUNS}")
        return range(first, last + 1)

    def _choices(self, line: int, key: str, value: Any) -> Iterator[Any]:
        """The values of a key, each checked. Names of files become absolute paths."""
        many = isinstance(value, list) and (
            key not in _LISTS or any(isinstance(item, list) for item in value)
        )
        values = value if many else [value]
        if not values:
            self._refuse(line, key, "is an empty list, and so there is nothing to run")
        for item in values:
            checked = self._checked(line, key, _KEYS[key], item)
            if key in FILES:
                yield from self._files(line, key, checked)
            elif key == "core":
                is_text = not self._beside(named(key, checked).file).is_file()
                yield checked if is_text else self._within(line, key, checked)
            elif key in WITHIN:
                yield tuple(self._within(line, key, text) for text in checked)
            elif key in FOLDERS:
                is_text = isinstance(checked, str)
                folders = (checked,) if is_text else checked
                found = tuple(self._folder(line, key, text) for text in folders)
                yield found[0] if is_text else found
            else:
                yield checked

    def _beside(self, name: str) -> Path:
        return self._path.absolute().parent / name

    def _within(self, line: int, key: str, text: str) -> str:
        """The text of an option, with the absolute path of the file that it names."""
        found = named(key, text)
        path = self._beside(found.file)
        try:
            is_there = bool(found.file) and path.is_file()
        except (OSError, ValueError) as error:
            self._refuse(line, key, f"{text!r}: {error}")
        if not is_there:
            self._refuse(line, key, f"{text!r}: there is no file {found.file!r}")
        return found.of(path)

    def _folder(self, line: int, key: str, text: str) -> str:
        """The text of an option, with the absolute path of the folder that it names."""
        found = named(key, text)
        path = self._beside(found.file)
        try:
            if not found.file or not path.is_dir():
                raise FileError(f"there is no folder {found.file!r}")
            what_is_below(path)
        except (OSError, FileError) as error:
            self._refuse(line, key, str(error))
        return found.of(path)

    def _files(self, line: int, key: str, pattern: str) -> Iterator[str]:
        """The absolute paths of the files that match a pattern, sorted."""
        base = self._path.absolute().parent
        anchor = Path(Path(pattern).anchor) if Path(pattern).is_absolute() else base
        below = str(Path(pattern).relative_to(anchor)) if anchor != base else pattern
        try:
            found = sorted(path for path in anchor.glob(below) if path.is_file())
        except (ValueError, NotImplementedError, OSError) as error:
            self._refuse(line, key, f"{pattern!r}: {error}")
        if not found:
            self._refuse(line, key, f"there is no file {pattern!r} below {anchor}")
        yield from map(str, found)

    def _run(self, number: int, values: dict[str, Any]) -> PlannedRun:
        """One combination of ``[[runs]]`` as a run; its machine has to be possible."""
        typed, count = values.pop("input", ""), values.pop("count", ())
        sampling = {_SAMPLING[key]: values.pop(key) for key in list(values) if key in _SAMPLING}
        jitter = values.pop("jitter", True)
        key = next(iter(values))
        try:
            run = PlannedRun(
                values, Sampling(**sampling, jitter=jitter) if sampling else None, typed, count
            )
            key = "core"
            _ = run.machine.profile
        except (OptionError, CoreError) as error:
            said = str(error)
            named = said.partition("`")[2].partition("`")[0]
            key = {"period": "interval"}.get(named, named or key)
            line = self._lines.key("runs", key, number)
            self._refuse(line, key, re.sub(r"^`\w+`:? ", "", said))
        self._check_events(number, run)
        return run

    def _check_events(self, number: int, run: PlannedRun) -> None:
        """Refuse events that the run's machine cannot count, or cannot sample."""
        with_model = run.machine.model == "cache"
        for event in map(one_event, run.count):
            reason = why_not_counted(event, with_model=with_model)
            if reason is not None:
                line = self._lines.key("runs", "count", number)
                self._refuse(line, "count", f"{event.text} cannot be counted: {reason}")
        sampled = None if run.sampling is None else run.sampling.named
        reason = None if sampled is None else why_not_sampled(sampled, with_model=with_model)
        if sampled is not None and reason is not None:
            line = self._lines.key("runs", "event", number)
            self._refuse(line, "event", f"{sampled.text} cannot be sampled: {reason}")

    def _checked(self, line: int, key: str, check: Callable[[Any], Any], value: object) -> Any:
        try:
            return check(value)
        except ValueError as error:
            self._refuse(line, key, str(error))

    def _refuse(self, line: int, key: str, said: str) -> Any:
        raise PlanError(f"{self._path}:{line}: {key}: {said}")


def _nothing(key: str, known: Any) -> str:
    """What is said of a key that is not among the ``known`` ones."""
    near = get_close_matches(key, list(known), n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    return f"there is no such key: {meant}"
