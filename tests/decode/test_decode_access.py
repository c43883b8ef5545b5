"""Where loads and stores go, by their words and by the registers before them."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.operation import Access, Extend
from spe_unicorn.decode import decode, effective_address

ACCESSES = [
    (0xF940_0020, "ldr x0, [x1]", Access(1, 0, 8, 8)),
    (0x3940_17E0, "ldrb w0, [sp, #5]", Access(31, 5, 1, 1)),
    (0xB97F_FC20, "ldr w0, [x1, #16380]", Access(1, 16380, 4, 4)),
    (0xF862_6820, "ldr x0, [x1, x2]", Access(1, 0, 8, 8, index=2)),
    (0xF862_7820, "ldr x0, [x1, x2, lsl #3]", Access(1, 0, 8, 8, index=2, shift=3)),
    (
        0x7862_5820,
        "ldrh w0, [x1, w2, uxtw #1]",
        Access(1, 0, 2, 2, index=2, extend=Extend.UXTW, shift=1),
    ),
    (0xB8A2_C820, "ldrsw x0, [x1, w2, sxtw]", Access(1, 0, 4, 4, index=2, extend=Extend.SXTW)),
    (0x3C22_E820, "str b0, [x1, x2, sxtx]", Access(1, 0, 1, 1, index=2, extend=Extend.SXTX)),
    (0x3CE2_7820, "ldr q0, [x1, x2, lsl #4]", Access(1, 0, 16, 16, index=2, shift=4)),
    (0xF87F_6820, "ldr x0, [x1, xzr]", Access(1, 0, 8, 8)),
    (0xF85F_8420, "ldr x0, [x1], #-8", Access(1, 0, 8, 8, writeback=-8)),
    (0xF85F_8C20, "ldr x0, [x1, #-8]!", Access(1, -8, 8, 8, writeback=-8)),
    (0xB85F_F020, "ldur w0, [x1, #-1]", Access(1, -1, 4, 4)),
    (0xF80F_F820, "sttr x0, [x1, #255]", Access(1, 255, 8, 8, unprivileged=True)),
    (0x5880_0000, "ldr x0, .-1048576", Access(None, -1048576, 8, 8)),
    (0x9800_0020, "ldrsw x0, .+4", Access(None, 4, 4, 4)),
    (0x9C7F_FFE0, "ldr q0, .+1048572", Access(None, 1048572, 16, 16)),
    (0xA8C2_7BFD, "ldp x29, x30, [sp], #32", Access(31, 0, 16, 8, writeback=32)),
    (0x2920_0440, "stp w0, w1, [x2, #-256]", Access(2, -256, 8, 4)),
    (0x69C1_0440, "ldpsw x0, x1, [x2, #8]!", Access(2, 8, 8, 4, writeback=8)),
    (0xAD20_0440, "stp q0, q1, [x2, #-1024]", Access(2, -1024, 32, 16)),
    (0x6881_0440, "stgp x0, x1, [x2], #32", Access(2, 0, 16, 16, writeback=32)),
    (0x6C5F_8440, "ldnp d0, d1, [x2, #504]", Access(2, 504, 16, 8)),
    (0x885F_7C20, "ldxr w0, [x1]", Access(1, 0, 4, 4)),
    (0xC87F_0440, "ldxp x0, x1, [x2]", Access(2, 0, 16, 16)),
    (0x8823_8440, "stlxp w3, w0, w1, [x2]", Access(2, 0, 8, 8)),
    (0x48DF_FFE0, "ldarh w0, [sp]", Access(31, 0, 2, 2)),
    (0x9950_0020, "ldapur w0, [x1, #-256]", Access(1, -256, 4, 4)),
    (0x99C0_0820, "ldapr w0, [x1], #4", Access(1, 0, 4, 4, writeback=4)),
    (0xD980_0820, "stlr x0, [x1, #-8]!", Access(1, -8, 8, 8, writeback=-8)),
    (0x9941_0840, "ldiapp w0, w1, [x2], #8", Access(2, 0, 8, 4, writeback=8)),
    (0xD901_0840, "stilp x0, x1, [x2, #-16]!", Access(2, -16, 16, 8, writeback=-16)),
    (0xD901_1840, "stilp x0, x1, [x2]", Access(2, 0, 16, 8)),
    (0x08A0_7C41, "casb w0, w1, [x2]", Access(2, 0, 1, 1)),
    (0x4820_7C82, "casp x0, x1, x2, x3, [x4]", Access(4, 0, 16, 16)),
    (0x7822_0020, "ldaddh w2, w0, [x1]", Access(1, 0, 2, 2)),
    (0x1923_8022, "swpp x2, x3, [x1]", Access(1, 0, 16, 16)),
    (0xF83F_D100, "ld64b x0, [x8]", Access(8, 0, 64, 64)),
    (0x0C40_7020, "ld1 {v0.8b}, [x1]", Access(1, 0, 8, 1)),
    (0x4CDF_2820, "ld1 {v0.4s-v3.4s}, [x1], #64", Access(1, 0, 64, 4, writeback=64)),
    (0x4CC3_8C20, "ld2 {v0.2d, v1.2d}, [x1], x3", Access(1, 0, 32, 8, index_writeback=3)),
    (0x0C9F_4020, "st3 {v0.8b-v2.8b}, [x1], #24", Access(1, 0, 24, 1, writeback=24)),
    (0x0DBF_7820, "st4 {v0.h-v3.h}[3], [x1], #8", Access(1, 0, 8, 2, writeback=8)),
    (0x4DC2_8420, "ld1 {v0.d}[1], [x1], x2", Access(1, 0, 8, 8, index_writeback=2)),
    (0x0DDF_E420, "ld3r {v0.4h-v2.4h}, [x1], #6", Access(1, 0, 6, 2, writeback=6)),
    (0x4D60_C020, "ld2r {v0.16b, v1.16b}, [x1]", Access(1, 0, 2, 1)),
    (0xF860_0420, "ldraa x0, [x1, #-4096]", Access(1, -4096, 8, 8, authenticated=True)),
    (0xF8A0_1C20, "ldrab x0, [x1, #8]!", Access(1, 8, 8, 8, writeback=8, authenticated=True)),
    (0xD97F_F020, "ldg x0, [x1, #-16]", Access(1, -16, 16, 16, align_down=16)),
    (0xD920_1420, "stg x0, [x1], #16", Access(1, 0, 16, 16, writeback=16)),
    (0xD9A0_2C20, "st2g x0, [x1, #32]!", Access(1, 32, 32, 16, writeback=32)),
    (0xD960_3820, "stzg x0, [x1, #48]", Access(1, 48, 16, 16)),
    (0xD9A0_0020, "stgm x0, [x1]", Access(1, 0, 64, 16, align_down=64)),
    (0xD50B_7423, "dc zva, x3", Access(3, 0, 64, 1, align_down=64)),
    (0xD50B_743F, "dc zva, xzr", None),
    (0xA40F_A020, "ld1b {z0.b}, p0/z, [x1, #-1, mul vl]", Access(1, -16, 16, 1, scalable=True)),
    (0xA583_A020, "ld1sb {z0.d}, p0/z, [x1, #3, mul vl]", Access(1, 6, 2, 1, scalable=True)),
    (
        0xA4A2_4020,
        "ld1h {z0.h}, p0/z, [x1, x2, lsl #1]",
        Access(1, 0, 16, 2, index=2, shift=1, scalable=True),
    ),
    (0x85FF_E020, "ld1rd {z0.d}, p0/z, [x1, #504]", Access(1, 504, 8, 8)),
    (0xA50F_2020, "ld1rqw {z0.s}, p0/z, [x1, #-16]", Access(1, -16, 16, 4)),
    (
        0xA5CF_E020,
        "ld3d {z0.d-z2.d}, p0/z, [x1, #-3, mul vl]",
        Access(1, -48, 48, 8, scalable=True),
    ),
    (
        0xE502_6020,
        "stnt1w {z0.s}, p0, [x1, x2, lsl #2]",
        Access(1, 0, 16, 4, index=2, shift=2, scalable=True),
    ),
    (0xE56E_E020, "st1w {z0.d}, p0, [x1, #-2, mul vl]", Access(1, -16, 8, 4, scalable=True)),
    (0x85A0_4020, "ldr z0, [x1, #-256, mul vl]", Access(1, -4096, 16, 16, scalable=True)),
    (0xE581_0420, "str p0, [x1, #9, mul vl]", Access(1, 18, 2, 2, scalable=True)),
    (0xC5C2_C020, "ld1d {z0.d}, p0/z, [x1, z2.d]", None),
    (0xF980_0020, "prfm pldl1keep, [x1]", None),
    (0xD91F_0C20, "gcsstr x0, [x1]", Access(1, 0, 8, 8)),
]


@pytest.mark.parametrize(("word", "text", "access"), ACCESSES, ids=[row[1] for row in ACCESSES])
def test_access_of_a_load_or_store(word: int, text: str, access: Access | None) -> None:
    assert decode(word).access == access


X = [0x1000 + n for n in range(31)]
X[1] = 0x8000
X[2] = 0xFFFF_FFFF_FFFF_FFFE
SP_VALUE = 0x7000
PC = 0x4000

ADDRESSES = [
    (0xF940_0020, "ldr x0, [x1]", 0x8000),
    (0x3940_17E0, "ldrb w0, [sp, #5]", 0x7005),
    (0xF862_7820, "ldr x0, [x1, x2, lsl #3]", 0x7FF0),
    (0x7862_5820, "ldrh w0, [x1, w2, uxtw #1]", 0x2_0000_7FFC),
    (0xB8A2_C820, "ldrsw x0, [x1, w2, sxtw]", 0x7FFE),
    (0x3C22_E820, "str b0, [x1, x2, sxtx]", 0x7FFE),
    (0xF940_0040, "ldr x0, [x2]", 0xFFFF_FFFF_FFFF_FFFE),
    (0xF940_0440, "ldr x0, [x2, #8]", 6),
    (0xF85F_8420, "ldr x0, [x1], #-8", 0x8000),
    (0xF85F_8C20, "ldr x0, [x1, #-8]!", 0x7FF8),
    (0x9800_0020, "ldrsw x0, .+4", 0x4004),
    (0x58FF_FFE0, "ldr x0, .-4", 0x3FFC),
    (0xD50B_7423, "dc zva, x3", 0x1000),
    (0xD97F_F023, "ldg x3, [x1, #-16]", 0x7FF0),
    (0xA40F_A020, "ld1b {z0.b}, p0/z, [x1, #-1, mul vl]", 0x7FF0),
]


@pytest.mark.parametrize(("word", "text", "address"), ADDRESSES, ids=[row[1] for row in ADDRESSES])
def test_effective_address(word: int, text: str, address: int) -> None:
    access = decode(word).access
    assert access is not None
    assert effective_address(access, PC, X, SP_VALUE) == address


def test_scalable_offset_grows_with_the_vector_length() -> None:
    access = decode(0xA40F_A020).access  # ld1b {z0.b}, p0/z, [x1, #-1, mul vl]
    assert access is not None
    assert effective_address(access, PC, X, SP_VALUE, vector_length=512) == 0x7FC0
