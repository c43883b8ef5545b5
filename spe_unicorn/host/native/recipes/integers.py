"""What integer instructions write to registers (Arm ARM C6.2), as steps of a recipe.

The common instructions are known: additions, logic, moves, shifts, bit fields, products, selects
and compares. The results of all others are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.operation import NZCV, SP
from spe_unicorn.bits import signed
from spe_unicorn.host.native.recipes.building import Steps
from spe_unicorn.host.native.recipes.steps import Kind, Value

Results = dict[int, Value]
_LOW: Final = 0xFFFF_FFFF
_ALL: Final = (1 << 64) - 1


class Integers:
    """The results of one instruction, ``place`` bytes after the beginning of the block."""

    def __init__(self, steps: Steps, place: int) -> None:
        self._steps = steps
        self._place = place

    def results(self, word: int) -> Results:
        """What the allocated instruction ``word`` writes to registers, as far as that is known."""
        group = word >> 25 & 15
        if group in (8, 9):
            known = _IMMEDIATE.get(word >> 23 & 7)
        elif group == 5:
            known = _added if word >> 24 & 1 else _logical
        elif group == 13:
            known = _three_sources if word >> 24 & 1 else _REGISTER.get(word >> 21 & 15)
        else:
            known = None
        return known(self, word) if known else {}

    # What instructions are made of. A value of 32 bits may have anything above them.

    def number(self, number: int) -> Value:
        """A step that is a constant."""
        return self._steps.number(number)

    def x(self, register: int) -> Value:
        """The value of Xn, where 31 is XZR."""
        return self.number(0) if register == 31 else self._steps.of(register)

    def xsp(self, register: int) -> Value:
        """The value of Xn, where 31 is SP."""
        return self._steps.of(SP if register == 31 else register)

    def two(self, kind: Kind, a: Value, b: Value) -> Value:
        """A step with two inputs."""
        return self._steps.step(kind, a, b)

    def by(self, kind: Kind, a: Value, number: int) -> Value:
        """A step with one input and a constant."""
        return self._steps.step(kind, a, self.number(number))

    def result(self, word: int, value: Value, *, stack: bool = False) -> Results:
        """``value`` in Rd, as wide as bit 31 of ``word`` says. Rd 31 is SP if ``stack``."""
        register = word & 31
        if register == 31 and not stack:
            return {}
        return {register: value if word >> 31 else self.by(Kind.AND, value, _LOW)}

    def extended(self, value: Value, bits: int, *, sign: bool) -> Value:
        """The lowest bits of a value, extended to 64 bits."""
        if bits == 64:
            return value
        if not sign:
            return self.by(Kind.AND, value, (1 << bits) - 1)
        return self.by(Kind.ARITHMETIC, self.by(Kind.LEFT, value, 64 - bits), 64 - bits)

    def shifted(self, value: Value, kind: int, amount: Value, bits: int) -> Value:
        """ShiftReg(): LSL, LSR, ASR or ROR of a value of ``bits`` bits by less than that."""
        if kind == 0:
            return self.two(Kind.LEFT, value, amount)
        if kind == 2:
            return self.two(Kind.ARITHMETIC, self.extended(value, bits, sign=True), amount)
        value = self.extended(value, bits, sign=False)
        right = self.two(Kind.RIGHT, value, amount)
        if kind == 1:
            return right
        # what leaves on the right comes in on the left; by 0 both are the value itself
        rest = self.by(Kind.ADD, self.by(Kind.XOR, amount, _ALL), bits + 1)
        left = self.two(Kind.LEFT, value, self.by(Kind.AND, rest, bits - 1))
        return self.two(Kind.OR, left, right)

    def sum(self, word: int, a: Value, b: Value, *, stack: bool) -> Results:
        """ADD, ADDS, SUB or SUBS of two values. With ``stack`` Rd 31 is SP if no flags are set."""
        subtracts, sets_flags = word >> 30 & 1, word >> 29 & 1
        if subtracts:
            b = self.by(Kind.XOR, b, _ALL)
        total = self.two(Kind.ADD, a, b)
        if subtracts:
            total = self.by(Kind.ADD, total, 1)
        results = self.result(word, total, stack=stack and not sets_flags)
        if sets_flags:
            results[NZCV] = self.sum_flags(word, a, b, subtracts)
        return results

    def sum_flags(self, word: int, a: Value, b: Value, carry: int) -> Value:
        """The flags of a sum."""
        bits = _bits(word)
        return self._steps.step(Kind.SUM_FLAGS, a, b, condition=carry, number=bits)

    def logic(self, word: int, a: Value, b: Value, *, stack: bool) -> Results:
        """AND, ORR, EOR or ANDS."""
        opc = word >> 29 & 3
        value = self.two((Kind.AND, Kind.OR, Kind.XOR, Kind.AND)[opc], a, b)
        results = self.result(word, value, stack=stack and opc != 3)
        if opc == 3:
            results[NZCV] = self._steps.step(Kind.LOGICAL_FLAGS, value, number=_bits(word))
        return results

    def select(self, word: int, a: Value, b: Value) -> Value:
        """``a`` if the condition in bits 15 to 12 holds, else ``b``."""
        flags = self._steps.of(NZCV)
        return self._steps.step(Kind.SELECT, a, b, flags, condition=word >> 12 & 15)

    def pc(self, *, page: bool) -> Value:
        """The instruction's address, or that of its page."""
        address = self._steps.step(Kind.PC, number=self._place)
        return self.by(Kind.AND, address, ~0xFFF) if page else address


