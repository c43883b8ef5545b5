"""Loads, stores and atomics on general and SIMD&FP registers (Arm ARM C4.1.96)."""

from __future__ import annotations

from dataclasses import replace

from spe_unicorn.arch.operation import Access, Extend, Instruction, RegisterKind
from spe_unicorn.bits import signed
from spe_unicorn.decode.ordered import ordered_offset_or_tag
from spe_unicorn.decode.parts import (
    FLAGS,
    TAG_GRANULE,
    atomic,
    fetch_and_operate,
    memory,
    simd_fp,
    unallocated,
    x,
    xs,
)
from spe_unicorn.decode.structures import structure_load_store


def load_store(word: int) -> Instruction:
    """Loads and stores: bit 27 is set and bit 25 clear."""
    kind = word >> 28 & 3
    if kind == 0:
        return structure_load_store(word) if word >> 26 & 1 else _exclusive_or_ordered(word)
    if kind == 1:
        return ordered_offset_or_tag(word) if word >> 24 & 1 else _literal(word)
    if kind == 2:
        return _pair(word)
    return _register(word)


# Bits 29:28 = 00: exclusives, ordered, compare and swap; structures


def _exclusive_or_ordered(word: int) -> Instruction:
    if word >> 24 & 1:
        return _unprivileged_exclusive(word)
    size = 1 << (word >> 30)
    rt2 = word >> 10 & 31
    if word >> 23 & 1:
        if not word >> 21 & 1:
            return _ordered(word, size)
        return _compare_and_swap(word, size) if rt2 == 31 else unallocated(word)
    if not word >> 21 & 1:
        return _exclusive(word, size, pair=False)
    if size >= 4:
        return _exclusive(word, size, pair=True)
    return _compare_and_swap_pair(word) if rt2 == 31 else unallocated(word)


def _ordered(word: int, size: int) -> Instruction:
    """LDAR, STLR, LDLAR, STLLR and their byte and halfword forms."""
    where = Access(word >> 5 & 31, 0, size, size)
    return memory(word, where, load=bool(word >> 22 & 1), data=x(word & 31), ordered=True)


def _exclusive(word: int, size: int, *, pair: bool) -> Instruction:
    """LDXR, STXR, LDAXR, STLXR; a pair is one access and aligned as a whole."""
    total = size << pair
    load = bool(word >> 22 & 1)
    return memory(
        word,
        Access(word >> 5 & 31, 0, total, total),
        load=load,
        data=x(word & 31) | (x(word >> 10 & 31) if pair else 0),
        writes=0 if load else x(word >> 16 & 31),  # the status
        count=1 + pair,
        ordered=bool(word >> 15 & 1),
        exclusive=True,
    )


def _compare_and_swap(word: int, size: int) -> Instruction:
    """CAS: bit 22 acquires, bit 15 releases."""
    rs = x(word >> 16 & 31)
    return atomic(
        word,
        Access(word >> 5 & 31, 0, size, size),
        reads=rs | x(word & 31),
        writes=rs,
        ordered=bool(word & 0x0040_8000),
    )


def _compare_and_swap_pair(word: int) -> Instruction:
    """CASP, whose register pairs begin with an even one."""
    rs, rt = word >> 16 & 31, word & 31
    if (rs | rt) & 1:
        return unallocated(word)
    total = 8 << (word >> 30 & 1)
    return atomic(
        word,
        Access(word >> 5 & 31, 0, total, total),
        reads=xs(rs, 2) | xs(rt, 2),
        writes=xs(rs, 2),
        ordered=bool(word & 0x0040_8000),
    )


def _unprivileged_exclusive(word: int) -> Instruction:
    """LDTXR, STTXR, CAST, CASPT and their ordered forms."""
    size, rt2 = word >> 30, word >> 10 & 31
    if word >> 21 & 1 or rt2 != 31:
        return unallocated(word)
    if word >> 23 & 1:
        if size == 3:
            return _compare_and_swap(word, 8)
        return _compare_and_swap_pair(word) if size == 1 else unallocated(word)
    return _exclusive(word, 1 << size, pair=False) if size >= 2 else unallocated(word)


# Bits 29:28 = 01: literal; what else is there is in `decode_ordered`


def _literal(word: int) -> Instruction:
    opc, offset = word >> 30, signed(word >> 5, 19) << 2
    if word >> 26 & 1:
        if opc == 3:
            return unallocated(word)
        size = 4 << opc
        where = Access(None, offset, size, size)
        return simd_fp(word, where, load=True, scalar=opc < 2)
    if opc == 3:  # PRFM
        return Instruction(word)
    size = 8 if opc == 1 else 4
    return memory(word, Access(None, offset, size, size), load=True, data=x(word & 31))


# Bits 29:28 = 10: pairs


def _pair(word: int) -> Instruction:
    opc, mode, load = word >> 30, word >> 23 & 3, bool(word >> 22 & 1)
    simd = word >> 26 & 1
    tags = False
    if simd:
        size = 16 if opc == 3 else 4 << opc  # opc 3: LDTP, STTP
    elif opc == 1:  # LDPSW, STGP
        if mode == 0:
            return unallocated(word)
        tags = not load
        size = 8 if tags else 4
    else:
        size = 4 if opc == 0 else 8
    offset = signed(word >> 15, 7) * (TAG_GRANULE if tags else size)
    where = Access(
        word >> 5 & 31,
        0 if mode == 1 else offset,
        2 * size,
        TAG_GRANULE if tags else size,
        writeback=offset if mode & 1 else None,
    )
    if simd:
        return simd_fp(word, where, load=load, scalar=size <= 8, count=2)
    return memory(word, where, load=load, data=x(word & 31) | x(word >> 10 & 31), count=2)


