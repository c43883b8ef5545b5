"""ID registers tell the truth: what a field shows is executed, and what it does not show is not.

Each instruction is executed at EL3 on the core that has all that the engine has. An encoding that
is not there is UNDEFINED, so the PC does not come to the operation after it.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import id as ids
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import CPTR_EL3, ESR_EL1, HCR_EL2, SCTLR_EL1, VBAR_EL1
from spe_unicorn.cores.profile import core_names, load_core
from spe_unicorn.machine.board import Board
from tests.support import a64
from tests.support.small_boards import RAM, board_at

ISAR0, ISAR1, ISAR2 = ids.ID_AA64ISAR0_EL1, ids.ID_AA64ISAR1_EL1, ids.ID_AA64ISAR2_EL1
MMFR1, MMFR2 = ids.ID_AA64MMFR1_EL1, ids.ID_AA64MMFR2_EL1
PFR0, PFR1 = ids.ID_AA64PFR0_EL1, ids.ID_AA64PFR1_EL1
ZFR0 = ids.ID_AA64ZFR0_EL1
ZCR_EL3 = Encoding(3, 6, 1, 2, 0)

PROBES = [
    (ISAR0, "AES", 1, 0x4E28_4820),  # AESE
    (ISAR0, "SHA1", 1, 0x5E28_0820),  # SHA1H
    (ISAR0, "SHA2", 1, 0x5E28_2820),  # SHA256SU0
    (ISAR0, "SHA2", 2, 0xCEC0_8020),  # SHA512SU0
    (ISAR0, "CRC32", 1, 0x1AC2_4020),  # CRC32B
    (ISAR0, "Atomic", 2, 0xF821_0062),  # LDADD
    (ISAR0, "RDM", 1, 0x6E82_8420),  # SQRDMLAH
    (ISAR0, "SHA3", 1, 0xCE02_0C20),  # EOR3
    (ISAR0, "SM3", 1, 0xCE62_C020),  # SM3PARTW1
    (ISAR0, "SM4", 1, 0xCEC0_8420),  # SM4E
    (ISAR0, "DP", 1, 0x6E82_9420),  # UDOT
    (ISAR0, "FHM", 1, 0x4E22_EC20),  # FMLAL
    (ISAR0, "TS", 1, 0xD500_401F),  # CFINV
    (ISAR0, "TS", 2, 0xD500_405F),  # AXFLAG
    (ISAR0, "TLB", 1, 0xD508_811F),  # TLBI VMALLE1OS
    (ISAR0, "TLB", 2, 0xD508_8620),  # TLBI RVAE1
    (ISAR0, "RNDR", 1, 0xD53B_2400),  # MRS X0, RNDR
    (ISAR1, "DPB", 1, 0xD50B_7C23),  # DC CVAP
    (ISAR1, "DPB", 2, 0xD50B_7D23),  # DC CVADP
    (ISAR1, "JSCVT", 1, 0x1E7E_0020),  # FJCVTZS
    (ISAR1, "FCMA", 1, 0x6E82_E420),  # FCADD
    (ISAR1, "LRCPC", 1, 0xF8BF_C060),  # LDAPR
    (ISAR1, "LRCPC", 2, 0xD940_0060),  # LDAPUR
    (ISAR1, "LRCPC", 3, 0xD946_1865),  # LDIAPP X5, X6, [X3]
    (ISAR1, "LS64", 1, 0xF83F_D068),  # LD64B X8, [X3]
    (ISAR1, "FRINTTS", 1, 0x1E28_4020),  # FRINT32Z
    (ISAR1, "SB", 1, 0xD503_30FF),  # SB
    (ISAR1, "SPECRES", 1, 0xD50B_7380),  # CFP RCTX
    (ISAR1, "SPECRES", 2, 0xD50B_73C0),  # COSP RCTX
    (ISAR1, "BF16", 1, 0x6E42_FC20),  # BFDOT
    (ISAR1, "I8MM", 1, 0x4E82_A420),  # SMMLA
    (ISAR2, "WFxT", 2, 0xD503_1000),  # WFET
    (ISAR0, "Atomic", 3, 0x1924_8063),  # SWPP X3, X4, [X3]
    (ISAR2, "BC", 1, 0x5400_0030),  # BC.EQ
    (ISAR2, "CSSC", 1, 0xDAC0_1C84),  # CNT X4
    (ISAR2, "CSSC", 2, 0xF4C6_0025),  # CBEQ X5, X6, to the next one
    (ISAR2, "LUT", 1, 0x4E82_1020),  # LUTI2
    (ZFR0, "SVEver", 1, 0x04A2_6023),  # MUL (SVE)
    (ZFR0, "SVEver", 2, 0x2520_7810),  # PTRUE PN8.B
    (ZFR0, "SM4", 1, 0x4523_E023),  # SM4E (SVE)
    (ZFR0, "F32MM", 1, 0x64A2_E423),  # FMMLA
    (ZFR0, "F64MM", 1, 0x64E2_E423),  # FMMLA of double precision
    (MMFR1, "PAN", 1, 0xD500_419F),  # MSR PAN, #1
    (MMFR2, "UAO", 1, 0xD500_417F),  # MSR UAO, #1
    (PFR0, "DIT", 1, 0xD503_415F),  # MSR DIT, #1
    (PFR1, "SSBS", 2, 0xD503_413F),  # MSR SSBS, #1
    (PFR1, "MTE", 1, 0xD961_0063),  # LDG X3, [X3, #256]
    (PFR1, "MTE", 2, 0xD9A0_0063),  # STGM X3, [X3]
]


@pytest.fixture(scope="module")
def board() -> Board:
    board = board_at([], core=load_core("max"))
    board.cpu.registers.set_raw(CPTR_EL3, CPTR_EL3.EZ.mask)
    board.cpu.engine.set_system(ZCR_EL3, 1)  # vectors of 256 bits
    return board


@pytest.mark.parametrize(
    ("register", "field", "least", "word"), PROBES, ids=[f"{f}-{n}" for _, f, n, _ in PROBES]
)
def test_an_instruction_is_there_if_its_field_says_so(
    board: Board, register: type[SysReg], field: str, least: int, word: int
) -> None:
    cpu = board.cpu
    board.memory.fill(RAM, word.to_bytes(4, "little"))
    cpu.engine.forget_all_code()
    cpu.engine.set_x(3, RAM + 0x1000)
    cpu.pc = RAM
    board.run(1)
    shown = getattr(cpu.registers.read(register), field)
    assert (cpu.pc == RAM + 4) == (shown >= least)


@pytest.mark.parametrize("name", core_names())
def test_no_core_shows_more_than_can_be_executed(board: Board, name: str) -> None:
    """Each field that one of the instructions is about; what a profile lacks may be hidden."""
    registers = board_at([], core=load_core(name)).cpu.registers
    for register, field, _, _ in PROBES:
        most = getattr(board.cpu.registers.read(register), field)
        assert getattr(registers.read(register), field) <= most


@pytest.mark.parametrize("core", ["max", "neoverse-n2"])
@pytest.mark.parametrize(
    "op", [(3, 0, 0, 0, 0), (3, 0, 0, 1, 0), (3, 0, 0, 7, 2), (3, 0, 0, 7, 7), (3, 1, 0, 0, 1)]
)
def test_el0_is_told_how_it_failed_to_read_an_id_register_as_ids_says(
    core: str, op: tuple[int, ...]
) -> None:
    """Without FEAT_IDST, as ID_AA64MMFR2_EL1.IDS=0 says, the read is UNDEFINED: EC 0, and IL.

    The engine has no FEAT_IDST, so IDS is 0 on cores whose manual has 1, too.
    """
    subject = board_at([a64.mrs(0, op)], core=load_core(core))
    subject.memory.fill(RAM + 0x400, a64.code([a64.b(0)]))
    cpu = subject.cpu
    for register, value in ((VBAR_EL1, RAM), (SCTLR_EL1, 0x30D0_0800), (HCR_EL2, 1 << 31)):
        cpu.registers.set_raw(register, value)
    cpu.set_pstate(0)
    subject.pes[0].resync()
    assert cpu.registers.read(MMFR2).IDS == 0
    subject.run(1)
    assert (cpu.el, cpu.registers.raw(ESR_EL1)) == (1, 1 << 25)
