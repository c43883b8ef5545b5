"""What instruction words say of themselves, word by word; the text is what an assembler took."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from spe_unicorn.arch.operation import (
    NZCV,
    SP,
    CostClass,
    Family,
    Instruction,
    Mark,
    Structure,
)
from spe_unicorn.decode import decode
from tests.decode.words import (
    REGISTERS,
    TYPES,
)

NOT_TYPE = {
    *("word", "cost", "access", "target_offset", "reads", "writes", "part"),
    *("register_count", "structure", "governor", "lane", "elements"),
}
TYPE = [f for f in fields(Instruction) if f.name not in NOT_TYPE]


@pytest.mark.parametrize(
    ("word", "expected"), [(word, row) for word, _, row in TYPES], ids=[row[1] for row in TYPES]
)
def test_type_of_an_instruction(word: int, expected: dict[str, Any]) -> None:
    instruction = decode(word)
    told = {f.name: getattr(instruction, f.name) for f in TYPE}
    assert told == {f.name: f.default for f in TYPE} | expected


DATA_REGISTERS = [
    (0xF940_0020, "ldr x0, [x1]", 1, Structure.NONE),
    (0xA8C1_07E0, "ldp x0, x1, [sp], #16", 2, Structure.NONE),
    (0xA800_0440, "stnp x0, x1, [x2]", 2, Structure.NONE),
    (0x6940_0440, "ldpsw x0, x1, [x2]", 2, Structure.NONE),
    (0xF83F_D100, "ld64b x0, [x8]", 8, Structure.NONE),
    (0xF829_B100, "st64bv x9, x0, [x8]", 8, Structure.NONE),
    (0xAD40_0440, "ldp q0, q1, [x2]", 2, Structure.NONE),
    (0x6DBF_27E8, "stp d8, d9, [sp, #-16]!", 2, Structure.NONE),
    (0xD941_0840, "ldiapp x0, x1, [x2], #16", 2, Structure.NONE),
    (0xC87F_0440, "ldxp x0, x1, [x2]", 2, Structure.NONE),
    (0x8823_8440, "stlxp w3, w0, w1, [x2]", 2, Structure.NONE),
    (0x4C40_7020, "ld1 {v0.16b}, [x1]", 1, Structure.MULTIPLE),
    (0x4CDF_8820, "ld2 {v0.4s, v1.4s}, [x1], #32", 2, Structure.INTERLEAVED),
    (0x0C82_4020, "st3 {v0.8b-v2.8b}, [x1], x2", 3, Structure.INTERLEAVED),
    (0x0D20_7820, "st4 {v0.h-v3.h}[3], [x1]", 4, Structure.LANE),
    (0x0D40_0420, "ld1 {v0.b}[1], [x1]", 1, Structure.LANE),
    (0x4D40_CC20, "ld1r {v0.2d}, [x1]", 1, Structure.REPLICATE),
    (0x0D60_E420, "ld4r {v0.4h-v3.4h}, [x1]", 4, Structure.REPLICATE),
    (0x0D01_8420, "stl1 {v0.d}[0], [x1]", 1, Structure.LANE),
    (0xA5C0_E020, "ld3d {z0.d-z2.d}, p0/z, [x1]", 3, Structure.INTERLEAVED),
    (0xE522_6020, "st2w {z0.s-z1.s}, p0, [x1, x2, lsl #2]", 2, Structure.INTERLEAVED),
    (0x4C40_A020, "ld1 {v0.16b, v1.16b}, [x1]", 2, Structure.MULTIPLE),
    (0x0C9F_2420, "st1 {v0.4h-v3.4h}, [x1], #32", 4, Structure.MULTIPLE),
    (0x9B02_0C20, "madd x0, x1, x2, x3", 1, Structure.NONE),
]


@pytest.mark.parametrize(
    ("word", "count", "structure"),
    [(word, count, structure) for word, _, count, structure in DATA_REGISTERS],
    ids=[row[1] for row in DATA_REGISTERS],
)
def test_registers_that_a_load_or_store_moves(word: int, count: int, structure: Structure) -> None:
    instruction = decode(word)
    assert (instruction.register_count, instruction.structure) == (count, structure)


def names(registers: int) -> set[str]:
    special = {SP: "sp", NZCV: "nzcv"}
    return {special.get(n, f"x{n}") for n in range(64) if registers >> n & 1}


@pytest.mark.parametrize(
    ("word", "reads", "writes"),
    [(word, reads, writes) for word, _, reads, writes in REGISTERS],
    ids=[row[1] for row in REGISTERS],
)
def test_registers_that_an_instruction_reads_and_writes(word: int, reads: str, writes: str) -> None:
    instruction = decode(word)
    assert names(instruction.reads) == set(reads.split())
    assert names(instruction.writes) == set(writes.split())


COSTS = [
    (0x8B02_0020, "add x0, x1, x2", CostClass.ALU),
    (0x9A82_0020, "csel x0, x1, x2, eq", CostClass.ALU),
    (0x9B02_0C20, "madd x0, x1, x2, x3", CostClass.MULTIPLY),
    (0x9BC2_7C20, "umulh x0, x1, x2", CostClass.MULTIPLY),
    (0x9AC2_0C20, "sdiv x0, x1, x2", CostClass.DIVIDE),
    (0x1E62_2820, "fadd d0, d1, d2", CostClass.FP),
    (0x4E22_D420, "fadd v0.4s, v1.4s, v2.4s", CostClass.FP),
    (0x1E62_1820, "fdiv d0, d1, d2", CostClass.FP_DIVIDE),
    (0x1E21_C020, "fsqrt s0, s1", CostClass.FP_DIVIDE),
    (0x6E62_FC20, "fdiv v0.2d, v1.2d, v2.2d", CostClass.FP_DIVIDE),
    (0x6EF9_F820, "fsqrt v0.8h, v1.8h", CostClass.FP_DIVIDE),
    (0x2E42_3C20, "fdiv v0.4h, v1.4h, v2.4h", CostClass.FP_DIVIDE),
    (0x5E62_FC20, "frecps d0, d1, d2", CostClass.FP),
    (0x4EA2_8420, "add v0.4s, v1.4s, v2.4s", CostClass.SIMD),
    (0x04A2_0020, "add z0.s, z1.s, z2.s", CostClass.SIMD),
    (0x4E28_4820, "aese v0.16b, v1.16b", CostClass.CRYPTO),
    (0x5E28_0820, "sha1h s0, s1", CostClass.CRYPTO),
    (0x5E28_2820, "sha256su0 v0.4s, v1.4s", CostClass.CRYPTO),
    (0xCE62_8020, "sha512h q0, q1, v2.2d", CostClass.CRYPTO),
    (0xCEC0_8420, "sm4e v0.4s, v1.4s", CostClass.CRYPTO),
    (0xF940_0020, "ldr x0, [x1]", CostClass.LOAD),
    (0x4C40_7020, "ld1 {v0.16b}, [x1]", CostClass.LOAD),
    (0xF900_0020, "str x0, [x1]", CostClass.STORE),
    (0xD50B_7420, "dc zva, x0", CostClass.STORE),
    (0xF822_0020, "ldadd x2, x0, [x1]", CostClass.ATOMIC),
    (0xF822_003F, "stadd x2, [x1]", CostClass.ATOMIC),
    (0x1400_0001, "b .+4", CostClass.BRANCH),
    (0xD65F_03C0, "ret", CostClass.BRANCH),
    (0xD69F_03E0, "eret", CostClass.BRANCH),
    (0xD538_0000, "mrs x0, midr_el1", CostClass.SYSTEM),
    (0xD503_3F9F, "dsb sy", CostClass.SYSTEM),
    (0xD400_0001, "svc #0", CostClass.SYSTEM),
    (0xD503_201F, "nop", CostClass.ALU),
    (0xD503_233F, "paciasp", CostClass.ALU),
    (0xF980_0020, "prfm pldl1keep, [x1]", CostClass.ALU),
]


@pytest.mark.parametrize(("word", "text", "cost"), COSTS, ids=[row[1] for row in COSTS])
def test_cost_class_of_an_instruction(word: int, text: str, cost: CostClass) -> None:
    assert decode(word).cost is cost


UNALLOCATED = [
    (0x0001_0000, "reserved, not UDF"),
    (0x8000_0000, "SME"),
    (0xA140_0020, "SME2 strided multi-vector load"),
    (0x0200_0000, "no group"),
    (0x0600_0000, "no group"),
    (0x3280_0000, "logical immediate of no element size"),
    (0x9200_FC00, "logical immediate of ones only"),
    (0x3380_0000, "move wide, opc 1"),
    (0x1380_8000, "extract of 32 bits by 32 or more"),
    (0x0BC0_0000, "addition with a rotated register"),
    (0x0B20_1400, "addition with a register shifted by 5"),
    (0x5AC0_0C00, "REV of 64 bits on 32"),
    (0x9B40_8000, "SMULH that subtracts"),
    (0x5520_009E, "RETABSPPC without its fixed bits"),
    (0xD400_0000, "exception of level 0"),
    (0xD61F_0021, "BR with op4"),
    (0xD6BF_03E0, "DRPS outside Debug state"),
    (0xD503_2000, "hint with a register"),
    (0xD503_307F, "TCOMMIT"),
    (0xD500_401E, "CFINV with a register"),
    (0xD502_419F, "MSR immediate of no field"),
    (0xB8C0_0C00, "LDRSW to 32 bits, pre-index"),
    (0xF880_0400, "PRFM with post-index"),
    (0x3860_0820, "register offset of no extension"),
    (0x08A0_0C41, "CAS with Rt2"),
    (0x0821_7C82, "CASP of an odd register"),
    (0x0C40_1000, "structure opcode 1"),
    (0x0C40_0C00, "LD4 of single doublewords in half a register"),
    (0x0D00_C000, "store and replicate"),
    (0xF83F_D118, "LD64B to X24"),
    (0x6800_0400, "LDPSW without allocation hint"),
    (0x3E20_0C00, "floating-point with S"),
]


@pytest.mark.parametrize("word", [w for w, _ in UNALLOCATED], ids=[t for _, t in UNALLOCATED])
def test_unallocated_word_may_do_anything(word: int) -> None:
    instruction = decode(word)
    assert instruction.mark is Mark.UNALLOCATED
    assert instruction.family is Family.OTHER
    assert instruction.access is None
    assert instruction.writes == (1 << 33) - 1


OFFSETS = [
    (0x1400_0002, "b .+8", 8),
    (0x17FF_FFFF, "b .-4", -4),
    (0x1600_0000, "b .-134217728", -(1 << 27)),
    (0x95FF_FFFF, "bl .+134217724", (1 << 27) - 4),
    (0x5400_0041, "b.ne .+8", 8),
    (0x5480_0000, "b.eq .-1048576", -(1 << 20)),
    (0xB47F_FFE0, "cbz x0, .+1048572", (1 << 20) - 4),
    (0x35FF_FFE0, "cbnz w0, .-4", -4),
    (0x3604_0000, "tbz w0, #0, .-32768", -(1 << 15)),
    (0xB713_FFE0, "tbnz x0, #34, .+32764", (1 << 15) - 4),
    (0xF5E0_BF80, "cbne x0, #1, .-16", -16),
    (0xD61F_0020, "br x1", None),
    (0xD65F_03C0, "ret", None),
]


@pytest.mark.parametrize(("word", "text", "offset"), OFFSETS, ids=[row[1] for row in OFFSETS])
def test_target_offset_of_a_direct_branch(word: int, text: str, offset: int | None) -> None:
    assert decode(word).target_offset == offset


PREDICATES = [
    (0x0480_0040, "add z0.s, p0/m, z0.s, z2.s", 0, 4),
    (0x0440_1C40, "add z0.h, p7/m, z0.h, z2.h", 7, 2),
    (0x0490_2020, "movprfx z0.s, p0/z, z1.s", 0, 4),
    (0x0400_8DE0, "asr z0.b, p3/m, z0.b, #1", 3, 1),
    (0x0440_8460, "asr z0.s, p1/m, z0.s, #29", 1, 4),
    (0x04C0_8400, "asr z0.d, p1/m, z0.d, #32", 1, 8),
    (0x05D3_4020, "mov z0.d, p3/m, #1", 3, 8),
    (0x059F_C020, "fmov z0.s, p15/m, #2.125", 15, 4),
    (0x05A8_A020, "mov z0.s, p0/m, w1", 0, 4),
    (0x65C0_8440, "fadd z0.d, p1/m, z0.d, z2.d", 1, 8),
    (0x65CB_A020, "fcvt z0.d, p0/m, z1.s", 0, 8),
    (0x6588_A020, "fcvt z0.h, p0/m, z1.s", 0, 4),
    (0x6556_A020, "scvtf z0.h, p0/m, z1.d", 0, 8),
    (0x6552_A020, "scvtf z0.h, p0/m, z1.h", 0, 2),
    (0x65D4_A020, "scvtf z0.s, p0/m, z1.d", 0, 8),
    (0x655C_A020, "fcvtzs z0.s, p0/m, z1.h", 0, 4),
    (0x658D_A020, "fsqrt z0.s, p0/m, z1.s", 0, 4),
    (0x651C_A020, "flogb z0.s, p0/m, z1.s", 0, 4),
    (0xA540_A420, "ld1w {z0.s}, p1/z, [x1]", 1, 4),
    (0xA420_A020, "ld1b {z0.h}, p0/z, [x1]", 0, 2),
    (0xA5E0_A820, "ld1d {z0.d}, p2/z, [x1]", 2, 8),
    (0xA5C0_E020, "ld3d {z0.d-z2.d}, p0/z, [x1]", 0, 8),
    (0xE540_E420, "st1w {z0.s}, p1, [x1]", 1, 4),
    (0xE560_E420, "st1w {z0.d}, p1, [x1]", 1, 8),
    (0x8500_4C20, "ld1w {z0.s}, p3/z, [x1, z0.s, uxtw]", 3, 4),
    (0xC5C0_C020, "ld1d {z0.d}, p0/z, [x1, z0.d]", 0, 8),
    (0xE540_8020, "st1w {z0.s}, p0, [x1, z0.s, uxtw]", 0, 4),
    (0xE500_A020, "st1w {z0.d}, p0, [x1, z0.d]", 0, 8),
    (0x8580_4020, "ldr z0, [x1]", None, 0),
    (0x04A2_0020, "add z0.s, z1.s, z2.s", None, 0),
    (0x05A2_C020, "sel z0.s, p0, z1.s, z2.s", None, 0),
    # D18.2, PRED: what writes a vector register by zeroing or merging; these write none
    (0x2401_A400, "cmpeq p0.b, p1/z, z0.b, z1.b", None, 0),
    (0x2583_0410, "cmpgt p0.s, p1/z, z0.s, #3", None, 0),
    (0x24A0_C410, "cmphi p0.s, p1/z, z0.s, #3", None, 0),
    (0x6581_4410, "fcmgt p0.s, p1/z, z0.s, z1.s", None, 0),
    (0x6592_2400, "fcmeq p0.s, p1/z, z0.s, #0.0", None, 0),
    (0x4521_8400, "match p0.b, p1/z, z0.b, z1.b", None, 0),
    (0x2503_4440, "and p0.b, p1/z, p2.b, p3.b", None, 0),
    (0x0480_2400, "saddv d0, p1, z0.s", None, 0),
    (0x0488_2400, "smaxv s0, p1, z0.s", None, 0),
    (0x049A_2400, "andv s0, p1, z0.s", None, 0),
    (0x6580_2400, "faddv s0, p1, z0.s", None, 0),
    (0x6584_2400, "fmaxnmv s0, p1, z0.s", None, 0),
    (0x6598_2420, "fadda s0, p1, s0, z1.s", None, 0),
    (0x2520_8020, "cntp x0, p0, p1.b", None, 0),
    (0x0485_2420, "addqv v0.4s, p1, z1.s", None, 0),
    (0x6497_A420, "fminqv v0.4s, p1, z1.s", None, 0),
    (0x252C_8820, "incp x0, p1.b", None, 0),
]


@pytest.mark.parametrize(
    ("word", "governor", "lane"),
    [(word, governor, lane) for word, _, governor, lane in PREDICATES],
    ids=[row[1] for row in PREDICATES],
)
def test_predicate_that_governs_an_sve_operation(
    word: int, governor: int | None, lane: int
) -> None:
    instruction = decode(word)
    assert (instruction.governor, instruction.lane) == (governor, lane)
    assert instruction.predicated == (governor is not None)
