"""Floating-point, Advanced SIMD and cryptographic data processing (Arm ARM C4.1.97).

Only a handful of these touch a general register or the flags; of the others it is enough to know
whether they are floating-point, vector or both.
"""

from __future__ import annotations

from spe_unicorn.arch.operation import CostClass, Instruction
from spe_unicorn.decode.parts import FLAGS, unallocated, x


def simd_and_floating_point(word: int) -> Instruction:
    """Data processing on SIMD&FP registers: bits 27:25 are 111."""
    if not word >> 28 & 1:
        return unallocated(word) if word >> 31 and word >> 24 != 0xCE else _vector_group(word)
    if word >> 30 & 1:
        return unallocated(word) if word >> 31 else _advanced_simd(word)
    return unallocated(word) if word >> 29 & 1 else _floating_point(word)


def _fp(word: int, reads: int = 0, writes: int = 0, cost: CostClass = CostClass.FP) -> Instruction:
    return Instruction(word, cost=cost, fp=True, reads=reads, writes=writes)


# Scalar floating-point


def _floating_point(word: int) -> Instruction:
    if word >> 24 & 1:  # FMADD ...
        return unallocated(word) if word >> 31 else _fp(word)
    if not word >> 21 & 1:
        return _fixed_point(word)
    low = word >> 10 & 63
    if low == 0:
        return _convert_or_move(word)
    if word >> 31:
        return unallocated(word)
    form = low & 3
    if form == 1:  # FCCMP, FCCMPE
        return _conditional(word, FLAGS)
    if form == 2:
        divide = word >> 12 & 15 == 1
        if word >> 12 & 15 > 8:
            return unallocated(word)
        return _fp(word, cost=CostClass.FP_DIVIDE if divide else CostClass.FP)
    if form == 3:  # FCSEL
        return _conditional(word, 0)
    if low & 7 == 4:  # FMOV (immediate)
        return _fp(word) if not word & 0x3E0 else unallocated(word)
    if low == 8:  # FCMP, FCMPE
        return _fp(word, writes=FLAGS) if not word & 7 else unallocated(word)
    if low & 31 == 16:  # one source
        square_root = word >> 15 & 63 == 3
        return _fp(word, cost=CostClass.FP_DIVIDE if square_root else CostClass.FP)
    return unallocated(word)


def _conditional(word: int, writes: int) -> Instruction:
    return Instruction(
        word,
        cost=CostClass.FP,
        fp=True,
        conditional=True,
        condition=word >> 12 & 15,
        reads=FLAGS,
        writes=writes,
    )


def _fixed_point(word: int) -> Instruction:
    """SCVTF, UCVTF, FCVTZS, FCVTZU between fixed-point and floating-point."""
    if not word >> 31 and not word & 0x8000:
        return unallocated(word)
    kind = word >> 16 & 31
    if kind in (0b00010, 0b00011):
        return _fp(word, reads=x(word >> 5 & 31))
    if kind in (0b11000, 0b11001):
        return _fp(word, writes=x(word & 31))
    return unallocated(word)


def _convert_or_move(word: int) -> Instruction:
    """Conversions to and from integers, and FMOV between the register files."""
    rmode, opcode = word >> 19 & 3, word >> 16 & 7
    rn, rd = x(word >> 5 & 31), x(word & 31)
    if word & 0xFFFF_0000 == 0x1E7E_0000:  # FJCVTZS
        return _fp(word, writes=rd | FLAGS)
    if opcode < 2 or (opcode in (4, 5) and rmode == 0):  # FCVT*
        return _fp(word, writes=rd)
    if opcode in (2, 3) and rmode == 0:  # SCVTF, UCVTF
        return _fp(word, reads=rn)
    if opcode in (6, 7) and rmode < 2:  # FMOV
        return _fp(word, writes=rd) if opcode == 6 else _fp(word, reads=rn)
    return _fp(word)  # FEAT_FPRCVT: integers in SIMD&FP registers


# Advanced SIMD


def _vector_group(word: int) -> Instruction:
    return _cryptographic(word) if word >> 31 else _advanced_simd(word)


def _simd(
    word: int,
    cost: CostClass | None = None,
    reads: int = 0,
    writes: int = 0,
    *,
    fp: bool = False,
) -> Instruction:
    if cost is None:
        cost = CostClass.FP if fp else CostClass.SIMD
    return Instruction(word, cost=cost, fp=fp, simd=True, reads=reads, writes=writes)


