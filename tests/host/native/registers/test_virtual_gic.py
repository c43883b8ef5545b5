"""The GIC's virtual CPU interface in compiled code: what a hypervisor and its guest see of it."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.devices.gicv3 import MAINTENANCE
from spe_unicorn.devices.gicv3.cpu_interface import CPUInterface
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.native.registers.gic_accesses import PMR
from tests.host.native.registers.gic_boards import (
    EOIR1,
    IAR1,
    IGROUPR,
    ISENABLER,
    NE,
    SGI1R,
    SGI_BASE,
    VBAR_EL1,
    looks,
    sgi,
    x,
)
from tests.support import a64
from tests.support.small_boards import RAM, board_at

DIR, RPR, HPPIR1 = (3, 0, 12, 11, 1), (3, 0, 12, 11, 3), (3, 0, 12, 12, 2)
BPR1, CTLR, IGRPEN1 = (3, 0, 12, 12, 3), (3, 0, 12, 12, 4), (3, 0, 12, 12, 7)
SRE_EL1, SRE_EL2 = (3, 0, 12, 12, 5), (3, 4, 12, 9, 5)
AP0R0, AP1R0, ICH_HCR = (3, 4, 12, 8, 0), (3, 4, 12, 9, 0), (3, 4, 12, 11, 0)
VTR, MISR, EISR, ELRSR = ((3, 4, 12, 11, op2) for op2 in (1, 2, 3, 5))
VMCR = (3, 4, 12, 11, 7)
LISTS = [(3, 4, 12, 12, op2) for op2 in range(4)]
HCR_EL2, VBAR_EL2, ESR_EL2 = (3, 4, 1, 1, 0), (3, 4, 12, 0, 0), (3, 4, 5, 2, 0)
SPSR_EL2, ELR_EL2 = (3, 4, 4, 0, 0), (3, 4, 4, 0, 1)

RW, IMO, FMO = 1 << 31, 1 << 4, 1 << 3
EN, UIE, NPIE, TALL1, TC = 1, 1 << 1, 1 << 3, 1 << 12, 1 << 10
OPEN = 0xF0 << 24 | 2 << 21 | 3 << 18 | 1 << 1
"""ICH_VMCR_EL2 of a guest that has opened its mask and enabled Group 1."""
PENDING, GROUP1, HW = 1 << 62, 1 << 60, 1 << 61
EL1H, MASKED = 0b0101, 0xF << 6
PIECE, GUEST, EL1_VECTORS, EL2_VECTORS = 0x280, 0x4000, 0x8000, 0x9000
SYNC_BELOW, IRQ_HERE, IRQ_BELOW = 0x400, 0x280, 0x480
HVC_CLASS = 0x16


def listed(intid: int, priority: int = 0xA0, flags: int = GROUP1, state: int = PENDING) -> int:
    return state | flags | priority << 48 | intid


def write(register: tuple[int, int, int, int, int], value: int, by: int = 9) -> list[int]:
    return [*a64.mov64(by, value), a64.msr(register, by)]


def enter(guest: int, pstate: int) -> list[int]:
    """Return to the guest at an offset in RAM."""
    return [*write(ELR_EL2, RAM + guest), *write(SPSR_EL2, pstate), a64.ERET]


def board_with(
    pieces: list[list[int]],
    guests: list[list[int]],
    runner: type[Runner] = Runner,
    core: str = "generic",
    pstate: int = EL1H,
) -> Board:
    """A hypervisor at EL2 that executes each piece and then enters a guest, which ends by an HVC.

    Its vector takes physical interrupts and turns the virtual interface off, as one of them may be
    the maintenance interrupt. It skips what traps. The guest's vector takes one interrupt.
    """
    board = board_at([], 1, EL2, runner, core=core)
    gic = board.peripherals.gic
    gic.distributor.write(0, 4, 0b11)
    gic.redistributors.write(SGI_BASE + IGROUPR, 4, 0xFFFF_FFFF)
    gic.redistributors.write(SGI_BASE + ISENABLER, 4, 0xFFFF | 1 << MAINTENANCE)
    words = [
        *write(HCR_EL2, RW | IMO | FMO),
        *write(VBAR_EL1, RAM + EL1_VECTORS),
        *write(VBAR_EL2, RAM + EL2_VECTORS),
        *write(PMR, 0xF0),
        *write(IGRPEN1, 1),
    ]
    place = GUEST
    for number, (piece, guest) in enumerate(zip(pieces, guests, strict=True), 1):
        words += a64.mov64(28, RAM + number * PIECE)
        assert 4 * len(words) < PIECE
        board.memory.fill(RAM + (number - 1) * PIECE, a64.code([*words, a64.br(28)]))
        words = [*piece, *a64.mov64(28, RAM + (number + 1) * PIECE), *enter(place, pstate)]
        code = a64.code([*guest, a64.hvc(0)])
        board.memory.fill(RAM + place, code)
        place += len(code) + 64
    board.memory.fill(RAM + len(pieces) * PIECE, a64.code(words))
    board.memory.fill(RAM + (len(pieces) + 1) * PIECE, a64.code([a64.b(0)]))
    assert (len(pieces) + 2) * PIECE < GUEST
    assert place < EL1_VECTORS
    by_guest = [a64.mrs(20, IAR1), a64.add(21, 21, 20), a64.msr(EOIR1, 20), a64.ERET]
    board.memory.fill(RAM + EL1_VECTORS + IRQ_HERE, a64.code(by_guest))
    physical = [
        a64.mrs(22, IAR1),
        a64.add(23, 23, 22),
        a64.msr(ICH_HCR, 31),
        a64.msr(EOIR1, 22),
        a64.ERET,
    ]
    for vector in (IRQ_HERE, IRQ_BELOW):
        board.memory.fill(RAM + EL2_VECTORS + vector, a64.code(physical))
    called = [
        a64.mrs(26, ESR_EL2),
        a64.lsr_imm(26, 26, 26),
        a64.subs_imm(26, 26, HVC_CLASS),
        a64.b_cond(NE, 8),
        a64.br(28),
        a64.mrs(26, ELR_EL2),
        a64.add_imm(26, 26, 4),
        a64.msr(ELR_EL2, 26),
        a64.ERET,
    ]
    board.memory.fill(RAM + EL2_VECTORS + SYNC_BELOW, a64.code(called))
    for interface in gic.cpu_interfaces:
        assert interface.virtual.hcr.value == 0
    return board


def all_of(board: Board) -> list[object]:
    interface = board.peripherals.gic.cpu_interfaces[0].virtual
    inputs = board.pes[0].interrupts
    return [*looks(board), interface.words.tolist(), inputs.virq.level, inputs.vfiq.level]


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The registers of either interface that Python is asked about from now on."""
    names: list[str] = []
    read, write = CPUInterface.read, CPUInterface.write

    def on_read(self: CPUInterface, register: type[SysReg]) -> int:
        names.append(register.__name__)
        return read(self, register)

    def on_write(self: CPUInterface, register: type[SysReg], value: int) -> None:
        names.append(register.__name__)
        write(self, register, value)

    monkeypatch.setattr(CPUInterface, "read", on_read)
    monkeypatch.setattr(CPUInterface, "write", on_write)
    return names


