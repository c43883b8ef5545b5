"""Good files of records, of every format, made once a process."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from command import call

from spe_unicorn.machine.shipped import shipped_firmware

RUNS = (
    ("run", "spe_copy", ()),
    ("run", "spe_smp", ("--smp", "4")),
    ("run", "spe_branches", ("--core", "max")),
    ("record", "mix", ("-c", "997", "--core", "max")),
)
"""Command, program and options."""


@functools.cache
def recordings(suffix: str) -> tuple[bytes, ...]:
    """What the runs write to a file with a suffix."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"records{suffix}")
        for command, name, options in RUNS:
            call(command, "--quiet", *options, "-o", file, shipped_firmware(name))
            data = file.read_bytes()
            assert data, f"{command} {name} wrote no records"
            found.append(data)
    return tuple(found)
