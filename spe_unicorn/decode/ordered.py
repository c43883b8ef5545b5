"""Ordered loads and stores with an offset, and what shares their place in the encoding.

That is memory copy and set, tag accesses, and atomics of 128 bits (Arm ARM C4.1.96).
"""

from __future__ import annotations

from spe_unicorn.arch.operation import Access, Extend, Instruction, RegisterKind
from spe_unicorn.bits import signed
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
    xsp,
)

TAG_BLOCK = 64
"""Bytes whose tags STGM, LDGM and STZGM move at once: GMID_EL1.BS is 4."""


def ordered_offset_or_tag(word: int) -> Instruction:
    """Bits 29:28 are 01 and bit 24 is set."""
    size, simd, form = word >> 30, word >> 26 & 1, word >> 10 & 3
    if word >> 21 & 1:
        if simd or size == 2:
            return unallocated(word)
        return _tag(word) if size == 3 else _atomic_128(word)
    if form == 1:
        return unallocated(word) if size else _copy_or_set(word)
    if simd:
        return _ordered_simd_fp(word) if form == 2 else unallocated(word)
    if form == 0:
        return _ordered_unscaled(word)
    if form == 2 and size >= 2:
        return _ordered_pair_or_writeback(word)
    if form == 3 and word & 0xFFFF_EC00 == 0xD91F_0C00:  # GCSSTR, GCSSTTR
        where = Access(word >> 5 & 31, 0, 8, 8)
        return memory(word, where, load=False, data=x(word & 31), registers=RegisterKind.GCS)
    return unallocated(word)


def _ordered_unscaled(word: int) -> Instruction:
    """LDAPUR, STLUR and their byte, halfword and signed forms."""
    size, opc = word >> 30, word >> 22 & 3
    if opc >= 2 and size + opc > 4:
        return unallocated(word)
    where = Access(word >> 5 & 31, signed(word >> 12, 9), 1 << size, 1 << size)
    return memory(word, where, load=opc != 0, data=x(word & 31), ordered=True)


def _ordered_simd_fp(word: int) -> Instruction:
    """LDAPUR, STLUR (SIMD&FP)."""
    size, opc = word >> 30, word >> 22 & 3
    if opc >= 2 and size:
        return unallocated(word)
    nbytes = 16 if opc >= 2 else 1 << size
    where = Access(word >> 5 & 31, signed(word >> 12, 9), nbytes, nbytes)
    return simd_fp(word, where, load=bool(opc & 1), scalar=nbytes <= 8, ordered=True)


def _ordered_pair_or_writeback(word: int) -> Instruction:
    """LDIAPP, STILP; LDAPR with post-index, STLR with pre-index."""
    size, rn, rt, rt2 = 1 << (word >> 30), word >> 5 & 31, word & 31, word >> 16 & 31
    load, opc2 = bool(word >> 22 & 1), word >> 12 & 15
    if word >> 23 & 1:
        if opc2 or rt2:
            return unallocated(word)
        step = size if load else -size
        where = Access(rn, 0 if load else step, size, size, writeback=step)
        return memory(word, where, load=load, data=x(rt), ordered=True)
    if opc2 > 1:
        return unallocated(word)
    step = 2 * size if load else -2 * size
    if opc2:
        where = Access(rn, 0, 2 * size, size)
    else:
        where = Access(rn, 0 if load else step, 2 * size, size, writeback=step)
    return memory(word, where, load=load, data=x(rt) | x(rt2), count=2, ordered=True)


