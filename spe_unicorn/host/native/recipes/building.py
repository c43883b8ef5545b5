"""Builds the steps of a recipe one by one, with the value of each register so far."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import NZCV, SP
from spe_unicorn.bits import signed
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.native.recipes.steps import MOST_STEPS, Kind, Recipe, Step, Value

_MASK: Final = (1 << 64) - 1
_INPUTS: Final = {
    Kind.REGISTER: 0,
    Kind.CONSTANT: 0,
    Kind.PC: 0,
    Kind.LOGICAL_FLAGS: 1,
    Kind.LOAD: 1,
    Kind.SELECT: 3,
}
"""How many of ``a``, ``b`` and ``c`` a step of this kind has, if not two."""


class Steps:
    """The steps so far, and the value of each register after them."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._places: dict[Step, int] = {}
        self._now: dict[int, Value] = {}

    def of(self, register: int) -> Value:
        """The value of X0 to X30, :data:`SP` or :data:`NZCV`."""
        if register not in self._now:
            number = e.NZCV if register == NZCV else e.SP if register == SP else e.X[register]
            self._now[register] = self.step(Kind.REGISTER, number=number)
        return self._now[register]

    def step(
        self,
        kind: Kind,
        a: Value = 0,
        b: Value = 0,
        c: Value = 0,
        *,
        condition: int = 0,
        number: int = 0,
    ) -> Value:
        """Add a step, and return its value; None if one of its inputs is not known."""
        if a is None or b is None or c is None:
            return None
        step = Step(kind, a, b, c, condition, number)
        place = self._places.setdefault(step, len(self._steps))
        if place == len(self._steps):
            self._steps.append(step)
        return place

    def number(self, number: int) -> Value:
        """Add a step that is a constant, and return its value."""
        return self.step(Kind.CONSTANT, number=number & _MASK)

    def _distance(self, a: int, b: int) -> int | None:
        """``a - b``, which has a sign, if both are one value and constants; None if not."""
        first, one = self._origin(a)
        second, other = self._origin(b)
        return signed(one - other & _MASK) if first == second else None

    def _origin(self, value: int) -> tuple[Step | int, int]:
        """What a value is the sum of: the place of another or what stands for the PC, a number."""
        number = 0
        step = self._steps[value]
        while step.kind is Kind.ADD and self._steps[step.b].kind is Kind.CONSTANT:
            number += self._steps[step.b].number
            value = step.a
            step = self._steps[value]
        if step.kind is Kind.PC:
            return step._replace(number=0), number + step.number
        return value, number

    def recipe(self, base: Value, index: Value, flags: Value) -> Recipe | None:
        """The recipe for the values of a base register, an index register and condition flags.

        A value that is None is not in it. The recipe has the steps that lead to the others, and no
        more. Return None if these are more than ``MOST_STEPS``.
        """
        needed = [False] * len(self._steps)
        for value in (base, index, flags):
            if value is not None:
                needed[value] = True
        for place in range(len(needed) - 1, -1, -1):
            if needed[place]:
                step = self._steps[place]
                for value in (step.a, step.b, step.c)[: _INPUTS.get(step.kind, 2)]:
                    needed[value] = True
        places: dict[int, int] = {}
        steps: list[Step] = []
        for place, step in enumerate(self._steps):
            if needed[place]:
                places[place] = len(steps)
                a, b, c = (places.get(value, 0) for value in (step.a, step.b, step.c))
                steps.append(step._replace(a=a, b=b, c=c))
        if len(steps) > MOST_STEPS:
            return None
        found = (0 if v is None else places[v] + 1 for v in (base, index, flags))
        return Recipe(tuple(steps), *found)
