"""What an attack is, and which there are: each file in ``kinds`` and its folders is one.

Such a file has a docstring, whose first line is the summary, and a function
``attack(random, folder) -> int``. All its chance comes from ``random``, ``folder`` is an empty
folder of its own. It returns how many things it has tried, and raises whatever it likes, best
:class:`AttackError`, if one of them went wrong. It may also end its process, or not return at all:
it runs in a process of its own under a watchdog. A file with another limit than :data:`LIMIT` says
``LIMIT``, in seconds of a processor.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

LIMIT = 120
"""Seconds of a processor after which an attempt has hung, its processes together."""
ASLEEP = 30
"""So many times the limit is an end by the clock, for what sleeps."""
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


def attacks(folder: Path = KINDS) -> dict[str, Attack]:
    """Every kind of attack by its name, which is that of its file with dashes."""
    found = (_attack(file) for file in sorted(folder.rglob("*.py"), key=lambda file: file.stem))
    return {attack.name: attack for attack in found}


def _attack(file: Path) -> Attack:
    spec = importlib.util.spec_from_file_location(f"attack_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.__doc__, f"{file} says nothing of what it attacks"
    return Attack(
        file.stem.replace("_", "-"),
        module.__doc__.splitlines()[0].rstrip("."),
        module.attack,
        getattr(module, "LIMIT", LIMIT),
    )
