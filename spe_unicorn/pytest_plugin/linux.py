"""The Linux guest of tests: booted once, and each command starts where it waited."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spe_unicorn import __version__
from spe_unicorn.session.choices import machine_options
from spe_unicorn.session.linux.booted import snapshot_file
from spe_unicorn.session.linux.guest import command_line
from spe_unicorn.session.linux.lines import placed
from spe_unicorn.session.linux.names import kernel_names
from spe_unicorn.session.linux.planned import MODULES, RAM, Wanted, addition, planned
from spe_unicorn.session.linux.starts import Command, Limits, Point, Result, Starts
from spe_unicorn.symbols.choice import SymbolChoice

_FILES: Final = ("kernel", "initrd", "modules", "cache")
_OWN: Final = {"add", "module", "root", "busybox", "suite", "after", "misuse"}.union(_FILES)
_SECONDS = 120.0
"""Seconds of the host that a command may take, unless the test says otherwise."""


class LinuxOfTest:
    """A guest that has booted. What commands write below ``/out`` is in ``folder``, one by one."""

    def __init__(
        self,
        folder: Path,
        wanted: Wanted,
        options: Mapping[str, Any],
        *,
        misuse: bool = False,
    ) -> None:
        names = folder / "names" if misuse else None
        if names is not None:
            names.mkdir(exist_ok=True)
        shared = tuple(options.get("share", ()))
        wanted = replace(wanted, out=folder, shared=shared, told=names)
        plan = planned(wanted)
        disk = folder / "initrd"
        disk.write_bytes(plan.initrd)
        files = {"kernel": str(plan.kernel), "initrd": str(disk), "share": plan.stored.share}
        drive = (*options.get("drive", ()), *plan.stored.drives(folder))
        usual = {"ram": RAM, **options, "append": command_line(options.get("append"))}
        machine = machine_options(None, {**usual, **files, "drive": drive, "reboot": False})
        kept = wanted.snapshots(__version__)
        file = snapshot_file(machine, plan.stored.mounted, kept, _say)
        symbols: tuple[SymbolChoice, ...] = ()
        if names is not None:
            told = kernel_names(machine, file, plan.stored.telling, names, _say)
            symbols = placed(told, plan.modules, (), names)
        self._starts = Starts(Point(machine, file, plan.after, folder, misuse, symbols))
        self._runs = 0

    @classmethod
    def of(cls, folder: Path, **options: Any) -> LinuxOfTest:
        """A guest by the options of ``spe-unicorn linux`` and of the machine, in Python's words.

        ``after`` is its ``--from``, and ``misuse`` looks for mistakes in how SPE is programmed.
        """
        own = {name: options.pop(name) for name in _OWN & options.keys()}
        point, misuse = own.pop("after", MODULES), own.pop("misuse", False)
        own["add"] = tuple(map(addition, own.pop("add", ())))
        for name in _FILES:
            if own.get(name) is not None:
                own[name] = Path(own[name])
        drives = len(options.get("drive", ()))
        return cls(folder, Wanted(**own, point=point, drives=drives), options, misuse=misuse)

    def run(self, *words: str, operations: int | None = None, timeout: float = _SECONDS) -> Result:
        """Run a command where the guest waited: its status, console, files, and what went wrong.

        ``operations`` and ``timeout``, in seconds of the host, are the most that it may take.
        """
        command = Command(" ".join(words), words)
        self._runs += 1
        return self._starts.run(self._runs - 1, command, Limits(operations, timeout))


def _say(text: str) -> None:
    sys.stderr.write(f"spe_linux: {text}\n")
