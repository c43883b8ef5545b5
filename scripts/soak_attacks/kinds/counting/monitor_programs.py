"""Programs of the Performance Monitors and SPE at random: both runners read and count the same.

The programs are those of tests/host/counting/random_monitors.py.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.host.counting.random_monitors import a_core, assert_counted_the_same

OPERATIONS = 5000


def attack(random: Random, folder: Path) -> int:
    """One program, from its start at some Exception level on."""
    el = random.choice((1, 1, 2, 3, 3))
    model = random.choice(("none", "none", "cache"))
    assert_counted_the_same(str(random.getrandbits(64)), el, a_core(random), model, OPERATIONS)
    return 1
