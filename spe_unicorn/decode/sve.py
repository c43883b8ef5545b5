"""The Scalable Vector Extension, as far as profiling looks (Arm ARM C4.1.36).

Told exactly: loads and stores, gather and scatter, predication. Data processing is told apart by
groups; where a group may write a general register or the flags, each of its members is said to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from spe_unicorn.arch.operation import (
    Access,
    CostClass,
    Extend,
    Family,
    Instruction,
    RegisterKind,
    Structure,
    VectorAccess,
)
from spe_unicorn.bits import signed
from spe_unicorn.decode.parts import FLAGS, address_reads, unallocated, x, xsp

_QUADWORD: Final = 16
"""Bytes."""
_Place = Callable[[int, int, int], Access]
"""Where a word accesses, with the logarithm of an element's bytes, and what 128 bits access."""


def scalable_vector(word: int) -> Instruction:
    """SVE and SVE2: bits 28:25 are 0010."""
    group = word >> 29
    if group == 7:
        return _store(word)
    if group == 6:
        return _gather_64(word)
    if group == 5:
        return _contiguous_load(word)
    if group == 4:
        return _gather_32_or_one(word)
    return _GROUPS[word >> 24 & 1 | group << 1](word)


def consecutive_vectors(word: int) -> Instruction:
    """FEAT_SVE2p1: LD1, LDNT1, ST1 and STNT1 of two or four vectors, which a counter governs."""
    four, by_immediate = word >> 15 & 1, word >> 22 & 1
    if word >> 23 != _CONSECUTIVE or (four and word >> 1 & 1) or (by_immediate and word >> 20 & 1):
        return unallocated(word)
    scale, count = word >> 13 & 3, 4 if four else 2
    where = _scalar_plus_immediate if by_immediate else _scalar_plus_scalar
    load = not word >> 21 & 1
    one = _memory(word, where(word, scale, _QUADWORD * count), load=load, lane=1 << scale)
    return replace(one, register_count=count, governor=8 | word >> 10 & 7, counter=True)


_CONSECUTIVE: Final = 0x140
"""Bits 31 to 23 of these."""


# Loads and stores


def _memory(
    word: int,
    access: Access | None,
    *,
    load: bool,
    reads: int = 0,
    lane: int = 0,
    elements: VectorAccess | None = None,
    gather_scatter: bool = False,
    count: int = 1,
) -> Instruction:
    """A load or store; its elements have ``lane`` bytes in the vector, 0 if it has no predicate."""
    return Instruction(
        word,
        family=Family.LOAD if load else Family.STORE,
        cost=CostClass.LOAD if load else CostClass.STORE,
        access=access,
        registers=RegisterKind.SVE,
        register_count=count,
        structure=Structure.NONE if count == 1 else Structure.INTERLEAVED,
        sve=True,
        predicated=bool(lane),
        governor=word >> 10 & 7 if lane else None,
        lane=lane,
        elements=elements,
        gather_scatter=gather_scatter,
        reads=reads | address_reads(access) | _base_reads(elements),
    )


def _base(word: int) -> int:
    return word >> 5 & 31


def _base_reads(elements: VectorAccess | None) -> int:
    return 0 if elements is None or elements.base is None else xsp(elements.base)


def _scattered(word: int, lane: int, elements: VectorAccess, *, load: bool) -> Instruction:
    """Addresses that come from a vector: no single access stands for them."""
    return _memory(word, None, load=load, elements=elements, lane=lane, gather_scatter=True)


def _offsets(word: int, extend: Extend, *, scaled: int) -> VectorAccess:
    """Scalar plus vector: a register, and offsets in units of a byte or of an element."""
    msz = word >> 23 & 3
    shift = msz if scaled else 0
    return VectorAccess(_base(word), word >> 16 & 31, 1 << msz, extend=extend, shift=shift)


def _narrow(signed_offsets: int) -> Extend:
    """How offsets of 32 bits are extended."""
    return Extend.SXTW if signed_offsets else Extend.UXTW


def _addresses(word: int, lane: int, *, base: int | None = None, offset: int = 0) -> VectorAccess:
    """A vector of addresses, plus an immediate or a register."""
    extend = Extend.UXTW if lane == 4 else Extend.LSL
    msz = word >> 23 & 3
    return VectorAccess(base, word >> 5 & 31, 1 << msz, offset << msz, extend)


def _plus_immediate(word: int, lane: int) -> VectorAccess:
    return _addresses(word, lane, offset=word >> 16 & 31)


