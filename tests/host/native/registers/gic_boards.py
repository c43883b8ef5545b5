"""Boards whose PEs send each other interrupts, and all that they hold."""

from __future__ import annotations

from spe_unicorn.arch.pe import EL1
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64
from tests.support.small_boards import RAM, board_at

IAR1, EOIR1, SGI1R = (3, 0, 12, 12, 0), (3, 0, 12, 12, 1), (3, 0, 12, 11, 5)
VBAR_EL1 = (3, 0, 12, 0, 0)
NE = 1
"""A condition."""
CODE = 0x1_0000
"""Bytes for the code of each PE; its vectors are in the upper half."""
IRQ, FIQ = 0x280, 0x300
"""Vectors of the current Exception level with SP_ELx."""
SGI_BASE, FRAMES = 0x1_0000, 0x2_0000
IGROUPR, ISENABLER, IPRIORITYR = 0x80, 0x100, 0x400
IRM = 1 << 40


def sgi(intid: int, targets: int) -> int:
    return intid << 24 | targets


def board_of(
    programs: list[list[int]], runner: type[Runner] = Runner, core: str = "generic", **gic: int
) -> Board:
    """A board whose PEs run a program each, with all SGIs on, in Group 1, at priority 0x80."""
    board = board_at([a64.b(0)], len(programs), EL1, runner, core=core)
    redistributors = board.peripherals.gic.redistributors
    board.peripherals.gic.distributor.write(0, 4, 0b11)
    for number, (pe, program) in enumerate(zip(board.pes, programs, strict=True)):
        frame = number * FRAMES + SGI_BASE
        redistributors.write(frame + IGROUPR, 4, gic.get("groups", 0xFFFF))
        for intid in range(16):
            redistributors.write(frame + IPRIORITYR + intid, 1, gic.get(f"priority{intid}", 0x80))
        redistributors.write(frame + ISENABLER, 4, 0xFFFF)
        place = RAM + number * CODE
        board.memory.fill(place, a64.code([*program, a64.b(0)]))
        handler = [a64.mrs(20, IAR1), a64.add(21, 21, 20), a64.msr(EOIR1, 20), a64.ERET]
        for vector in (IRQ, FIQ):
            board.memory.fill(place + CODE // 2 + vector, a64.code(handler))
        if number:
            pe.start(EL1, place)
        interface = board.peripherals.gic.cpu_interfaces[number]
        interface.write(icc.ICC_PMR_EL1, 0xF0)
        interface.write(icc.ICC_IGRPEN0_EL1, 1)
        interface.write(icc.ICC_IGRPEN1_EL1, 1)
        interface.write(icc.ICC_CTLR_EL1, gic.get("eoimode", 0) << 1)
    return board


def x(board: Board, *registers: int, pe: int = 0) -> list[int]:
    return [board.pes[pe].cpu.engine.x(number) for number in registers]


def looks(board: Board) -> list[object]:
    """All that the PEs and the GIC hold."""
    return [
        [
            pe.cpu.engine.general(),
            pe.cpu.pc,
            pe.cpu.pstate,
            pe.cpu.executed,
            pe.cpu.entries.last_exception,
            cells.kept.tolist(),
            cells.found.tolist(),
            pe.interrupts.irq.level,
            pe.interrupts.fiq.level,
            pe.cpu.state.deliver,
            pe.interrupts.status.value,
        ]
        for pe, cells in zip(board.pes, board.peripherals.gic.routing.cells, strict=True)
    ]