def _cryptographic(word: int) -> Instruction:
    """EOR3, BCAX, SM3*, SHA512*, RAX1, XAR, SM4*: bits 31:24 are 11001110."""
    group, high = word >> 21 & 7, word >> 14 & 3
    allocated = (
        (group < 3 and not high & 2)
        or (group == 2 and high == 2)
        or (group == 3 and high >= 2)
        or group == 4
        or (group == 6 and word >> 12 & 0x1FF == 8)
    )
    return _simd(word, cost=CostClass.CRYPTO) if allocated else unallocated(word)


def _advanced_simd(word: int) -> Instruction:
    if word >> 24 & 1:
        return _immediate(word) if word >> 10 & 1 else _by_element(word)
    if word >> 21 & 1:
        return _same_misc_or_different(word)
    if word >> 10 & 1:
        return _copy_half_or_extra(word)
    # Permute, table, extract; the scalar half of this space is SHA1 and SHA256
    return _simd(word, cost=CostClass.CRYPTO if word >> 28 & 1 else None)


def _same_misc_or_different(word: int) -> Instruction:
    if word >> 10 & 1:  # three registers of the same type
        opcode = word >> 11 & 31
        divide = opcode == 31 and word >> 29 & 1 and not word >> 23 & 1 and not word >> 28 & 1
        return _simd(word, CostClass.FP_DIVIDE if divide else None, fp=opcode >= 24)
    if not word >> 11 & 1:  # three registers of different types
        return _simd(word)
    group, opcode, size = word >> 17 & 15, word >> 12 & 31, word >> 22 & 3
    if group == 0:  # two registers
        return _two_registers(word, opcode, size)
    if group == 4:  # AESE ..., SHA1H ...
        return _simd(word, cost=CostClass.CRYPTO)
    if group == 8:  # across lanes, and pairs of a scalar
        return _simd(word, fp=opcode in (12, 13, 15))
    if group == 12:  # two registers of half precision
        square_root = opcode == 31 and word >> 29 & 1
        return _simd(word, CostClass.FP_DIVIDE if square_root else None, fp=True)
    return unallocated(word)


def _two_registers(word: int, opcode: int, size: int) -> Instruction:
    if opcode == 31 and word >> 29 & 1 and size & 2:  # FSQRT
        return _simd(word, CostClass.FP_DIVIDE, fp=True)
    # URECPE and URSQRTE are the integer ones among the highest opcodes
    estimate = opcode == 28 and size & 2
    return _simd(word, fp=12 <= opcode <= 15 or (opcode >= 22 and not estimate))


def _copy_half_or_extra(word: int) -> Instruction:
    if word >> 15 & 1:  # dot products, complex numbers, matrices
        return _simd(word, fp=word >> 11 & 15 >= 8)
    if word >> 22 & 1 and not word >> 14 & 1:  # three registers of half precision
        divide = word >> 11 & 7 == 7 and word >> 29 & 1 and not word >> 23 & 1
        return _simd(word, CostClass.FP_DIVIDE if divide and not word >> 28 & 1 else None, fp=True)
    if word >> 22 & 3:
        return unallocated(word)
    if word >> 28 & 1 or word >> 29 & 1:  # DUP (scalar), INS (element)
        return _simd(word)
    kind = word >> 11 & 15
    if kind in (1, 3):  # DUP, INS (general)
        return _simd(word, reads=x(word >> 5 & 31))
    if kind in (5, 7):  # SMOV, UMOV
        return _simd(word, writes=x(word & 31))
    return _simd(word) if kind == 0 else unallocated(word)


_FP_BY_ELEMENT = (0b0000_0010_0011_0011, 0b0001_0011_1010_1010)
"""For U = 0 and U = 1: bit ``opcode`` says that an operation by element is floating-point."""


def _by_element(word: int) -> Instruction:
    u, opcode = word >> 29 & 1, word >> 12 & 15
    fp = bool(_FP_BY_ELEMENT[u] >> opcode & 1)
    if not u and opcode == 15:  # SUDOT and USDOT share it with BFDOT and BFMLAL
        fp = bool(word >> 22 & 1)
    return _simd(word, fp=fp)


def _immediate(word: int) -> Instruction:
    if word >> 23 & 1:
        return unallocated(word)
    if not word >> 19 & 15:  # modified immediate: cmode 1111 is FMOV
        return unallocated(word) if word >> 28 & 1 else _simd(word, fp=word >> 12 & 15 == 15)
    return _simd(word, fp=word >> 11 & 31 in (28, 31))  # SCVTF, UCVTF, FCVTZS, FCVTZU (fixed)
