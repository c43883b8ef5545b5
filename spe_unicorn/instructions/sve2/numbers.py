"""Arithmetic on elements of 8 to 64 bits: numbers of 64 bits stand for what does not fit in them.

An unsigned element of 64 bits is the signed number with the same bits. None of these sets FPSR.QC:
instructions of SVE do not.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import int64, routine
from spe_unicorn.instructions.lanes import ones

_LOW: Final = (1 << 32) - 1
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1


@routine
def less_unsigned(a: int, b: int) -> bool:
    """Whether ``a`` is less than ``b`` as unsigned numbers of 64 bits."""
    return a ^ _LEAST < b ^ _LEAST


@routine
def logical(value: int, places: int) -> int:
    """A number of 64 bits shifted right without its sign, by 0 or more."""
    if places == 0:
        return value
    return value >> places & (1 << 64 - places) - 1 if places < 64 else int64(0)


@routine
def arithmetic(value: int, places: int) -> int:
    """A number shifted right with its sign, by 0 or more."""
    return value >> min(places, 63)


@routine
def most_signed(size: int) -> int:
    """The largest signed number of so many bits."""
    return ones(size - 1)


@routine
def saturated_signed(value: int, size: int) -> int:
    """SignedSat() of a number that 64 bits hold."""
    most = ones(size - 1)
    return min(max(value, -most - 1), most)


@routine
def saturated_unsigned(value: int, size: int) -> int:
    """UnsignedSat() of a signed number that 64 bits hold, to 8 to 32 bits."""
    return min(max(value, 0), ones(size))


@routine
def add_signed(a: int, b: int, size: int) -> int:
    """SignedSat(a + b)."""
    total = a + b
    if size < 64:
        return saturated_signed(total, size)
    if (a ^ total) & (b ^ total) < 0:
        return _MOST if a >= 0 else _LEAST
    return total


@routine
def subtract_signed(a: int, b: int, size: int) -> int:
    """SignedSat(a - b)."""
    total = a - b
    if size < 64:
        return saturated_signed(total, size)
    if (a ^ b) & (a ^ total) < 0:
        return _MOST if a >= 0 else _LEAST
    return total


@routine
def add_unsigned(a: int, b: int, size: int) -> int:
    """UnsignedSat(a + b)."""
    total = a + b
    if size < 64:
        return min(total, ones(size))
    return int64(-1) if less_unsigned(total, a) else total


@routine
def subtract_unsigned(a: int, b: int, size: int) -> int:
    """UnsignedSat(a - b)."""
    if size < 64:
        return max(a - b, 0)
    return int64(0) if less_unsigned(a, b) else a - b


@routine
def add_unsigned_to_signed(a: int, b: int, size: int) -> int:
    """SignedSat(a + b) of a signed and an unsigned number."""
    total = a + b
    if size < 64:
        return saturated_signed(total, size)
    if (b < 0 and a >= 0) or (total < 0 and (a >= 0 or b < 0)):
        return _MOST
    return total


@routine
def add_signed_to_unsigned(a: int, b: int, size: int) -> int:
    """UnsignedSat(a + b) of an unsigned and a signed number."""
    total = a + b
    if size < 64:
        return saturated_unsigned(total, size)
    if b >= 0:
        return int64(-1) if less_unsigned(total, a) else total
    return int64(0) if less_unsigned(a, -b) else total


@routine
def difference(a: int, b: int, is_signed: int) -> int:
    """Abs(a - b)."""
    less = a < b if is_signed else less_unsigned(a, b)
    return b - a if less else a - b


@routine
def shifted_right(value: int, places: int, is_signed: int, rounds: int) -> int:
    """A number shifted right by 1 or more; rounded if asked for."""
    if is_signed:
        result = arithmetic(value, places)
        return result + (arithmetic(value, places - 1) & 1) if rounds else result
    result = logical(value, places)
    return result + (logical(value, places - 1) & 1) if rounds else result


@routine
def shifted_left_signed(value: int, places: int, size: int) -> int:
    """SignedSat(value << places)."""
    if value == 0:
        return value
    most = ones(size - 1)
    if places < size:
        result = value << places
        if result >> places == value and -most - 1 <= result <= most:
            return result
    return most if value > 0 else -most - 1


@routine
def shifted_left_unsigned(value: int, places: int, size: int) -> int:
    """UnsignedSat(value << places)."""
    if value == 0:
        return value
    if places < size:
        result = value << places
        if logical(result, places) == value and result & ~ones(size) == 0:
            return result
    return ones(size)


@routine
def high_unsigned(a: int, b: int) -> int:
    """The upper 64 bits of the product of two unsigned numbers of 64 bits."""
    a0, a1, b0, b1 = a & _LOW, logical(a, 32), b & _LOW, logical(b, 32)
    middle = a1 * b0 + logical(a0 * b0, 32)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + logical(middle, 32) + logical(other, 32)


@routine
def high_signed(a: int, b: int) -> int:
    """The upper 64 bits of the product of two signed numbers of 64 bits."""
    high = high_unsigned(a, b)
    if a < 0:
        high -= b
    if b < 0:
        high -= a
    return high


@routine
def doubled_high(a: int, b: int, size: int, rounds: int) -> int:
    """SignedSat((2 * a * b + round) >> size): SQDMULH, SQRDMULH."""
    if size < 64:
        product = a * b
        if size == 32 and product == 1 << 62:
            return ones(31)
        return saturated_signed((2 * product + (rounds << size - 1)) >> size, size)
    if a == _LEAST and b == _LEAST:
        return _MOST
    low = a * b
    high = high_signed(a, b) << 1 | logical(low, 63)
    return high + (low >> 62 & 1) if rounds else high


@routine
def accumulated_high(total: int, a: int, b: int, size: int, subtracts: int) -> int:
    """SignedSat((total << size + or - 2 * a * b + round) >> size): SQRDMLAH, SQRDMLSH."""
    if size < 32:
        product = -2 * a * b if subtracts else 2 * a * b
        return saturated_signed((total << size) + product + (1 << size - 1) >> size, size)
    if size == 32:
        product = -a * b if subtracts else a * b
        # half of it all, which 64 bits hold
        return saturated_signed((total << 31) + product + (1 << 30) >> 31, size)
    low = a * b
    high = high_signed(a, b) << 1 | logical(low, 63)
    low <<= 1
    if subtracts:
        high = ~high + (1 if low == 0 else 0)
        low = -low
        return add_signed(total, high + logical(low, 63), 64)
    if a == _LEAST and b == _LEAST:  # 2 ** 63
        return _MOST if total >= 0 else total ^ _LEAST
    return add_signed(total, high + logical(low, 63), 64)


@routine
def polynomial(a: int, b: int, size: int) -> int:
    """PolynomialMult() of two elements of at most 32 bits."""
    result = int64(0)
    for place in range(size):
        if b >> place & 1:
            result ^= a << place
    return result
