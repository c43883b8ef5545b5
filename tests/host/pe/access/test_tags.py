"""FEAT_MTE without memory for tags: Arm ARM D10.3, C6.2 (LDG, STG and so on), C5.3 (DC GVA)."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64PFR1_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.pe.amended.tagging import Tagging
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.rows import Row
from spe_unicorn.machine.board import Board
from tests.host.guests import board as guest_board
from tests.host.guests import enter_application, put
from tests.host.guests import run as run_guest
from tests.host.pe.access.tag_words import (
    POST,
    PRE,
    addg,
    dc,
    gmi,
    irg,
    ldg,
    stg,
    stgp,
    subg,
    subp,
    subps,
)
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import MIB, RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
N2 = load_core("neoverse-n2,FEAT_MTE2=off")
TCO, NZCV = (3, 3, 4, 2, 7), (3, 3, 4, 2, 0)
VECTORS, DATA, TABLES = RAM + 0x2000, RAM + 0x1000, RAM + 0x10000
BLOCK = 2 * MIB
"""From RAM on, a block that is written, one that is read, and one that is not mapped."""
TAG = 0x5 << 56
OTHER_TAG = 0xA << 56
FILL = 0x1122_3344_5566_7788


@RUNNERS
def test_registers(runner: type[Runner]) -> None:
    """No tags can be accessed, so IRG, ADDG and SUBG choose 0; bits 63:60 stay."""
    pointer = 0x3F00_0000_0000_1008
    code = [
        *[*a.mov64(1, pointer), *a.mov64(2, 0x0200_0000_0000_1010)],
        *[addg(3, 1, 1008, 15), subg(4, 1, 16), irg(5, 1), gmi(6, 1, 31), gmi(7, 2, 6)],
        *[subp(8, 1, 2), subps(9, 2, 1), a.mrs(10, NZCV), subps(31, 1, 1), a.mrs(11, NZCV)],
        *[subps(31, 1, 2), a.mrs(12, NZCV)],
        # SP, which is 31 but for GMI's and SUBP's destination, and for IRG's mask
        *[a.add_imm(31, 2, 0), addg(13, 31, 0), subg(31, 31, 16), irg(31, 31), subp(14, 31, 2)],
        *[a.add_imm(15, 31, 0), gmi(31, 1, 2)],
        # the difference of the signed 56 bits below the top byte
        *[*a.mov64(16, 0x0080_0000_0000_0000), *a.mov64(17, 1), subps(18, 16, 17), a.mrs(19, NZCV)],
    ]
    board = board_at([*code, a.b(0)], el=1, core=N2, runner=runner)
    board.run(len(code))
    x = board.cpu.engine.x
    assert board.cpu.pc == RAM + 4 * len(code)
    assert [x(n) for n in range(3, 8)] == [
        0x3000_0000_0000_13F8,
        0x3000_0000_0000_0FF8,
        0x3000_0000_0000_1008,
        1 << 15,
        1 << 15 | 1 << 2,
    ]
    assert (x(8), x(9)) == (-8 & (1 << 64) - 1, 8)
    assert [x(n) >> 28 for n in (10, 11, 12)] == [0b0010, 0b0110, 0b1000]
    assert (x(13), x(14), x(15)) == (0x1010, -16 & (1 << 64) - 1, 0x1000)
    assert (x(18), x(19) >> 28) == (0xFF7F_FFFF_FFFF_FFFF, 0b1010)


@RUNNERS
def test_accesses(runner: type[Runner]) -> None:
    """STG and ST2G write no tag that can be read; the others store data. All write back."""
    code = [
        *[*a.mov64(1, DATA), *a.mov64(2, TAG | 0x77), *a.mov64(3, OTHER_TAG | 9)],
        *[stg(2, 1, 16, POST), stg(2, 1, -16, PRE, kind=2), stg(2, 1, 32, kind=1)],
        *[stg(31, 1, 64, POST, kind=3), stgp(2, 3, 1, 32), stgp(3, 2, 1, 64, PRE)],
        *[stgp(2, 3, 1, -16, POST), a.add_imm(4, 2, 0), ldg(4, 1, -4096), ldg(31, 1, 8 * 16)],
        *[*a.mov64(5, DATA + 0x107), ldg(3, 5)],
    ]
    board = board_at([*code, a.b(0)], el=1, core=N2, runner=runner)
    board.memory.fill(DATA, FILL.to_bytes(8, "little") * 64)
    board.run(len(code))
    x = board.cpu.engine.x
    assert (board.cpu.pc, board.executed) == (RAM + 4 * len(code), len(code))
    # DATA + 16 - 16, + 64, + 64 of STGP, - 16 after the last one
    assert (x(1), x(2), x(3), x(4)) == (DATA + 112, TAG | 0x77, 9, 0x77)
    memory = board.memory.read(DATA, 160)
    assert memory is not None
    words = [int.from_bytes(memory[n : n + 8], "little") for n in range(0, 160, 8)]
    two_tagged = [OTHER_TAG | 9, TAG | 0x77]
    expected = [FILL] * 20
    expected[0:4] = [0] * 4  # STZ2G at DATA
    expected[4:6] = [0] * 2  # STZG at DATA + 32
    expected[12:14] = two_tagged[::-1]  # STGP at DATA + 64 + 32
    expected[16:18] = two_tagged[::-1]  # the last one, over the one before
    assert words == expected


def translated(code: list[int], runner: type[Runner]) -> Board:
    """``code`` at EL1 with pages: SCTLR_EL1.M and TCR_EL1.TBI0 are 1, the vector waits."""
    tcr = 25 | 1 << 23 | 1 << 37
    start = [
        *[*put(system.VBAR_EL1, VECTORS), *put(system.MAIR_EL1, 0xFF)],
        *[*put(system.TTBR0_EL1, TABLES), *put(system.TCR_EL1, tcr), a.ISB],
        *[*put(system.SCTLR_EL1, 0x30D0_0801), a.ISB],
    ]
    board = board_at([*start, *code], el=1, core=N2, runner=runner, ram=8 * MIB)
    for place, value in (
        (TABLES + 8, TABLES + 0x1000 | 3),  # 1 GiB from RAM on
        (TABLES + 0x1000, RAM | 0x701),
        (TABLES + 0x1008, RAM + BLOCK | 0x781),
    ):
        board.memory.fill(place, value.to_bytes(8, "little"))
    board.memory.fill(VECTORS + 0x200, a.code([a.b(0)]))
    board.run(len(start) + len(code))
    return board


EL1_ABORT = 0x9600_0000
WRITE, TRANSLATION, PERMISSION, ALIGNMENT = 1 << 6, 0b000110, 0b001110, 0b100001
READ_ONLY, UNMAPPED = RAM + BLOCK, RAM + 2 * BLOCK


@RUNNERS
@pytest.mark.parametrize(
    ("at", "word", "fault", "far"),
    [
        (UNMAPPED + 8, ldg(2, 1), TRANSLATION, UNMAPPED),
        (UNMAPPED, stg(2, 1), WRITE | TRANSLATION, UNMAPPED),
        (READ_ONLY, stg(2, 1, 16, PRE), WRITE | PERMISSION, READ_ONLY + 16),
        (READ_ONLY, stg(2, 1, 16, POST, kind=1), WRITE | PERMISSION, READ_ONLY),
        (READ_ONLY - 16, stg(2, 1, 32, POST, kind=2), WRITE | PERMISSION, READ_ONLY),
        (READ_ONLY - 16, stg(2, 1, 32, POST, kind=3), WRITE | PERMISSION, READ_ONLY),
        (READ_ONLY, stgp(2, 2, 1, 16, PRE), WRITE | PERMISSION, READ_ONLY + 16),
        (DATA + 8, stg(2, 1, 16, POST), WRITE | ALIGNMENT, DATA + 8),
        (DATA + 4, stgp(2, 2, 1, 16, PRE), WRITE | ALIGNMENT, DATA + 20),
        # alignment goes before translation
        (UNMAPPED + 1, stg(2, 1, kind=3), WRITE | ALIGNMENT, UNMAPPED + 1),
        (READ_ONLY + 64, dc(4, 3, 1), WRITE | PERMISSION, READ_ONLY + 64),
        (READ_ONLY + 64, dc(4, 4, 1), WRITE | PERMISSION, READ_ONLY + 64),
    ],
)
def test_faults_leave_everything_as_it_was(
    at: int, word: int, fault: int, far: int, runner: type[Runner]
) -> None:
    code = [*a.mov64(1, at), *a.mov64(2, FILL), *a.mov64(3, DATA + 0x100), a.str_(2, 3)]
    code += [*a.mov64(4, READ_ONLY - 16), a.str_(2, 4), a.str_(2, 4, 8)]
    code += [stg(2, 3), word]  # after the first one compiled code carries them out
    board = translated(code, runner)
    registers, x = board.cpu.registers, board.cpu.engine.x
    assert registers.raw(system.ESR_EL1) == EL1_ABORT | fault
    assert registers.raw(system.FAR_EL1) == far
    assert [x(n) for n in range(1, 5)] == [at, FILL, DATA + 0x100, READ_ONLY - 16]
    assert board.memory.read(READ_ONLY - 16, 16) == FILL.to_bytes(8, "little") * 2


@RUNNERS
def test_the_top_byte_is_ignored_where_translation_ignores_it(runner: type[Runner]) -> None:
    code = [*a.mov64(1, TAG | DATA), *a.mov64(2, TAG | FILL), stg(2, 1, 0, kind=3), ldg(1, 1)]
    code += [*a.mov64(3, OTHER_TAG | DATA + 0x80), stgp(2, 2, 3), dc(4, 4, 3), dc(4, 3, 3)]
    board = translated([*code, a.b(0)], runner)
    assert board.cpu.engine.x(1) == DATA
    assert board.memory.read(DATA + 0x80, 64) == bytes(64)


TRAPS = [
    # what is refused, and by what at EL2
    (dc(4, 3, 1), {system.HCR_EL2: 1 << 31 | 1 << 28}),
    (dc(4, 4, 1), {system.HCR_EL2: 1 << 31 | 1 << 28}),
    *[(dc(crm, op2, 1), {system.HCR_EL2: 1 << 31 | 1 << 23}) for crm, op2 in ((10, 3), (14, 5))],
]


def syndrome(word: int) -> int:
    """EC 0x18 of a System instruction of X1 that writes."""
    key = word >> 5 & 0xFFFF
    op0, op1, crn, crm, op2 = key >> 14, key >> 11 & 7, key >> 7 & 15, key >> 3 & 15, key & 7
    iss = (op0 & 3) << 20 | op2 << 17 | op1 << 14 | crn << 10 | 1 << 5 | crm << 1
    return 0x18 << 26 | 1 << 25 | iss


@RUNNERS
@pytest.mark.parametrize(("word", "traps"), TRAPS)
def test_el2_traps_maintenance_of_tags(
    word: int, traps: dict[type[system.SysReg], int], runner: type[Runner]
) -> None:
    code = [*a.mov64(1, DATA + 0x800), word, *enter_application()]
    subject = guest_board(traps, code, runner, [word], core=N2)
    count, esr, _ = run_guest(subject)
    assert (count, esr) == (2, syndrome(word))


@RUNNERS
@pytest.mark.parametrize(
    ("word", "gate"), [(dc(4, 3, 1), 14), (dc(4, 4, 1), 14), (dc(10, 5, 1), 26), (dc(12, 3, 1), 26)]
)
@pytest.mark.parametrize("allowed", [False, True])
def test_el1_allows_el0_maintenance_of_tags(
    allowed: bool, word: int, gate: int, runner: type[Runner]
) -> None:
    user = RAM + 0x4000
    sctlr = 0x30D0_0800 | allowed << gate
    code = [
        *[*put(system.VBAR_EL1, VECTORS), *put(system.SCTLR_EL1, sctlr), *a.mov64(1, DATA)],
        *[*put(system.SPSR_EL1, 0x3C0), *put(system.ELR_EL1, user), a.ERET],
    ]
    board = board_at(code, el=1, core=N2, runner=runner)
    board.memory.fill(user, a.code([word, a.b(0)]))
    board.memory.fill(VECTORS + 0x400, a.code([a.b(0)]))
    board.run(len(code) + 2)
    if allowed:
        assert board.cpu.pc == user + 4
    else:
        assert board.cpu.pc == VECTORS + 0x400
        assert board.cpu.registers.raw(system.ESR_EL1) == syndrome(word)


@RUNNERS
def test_tco_reads_as_zero_and_ignores_writes(runner: type[Runner]) -> None:
    """Without FEAT_MTE2 that is IMPLEMENTATION DEFINED (Arm ARM, TCO)."""
    ones = [*a.mov64(9, (1 << 64) - 1), a.msr(TCO, 9)]
    code = [*ones, a.mrs(1, TCO), 0xD503_419F, a.mrs(2, TCO), 0xD503_409F, a.b(0)]
    board = board_at(code, el=1, core=N2, runner=runner)
    board.run(len(code))
    assert board.cpu.pc == RAM + 4 * (len(code) - 1)
    assert (board.cpu.engine.x(1), board.cpu.engine.x(2)) == (0, 0)
    assert not board.cpu.pstate & system.SPSR.TCO.mask


@pytest.mark.parametrize(
    "core", ["generic", "neoverse-v1", "neoverse-n2,FEAT_MTE2=off,FEAT_MTE=off"]
)
@pytest.mark.parametrize("word", [addg(1, 2, 0), irg(1, 2), ldg(1, 2), dc(4, 3, 2), 0xD503_419F])
def test_others_have_not(core: str, word: int) -> None:
    board = board_at([*put(system.VBAR_EL1, VECTORS), word], el=1, core=load_core(core))
    board.memory.fill(VECTORS + 0x200, a.code([a.b(0)]))
    board.run(10)
    assert board.cpu.registers.raw(system.ESR_EL1) == 1 << 25
    assert board.cpu.registers.read(ID_AA64PFR1_EL1).MTE == 0


@pytest.mark.parametrize("core", ["neoverse-n2", "neoverse-v2", "cortex-x4", "max"])
def test_the_field_shows_whether_there_is_memory_for_tags(core: str) -> None:
    assert Feature.FEAT_MTE2 in load_core(core).features
    without3 = f"{core},FEAT_MTE3=off"
    for name, level in ((without3, 2), (f"{without3},FEAT_MTE2=off", 1)):
        registers = board_at([a.b(0)], el=1, core=load_core(name)).cpu.registers
        assert level == registers.read(ID_AA64PFR1_EL1).MTE


@pytest.mark.accelerated
def test_compiled_code_carries_out_those_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    plain = Tagging.carry_out

    def noted(self: Tagging, row: Row, word: int) -> bool:
        seen.append(word)
        return plain(self, row, word)

    monkeypatch.setattr(Tagging, "carry_out", noted)
    loop = [stg(2, 1, 16, POST), stg(2, 1, -16, PRE), ldg(2, 1), stg(2, 1, kind=2), ldg(31, 1)]
    code = [*a.mov64(1, DATA), *a.mov64(2, TAG | 5), *loop, a.b(-4 * len(loop))]
    board = board_at(code, el=1, core=N2)
    board.run(400)
    assert seen == loop  # at a stop until the first block has come to its end
    assert (board.cpu.engine.x(1) & -32, board.cpu.engine.x(2)) == (DATA, 5)


@pytest.mark.parametrize("period", [1, 2, 3, 7])
@pytest.mark.parametrize("core", ["neoverse-n2", "max,FEAT_SPE_PBT=off"])
def test_both_runners_sample_the_same(core: str, period: int) -> None:
    loop = [
        *[irg(1, 2), addg(3, 1, 32), stg(1, 2, 16, POST), ldg(3, 2), stg(3, 2, 0, kind=3)],
        *[a.subs_imm(4, 4, 1), stgp(1, 3, 2, -16, PRE), dc(4, 4, 2), gmi(5, 1, 5)],
    ]
    code = [*a.mov64(2, DATA + 0x400), *loop, a.b(-4 * len(loop))]
    runners: tuple[type[Runner], ...] = (Runner, ReferenceRunner)
    image = image_of({RAM: a.code(code)}, RAM)
    fast, reference = (
        Machine(image, runner=runner, period=period, core=load_core(core), ram=MIB)
        for runner in runners
    )
    assert fast.run(200).differences(reference.run(200)) == {}
