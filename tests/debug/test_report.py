from __future__ import annotations

import re
from pathlib import Path

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.debug.backtrace import backtrace
from spe_unicorn.debug.report import failure_report
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.options import MachineOptions
from tests.support import a64 as a
from tests.support.elf_builder import RAM, Sym
from tests.support.small_boards import CPU_ON, board_at, psci
from tests.support.small_programs import CRASH, CRASH_SYMBOLS, EXIT_7, program, words


def run(folder: Path, code: bytes, symbols=(), **options) -> Board:
    board = Board(MachineOptions(ram=1 << 20, **options))
    board.load(load_elf(program(folder, code, symbols), RAM, 1 << 20))
    board.run(1000)
    return board


@pytest.fixture
def crashed(tmp_path: Path) -> Board:
    return run(tmp_path, CRASH, CRASH_SYMBOLS)


def test_the_report_begins_with_the_reason_and_the_place(crashed: Board) -> None:
    lines = failure_report(crashed).splitlines()
    assert lines[0].startswith(
        "spe-unicorn: the guest cannot go on: DataAbort (write, external abort)"
        " ESR 0x96000050 FAR 0xdead0004, and no code at its vector 0x"
    )
    assert lines[1] == "  PC   0x40000024 <leaf+0x4> at EL1: b9000420  str w0, [x1, #4]"


def test_the_report_has_every_register(crashed: Board) -> None:
    report = failure_report(crashed)
    for number in range(31):
        assert f"X{number} " in report
    assert "SP   0000000040000070" in report
    assert "PSTATE 0x3c5: ---- DAIF EL1h" in report
    assert "ESR_EL1 0x96000050  FAR_EL1 0xdead0004  ELR_EL1 0x40000024" in report


def test_the_report_says_what_is_wrong_with_the_address(crashed: Board) -> None:
    report = failure_report(crashed)
    assert "nothing is at physical address 0xdead0004; RAM is 0x40000000 to 0x400fffff" in report


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (0x0, "X0 holds its address if `firmware` leaves room at 0x40000000"),
        (0x10_0000, "`bios` and `pflash` bring flash"),
        (0x0E00_0000, "with `secure` only"),
        (0x2000_0000, "RAM begins at 0x40000000, above"),
        (0x0B00_0000, "where QEMU's virt has them"),
        (0x4100_0000, "give it more by `ram`"),
    ],
)
def test_a_hint_says_what_is_wanting_at_the_address(
    tmp_path: Path, address: int, text: str
) -> None:
    code = words(
        0xD2800000 | (address & 0xFFFF) << 5,  # mov x0, #address
        0xF2A00000 | (address >> 16) << 5,
        0xB9400001,  # ldr w1, [x0]
    )
    report = failure_report(run(tmp_path, code, [Sym("reads", RAM, 12)]))
    hints = [line for line in report.splitlines() if line.startswith("hint: ")]
    assert text in hints[0]
    assert (
        hints[1] == "hint: set VBAR_EL1 to a table of exception vectors before anything can fault"
    )
    assert "PC   0x40000008 <reads+0x8> at EL1: b9400001  ldr w1, [x0]" in report
    assert f"nothing is at physical address {address:#x}" in report


def test_non_secure_software_is_told_that_secure_memory_is_not_its_own(tmp_path: Path) -> None:
    code = words(0xD2A1C000, 0xF9400001)  # mov x0, #0xe000000; ldr x1, [x0]
    report = failure_report(run(tmp_path, code, secure=True))
    assert "nothing is at physical address 0xe000000" in report
    assert "and for Secure state" in report


def test_a_return_to_aarch32_state_is_told_with_its_place_and_a_remedy(tmp_path: Path) -> None:
    code = words(
        0xD2800260,  # mov x0, #0x13
        0xD5184000,  # msr spsr_el1, x0
        0xD5184020,  # msr elr_el1, x0
        0xD69F03E0,  # eret
    )
    report = failure_report(run(tmp_path, code, [Sym("enters", RAM, 16)]))
    assert report.splitlines()[0].endswith("the guest switched to AArch32 state")
    assert "PC   0x4000000c <enters+0xc> at EL1: d69f03e0  eret" in report
    assert "hint: this machine executes AArch64 only: build everything for AArch64" in report


def test_the_backtrace_follows_frame_records_and_finds_the_caller_of_a_leaf(crashed: Board) -> None:
    # the leaf has made no frame record: X30 leads to main, main's record to _start
    assert backtrace(crashed.cpu, crashed.names) == [
        (RAM + 0x24, ""),
        (RAM + 0x1C, " (X30)"),
        (RAM + 0x10, ""),
    ]


def test_a_frame_pointer_that_leads_nowhere_ends_the_backtrace(tmp_path: Path) -> None:
    code = words(
        0xD2BBD5BD,  # mov x29, #0xdead0000
        0xAA1F03FE,  # mov x30, xzr
        0x00000000,  # udf #0
    )
    board = run(tmp_path, code)
    assert backtrace(board.cpu, board.names) == [(RAM + 8, "")]


def test_frame_records_in_a_circle_end_the_backtrace(tmp_path: Path) -> None:
    code = words(
        0x1000009D,  # adr x29, . + 16
        0xAA1F03FE,  # mov x30, xzr
        0x00000000,  # udf #0
        0x00000000,
        *(RAM + 0x10, 0, RAM + 4, 0),  # the caller's record is this one
    )
    board = run(tmp_path, code)
    assert backtrace(board.cpu, board.names) == [(RAM + 8, ""), (RAM, "")]


def test_an_address_that_holds_no_code_is_said_so(tmp_path: Path) -> None:
    code = words(
        0xD2BBD5A0,  # mov x0, #0xdead0000
        0xD61F0000,  # br x0
    )
    board = run(tmp_path, code)
    assert "PC   0xdead0000 at EL1: cannot be read" in failure_report(board)


def test_a_board_that_did_not_fail_has_no_report(tmp_path: Path) -> None:
    board = run(tmp_path, EXIT_7)
    assert board.handler.ending is Ending.EXIT
    with pytest.raises(ValueError, match="has not failed"):
        failure_report(board)


def test_a_failure_of_one_pe_also_says_where_the_others_are() -> None:
    board = board_at([*psci(CPU_ON, 1, RAM + 0x100, 0), a.b(0)], pes=3, el=EL1)
    board.memory.fill(RAM + 0x100, a.code([0]))
    assert board.run(100_000) is Ending.FAILED
    lines = failure_report(board).splitlines()
    assert "  on cpu 1" in lines
    assert any(re.fullmatch(r"cpu 0 at 0x400000\w\w EL1: 14000000  b #\w+", line) for line in lines)
    assert "cpu 2 is off" in lines
