"""Which features an instruction needs: words as GNU's assembler makes them, features by hand."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from spe_unicorn.instructions.known.features import BIT
from spe_unicorn.instructions.known.finding import ROWS, TABLE, features_of, known, needs_of
from spe_unicorn.instructions.known.rows import table
from tests.instructions.harness import QEMU
from tests.instructions.known.undefined import random_words, undefined, words_of_rows

WORDS = [
    (0x4E28_4841, "AES"),  # aese v1.16b, v2.16b
    (0x0EE3_E041, "PMULL"),  # pmull v1.1q, v2.1d, v3.1d
    (0x5E28_0841, "SHA1"),  # sha1h s1, s2
    (0x5E03_4041, "SHA256"),  # sha256h q1, q2, v3.4s
    (0x1AC3_4041, "CRC32"),  # crc32b w1, w2, w3
    (0x88A1_7C62, "LSE"),  # cas w1, w2, [x3]
    (0x4862_FCC4, "LSE"),  # caspal x2, x3, x4, x5, [x6]
    (0x3821_4062, "LSE"),  # ldsmaxb w1, w2, [x3]
    (0xF8E1_8062, "LSE"),  # swpal x1, x2, [x3]
    (0x6E83_8441, "RDM"),  # sqrdmlah v1.4s, v2.4s, v3.4s
    (0xC8DF_7C41, "LOR"),  # ldlar x1, [x2]
    (0xD500_419F, "PAN"),  # msr pan, #1
    (0xD500_417F, "UAO"),  # msr uao, #1
    (0xD508_7901, "PAN2"),  # at s1e1rp, x1
    (0xD50B_7C21, "DPB"),  # dc cvap, x1
    (0x4E43_1441, "FP16"),  # fadd v1.8h, v2.8h, v3.8h
    (0x9ED8_F441, "FP16"),  # fcvtzs x1, h2, #3
    (0x1EE2_2020, "FP16"),  # fcmp h1, h2
    (0x4E83_9441, "DotProd"),  # sdot v1.4s, v2.16b, v3.16b
    (0x4E23_EC41, "FHM"),  # fmlal v1.4s, v2.4h, v3.4h
    (0xCE63_8041, "SHA512"),  # sha512h q1, q2, v3.2d
    (0xCE03_1041, "SHA3"),  # eor3 v1.16b, v2.16b, v3.16b, v4.16b
    (0xCE43_1041, "SM3"),  # sm3ss1 v1.4s, v2.4s, v3.4s, v4.4s
    (0xCEC0_8441, "SM4"),  # sm4e v1.4s, v2.4s
    (0x04A3_0041, "SVE"),  # add z1.s, z2.s, z3.s
    (0xDAC1_0041, "PAuth"),  # pacia x1, x2
    (0xD65F_0BFF, "PAuth"),  # retaa
    (0xF820_0441, "PAuth"),  # ldraa x1, [x2]
    (0x1E7E_0041, "JSCVT"),  # fjcvtzs w1, d2
    (0x6E83_CC41, "FCMA"),  # fcmla v1.4s, v2.4s, v3.4s, #90
    (0xF8BF_C041, "LRCPC"),  # ldapr x1, [x2]
    (0xD940_8041, "LRCPC2"),  # ldapur x1, [x2, #8]
    (0xD500_401F, "FlagM"),  # cfinv
    (0xD503_415F, "DIT"),  # msr dit, #1
    (0xD508_8121, "TLBIOS"),  # tlbi vae1os, x1
    (0xD508_8621, "TLBIRANGE"),  # tlbi rvae1, x1
    (0xD508_8521, "TLBIOS TLBIRANGE"),  # tlbi rvae1os, x1
    (0xD500_405F, "FlagM2"),  # axflag
    (0x1E28_4041, "FRINTTS"),  # frint32z s1, s2
    (0x6E61_F841, "FRINTTS"),  # frint64x v1.2d, v2.2d
    (0xD503_30FF, "SB"),  # sb
    (0xD50B_7381, "SPECRES"),  # cfp rctx, x1
    (0xD503_413F, "SSBS2"),  # msr ssbs, #1
    (0xD50B_7D21, "DPB2"),  # dc cvadp, x1
    (0xD53B_2401, "RNG"),  # mrs x1, rndr
    (0x9ADF_1041, "MTE"),  # irg x1, x2
    (0xD920_0841, "MTE"),  # stg x1, [x2]
    (0x6900_0861, "MTE"),  # stgp x1, x2, [x3]
    (0xBAC3_0041, "MTE"),  # subps x1, x2, x3
    (0xD920_0041, "MTE2"),  # stzgm x1, [x2]
    (0xD50B_7461, "MTE"),  # dc gva, x1
    (0xD503_419F, "MTE"),  # msr tco, #1
    (0x04A3_6041, "SVE SVE2"),  # mul z1.s, z2.s, z3.s
    (0x4522_E041, "SVE SVE2 SVE_AES"),  # aese z1.b, z1.b, z2.b
    (0x4583_B441, "SVE SVE2 SVE_BitPerm"),  # bdep z1.s, z2.s, z3.s
    (0x4523_F441, "SVE SVE2 SVE_SHA3"),  # rax1 z1.d, z2.d, z3.d
    (0x4523_E041, "SVE SVE2 SVE_SM4"),  # sm4e z1.s, z1.s, z2.s
    (0x4E83_9C41, "I8MM"),  # usdot v1.4s, v2.16b, v3.16b
    (0x4523_B041, "SVE SVE2 LUT"),  # luti2 z1.b, { z2.b }, z3[0]
    (0x2526_4440, "SVE SVE2 SVE2p1"),  # psel p0, p1, p2.b[w14, 0]
    (0x052E_8020, "SVE SVE2 SVE2p1"),  # revd z0.q, p0/m, z1.q
    (0x4483_7841, "SVE I8MM"),  # usdot z1.s, z2.b, z3.b
    (0x6E43_FC41, "BF16"),  # bfdot v1.4s, v2.8h, v3.8h
    (0x1E63_4041, "BF16"),  # bfcvt h1, s2
    (0x64A3_E441, "SVE F32MM"),  # fmmla z1.s, z2.s, z3.s
    (0x64E3_E441, "SVE F64MM"),  # fmmla z1.d, z2.d, z3.d
    (0xA423_0441, "SVE F64MM"),  # ld1rob {z1.b}, p1/z, [x2, x3]
    (0x05A3_1841, "SVE F64MM"),  # trn1 z1.q, z2.q, z3.q
    (0xD943_0841, "LRCPC3"),  # ldiapp x1, x3, [x2], #16
    (0x1D40_0841, "LRCPC3"),  # ldapur b1, [x2]
    (0x0D41_8441, "LRCPC3"),  # ldap1 {v1.d}[0], [x2]
    (0xD503_1001, "WFxT"),  # wfet x1
    (0xD503_3E3F, "XS"),  # dsb synxs
    (0xD508_9721, "XS"),  # sys #0, c9, c7, #1, x1
    (0xF83F_D020, "LS64"),  # ld64b x0, [x1]
    (0xF821_B062, "LS64"),  # st64bv x1, x2, [x3]
    (0xD503_477F, "SME"),  # smstart
    (0x04BF_5821, "SME"),  # rdsvl x1, #1
    (0x8082_2020, "SME"),  # fmopa za0.s, p0/m, p1/m, z1.s, z2.s
    (0xC008_00FF, "SME"),  # zero {za}
    (0x5400_0010, "HBC"),  # bc.eq .
    (0x1902_0461, "MOPS"),  # cpyfp [x1]!, [x2]!, x3!
    (0x19C3_0441, "MOPS"),  # .inst 0x19c30441
    (0xD503_3F9F, ""),  # dsb sy
    (0x1EE2_4041, ""),  # fcvt s1, h2
    (0x9181_0441, "MTE"),  # addg x1, x2, #16, #1
    (0xBA00_8422, "FlagM"),  # rmif x1, #1, #2
    (0x3A00_082D, "FlagM"),  # setf8 w1
    (0x9AC3_1441, "MTE"),  # gmi x1, x2, x3
    (0xD50B_73E1, "SPECRES"),  # cpp rctx, x1
    (0xD50B_7E21, ""),  # dc civac, x1
    (0xC85F_7C41, ""),  # ldxr x1, [x2]
    (0xC8DF_FC41, ""),  # ldar x1, [x2]
    (0x0820_7C82, "LSE"),  # casp w0, w1, w2, w3, [x4]
    (0xF980_0020, ""),  # prfm pldl1keep, [x1]
    (0xD503_3FDF, ""),  # isb
    (0xD503_207F, ""),  # wfi
]


@pytest.mark.parametrize(("word", "features"), WORDS, ids=[f"{word:08x}" for word, _ in WORDS])
def test_what_a_word_needs(word: int, features: str) -> None:
    assert " ".join(feature.name for feature in features_of(word)) == features


def test_what_came_after_that_assembler() -> None:
    # by Arm's pages: ABS X1, X2; SMAX X1, X2, #3; LDCLRP; RCWCLR; GCSSTR; FAMAX; CBGT; MSR ALLINT
    assert known(0xDAC0_2041) is not None
    for word, feature in (
        (0xDAC0_2041, "CSSC"),
        (0x91C0_0C41, "CSSC"),
        (0x1921_1062, "LSE128"),
        (0x3821_9062, "THE"),
        (0xD91F_0C41, "GCS"),
        (0x4EA3_DC41, "FAMINMAX"),
        (0xF401_0042, "CMPBR"),
        (0x4E83_1041, "LUT"),
        (0xD501_411F, "NMI"),
        (0xD50B_73C1, "SPECRES2"),
        (0xD548_0000, "SYSINSTR128"),
    ):
        assert [one.name for one in features_of(word)] == [feature]


def test_a_row_has_32_bits() -> None:
    with pytest.raises(ValueError, match="31 bits"):
        table("0000 0000 0000 0000 0000 0000 0000 000 LSE a name")


def test_each_row_is_there_for_some_word() -> None:
    """No row stands behind one that takes all its words."""
    random = Random(3)
    for one in ROWS:
        words = (one.value | random.getrandbits(32) & ~one.mask for _ in range(300))
        assert one.needs == 0 or any(known(word) is one for word in words), one.name


V8_0 = "AES PMULL SHA1 SHA256 CRC32"
N1 = f"{V8_0} LSE RDM LOR PAN PAN2 UAO DPB FP16 DotProd LRCPC SSBS2"
A64FX = f"{V8_0} LSE RDM LOR PAN PAN2 UAO DPB FP16 SVE FCMA"


@pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")
@pytest.mark.parametrize(
    ("cpu", "features"),
    [("cortex-a53", V8_0), ("neoverse-n1", N1), ("a64fx", A64FX)],
)
def test_a_core_of_qemu_has_what_the_tables_allow_it(
    cpu: str, features: str, tmp_path: Path
) -> None:
    """What it executes needs nothing else, and what only its ``max`` executes does.

    The features are those of the core's ID registers. QEMU 7.2 executes multiplications of SVE2 by
    an element where there is only SVE.
    """
    random = Random(5)
    words = [
        word
        for word in (*words_of_rows(random, 3), *random_words(random, 3000))
        if not (word >> 24 == 0x44 and "SVE" in features)
    ]
    has = sum(BIT[name] for name in features.split())
    theirs = undefined(words, cpu, tmp_path, sve="SVE" in features)
    most = undefined(words, "max", tmp_path, sve=True)
    allowed = [not needs_of(TABLE, word) & ~has for word in words]
    executes = [not there for there in theirs]
    assert [hex(w) for w, yes, may in zip(words, executes, allowed, strict=True) if yes > may] == []
    more = [yes and not there for there, yes in zip(most, theirs, strict=True)]
    assert [hex(w) for w, yes, may in zip(words, more, allowed, strict=True) if yes and may] == []
    assert sum(executes) > 500
    assert sum(more) > 300
