"""Damaged ELF files, taken for their symbols and source lines beside good records."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated
from recordings import RUNS, recordings

from spe_unicorn.machine.shipped import shipped_firmware

FILES = 4


def attack(random: Random, folder: Path) -> int:
    """Damage some programs after their records were made."""
    for number in range(FILES):
        which = random.randrange(len(RUNS))
        records = folder / f"{number}.spe"
        records.write_bytes(recordings(".spe")[which][: 64 * random.randrange(1, 200)])
        data = shipped_firmware(RUNS[which][1]).read_bytes()
        head = len(data) if random.random() < 0.3 else len(data) * 2 // 3
        elf = folder / f"{number}.elf"
        elf.write_bytes(data[:-head] + mutated(random, data[-head:]))
        words = random.choice(
            (
                ("decode", "--format", "table"),
                ("report",),
                ("report", "--sort", "symbol"),
                ("report", "--sort", "line"),
                ("report", "--html", folder / f"{number}.html"),
            )
        )
        call(*words, "--symbols", elf, records)
    return FILES
