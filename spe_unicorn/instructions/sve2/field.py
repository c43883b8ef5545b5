"""The field of 256 elements, by which the tables of ciphers are made when they are imported."""

from __future__ import annotations


def inverses(polynomial: int) -> tuple[int, ...]:
    """The inverse of each element, 0 for 0, where ``polynomial`` is what products are reduced by.

    The powers of 2, or of the next element whose powers are all the others, are walked through
    once. To try each pair of elements takes a hundred times as long.
    """
    for generator in range(2, 256):
        powers = [1]
        while (power := times(powers[-1], generator, polynomial)) != 1:
            powers.append(power)
        if len(powers) == 255:
            break
    found = [0] * 256
    for power, inverse in zip(powers, [powers[0], *powers[:0:-1]], strict=True):
        found[power] = inverse
    return tuple(found)


def times(a: int, b: int, polynomial: int) -> int:
    """A product of two elements."""
    result = 0
    while b:
        if b & 1:
            result ^= a
        a <<= 1
        if a & 256:
            a ^= polynomial
        b >>= 1
    return result
