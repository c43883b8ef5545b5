"""Boards whose PEs start in code written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spe_unicorn.arch.pe import EL1, EL3
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.boot.plan import BootPlan
from spe_unicorn.machine.console_ends import NO_CONSOLE, ConsoleEnds
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.symbols.table import SymbolTable
from tests.support import a64

RAM = 0x4000_0000
MIB = 1 << 20
MPIDR_EL1 = (3, 0, 0, 0, 5)
CORE = load_core("generic")
SYSTEM_OFF, SYSTEM_RESET = 0x8400_0008, 0x8400_0009
CPU_ON, CPU_OFF = 0xC400_0003, 0x8400_0002


def board_at(
    code: list[int],
    pes: int = 1,
    el: int = EL3,
    runner: type[Runner] = Runner,
    console: ConsoleEnds = NO_CONSOLE,
    **options: Any,
) -> Board:
    """A board with ``code`` at the start of RAM. At EL3 all PEs start there, else the first."""
    settings: dict[str, Any] = {"core": CORE, "ram": MIB, **options}
    board = Board(MachineOptions(smp=pes, **settings), console, runner)
    board.memory.fill(RAM, a64.code(code))
    board.firmware.conduit = "hvc" if el == EL1 else None
    board.reset(nonsecure=el != EL3)
    for pe in board.pes if el == EL3 else board.pes[:1]:
        pe.start(el, RAM)
    return board


def plan_at(entry: int) -> BootPlan:
    """A start at EL1 of what memory holds."""
    image = Image(Path("test"), entry, (), SymbolTable())
    return BootPlan(image, (), entry, EL1, (0, 0, 0, 0), b"", None, "hvc")


def psci(function: int, *arguments: int) -> list[int]:
    """A call by HVC."""
    words = a64.mov64(0, function)
    for number, value in enumerate(arguments, 1):
        words += a64.mov64(number, value)
    return [*words, a64.hvc(0)]
