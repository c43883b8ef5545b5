"""Elements of vectors and predicates, and copies of operands (Arm ARM, Elem[], ElemP[]).

Elements have 8, 16, 32 or 64 bits. Element 0 is the lowest. A form copies its operands to scratch
rows first, so that it may write its result while it reads them.
"""

from __future__ import annotations

from spe_unicorn.compiled import Table, routine


@routine
def ones(size: int) -> int:
    """So many one bits, 1 to 64."""
    return -1 if size == 64 else (1 << size) - 1


@routine
def sign_extended(value: int, size: int) -> int:
    """The low ``size`` bits of a number as a signed one."""
    return value << 64 - size >> 64 - size


@routine
def unsigned(rows: Table, n: int, element: int, size: int) -> int:
    """An element; one of 64 bits is a signed number all the same."""
    at = element * size
    return rows[n, at >> 6] >> (at & 63) & ones(size)


@routine
def signed(rows: Table, n: int, element: int, size: int) -> int:
    """An element as a signed number."""
    return sign_extended(unsigned(rows, n, element, size), size)


@routine
def taken(rows: Table, n: int, element: int, size: int, is_signed: int) -> int:
    """An element as a number, signed unless ``is_signed`` is 0."""
    value = unsigned(rows, n, element, size)
    return sign_extended(value, size) if is_signed else value


@routine
def put(rows: Table, n: int, element: int, size: int, value: int) -> None:
    """Store the low bits of a number as an element."""
    at = element * size
    keep = ~(ones(size) << (at & 63))
    rows[n, at >> 6] = rows[n, at >> 6] & keep | (value & ones(size)) << (at & 63)


@routine
def active(predicates: Table, p: int, element: int, size: int) -> bool:
    """Whether an element of so many bits is active in a predicate."""
    at = element * size >> 3
    return predicates[p, at >> 6] >> (at & 63) & 1 != 0


@routine
def copy(to: Table, row: int, rows: Table, n: int, size: int) -> None:
    """Copy the first ``size`` bytes of a vector, a multiple of 8, to a row."""
    for word in range(size >> 3):
        to[row, word] = rows[n, word]


@routine
def clear_above(rows: Table, n: int, size: int, whole: int) -> None:
    """Clear bytes ``size`` to ``whole`` of a vector register, above a result of Advanced SIMD."""
    for word in range(size >> 3, whole >> 3):
        rows[n, word] = 0
