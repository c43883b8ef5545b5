"""The test programs' assembler, by a disassembler that is not ours."""

from __future__ import annotations

import pytest
from capstone import CS_ARCH_ARM64, CS_MODE_ARM, Cs

from tests.support import a64 as a

CASES = [
    (a.movz(3, 0x1234, 16), "movz x3, #0x1234, lsl #16"),
    (a.movk(3, 0xFFFF, 48), "movk x3, #0xffff, lsl #48"),
    (a.add_imm(1, 31, 16), "add x1, sp, #0x10"),
    (a.sub_imm(1, 2, 16), "sub x1, x2, #0x10"),
    (a.subs_imm(1, 2, 1), "subs x1, x2, #1"),
    (a.add(1, 2, 3), "add x1, x2, x3"),
    (a.adds(1, 2, 3), "adds x1, x2, x3"),
    (a.subs(1, 2, 3), "subs x1, x2, x3"),
    (a.orr(1, 2, 3), "orr x1, x2, x3"),
    (a.eor(1, 2, 3), "eor x1, x2, x3"),
    (a.and_low_bits(1, 2, 3, 9), "and x1, x2, #0xff8"),
    (a.and_low_bits(1, 2, 0, 6), "and x1, x2, #0x3f"),
    (a.mul(1, 2, 3), "mul x1, x2, x3"),
    (a.udiv(1, 2, 3), "udiv x1, x2, x3"),
    (a.lsr_imm(1, 2, 26), "lsr x1, x2, #0x1a"),
    (a.adr(1, -4), "adr x1, #0xfffffffffffffffc"),
    (a.csel(1, 2, 3, a.LT), "csel x1, x2, x3, lt"),
    (a.csinc(1, 2, 3, a.LT), "csinc x1, x2, x3, lt"),
    (a.ccmp(1, 2, 5, a.NE), "ccmp x1, x2, #5, ne"),
    (a.b(8), "b #8"),
    (a.bl(-8), "bl #0xfffffffffffffff8"),
    (a.b_cond(a.HI, 8), "b.hi #8"),
    (a.cbz(3, 8), "cbz x3, #8"),
    (a.cbnz(3, 8), "cbnz x3, #8"),
    (a.tbz(3, 40, 8), "tbz x3, #0x28, #8"),
    (a.tbnz(3, 4, 8), "tbnz w3, #4, #8"),
    (a.br(3), "br x3"),
    (a.blr(3), "blr x3"),
    (a.ret(3), "ret x3"),
    (a.RET, "ret "),
    (a.ERET, "eret "),
    (a.svc(5), "svc #5"),
    (a.hvc(5), "hvc #5"),
    (a.brk(5), "brk #5"),
    (a.udf(5), "udf #5"),
    (a.mrs(3, (3, 3, 13, 0, 2)), "mrs x3, tpidr_el0"),
    (a.msr((3, 3, 13, 0, 2), 3), "msr tpidr_el0, x3"),
    (a.daifset(2), "msr daifset, #2"),
    (a.daifclr(2), "msr daifclr, #2"),
    (a.dc_zva(3), "dc zva, x3"),
    (a.ldr(1, 2, 16), "ldr x1, [x2, #0x10]"),
    (a.ldr(1, 2, 1, 0), "ldrb w1, [x2, #1]"),
    (a.str_(1, 2, 8, 2), "str w1, [x2, #8]"),
    (a.ldrs(1, 2, 4, 2), "ldrsw x1, [x2, #4]"),
    (a.ldr9(1, 2, -3, a.PLAIN), "ldur x1, [x2, #-3]"),
    (a.ldr9(1, 2, 3, a.POST), "ldr x1, [x2], #3"),
    (a.str9(1, 2, 7, a.PRE, 1), "strh w1, [x2, #7]!"),
    (a.ldr_reg(1, 2, 3, a.SXTW, 1), "ldr x1, [x2, w3, sxtw #3]"),
    (a.str_reg(1, 2, 3, a.LSL, 0), "str x1, [x2, x3]"),
    (a.ldr_literal(1, 16), "ldr x1, #0x10"),
    (a.pair(True, 1, 2, 31, 16), "ldp x1, x2, [sp, #0x10]"),
    (a.pair(False, 1, 2, 3, -16, 0b11), "stp x1, x2, [x3, #-0x10]!"),
    (a.pair(True, 1, 2, 3, 16, 0b01), "ldp x1, x2, [x3], #0x10"),
    (a.ldr_d(1, 2, 8), "ldr d1, [x2, #8]"),
    (a.str_d(1, 2, 8), "str d1, [x2, #8]"),
    (a.ldr_q(1, 2, 16), "ldr q1, [x2, #0x10]"),
    (a.str_q(1, 2, 16), "str q1, [x2, #0x10]"),
    (a.ld1_two(1, 2), "ld1 {v1.16b, v2.16b}, [x2]"),
    (a.st2_post(1, 2, 3), "st2 {v1.4s, v2.4s}, [x2], x3"),
    (a.ld4_lane_post(1, 2, 3), "ld4 {v1.d, v2.d, v3.d, v4.d}[0], [x2], x3"),
    (a.ldxr(1, 2), "ldxr x1, [x2]"),
    (a.stxr(1, 2, 3), "stxr w1, x2, [x3]"),
    (a.ldar(1, 2), "ldar x1, [x2]"),
    (a.stlr(1, 2), "stlr x1, [x2]"),
    (a.ldadd(1, 2, 3), "ldadd x1, x2, [x3]"),
    (a.swp(1, 2, 3), "swp x1, x2, [x3]"),
    (a.cas(1, 2, 3), "cas x1, x2, [x3]"),
    (a.prfm(1, 8), "prfm pldl1keep, [x1, #8]"),
    (a.fadd(1, 2, 3), "fadd d1, d2, d3"),
    (a.fcmp(1, 2), "fcmp d1, d2"),
    (a.fcsel(1, 2, 3, a.GT), "fcsel d1, d2, d3, gt"),
    (a.scvtf(1, 2), "scvtf d1, x2"),
    (a.fmov_to_x(1, 2), "fmov x1, d2"),
    (a.add_4s(1, 2, 3), "add v1.4s, v2.4s, v3.4s"),
    (a.NOP, "nop "),
    (a.YIELD, "yield "),
    (a.WFE, "wfe "),
    (a.WFI, "wfi "),
    (a.SEV, "sev "),
    (a.ISB, "isb "),
    (a.DSB_SY, "dsb sy"),
    (a.DMB_ISH, "dmb ish"),
    (a.CLREX, "clrex "),
]


def disassembled(word: int) -> str:
    instruction = next(Cs(CS_ARCH_ARM64, CS_MODE_ARM).disasm(a.code([word]), 0))
    return f"{instruction.mnemonic} {instruction.op_str}"


@pytest.mark.parametrize(("word", "text"), CASES, ids=[text for _, text in CASES])
def test_word_is_the_instruction(word: int, text: str) -> None:
    shown = disassembled(word)
    assert shown.replace("mov x3, #0x12340000", "movz x3, #0x1234, lsl #16") == text


def test_any_constant_can_be_set() -> None:
    assert a.mov64(1, 0) == [a.movz(1, 0)]
    assert a.mov64(1, 0xABCD_0000_0000_1234) == [a.movz(1, 0x1234), a.movk(1, 0xABCD, 48)]


@pytest.mark.parametrize("offset", [6, 1 << 27, -(1 << 27) - 4])
def test_offset_that_does_not_fit_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="is no multiple of 4"):
        a.b(offset)