@pytest.mark.accelerated
def test_a_listed_interrupt_is_taken_and_ended_by_the_guest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """IHI 0069: pending, then active, then empty; it is the guest's virtual IRQ meanwhile."""
    pieces = [
        [*write(VMCR, OPEN), *write(LISTS[0], listed(50)), *write(ICH_HCR, EN)],
        [a64.mrs(1, LISTS[0]), a64.mrs(2, ELRSR), a64.mrs(3, AP1R0), a64.mrs(4, MISR)],
    ]
    board = board_with(pieces, [[a64.NOP] * 3] * 2)
    names = asked(monkeypatch)
    board.run(200)
    assert x(board, 20, 21) == [50, 50]
    assert x(board, 1, 2, 3, 4) == [listed(50, state=0), 0b1111, 0, 0]
    assert names == ["ICC_IGRPEN1_EL1"]


@pytest.mark.accelerated
def test_the_guest_s_mask_and_masked_interrupts_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = [
        *write(PMR, 0xA0),
        a64.daifclr(2),
        a64.mrs(1, IAR1),  # 1023: the mask is not above its priority
        *write(PMR, 0xA8),
        a64.mrs(2, PMR),
    ]
    piece = [*write(VMCR, OPEN), *write(LISTS[1], listed(60)), *write(ICH_HCR, EN)]
    board = board_with([piece], [guest], pstate=EL1H | MASKED)
    names = asked(monkeypatch)
    board.run(200)
    assert x(board, 1, 2, 20) == [1023, 0xA8, 60]
    assert names == ["ICC_IGRPEN1_EL1"]