def _bits(word: int) -> int:
    return 64 if word >> 31 else 32


def _pc_relative(made: Integers, word: int) -> Results:
    offset = signed((word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3, 21)
    page = bool(word >> 31)
    value = made.by(Kind.ADD, made.pc(page=page), offset << 12 if page else offset)
    return {} if word & 31 == 31 else {word & 31: value}


def _add_immediate(made: Integers, word: int) -> Results:
    number = (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)
    return made.sum(word, made.xsp(word >> 5 & 31), made.number(number), stack=True)


def _logical_immediate(made: Integers, word: int) -> Results:
    mask = made.number(bit_mask(word >> 22 & 1, word >> 10 & 63, word >> 16 & 63))
    return made.logic(word, made.x(word >> 5 & 31), mask, stack=True)


def bit_mask(n: int, imms: int, immr: int) -> int:
    """DecodeBitMasks(): the immediate of a logical instruction, of 64 bits."""
    length = (n << 6 | ~imms & 63).bit_length() - 1
    size = 1 << length
    ones = (imms & size - 1) + 1
    turn = immr & size - 1
    element = (1 << ones) - 1
    element = (element >> turn | element << size - turn) & (1 << size) - 1
    return sum(element << place for place in range(0, 64, size))


def _move_wide(made: Integers, word: int) -> Results:
    shift = 16 * (word >> 21 & 3)
    number = (word >> 5 & 0xFFFF) << shift
    opc = word >> 29 & 3
    if opc == 3:
        kept = made.by(Kind.AND, made.x(word & 31), ~(0xFFFF << shift))
        return made.result(word, made.by(Kind.OR, kept, number))
    return made.result(word, made.number(number if opc else ~number))


def _bitfield(made: Integers, word: int) -> Results:
    bits = _bits(word)
    opc, r, s = word >> 29 & 3, word >> 16 & 63, word >> 10 & 63
    source = made.x(word >> 5 & 31)
    if s >= r:  # bits s to r become the lowest ones
        width, place = s - r + 1, 0
        field = made.by(Kind.RIGHT, made.extended(source, bits, sign=False), r)
    else:  # bits s to 0 go up
        width, place = s + 1, bits - r
        field = source
    if opc == 1:
        mask = (1 << width) - 1 << place
        moved = made.by(Kind.AND, made.by(Kind.LEFT, field, place), mask)
        return made.result(
            word, made.two(Kind.OR, made.by(Kind.AND, made.x(word & 31), ~mask), moved)
        )
    field = made.extended(field, width, sign=opc == 0)
    return made.result(word, made.by(Kind.LEFT, field, place))


def _extract(made: Integers, word: int) -> Results:
    if word >> 29 & 3:
        return {}
    bits, low = _bits(word), word >> 10 & 63
    right = made.extended(made.x(word >> 16 & 31), bits, sign=False)
    if not low:
        return made.result(word, right)
    left = made.by(Kind.LEFT, made.x(word >> 5 & 31), bits - low)
    return made.result(word, made.two(Kind.OR, left, made.by(Kind.RIGHT, right, low)))


def _logical(made: Integers, word: int) -> Results:
    amount = made.number(word >> 10 & 63)
    value = made.shifted(made.x(word >> 16 & 31), word >> 22 & 3, amount, _bits(word))
    if word >> 21 & 1:
        value = made.by(Kind.XOR, value, _ALL)
    return made.logic(word, made.x(word >> 5 & 31), value, stack=False)


def _added(made: Integers, word: int) -> Results:
    value = made.x(word >> 16 & 31)
    if not word >> 21 & 1:
        amount = made.number(word >> 10 & 63)
        value = made.shifted(value, word >> 22 & 3, amount, _bits(word))
        return made.sum(word, made.x(word >> 5 & 31), value, stack=False)
    option = word >> 13 & 7
    value = made.extended(value, 8 << (option & 3), sign=bool(option & 4))
    value = made.by(Kind.LEFT, value, word >> 10 & 7)
    return made.sum(word, made.xsp(word >> 5 & 31), value, stack=True)


def _conditional_compare(made: Integers, word: int) -> Results:
    immediate = word >> 11 & 1
    b = made.number(word >> 16 & 31) if immediate else made.x(word >> 16 & 31)
    subtracts = word >> 30 & 1
    if subtracts:
        b = made.by(Kind.XOR, b, _ALL)
    flags = made.sum_flags(word, made.x(word >> 5 & 31), b, subtracts)
    return {NZCV: made.select(word, flags, made.number((word & 15) << 28))}


def _conditional_select(made: Integers, word: int) -> Results:
    other = made.x(word >> 16 & 31)
    if word >> 30 & 1:  # CSINV, CSNEG
        other = made.by(Kind.XOR, other, _ALL)
    if word >> 10 & 1:  # CSINC, CSNEG
        other = made.by(Kind.ADD, other, 1)
    return made.result(word, made.select(word, made.x(word >> 5 & 31), other))


def _two_sources(made: Integers, word: int) -> Results:
    opcode = word >> 10 & 63
    if word >> 30 & 1 or word >> 29 & 1 or not 8 <= opcode <= 11:
        return {}
    bits = _bits(word)
    amount = made.by(Kind.AND, made.x(word >> 16 & 31), bits - 1)
    return made.result(word, made.shifted(made.x(word >> 5 & 31), opcode & 3, amount, bits))


def _three_sources(made: Integers, word: int) -> Results:
    kind = word >> 21 & 7
    if kind not in (0, 1, 5):
        return {}
    n, m = made.x(word >> 5 & 31), made.x(word >> 16 & 31)
    if kind:  # SMADDL and UMADDL, SMSUBL and UMSUBL
        n, m = (made.extended(value, 32, sign=kind == 1) for value in (n, m))
    product = made.two(Kind.MULTIPLY, n, m)
    if word >> 15 & 1:
        product = made.by(Kind.ADD, made.by(Kind.XOR, product, _ALL), 1)
    return made.result(word, made.two(Kind.ADD, made.x(word >> 10 & 31), product))


_Lowering = Callable[[Integers, int], Results]
_IMMEDIATE: Final[dict[int, _Lowering]] = {
    0: _pc_relative,
    1: _pc_relative,
    2: _add_immediate,
    4: _logical_immediate,
    5: _move_wide,
    6: _bitfield,
    7: _extract,
}
"""The results of data processing with an immediate, by bits 25 to 23."""
_REGISTER: Final[dict[int, _Lowering]] = {
    2: _conditional_compare,
    4: _conditional_select,
    6: _two_sources,
}
"""The results of data processing with registers, by bits 24 to 21.

Bit 28 of the instruction is set and bit 24 is not."""
