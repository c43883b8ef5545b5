"""Damaged JSON Lines of records, decoded."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated_text
from recordings import recordings

FILES = 20
LINES = 40


def attack(random: Random, folder: Path) -> int:
    """Damage some lines."""
    for number in range(FILES):
        lines = random.choice(recordings(".jsonl")).decode().splitlines(keepends=True)
        at = random.randrange(len(lines))
        file = folder / f"{number}.jsonl"
        file.write_bytes(mutated_text(random, "".join(lines[at : at + LINES])))
        call("decode", "--format", random.choice(("text", "json")), file)
    return FILES
