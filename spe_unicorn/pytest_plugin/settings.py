"""What ``pyproject.toml`` says of ELF files that are tests: ``[[tool.spe-unicorn.elf]]``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_MOST_SEEDS: Final = 10_000
"""With each a file is run before the first test begins."""


class SettingsError(ValueError):
    """A table that cannot be meant so: one line that names the file, the table and the key."""


@dataclass(frozen=True)
class ElfTests:
    """ELF files that are tests, and how they are run.

    ``files`` are patterns beside ``root``. ``machine`` are options of MachineOptions by name.
    ``input`` is typed on the console before the run. ``until`` is the POINT at which the run ends
    well, None where the guest ends itself. ``max_insns`` is in operations, ``timeout`` in seconds
    of CPU. With ``seeds`` each file runs once with each of them.
    """

    root: Path
    files: tuple[str, ...]
    machine: dict[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    input: str = ""
    until: str | None = None
    max_insns: int = 1_000_000_000
    timeout: float = 60.0
    seeds: tuple[int, ...] = ()

    def with_seed(self, seed: int) -> ElfTests:
        """The same, with one seed."""
        return replace(self, machine={**self.machine, "seed": seed}, seeds=())

    def paths(self) -> list[Path]:
        """The files that there are, in order. Raises SettingsError for a pattern without any."""
        found: dict[Path, None] = {}
        for pattern in self.files:
            if Path(pattern).is_absolute():
                anchor = Path(Path(pattern).anchor)
                matches = sorted(anchor.glob(str(Path(pattern).relative_to(anchor))))
            else:
                matches = sorted(self.root.glob(pattern))
            if not matches:
                raise SettingsError(f"{pattern}: there is no such file below {self.root}")
            found.update(dict.fromkeys(path.absolute() for path in matches if path.is_file()))
        return list(found)


def seeds_of(text: str) -> tuple[int, ...]:
    """The seeds of a text such as ``0-31`` or ``7``. Raises SettingsError."""
    from spe_unicorn.session.toml_values import MOST

    match = re.fullmatch(r"([0-9]{1,19})(?:-([0-9]{1,19}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not first <= last <= MOST:
        raise SettingsError(f"--spe-seeds: {text!r:.40} is no range of seeds such as 0-31")
    if last - first >= _MOST_SEEDS:
        raise SettingsError(f"--spe-seeds: {last - first + 1} seeds are more than {_MOST_SEEDS}")
    return tuple(range(first, last + 1))


def from_pyproject(path: Path) -> list[ElfTests]:
    """The tables of a ``pyproject.toml``, none where it has none or is not there.

    Raises SettingsError.
    """
    if not path.is_file():
        return []
    try:
        tables = (
            tomllib.loads(path.read_text()).get("tool", {}).get("spe-unicorn", {}).get("elf", [])
        )
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from None
    if not isinstance(tables, list):
        raise SettingsError(f"{path}: write [[tool.spe-unicorn.elf]], with two brackets")
    return [_table(path, number, table) for number, table in enumerate(tables, 1)]


def _table(path: Path, number: int, table: dict[str, Any]) -> ElfTests:
    from spe_unicorn.machine.options import MachineOptions
    from spe_unicorn.session.toml_values import MACHINE, point, seconds, text, texts, whole

    checks: dict[str, Callable[[Any], Any]] = {
        "files": texts,
        "arguments": texts,
        "input": text,
        "until": point,
        "max_insns": whole(1),
        "timeout": seconds,
    }
    where = f"{path}: table {number} of [[tool.spe-unicorn.elf]]"
    machine = {f.name for f in fields(MachineOptions)} - {"firmware", "arguments", "sampling"}
    known = sorted(machine | set(checks))
    own: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in checks or name in machine:
            try:
                checked = checks.get(name, MACHINE.get(name, _anything))(value)
            except ValueError as error:
                raise SettingsError(f"{where}: {key}: {error}") from None
            (own if name in checks else options)[name] = checked
        else:
            near = get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise SettingsError(f"{where}: nothing is called {key!r}: {meant}")
    if not own.get("files"):
        raise SettingsError(f"{where}: files is missing, a list of patterns")
    try:
        MachineOptions(**options)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{where}: {error}") from None
    return ElfTests(path.parent, machine=options, **own)


def _anything(value: object) -> Any:
    """The check of an option that is checked by MachineOptions alone."""
    return value