def _plus_scalar(word: int, lane: int) -> VectorAccess:
    rm = word >> 16 & 31
    return _addresses(word, lane, base=None if rm == 31 else rm)


def _prefetch(word: int, reads: int) -> Instruction:
    return Instruction(word, reads=reads)


def _register_file(word: int, *, load: bool) -> Instruction:
    """LDR, STR of a whole vector (bit 14) or predicate."""
    size = 16 if word >> 14 & 1 else 2
    imm9 = signed(word >> 13 & 0x1F8 | word >> 10 & 7, 9)
    where = Access(_base(word), imm9 * size, size, 16 if size == 16 else 2, scalable=True)
    return _memory(word, where, load=load)


_LOAD_TYPES = (
    (0, 0), (0, 1), (0, 2), (0, 3), (2, 3), (1, 1), (1, 2), (1, 3),
    (1, 3), (1, 2), (2, 2), (2, 3), (0, 3), (0, 2), (0, 1), (3, 3),
)  # fmt: skip
"""dtype of a contiguous load: base-2 logarithms of the bytes in memory and in the vector."""


def _scalar_plus_scalar(word: int, shift: int, size: int) -> Access:
    rm = word >> 16 & 31
    index = None if rm == 31 else rm
    return Access(_base(word), 0, size, 1 << shift, index=index, shift=shift, scalable=True)


def _scalar_plus_immediate(word: int, scale: int, size: int) -> Access:
    offset = signed(word >> 16, 4) * size
    return Access(_base(word), offset, size, 1 << scale, scalable=True)


def _structures(word: int) -> tuple[int, int]:
    """Of LD1 (non-temporal) to LD4: log2 of the element, bytes for a vector of 128 bits."""
    return word >> 23 & 3, 16 * ((word >> 21 & 3) + 1)


