"""Damaged core profiles (TOML), shown and run."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated_text

from spe_unicorn import cores
from spe_unicorn.cores.profile import core_names
from spe_unicorn.machine.shipped import shipped_firmware

FILES = 12


def attack(random: Random, folder: Path) -> int:
    """Damage some of the profiles that come along."""
    for number in range(FILES):
        name = random.choice(core_names())
        text = Path(cores.__file__).with_name(f"{name}.toml").read_text()
        file = folder / f"{number}.toml"
        file.write_bytes(mutated_text(random, text))
        if call("cores", file).exit_code == 0:
            model = random.choice(("none", "cache"))
            options = ("--core", file, "--model", model, "--max-insns", "20000", "--timeout", "30")
            call("run", "--quiet", *options, shipped_firmware("spe_copy"))
    return FILES
