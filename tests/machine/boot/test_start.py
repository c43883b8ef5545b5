from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spe_unicorn.arch.pe import EL2
from spe_unicorn.cores.profile import load_core
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.plan import BootPlan, Piece, boot_plan
from spe_unicorn.machine.options import MachineOptions
from tests.support.boot_files import BRANCH_TO_ITSELF, MIB, arm64_image

CORE = load_core("generic")
RAM = 0x4000_0000


@pytest.fixture
def plan(tmp_path: Path) -> BootPlan:
    for name, data in (("kernel", arm64_image()), ("initrd", b"initrd")):
        (tmp_path / name).write_bytes(data)
    files = {"kernel": str(tmp_path / "kernel"), "initrd": str(tmp_path / "initrd")}
    return boot_plan(MachineOptions(core=CORE, el=2, **files))


@pytest.fixture
def board() -> Board:
    return Board(MachineOptions(core=CORE))


def test_pe_begins_as_planned(board: Board, plan: BootPlan) -> None:
    board.start(plan)
    assert (board.cpu.pc, board.cpu.el) == (RAM + 2 * MIB, EL2)
    assert [board.cpu.engine.x(n) for n in range(4)] == [RAM + 66 * MIB, 0, 0, 0]
    assert board.image is plan.image


def test_memory_holds_every_piece(board: Board, plan: BootPlan) -> None:
    board.start(plan)
    assert board.memory.read(RAM + 2 * MIB, 4) == BRANCH_TO_ITSELF
    assert board.memory.read(RAM + 64 * MIB, 8) == b"initrd\0\0"
    assert board.memory.read(RAM + 66 * MIB, len(plan.dtb)) == plan.dtb


def test_piece_where_there_is_no_memory_is_refused(board: Board, plan: BootPlan) -> None:
    nowhere = replace(plan, pieces=(Piece("stray", 0x2000_0000, b"x", 1),))
    with pytest.raises(LoadError, match="stray: the board has no memory at 0x20000000"):
        board.start(nowhere)