def _contiguous_load(word: int) -> Instruction:
    form = word >> 13 & 7
    dtype = word >> 21 & 15
    bit20 = word >> 20 & 1
    if form in (0, 1):
        return _load_quadwords(word, form)
    if form in (2, 3):  # LD1, LDFF1 (scalar plus scalar)
        scale, lane = _LOAD_TYPES[dtype]
        where = _scalar_plus_scalar(word, scale, 16 >> lane - scale)
        return _memory(word, where, load=True, lane=1 << lane)
    if form == 5:  # LD1, LDNF1 (scalar plus immediate)
        scale, lane = _LOAD_TYPES[dtype]
        where = _scalar_plus_immediate(word, scale, 16 >> lane - scale)
        return _memory(word, where, load=True, lane=1 << lane)
    scale, size = _structures(word)
    if form == 6:
        where = _scalar_plus_scalar(word, scale, size)
        return _memory(word, where, load=True, lane=1 << scale, count=size // 16)
    if form == 7 and not bit20:
        where = _scalar_plus_immediate(word, scale, size)
        return _memory(word, where, load=True, lane=1 << scale, count=size // 16)
    kind = word >> 21 & 3
    if form == 4 and kind == 0:
        return _widened(word, _scalar_plus_scalar, load=True)
    if kind == (1 if form == 4 else 0):
        place = _scalar_plus_scalar if form == 4 else _scalar_plus_immediate
        return _quadword_structures(word, scale + 1, place, load=True)
    return unallocated(word)


def _widened(word: int, where: _Place, *, load: bool) -> Instruction:
    """FEAT_SVE2p1: LD1W, LD1D, ST1W and ST1D of elements that are quadwords in the vector."""
    scale = word >> 23 & 3
    if scale < 2:
        return unallocated(word)
    return _memory(word, where(word, scale, 1 << scale), load=load, lane=_QUADWORD)


def _quadword_structures(word: int, count: int, where: _Place, *, load: bool) -> Instruction:
    """FEAT_SVE2p1: LD2Q to LD4Q, ST2Q to ST4Q."""
    if count == 1:
        return unallocated(word)
    size = _QUADWORD * count
    return _memory(word, where(word, 4, size), load=load, lane=_QUADWORD, count=count)


def _load_quadwords(word: int, form: int) -> Instruction:
    """LD1RQ, LD1RO: 16 or 32 bytes, whatever the vector length."""
    scale, wide = word >> 23 & 3, word >> 21 & 3
    base = _base(word)
    if form and word >> 20 & 1:
        return unallocated(word) if wide else _widened(word, _scalar_plus_immediate, load=True)
    if wide > 1:
        return unallocated(word)
    size = 16 << wide
    if form:
        where = Access(base, signed(word >> 16, 4) * size, size, 1 << scale)
    else:
        index = word >> 16 & 31
        where = Access(base, 0, size, 1 << scale, index=None if index == 31 else index, shift=scale)
    return _memory(word, where, load=True, lane=1 << scale)


def _gather_32_or_one(word: int) -> Instruction:
    """32-bit gathers, LD1R, LDR, prefetches."""
    msz, kind, form = word >> 23 & 3, word >> 21 & 3, word >> 13 & 7
    bit4 = word >> 4 & 1
    rm = x(word >> 16 & 31)
    base = xsp(_base(word))
    if form & 4:
        if kind & 2:  # LD1R
            return _load_and_replicate(word)
        if kind == 1:
            return _scattered(word, 4, _plus_immediate(word, 4), load=True)
        if form == 6:
            return _prefetch(word, base | rm) if not bit4 else unallocated(word)
        if form == 7:
            return _prefetch(word, 0) if not bit4 else unallocated(word)
        return _scattered(word, 4, _plus_scalar(word, 4), load=True)  # LDNT1
    if msz == 3:
        if kind & 2:
            return _prefetch(word, base) if not bit4 else unallocated(word)
        if form in (0, 2) and not (form == 0 and bit4):
            return _register_file(word, load=True)
        return unallocated(word)
    if msz == 0 and kind & 1:
        return _prefetch(word, base) if not bit4 else unallocated(word)
    where = _offsets(word, _narrow(word >> 22 & 1), scaled=word >> 21 & 1)
    return _scattered(word, 4, where, load=True)


def _load_and_replicate(word: int) -> Instruction:
    """LD1R: dtype is in bits 24:23 and 14:13."""
    scale, lane = _LOAD_TYPES[word >> 21 & 12 | word >> 13 & 3]
    where = Access(_base(word), (word >> 16 & 63) << scale, 1 << scale, 1 << scale)
    return _memory(word, where, load=True, lane=1 << lane)


def _gather_64(word: int) -> Instruction:
    msz, kind, form = word >> 23 & 3, word >> 21 & 3, word >> 13 & 7
    prefetch = not word >> 4 & 1
    if kind == 0 and form & 4:
        if form == 7:
            return _prefetch(word, 0) if prefetch else unallocated(word)
        if form == 5:
            return _quadwords(word, load=True)
        return _scattered(word, 8, _plus_scalar(word, 8), load=True)  # LDNT1
    if kind == 1 and form & 4:
        return _scattered(word, 8, _plus_immediate(word, 8), load=True)
    if msz == 0 and kind & 1:  # scalar plus vector
        return _prefetch(word, xsp(_base(word))) if prefetch else unallocated(word)
    if form & 4:
        return _scattered(word, 8, _offsets(word, Extend.LSL, scaled=kind & 1), load=True)
    where = _offsets(word, _narrow(word >> 22 & 1), scaled=word >> 21 & 1)
    return _scattered(word, 8, where, load=True)


def _quadwords(word: int, *, load: bool) -> Instruction:
    """LD1Q, ST1Q (FEAT_SVE2p1): the low half of a quadword of Zn is an address."""
    rm = word >> 16 & 31
    base = None if rm == 31 else rm
    elements = VectorAccess(base, word >> 5 & 31, _QUADWORD, 0, Extend.LSL)
    return _scattered(word, _QUADWORD, elements, load=load)


def _store(word: int) -> Instruction:
    msz, size, form = word >> 23 & 3, word >> 21 & 3, word >> 13 & 7
    if form in (0, 2) and word >> 22 & 7 == 6:
        return _register_file(word, load=False)
    if form == 2:  # ST1 (scalar plus scalar)
        if size >= msz:
            where = _scalar_plus_scalar(word, msz, 16 >> size - msz)
            return _memory(word, where, load=False, lane=1 << size)
    elif form == 3:  # STNT1, ST2 to ST4 (scalar plus scalar)
        scale, total = _structures(word)
        where = _scalar_plus_scalar(word, scale, total)
        return _memory(word, where, load=False, lane=1 << scale, count=total // 16)
    elif form == 7:
        if word >> 20 & 1:  # STNT1, ST2 to ST4 (scalar plus immediate)
            scale, total = _structures(word)
            where = _scalar_plus_immediate(word, scale, total)
            return _memory(word, where, load=False, lane=1 << scale, count=total // 16)
        if size >= msz:  # ST1 (scalar plus immediate)
            where = _scalar_plus_immediate(word, msz, 16 >> size - msz)
            return _memory(word, where, load=False, lane=1 << size)
    elif form == 1:
        if size & 1:
            return _quadwords(word, load=False)
        lane = 4 if size == 2 else 8
        return _scattered(word, lane, _plus_scalar(word, lane), load=False)  # STNT1
    elif form == 5:
        if size >= 2:
            lane = 4 if size == 3 else 8
            return _scattered(word, lane, _plus_immediate(word, lane), load=False)
        return _scattered(word, 8, _offsets(word, Extend.LSL, scaled=size), load=False)
    elif form in (4, 6):
        elements = _offsets(word, _narrow(word >> 14 & 1), scaled=size & 1)
        return _scattered(word, 4 if size >= 2 else 8, elements, load=False)
    return _quadword_store(word, form)


def _quadword_store(word: int, form: int) -> Instruction:
    """Stores of FEAT_SVE2p1 that are no scatter."""
    by_register = form == 2 or (form == 0 and word >> 21 & 1)
    where = _scalar_plus_scalar if by_register else _scalar_plus_immediate
    if form in (2, 7):
        narrow = word >> 21 & 3 != 2 * (word >> 23 & 1)
        return unallocated(word) if narrow else _widened(word, where, load=False)
    if form or word >> 24 & 1 or (word >> 20 & 1 and not by_register):
        return unallocated(word)
    return _quadword_structures(word, (word >> 22 & 3) + 1, where, load=False)


# Data processing


def _vector(
    word: int,
    *,
    predicated: bool = False,
    fp: bool = False,
    reads: int = 0,
    writes: int = 0,
    governor: int | None = None,
    lane: int = 0,
) -> Instruction:
    """Data processing; its governing predicate and elements are where most have them."""
    if predicated:
        governor = word >> 10 & 7 if governor is None else governor
        lane = lane or 1 << (word >> 22 & 3)
    return Instruction(
        word,
        cost=CostClass.FP if fp else CostClass.SIMD,
        fp=fp,
        simd=True,
        sve=True,
        predicated=predicated,
        governor=governor,
        lane=lane,
        reads=reads,
        writes=writes,
    )


def _integer(word: int) -> Instruction:
    """Bits 31:24 are 0x04: integer arithmetic, element counts, addresses."""
    form, rd = word >> 13 & 7, word & 31
    if not word >> 21 & 1:  # all merge or zero but the reductions; MOVPRFX is among those
        negated = form == 5 and word >> 17 & 15 == 14  # FABS, FNEG
        predicated = form != 1 or word >> 17 & 15 == 8
        lane = 0
        if form == 4 and not word >> 20 & 1:  # shifts by an immediate: the size is a leading one
            lane = 1 << max((word >> 20 & 12 | word >> 8 & 3).bit_length() - 1, 0)
        return _vector(word, predicated=predicated, fp=negated, lane=lane)
    if form == 2:
        return _index_or_length(word)
    if form == 7:  # CNTB ..., INCB, SQINCB ...
        count_only = not word & 0x0010_1000
        return _vector(word, reads=0 if count_only else x(rd), writes=x(rd))
    return _vector(word, fp=word >> 10 & 63 in (0b101110, 0b101100))  # FEXPA, FTSSEL


def _index_or_length(word: int) -> Instruction:
    """INDEX, ADDVL, ADDPL, RDVL and their streaming kin."""
    rd, rn, rm = word & 31, word >> 5 & 31, word >> 16 & 31
    if not word >> 12 & 1:  # INDEX: bits 10 and 11 make its operands registers
        start, step = word >> 10 & 1, word >> 11 & 1
        return _vector(word, reads=(x(rn) if start else 0) | (x(rm) if step else 0))
    if word >> 23 & 1:
        return _vector(word, writes=x(rd))
    return _vector(word, reads=xsp(rm), writes=xsp(rd))


def _permute(word: int) -> Instruction:
    """Bits 31:24 are 0x05: permutes, broadcasts, wide immediates."""
    form, kind, rn, rd = word >> 13 & 7, word >> 16 & 31, word >> 5 & 31, word & 31
    if not word >> 21 & 1:
        copy = bool(word >> 20 & 1)  # CPY, FCPY (immediate)
        governor = word >> 16 & 15 if copy else None
        return _vector(word, predicated=copy, fp=copy and form == 6, governor=governor)
    if word & 0x001B_FC00 == 0x3800:  # DUP, INSR from a general register
        return _vector(word, reads=x(rn) if kind else xsp(rn))
    if form == 5:
        if kind in (0, 1):  # LASTA, LASTB
            return _vector(word, writes=x(rd))
        if kind in (16, 17):  # CLASTA, CLASTB
            return _vector(word, reads=x(rd), writes=x(rd))
        return _vector(word, predicated=True, reads=xsp(rn))  # CPY from a general register
    if form == 4:  # CPY from a SIMD&FP register; REVB ...; REVD
        predicated = kind == 0 or 4 <= kind <= 7 or kind == 14
        return _vector(word, predicated=predicated, lane=16 if kind == 14 else 0)
    return _vector(word)


def _compare(word: int) -> Instruction:
    """Bits 31:24 are 0x24: compares, which write a predicate and the flags."""
    return _vector(word, writes=FLAGS)


def _predicate(word: int) -> Instruction:
    """Bits 31:24 are 0x25: predicates, loops, counts of predicates."""
    form, rd = word >> 13 & 7, word & 31
    if not word >> 21 & 1:  # bit 22 sets the flags, but where bit 14 or the miscellany say more
        miscellany = word >> 14 & 3 == 3 and word >> 19 & 3 == 3
        silent = word >> 14 & 1 and not word >> 22 & 1 and not miscellany
        return _vector(word, writes=0 if silent else FLAGS)
    if form in (4, 5):  # CNTP, FIRSTP, LASTP; INCP, SQINCP, and those for vectors
        if not word >> 19 & 1:
            return _vector(word, writes=x(rd))
        return _vector(word, reads=x(rd), writes=x(rd)) if word >> 11 & 1 else _vector(word)
    if form < 4:
        return _loop(word, form)
    return _vector(word, fp=word >> 14 & 0xFF == 0b1110_0111)  # FDUP


def _loop(word: int, form: int) -> Instruction:
    """WHILE*, CTERM*, PSEL, and the few that make predicates of counters."""
    if form >= 2 and not word >> 4 & 1:  # PSEL
        return _vector(word, reads=x(12 + (word >> 16 & 3)))
    if form == 3 and word >> 12 & 1:  # PEXT, PTRUE of a counter
        return _vector(word)
    terminate = FLAGS if form == 1 and not word >> 12 & 1 else 0  # CTERM keeps C
    reads = x(word >> 5 & 31) | x(word >> 16 & 31) | terminate
    return _vector(word, reads=reads, writes=FLAGS)


def _sve2_integer(word: int) -> Instruction:
    """Bits 31:24 are 0x44."""
    return _vector(word, predicated=not word >> 21 & 1 and word >> 14 & 3 == 2)


def _sve2_wide(word: int) -> Instruction:
    """Bits 31:24 are 0x45: MATCH writes the flags, HISTCNT zeroes."""
    if not word >> 21 & 1:
        return _vector(word)
    form = word >> 13 & 7
    return _vector(word, predicated=form == 6, writes=FLAGS if form == 4 else 0)


def _floating_point(word: int) -> Instruction:
    """Bits 31:24 are 0x64: complex, pairwise, widening, indexed."""
    form = word >> 13 & 7
    if word >> 21 & 1:
        return _vector(word, fp=True)
    reduction = form == 5 and word >> 19 & 3 == 2  # FADDQV ...
    predicated = form < 6 and not reduction
    lane = _converted(word, form) if predicated else 0
    return _vector(word, fp=True, predicated=predicated, lane=lane)


def _floating_point_predicated(word: int) -> Instruction:
    """Bits 31:24 are 0x65: arithmetic, compares, conversions, multiply-add."""
    form = word >> 13 & 7
    if word >> 21 & 1:
        return _vector(word, fp=True, predicated=True)
    trigonometric = word >> 19 & 3 == 2  # FTMAD
    predicated = form == 5 or (form == 4 and not trigonometric)
    return _vector(word, fp=True, predicated=predicated, lane=_converted(word, form))


def _converted(word: int, form: int) -> int:
    """The element size of a conversion: the larger one; 0 for what is none."""
    kind, size = word >> 18 & 7, word >> 22 & 3
    if form != 5:
        return 0
    if kind == 2:  # between precisions; size 0 rounds doubles to odd
        return 4 if size == 2 else 8
    if kind >= 4:  # from or to integers, FLOGB; half precision names the integer apart
        return 1 << (word >> 17 & 3) if size < 2 else 1 << size
    return 0


_GROUPS = (
    _integer,
    _permute,
    _compare,
    _predicate,
    _sve2_integer,
    _sve2_wide,
    _floating_point,
    _floating_point_predicated,
)
"""By bits 30:29 and 24."""
