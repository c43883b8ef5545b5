"""IMPLEMENTATION DEFINED registers of a core: constants where the core has them."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.cores.profile import CoreError, load_core, parse_core
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

CPUECTLR_EL1, CPUPSELR_EL3 = (3, 0, 15, 1, 4), (3, 6, 15, 8, 0)
ATCR_EL2 = (3, 4, 15, 7, 0)
CPUACTLR5_EL1 = (3, 0, 15, 8, 0)
CPUPPMCR2_EL3 = (3, 6, 15, 2, 1)


def run(register: tuple[int, ...], el: int, core: str = "neoverse-n1") -> Board:
    """Ones are written and read back into X2; X7 counts what was executed without exception."""
    code = [
        a.movz(1, 0xFFFF),
        a.msr(register, 1),
        a.movz(2, 0xFFFF),
        a.mrs(2, register),
        a.add_imm(7, 7, 1),
        a.b(0),
    ]
    board = board_at(code, el=el, core=load_core(core))
    board.run(len(code))
    return board


@pytest.mark.parametrize(
    ("register", "el", "value"),
    [
        *((CPUECTLR_EL1, el, 0x9_6156_3010) for el in (EL1, EL2, EL3)),  # by the manual
        *((ATCR_EL2, el, 0) for el in (EL2, EL3)),
        (CPUPSELR_EL3, EL3, 0),
    ],
)
def test_it_is_a_constant_and_ignores_writes(register, el, value) -> None:
    board = run(register, el)
    assert (board.cpu.engine.x(2), board.cpu.engine.x(7)) == (value, 1)


@pytest.mark.parametrize(
    ("register", "el", "core"),
    [
        (ATCR_EL2, EL1, "neoverse-n1"),
        (CPUPSELR_EL3, EL2, "neoverse-n1"),
        (CPUACTLR5_EL1, EL3, "neoverse-n1"),
        (CPUECTLR_EL1, EL3, "generic"),
    ],
)
def test_elsewhere_it_is_undefined(register, el, core) -> None:
    board = run(register, el, core)
    assert board.cpu.engine.x(7) == 0


def test_successors_have_more() -> None:
    for core in ("neoverse-n2", "neoverse-v2"):
        assert run(CPUACTLR5_EL1, EL3, core).cpu.engine.x(7) == 1
        assert run(CPUECTLR_EL1, EL3, core).cpu.engine.x(2) == 0
    assert run(CPUPPMCR2_EL3, EL3, "neoverse-v1").cpu.engine.x(7) == 1
    assert run(CPUPPMCR2_EL3, EL3, "neoverse-n1").cpu.engine.x(7) == 0


def test_a_profile_may_name_its_own() -> None:
    text = 'name = "x"\nmidr = 1\nfeatures = ["EL3"]\nregisters = {}\n'
    named = text.format('{ MINE_EL1 = "S3_1_C11_C2_7" }')
    assert str(parse_core(named.encode(), "x").registers["MINE_EL1"]) == "S3_1_C11_C2_7"
    valued = parse_core(text.format('{ MINE_EL1 = "S3_1_C11_C2_7 = 0x12" }').encode(), "x")
    assert valued.register_values == {"MINE_EL1": 0x12}
    for wrong, why in (
        ('{ M_EL1 = "S3_1_C11_C2_7 = x" }', "registers.M_EL1: 'x' is no number of 64 bits"),
        (f'{{ M_EL1 = "S3_1_C11_C2_7 = {1 << 64}" }}', "is no number of 64 bits"),
        ('{ MINE = "S3_1_C11_C2_7" }', "MINE: a register's name ends with _EL1, _EL2 or _EL3"),
        ('{ M_EL1 = "S3_1_C10_C2_7" }', "M_EL1 = 'S3_1_C10_C2_7': allowed are"),
        ("{ M_EL1 = 3 }", "registers.M_EL1 = 3: allowed is a string"),
        ('["other"]', "registers = 'other': allowed are dynamiq, neoverse, neoverse-8, "),
        ("3", "registers = 3: allowed is a table"),
    ):
        with pytest.raises(CoreError) as refused:
            parse_core(text.format(wrong).encode(), "x")
        assert why in str(refused.value)


def test_qemu_max_is_who_firmware_for_virt_knows() -> None:
    board = board_at([a.mrs(0, (3, 0, 0, 0, 0)), a.b(0)], core=load_core("qemu-max"))
    board.run(1)
    assert board.cpu.engine.x(0) == 0x000F_0510
    assert board.cpu.pc == RAM + 4
