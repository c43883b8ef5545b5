"""Events of single instruction words, from Arm's definitions by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.decode import decode
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.words import WORD_EVENTS, events_of
from tests.support import a64 as a

LOAD = {E.LD_RETIRED, E.LD_SPEC, E.MEM_ACCESS}
STORE = {E.ST_RETIRED, E.ST_SPEC, E.MEM_ACCESS}
DIRECT = {E.BR_RETIRED, E.BR_IMMED_RETIRED}
INDIRECT = {E.BR_RETIRED, E.BR_IND_RETIRED}


@pytest.mark.parametrize(
    ("word", "events"),
    [
        (a.NOP, set()),
        (a.add_imm(0, 0, 1), set()),
        (0xF940_0020, LOAD),  # LDR X0, [X1]
        (0xF900_0020, STORE),  # STR X0, [X1]
        (0xA940_0420, LOAD),  # LDP X0, X1, [X1]
        (0xF820_0041, LOAD | STORE),  # LDADD X0, X1, [X2]
        (0xF820_005F, STORE),  # STADD X0, [X2]
        (0xD53B_E040, set()),  # MRS X0, CNTVCT_EL0
        (a.b(8), DIRECT),
        (a.bl(8), DIRECT),
        (a.b_cond(a.EQ, 8), DIRECT),
        (a.cbz(0, 8), DIRECT),
        (a.br(1), INDIRECT),
        (a.blr(1), INDIRECT),
        (a.RET, INDIRECT | {E.BR_RETURN_RETIRED}),
        (a.ERET, INDIRECT | {E.EXC_RETURN}),
        (0xD518_2000, {E.TTBR_WRITE_RETIRED}),  # MSR TTBR0_EL1, X0
        (0xD518_2020, {E.TTBR_WRITE_RETIRED}),  # MSR TTBR1_EL1, X0
        (0xD51D_2000, set()),  # MSR TTBR0_EL12, X0: by its name it does not count
        (0xD51D_2020, set()),  # MSR TTBR1_EL12, X0
        (0xD51C_2000, set()),  # MSR TTBR0_EL2, X0
        (0xD51D_D020, set()),  # MSR CONTEXTIDR_EL12, X0
        (0xD51C_D020, set()),  # MSR CONTEXTIDR_EL2, X0
        (0xD518_D020, {E.CID_WRITE_RETIRED}),  # MSR CONTEXTIDR_EL1, X0
        (0xD538_2000, set()),  # MRS X0, TTBR0_EL1
        (0x1E62_2820, {E.FP_SPEC}),  # FADD D0, D1, D2
        (0x4EA2_8420, {E.SIMD_INST_SPEC}),  # ADD V0.4S, V1.4S, V2.4S
    ],
)
def test_events_of_a_word(word: int, events: set[E]) -> None:
    assert events_of(decode(word)) == events
    assert events <= WORD_EVENTS


SIMD = {
    "add v0.4s, v1.4s, v2.4s": 0x4EA2_8420,
    "fadd v0.4s, v1.4s, v2.4s": 0x4E22_D420,
    "dup v0.4s, w1": 0x4E04_0C20,
    "umov w0, v1.s[1]": 0x0E0C_3C20,
    "aese v0.16b, v1.16b": 0x4E28_4820,
    "sha1h s0, s1": 0x5E28_0820,
    "sha256h q0, q1, v2.4s": 0x5E02_4020,
    "eor3 v0.16b, v1.16b, v2.16b, v3.16b": 0xCE02_0C20,
    "ld1 {v0.4s}, [x0]": 0x4C40_7800,
    "ld1 {v0.s}[1], [x0]": 0x0D40_9000,
    "ld2r {v0.4s, v1.4s}, [x0]": 0x4D60_C800,
    "st4 {v0.4s-v3.4s}, [x0]": 0x4C00_0800,
    "ldr q0, [x0]": 0x3DC0_0000,
    "str q0, [x0, #16]!": 0x3C81_0C00,
    "ldr q0, .": 0x9C00_0000,
    "ldur q0, [x0, #-3]": 0x3CDF_D000,
    "ldp q0, q1, [x0]": 0xAD40_0400,
    "stnp q0, q1, [x0]": 0xAC00_0400,
    "add z0.s, z0.s, z1.s": 0x04A1_0000,
    "fadd z0.s, p1/m, z0.s, z1.s": 0x6580_8420,
    "cmpeq p0.b, p1/z, z0.b, z1.b": 0x2401_A400,
    "saddv d0, p1, z0.s": 0x0480_2400,
    "index z0.s, w1, w2": 0x04A2_4C20,
    "incd z0.d": 0x04F0_C3E0,
    "sqinch z0.h": 0x0460_C3E0,
    "cntp x0, p0, p1.b": 0x2520_8020,
    "incp x0, p1.b": 0x252C_8820,
    "whilelt p0.b, x0, x1": 0x2521_1400,
    "ptrue p0.b": 0x2518_E3E0,
    "ld1w {z0.s}, p1/z, [x0]": 0xA540_A400,
    "st1w {z0.s}, p1, [x0]": 0xE540_E400,
    "ldr z0, [x0]": 0x8580_4000,
    "str p0, [x0]": 0xE580_0000,
}
"""What SIMD_INST_SPEC counts (Arm ARM D14.3, as from Armv9.5 on), as GNU as has the words."""
NO_SIMD = {
    "add d0, d1, d2": 0x5EE2_8420,
    "sqadd s0, s1, s2": 0x5EA2_0C20,
    "fmulx d0, d1, d2": 0x5E62_DC20,
    "fcmeq d0, d1, d2": 0x5E62_E420,
    "addp d0, v1.2d": 0x5EF1_B820,
    "mov d0, v1.d[1]": 0x5E18_0420,
    "fadd d0, d1, d2": 0x1E62_2820,
    "fmov d0, x1": 0x9E67_0020,
    "ldr d0, [x0]": 0xFD40_0000,
    "ldr b0, [x0]": 0x3D40_0000,
    "str s0, [x0]": 0xBD00_0000,
    "ldr d0, .": 0x5C00_0000,
    "ldp d0, d1, [x0]": 0x6D40_0400,
    "addvl x0, x1, #3": 0x0421_5060,
    "addpl x0, x1, #-3": 0x0461_57A0,
    "rdvl x0, #5": 0x04BF_50A0,
    "cntb x0": 0x0420_E3E0,
    "cntd x0, vl4, mul #3": 0x04E2_E080,
    "dech x0": 0x0470_E7E0,
    "sqincb x0, w0": 0x0420_F3E0,
    "uqdecd x0": 0x04F0_FFE0,
    "ctermeq x0, x1": 0x25E1_2000,
    "ctermne w0, w1": 0x25A1_2010,
    "ldr x0, [x1]": 0xF940_0020,
}
"""Scalar instructions of Advanced SIMD, other accesses, and what of SVE is no SIMD (D14.1.1)."""


@pytest.mark.parametrize("text", SIMD)
def test_simd_is_counted(text: str) -> None:
    assert E.SIMD_INST_SPEC in events_of(decode(SIMD[text]))


@pytest.mark.parametrize("text", NO_SIMD)
def test_what_is_no_simd_is_not(text: str) -> None:
    assert E.SIMD_INST_SPEC not in events_of(decode(NO_SIMD[text]))
