"""Any instruction words, at every Exception level, with anything in the control registers."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hostile import hostile_word, levels, program, run

WORDS = 300
OPERATIONS = 20_000


def attack(random: Random, folder: Path) -> int:
    """One program of nothing but such words."""
    start, target = levels(random)
    code = [hostile_word(random) for _ in range(WORDS)]
    controls = random.choice((0, 0, 5, 40))
    elf = program(random, code, start=start, target=target, controls=controls)
    run(random, folder, elf, start, OPERATIONS)
    return WORDS
