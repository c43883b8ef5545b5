"""What plain loads and stores move."""

from __future__ import annotations

import pytest

from spe_unicorn.decode import Transfer, transfer


def load(
    rt: int, size: int, *, rt2: int | None = None, signed: bool = False, width64: bool = False
) -> Transfer:
    return Transfer(rt, rt2, size, signed, width64, load=True)


def store(rt: int, size: int, *, rt2: int | None = None, width64: bool = False) -> Transfer:
    return Transfer(rt, rt2, size, signed=False, width64=width64, load=False)


PLAIN = [
    (0xF940_0020, "ldr x0, [x1]", load(0, 8, width64=True)),
    (0xB940_0023, "ldr w3, [x1]", load(3, 4)),
    (0x7940_0020, "ldrh w0, [x1]", load(0, 2)),
    (0x3940_003F, "ldrb wzr, [x1]", load(31, 1)),
    (0x3980_0020, "ldrsb x0, [x1]", load(0, 1, signed=True, width64=True)),
    (0x39C0_0020, "ldrsb w0, [x1]", load(0, 1, signed=True)),
    (0x7980_0020, "ldrsh x0, [x1]", load(0, 2, signed=True, width64=True)),
    (0x79C0_0020, "ldrsh w0, [x1]", load(0, 2, signed=True)),
    (0xB980_0020, "ldrsw x0, [x1]", load(0, 4, signed=True, width64=True)),
    (0xB8A2_7820, "ldrsw x0, [x1, x2, lsl #2]", load(0, 4, signed=True, width64=True)),
    (0x38C0_1420, "ldrsb w0, [x1], #1", load(0, 1, signed=True)),
    (0xF85F_8C20, "ldr x0, [x1, #-8]!", load(0, 8, width64=True)),
    (0xB85F_C020, "ldur w0, [x1, #-4]", load(0, 4)),
    (0x7880_1020, "ldursh x0, [x1, #1]", load(0, 2, signed=True, width64=True)),
    (0xB880_0820, "ldtrsw x0, [x1]", load(0, 4, signed=True, width64=True)),
    (0x5800_0080, "ldr x0, .+16", load(0, 8, width64=True)),
    (0x1800_0080, "ldr w0, .+16", load(0, 4)),
    (0x9800_0080, "ldrsw x0, .+16", load(0, 4, signed=True, width64=True)),
    (0xF900_0020, "str x0, [x1]", store(0, 8, width64=True)),
    (0xB900_003F, "str wzr, [x1]", store(31, 4)),
    (0x3800_1420, "strb w0, [x1], #1", store(0, 1)),
    (0x7822_6820, "strh w0, [x1, x2]", store(0, 2)),
    (0xF800_0820, "sttr x0, [x1]", store(0, 8, width64=True)),
    (0xA9BE_7BFD, "stp x29, x30, [sp, #-32]!", store(29, 8, rt2=30, width64=True)),
    (0x2900_0440, "stp w0, w1, [x2]", store(0, 4, rt2=1)),
    (0xA8C1_07E0, "ldp x0, x1, [sp], #16", load(0, 8, rt2=1, width64=True)),
    (0x2940_7C40, "ldp w0, wzr, [x2]", load(0, 4, rt2=31)),
    (0x2840_0440, "ldnp w0, w1, [x2]", load(0, 4, rt2=1)),
    (0x6940_0440, "ldpsw x0, x1, [x2]", load(0, 4, rt2=1, signed=True, width64=True)),
    (0xC8DF_FC20, "ldar x0, [x1]", load(0, 8, width64=True)),
    (0x88DF_FC20, "ldar w0, [x1]", load(0, 4)),
    (0x08DF_FC20, "ldarb w0, [x1]", load(0, 1)),
    (0x88DF_7C20, "ldlar w0, [x1]", load(0, 4)),
    (0x889F_FC20, "stlr w0, [x1]", store(0, 4)),
    (0xF8BF_C020, "ldapr x0, [x1]", load(0, 8, width64=True)),
    (0x38BF_C020, "ldaprb w0, [x1]", load(0, 1)),
    (0x99C0_0820, "ldapr w0, [x1], #4", load(0, 4)),
    (0xD980_0820, "stlr x0, [x1, #-8]!", store(0, 8, width64=True)),
    (0xD940_8020, "ldapur x0, [x1, #8]", load(0, 8, width64=True)),
    (0x19DF_F020, "ldapursb w0, [x1, #-1]", load(0, 1, signed=True)),
    (0x9980_0020, "ldapursw x0, [x1]", load(0, 4, signed=True, width64=True)),
    (0x1900_1020, "stlurb w0, [x1, #1]", store(0, 1)),
    (0x9941_0840, "ldiapp w0, w1, [x2], #8", load(0, 4, rt2=1)),
    (0xD901_1840, "stilp x0, x1, [x2]", store(0, 8, rt2=1, width64=True)),
    (0xF820_1420, "ldraa x0, [x1, #8]", load(0, 8, width64=True)),
    (0xF8E0_1420, "ldrab x0, [x1, #-4088]", load(0, 8, width64=True)),
]


@pytest.mark.parametrize(("word", "text", "expected"), PLAIN, ids=[row[1] for row in PLAIN])
def test_transfer_of_a_plain_load_or_store(word: int, text: str, expected: Transfer) -> None:
    assert transfer(word) == expected


NOT_PLAIN = [
    (0x8B02_0020, "add x0, x1, x2"),
    (0xC85F_7C20, "ldxr x0, [x1]"),
    (0x8802_7C20, "stxr w2, w0, [x1]"),
    (0xF822_0020, "ldadd x2, x0, [x1]"),
    (0xC8A2_7C20, "cas x2, x0, [x1]"),
    (0xFD40_0020, "ldr d0, [x1]"),
    (0x6D00_0440, "stp d0, d1, [x2]"),
    (0x4C40_7020, "ld1 {v0.16b}, [x1]"),
    (0xF980_0420, "prfm pldl1keep, [x1, #8]"),
    (0xD800_0040, "prfm pldl1keep, .+8"),
    (0xD920_0820, "stg x0, [x1]"),
    (0xD960_0820, "stzg x0, [x1]"),
    (0x6901_0440, "stgp x0, x1, [x2, #32]"),
    (0xF83F_D020, "ld64b x0, [x1]"),
    (0x1901_0440, "cpyfp [x0]!, [x1]!, x2!"),
    (0xD91F_0C20, "gcsstr x0, [x1]"),
    (0xD50B_7423, "dc zva, x3"),
    (0xA400_A020, "ld1b {z0.b}, p0/z, [x1]"),
]


@pytest.mark.parametrize("word", [w for w, _ in NOT_PLAIN], ids=[t for _, t in NOT_PLAIN])
def test_no_transfer_for_what_is_not_plain(word: int) -> None:
    assert transfer(word) is None