def _copy_or_set(word: int) -> Instruction:
    """CPY* and SET*: they read and write in steps; the lowest byte stands for the access.

    A copy is told as its load; its store goes to the address in Xd. What comes after a prologue has
    the end of a forward copy, and how much is left of it as a negative size (option A).
    """
    rd, rn, rs = word & 31, word >> 5 & 31, word >> 16 & 31
    stage, op2 = word >> 22 & 3, word >> 12 & 15
    if stage == 3:  # SET, SETG; op2 holds the stage
        if op2 >= 12:
            return unallocated(word)
        return memory(
            word,
            _lowest(rd, rn if op2 >> 2 else None, unprivileged=bool(op2 & 1)),
            load=False,
            reads=x(rd) | x(rn) | x(rs) | FLAGS,
            writes=x(rd) | x(rn) | FLAGS,
            registers=RegisterKind.SET,
        )
    changed = x(rd) | x(rn) | x(rs) | FLAGS
    return memory(
        word,
        _lowest(rs, rn if stage else None, unprivileged=bool(op2 & 2)),
        load=True,
        reads=changed,
        writes=changed,
        registers=RegisterKind.COPY,
    )


def _lowest(base: int, size: int | None, *, unprivileged: bool) -> Access:
    """The lowest byte of what is left of a copy or set."""
    if size is None:
        return Access(base, 0, 1, 1, unprivileged=unprivileged)
    return Access(base, 0, 1, 1, index=size, extend=Extend.REMAINS, unprivileged=unprivileged)


def _tag(word: int) -> Instruction:
    """LDG, STG, ST2G, STZG, STZ2G, LDGM, STGM, STZGM."""
    opc, op2 = word >> 22 & 3, word >> 10 & 3
    rn, rt = word >> 5 & 31, word & 31
    offset = signed(word >> 12, 9) * TAG_GRANULE
    if op2:  # opc bit 0 zeroes the data too, bit 1 takes two granules
        size = TAG_GRANULE << (opc >> 1)
        where = Access(
            rn,
            0 if op2 == 1 else offset,
            size,
            TAG_GRANULE,
            writeback=None if op2 == 2 else offset,
        )
        kind = RegisterKind.UNSPECIFIED if opc & 1 else RegisterKind.TAG
        return memory(word, where, load=False, data=xsp(rt), registers=kind)
    if opc == 1:  # LDG changes the tag field of Xt alone
        where = Access(rn, offset, TAG_GRANULE, TAG_GRANULE, align_down=TAG_GRANULE)
        data = x(rt)
        return memory(word, where, load=True, data=data, reads=data, registers=RegisterKind.TAG)
    if offset:
        return unallocated(word)
    where = Access(rn, 0, TAG_BLOCK, TAG_GRANULE, align_down=TAG_BLOCK)
    kind = RegisterKind.TAG if opc else RegisterKind.UNSPECIFIED  # STZGM writes data as well
    return memory(word, where, load=opc == 3, data=x(rt), registers=kind)


def _atomic_128(word: int) -> Instruction:
    """LSE128, RCW and the unprivileged atomics; RCW operations tell their success in the flags."""
    form, key = word >> 10 & 3, word >> 12 & 15
    rn, rt, rs = word >> 5 & 31, word & 31, word >> 16 & 31
    ordered = bool(word & 0x00C0_0000)
    if form == 0:  # LDCLRP, LDSETP, SWPP; RCWCLRP, RCWSWPP, RCWSETP: Rs is the second of the pair
        if key not in (1, 3, 8, 9, 10, 11) or (key in (1, 3, 8) and word >> 30):
            return unallocated(word)
        both = x(rt) | x(rs)
        flags = FLAGS if key > 8 else 0
        where = Access(rn, 0, 16, 16)
        return atomic(word, where, reads=both, writes=both | flags, ordered=ordered)
    if form == 1:  # LDTADD, LDTCLR, LDTSET, SWPT
        if key not in (0, 1, 3, 8):
            return unallocated(word)
        return fetch_and_operate(word, 8 if word >> 30 else 4)
    if key:
        return unallocated(word)
    if form == 2:  # RCWCAS
        where = Access(rn, 0, 8, 8)
        return atomic(word, where, reads=x(rs) | x(rt), writes=x(rs) | FLAGS, ordered=ordered)
    if (rs | rt) & 1:
        return unallocated(word)
    both = xs(rs, 2)
    where = Access(rn, 0, 16, 16)  # RCWCASP
    return atomic(word, where, reads=both | xs(rt, 2), writes=both | FLAGS, ordered=ordered)
