"""Floating-point arithmetic as Arm's pseudocode has it (Arm ARM, shared/functions/float).

A format is the number of its exponent bits and of its fraction bits: (5, 10), (8, 23), (11, 52),
and (8, 7) for BFloat16. A number that is not zero, infinite or a NaN has a significand whose
leading one is bit 61, and an exponent: its value is ``significand * 2 ** (exponent - 61)``. What is
shifted out below stays as a one in bit 0. Exceptions are added to ``RegistersRecord.fpsr``; none is
trapped. FEAT_AFP and FEAT_EBF16 are not there.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.instructions.registers import RegistersRecord

ZERO, FINITE, INFINITE, QUIET, SIGNALLING = 0, 1, 2, 3, 4
"""Kinds of numbers."""
IOC, OFC, UFC, IXC, IDC = 1, 4, 8, 16, 128
"""Bits of FPSR: the exceptions that have been."""
TIE_EVEN, UP, DOWN, TO_ZERO, TO_ODD, TO_ODD_INFINITE = 0, 1, 2, 3, 4, 5
"""Rounding; the first four are FPCR.RMode. The last is to odd, with infinity for an overflow."""
DN, FZ, FZ16 = 1 << 25, 1 << 24, 1 << 19
"""Bits of FPCR."""
_LEADING: Final = 61
_TOP: Final = 1 << _LEADING
_LOW: Final = (1 << 31) - 1
"""The lower half of a significand."""


@routine
def rounding_mode(fpcr: int) -> int:
    """FPRoundingMode()."""
    return fpcr >> 22 & 3


@routine
def flushes(fpcr: int, exponent_bits: int) -> bool:
    """Whether denormals of a format are flushed to zero."""
    return fpcr & (FZ16 if exponent_bits == 5 else FZ) != 0


@routine
def default_nan(exponent_bits: int, fraction_bits: int) -> int:
    """FPDefaultNaN()."""
    return ((2 << exponent_bits) - 1) << fraction_bits - 1


@routine
def infinity(sign: int, exponent_bits: int, fraction_bits: int) -> int:
    """FPInfinity()."""
    return (sign << exponent_bits | (1 << exponent_bits) - 1) << fraction_bits


@routine
def zero(sign: int, exponent_bits: int, fraction_bits: int) -> int:
    """FPZero()."""
    return sign << exponent_bits + fraction_bits


@routine
def jammed(significand: int, places: int) -> int:
    """A significand shifted right; what is lost stays as a one in bit 0."""
    if places > 62:
        return 1 if significand else 0
    lost = significand & (1 << places) - 1
    return significand >> places | (1 if lost else 0)


@routine
def unpack(
    r: RegistersRecord, value: int, exponent_bits: int, fraction_bits: int, fpcr: int
) -> tuple[int, int, int, int]:
    """FPUnpack(): the kind of a number, its sign, its exponent, its significand."""
    sign = value >> exponent_bits + fraction_bits & 1
    most = (1 << exponent_bits) - 1
    biased = value >> fraction_bits & most
    fraction = value & (1 << fraction_bits) - 1
    if biased == most:
        if fraction == 0:
            return INFINITE, sign, 0, 0
        quiet = fraction >> fraction_bits - 1
        return QUIET if quiet else SIGNALLING, sign, 0, 0
    bias = most >> 1
    if biased:
        significand = (fraction | 1 << fraction_bits) << _LEADING - fraction_bits
        return FINITE, sign, biased - bias, significand
    if fraction == 0:
        return ZERO, sign, 0, 0
    if flushes(fpcr, exponent_bits):
        if exponent_bits != 5:
            r.fpsr |= IDC
        return ZERO, sign, 0, 0
    exponent, significand = 1 - bias, fraction << _LEADING - fraction_bits
    while significand < _TOP:
        significand <<= 1
        exponent -= 1
    return FINITE, sign, exponent, significand


@routine
def rounded(
    r: RegistersRecord,
    sign: int,
    exponent: int,
    significand: int,
    exponent_bits: int,
    fraction_bits: int,
    fpcr: int,
    rounding: int,
) -> int:
    """FPRound() of a number that is not zero, whatever its leading one."""
    if significand >> 62:
        significand = jammed(significand, 1)
        exponent += 1
    while significand < _TOP:
        significand <<= 1
        exponent -= 1
    most = (1 << exponent_bits) - 1
    least = 1 - (most >> 1)
    if exponent < least and flushes(fpcr, exponent_bits):
        r.fpsr |= UFC
        return zero(sign, exponent_bits, fraction_bits)
    biased = exponent - least + 1
    if biased <= 0:
        significand = jammed(significand, least - exponent)
        biased = 0
    below = _LEADING - fraction_bits
    mantissa = significand >> below
    error = significand & (1 << below) - 1
    if biased == 0 and error:
        r.fpsr |= UFC
    half = 1 << below - 1
    up, to_infinity = False, False
    if rounding == TIE_EVEN:
        up = error > half or (error == half and mantissa & 1 != 0)
        to_infinity = True
    elif rounding == UP:
        up = error != 0 and sign == 0
        to_infinity = sign == 0
    elif rounding == DOWN:
        up = error != 0 and sign != 0
        to_infinity = sign != 0
    elif rounding in (TO_ODD, TO_ODD_INFINITE):
        if error:
            mantissa |= 1
        to_infinity = rounding == TO_ODD_INFINITE
    if up:
        mantissa += 1
        if mantissa == 1 << fraction_bits:
            biased = 1
        if mantissa == 2 << fraction_bits:
            biased += 1
            mantissa >>= 1
    if biased >= most:
        r.fpsr |= OFC | IXC
        if to_infinity:
            return infinity(sign, exponent_bits, fraction_bits)
        return infinity(sign, exponent_bits, fraction_bits) - 1
    if error:
        r.fpsr |= IXC
    fraction = mantissa & (1 << fraction_bits) - 1
    return (sign << exponent_bits | biased) << fraction_bits | fraction


@routine
def nan_of(
    r: RegistersRecord, value: int, exponent_bits: int, fraction_bits: int, fpcr: int, kind: int
) -> int:
    """FPProcessNaN(): a NaN as a result."""
    if kind == SIGNALLING:
        r.fpsr |= IOC
        value |= 1 << fraction_bits - 1
    if fpcr & DN:
        return default_nan(exponent_bits, fraction_bits)
    return value


@routine
def nan_of_two(
    r: RegistersRecord,
    a: int,
    kind_a: int,
    b: int,
    kind_b: int,
    exponent_bits: int,
    fraction_bits: int,
    fpcr: int,
) -> int:
    """FPProcessNaNs() where at least one of two numbers is a NaN."""
    if kind_a == SIGNALLING:
        return nan_of(r, a, exponent_bits, fraction_bits, fpcr, kind_a)
    if kind_b == SIGNALLING:
        return nan_of(r, b, exponent_bits, fraction_bits, fpcr, kind_b)
    if kind_a == QUIET:
        return nan_of(r, a, exponent_bits, fraction_bits, fpcr, kind_a)
    return nan_of(r, b, exponent_bits, fraction_bits, fpcr, kind_b)


@routine
def summed(
    sign_a: int, exponent_a: int, a: int, sign_b: int, exponent_b: int, b: int
) -> tuple[int, int, int]:
    """Sign, exponent and significand of a sum of two numbers that are not zero; it may be."""
    if exponent_a < exponent_b or (exponent_a == exponent_b and a < b):
        sign_a, sign_b = sign_b, sign_a
        exponent_a, exponent_b = exponent_b, exponent_a
        a, b = b, a
    b = jammed(b, exponent_a - exponent_b)
    if sign_a == sign_b:
        return sign_a, exponent_a, a + b
    return sign_a, exponent_a, a - b


@routine
def added(
    r: RegistersRecord,
    a: int,
    b: int,
    exponent_bits: int,
    fraction_bits: int,
    fpcr: int,
    rounding: int,
) -> int:
    """FPAdd()."""
    kind_a, sign_a, exponent_a, significand_a = unpack(r, a, exponent_bits, fraction_bits, fpcr)
    kind_b, sign_b, exponent_b, significand_b = unpack(r, b, exponent_bits, fraction_bits, fpcr)
    if kind_a >= QUIET or kind_b >= QUIET:
        return nan_of_two(r, a, kind_a, b, kind_b, exponent_bits, fraction_bits, fpcr)
    if kind_a == INFINITE or kind_b == INFINITE:
        if kind_a == kind_b and sign_a != sign_b:
            r.fpsr |= IOC
            return default_nan(exponent_bits, fraction_bits)
        return infinity(sign_a if kind_a == INFINITE else sign_b, exponent_bits, fraction_bits)
    nothing = 1 if rounding == DOWN else 0
    if kind_a == ZERO and kind_b == ZERO:
        return zero(sign_a if sign_a == sign_b else nothing, exponent_bits, fraction_bits)
    if kind_a == ZERO:
        sign, exponent, total = sign_b, exponent_b, significand_b
    elif kind_b == ZERO:
        sign, exponent, total = sign_a, exponent_a, significand_a
    else:
        sign, exponent, total = summed(
            sign_a, exponent_a, significand_a, sign_b, exponent_b, significand_b
        )
    if total == 0:
        return zero(nothing, exponent_bits, fraction_bits)
    return rounded(r, sign, exponent, total, exponent_bits, fraction_bits, fpcr, rounding)


@routine
def product(exponent_a: int, a: int, exponent_b: int, b: int) -> tuple[int, int]:
    """Exponent and significand of an exact product, but for what bit 0 stands for."""
    exponent = exponent_a + exponent_b
    low_a, low_b = a & _LOW, b & _LOW
    low = low_a * low_b
    middle = (a >> 31) * low_b + low_a * (b >> 31) + (low >> 31)
    result = ((a >> 31) * (b >> 31) << 1) + (middle >> 30)
    if middle & _LOW >> 1 or low & _LOW:
        result |= 1
    if result >> 62:
        result = jammed(result, 1)
        exponent += 1
    return exponent, result


@routine
def multiplied_and_added(
    r: RegistersRecord,
    addend: int,
    a: int,
    b: int,
    exponent_bits: int,
    fraction_bits: int,
    fpcr: int,
) -> int:
    """FPMulAdd(), or FPMulAddH(), to a number of single precision.

    ``exponent_bits`` and ``fraction_bits`` are those of the factors.
    """
    kind, sign, exponent, significand = unpack(r, addend, 8, 23, fpcr)
    kind_a, sign_a, exponent_a, significand_a = unpack(r, a, exponent_bits, fraction_bits, fpcr)
    kind_b, sign_b, exponent_b, significand_b = unpack(r, b, exponent_bits, fraction_bits, fpcr)
    sign_p = sign_a ^ sign_b
    invalid = (kind_a == INFINITE and kind_b == ZERO) or (kind_a == ZERO and kind_b == INFINITE)
    if kind == SIGNALLING:
        return nan_of(r, addend, 8, 23, fpcr, kind)
    if (
        kind_a == SIGNALLING
        or kind_b == SIGNALLING
        or (kind != QUIET and (kind_a == QUIET or kind_b == QUIET))
    ):
        result = nan_of_two(r, a, kind_a, b, kind_b, exponent_bits, fraction_bits, fpcr)
        if fraction_bits == 10:  # FPProcessNaNs3H() widens it
            if fpcr & DN:
                return default_nan(8, 23)
            return (result >> 15 & 1) << 31 | 0x7FC0_0000 | (result & 0x1FF) << 13
        return result
    if kind == QUIET:
        if invalid:
            r.fpsr |= IOC
            return default_nan(8, 23)
        return nan_of(r, addend, 8, 23, fpcr, kind)
    infinite_p = kind_a == INFINITE or kind_b == INFINITE
    if invalid or (infinite_p and kind == INFINITE and sign != sign_p):
        r.fpsr |= IOC
        return default_nan(8, 23)
    if kind == INFINITE:
        return infinity(sign, 8, 23)
    if infinite_p:
        return infinity(sign_p, 8, 23)
    rounding = rounding_mode(fpcr)
    nothing = 1 if rounding == DOWN else 0
    zero_p = kind_a == ZERO or kind_b == ZERO
    if zero_p:
        if kind == ZERO:
            return zero(sign if sign == sign_p else nothing, 8, 23)
        return rounded(r, sign, exponent, significand, 8, 23, fpcr, rounding)
    exponent_p, significand_p = product(exponent_a, significand_a, exponent_b, significand_b)
    if kind == ZERO:
        return rounded(r, sign_p, exponent_p, significand_p, 8, 23, fpcr, rounding)
    sign, exponent, significand = summed(
        sign, exponent, significand, sign_p, exponent_p, significand_p
    )
    if significand == 0:
        return zero(nothing, 8, 23)
    return rounded(r, sign, exponent, significand, 8, 23, fpcr, rounding)


@routine
def converted_nan(
    r: RegistersRecord,
    value: int,
    kind: int,
    exponent_bits: int,
    fraction_bits: int,
    to_exponent_bits: int,
    to_fraction_bits: int,
    fpcr: int,
) -> int:
    """FPConvertNaN(), or the default NaN: a NaN in another format."""
    if kind == SIGNALLING:
        r.fpsr |= IOC
    if fpcr & DN:
        return default_nan(to_exponent_bits, to_fraction_bits)
    sign = value >> exponent_bits + fraction_bits & 1
    fraction = value & (1 << fraction_bits - 1) - 1
    if to_fraction_bits > fraction_bits:
        fraction <<= to_fraction_bits - fraction_bits
    else:
        fraction >>= fraction_bits - to_fraction_bits
    return infinity(sign, to_exponent_bits, to_fraction_bits) | 1 << to_fraction_bits - 1 | fraction


@routine
def _is_less(sign_a: int, exponent_a: int, a: int, sign_b: int, exponent_b: int, b: int) -> bool:
    """Whether a number is less than another; a significand of 0 is zero."""
    if sign_a != sign_b:
        return sign_a != 0
    if a == 0 or b == 0:
        smaller = a == 0 and b != 0
        larger = b == 0 and a != 0
    elif exponent_a != exponent_b:
        smaller, larger = exponent_a < exponent_b, exponent_a > exponent_b
    else:
        smaller, larger = a < b, a > b
    return larger if sign_a else smaller


@routine
def extreme(
    r: RegistersRecord,
    a: int,
    b: int,
    exponent_bits: int,
    fraction_bits: int,
    fpcr: int,
    least: int,
    number: int,
) -> int:
    """FPMax() or FPMin(), FPMaxNum() or FPMinNum(): ``least``, and with ``number`` no quiet NaN."""
    kind_a, sign_a, exponent_a, significand_a = unpack(r, a, exponent_bits, fraction_bits, fpcr)
    kind_b, sign_b, exponent_b, significand_b = unpack(r, b, exponent_bits, fraction_bits, fpcr)
    if number and (kind_a == QUIET) != (kind_b == QUIET):
        farthest = infinity(0 if least else 1, exponent_bits, fraction_bits)
        if kind_a == QUIET:
            a, kind_a, sign_a = farthest, INFINITE, 0 if least else 1
        else:
            b, kind_b, sign_b = farthest, INFINITE, 0 if least else 1
    if kind_a >= QUIET or kind_b >= QUIET:
        return nan_of_two(r, a, kind_a, b, kind_b, exponent_bits, fraction_bits, fpcr)
    if kind_a == ZERO and kind_b == ZERO:
        sign = sign_a | sign_b if least else sign_a & sign_b
        return zero(sign, exponent_bits, fraction_bits)
    if kind_a == INFINITE:
        exponent_a, significand_a = 1 << 20, _TOP
    if kind_b == INFINITE:
        exponent_b, significand_b = 1 << 20, _TOP
    if least:
        first = _is_less(sign_a, exponent_a, significand_a, sign_b, exponent_b, significand_b)
    else:
        first = _is_less(sign_b, exponent_b, significand_b, sign_a, exponent_a, significand_a)
    if first:
        return zero(sign_a, exponent_bits, fraction_bits) if kind_a == ZERO else a
    return zero(sign_b, exponent_bits, fraction_bits) if kind_b == ZERO else b
