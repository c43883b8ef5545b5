"""Neoverse N1: micro-operations by LLVM's scheduling model, ID registers by its manual."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers.id import ID_AA64ISAR0_EL1, ID_AA64ISAR1_EL1, ID_AA64MMFR0_EL1
from spe_unicorn.arch.rules.identification import id_register
from spe_unicorn.cores.profile import CoreError, load_core
from spe_unicorn.decode import decode
from tests.support import a64
from tests.support.machine_runs import Machine, image_of

STP_W, LDP_W, LDPSW = 0x2900_0041, 0x2940_0440, 0x6940_0440
STP_W_POST, LDP_W_POST = 0x2880_8440, 0x28C0_8440
LDR_Q, LDUR_Q, STR_Q, STUR_Q, STR_Q_POST = (
    *(0x3DC0_0020, 0x3CC0_0020, 0x3D80_0020, 0x3C80_0020),
    0x3C81_0420,
)
STP_Q, STP_D, LDP_D = 0xAD00_0440, 0x6D00_0440, 0x6D40_0440
SCVTF_S_W, SCVTF_V, FCVTZS = 0x1E22_0020, 0x4E21_D820, 0x9E78_0020
MUL_4S, MUL_2S, MUL_16B, MLA_8H = 0x4EA2_9C20, 0x0EA2_9C20, 0x4E22_9C20, 0x4E62_9420
ADDV_8B, ADDV_16B, ADDV_8H, ADDV_4S, ADDV_4H = (
    *(0x0E31_B820, 0x4E31_B820, 0x4E71_B820),
    *(0x4EB1_B820, 0x0E71_B820),
)
UMAXV_16B, LD2_LANE, LD1R = 0x6E30_A820, 0x4D60_8020, 0x4D40_C820


@pytest.mark.parametrize(
    ("word", "count"),
    [
        (a64.pair(True, 0, 1, 2), 2),
        (a64.pair(False, 0, 1, 2), 3),
        (LDP_W, 1),
        (LDPSW, 2),
        (STP_W, 2),
        (LDP_W_POST, 3),
        (STP_W_POST, 4),
        (a64.ldr(0, 1), 1),
        (a64.str_(0, 1), 2),
        (LDR_Q, 2),
        (LDUR_Q, 1),
        (STR_Q, 4),
        (STUR_Q, 4),
        (STR_Q_POST, 5),
        (STP_Q, 6),
        (STP_D, 4),
        (LDP_D, 3),
        (SCVTF_S_W, 2),
        (SCVTF_V, 1),
        (FCVTZS, 2),
        (MUL_4S, 2),
        (MUL_2S, 1),
        (MUL_16B, 1),
        (MLA_8H, 2),
        (ADDV_8B, 2),
        (ADDV_16B, 2),
        (ADDV_8H, 2),
        (ADDV_4S, 1),
        (ADDV_4H, 1),
        (UMAXV_16B, 2),
        (LD2_LANE, 4),
        (LD1R, 2),
        (a64.bl(8), 1),
        (a64.blr(1), 1),
        (a64.b(8), 1),
        (a64.RET, 1),
        (a64.add(0, 1, 2), 1),
        (a64.mul(0, 1, 2), 1),
    ],
)
def test_how_many_micro_operations_an_instruction_is(word: int, count: int) -> None:
    cracking = load_core("neoverse-n1").cracking
    assert cracking is not None
    assert len(cracking.parts(decode(word))) == count


def test_the_halves_of_a_vector_are_stored_one_after_the_other() -> None:
    cracking = load_core("neoverse-n1").cracking
    assert cracking is not None
    parts = cracking.parts(decode(STR_Q))
    accesses = [part.access for part in parts if part.access is not None]
    assert [(a.offset, a.size, a.element) for a in accesses] == [(0, 8, 8), (8, 8, 8)]


def test_the_operation_itself_is_one_of_its_micro_operations() -> None:
    cracking = load_core("neoverse-n1").cracking
    assert cracking is not None
    move, convert = cracking.parts(decode(SCVTF_S_W))
    assert (move.fp, convert.fp) == (False, True)
    assert (move.part, convert.part) == (0, 1)


def test_a_field_shows_what_the_manual_says_as_far_as_it_can_be_executed() -> None:
    """Neoverse N1's manual: no RNDR, FlagM, FHM and SHA3; DPB 1 where the engine has 2."""
    n1 = load_core("neoverse-n1")
    everything = 0x1021_1111_1021_2120
    assert id_register(ID_AA64ISAR0_EL1, everything, n1.features, n1.impdef) == 0x1000_1021_1120
    assert id_register(ID_AA64ISAR1_EL1, 0x111_0121_1012, n1.features, n1.impdef) == 0x10_0001
    nothing = id_register(ID_AA64ISAR0_EL1, 0, n1.features, n1.impdef)
    assert nothing == 0
    generic = load_core("generic")
    found = id_register(ID_AA64ISAR0_EL1, everything, generic.features, generic.impdef)
    assert found == everything


def test_what_the_profile_decides_goes_before_the_manual() -> None:
    """PARange is 5 in the manual, and 4 where 44 bits can be executed."""
    n1 = load_core("neoverse-n1")
    value = id_register(ID_AA64MMFR0_EL1, 0x1124, n1.features, n1.impdef)
    assert ID_AA64MMFR0_EL1(value).PARange == 4


def sampled_of_a_loop(at: int, core: str) -> set[int]:
    """Which of the eight operations of a loop are sampled; ``at`` is where the loop begins."""
    code = a64.code([*(a64.NOP,) * 7, a64.b(-7 * 4)])
    machine = Machine(image_of({at: code}, at), core=core, period=7)
    return {(one.pc - at) // 4 for one in machine.run(1_000).records}


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, {0, 4, 5, 6, 7}),  # 1 to 3 share the 16 bytes of the target
        (4, {0, 3, 4, 5, 6, 7}),
        (12, {0, 1, 2, 3, 4, 5, 6, 7}),  # the target is alone in its 16 bytes
    ],
)
def test_erratum_1694299_skips_operations_by_where_their_loop_lies(
    offset: int, expected: set[int]
) -> None:
    at = 0x4000_0000 + offset
    assert sampled_of_a_loop(at, "neoverse-n1,erratum_1694299=on") == expected
    assert sampled_of_a_loop(at, "neoverse-n1") == set(range(8))


def test_erratum_1694299_is_of_an_older_revision() -> None:
    assert load_core("neoverse-n1,erratum_1694299=on").midr == 0x414F_D0C0  # r4p0
    assert load_core("neoverse-n1,erratum_1694299=on,midr=0x413FD0C1").midr == 0x413F_D0C1
    for core in ("neoverse-n1,midr=0x414FD0C1", "neoverse-n2", "max"):
        with pytest.raises(CoreError, match="erratum_1694299 = true: allowed for Neoverse N1"):
            load_core(f"{core},erratum_1694299=on")
