"""Random programs with hostile words and writes of control registers among their own."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hostile import control, hostile_word, levels, program, random_loop, run

OPERATIONS = 60_000


def attack(random: Random, folder: Path) -> int:
    """One program."""
    start, target = levels(random)
    code = random_loop(random)[:-1]
    for _ in range(random.randrange(20)):
        at = random.randrange(len(code) + 1)
        if random.random() < 0.5:
            code[at : at + 1] = [hostile_word(random)]
        else:
            code[at:at] = control(random, random.randrange(16))
    elf = program(random, code, start=start, target=target, controls=random.choice((0, 3, 30)))
    run(random, folder, elf, start, OPERATIONS)
    return 1
