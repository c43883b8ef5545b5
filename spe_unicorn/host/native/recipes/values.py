"""The values of general registers and the flags before each operation of a block, as steps.

A value is known if plain integer instructions compute it from the registers at the block's start,
or from what the block loads before it stores anything. Every other value is None.
"""

from __future__ import annotations

from spe_unicorn.arch.operation import (
    NZCV,
    Extend,
    Family,
    Instruction,
    Mark,
    RegisterKind,
)
from spe_unicorn.decode import transfer
from spe_unicorn.host.native.recipes.building import Steps
from spe_unicorn.host.native.recipes.integers import Integers
from spe_unicorn.host.native.recipes.steps import Kind, Value


class Values(Steps):
    """The values before one operation of a block, from the block's first operation on.

    ``loads`` says that all memory which the guest's loads reach can be read without any effect.
    """

    def __init__(self, *, loads: bool) -> None:
        super().__init__()
        self._loads = loads

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
        """Set the registers that a load or store writes."""
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
            index = self._index(access.index, access.extend, access.shift)
            address = self.step(Kind.ADD, address, index)
        for number, register in enumerate((moved.rt, moved.rt2)):
            if register is None or register == 31:
                continue
            there = self._sum(address, number * moved.size)
            value = self.step(Kind.LOAD, there, number=moved.size)
            made[register] = self._extended(value, moved.size, moved.signed, moved.width64)
        return made

    def _index(self, register: int, extend: Extend, shift: int) -> Value:
        value = self.of(register)
        if extend is Extend.UXTW:
            value = self.step(Kind.AND, value, self._number(0xFFFF_FFFF))
        elif extend is Extend.SXTW:
            value = self._signed(value, 32)
        return self.step(Kind.LEFT, value, self._number(shift))

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
