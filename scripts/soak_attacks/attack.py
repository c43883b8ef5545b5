"""What an attack is, and which there are: each file of ``kinds`` is one.

Such a file has a docstring, whose first line is the summary, and a function
``attack(random, folder) -> int``. All its chance comes from ``random``, ``folder`` is an empty
folder of its own. It returns how many things it has tried, and raises whatever it likes, best
:class:`AttackError`, if one of them went wrong. It may also end its process, or not return at all:
it runs in a process of its own under a watchdog. A file with another limit than :data:`LIMIT` says
``LIMIT``, in seconds.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

LIMIT = 120
"""Seconds after which an attempt has hung. The host may be busy."""
KINDS = Path(__file__).with_name("kinds")


class AttackError(Exception):
    """An attack went through; the message says what is wrong."""


@dataclass(frozen=True)
class Attack:
    """A kind of attack. ``run(random, folder)`` makes one attempt."""

    name: str
    summary: str
    run: Callable[[Random, Path], int]
    limit: float = LIMIT

    def attempt(self, seed: int, folder: Path) -> int:
        """Make the attempt of a seed: how many things were tried. Raises if one went wrong."""
        return self.run(Random(f"{self.name} {seed}"), folder)


def attacks() -> dict[str, Attack]:
    """Every kind of attack by its name, which is that of its file with dashes."""
    found = {}
    for file in sorted(KINDS.glob("*.py")):
        if file.stem != "__init__":
            attack = _attack(file.stem)
            found[attack.name] = attack
    return found


def _attack(stem: str) -> Attack:
    module = importlib.import_module(f"kinds.{stem}")
    assert module.__doc__ is not None
    return Attack(
        stem.replace("_", "-"),
        module.__doc__.splitlines()[0].rstrip("."),
        module.attack,
        getattr(module, "LIMIT", LIMIT),
    )
