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
    RegisterKind,
    Structure,
)
from spe_unicorn.decode import decode

OTHER: dict[str, Any] = {}
LOAD = {"family": Family.LOAD}
STORE = {"family": Family.STORE}
ATOMIC = {"family": Family.ATOMIC, "atomic": True}
ATOMIC_STORE = {"family": Family.ATOMIC_STORE, "atomic": True}
BRANCH = {"family": Family.BRANCH}

FP_REGISTERS = {"registers": RegisterKind.SIMD_FP, "scalar": True}
VECTOR_REGISTERS = {"registers": RegisterKind.SIMD_FP}
NO_REGISTERS = {"registers": RegisterKind.UNSPECIFIED}
TAGS = {"registers": RegisterKind.TAG}
COPY = {"registers": RegisterKind.COPY}
SET = {"registers": RegisterKind.SET}
GCS = {"registers": RegisterKind.GCS}
SVE = {"registers": RegisterKind.SVE, "sve": True}

ORDERED = {"acquire_release": True}
EXCLUSIVE = {"exclusive": True}
PREDICATED = {"predicated": True}
GATHER = {"gather_scatter": True}
CONDITIONAL = {"conditional": True}
INDIRECT = {"indirect": True}
LINK = {"link": True}
RETURN = {"procedure_return": True}
FP = {"fp": True}
SIMD = {"simd": True}
SVE_DATA = {"sve": True}

MRS = {"mark": Mark.MRS}
MSR = {"mark": Mark.MSR}
MSR_IMMEDIATE = {"mark": Mark.MSR_IMMEDIATE}
SYS = {"mark": Mark.SYS}
PSB = {"mark": Mark.PSB_CSYNC}
HINT = {"mark": Mark.HINT}
BARRIER = {"mark": Mark.BARRIER}
DSB = {"mark": Mark.DSB}
ISB = {"mark": Mark.ISB}
WFI = {"mark": Mark.WFI}
WFE = {"mark": Mark.WFE}
ERET = {"mark": Mark.ERET}
EXCEPTION = {"mark": Mark.EXCEPTION}


def on(condition: int) -> dict[str, Any]:
    return {"conditional": True, "condition": condition}


NOT_TYPE = {
    *("word", "cost", "access", "target_offset", "reads", "writes", "part"),
    *("register_count", "structure", "governor", "lane", "elements"),
}
TYPE = [f for f in fields(Instruction) if f.name not in NOT_TYPE]

