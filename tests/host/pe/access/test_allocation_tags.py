"""FEAT_MTE2: Allocation Tags, and checks of loads and stores: Arm ARM D10, C6.2.

Expected values are worked out by hand from the pseudocode of the instructions, of
AArch64.CheckTag(), AArch64.RaiseTagCheckFault() and AArch64.ReportTagCheckFault().
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import board as guest_board
from tests.host.guests import put
from tests.host.guests import run as run_guest
from tests.host.pe.access.tag_words import (
    ASYNC,
    ASYNC0,
    ATA,
    ATA0,
    CORE,
    DATA,
    ESR_CHECK,
    MSR_TCO,
    POST,
    SCTLR,
    SYNC,
    SYNC0,
    TABLES,
    TBI0,
    VECTORS,
    WRITE,
    addg,
    dc,
    gmi,
    irg,
    ldg,
    stg,
    stgp,
    subg,
    tag,
)
from tests.host.pe.access.tagged_boards import (
    GCR,
    READ_ONLY,
    RGSR,
    UNMAPPED,
    UNTAGGED,
    USER,
    tagged,
)
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
TCO = (3, 3, 4, 2, 7)
TCMA0 = 1 << 57
LDGM, STGM, STZGM = 0xD9E0_0000, 0xD9A0_0000, 0xD920_0000


def block(op: int, t: int, n: int) -> int:
    return op | n << 5 | t


def after(code: list[int], runner: type[Runner], sctlr: int = ATA, tcr: int = TBI0) -> Board:
    """The board after ``code``, which may fault at its last operation."""
    board, _ = tagged([*code, a.b(0)], runner, sctlr, tcr)
    board.run(len(code))
    return board


@RUNNERS
def test_tags_are_chosen(runner: type[Runner]) -> None:
    """ADDG and SUBG go on from the tag by as many as are not excluded; IRG by four random bits.

    With SEED 0x0001 the shift register gives bit 0 of the seed first, 1, and then by
    lfsr<5>^<3>^<2>^<0> of 0x8000, 0x4000 and 0x2000: 0. So the offset is 1, and SEED is then
    0x1000.
    """
    code = [
        *[*a.mov64(1, tag(3, 0x1000)), addg(2, 1, 32, 2), subg(3, 1, 16, 15)],
        *[*a.mov64(4, 0b0000_0000_0011_0000), a.msr(GCR, 4), addg(5, 1, 0, 1), addg(6, 1, 0, 0)],
        *[
            *a.mov64(7, tag(4)),
            addg(8, 7, 0, 0),
            addg(19, 7, 0, 1),
            *a.mov64(9, 0xFFFF),
            a.msr(GCR, 9),
            addg(10, 1, 0, 5),
        ],
        *[irg(11, 1), a.msr(GCR, 31), *a.mov64(12, 0x0100 | 7), a.msr(RGSR, 12), irg(13, 1)],
        *[a.mrs(14, RGSR), *a.mov64(15, 1 << 9), irg(16, 1, 15), gmi(17, 2, 31), a.mrs(18, RGSR)],
    ]
    x = after(code, runner).cpu.engine.x
    assert (x(2), x(3)) == (tag(5, 0x1020), tag(2, 0xFF0))
    # 4 and 5 are excluded: one on from 3 is 6; no step from 3 is 3; no step from 4 is the next free
    assert (x(5), x(6), x(8), x(10)) == (tag(6, 0x1000), tag(3, 0x1000), tag(6), 0x1000)
    assert x(19) == tag(6)  # one on from 4, which is excluded itself
    assert x(11) == 0x1000
    assert (x(13), x(14)) == (tag(8, 0x1000), 0x1000 << 8 | 8)
    # 0x1000 gives four times 0: no step from 8, which is not excluded
    assert (x(16), x(17), x(18)) == (tag(8, 0x1000), 1 << 5, 0x0100 << 8 | 8)


@RUNNERS
def test_tags_are_stored_and_loaded(runner: type[Runner]) -> None:
    code = [
        *[*a.mov64(1, DATA), *a.mov64(2, tag(5)), *a.mov64(3, tag(9)), *a.mov64(20, tag(7, DATA))],
        *[stg(2, 1, 16, POST), stg(3, 1, 0, kind=2), a.sub_imm(1, 1, 16), stg(20, 1, 48, kind=1)],
        *[ldg(4, 1), ldg(5, 1, 16), ldg(6, 1, 32), *a.mov64(7, tag(1, 0x77)), ldg(7, 20, 48)],
        *[block(LDGM, 8, 1), *a.mov64(9, 0x4321 << 16), a.add_imm(10, 1, 64), block(STGM, 9, 10)],
        *[block(LDGM, 11, 10), *a.mov64(12, 0xB), a.add_imm(13, 1, 128), block(STZGM, 12, 13)],
        *[block(LDGM, 14, 13), *a.mov64(15, tag(0xC, DATA + 0x1C8)), dc(4, 3, 15), ldg(16, 15)],
        *[
            *a.mov64(17, tag(0xD, DATA + 0x208)),
            dc(4, 4, 17),
            ldg(18, 17, -8 * 16 - 48),
            ldg(19, 17),
        ],
        *[*a.mov64(21, tag(6, DATA + 0x100)), stgp(2, 3, 21), ldg(22, 21)],
        # no tags there: 0 is read
        *[*a.mov64(23, UNTAGGED), stg(2, 23), *a.mov64(24, tag(3)), ldg(24, 23)],
    ]
    x = after(code, runner).cpu.engine.x
    assert [x(n) for n in (4, 5, 6)] == [tag(5), tag(9), tag(9)]
    assert x(7) == tag(7, 0x77)
    assert x(8) == 0x7995  # DATA is the first granule of its 256 bytes
    assert x(11) == 0x4321 << 16
    assert x(14) == 0xBBBB << 32
    assert (x(16), x(19)) == (tag(0xC), tag(0xD))
    assert (x(22), x(24)) == (tag(6), 0)


LOAD, STORE = a.ldr(2, 1), a.str_(2, 1)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "write", "at"),
    [
        (a.ldr(2, 1), 0, DATA),
        (a.ldr(2, 1, 8), 0, DATA + 8),
        (a.str_(2, 1), WRITE, DATA),
        (0xF840_C422, 0, DATA),  # LDR X2, [X1], #12
        (0xF81F_CC22, WRITE, DATA - 4),  # STR X2, [X1, #-4]!: its first granule has the other tag
        (0xF86A_6822, 0, DATA + 24),  # LDR X2, [X1, X10]
        (0xA940_1022, 0, DATA),  # LDP X2, X4, [X1]
        (0xC85F_7C22, 0, DATA),  # LDXR X2, [X1]
        (0xF822_0024, 0, DATA),  # LDADD X2, X4, [X1]: a read would have failed, too
        (0x3DC0_0022, 0, DATA),  # LDR Q2, [X1]
        (0x0D40_8022, 0, DATA),  # LD1 {V2.S}[0], [X1]
        (0xD50B_7421, WRITE, DATA),  # DC ZVA, X1
    ],
)
def test_a_failed_check_is_a_synchronous_fault(
    word: int, write: int, at: int, runner: type[Runner]
) -> None:
    """FAR_ELx has the address with its tag, which the pseudocode has for bits 59:56."""
    code = [*a.mov64(0, DATA), *a.mov64(3, tag(4)), stg(3, 0), stg(3, 0, 16), stg(3, 0, 32)]
    code += [stg(3, 0, 48), *put(system.CPACR_EL1, 3 << 20), a.ISB, *a.mov64(10, 24)]
    code += [*a.mov64(1, tag(7, DATA)), *a.mov64(2, 0x99), *a.mov64(4, 0), word]
    board = after(code, runner, ATA | SYNC)
    registers = board.cpu.registers
    assert board.cpu.pc == VECTORS + 0x200
    assert registers.raw(system.ESR_EL1) == ESR_CHECK | write
    assert registers.raw(system.FAR_EL1) == tag(7, at)
    assert registers.raw(system.SPSR_EL1) & system.SPSR.TCO.mask == 0
    assert board.cpu.pstate & system.SPSR.TCO.mask
    assert (board.cpu.engine.x(1), board.cpu.engine.x(2)) == (tag(7, DATA), 0x99)
    assert board.memory.read(DATA - 16, 64) == bytes(64)


@RUNNERS
@pytest.mark.parametrize(
    ("before", "word", "sctlr", "tcr"),
    [
        ([], a.ldr(2, 31), ATA | SYNC, TBI0),  # relative to SP
        ([], 0xF85F_83E2, ATA | SYNC, TBI0),  # LDUR X2, [SP, #-8]
        ([], 0x5800_0002, ATA | SYNC, TBI0),  # LDR X2, .
        ([MSR_TCO[1]], LOAD, ATA | SYNC, TBI0),
        ([], LOAD, SYNC, TBI0),  # no access to tags
        ([], LOAD, ATA, TBI0),
        ([], LOAD, ATA | 3 << 40, TBI0),  # reserved
        ([], stg(2, 1), ATA | SYNC, TBI0),
        ([], stgp(2, 2, 1), ATA | SYNC, TBI0),
        ([], dc(4, 3, 1), ATA | SYNC, TBI0),
        ([], 0xF980_0020, ATA | SYNC, TBI0),  # PRFM PLDL1KEEP, [X1]
        ([], 0xD50B_7A21, ATA | SYNC, TBI0),  # DC CVAC, X1
        # the tag 0 is canonical there
        ([*a.mov64(1, DATA)], LOAD, ATA | SYNC, TBI0 | TCMA0),
        # not Tagged
        ([*a.mov64(1, tag(7, UNTAGGED))], LOAD, ATA | SYNC, TBI0),
        # the tag is right
        ([*a.mov64(1, tag(4, DATA))], LOAD, ATA | SYNC, TBI0),
        ([*a.mov64(1, tag(4, DATA + 0x10))], STORE, ATA | SYNC, TBI0 | TCMA0),
    ],
)
def test_what_is_not_checked(
    before: list[int], word: int, sctlr: int, tcr: int, runner: type[Runner]
) -> None:
    code = [*a.mov64(11, DATA), *a.mov64(3, tag(4)), MSR_TCO[1], *a.mov64(1, tag(7, DATA))]
    code += [*put(system.SCTLR_EL1, SCTLR | ATA), a.ISB, stg(3, 11), stg(3, 11, 16)]
    code += [*put(system.SCTLR_EL1, SCTLR | sctlr), a.ISB, MSR_TCO[0]]
    code += [a.add_imm(31, 1, 0), *before, word]
    board, begun = tagged([*code, a.b(0)], runner, sctlr, tcr)
    board.run(len(code))
    assert board.cpu.pc == RAM + 4 * (begun + len(code))


@RUNNERS
def test_an_access_over_two_granules_faults_at_the_second(runner: type[Runner]) -> None:
    code = [*a.mov64(0, DATA), *a.mov64(3, tag(7)), stg(3, 0), *a.mov64(1, tag(7, DATA + 12)), LOAD]
    board = after(code, runner, ATA | SYNC)
    assert board.cpu.registers.raw(system.ESR_EL1) == ESR_CHECK
    assert board.cpu.registers.raw(system.FAR_EL1) == tag(7, DATA + 16)


@RUNNERS
@pytest.mark.parametrize(
    ("at", "word", "esr", "far"),
    [
        (UNMAPPED, LOAD, 0x9600_0006, UNMAPPED),
        (READ_ONLY, STORE, 0x9600_004E, READ_ONLY),
        (READ_ONLY, LOAD, ESR_CHECK, READ_ONLY),
    ],
)
def test_translation_goes_before_tags(
    at: int, word: int, esr: int, far: int, runner: type[Runner]
) -> None:
    board = after([*a.mov64(1, tag(7, at)), word], runner, ATA | SYNC)
    assert board.cpu.registers.raw(system.ESR_EL1) == esr
    assert board.cpu.registers.raw(system.FAR_EL1) == tag(7, far)


@RUNNERS
def test_checks_that_fail_asynchronously_are_noted(runner: type[Runner]) -> None:
    tfsr = (3, 0, 5, 6, 0)
    code = [*a.mov64(1, tag(7, DATA)), *a.mov64(2, 5), a.msr(tfsr, 31), a.mrs(5, tfsr), STORE]
    code += [a.mrs(6, tfsr), a.msr(tfsr, 31), *a.mov64(1, DATA), a.ldr(7, 1), a.mrs(8, tfsr)]
    x = after(code, runner, ATA | ASYNC).cpu.engine.x
    assert [x(n) for n in (5, 6, 7, 8)] == [0, 1, 5, 0]


@RUNNERS
@pytest.mark.parametrize(
    ("tcf", "esr", "tfsre0"),
    [(SYNC0, 0x9200_0011, 0), (ASYNC0, 0x5600_0000, 1), (0, 0x5600_0000, 0)],
)
def test_el0_has_controls_of_its_own(tcf: int, esr: int, tfsre0: int, runner: type[Runner]) -> None:
    """The load of EL1 is not checked, that of EL0 is; PSTATE.TCO is what SPSR_EL1 says."""
    user = [*a.mov64(1, tag(7, USER - 0x800)), LOAD, a.mrs(3, TCO), a.svc(0)]
    code = [*a.mov64(1, tag(7, DATA)), LOAD, *put(system.ELR_EL1, USER)]
    code += [*put(system.SPSR_EL1, 0x3C0), *put(system.TFSRE0_EL1, 0), a.ERET]
    board, _ = tagged(code, runner, ATA | ATA0 | tcf, user=user)
    board.run(len(code) + len(user))
    assert board.cpu.el == 1
    assert board.cpu.registers.raw(system.ESR_EL1) == esr
    assert board.cpu.registers.raw(system.TFSRE0_EL1) == tfsre0
    assert board.cpu.engine.x(3) == 0


@RUNNERS
def test_ldtr_is_checked_as_el0_is(runner: type[Runner]) -> None:
    code = [*a.mov64(1, tag(7, USER - 0x800)), LOAD, 0xF840_0822]  # LDTR X2, [X1]
    board = after(code, runner, ATA | ATA0 | SYNC0)
    assert board.cpu.registers.raw(system.ESR_EL1) == ESR_CHECK
    assert board.cpu.registers.raw(system.FAR_EL1) == tag(7, USER - 0x800)


@RUNNERS
def test_a_loop_that_tags_memory(runner: type[Runner]) -> None:
    """ST2G from 32 bytes before a page on to its end and beyond, then each granule is checked."""
    first = DATA + 0x1000 - 32
    code = [
        *[*a.mov64(1, tag(5, first)), *a.mov64(2, 4), a.add_imm(3, 1, 0)],
        *[stg(1, 1, 32, POST, kind=2), a.sub_imm(2, 2, 1), a.cbnz(2, -8)],
        *[*a.mov64(2, 8), a.ldr9(4, 3, 16, POST), a.sub_imm(2, 2, 1), a.cbnz(2, -8)],
        *[MSR_TCO[1], a.ldr(4, 3), MSR_TCO[0], a.ldr(4, 3)],
    ]
    board, begun = tagged([*code, a.b(0)], runner, ATA | SYNC)
    board.run(len(code) + 3 * 3 + 7 * 3)
    registers = board.cpu.registers
    assert registers.raw(system.ESR_EL1) == ESR_CHECK
    assert registers.raw(system.ELR_EL1) == RAM + 4 * (begun + len(code) - 1)
    assert registers.raw(system.FAR_EL1) == tag(5, first + 128)
    assert board.cpu.tags is not None
    assert [board.cpu.tags.read(first + n) for n in range(-16, 144, 16)] == [0, *[5] * 8, 0]


def test_a_saved_machine_has_its_tags() -> None:
    def begin() -> Board:
        return tagged([*a.mov64(1, DATA), a.b(0)], Runner)[0]

    board, other = begin(), begin()
    assert board.cpu.tags is not None
    assert other.cpu.tags is not None
    board.cpu.tags.write(DATA + 16, 0xE)
    other.cpu.tags.write(DATA + 0x5000, 3)
    saved = BoardSaver(board).save()
    board.cpu.tags.write(DATA + 16, 1)
    for restored in (board, other):
        BoardSaver(restored).restore(saved)
        tags = restored.cpu.tags
        assert tags is not None
        assert [tags.read(DATA + n) for n in (0, 16, 32, 0x5000)] == [0, 0xE, 0, 0]
    assert board.cpu.tags.read(0x900_0000) is None


def test_tags_are_those_of_all_pes() -> None:
    board = board_at([a.b(0)], core=CORE, pes=2)
    assert board.pes[0].cpu.tags is board.pes[1].cpu.tags is not None


@RUNNERS
@pytest.mark.parametrize("tcf", [SYNC, 0])
def test_records_say_which_access_was_checked(tcf: int, runner: type[Runner]) -> None:
    """CH and PAT of the Data physical address packet, and the tag of the virtual address."""
    start = [
        *[*put(system.MAIR_EL1, 0xF0FF), *put(system.TTBR0_EL1, TABLES)],
        *[*put(system.TCR_EL1, 25 | 1 << 23 | TBI0), a.ISB],
        *[*put(system.SCTLR_EL1, SCTLR | ATA | tcf), a.ISB, MSR_TCO[0]],
    ]
    tried = [
        stg(1, 1),
        LOAD,
        STORE,
        a.ldr(2, 31),
        a.ldr(2, 3),
        MSR_TCO[1],
        LOAD,
        a.add_imm(1, 1, 0),
    ]
    code = [*start, *a.mov64(1, tag(6, DATA)), *a.mov64(3, UNTAGGED), a.add_imm(31, 1, 0), *tried]
    pages = [(RAM | 0x705).to_bytes(8, "little"), (UNTAGGED | 0x701).to_bytes(8, "little")]
    parts = {
        RAM: a.code([*code, a.b(0)]),
        TABLES + 8: (TABLES + 0x1000 | 3).to_bytes(8, "little"),
        TABLES + 0x1000: b"".join(pages),
    }
    machine = Machine(image_of(parts, RAM), core="neoverse-n2", period=1, runner=runner)
    machine.run(len(code))
    found = []
    for operation, raw in zip(machine.operations, machine.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        va, pa = placed.record.va, placed.record.pa
        if operation.pc >= RAM + 4 * (len(code) - len(tried)) and va and pa:
            found.append((va.value, pa.CH, pa.PAT))
    checked = (tag(6, DATA), int(tcf != 0), 6 if tcf else 0)
    plain = (tag(6, DATA), 0, 0)
    assert found == [plain, checked, checked, plain, (UNTAGGED, 0, 0), plain]


RW, HCR_ATA, TID5, TPCP, TSW = (1 << bit for bit in (31, 56, 58, 23, 22))
TFSR_EL1, TFSRE0_EL1, GMID = (3, 0, 5, 6, 0), (3, 0, 5, 6, 1), (3, 1, 0, 0, 4)


def trapped(word: int) -> int:
    """EC 0x18 of an MRS, MSR or SYS of X1."""
    op0, op1 = word >> 19 & 3, word >> 16 & 7
    crn, crm, op2, reads = word >> 12 & 15, word >> 8 & 15, word >> 5 & 7, word >> 21 & 1
    place = op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | 1 << 5 | crm << 1
    return 0x18 << 26 | 1 << 25 | place | reads


@RUNNERS
@pytest.mark.parametrize(
    ("hcr", "word", "traps"),
    [
        *[(0, a.mrs(1, register), True) for register in (GCR, RGSR, TFSR_EL1, TFSRE0_EL1)],
        *[(0, a.msr(register, 1), True) for register in (GCR, RGSR)],
        (HCR_ATA, a.mrs(1, GCR), False),
        (HCR_ATA | TID5, a.mrs(1, GMID), True),
        (0, a.mrs(1, GMID), False),
        *[(TPCP, a.sys(0, 7, 6, op2, 1), True) for op2 in (3, 5)],  # DC IGVAC, IGDVAC
        *[(TSW, a.sys(0, 7, crm, 4, 1), True) for crm in (6, 10, 14)],  # DC IGSW, CGSW, CIGSW
        (TPCP, a.sys(0, 7, 10, 6, 1), False),  # DC CGDSW
    ],
)
def test_el2_traps_what_has_to_do_with_tags(
    hcr: int, word: int, traps: bool, runner: type[Runner]
) -> None:
    guest = [*a.mov64(1, DATA + 0x800), word]
    subject = guest_board({system.HCR_EL2: RW | hcr}, guest, runner, core=CORE)
    count, esr, _ = run_guest(subject)
    assert (count, esr if traps else 0) == ((1, trapped(word)) if traps else (0, 0))


@RUNNERS
@pytest.mark.parametrize(
    "word",
    [block(LDGM, 2, 1), block(STGM, 2, 1), block(STZGM, 2, 1), a.sys(0, 7, 6, 3, 1)],  # DC IGVAC
)
def test_el0_has_no_access_to_tags_of_blocks(word: int, runner: type[Runner]) -> None:
    user = [*a.mov64(1, USER - 0x800), word]
    code = [*put(system.ELR_EL1, USER), *put(system.SPSR_EL1, 0x3C0), a.ERET]
    board, _ = tagged(code, runner, ATA | ATA0, user=user)
    board.run(len(code) + len(user))
    assert board.cpu.registers.raw(system.ESR_EL1) == 1 << 25  # Uncategorized: UNDEFINED
    assert board.cpu.registers.raw(system.ELR_EL1) == USER + 4 * len(user) - 4


@RUNNERS
def test_gmid_and_legal_bits(runner: type[Runner]) -> None:
    code = [*a.mov64(1, (1 << 64) - 1), a.mrs(2, GMID)]
    for n, register in enumerate((GCR, RGSR, TFSR_EL1, TFSRE0_EL1, TCO), 3):
        code += [a.msr(register, 1), a.mrs(n, register)]
    x = after(code, runner).cpu.engine.x
    assert [x(n) for n in range(2, 8)] == [4, 0x1_FFFF, 0xFF_FF0F, 3, 3, 1 << 25]
