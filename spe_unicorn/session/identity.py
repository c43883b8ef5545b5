"""The identity of a machine: two machines with equal ones can exchange snapshots."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Final

from spe_unicorn.host.engine.context import ENGINE
from spe_unicorn.machine.boot.plan import BootPlan
from spe_unicorn.machine.options import MachineOptions

_FILES: Final = frozenset({"firmware", "kernel", "initrd", "dtb", "bios", "append", "arguments"})
"""Options that are left out: the boot plan and the command line are compared instead."""
_IMAGE: Final = "image"
_COMMAND_LINE: Final = "command line"
_DRIVE: Final = "what is on "
_SAID: Final = {
    _IMAGE: "what is loaded differs: the files of the snapshot's machine have other contents",
    "core": "`core`: the profile differs from the snapshot's",
    "sampling": "how it is sampled from outside differs from the snapshot's",
    "reboot": "`reboot`: what a reset of the machine does differs from the snapshot's",
}
_WORDS: Final = {"True": "on", "False": "off", "None": "not said", "[]": "not said"}
"""Words for values of Python."""


def identity(options: MachineOptions, plan: BootPlan, drives: Mapping[str, str]) -> dict[str, str]:
    """What a machine is, as texts by name: machines with equal texts are equal.

    ``drives`` are digests of the contents of its drives, by the names of their files.
    """
    pieces = [(p.address, p.size, digest(p.data)) for p in plan.pieces]
    start = (plan.entry, plan.el, plan.x, plan.conduit)
    found = {
        field.name: _canonical(getattr(options, field.name))
        for field in dataclasses.fields(options)
        if field.name not in _FILES
    }
    found["core"] = digest(_canonical(options.profile).encode())
    found["semihosting_dir"] = "none" if options.semihosting_dir is None else "a folder"
    found[_IMAGE] = digest(repr((pieces, start)).encode())
    found[_COMMAND_LINE] = options.command_line.decode(errors="replace")
    found.update((_DRIVE + name, held) for name, held in drives.items())
    found["engine"] = ENGINE
    return found


def core_and_engine(options: MachineOptions) -> str:
    """A digest of what a machine is besides its options: the core's profile, and the engine."""
    return digest(f"{_canonical(options.profile)} {ENGINE}".encode())


def with_files(
    saved: Mapping[str, str], share: Sequence[str], drive: Sequence[str], moved: Sequence[Path]
) -> dict[str, str]:
    """The identity of a machine that is ``saved`` but for the folders that it shares, and disks.

    ``moved`` are files of ``drive``: what was on one that had the same name has to be on it.
    """
    now = {file.name: str(file) for file in moved}
    found = dict(saved)
    for name in [name for name in saved if name.startswith(_DRIVE)]:
        file = name.removeprefix(_DRIVE)
        text = found.pop(name)
        found[_DRIVE + now.get(Path(file).name, file)] = text
    return {**found, "share": _canonical(tuple(share)), "drive": _canonical(tuple(drive))}


def difference(mine: Mapping[str, str], saved: Mapping[str, str]) -> str | None:
    """A sentence about the first difference, None if there is none."""
    for name in dict.fromkeys((*mine, *saved)):
        here, there = mine.get(name), saved.get(name)
        if here == there:
            continue
        if here is None or there is None:
            return f"`{name}` is known to one of the two releases only"
        if name == "engine":
            return f"it was saved with {there}, here is {here}"
        if name.startswith(_DRIVE):
            return f"`drive`: {name.removeprefix(_DRIVE)} holds something else than it did then"
        if name == _COMMAND_LINE:
            return f"the guest is told that its command line is {here!r}, it was {there!r}"
        if name in _SAID:
            return _SAID[name]
        return f"`{name}` is {_said(here)} here and {_said(there)} in the snapshot"
    return None


def _said(value: str) -> str:
    """A value of :func:`identity` for a sentence: a list without its brackets."""
    return _WORDS.get(value) or (value[1:-1] if value[0] == "[" else value)


def digest(data: bytes) -> str:
    """A digest that tells contents apart, in hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()


def _canonical(value: object) -> str:
    """A text that is the same for equal plain data in every process."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return type(value).__name__ + _canonical(fields)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, Mapping):
        items = sorted((_canonical(key), _canonical(item)) for key, item in value.items())
        return "{" + ", ".join(": ".join(item) for item in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_canonical, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_canonical, value)) + "]"
    if type(value).__module__.startswith("spe_unicorn."):
        public = {name: item for name, item in vars(value).items() if name[0] != "_"}
        return type(value).__name__ + _canonical(public)
    return repr(value)
