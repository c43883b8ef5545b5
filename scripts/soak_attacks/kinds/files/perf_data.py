"""Damaged perf.data files, decoded."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated
from recordings import recordings

FILES = 12
HEADERS = 1024
"""Bytes in which the header and the attributes are."""


def attack(random: Random, folder: Path) -> int:
    """Damage some files."""
    for number in range(FILES):
        file = folder / f"{number}.data"
        file.write_bytes(mutated(random, random.choice(recordings(".data")), HEADERS))
        call("decode", "--format", random.choice(("text", "json")), file)
    return FILES
