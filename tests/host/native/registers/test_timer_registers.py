"""Registers of timers in compiled code: what all Exception levels see of them, by all names."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.devices import gicv3
from spe_unicorn.devices.timer import GenericTimer
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.host.native.registers.gic_accesses import PMR
from tests.host.native.registers.gic_boards import (
    EOIR1,
    IAR1,
    IGROUPR,
    ISENABLER,
    SGI_BASE,
    VBAR_EL1,
    looks,
    x,
)
from tests.support import a64
from tests.support.small_boards import RAM, board_at

CNTPCT, CNTVCT = (3, 3, 14, 0, 1), (3, 3, 14, 0, 2)
CNTVOFF, CNTPOFF = (3, 4, 14, 0, 3), (3, 4, 14, 0, 6)
CNTKCTL, CNTHCTL = (3, 0, 14, 1, 0), (3, 4, 14, 1, 0)
TVAL, CTL, CVAL = range(3)
CNTP, CNTV, CNTHP, CNTHV = (3, 2), (3, 3), (4, 2), (4, 3)
CNTPS, CNTP_EL02, CNTV_EL02 = (7, 2), (5, 2), (5, 3)
NAMES = (CNTP, CNTV, CNTHP, CNTHV, CNTPS, CNTP_EL02, CNTV_EL02)
"""op1 and CRm of the registers of a timer, whose op2 are TVAL, CTL and CVAL."""
ENABLE, IMASK, ISTATUS = 1, 2, 4
VBARS = {EL1: VBAR_EL1, EL2: (3, 4, 12, 0, 0), EL3: (3, 6, 12, 0, 0)}
ELRS = {EL1: (3, 0, 4, 0, 1), EL2: (3, 4, 4, 0, 1), EL3: (3, 6, 4, 0, 1)}
SPSRS = {EL1: (3, 0, 4, 0, 0), EL2: (3, 4, 4, 0, 0), EL3: (3, 6, 4, 0, 0)}
ESRS = {EL1: (3, 0, 5, 2, 0), EL2: (3, 4, 5, 2, 0), EL3: (3, 6, 5, 2, 0)}
HCR, SCR = (3, 4, 1, 1, 0), (3, 6, 1, 1, 0)
IGRPEN0, IGRPEN1, IGRPEN1_EL3 = (3, 0, 12, 12, 6), (3, 0, 12, 12, 7), (3, 6, 12, 12, 7)
RW, IMO, TGE, E2H = 1 << 31, 1 << 4, 1 << 27, 1 << 34
NS, HCE, RW3, ST, FIQ3, IRQ3, ECVEN = 1, 1 << 8, 1 << 10, 1 << 11, 4, 2, 1 << 28
ONE_TICK = 16
"""Operations."""
CALL_CLASSES = 0x15 >> 2
"""The upper bits of EC for SVC, HVC and SMC."""
PIECE, GUESTS, VECTORS = 0x800, 0x8000, 0x2_0000
TIMERS = (
    gicv3.PHYSICAL_TIMER,
    gicv3.VIRTUAL_TIMER,
    gicv3.EL2_PHYSICAL_TIMER,
    gicv3.EL2_VIRTUAL_TIMER,
    gicv3.SECURE_PHYSICAL_TIMER,
)


def register(name: tuple[int, int], which: int) -> tuple[int, int, int, int, int]:
    op1, crm = name
    return 3, op1, 14, crm, which


def write(op: tuple[int, int, int, int, int], value: int, by: int = 9) -> list[int]:
    return [*a64.mov64(by, value), a64.msr(op, by)]


def board_with(
    words: list[int], el: int, runner: type[Runner] = Runner, **options: object
) -> Board:
    """A board that begins at ``el`` with ``words``, with all timers' interrupts on in Group 1."""
    board = board_at([*words, a64.b(0)], 1, el, runner, **options)
    gic = board.peripherals.gic
    gic.distributor.write(0, 4, 0b111)
    gic.redistributors.write(SGI_BASE + IGROUPR, 4, 0xFFFF_FFFF)
    gic.redistributors.write(SGI_BASE + ISENABLER, 4, sum(1 << intid for intid in TIMERS))
    return board


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The registers of timers that Python is asked about."""
    names: list[str] = []
    read, wrote = GenericTimer.read, GenericTimer.write

    def on_read(self: GenericTimer, register: type[SysReg], now: int, el: int) -> int:
        names.append(register.__name__)
        return read(self, register, now, el)

    def on_write(self: GenericTimer, register: type[SysReg], value: int, now: int, el: int) -> None:
        names.append(register.__name__)
        wrote(self, register, value, now, el)

    monkeypatch.setattr(GenericTimer, "read", on_read)
    monkeypatch.setattr(GenericTimer, "write", on_write)
    return names


@pytest.mark.accelerated
def test_a_timer_value_is_signed_and_lies_after_the_count_less_its_offset(asked: list[str]) -> None:
    """CNTV_TVAL_EL0: CompareValue becomes CNTVCT_EL0 + SignExtend(TimerValue, 64)."""
    board = board_with(
        [
            *write(CNTVOFF, 1000),
            *[a64.NOP] * (4 * ONE_TICK),
            *write(register(CNTV, TVAL), 0xFFFF_FFFE),
            a64.mrs(1, CNTVCT),
            a64.mrs(2, register(CNTV, CVAL)),
            a64.mrs(3, register(CNTV, TVAL)),
            *write(register(CNTHP, TVAL), 0x8000_0000),
            a64.mrs(4, CNTPCT),
            a64.mrs(5, register(CNTHP, CVAL)),
        ],
        EL2,
    )
    board.run(4 * ONE_TICK + 30)
    count, compare, left, physical, of_el2 = x(board, 1, 2, 3, 4, 5)
    assert compare == (count - 2) % (1 << 64)
    assert left == 0xFFFF_FFFE
    assert of_el2 == (physical - (1 << 31)) % (1 << 64)
    assert count == (physical - 1000) % (1 << 64)
    assert asked == []


@pytest.mark.accelerated
def test_the_status_is_shown_where_the_condition_is_met(asked: list[str]) -> None:
    """CNTV_CTL_EL0.ISTATUS: with ENABLE, whatever IMASK is; both sides have no sign."""
    board = board_with(
        [
            *write(register(CNTV, CVAL), 0),
            *write(register(CNTV, CTL), IMASK),
            a64.mrs(1, register(CNTV, CTL)),
            *write(register(CNTV, CTL), ENABLE | IMASK | ISTATUS),
            a64.mrs(2, register(CNTV, CTL)),
            *write(register(CNTV, CVAL), 1 << 63),
            a64.mrs(3, register(CNTV, CTL)),
            *write(CNTVOFF, 1 << 62),  # CNTVCT_EL0 is above 1 << 63
            a64.mrs(4, register(CNTV, CTL)),
        ],
        EL2,
    )
    board.run(60)
    on = ENABLE | IMASK
    assert x(board, 1, 2, 3, 4) == [IMASK, on | ISTATUS, on, on | ISTATUS]
    assert asked == []


@pytest.mark.accelerated
@pytest.mark.parametrize("ticks", [2, 3, 5])
def test_a_timer_goes_off_at_the_operation_at_which_its_count_is_there(
    ticks: int, asked: list[str]
) -> None:
    """The count is ``ticks`` from operation ``ticks * ONE_TICK`` on: that one is not executed."""
    begin = [
        *write(HCR, RW | IMO),
        *write(VBARS[EL2], RAM + VECTORS),
        *write(PMR, 0xF0),
        *write(IGRPEN1, 1),
        *write(register(CNTHP, CVAL), ticks),
        *write(register(CNTHP, CTL), ENABLE),
        a64.daifclr(2),
    ]
    board = board_with([*begin, *[a64.NOP] * 200], EL2)
    assert len(begin) < 2 * ONE_TICK
    board.memory.fill(RAM + VECTORS + 0x280, a64.code([a64.mrs(1, ELRS[EL2]), a64.b(0)]))
    board.run(200)
    assert x(board, 1) == [RAM + 4 * ticks * ONE_TICK]
    assert asked == []


@pytest.mark.accelerated
def test_a_timer_whose_time_has_come_goes_off_after_the_write(asked: list[str]) -> None:
    begin = [
        *write(HCR, RW | IMO),
        *write(VBARS[EL2], RAM + VECTORS),
        *write(PMR, 0xF0),
        *write(IGRPEN1, 1),
        a64.daifclr(2),
        *write(register(CNTHP, CTL), ENABLE),
    ]
    board = board_with([*begin, *[a64.NOP] * 20], EL2)
    handler = [a64.mrs(1, ELRS[EL2]), *write(register(CNTHP, CTL), 0), a64.mrs(2, IAR1)]
    board.memory.fill(RAM + VECTORS + 0x280, a64.code([*handler, a64.b(0)]))
    board.run(60)
    assert x(board, 1, 2) == [RAM + 4 * len(begin), 1023]  # its line is low again
    assert asked == []


def vectors(el: int, top: int) -> bytes:
    """Skip what traps or is UNDEFINED. A call goes on to ``top``, and to X28 there."""
    ends = a64.br(28) if el == top else a64.hvc(0) if el == EL1 else a64.smc(0)
    sync = [
        a64.mrs(26, ESRS[el]),
        a64.lsr_imm(26, 26, 28),
        a64.sub_imm(26, 26, CALL_CLASSES),
        a64.cbnz(26, 8),
        ends,
        a64.mrs(26, ELRS[el]),
        a64.add_imm(26, 26, 4),
        a64.msr(ELRS[el], 26),
        a64.ERET,
    ]
    irq = [
        a64.mrs(20, IAR1),
        a64.add(21, 21, 20),
        *(a64.msr(register(name, CTL), 31) for name in (CNTP, CNTV)),
        *(a64.msr(register(CNTHP, CTL), 31) for _ in range(el > EL1)),
        a64.msr(EOIR1, 20),
        a64.ERET,
    ]
    table = bytearray(0x800)
    for place, code in (
        (0x200, sync),
        (0x400, sync),
        *((p, irq) for p in (0x280, 0x300, 0x480, 0x500)),
    ):
        table[place : place + 4 * len(code)] = a64.code(code)
    return bytes(table)


def random_accesses(source: random.Random, names: tuple[tuple[int, int], ...] = NAMES) -> list[int]:
    """Timers that are set, looked at and waited for by any of their names."""
    words: list[int] = []
    for _ in range(source.randrange(4, 12)):
        name = source.choice((*names, CNTP, CNTV, CNTV))
        kind = source.randrange(6)
        if kind == 0:
            words += write(register(name, CTL), source.choice((0, 1, 1, 1, 1, 2, 3, 5, 7)))
        elif kind == 1:
            values = (0, 1, 7, 1 << 63, (1 << 64) - 1, source.getrandbits(64))
            words += write(register(name, CVAL), source.choice(values))
        elif kind == 2:
            values = (0, 1, 5, 20, 0xFFFF_FFFF, 0x8000_0000, source.getrandbits(64))
            words += write(register(name, TVAL), source.choice(values))
        elif kind == 3:
            later = a64.add_imm(12, 12, source.choice((0, 1, 4, 30)))
            count = source.choice((CNTVCT, CNTPCT))
            words += [a64.mrs(12, count), later, a64.msr(register(name, CVAL), 12)]
        elif kind == 4:
            words += [a64.NOP] * source.choice((1, 10, 40))
        else:
            read = a64.mrs(10, register(name, source.randrange(3)))
            words += [a64.movz(10, 0), read, a64.add(11, 11, 11), a64.add(11, 11, 10)]
    return words


def random_board(seed: int, top: int, runner: type[Runner], core: str) -> Board:
    """Software at ``top`` that sets controls at random, and enters lower levels in between."""
    source = random.Random(seed)
    board = board_with([a64.b(0)], top, runner, core=core, secure=top == EL3)
    for el in range(EL1, top + 1):
        board.memory.fill(RAM + VECTORS + 0x1000 * el, vectors(el, top))
    words = [*write(PMR, 0xF0), *write(IGRPEN1, 1)]
    if top == EL3:
        words = [*write(SCR, NS | RW3 | HCE), *words, *write(IGRPEN1_EL3, 3), *write(IGRPEN0, 1)]
    for el in range(EL1, top + 1):
        words += write(VBARS[el], RAM + VECTORS + 0x1000 * el)
    rounds = 8
    for number in range(rounds):
        hcr = source.choice((0, IMO, IMO, IMO | E2H, IMO | TGE, IMO | TGE | E2H)) | RW
        words += write(HCR, hcr)
        words += write(CNTHCTL, source.choice((3, source.getrandbits(20) & ~4)))
        words += write(CNTKCTL, source.choice((0x303, source.getrandbits(10) & ~4)))
        if source.random() < 0.4:
            words += write(CNTVOFF, source.choice((0, 3, 100, 1 << 62, (1 << 64) - 50)))
        if source.random() < 0.3:
            words += write(CNTPOFF, source.choice((0, 5, (1 << 64) - 9)))
        levels = [0] if hcr & TGE else [0, EL1]
        if top == EL3:
            secure = source.random() < 0.3
            scr = RW3 | HCE | source.choice((0, ST)) | source.choice((0, IRQ3, FIQ3 | IRQ3, ECVEN))
            words += write(SCR, scr | (0 if secure else NS))
            levels = [0, EL1] if secure else [*levels, EL2]
        words += random_accesses(source)
        to = source.choice(levels)
        mode = to << 2 | (to > 0) | source.choice((0, 0, 0xF << 6))
        guest = RAM + GUESTS + number * PIECE
        words += [*write(ELRS[top], guest), *write(SPSRS[top], mode)]
        after = RAM + (number + 1) * PIECE
        words += [*a64.mov64(28, after), a64.ERET]
        assert 4 * len(words) <= PIECE
        board.memory.fill(RAM + number * PIECE, a64.code(words))
        board.memory.fill(guest, a64.code([*random_accesses(source), a64.svc(0), a64.b(0)]))
        words = [a64.daifclr(2) if source.random() < 0.7 else a64.NOP]
    board.memory.fill(RAM + rounds * PIECE, a64.code([*a64.mov64(28, RAM), a64.br(28)]))
    return board


def all_of(board: Board) -> list[object]:
    pe = board.pes[0]
    return [*looks(board), pe.timer.words.tolist(), pe.due, pe.deadline, int(pe.cpu.state.skipped)]


@pytest.mark.sweep
@pytest.mark.parametrize("core", ["generic", "neoverse-v2", "max"])
@pytest.mark.parametrize("top", [EL2, EL3])
@pytest.mark.parametrize("seed", range(24))
def test_timers_are_as_the_reference_has_them(seed: int, top: int, core: str) -> None:
    """Random programs of all Exception levels, with the traps of CNTHCTL_EL2 and CNTKCTL_EL1."""
    source = random.Random(seed)
    pieces = [source.choice((1, 3, 20, 100, 400, 1500)) for _ in range(16)]
    boards = [random_board(seed, top, runner, core) for runner in (Runner, ReferenceRunner)]
    for piece in pieces:
        for board in boards:
            board.run(piece)
        assert all_of(boards[0]) == all_of(boards[1])


@pytest.mark.parametrize("seed", range(4))
def test_a_restored_machine_has_its_timers(seed: int) -> None:
    """What timers hold is saved; when they go off follows from it."""
    boards = [random_board(seed, EL2, Runner, "generic") for _ in range(2)]
    boards[0].run(700)
    saved = BoardSaver(boards[0]).save()
    boards[0].run(2000)
    BoardSaver(boards[1]).restore(saved)
    boards[1].run(2000)
    assert all_of(boards[0]) == all_of(boards[1])