@pytest.mark.accelerated
def test_the_end_of_a_physical_one_ends_its_active_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """ListRegister.HW: SGI 5 is active until the guest ends the virtual interrupt."""
    piece = [
        *write(CTLR, 2),  # EOImode
        *write(SGI1R, sgi(5, 1)),
        a64.mrs(1, IAR1),
        a64.msr(EOIR1, 1),
        *write(VMCR, OPEN),
        *write(LISTS[0], listed(70, flags=GROUP1 | HW) | 5 << 32),
        *write(ICH_HCR, EN),
    ]
    board = board_with([piece, [*write(SGI1R, sgi(5, 1)), a64.mrs(2, IAR1)]], [[a64.NOP] * 3] * 2)
    names = asked(monkeypatch)
    board.run(200)
    assert x(board, 1, 20, 2) == [5, 70, 5]
    assert names == ["ICC_IGRPEN1_EL1", "ICC_CTLR_EL1"]


@pytest.mark.accelerated
def test_icc_dir_ends_what_eoir_left_active(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = [
        *write(CTLR, 2),
        *write(SGI1R, sgi(5, 1)),
        a64.mrs(1, IAR1),
        a64.msr(EOIR1, 1),
        *write(SGI1R, sgi(5, 1)),
        a64.mrs(2, IAR1),
        a64.msr(DIR, 1),
        a64.mrs(3, IAR1),
    ]
    board = board_with([piece], [[]])
    names = asked(monkeypatch)
    board.run(100)
    assert x(board, 1, 2, 3) == [5, 1023, 5]
    assert names == ["ICC_IGRPEN1_EL1", "ICC_CTLR_EL1"]


@pytest.mark.accelerated
def test_the_maintenance_interrupt_is_the_hypervisor_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """With UIE it comes as soon as no more than one List register is in use; the vector ends it."""
    pieces = [
        [
            *write(VMCR, OPEN),
            *write(LISTS[0], listed(50)),
            *write(LISTS[1], listed(51)),
            *write(ICH_HCR, EN | UIE),
        ],
        [a64.mrs(1, MISR)],
    ]
    board = board_with(pieces, [[a64.NOP] * 4] * 2)
    names = asked(monkeypatch)
    board.run(200)
    assert x(board, 22, 23) == [MAINTENANCE, MAINTENANCE]
    assert x(board, 21, 1) == [50, 0]
    assert names == ["ICC_IGRPEN1_EL1"]


def test_a_guest_with_group_0_is_python_s() -> None:
    """Its interrupt is a virtual FIQ, which compiled code does not know."""
    piece = [*write(VMCR, OPEN | 1), *write(LISTS[0], listed(50, flags=0)), *write(ICH_HCR, EN)]
    board = board_with([piece], [[a64.NOP]], pstate=EL1H | MASKED)
    board.run(60)
    assert board.pes[0].interrupts.vfiq.level
    assert not board.pes[0].interrupts.virq.level


def random_piece(rng: random.Random) -> list[int]:
    """Accesses of a hypervisor, in any order."""
    words: list[int] = []
    for _ in range(rng.randint(2, 14)):
        kind = rng.choice("llllhvarrrrsidmcet")
        if kind == "l":
            hw = rng.choice([0, 0, HW | rng.randrange(40) << 32, 1 << 41])
            state = rng.randrange(4) << 62
            value = listed(rng.randrange(4) + 50, rng.randrange(0, 256, 8), GROUP1 | hw, state)
            if not rng.randrange(20):
                value &= ~GROUP1
            words += write(rng.choice(LISTS), value)
        elif kind == "h":
            traps = rng.choice([0] * 9 + [TALL1, TC, 1 << 14])
            words += write(ICH_HCR, rng.choice([EN, EN, EN | UIE, EN | NPIE, 0xFF, 0]) | traps)
        elif kind == "v":
            words += write(VMCR, rng.choice([OPEN, OPEN, rng.getrandbits(32), OPEN | 1]))
        elif kind == "a":
            words += write(rng.choice([AP0R0, AP1R0]), rng.choice([0, 0, 1 << rng.randrange(32)]))
        elif kind == "r":
            register = rng.choice(
                [AP0R0, AP1R0, ICH_HCR, VTR, MISR, EISR, ELRSR, VMCR, SRE_EL1, SRE_EL2, *LISTS]
            )
            words += [a64.mrs(5, register), a64.add(2, 2, 5), a64.mul(2, 2, 5)]
        elif kind == "s":
            words += write(SGI1R, sgi(rng.randrange(16), 1))
        elif kind == "i":
            words.append(rng.choice([a64.daifclr, a64.daifset])(2))
        elif kind == "d":
            words += write(DIR, rng.randrange(40))
        elif kind == "m":
            words += write(PMR, rng.choice([0xF0, rng.randrange(256)]))
        elif kind == "c":
            words += write(rng.choice([SRE_EL1, SRE_EL2]), rng.getrandbits(4))
        elif kind == "e":
            words += [a64.mrs(6, IAR1), a64.add(2, 2, 6), a64.msr(EOIR1, 6)]
        else:
            words += write(HCR_EL2, RW | rng.choice([IMO | FMO, IMO | FMO, IMO, 0, IMO | 1 << 7]))
    return words


def random_guest(rng: random.Random) -> list[int]:
    """Accesses of a guest, in any order."""
    words: list[int] = []
    for _ in range(rng.randint(2, 14)):
        kind = rng.choice("aaaeeepmirdbn")
        if kind == "a":
            words += [a64.mrs(1, IAR1), a64.add(2, 2, 1), a64.mul(2, 2, 1)]
        elif kind == "e":
            value = rng.choice([None, None, 50 + rng.randrange(4), 1023, 1 << 24 | 51])
            words += [*([] if value is None else a64.mov64(1, value)), a64.msr(EOIR1, 1)]
        elif kind == "p":
            words += write(PMR, rng.choice([0xFF, rng.randrange(256)]))
        elif kind == "m":
            words += [a64.mrs(4, PMR), a64.add(2, 2, 4)]
        elif kind == "i":
            words.append(rng.choice([a64.daifclr, a64.daifset])(3))
        elif kind == "r":
            words += [a64.mrs(5, rng.choice([RPR, HPPIR1, CTLR, BPR1])), a64.add(2, 2, 5)]
        elif kind == "d":
            words.append(a64.msr(DIR, 1))
        elif kind == "b":
            words += write(rng.choice([BPR1, CTLR]), rng.randrange(8))
        else:
            words += [a64.NOP] * rng.randint(1, 20)
    return words


def compare(seed: int, core: str) -> None:
    """Run the same accesses in compiled code and by Python alone."""
    rng = random.Random(seed)
    count = rng.randint(4, 20)
    pieces = [random_piece(rng) for _ in range(count)]
    guests = [random_guest(rng) for _ in range(count)]
    pstate = EL1H | rng.choice([0, MASKED])
    boards = [board_with(pieces, guests, r, core, pstate) for r in (Runner, ReferenceRunner)]
    for piece in (40, 200, 3000):
        for board in boards:
            board.run(piece)
        assert all_of(boards[0]) == all_of(boards[1])


@pytest.mark.parametrize("core", ["generic", "max"])
@pytest.mark.parametrize("seed", [8, 9, 16])
def test_compiled_code_and_python_do_the_same(seed: int, core: str) -> None:
    compare(seed, core)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 140))
def test_and_so_they_do_with_other_accesses(seed: int) -> None:
    compare(seed, "generic")
