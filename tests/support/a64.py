"""Instruction words for test programs: a small assembler, one function an instruction form.

Registers are numbers; 31 is SP or XZR as the instruction has it. Offsets are in bytes. What a
field cannot hold is a ValueError, never a wrong word.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

EQ, NE, CS, CC, MI, PL, VS, VC, HI, LS, GE, LT, GT, LE, AL = range(15)
NOP = 0xD503_201F
YIELD = 0xD503_203F
WFE = 0xD503_205F
WFI = 0xD503_207F
SEV = 0xD503_209F
PSB_CSYNC = 0xD503_223F
ISB = 0xD503_3FDF
DSB_SY = 0xD503_3F9F
DMB_ISH = 0xD503_3BBF
CLREX = 0xD503_3F5F
ERET = 0xD69F_03E0
RET = 0xD65F_03C0
UXTW, LSL, SXTW, SXTX = 2, 3, 6, 7
PLAIN, POST, PRE = 0b00, 0b01, 0b11
"""Forms of an address with a 9-bit offset: unscaled, post-index, pre-index."""


def code(words: Iterable[int]) -> bytes:
    """The words as memory holds them."""
    words = list(words)
    return struct.pack(f"<{len(words)}I", *words)


def _unsigned(value: int, bits: int, scale: int = 1) -> int:
    if value % scale or not 0 <= value // scale < 1 << bits:
        raise ValueError(f"{value} is no multiple of {scale} of {bits} bits")
    return value // scale


def _signed(value: int, bits: int, scale: int = 1) -> int:
    if value % scale or not -(1 << bits - 1) <= value // scale < 1 << bits - 1:
        raise ValueError(f"{value} is no multiple of {scale} of {bits} bits with sign")
    return value // scale & (1 << bits) - 1


# Data processing


def movz(rd: int, value: int, shift: int = 0) -> int:
    return 0xD280_0000 | shift // 16 << 21 | _unsigned(value, 16) << 5 | rd


def movk(rd: int, value: int, shift: int = 0) -> int:
    return 0xF280_0000 | shift // 16 << 21 | _unsigned(value, 16) << 5 | rd


def mov64(rd: int, value: int) -> list[int]:
    """As few words as set Xd to any 64-bit value."""
    parts = [(value >> shift & 0xFFFF, shift) for shift in (0, 16, 32, 48)]
    parts = [p for p in parts if p[0]] or parts[:1]
    return [(movk if n else movz)(rd, *part) for n, part in enumerate(parts)]


def add_imm(rd: int, rn: int, value: int) -> int:
    return 0x9100_0000 | _unsigned(value, 12) << 10 | rn << 5 | rd


def sub_imm(rd: int, rn: int, value: int) -> int:
    return 0xD100_0000 | _unsigned(value, 12) << 10 | rn << 5 | rd


def subs_imm(rd: int, rn: int, value: int) -> int:
    return 0xF100_0000 | _unsigned(value, 12) << 10 | rn << 5 | rd


def add(rd: int, rn: int, rm: int) -> int:
    return 0x8B00_0000 | rm << 16 | rn << 5 | rd


def adds(rd: int, rn: int, rm: int) -> int:
    return 0xAB00_0000 | rm << 16 | rn << 5 | rd


def subs(rd: int, rn: int, rm: int) -> int:
    return 0xEB00_0000 | rm << 16 | rn << 5 | rd


def orr(rd: int, rn: int, rm: int) -> int:
    return 0xAA00_0000 | rm << 16 | rn << 5 | rd


def eor(rd: int, rn: int, rm: int) -> int:
    return 0xCA00_0000 | rm << 16 | rn << 5 | rd


def and_low_bits(rd: int, rn: int, lowest: int, count: int) -> int:
    """AND with ``count`` ones from bit ``lowest`` on."""
    return 0x9240_0000 | (64 - lowest) % 64 << 16 | count - 1 << 10 | rn << 5 | rd


def mul(rd: int, rn: int, rm: int) -> int:
    return 0x9B00_7C00 | rm << 16 | rn << 5 | rd


def udiv(rd: int, rn: int, rm: int) -> int:
    return 0x9AC0_0800 | rm << 16 | rn << 5 | rd


def lsr_imm(rd: int, rn: int, shift: int) -> int:
    return 0xD340_FC00 | _unsigned(shift, 6) << 16 | rn << 5 | rd


def adr(rd: int, offset: int) -> int:
    field = _signed(offset, 21)
    return 0x1000_0000 | (field & 3) << 29 | field >> 2 << 5 | rd


def csel(rd: int, rn: int, rm: int, condition: int) -> int:
    return 0x9A80_0000 | rm << 16 | condition << 12 | rn << 5 | rd


def csinc(rd: int, rn: int, rm: int, condition: int) -> int:
    return 0x9A80_0400 | rm << 16 | condition << 12 | rn << 5 | rd


def ccmp(rn: int, rm: int, nzcv: int, condition: int) -> int:
    return 0xFA40_0000 | rm << 16 | condition << 12 | rn << 5 | _unsigned(nzcv, 4)


# Branches


def b(offset: int) -> int:
    return 0x1400_0000 | _signed(offset, 26, 4)


def bl(offset: int) -> int:
    return 0x9400_0000 | _signed(offset, 26, 4)


def b_cond(condition: int, offset: int) -> int:
    return 0x5400_0000 | _signed(offset, 19, 4) << 5 | condition


def cbz(rt: int, offset: int) -> int:
    return 0xB400_0000 | _signed(offset, 19, 4) << 5 | rt


def cbnz(rt: int, offset: int) -> int:
    return 0xB500_0000 | _signed(offset, 19, 4) << 5 | rt


def tbz(rt: int, bit: int, offset: int) -> int:
    return 0x3600_0000 | bit >> 5 << 31 | (bit & 31) << 19 | _signed(offset, 14, 4) << 5 | rt


def tbnz(rt: int, bit: int, offset: int) -> int:
    return 0x3700_0000 | bit >> 5 << 31 | (bit & 31) << 19 | _signed(offset, 14, 4) << 5 | rt


def br(rn: int) -> int:
    return 0xD61F_0000 | rn << 5


def blr(rn: int) -> int:
    return 0xD63F_0000 | rn << 5


def ret(rn: int = 30) -> int:
    return 0xD65F_0000 | rn << 5


# Exceptions and System registers


def svc(number: int) -> int:
    return 0xD400_0001 | _unsigned(number, 16) << 5


def hvc(number: int) -> int:
    return 0xD400_0002 | _unsigned(number, 16) << 5


def smc(number: int) -> int:
    return 0xD400_0003 | _unsigned(number, 16) << 5


def brk(number: int) -> int:
    return 0xD420_0000 | _unsigned(number, 16) << 5


def udf(number: int) -> int:
    return _unsigned(number, 16)


def mrs(rt: int, op: tuple[int, int, int, int, int]) -> int:
    return 0xD520_0000 | _system(op) | rt


def msr(op: tuple[int, int, int, int, int], rt: int) -> int:
    return 0xD500_0000 | _system(op) | rt


def sys(op1: int, crn: int, crm: int, op2: int, rt: int = 31) -> int:
    return 0xD500_0000 | _system((1, op1, crn, crm, op2)) | rt


def _system(op: tuple[int, int, int, int, int]) -> int:
    op0, op1, crn, crm, op2 = op
    return op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5


def daifset(mask: int) -> int:
    return 0xD503_40DF | _unsigned(mask, 4) << 8


def daifclr(mask: int) -> int:
    return 0xD503_40FF | _unsigned(mask, 4) << 8


def dc_zva(rt: int) -> int:
    return sys(3, 7, 4, 1, rt)


# Loads and stores. ``size`` is 0 to 3 for 1 to 8 bytes.


def ldr(rt: int, rn: int, offset: int = 0, size: int = 3) -> int:
    return 0x3940_0000 | size << 30 | _unsigned(offset, 12, 1 << size) << 10 | rn << 5 | rt


def str_(rt: int, rn: int, offset: int = 0, size: int = 3) -> int:
    return 0x3900_0000 | size << 30 | _unsigned(offset, 12, 1 << size) << 10 | rn << 5 | rt


def ldrs(rt: int, rn: int, offset: int = 0, size: int = 2) -> int:
    """LDRSB, LDRSH or LDRSW into Xt."""
    return 0x3980_0000 | size << 30 | _unsigned(offset, 12, 1 << size) << 10 | rn << 5 | rt


def ldr9(rt: int, rn: int, offset: int, form: int, size: int = 3) -> int:
    return 0x3840_0000 | size << 30 | _signed(offset, 9) << 12 | form << 10 | rn << 5 | rt


def str9(rt: int, rn: int, offset: int, form: int, size: int = 3) -> int:
    return 0x3800_0000 | size << 30 | _signed(offset, 9) << 12 | form << 10 | rn << 5 | rt


def ldr_reg(rt: int, rn: int, rm: int, extend: int = LSL, scaled: int = 0, size: int = 3) -> int:
    field = rm << 16 | extend << 13 | scaled << 12
    return 0x3860_0800 | size << 30 | field | rn << 5 | rt


def str_reg(rt: int, rn: int, rm: int, extend: int = LSL, scaled: int = 0, size: int = 3) -> int:
    field = rm << 16 | extend << 13 | scaled << 12
    return 0x3820_0800 | size << 30 | field | rn << 5 | rt


def ldr_literal(rt: int, offset: int) -> int:
    return 0x5800_0000 | _signed(offset, 19, 4) << 5 | rt


def pair(load: bool, rt: int, rt2: int, rn: int, offset: int = 0, form: int = 0b10) -> int:
    """LDP or STP of X registers; ``form``: 0b10 with an offset, 0b01 post-index, 0b11 pre-index."""
    word = 0xA800_0000 | form << 23 | load << 22
    return word | _signed(offset, 7, 8) << 15 | rt2 << 10 | rn << 5 | rt


def ldr_d(rt: int, rn: int, offset: int = 0) -> int:
    return 0xFD40_0000 | _unsigned(offset, 12, 8) << 10 | rn << 5 | rt


def str_d(rt: int, rn: int, offset: int = 0) -> int:
    return 0xFD00_0000 | _unsigned(offset, 12, 8) << 10 | rn << 5 | rt


def ldr_q(rt: int, rn: int, offset: int = 0) -> int:
    return 0x3DC0_0000 | _unsigned(offset, 12, 16) << 10 | rn << 5 | rt


def str_q(rt: int, rn: int, offset: int = 0) -> int:
    return 0x3D80_0000 | _unsigned(offset, 12, 16) << 10 | rn << 5 | rt


def ld1_two(rt: int, rn: int) -> int:
    """LD1 {Vt.16B, Vt+1.16B}, [Xn]."""
    return 0x4C40_A000 | rn << 5 | rt


def st2_post(rt: int, rn: int, rm: int) -> int:
    """ST2 {Vt.4S, Vt+1.4S}, [Xn], Xm; 31 for the immediate 32."""
    return 0x4C80_8800 | rm << 16 | rn << 5 | rt


def ld4_lane_post(rt: int, rn: int, rm: int) -> int:
    """LD4 {Vt.D, ...}[0], [Xn], Xm; 31 for the immediate 32."""
    return 0x0DE0_A400 | rm << 16 | rn << 5 | rt


def ldxr(rt: int, rn: int) -> int:
    return 0xC85F_7C00 | rn << 5 | rt


def stxr(rs: int, rt: int, rn: int) -> int:
    return 0xC800_7C00 | rs << 16 | rn << 5 | rt


def ldar(rt: int, rn: int) -> int:
    return 0xC8DF_FC00 | rn << 5 | rt


def stlr(rt: int, rn: int) -> int:
    return 0xC89F_FC00 | rn << 5 | rt


def ldadd(rs: int, rt: int, rn: int) -> int:
    return 0xF820_0000 | rs << 16 | rn << 5 | rt


def swp(rs: int, rt: int, rn: int) -> int:
    return 0xF820_8000 | rs << 16 | rn << 5 | rt


def cas(rs: int, rt: int, rn: int) -> int:
    return 0xC8A0_7C00 | rs << 16 | rn << 5 | rt


def prfm(rn: int, offset: int = 0) -> int:
    return 0xF980_0000 | _unsigned(offset, 12, 8) << 10 | rn << 5


# Floating point and vectors


def fadd(rd: int, rn: int, rm: int) -> int:
    return 0x1E60_2800 | rm << 16 | rn << 5 | rd


def fcmp(rn: int, rm: int) -> int:
    return 0x1E60_2000 | rm << 16 | rn << 5


def fcsel(rd: int, rn: int, rm: int, condition: int) -> int:
    return 0x1E60_0C00 | rm << 16 | condition << 12 | rn << 5 | rd


def scvtf(rd: int, rn: int) -> int:
    return 0x9E62_0000 | rn << 5 | rd


def fmov_to_x(rd: int, rn: int) -> int:
    return 0x9E66_0000 | rn << 5 | rd


def add_4s(rd: int, rn: int, rm: int) -> int:
    return 0x4EA0_8400 | rm << 16 | rn << 5 | rd
