"""Which controls a tag check is under, by Exception level, privilege and range of addresses.

Expected values are worked out by hand from Arm ARM D10.4.1, D10.5 and D10.7, and from
AArch64.AccessIsTagChecked(), AArch64.EffectiveTCF(), IsMTEEnabled(), AArch64.MemAtomic() and
AArch64.ReportTagCheckFault() (J1.1).
"""

from __future__ import annotations

from typing import Final

import pytest

from spe_unicorn.arch.registers import banked, system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import board as guest_board
from tests.host.guests import put
from tests.host.guests import run as run_guest
from tests.host.pe.access.tag_words import (
    ASYNC,
    ATA,
    ATA0,
    BLOCK,
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
    ldg,
    stg,
    stgp,
    tag,
)
from tests.support import a64 as a
from tests.support.small_boards import MIB, RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
MAIR: Final = {1: system.MAIR_EL1, 2: system.MAIR_EL2, 3: system.MAIR_EL3}
TTBR0: Final = {1: system.TTBR0_EL1, 2: system.TTBR0_EL2, 3: system.TTBR0_EL3}
E2H, TGE, RW = 1 << 34, 1 << 27, 1 << 31
TBI1, TCMA1 = 1 << 38, 1 << 58
TBI, TCMA = 1 << 20, 1 << 30
"""Of a TCR_ELx with one range of addresses."""
OF_USERS = RAM + BLOCK + 0x1000
UPPER = 0xF0FF_FF80_0000_0000
"""What TTBR1_EL1 translates as TTBR0_EL1 translates the rest of the address."""
LOAD, LDTR, UAO = a.ldr(2, 1), 0xF840_0822, 0xD500_417F


def pages(board: Board) -> None:
    """RAM is Tagged: a block of the kernel's, and one that EL0 has, too."""
    for place, value in (
        (TABLES + 8, TABLES + 0x1000 | 3),
        (TABLES + 0x1000, RAM | 0x705),
        (TABLES + 0x1008, RAM + BLOCK | 0x745),
    ):
        board.memory.fill(place, value.to_bytes(8, "little"))
    for vector in (0x200, 0x400):
        board.memory.fill(VECTORS + vector, a.code([a.b(0)]))


def after(
    code: list[int], runner: type[Runner], el: int, tcr: int, sctlr: int, hcr: int = 0
) -> Board:
    """The board after ``code`` at ``el``, which may fault at its last operation."""
    ranges = 25 << 16 | 2 << 30 | 25 if el == 1 or hcr & E2H else 1 << 31 | 1 << 23 | 25
    start = [
        *(put(system.HCR_EL2, RW | hcr) if el == 2 else put(system.TTBR1_EL1, TABLES)),
        *[*put(banked.VBAR[el], VECTORS), *put(MAIR[el], 0xF0FF), *put(TTBR0[el], TABLES)],
        *[*put(banked.TCR[el], ranges | tcr), a.ISB, *put(banked.SCTLR[el], SCTLR | sctlr), a.ISB],
        MSR_TCO[0],
    ]
    board = board_at([*start, *code, a.b(0)], el=el, core=CORE, runner=runner, ram=8 * MIB)
    pages(board)
    board.run(len(start) + len(code))
    return board


def fault(board: Board, el: int) -> tuple[int, int] | None:
    """ESR_ELx and FAR_ELx; None where nothing was taken."""
    registers = board.cpu.registers
    if board.cpu.pc != VECTORS + 0x200:
        return None
    return registers.raw(banked.ESR[el]), registers.raw(banked.FAR[el])


def tagged(address: int, n: int, logical: int) -> list[int]:
    """X1 is an address with a logical tag, whose granule and the next have the tag ``n``."""
    store = [*a.mov64(1, address), *a.mov64(3, tag(n)), stg(3, 1, kind=2)]
    return [*store, *a.mov64(1, logical << 56 | address)]


@RUNNERS
@pytest.mark.parametrize(
    ("el", "hcr", "tbi", "tcma"), [(2, 0, TBI, TCMA), (2, E2H, TBI0, 1 << 57), (3, 0, TBI, TCMA)]
)
def test_each_level_has_its_own_controls(
    el: int, hcr: int, tbi: int, tcma: int, runner: type[Runner]
) -> None:
    """TBI and TCMA of TCR_ELx with one range or two; TF0 of TFSR_ELx."""
    register: type[SysReg] = (system.TFSR_EL2, system.TFSR_EL3)[el - 2]
    for n, tcr, found in (
        (7, tbi | tcma, True),
        (0, tbi, True),
        (0, tbi | tcma, False),
        (0, 0, False),
    ):
        code = [*tagged(DATA, 4, n), LOAD]
        taken = fault(after(code, runner, el, tcr, ATA | SYNC, hcr), el)
        assert taken == ((ESR_CHECK, tag(n, DATA)) if found else None)
    code = [*put(register, 0), *tagged(DATA, 4, 7), LOAD]
    board = after(code, runner, el, tbi, ATA | ASYNC, hcr)
    assert board.cpu.registers.raw(register) == 1


@RUNNERS
@pytest.mark.parametrize(
    ("logical", "tcr", "found"),
    [(15, TBI1 | TCMA1, False), (0, TBI1 | TCMA1, True), (15, TBI1, True), (0, TBI0, False)],
)
def test_the_upper_range_has_its_own_controls(
    logical: int, tcr: int, found: bool, runner: type[Runner]
) -> None:
    """The tag 0b1111 is canonical there, and TF1 tells of a check that failed."""
    at = (UPPER if tcr & TBI1 else UPPER | 0xFF << 56) | DATA
    pointer = at & ~(0xF << 56) | logical << 56 if tcr & TBI1 else at
    code = [*tagged(DATA, 4, 4), *put(system.TFSR_EL1, 0), *a.mov64(1, pointer), LOAD]
    taken = fault(after(code, runner, 1, tcr | TBI0, ATA | SYNC), 1)
    assert taken == ((ESR_CHECK, pointer) if found else None)
    board = after(code, runner, 1, tcr | TBI0, ATA | ASYNC)
    assert board.cpu.registers.raw(system.TFSR_EL1) == 2 * found


