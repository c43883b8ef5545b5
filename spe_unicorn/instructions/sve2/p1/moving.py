"""What loads and stores of FEAT_SVE2p1 move between vectors and memory, in compiled code.

A unit is what one element of the predicate governs: an element of contiguous vectors, a quadword,
or a structure of quadwords. The units follow one another in memory, and in a buffer that has the
bytes of all of them; here is what they are, and how they come from the buffer and into it. The
forms and kinds are those of ``quadword_access``. LD1Q and ST1Q have a unit a quadword, and no
buffer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import active, sign_extended
from spe_unicorn.instructions.registers import (
    GENERAL,
    PREDICATE_WORDS,
    PREDICATES,
    VECTOR_WORDS,
    VECTORS,
    RegistersRecord,
)
from spe_unicorn.instructions.sve2.p1.counters import COUNTER, is_active
from spe_unicorn.instructions.sve2.p1.quadword_access import (
    BY_REGISTER,
    CONSECUTIVE,
    QUADWORD,
    SCALE,
    STORES,
    STRUCTURES,
    WIDENED,
)
from spe_unicorn.instructions.sve2.selecting import general

NO_UNIT: Final = -1
_VECTOR_BYTES: Final = 8 * VECTOR_WORDS
MOST_BYTES: Final = 4 * _VECTOR_BYTES
"""The longest buffer: four vectors."""


@routine
def vectors_of(word: int, form: int, kind: int) -> int:
    """How many vectors a word moves."""
    if form == CONSECUTIVE:
        return int64(4) if word >> 15 & 1 else int64(2)
    return kind >> SCALE if form == STRUCTURES else int64(1)


@routine
def unit_bytes(form: int, kind: int) -> int:
    """The bytes of a unit in memory."""
    amount = kind >> SCALE
    return QUADWORD * amount if form == STRUCTURES else int64(1) << amount


@routine
def units_of(r: RegistersRecord, word: int, form: int, kind: int) -> int:
    """How many units there are."""
    if form == CONSECUTIVE:
        return vectors_of(word, form, kind) * r.bytes >> (kind >> SCALE)
    return r.bytes // QUADWORD


@routine
def address_of_units(r: RegistersRecord, word: int, form: int, kind: int) -> int:
    """The address of the first unit."""
    x = array_at(pointer_to(r.x), (GENERAL,), np.int64)
    base, unit = x[word >> 5 & 31], unit_bytes(form, kind)
    if kind & BY_REGISTER:
        return base + general(r, word >> 16 & 31) * (QUADWORD if form == STRUCTURES else unit)
    return base + sign_extended(word >> 16 & 15, 4) * units_of(r, word, form, kind) * unit


@routine
def quadword_address(r: RegistersRecord, word: int, unit: int) -> int:
    """The address of a quadword of LD1Q or ST1Q."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    return z[word >> 5 & 31, 2 * unit] + general(r, word >> 16 & 31)


@routine
def is_active_unit(r: RegistersRecord, word: int, form: int, kind: int, unit: int) -> bool:
    """Whether a unit is moved."""
    p = array_at(pointer_to(r.p), (PREDICATES, PREDICATE_WORDS), np.int64)
    governor = word >> 10 & 7
    if form == CONSECUTIVE:
        return is_active(p[governor + 8, 0] & COUNTER, unit << (kind >> SCALE), r.bytes)
    return active(p, governor, unit, 8 * QUADWORD)


@routine
def next_unit(
    r: RegistersRecord, word: int, form: int, kind: int, begin: int, end: int, wanted: int
) -> int:
    """The first unit from ``begin`` to ``end`` that is active, or is not (``wanted`` 0); or end."""
    for unit in range(begin, end):
        if is_active_unit(r, word, form, kind, unit) == (wanted != 0):
            return unit
    return end


@routine
def clear_vectors(r: RegistersRecord, word: int, form: int, kind: int) -> None:
    """Set the vectors that a word loads to 0."""
    z = array_at(pointer_to(r.z), (VECTORS, VECTOR_WORDS), np.int64)
    for n in range(vectors_of(word, form, kind)):
        d = _vector(word, form, kind, n)
        for at in range(r.bytes >> 3):
            z[d, at] = 0


@routine
def _vector(word: int, form: int, kind: int, n: int) -> int:
    """The number of the vector that is the ``n``-th of a word."""
    t = word & 31
    if form == CONSECUTIVE:
        return (t & -vectors_of(word, form, kind)) + n
    return t + n & 31


@routine
def move(
    r: RegistersRecord, word: int, form: int, kind: int, buffer: int, begin: int, end: int
) -> None:
    """Move units from the buffer at an address into vectors, or back for a store."""
    z = array_at(pointer_to(r.z), (VECTORS, _VECTOR_BYTES), np.uint8)
    memory = array_at(pointer_to(buffer), (MOST_BYTES,), np.uint8)
    if form == CONSECUTIVE:
        scale = kind >> SCALE
        for n in range(vectors_of(word, form, kind)):
            d, behind = _vector(word, form, kind, n), n * r.bytes
            first = max(int64(0), (begin << scale) - behind)
            last = min(r.bytes, (end << scale) - behind)
            if kind & STORES:
                for at in range(first, last):
                    memory[behind + at] = z[d, at]
            else:
                for at in range(first, last):
                    z[d, at] = memory[behind + at]
        return
    each = int64(1) << (kind >> SCALE) if form == WIDENED else int64(QUADWORD)
    count = vectors_of(word, form, kind)
    for unit in range(begin, end):
        for n in range(count):
            d, at = _vector(word, form, kind, n), (unit * count + n) * each
            for byte in range(each):
                if kind & STORES:
                    memory[at + byte] = z[d, unit * QUADWORD + byte]
                else:
                    z[d, unit * QUADWORD + byte] = memory[at + byte]
