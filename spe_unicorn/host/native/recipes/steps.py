"""What a recipe is made of: steps, each of which gives one value of 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from spe_unicorn.bits import signed

Value = int | None
"""A value as the place of its step, None for one that is not known."""
MOST_STEPS: Final = 48
"""Steps of the longest recipe."""
STEP_WORDS: Final = 2
_MASK: Final = (1 << 64) - 1


class Kind(IntEnum):
    """What a step does with the values of earlier steps ``a``, ``b`` and ``c``."""

    REGISTER = 0
    """The register whose engine number is ``number``, at the block's start."""
    CONSTANT = 1
    """The constant ``number``."""
    PC = 2
    """The sum of the block's address and ``number``."""
    ADD = 3
    MULTIPLY = 4
    AND = 5
    OR = 6
    XOR = 7
    LEFT = 8
    """``a`` shifted left by ``b`` modulo 64. The next two kinds shift by ``b`` modulo 64, too."""
    RIGHT = 9
    ARITHMETIC = 10
    """``a`` shifted right, with copies of its sign."""
    SUM_FLAGS = 11
    """The condition flags of ``a + b`` in ``number`` bits, and one more if ``condition`` is 1."""
    LOGICAL_FLAGS = 12
    """The condition flags of ``a``, as a result of ``number`` bits with C and V clear."""
    SELECT = 13
    """``a`` if ``condition`` holds with the condition flags ``c``, else ``b``."""
    LOAD = 14
    """``number`` bytes of memory at ``a``, extended with zeros."""
    APART = 15
    """``a``, if the bytes at ``a`` are in other memory than those at ``b``: bits 7:0 of ``number``
    say how many those at ``a`` are, bits 15:8 how many those at ``b``. With ``condition`` also if
    ``a`` is ``b``. In all other cases the recipe says nothing."""


class Step(NamedTuple):
    """One step. ``a``, ``b`` and ``c`` are the places of earlier steps, 0 where there is none.

    Condition flags are in bits 31 to 28, as in the register NZCV.
    """

    kind: Kind
    a: int = 0
    b: int = 0
    c: int = 0
    condition: int = 0
    number: int = 0

    @property
    def words(self) -> tuple[int, int]:
        """The step as compiled code reads it."""
        inputs = self.a << 8 | self.b << 16 | self.c << 24
        return self.kind | inputs | self.condition << 32, signed(self.number & _MASK)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps, and the places of those that give base, index and condition flags.

    Places count from 1; 0 stands for none.
    """

    steps: tuple[Step, ...]
    base: int = 0
    index: int = 0
    flags: int = 0

    @property
    def words(self) -> list[int]:
        """The steps as compiled code reads them."""
        return [word for step in self.steps for word in step.words]

    def at(self, place: int) -> int:
        """The last word of its plan: the steps stand ``place`` words after those of the block."""
        counts = self.base << RECIPE_BASE | self.index << RECIPE_INDEX | self.flags << RECIPE_FLAGS
        return counts | len(self.steps) << RECIPE_STEPS | place


RECIPE_STEPS: Final = 24
RECIPE_BASE: Final = 32
RECIPE_INDEX: Final = 40
RECIPE_FLAGS: Final = 48
"""Shifts of the parts of the plan's last word. The lowest bits of the word are the place."""
