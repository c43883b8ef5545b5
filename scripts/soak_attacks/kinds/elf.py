"""Damaged ELF files, loaded and run.

The code of what still loads is run for a while.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated

from spe_unicorn.machine.shipped import shipped_firmware, shipped_names

FILES = 12
HEADERS = 64 + 8 * 56
"""Bytes of an ELF file in which its headers are."""


def attack(random: Random, folder: Path) -> int:
    """Damage some of the shipped programs."""
    for number in range(FILES):
        data = shipped_firmware(random.choice(shipped_names())).read_bytes()
        if random.random() < 0.5:  # section headers and symbols are at the end
            tail = random.randrange(1, 4096)
            data = data[:-tail] + mutated(random, data[-tail:])
        else:
            data = mutated(random, data, HEADERS)
        file = folder / f"{number}.elf"
        file.write_bytes(data)
        call("run", "--quiet", "--max-insns", "20000", "--timeout", "30", file)
    return FILES