# Bits 29:28 = 11: one register, and the atomics


def _register(word: int) -> Instruction:
    if word >> 24 & 1:
        scale = _scale(word)
        return _single(
            word, scale, Access(word >> 5 & 31, (word >> 10 & 0xFFF) << scale, *_n(scale))
        )
    form = word >> 10 & 3
    if not word >> 21 & 1:
        return _nine_bit_offset(word, form)
    if form == 2:
        return _register_offset(word)
    if form == 0:
        return _atomic_fp(word) if word >> 26 & 1 else _atomic(word)
    return _authenticated(word)


def _scale(word: int) -> int:
    """Base-2 logarithm of the bytes that a single register moves."""
    return 4 if word >> 26 & 1 and word >> 23 & 1 else word >> 30


def _n(scale: int) -> tuple[int, int]:
    """The sizes of an access of one element."""
    return 1 << scale, 1 << scale


def _nine_bit_offset(word: int, form: int) -> Instruction:
    """Unscaled, post-index, unprivileged and pre-index, by bits 11:10."""
    if form == 2 and word >> 26 & 1:
        return unallocated(word)
    if form and word & 0xC480_0000 == 0xC080_0000:  # would be PRFM, which has only PRFUM here
        return unallocated(word)
    scale, offset = _scale(word), signed(word >> 12, 9)
    where = Access(
        word >> 5 & 31,
        0 if form == 1 else offset,
        *_n(scale),
        writeback=offset if form & 1 else None,
        unprivileged=form == 2,
    )
    return _single(word, scale, where)


def _register_offset(word: int) -> Instruction:
    option, rm, scale = word >> 13 & 7, word >> 16 & 31, _scale(word)
    if not option & 2:
        return unallocated(word)
    where = Access(
        word >> 5 & 31,
        0,
        *_n(scale),
        index=None if rm == 31 else rm,
        extend=Extend.LSL if option == 3 else Extend(option),
        shift=scale if word >> 12 & 1 else 0,
    )
    return _single(word, scale, where)


def _single(word: int, scale: int, where: Access) -> Instruction:
    """LDR, STR and PRFM in all their addressing modes, by size and opc."""
    size, opc = word >> 30, word >> 22 & 3
    if word >> 26 & 1:
        if opc >= 2 and size:
            return unallocated(word)
        return simd_fp(word, where, load=bool(opc & 1), scalar=scale < 4)
    if opc >= 2 and size + opc > 4:
        return _prefetch(word, where) if size == 3 and opc == 2 else unallocated(word)
    return memory(word, where, load=opc != 0, data=x(word & 31))


def _prefetch(word: int, where: Access) -> Instruction:
    reads = 1 << (where.base or 0) | (0 if where.index is None else x(where.index))
    return Instruction(word, reads=reads)


def _atomic(word: int) -> Instruction:
    size, key = word >> 30, word >> 12 & 15
    if key <= 8:
        return fetch_and_operate(word, 1 << size)
    if key == 12 and word & 0x00DF_0000 == 0x009F_0000:  # LDAPR
        where = Access(word >> 5 & 31, 0, *_n(size))
        return memory(word, where, load=True, data=x(word & 31), ordered=True)
    if key in (9, 10, 11) and size < 2:  # RCWCLR, RCWSWP, RCWSET
        where = Access(word >> 5 & 31, 0, 8, 8)
        return atomic(
            word,
            where,
            reads=x(word >> 16 & 31),
            writes=x(word & 31) | FLAGS,
            ordered=bool(word & 0x00C0_0000),
        )
    if size == 3 and not word & 0x00C0_0000:
        return _64_bytes(word, key)
    return unallocated(word)


def _64_bytes(word: int, key: int) -> Instruction:
    """LD64B, ST64B, ST64BV, ST64BV0: eight registers from an even one up to X22."""
    rt, rs = word & 31, word >> 16 & 31
    if rt & 1 or rt > 22:
        return unallocated(word)
    where = Access(word >> 5 & 31, 0, 64, 64)
    if key in (9, 13) and rs == 31:
        return memory(word, where, load=key == 13, data=xs(rt, 8), count=8)
    if key in (10, 11):
        return memory(word, where, load=False, data=xs(rt, 8), writes=x(rs), count=8)
    return unallocated(word)


def _atomic_fp(word: int) -> Instruction:
    """LDFADD, LDFMAX ..., STFADD ..., LDBFADD ...: bit 15 with Rt = 31 returns nothing."""
    size = word >> 30 or 1  # size 0 is BFloat16
    operation, store = word >> 12 & 7, word >> 15 & 1
    if operation in (1, 2, 3) or (store and (word & 31 != 31 or word >> 23 & 1)):
        return unallocated(word)
    where = Access(word >> 5 & 31, 0, *_n(size))
    general = atomic(word, where, returns=not store, ordered=bool(word & 0x00C0_0000))
    return replace(general, registers=RegisterKind.SIMD_FP, scalar=True)


def _authenticated(word: int) -> Instruction:
    """LDRAA, LDRAB."""
    if word >> 30 != 3 or word >> 26 & 1:
        return unallocated(word)
    offset = signed(word >> 13 & 0x200 | word >> 12 & 0x1FF, 10) * 8
    where = Access(
        word >> 5 & 31,
        offset,
        8,
        8,
        writeback=offset if word >> 11 & 1 else None,
        authenticated=True,
    )
    return memory(word, where, load=True, data=x(word & 31))