@RUNNERS
@pytest.mark.parametrize(
    ("el", "hcr", "before", "sctlr", "found"),
    [
        (1, 0, [], ATA | SYNC0, False),  # EL0 has no access to tags
        (1, 0, [], ATA | SYNC, False),
        (1, 0, [UAO], ATA | SYNC, True),
        (1, 0, [UAO], ATA | ATA0 | SYNC0, False),
        (2, E2H | TGE, [], ATA | ATA0 | SYNC0, True),
        (2, E2H, [], ATA | ATA0 | SYNC0, False),  # privileged without an EL0 of its own
        (2, E2H, [], ATA | SYNC, True),
    ],
)
def test_an_unprivileged_access_is_under_the_controls_of_el0(
    el: int, hcr: int, before: list[int], sctlr: int, found: bool, runner: type[Runner]
) -> None:
    code = [*tagged(OF_USERS, 4, 7), *before, LDTR]
    taken = fault(after(code, runner, el, TBI0, sctlr, hcr), el)
    assert taken == ((ESR_CHECK, tag(7, OF_USERS)) if found else None)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "write"),
    [
        (0xF822_003F, 0),  # STADD X2, [X1]: it reads, too
        (0xC8A2_7C24, 0),  # CAS X2, X4, [X1]
        (0xC89F_FC22, WRITE),  # STLR X2, [X1]
        (0xA8C1_13E2, 0),  # LDP X2, X4, [SP], #16: it writes SP back
        (0xF869_6BE2, 0),  # LDR X2, [SP, X9]
        (0x4CC9_7FE0, 0),  # LD1 {V0.16B}, [SP], X9
        (0xA5E9_43E0, 0),  # LD1D {Z0.D}, P0/Z, [SP, X9, LSL #3]
        (0x8580_4020, 0),  # LDR Z0, [X1]
        (0xC8A2_7FE4, None),  # CAS X2, X4, [SP]
        (0xC85F_7FE2, None),  # LDXR X2, [SP]
        (0x4C40_7FE0, None),  # LD1 {V0.16B}, [SP]
        (0xA5E0_A3E0, None),  # LD1D {Z0.D}, P0/Z, [SP]
        (0x8580_43E0, None),  # LDR Z0, [SP]
    ],
)
def test_which_accesses_are_checked_and_how_they_are_told(
    word: int, write: int | None, runner: type[Runner]
) -> None:
    """None: they are relative to SP, with an immediate offset or none."""
    enabled = [*put(system.CPACR_EL1, 3 << 20 | 3 << 16), a.ISB, 0x25D8_E3E0]  # PTRUE P0.D
    code = [*enabled, *tagged(DATA, 4, 7), a.add_imm(31, 1, 0), *a.mov64(9, 0), word]
    taken = fault(after(code, runner, 1, TBI0, ATA | SYNC), 1)
    assert taken == (None if write is None else (ESR_CHECK | write, tag(7, DATA)))


@RUNNERS
@pytest.mark.parametrize("word", [stg(3, 31), stg(3, 31, 16, POST, kind=3), stgp(2, 2, 31)])
def test_sp_is_checked_before_the_address(word: int, runner: type[Runner]) -> None:
    """C6.2, STG: CheckSPAlignment(), by SCTLR_EL1.SA, and then the alignment of the granule."""
    code = [*a.mov64(1, DATA + 8), a.add_imm(31, 1, 0), word]
    for sa, expected in ((1 << 3, 0x26 << 26 | 1 << 25), (0, 0x9600_0061)):
        board = after(code, runner, 1, TBI0, ATA | sa)
        taken = fault(board, 1)
        assert taken is not None
        assert taken[0] == expected


@RUNNERS
@pytest.mark.parametrize(
    ("dc", "dct", "attr", "found"),
    [(1, 1, 0xF, 5), (1, 0, 0xF, 0), (0, 1, 0xF, 0), (1, 1, 0x5, 0), (1, 1, 0xA, 0)],
)
def test_dct_makes_memory_tagged_without_stage_1(
    dc: int, dct: int, attr: int, found: int, runner: type[Runner]
) -> None:
    """D24.2, HCR_EL2.DCT, while DC is 1; D10.3: and only as stage 2 leaves it Write-Back."""
    guest = [*put(system.SCTLR_EL1, 0x30D0_0800 | ATA), *put(system.TCR_EL1, TBI0), a.ISB]
    guest += [*a.mov64(1, DATA + 0x2000), *a.mov64(2, tag(5)), stg(2, 1), ldg(3, 1)]
    vtcr = 1 << 31 | 2 << 16 | 3 << 12 | 3 << 10 | 3 << 8 | 1 << 6 | 25
    traps = {
        system.VTTBR_EL2: TABLES,
        system.VTCR_EL2: vtcr,
        system.HCR_EL2: RW | 1 << 56 | dc << 12 | dct << 57,
    }
    subject = guest_board(traps, guest, runner, core=CORE)
    block = RAM | 1 << 10 | 3 << 8 | 3 << 6 | attr << 2 | 1
    subject.memory.fill(TABLES + 8, block.to_bytes(8, "little"))
    assert run_guest(subject)[0] == 0
    assert subject.cpu.engine.x(3) == tag(found)
