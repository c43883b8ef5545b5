"""Exceptions of all kinds at all Exception levels: EXC_* events are those of Arm's table.

The programs are those of tests/host/counting/random_exceptions.py. Both runners take the same, and
each counts it as Table D14-1 of the Arm ARM says.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.host.counting.random_exceptions import assert_counted_by_the_table


def attack(random: Random, folder: Path) -> int:
    """One program; how many exceptions it took."""
    return assert_counted_by_the_table(str(random.getrandbits(64)))
