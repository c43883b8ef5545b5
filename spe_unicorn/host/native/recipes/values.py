"""The values of general registers and the flags on their way through a block, as steps.

Only what plain integer instructions make of what there was at the block's start is known, and what
they load before the block stores anything: everything else is None.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import (
    NZCV,
    SP,
    Access,
    Extend,
    Family,
    Instruction,
    Mark,
    RegisterKind,
)
from spe_unicorn.decode import transfer
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.native.recipes.integers import Integers
from spe_unicorn.host.native.recipes.steps import MOST_STEPS, Kind, Recipe, Step, Value

_INPUTS: Final = {
    Kind.REGISTER: 0,
    Kind.CONSTANT: 0,
    Kind.PC: 0,
    Kind.LOGICAL_FLAGS: 1,
    Kind.LOAD: 1,
    Kind.SELECT: 3,
}
"""How many of ``a``, ``b`` and ``c`` a step has, if not two."""


class Values:
    """The values before one operation of a block, from its first on.

    ``loads``: all memory that a load of the guest's reaches can be read without any effect.
    """

    def __init__(self, *, loads: bool) -> None:
        self._steps: list[Step] = []
        self._places: dict[Step, int] = {}
        self._now: dict[int, Value] = {}
        self._loads = loads

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
        """The value of a step, None if one that it is made of is not known."""
        if a is None or b is None or c is None:
            return None
        step = Step(kind, a, b, c, condition, number)
        place = self._places.setdefault(step, len(self._steps))
        if place == len(self._steps):
            self._steps.append(step)
        return place

    def recipe(self, base: Value, index: Value, flags: Value) -> Recipe | None:
        """How to come by values that are known, None for those that nobody needs.

        None if that takes too many steps.
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

    def execute(self, instruction: Instruction, place: int) -> None:
        """Go on to the operation after ``instruction``, before which there are ``place`` others."""
        made: dict[int, Value] = {}
        if instruction.access is not None or instruction.family is not Family.OTHER:
            made = self._moved(instruction, place)
        elif instruction.mark is Mark.NONE and not instruction.sve and instruction.writes:
            made = Integers(self, 4 * place).results(instruction.word)
        for register in range(NZCV + 1):
            if instruction.writes >> register & 1:
                self._now[register] = made.get(register)
        if self._may_store(instruction):
            self._loads = False

    @staticmethod
    def _may_store(instruction: Instruction) -> bool:
        if instruction.elements is not None or instruction.sve:
            return True
        if instruction.access is None:
            return instruction.family not in (Family.OTHER, Family.BRANCH)
        plain = instruction.registers in (RegisterKind.GENERAL, RegisterKind.SIMD_FP)
        return instruction.family is not Family.LOAD or not plain

    def _moved(self, instruction: Instruction, place: int) -> dict[int, Value]:
        """What a load or store makes of registers."""
        access = instruction.access
        made: dict[int, Value] = {}
        if access is None or access.scalable or access.authenticated or access.unprivileged:
            return made
        base = self.step(Kind.PC, number=4 * place) if access.base is None else self.of(access.base)
        if access.base is not None and access.writeback is not None:
            made[access.base] = self._sum(base, access.writeback)
        moved = transfer(instruction.word)
        if moved is None or not moved.load or instruction.part or not self._loads:
            return made
        address = self._sum(base, access.offset)
        if access.index is not None:
            address = self.step(Kind.ADD, address, self._index(access))
        for number, register in enumerate((moved.rt, moved.rt2)):
            if register is None or register == 31:
                continue
            there = self._sum(address, number * moved.size)
            value = self.step(Kind.LOAD, there, number=moved.size)
            made[register] = self._extended(value, moved.size, moved.signed, moved.width64)
        return made

    def _index(self, access: Access) -> Value:
        assert access.index is not None
        value = self.of(access.index)
        if access.extend is Extend.UXTW:
            value = self.step(Kind.AND, value, self._number(0xFFFF_FFFF))
        elif access.extend is Extend.SXTW:
            value = self._signed(value, 32)
        return self.step(Kind.LEFT, value, self._number(access.shift))

    def _extended(self, value: Value, size: int, signed: bool, width64: bool) -> Value:
        if signed:
            value = self._signed(value, 8 * size)
            if not width64:
                value = self.step(Kind.AND, value, self._number(0xFFFF_FFFF))
        return value

    def _signed(self, value: Value, bits: int) -> Value:
        shift = self._number(64 - bits)
        return self.step(Kind.ARITHMETIC, self.step(Kind.LEFT, value, shift), shift)

    def _sum(self, value: Value, number: int) -> Value:
        return self.step(Kind.ADD, value, self._number(number)) if number else value

    def _number(self, number: int) -> Value:
        return self.step(Kind.CONSTANT, number=number)
