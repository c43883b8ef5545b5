"""Shipped programs: from any place on they run as they are stepped, in every mode.

What is compared is what tests/firmware/sampling/test_differential.py compares.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from attack import AttackError

from spe_unicorn.cores.profile import core_names
from tests.firmware.differences import NAMES, differences

LIMIT = 240
FURTHEST = 400_000
"""Operations from the start of a program within which a window begins."""
MANY = 4000
"""Samples from outside before a window: more would take all of the time."""
WINDOW = 6000


def attack(random: Random, folder: Path) -> int:
    """One window of a program."""
    name = random.choice(NAMES)
    options: dict[str, Any] = {
        "core": random.choice(core_names()),
        "model": random.choice(("none", "none", "cache")),
        "seed": random.getrandbits(32),
    }
    if random.random() < 0.5:
        options["jitter"] = random.random() < 0.5
        options["period"] = random.choice((1, 2, 7, 64, 257, random.randrange(1, 5000)))
    begin = random.randrange(min(FURTHEST, MANY * options.get("period", FURTHEST)))
    found = differences(name, [begin], random.randrange(100, WINDOW), **options)
    if found:
        raise AttackError(f"{name} from operation {begin} on with {options}: {found}")
    return 1