TYPES = [
    # general loads and stores
    (0xF940_0020, "ldr x0, [x1]", LOAD),
    (0x3940_0C20, "ldrb w0, [x1, #3]", LOAD),
    (0xB8A2_7820, "ldrsw x0, [x1, x2, lsl #2]", LOAD),
    (0xB85F_C020, "ldur w0, [x1, #-4]", LOAD),
    (0xF840_0820, "ldtr x0, [x1]", LOAD),
    (0xA8C1_07E0, "ldp x0, x1, [sp], #16", LOAD),
    (0x2840_0440, "ldnp w0, w1, [x2]", LOAD),
    (0x6940_0440, "ldpsw x0, x1, [x2]", LOAD),
    (0x5800_0080, "ldr x0, .+16", LOAD),
    (0xF820_1420, "ldraa x0, [x1, #8]", LOAD),
    (0xF83F_D100, "ld64b x0, [x8]", LOAD),
    (0xF800_8C20, "str x0, [x1, #8]!", STORE),
    (0x3800_1420, "strb w0, [x1], #1", STORE),
    (0xA9BE_7BFD, "stp x29, x30, [sp, #-32]!", STORE),
    (0xA800_0440, "stnp x0, x1, [x2]", STORE),
    (0xF800_0820, "sttr x0, [x1]", STORE),
    (0xF83F_9100, "st64b x0, [x8]", STORE),
    (0xF829_B100, "st64bv x9, x0, [x8]", STORE),
    (0xF829_A100, "st64bv0 x9, x0, [x8]", STORE),
    # SIMD&FP loads and stores
    (0x3D40_0020, "ldr b0, [x1]", LOAD | FP_REGISTERS),
    (0x7D40_0420, "ldr h0, [x1, #2]", LOAD | FP_REGISTERS),
    (0x1C00_0040, "ldr s0, .+8", LOAD | FP_REGISTERS),
    (0xFC62_6820, "ldr d0, [x1, x2]", LOAD | FP_REGISTERS),
    (0xBC00_4420, "str s0, [x1], #4", STORE | FP_REGISTERS),
    (0x2D40_0440, "ldp s0, s1, [x2]", LOAD | FP_REGISTERS),
    (0x6DBF_27E8, "stp d8, d9, [sp, #-16]!", STORE | FP_REGISTERS),
    (0x3DC0_0020, "ldr q0, [x1]", LOAD | VECTOR_REGISTERS),
    (0x9C00_0080, "ldr q0, .+16", LOAD | VECTOR_REGISTERS),
    (0x3C81_0C20, "str q0, [x1, #16]!", STORE | VECTOR_REGISTERS),
    (0xAD40_0440, "ldp q0, q1, [x2]", LOAD | VECTOR_REGISTERS),
    (0xAC00_0440, "stnp q0, q1, [x2]", STORE | VECTOR_REGISTERS),
    (0x4C40_7020, "ld1 {v0.16b}, [x1]", LOAD | VECTOR_REGISTERS),
    (0x4CDF_8820, "ld2 {v0.4s, v1.4s}, [x1], #32", LOAD | VECTOR_REGISTERS),
    (0x0C82_4020, "st3 {v0.8b-v2.8b}, [x1], x2", STORE | VECTOR_REGISTERS),
    (0x0D20_7820, "st4 {v0.h-v3.h}[3], [x1]", STORE | VECTOR_REGISTERS),
    (0x0D40_0420, "ld1 {v0.b}[1], [x1]", LOAD | VECTOR_REGISTERS),
    (0x4D40_CC20, "ld1r {v0.2d}, [x1]", LOAD | VECTOR_REGISTERS),
    (0x0D60_E420, "ld4r {v0.4h-v3.4h}, [x1]", LOAD | VECTOR_REGISTERS),
    # acquire and release
    (0xC8DF_FC20, "ldar x0, [x1]", LOAD | ORDERED),
    (0x08DF_FC20, "ldarb w0, [x1]", LOAD | ORDERED),
    (0x88DF_7C20, "ldlar w0, [x1]", LOAD | ORDERED),
    (0xF8BF_C020, "ldapr x0, [x1]", LOAD | ORDERED),
    (0x78BF_C020, "ldaprh w0, [x1]", LOAD | ORDERED),
    (0xD940_8020, "ldapur x0, [x1, #8]", LOAD | ORDERED),
    (0x19DF_F020, "ldapursb w0, [x1, #-1]", LOAD | ORDERED),
    (0xD9C0_0820, "ldapr x0, [x1], #8", LOAD | ORDERED),
    (0xD941_0840, "ldiapp x0, x1, [x2], #16", LOAD | ORDERED),
    (0xC89F_FC20, "stlr x0, [x1]", STORE | ORDERED),
    (0x489F_7C20, "stllrh w0, [x1]", STORE | ORDERED),
    (0x1900_1020, "stlurb w0, [x1, #1]", STORE | ORDERED),
    (0x9980_0820, "stlr w0, [x1, #-4]!", STORE | ORDERED),
    (0x9901_1840, "stilp w0, w1, [x2]", STORE | ORDERED),
    (0x1DC0_8820, "ldapur q0, [x1, #8]", LOAD | VECTOR_REGISTERS | ORDERED),
    (0xDD00_8820, "stlur d0, [x1, #8]", STORE | FP_REGISTERS | ORDERED),
    (0x4D41_8420, "ldap1 {v0.d}[1], [x1]", LOAD | VECTOR_REGISTERS | ORDERED),
    (0x0D01_8420, "stl1 {v0.d}[0], [x1]", STORE | VECTOR_REGISTERS | ORDERED),
    # exclusives
    (0xC85F_7C20, "ldxr x0, [x1]", LOAD | EXCLUSIVE),
    (0x085F_7C20, "ldxrb w0, [x1]", LOAD | EXCLUSIVE),
    (0xC87F_0440, "ldxp x0, x1, [x2]", LOAD | EXCLUSIVE),
    (0x885F_FC20, "ldaxr w0, [x1]", LOAD | EXCLUSIVE | ORDERED),
    (0x887F_8440, "ldaxp w0, w1, [x2]", LOAD | EXCLUSIVE | ORDERED),
    (0xC802_7C20, "stxr w2, x0, [x1]", STORE | EXCLUSIVE),
    (0xC823_0440, "stxp w3, x0, x1, [x2]", STORE | EXCLUSIVE),
    (0x8802_FC20, "stlxr w2, w0, [x1]", STORE | EXCLUSIVE | ORDERED),
    (0x8823_8440, "stlxp w3, w0, w1, [x2]", STORE | EXCLUSIVE | ORDERED),
    (0xC95F_7C20, "ldtxr x0, [x1]", LOAD | EXCLUSIVE),
    (0x895F_FC20, "ldatxr w0, [x1]", LOAD | EXCLUSIVE | ORDERED),
    (0xC902_7C20, "sttxr w2, x0, [x1]", STORE | EXCLUSIVE),
    (0x8902_FC20, "stltxr w2, w0, [x1]", STORE | EXCLUSIVE | ORDERED),
    # atomics
    (0xF822_0020, "ldadd x2, x0, [x1]", ATOMIC),
    (0x3822_1020, "ldclrb w2, w0, [x1]", ATOMIC),
    (0xF8A2_4020, "ldsmaxa x2, x0, [x1]", ATOMIC | ORDERED),
    (0xB862_2020, "ldeorl w2, w0, [x1]", ATOMIC | ORDERED),
    (0x78E2_7020, "lduminalh w2, w0, [x1]", ATOMIC | ORDERED),
    (0xF822_8020, "swp x2, x0, [x1]", ATOMIC),
    (0xB8E2_8020, "swpal w2, w0, [x1]", ATOMIC | ORDERED),
    (0xC8A2_7C20, "cas x2, x0, [x1]", ATOMIC),
    (0x88E2_7C20, "casa w2, w0, [x1]", ATOMIC | ORDERED),
    (0x08A2_FC20, "caslb w2, w0, [x1]", ATOMIC | ORDERED),
    (0x4822_7C24, "casp x2, x3, x4, x5, [x1]", ATOMIC),
    (0x0862_FC24, "caspal w2, w3, w4, w5, [x1]", ATOMIC | ORDERED),
    (0xF822_003F, "stadd x2, [x1]", ATOMIC_STORE),
    (0x3862_303F, "stsetlb w2, [x1]", ATOMIC_STORE | ORDERED),
    (0xF8A2_003F, "ldadda x2, xzr, [x1]", ATOMIC_STORE),
    (0xF8E2_003F, "ldaddal x2, xzr, [x1]", ATOMIC_STORE | ORDERED),
    (0xF822_803F, "swp x2, xzr, [x1]", ATOMIC),
    (0xC8A2_7C3F, "cas x2, xzr, [x1]", ATOMIC),
    (0x5922_0420, "ldtadd x2, x0, [x1]", ATOMIC),
    (0x19E2_8420, "swptal w2, w0, [x1]", ATOMIC | ORDERED),
    (0x5922_343F, "ldtset x2, xzr, [x1]", ATOMIC_STORE),
    (0xC982_7C20, "cast x2, x0, [x1]", ATOMIC),
    (0x49C2_7C24, "caspat x2, x3, x4, x5, [x1]", ATOMIC | ORDERED),
    (0x1923_1022, "ldclrp x2, x3, [x1]", ATOMIC),
    (0x19E3_8022, "swppal x2, x3, [x1]", ATOMIC | ORDERED),
    (0x1922_0820, "rcwcas x2, x0, [x1]", ATOMIC),
    (0x59E2_0C24, "rcwscaspal x2, x3, x4, x5, [x1]", ATOMIC | ORDERED),
    (0x3822_9020, "rcwclr x2, x0, [x1]", ATOMIC),
    (0x38A2_A020, "rcwswpa x2, x0, [x1]", ATOMIC | ORDERED),
    (0x1923_B022, "rcwsetp x2, x3, [x1]", ATOMIC),
    (0xBC22_0020, "ldfadd s2, s0, [x1]", ATOMIC | FP_REGISTERS),
    (0x3CE2_4020, "ldbfmaxal h2, h0, [x1]", ATOMIC | FP_REGISTERS | ORDERED),
    (0xFC22_F03F, "stfminnm d2, [x1]", ATOMIC_STORE | FP_REGISTERS),
    (0x3C62_803F, "stbfaddl h2, [x1]", ATOMIC_STORE | FP_REGISTERS | ORDERED),
    # tags
    (0xD960_1020, "ldg x0, [x1, #16]", LOAD | TAGS),
    (0xD9E0_0020, "ldgm x0, [x1]", LOAD | TAGS),
    (0xD920_1420, "stg x0, [x1], #16", STORE | TAGS),
    (0xD9A0_2C3F, "st2g sp, [x1, #32]!", STORE | TAGS),
    (0xD9A0_0020, "stgm x0, [x1]", STORE | TAGS),
    (0xD960_0820, "stzg x0, [x1]", STORE | NO_REGISTERS),
    (0xD9E0_0820, "stz2g x0, [x1]", STORE | NO_REGISTERS),
    (0xD920_0020, "stzgm x0, [x1]", STORE | NO_REGISTERS),
    (0x6901_0440, "stgp x0, x1, [x2, #32]", STORE),
    # block zeroing, memory copy and set, guarded control stack
    (0xD50B_7423, "dc zva, x3", STORE | NO_REGISTERS | SYS),
    (0xD50B_7463, "dc gva, x3", STORE | NO_REGISTERS | SYS),
    (0xD50B_7483, "dc gzva, x3", STORE | NO_REGISTERS | SYS),
    (0x1901_0440, "cpyfp [x0]!, [x1]!, x2!", LOAD | COPY),
    (0x1D41_4440, "cpymwn [x0]!, [x1]!, x2!", LOAD | COPY),
    (0x1D81_0440, "cpye [x0]!, [x1]!, x2!", LOAD | COPY),
    (0x19C2_0420, "setp [x0]!, x1!, x2", STORE | SET),
    (0x1DC2_4420, "setgm [x0]!, x1!, x2", STORE | SET),
    (0xD91F_0C20, "gcsstr x0, [x1]", STORE | GCS),
    (0xD50B_7701, "gcspushm x1", STORE | GCS | SYS),
    (0xD52B_7721, "gcspopm x1", LOAD | GCS | SYS),
    (0xD50B_7741, "gcsss1 x1", STORE | GCS | SYS),
    # SVE
    (0xA400_A020, "ld1b {z0.b}, p0/z, [x1]", LOAD | SVE | PREDICATED),
    (0xA5E2_6020, "ldff1d {z0.d}, p0/z, [x1, x2, lsl #3]", LOAD | SVE | PREDICATED),
    (0x8541_C020, "ld1rw {z0.s}, p0/z, [x1, #4]", LOAD | SVE | PREDICATED),
    (0xA5C0_E020, "ld3d {z0.d-z2.d}, p0/z, [x1]", LOAD | SVE | PREDICATED),
    (0x8522_4020, "ld1w {z0.s}, p0/z, [x1, z2.s, uxtw #2]", LOAD | SVE | PREDICATED | GATHER),
    (0xC5A1_C020, "ld1d {z0.d}, p0/z, [z1.d, #8]", LOAD | SVE | PREDICATED | GATHER),
    (0x8502_A020, "ldnt1w {z0.s}, p0/z, [z1.s, x2]", LOAD | SVE | PREDICATED | GATHER),
    (0x8580_4020, "ldr z0, [x1]", LOAD | SVE),
    (0x8580_0020, "ldr p0, [x1]", LOAD | SVE),
    (0xE4C1_E020, "st1h {z0.s}, p0, [x1, #1, mul vl]", STORE | SVE | PREDICATED),
    (0xE522_6020, "st2w {z0.s-z1.s}, p0, [x1, x2, lsl #2]", STORE | SVE | PREDICATED),
    (0xE522_A020, "st1w {z0.d}, p0, [x1, z2.d, lsl #2]", STORE | SVE | PREDICATED | GATHER),
    (0xE580_4020, "str z0, [x1]", STORE | SVE),
    (0xE580_0020, "str p0, [x1]", STORE | SVE),
    # prefetch, cache maintenance, address translation: Other
    (0xF980_0420, "prfm pldl1keep, [x1, #8]", OTHER),
    (0xD800_0040, "prfm pldl1keep, .+8", OTHER),
    (0xF880_1020, "prfum pldl1keep, [x1, #1]", OTHER),
    (0x85C0_0020, "prfb pldl1keep, p0, [x1]", OTHER),
    (0xC462_E020, "prfd pldl1keep, p0, [x1, z2.d, lsl #3]", OTHER),
    (0xD50B_7E20, "dc civac, x0", SYS),
    (0xD50B_7C20, "dc cvap, x0", SYS),
    (0xD50B_7520, "ic ivau, x0", SYS),
    (0xD508_7800, "at s1e1r, x0", SYS),
    (0xD508_871F, "tlbi vmalle1", SYS),
    (0xD52B_7100, "sysl x0, #3, c7, c1, #0", SYS),
    # branches
    (0x1400_0002, "b .+8", BRANCH),
    (0x97FF_FFFE, "bl .-8", BRANCH | LINK),
    (0x5400_0040, "b.eq .+8", BRANCH | on(0)),
    (0x5400_004E, "b.al .+8", BRANCH | on(14)),
    (0x5400_0051, "bc.ne .+8", BRANCH | on(1)),
    (0xB400_0040, "cbz x0, .+8", BRANCH | CONDITIONAL),
    (0x3500_0040, "cbnz w0, .+8", BRANCH | CONDITIONAL),
    (0xB608_0040, "tbz x0, #33, .+8", BRANCH | CONDITIONAL),
    (0x3718_0040, "tbnz w0, #3, .+8", BRANCH | CONDITIONAL),
    (0xF401_0040, "cbgt x0, x1, .+8", BRANCH | CONDITIONAL),
    (0x74E1_8040, "cbbne w0, w1, .+8", BRANCH | CONDITIONAL),
    (0x7562_8040, "cblo w0, #5, .+8", BRANCH | CONDITIONAL),
    (0xD61F_0020, "br x1", BRANCH | INDIRECT),
    (0xD71F_0822, "braa x1, x2", BRANCH | INDIRECT),
    (0xD61F_0C3F, "brabz x1", BRANCH | INDIRECT),
    (0xD63F_0020, "blr x1", BRANCH | INDIRECT | LINK),
    (0xD73F_083F, "blraa x1, sp", BRANCH | INDIRECT | LINK),
    (0xD63F_0C3F, "blrabz x1", BRANCH | INDIRECT | LINK),
    (0xD65F_03C0, "ret", BRANCH | INDIRECT | RETURN),
    (0xD65F_0060, "ret x3", BRANCH | INDIRECT | RETURN),
    (0xD65F_0BFF, "retaa", BRANCH | INDIRECT | RETURN),
    (0x5520_009F, "retabsppc .-16", BRANCH | INDIRECT | RETURN),
    (0xD65F_0BE1, "retaasppcr x1", BRANCH | INDIRECT | RETURN),
    (0xD69F_03E0, "eret", BRANCH | INDIRECT | ERET),
    (0xD69F_0FFF, "eretab", BRANCH | INDIRECT | ERET),
    # exception generation
    (0xD400_0001, "svc #0", EXCEPTION),
    (0xD400_0022, "hvc #1", EXCEPTION),
    (0xD400_0043, "smc #2", EXCEPTION),
    (0xD420_0060, "brk #3", EXCEPTION),
    (0xD45E_0000, "hlt #0xf000", EXCEPTION),
    (0x0000_0000, "udf #0", EXCEPTION),
    (0xD4A0_0001, "dcps1", EXCEPTION),
    # system
    (0xD538_0000, "mrs x0, midr_el1", MRS),
    (0xD518_9900, "msr pmscr_el1, x0", MSR),
    (0xD503_42DF, "msr daifset, #2", MSR_IMMEDIATE),
    (0xD500_41BF, "msr spsel, #1", MSR_IMMEDIATE),
    (0xD500_419F, "msr pan, #1", MSR_IMMEDIATE),
    (0xD503_477F, "smstart", MSR_IMMEDIATE),
    (0xD503_223F, "psb csync", PSB),
    (0xD503_201F, "nop", HINT),
    (0xD503_203F, "yield", HINT),
    (0xD503_209F, "sev", HINT),
    (0xD503_225F, "tsb csync", HINT),
    (0xD503_221F, "esb", HINT),
    (0xD503_229F, "csdb", HINT),
    (0xD503_24DF, "bti jc", HINT),
    (0xD503_233F, "paciasp", HINT),
    (0xD503_207F, "wfi", WFI),
    (0xD503_1020, "wfit x0", WFI),
    (0xD503_205F, "wfe", WFE),
    (0xD503_1000, "wfet x0", WFE),
    (0xD503_379F, "dsb nsh", DSB),
    (0xD503_3F9F, "dsb sy", DSB),
    (0xD503_359F, "dsb nshld", BARRIER),
    (0xD503_369F, "dsb nshst", BARRIER),
    (0xD503_323F, "dsb oshnxs", DSB),
    (0xD503_3BBF, "dmb ish", BARRIER),
    (0xD503_30FF, "sb", BARRIER),
    (0xD503_309F, "ssbb", BARRIER),
    (0xD503_3F5F, "clrex", BARRIER),
    (0xD503_3FDF, "isb", ISB),
    # conditional data processing
    (0x9A82_1020, "csel x0, x1, x2, ne", on(1)),
    (0x1A82_0420, "csinc w0, w1, w2, eq", on(0)),
    (0xDA82_B020, "csinv x0, x1, x2, lt", on(11)),
    (0xDA82_A420, "csneg x0, x1, x2, ge", on(10)),
    (0xFA41_8800, "ccmp x0, #1, #0, hi", on(8)),
    (0x3A41_2003, "ccmn w0, w1, #3, cs", on(2)),
    (0x1E62_4C20, "fcsel d0, d1, d2, mi", FP | on(4)),
    (0x1E21_6400, "fccmp s0, s1, #0, vs", FP | on(6)),
    (0x1E61_C410, "fccmpe d0, d1, #0, gt", FP | on(12)),
    # data processing
    (0x9100_0420, "add x0, x1, #1", OTHER),
    (0x9000_0000, "adrp x0, .", OTHER),
    (0x9B02_0C20, "madd x0, x1, x2, x3", OTHER),
    (0x9AC2_0820, "udiv x0, x1, x2", OTHER),
    (0x9AC2_4C20, "crc32x w0, w1, x2", OTHER),
    (0xD500_401F, "cfinv", OTHER),
    (0xBA00_8402, "rmif x0, #1, #2", OTHER),
    (0x9AC2_1020, "irg x0, x1, x2", OTHER),
    (0x1E62_2820, "fadd d0, d1, d2", FP),
    (0x9E66_0020, "fmov x0, d1", FP),
    (0x1E38_0020, "fcvtzs w0, s1", FP),
    (0x1F02_0C20, "fmadd s0, s1, s2, s3", FP),
    (0x1E60_2008, "fcmp d0, #0.0", FP),
    (0x1E6E_1000, "fmov d0, #1.0", FP),
    (0x1EE2_2820, "fadd h0, h1, h2", FP),
    (0x4EA2_8420, "add v0.4s, v1.4s, v2.4s", SIMD),
    (0x4E08_0C20, "dup v0.2d, x1", SIMD),
    (0x4E18_3C20, "umov x0, v1.d[1]", SIMD),
    (0x4F00_E420, "movi v0.16b, #1", SIMD),
    (0x4E02_0020, "tbl v0.16b, {v1.16b}, v2.16b", SIMD),
    (0x6E02_1820, "ext v0.16b, v1.16b, v2.16b, #3", SIMD),
    (0x4E82_9420, "sdot v0.4s, v1.16b, v2.16b", SIMD),
    (0x6FA2_0020, "mla v0.4s, v1.4s, v2.s[1]", SIMD),
    (0x6F3D_0420, "ushr v0.4s, v1.4s, #3", SIMD),
    (0x4EA1_C820, "urecpe v0.4s, v1.4s", SIMD),
    (0x4E28_4820, "aese v0.16b, v1.16b", SIMD),
    (0x5E02_4020, "sha256h q0, q1, v2.4s", SIMD),
    (0xCE02_0C20, "eor3 v0.16b, v1.16b, v2.16b, v3.16b", SIMD),
    (0x4E22_D420, "fadd v0.4s, v1.4s, v2.4s", FP | SIMD),
    (0x4E42_1420, "fadd v0.8h, v1.8h, v2.8h", FP | SIMD),
    (0x4FA2_1020, "fmla v0.4s, v1.4s, v2.s[1]", FP | SIMD),
    (0x6E82_CC20, "fcmla v0.4s, v1.4s, v2.4s, #90", FP | SIMD),
    (0x4EE1_B820, "fcvtzs v0.2d, v1.2d", FP | SIMD),
    (0x4F3D_E420, "scvtf v0.4s, v1.4s, #3", FP | SIMD),
    (0x4F03_F600, "fmov v0.4s, #1.0", FP | SIMD),
    (0x6E30_F820, "fmaxv s0, v1.4s", FP | SIMD),
    (0x7E30_D820, "faddp s0, v1.2s", FP | SIMD),
    (0x6E42_FC20, "bfdot v0.4s, v1.8h, v2.8h", FP | SIMD),
    (0x04A2_0020, "add z0.s, z1.s, z2.s", SIMD | SVE_DATA),
    (0x0480_0040, "add z0.s, p0/m, z0.s, z2.s", SIMD | SVE_DATA | PREDICATED),
    (0x05A2_C020, "sel z0.s, p0, z1.s, z2.s", SIMD | SVE_DATA),
    (0x05A1_8020, "compact z0.s, p0, z1.s", SIMD | SVE_DATA),
    (0x2520_8020, "cntp x0, p0, p1.b", SIMD | SVE_DATA),
    (0x2518_E3E0, "ptrue p0.b", SIMD | SVE_DATA),
    (0x05E0_A020, "lasta x0, p0, z1.d", SIMD | SVE_DATA),
    (0x2522_1C20, "whilelo p0.b, x1, x2", SIMD | SVE_DATA),
    (0x0430_E3E0, "incb x0", SIMD | SVE_DATA),
    (0x0408_2020, "smaxv b0, p0, z1.b", SIMD | SVE_DATA),
    (0x6582_0020, "fadd z0.s, z1.s, z2.s", FP | SIMD | SVE_DATA),
    (0x6580_8040, "fadd z0.s, p0/m, z0.s, z2.s", FP | SIMD | SVE_DATA | PREDICATED),
    (0x65A2_0020, "fmla z0.s, p0/m, z1.s, z2.s", FP | SIMD | SVE_DATA | PREDICATED),
    (0x6580_2020, "faddv s0, p0, z1.s", FP | SIMD | SVE_DATA),
    (0x0490_2020, "movprfx z0.s, p0/z, z1.s", SIMD | SVE_DATA | PREDICATED),
]


