"""The values of general registers and the flags before each operation of a block, as steps.

A value is known if integer instructions compute it from the registers at the block's start, or from
what the block loads. A load that follows stores in the block reads the stored value if the two
addresses are equal. If it overlaps none of the stores, it reads memory as it was before the block.
Every other value is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from spe_unicorn.arch.operation import (
    NZCV,
    Access,
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

_MOST_STORES: Final = 8
"""Stores of a block that are remembered, counted by registers."""
_NEAR: Final = 2048
"""Bytes within which two addresses that differ are of different memory, however it is mapped."""
_EQUAL: Final = 0
"""The condition EQ."""


class Stored(NamedTuple):
    """What one register's store leaves in memory: ``size`` bytes of ``value`` at ``address``."""

    address: int
    size: int
    value: Value


class Values(Steps):
    """The values before one operation of ``code``, a block: at first before operation 0.

    ``loads`` says that all memory which the guest's loads reach can be read without any effect.
    """

    def __init__(self, code: Sequence[Instruction], *, loads: bool) -> None:
        super().__init__()
        self._code = code
        self._loads = loads
        self._stores: list[Stored] = []
        self._place = 0

    def go_on_to(self, place: int) -> None:
        """Go on to the values before operation ``place`` of the block. There is no way back."""
        while self._place < place:
            self._execute(self._code[self._place], self._place)
            self._place += 1

    def _execute(self, instruction: Instruction, place: int) -> None:
        made: dict[int, Value] = {}
        stored = self._stored(instruction, place) if self._may_store(instruction) else []
        if instruction.access is not None or instruction.family is not Family.OTHER:
            made = self._moved(instruction, place)
        elif instruction.mark is Mark.NONE and not instruction.sve and instruction.writes:
            made = Integers(self, 4 * place).results(instruction.word)
        for register in range(NZCV + 1):
            if instruction.writes >> register & 1:
                self._now[register] = made.get(register)
        self._stores += stored or []
        if stored is None or len(self._stores) > _MOST_STORES:
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
        if access is None or not _is_by_general_registers(access):
            return made
        if access.base is not None and access.writeback is not None:
            made[access.base] = self._sum(self.of(access.base), access.writeback)
        moved = transfer(instruction.word)
        if moved is None or not moved.load or instruction.part or not self._loads:
            return made
        address = self._address(access, place)
        for number, register in enumerate((moved.rt, moved.rt2)):
            if register is None or register == 31:
                continue
            value = self._loaded(self._sum(address, number * moved.size), moved.size)
            made[register] = self._extended(
                value, moved.size, signed=moved.signed, width64=moved.width64
            )
        return made

    def _stored(self, instruction: Instruction, place: int) -> list[Stored] | None:
        """What an instruction stores; None if that, or where it does, is not known."""
        access, moved = instruction.access, transfer(instruction.word)
        if access is None or not _is_by_general_registers(access):
            return None
        if moved is None or moved.load or instruction.part:
            return None
        address = self._address(access, place)
        stored = []
        for number, register in enumerate((moved.rt, moved.rt2)):
            there = self._sum(address, number * moved.size)
            if there is None:
                return None
            if register is not None:
                value = self.number(0) if register == 31 else self.of(register)
                stored.append(Stored(there, moved.size, value))
        return stored

    def _address(self, access: Access, place: int) -> Value:
        """The lowest address of an access."""
        base = self.step(Kind.PC, number=4 * place) if access.base is None else self.of(access.base)
        address = self._sum(base, access.offset)
        if access.index is not None:
            index = self._index(access.index, access.extend, access.shift)
            address = self.step(Kind.ADD, address, index)
        return address

    def _loaded(self, address: Value, size: int) -> Value:
        """``size`` bytes at ``address``, extended with zeros, after the stores up to here."""
        met = None if address is None else self._met(address, size)
        if met is None:
            return None
        perhaps, exact = met
        alike = [stored for stored in perhaps if stored.value is not None and stored.size == size]
        if exact is not None and perhaps and not alike:
            return None  # nothing would make sure that they are apart
        apart = address
        for stored in perhaps:
            sizes = size | stored.size << 8
            apart = self.step(
                Kind.APART, apart, stored.address, condition=int(stored in alike), number=sizes
            )
        if exact is None:
            value = self.step(Kind.LOAD, apart, number=size)
        else:
            value = self._lowest(exact.value, size)
        for stored in reversed(alike):
            flags = self._difference(apart, stored.address)
            lowest = self._lowest(stored.value, size)
            value = self.step(Kind.SELECT, lowest, value, flags, condition=_EQUAL)
        return value

    def _met(self, address: int, size: int) -> tuple[list[Stored], Stored | None] | None:
        """Stores that a load of ``size`` bytes may meet, the last first, and the one it does meet.

        Only the values of the addresses tell whether it meets the former, which all come after the
        latter. None if the load meets a part of a store, or more than one store.
        """
        perhaps: list[Stored] = []
        for stored in reversed(self._stores):
            distance = self._distance(address, stored.address)
            if distance is None or abs(distance) >= _NEAR:
                perhaps.append(stored)
            elif distance == 0 and size == stored.size:
                return perhaps, stored
            elif -size < distance < stored.size:
                return None
        return perhaps, None

    def _difference(self, a: Value, b: Value) -> Value:
        """The condition flags of ``a - b``."""
        inverted = self.step(Kind.XOR, b, self.number(-1))
        return self.step(Kind.SUM_FLAGS, a, inverted, condition=1, number=64)

    def _lowest(self, value: Value, size: int) -> Value:
        return self.step(Kind.AND, value, self.number((1 << 8 * size) - 1)) if size < 8 else value

    def _index(self, register: int, extend: Extend, shift: int) -> Value:
        value = self.of(register)
        if extend is Extend.UXTW:
            value = self.step(Kind.AND, value, self.number(0xFFFF_FFFF))
        elif extend is Extend.SXTW:
            value = self._signed(value, 32)
        return self.step(Kind.LEFT, value, self.number(shift))

    def _extended(self, value: Value, size: int, *, signed: bool, width64: bool) -> Value:
        if signed:
            value = self._signed(value, 8 * size)
            if not width64:
                value = self.step(Kind.AND, value, self.number(0xFFFF_FFFF))
        return value

    def _signed(self, value: Value, bits: int) -> Value:
        shift = self.number(64 - bits)
        return self.step(Kind.ARITHMETIC, self.step(Kind.LEFT, value, shift), shift)

    def _sum(self, value: Value, number: int) -> Value:
        return self.step(Kind.ADD, value, self.number(number)) if number else value


def _is_by_general_registers(access: Access) -> bool:
    """Whether only general registers decide where it is and how it translates."""
    return not (access.scalable or access.authenticated or access.unprivileged)
