"""Floating-point arithmetic in fractions, as Arm's pseudocode has it (shared/functions/float)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

IOC, OFC, UFC, IXC, IDC = 1, 4, 8, 16, 128
FZ16, FZ, DN = 1 << 19, 1 << 24, 1 << 25
EXPONENT_BITS: Final = {16: 5, 32: 8, 64: 11}


class Number(NamedTuple):
    """What FPUnpack() makes of an encoding."""

    kind: str
    """``number``, ``infinity``, ``quiet`` or ``signalling``."""
    sign: int
    value: Fraction
    """Without its sign."""


class Unit:
    """FPCR and FPSR."""

    def __init__(self, fpcr: int, fpsr: int) -> None:
        self.fpcr = fpcr
        self.fpsr = fpsr

    @property
    def mode(self) -> int:
        """FPCR.RMode: to nearest, up, down, to zero."""
        return self.fpcr >> 22 & 3

    def flushes(self, size: int) -> bool:
        """Whether denormals are zeros."""
        return bool(self.fpcr & (FZ16 if size == 16 else FZ))

    def unpack(self, bits: int, size: int) -> Number:
        """FPUnpack()."""
        e_bits = EXPONENT_BITS[size]
        f_bits = size - 1 - e_bits
        sign, fraction = bits >> size - 1, bits & (1 << f_bits) - 1
        exponent = bits >> f_bits & (1 << e_bits) - 1
        bias = (1 << e_bits - 1) - 1
        if exponent == (1 << e_bits) - 1:
            if not fraction:
                return Number("infinity", sign, Fraction(0))
            return Number("quiet" if fraction >> f_bits - 1 else "signalling", sign, Fraction(0))
        if exponent:
            mantissa = Fraction(fraction | 1 << f_bits, 1 << f_bits)
            return Number("number", sign, mantissa * Fraction(2) ** (exponent - bias))
        if fraction and self.flushes(size):
            if size != 16:
                self.fpsr |= IDC
            return Number("number", sign, Fraction(0))
        return Number("number", sign, Fraction(fraction, 1 << f_bits) * Fraction(2) ** (1 - bias))

    def rounded(self, value: Fraction, size: int) -> int:
        """FPRound() of a number that is not zero."""
        e_bits = EXPONENT_BITS[size]
        f_bits = size - 1 - e_bits
        sign, mantissa, exponent = int(value < 0), abs(value), 0
        while mantissa >= 2:
            mantissa, exponent = mantissa / 2, exponent + 1
        while mantissa < 1:
            mantissa, exponent = mantissa * 2, exponent - 1
        least = 2 - (1 << e_bits - 1)
        if exponent < least and self.flushes(size):
            self.fpsr |= UFC
            return sign << size - 1
        biased = max(exponent - least + 1, 0)
        if biased == 0:
            mantissa /= 1 << least - exponent
        whole, error = divmod(mantissa * (1 << f_bits), 1)
        if biased == 0 and error:
            self.fpsr |= UFC
        up = {
            0: error > Fraction(1, 2) or (error == Fraction(1, 2) and whole & 1),
            1: error and not sign,
            2: error and sign,
            3: False,
        }[self.mode]
        if up:
            whole += 1
            if whole == 1 << f_bits:
                biased = 1
            if whole == 2 << f_bits:
                biased, whole = biased + 1, whole // 2
        most = (1 << e_bits) - 1
        if biased >= most:
            self.fpsr |= OFC | IXC
            to_infinity = (True, not sign, bool(sign), False)[self.mode]
            return sign << size - 1 | (most << f_bits) - (not to_infinity)
        if error:
            self.fpsr |= IXC
        return sign << size - 1 | biased << f_bits | whole & (1 << f_bits) - 1

    def nan(self, bits: int, size: int, to: int | None = None) -> int:
        """FPProcessNaN(), and FPConvertNaN() to a wider format."""
        if self.unpack(bits, size).kind == "signalling":
            self.fpsr |= IOC
        to = to or size
        if self.fpcr & DN:
            return default_nan(to)
        f_bits, f_to = (s - 1 - EXPONENT_BITS[s] for s in (size, to))
        fraction = (bits & (1 << f_bits) - 1 | 1 << f_bits - 1) << f_to - f_bits
        return infinity(bits >> size - 1, to) | fraction

    def nan_of(self, operands: Sequence[int], size: int, to: int | None = None) -> int | None:
        """FPProcessNaNs(), FPProcessNaNs3() or FPProcessNaNs4()."""
        for kind in ("signalling", "quiet"):
            for bits in operands:
                if self.unpack(bits, size).kind == kind:
                    return self.nan(bits, size, to)
        return None

    def invalid(self, size: int) -> int:
        """The default NaN of an invalid operation."""
        self.fpsr |= IOC
        return default_nan(size)

    def sum(self, terms: Sequence[Number], size: int) -> int:
        """The rounded sum of numbers that are no NaNs."""
        infinite = {term.sign for term in terms if term.kind == "infinity"}
        if len(infinite) == 2:
            return self.invalid(size)
        if infinite:
            return infinity(infinite.pop(), size)
        value = sum((-t.value if t.sign else t.value for t in terms), Fraction(0))
        if value:
            return self.rounded(value, size)
        signs = {term.sign for term in terms}
        if len(signs) == 1 and not any(term.value for term in terms):
            return signs.pop() << size - 1
        return (self.mode == 2) << size - 1

    def add(self, a: int, b: int, size: int) -> int:
        """FPAdd()."""
        terms = self.unpack(a, size), self.unpack(b, size)
        nan = self.nan_of((a, b), size)
        return self.sum(terms, size) if nan is None else nan

    def product(self, a: int, b: int, size: int) -> Number | None:
        """An exact product of two that are no NaNs; None for infinity by zero."""
        one, other = self.unpack(a, size), self.unpack(b, size)
        sign = one.sign ^ other.sign
        if "infinity" in (one.kind, other.kind):
            zero = any(x.kind == "number" and not x.value for x in (one, other))
            return None if zero else Number("infinity", sign, Fraction(0))
        return Number("number", sign, one.value * other.value)

    def multiply_add(self, addend: int, a: int, b: int, size: int) -> int:
        """FPMulAdd()."""
        kinds = [self.unpack(x, size) for x in (addend, a, b)]
        factors_are_nans = any(x.kind in ("quiet", "signalling") for x in kinds[1:])
        product = None if factors_are_nans else self.product(a, b, size)
        if kinds[0].kind == "quiet" and not factors_are_nans and product is None:
            return self.invalid(size)
        nan = self.nan_of((addend, a, b), size)
        if nan is not None:
            return nan
        return self.invalid(size) if product is None else self.sum((kinds[0], product), size)

    def dot(self, first: tuple[int, int], second: tuple[int, int]) -> int:
        """FPDot() of half-precision numbers."""
        nan = self.nan_of((*first, *second), 16, 32)
        if nan is not None:
            return nan
        products = [self.product(a, b, 16) for a, b in zip(first, second, strict=True)]
        there = [product for product in products if product is not None]
        return self.sum(there, 32) if len(there) == 2 else self.invalid(32)

    def extreme(self, a: int, b: int, size: int, *, least: bool, number: bool = False) -> int:
        """FPMax(), FPMin(), FPMaxNum(), FPMinNum()."""
        one, other = self.unpack(a, size), self.unpack(b, size)
        if number and (one.kind == "quiet") != (other.kind == "quiet"):
            far = infinity(not least, size)
            a, b = (far, b) if one.kind == "quiet" else (a, far)
            one, other = self.unpack(a, size), self.unpack(b, size)
        nan = self.nan_of((a, b), size)
        if nan is not None:
            return nan

        def place(x: Number) -> Fraction:
            value = Fraction(2) ** 2000 if x.kind == "infinity" else x.value
            return -value if x.sign else value

        if not place(one) and not place(other):
            sign = one.sign | other.sign if least else one.sign & other.sign
            return sign << size - 1
        first = place(one) < place(other) if least else place(one) > place(other)
        chosen, bits = (one, a) if first else (other, b)
        return chosen.sign << size - 1 if not place(chosen) else bits

    def reduce(
        self, values: Sequence[int], identity: int, combine: Callable[[int, int], int]
    ) -> int:
        """FPReduce(), with identities up to a power of two elements."""
        length = 1 << (len(values) - 1).bit_length()
        values = [*values, *[identity] * (length - len(values))]
        if length == 1:
            return values[0]
        half = length // 2
        high = self.reduce(values[half:], identity, combine)
        return combine(self.reduce(values[:half], identity, combine), high)


def infinity(sign: int, size: int) -> int:
    """FPInfinity()."""
    return sign << size - 1 | ((1 << EXPONENT_BITS[size]) - 1) << size - 1 - EXPONENT_BITS[size]


def default_nan(size: int) -> int:
    """FPDefaultNaN()."""
    return infinity(0, size) | 1 << size - 2 - EXPONENT_BITS[size]