@pytest.mark.parametrize(
    ("word", "expected"), [(word, row) for word, _, row in TYPES], ids=[row[1] for row in TYPES]
)
def test_type_of_an_instruction(word: int, expected: dict[str, Any]) -> None:
    instruction = decode(word)
    told = {f.name: getattr(instruction, f.name) for f in TYPE}
    assert told == {f.name: f.default for f in TYPE} | expected


REGISTERS = [
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
    [(word, count, structure) for word, _, count, structure in REGISTERS],
    ids=[row[1] for row in REGISTERS],
)
def test_registers_that_a_load_or_store_moves(word: int, count: int, structure: Structure) -> None:
    instruction = decode(word)
    assert (instruction.register_count, instruction.structure) == (count, structure)


REGISTERS = [
    (0x8B02_0C20, "add x0, x1, x2, lsl #3", "x1 x2", "x0"),
    (0x2B02_0020, "adds w0, w1, w2", "x1 x2", "x0 nzcv"),
    (0x9100_43FF, "add sp, sp, #16", "sp", "sp"),
    (0xF100_07FF, "cmp sp, #1", "sp", "nzcv"),
    (0x8B21_4BE0, "add x0, sp, w1, uxtw #2", "sp x1", "x0"),
    (0xEB21_63E0, "subs x0, sp, x1", "sp x1", "x0 nzcv"),
    (0x9A02_0020, "adc x0, x1, x2", "x1 x2 nzcv", "x0"),
    (0x7A02_003F, "sbcs wzr, w1, w2", "x1 x2 nzcv", "nzcv"),
    (0xB240_003F, "orr sp, x1, #1", "x1", "sp"),
    (0xF240_0020, "ands x0, x1, #1", "x1", "x0 nzcv"),
    (0xEA22_0020, "bics x0, x1, x2", "x1 x2", "x0 nzcv"),
    (0xD280_00A0, "mov x0, #5", "", "x0"),
    (0xF280_00A0, "movk x0, #5", "x0", "x0"),
    (0x1000_0020, "adr x0, .+4", "", "x0"),
    (0xB37E_0820, "bfi x0, x1, #2, #3", "x0 x1", "x0"),
    (0xD342_1020, "ubfx x0, x1, #2, #3", "x1", "x0"),
    (0x93C2_0C20, "extr x0, x1, x2, #3", "x1 x2", "x0"),
    (0x9A9F_0020, "csel x0, x1, xzr, eq", "x1 nzcv", "x0"),
    (0xFA41_0000, "ccmp x0, x1, #0, eq", "x0 x1 nzcv", "nzcv"),
    (0x3A41_0800, "ccmn w0, #1, #0, eq", "x0 nzcv", "nzcv"),
    (0x9B02_0C20, "madd x0, x1, x2, x3", "x1 x2 x3", "x0"),
    (0x9B02_7C20, "mul x0, x1, x2", "x1 x2", "x0"),
    (0x9B42_7C20, "smulh x0, x1, x2", "x1 x2", "x0"),
    (0x9AC2_0820, "udiv x0, x1, x2", "x1 x2", "x0"),
    (0xDAC0_0020, "rbit x0, x1", "x1", "x0"),
    (0xD500_401F, "cfinv", "nzcv", "nzcv"),
    (0xBA00_8402, "rmif x0, #1, #2", "x0 nzcv", "nzcv"),
    (0x3A00_080D, "setf8 w0", "x0 nzcv", "nzcv"),
    (0xDAC1_03E0, "pacia x0, sp", "x0 sp", "x0"),
    (0xDAC1_23E0, "paciza x0", "x0", "x0"),
    (0x9ADF_3020, "pacga x0, x1, sp", "x1 sp", "x0"),
    (0xDAC1_47E0, "xpacd x0", "x0", "x0"),
    (0xD503_233F, "paciasp", "x30 sp", "x30"),
    (0xD503_23DF, "autibz", "x30", "x30"),
    (0xD503_20FF, "xpaclri", "x30", "x30"),
    (0xD503_219F, "autia1716", "x16 x17", "x17"),
    (0xDAC1_8BFE, "pacia171615", "x15 x16 x17", "x17"),
    (0xF380_009F, "autiasppc .-16", "x30 sp", "x30"),
    (0xD503_251F, "chkfeat x16", "x16", "x16"),
    (0x9AC2_103F, "irg sp, x1, x2", "x1 x2", "sp"),
    (0x9181_07E0, "addg x0, sp, #16, #1", "sp", "x0"),
    (0xBADF_0020, "subps x0, x1, sp", "x1 sp", "x0 nzcv"),
    (0x9AC1_17E0, "gmi x0, sp, x1", "sp x1", "x0"),
    (0x1400_0002, "b .+8", "", ""),
    (0x9400_0002, "bl .+8", "", "x30"),
    (0x5400_0041, "b.ne .+8", "nzcv", ""),
    (0x3400_0040, "cbz w0, .+8", "x0", ""),
    (0xB740_0040, "tbnz x0, #40, .+8", "x0", ""),
    (0xF401_0040, "cbgt x0, x1, .+8", "x0 x1", ""),
    (0xD61F_0020, "br x1", "x1", ""),
    (0xD63F_0020, "blr x1", "x1", "x30"),
    (0xD73F_083F, "blraa x1, sp", "x1 sp", "x30"),
    (0xD65F_03C0, "ret", "x30", ""),
    (0xD65F_0BFF, "retaa", "x30 sp", ""),
    (0xD69F_03E0, "eret", "", "sp nzcv"),
    (0xF940_0020, "ldr x0, [x1]", "x1", "x0"),
    (0xF840_87FF, "ldr xzr, [sp], #8", "sp", "sp"),
    (0xF862_6820, "ldr x0, [x1, x2]", "x1 x2", "x0"),
    (0xF800_8C20, "str x0, [x1, #8]!", "x0 x1", "x1"),
    (0xA8C1_7BE0, "ldp x0, x30, [sp], #16", "sp", "x0 x30 sp"),
    (0xA900_7C20, "stp x0, xzr, [x1]", "x0 x1", ""),
    (0x5800_0040, "ldr x0, .+8", "", "x0"),
    (0x3CC1_0420, "ldr q0, [x1], #16", "x1", "x1"),
    (0xC802_7C20, "stxr w2, x0, [x1]", "x0 x1", "x2"),
    (0xC87F_0440, "ldxp x0, x1, [x2]", "x2", "x0 x1"),
    (0xC823_8440, "stlxp w3, x0, x1, [x2]", "x0 x1 x2", "x3"),
    (0xC8A2_7C20, "cas x2, x0, [x1]", "x0 x1 x2", "x2"),
    (0x4822_7C24, "casp x2, x3, x4, x5, [x1]", "x1 x2 x3 x4 x5", "x2 x3"),
    (0xF822_0020, "ldadd x2, x0, [x1]", "x1 x2", "x0"),
    (0xF822_03FF, "stadd x2, [sp]", "x2 sp", ""),
    (0x1923_8022, "swpp x2, x3, [x1]", "x1 x2 x3", "x2 x3"),
    (0x1922_0820, "rcwcas x2, x0, [x1]", "x0 x1 x2", "x2 nzcv"),
    (0x1923_B022, "rcwsetp x2, x3, [x1]", "x1 x2 x3", "x2 x3 nzcv"),
    (0xBC22_0020, "ldfadd s2, s0, [x1]", "x1", ""),
    (0xF83F_D100, "ld64b x0, [x8]", "x8", "x0 x1 x2 x3 x4 x5 x6 x7"),
    (0xF829_B100, "st64bv x9, x0, [x8]", "x0 x1 x2 x3 x4 x5 x6 x7 x8", "x9"),
    (0x4CC2_7020, "ld1 {v0.16b}, [x1], x2", "x1 x2", "x1"),
    (0x0DFF_0FE0, "ld2 {v0.b, v1.b}[3], [sp], #2", "sp", "sp"),
    (0xF820_1C20, "ldraa x0, [x1, #8]!", "x1", "x0 x1"),
    (0xD960_0020, "ldg x0, [x1]", "x0 x1", "x0"),
    (0xD920_143F, "stg sp, [x1], #16", "x1 sp", "x1"),
    (0x6980_8440, "stgp x0, x1, [x2, #16]!", "x0 x1 x2", "x2"),
    (0xF8A2_6820, "prfm pldl1keep, [x1, x2]", "x1 x2", ""),
    (0x1901_0440, "cpyfp [x0]!, [x1]!, x2!", "x0 x1 x2 nzcv", "x0 x1 x2 nzcv"),
    (0x19C2_0420, "setp [x0]!, x1!, x2", "x0 x1 x2 nzcv", "x0 x1 nzcv"),
    (0xD50B_7423, "dc zva, x3", "x3", ""),
    (0xD538_0000, "mrs x0, midr_el1", "", "x0"),
    (0xD53B_4200, "mrs x0, nzcv", "nzcv", "x0"),
    (0xD53B_2400, "mrs x0, rndr", "", "x0 nzcv"),
    (0xD51B_4200, "msr nzcv, x0", "x0", "nzcv"),
    (0xD518_4200, "msr spsel, x0", "x0", "sp"),
    (0xD518_4100, "msr sp_el0, x0", "x0", "sp"),
    (0xD500_40BF, "msr spsel, #0", "", "sp"),
    (0xD503_42DF, "msr daifset, #2", "", ""),
    (0xD518_C01F, "msr vbar_el1, xzr", "", ""),
    (0xD578_2002, "mrrs x2, x3, ttbr0_el1", "", "x2 x3"),
    (0xD558_2002, "msrr ttbr0_el1, x2, x3", "x2 x3", ""),
    (0xD52B_7100, "sysl x0, #3, c7, c1, #0", "", "x0"),
    (0xD50B_7520, "ic ivau, x0", "x0", ""),
    (0xD52B_7721, "gcspopm x1", "", "x1"),
    (0xD503_1001, "wfet x1", "x1", ""),
    (0xD503_201F, "nop", "", ""),
    (0xD503_3FDF, "isb", "", ""),
    (0xD400_0001, "svc #0", "", ""),
    (0x9E66_0020, "fmov x0, d1", "", "x0"),
    (0x9E67_0001, "fmov d1, x0", "x0", ""),
    (0x9EAF_0001, "fmov v1.d[1], x0", "x0", ""),
    (0x1E38_0020, "fcvtzs w0, s1", "", "x0"),
    (0x9E36_0020, "fcvtzs d0, s1", "", ""),
    (0x9E63_0020, "ucvtf d0, x1", "x1", ""),
    (0x9E42_F420, "scvtf d0, x1, #3", "x1", ""),
    (0x9E59_F420, "fcvtzu x0, d1, #3", "", "x0"),
    (0x1E7E_0020, "fjcvtzs w0, d1", "", "x0 nzcv"),
    (0x1E61_2000, "fcmp d0, d1", "", "nzcv"),
    (0x1E61_0400, "fccmp d0, d1, #0, eq", "nzcv", "nzcv"),
    (0x1E62_0C20, "fcsel d0, d1, d2, eq", "nzcv", ""),
    (0x0E07_3C20, "umov w0, v1.b[3]", "", "x0"),
    (0x4E0E_2C20, "smov x0, v1.h[3]", "", "x0"),
    (0x4E18_1C20, "ins v0.d[1], x1", "x1", ""),
    (0x0E01_0C20, "dup v0.8b, w1", "x1", ""),
    (0x4EA2_8420, "add v0.4s, v1.4s, v2.4s", "", ""),
    (0x0421_507F, "addvl sp, x1, #3", "x1", "sp"),
    (0x04BF_5020, "rdvl x0, #1", "", "x0"),
    (0x0420_E3E0, "cntb x0", "", "x0"),
    (0x04F0_E3E0, "incd x0", "x0", "x0"),
    (0x04A0_F3E0, "sqincw x0, w0", "x0", "x0"),
    (0x0470_C3E0, "inch z0.h", "", ""),
    (0x2520_8020, "cntp x0, p0, p1.b", "", "x0"),
    (0x252C_8820, "incp x0, p1.b", "x0", "x0"),
    (0x05E1_A020, "lastb x0, p0, z1.d", "", "x0"),
    (0x05B0_A020, "clasta w0, p0, w0, z1.s", "x0", "x0"),
    (0x05E0_3BE0, "mov z0.d, sp", "sp", ""),
    (0x05A8_A020, "cpy z0.s, p0/m, w1", "x1", ""),
    (0x05E4_3820, "insr z0.d, x1", "x1", ""),
    (0x04A2_4C20, "index z0.s, w1, w2", "x1 x2", ""),
    (0x2522_1C20, "whilelo p0.b, x1, x2", "x1 x2", "nzcv"),
    (0x25E2_2020, "ctermeq x1, x2", "x1 x2 nzcv", "nzcv"),
    (0x2403_A440, "cmpeq p0.b, p1/z, z2.b, z3.b", "", "nzcv"),
    (0x2501_0450, "cmpgt p0.b, p1/z, z2.b, #1", "", "nzcv"),
    (0x2550_C020, "ptest p0, p1.b", "", "nzcv"),
    (0x2519_E3E0, "ptrues p0.b", "", "nzcv"),
    (0x2519_C420, "pnext p0.b, p1, p0.b", "", "nzcv"),
    (0x2543_4440, "ands p0.b, p1/z, p2.b, p3.b", "", "nzcv"),
    (0x2503_4440, "and p0.b, p1/z, p2.b, p3.b", "", ""),
    (0x4523_8440, "match p0.b, p1/z, z2.b, z3.b", "", "nzcv"),
    (0x2526_4440, "psel p0, p1, p2.b[w14, 0]", "x14", ""),
    (0xA402_4020, "ld1b {z0.b}, p0/z, [x1, x2]", "x1 x2", ""),
    (0xC5C2_C020, "ld1d {z0.d}, p0/z, [x1, z2.d]", "x1", ""),
    (0xC5A1_C020, "ld1d {z0.d}, p0/z, [z1.d, #8]", "", ""),
    (0x8502_A020, "ldnt1w {z0.s}, p0/z, [z1.s, x2]", "x2", ""),
    (0xE542_8020, "st1w {z0.s}, p0, [x1, z2.s, uxtw]", "x1", ""),
]


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
    (0xA040_0020, "SVE2.1 multi-vector load"),
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
