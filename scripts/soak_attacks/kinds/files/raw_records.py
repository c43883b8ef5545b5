"""Damaged raw streams of records (.spe), and noise, decoded."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated
from recordings import recordings

FILES = 20
PIECE = 8192


def attack(random: Random, folder: Path) -> int:
    """Damage pieces of some streams."""
    for number in range(FILES):
        data = random.choice(recordings(".spe"))
        at = random.randrange(len(data))
        piece = mutated(random, data[at : at + PIECE])
        if random.random() < 0.2:
            piece = random.randbytes(random.randrange(2000))
        file = folder / f"{number}.spe"
        file.write_bytes(piece)
        call("decode", "--format", random.choice(("text", "json")), file)
    return FILES
