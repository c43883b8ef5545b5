"""Where the PEs of a board are, in words."""

from __future__ import annotations

import pytest

from spe_unicorn import Machine
from spe_unicorn.arch.pe import EL0, EL1
from spe_unicorn.arch.registers.system import VBAR_EL1
from spe_unicorn.debug.whereabouts import whereabouts, whereabouts_text
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64 as a
from tests.support.small_boards import CPU_ON, RAM, board_at, psci

VECTORS = RAM + 0x800
FAR = 0x8000_0000
"""Where nothing is."""


def test_a_pe_that_has_taken_no_exception_says_so() -> None:
    board = board_at([a.NOP, a.b(0)], el=EL1)
    board.run(10)
    assert whereabouts_text(whereabouts(board)) == (
        "spe-unicorn: at 0x40000004 EL1: 14000000  b #0x40000004\n"
        "  last exception: none was taken\n"
    )


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_the_last_exception_is_told_with_its_place_and_time(runner: type[Runner]) -> None:
    board = board_at([a.NOP, a.svc(5), *a.mov64(1, FAR), a.ldr(2, 1)], el=EL1, runner=runner)
    # from the vector of synchronous exceptions one returns the first time, and then stays there
    board.memory.fill(VECTORS + 0x200, a.code([a.cbnz(3, 12), a.movz(3, 1), a.ERET, a.b(0)]))
    board.cpu.registers.set_raw(VBAR_EL1, VECTORS)
    board.run(2)
    (there,) = whereabouts(board)
    assert str(there.last_exception) == (
        "SVC #0x5 ESR 0x56000005 from 0x40000008 EL1 to EL1, after 2 operations"
    )
    board.run(20)
    (there,) = whereabouts(board)
    assert there.place.pc == VECTORS + 0x200 + 12
    loads = len(a.mov64(1, FAR))
    assert str(there.last_exception) == (
        "DataAbort (read, external abort) ESR 0x96000010 FAR 0x80000000"
        f" from {RAM + 8 + 4 * loads:#x} EL1 to EL1, after {2 + 3 + loads + 1} operations"
    )


def test_a_reset_forgets_the_last_exception() -> None:
    board = board_at([a.svc(5)], el=EL1)
    assert board.run(2) is Ending.FAILED
    assert whereabouts(board)[0].last_exception is not None
    board.pes[0].start(EL1, RAM)
    assert whereabouts(board)[0].last_exception is None


def test_each_pe_of_a_board_says_what_it_does() -> None:
    start_the_second = psci(CPU_ON, 1, RAM + 0x100, 0)
    board = board_at([*start_the_second, a.b(0)], pes=3, el=EL1)
    board.memory.fill(RAM + 0x100, a.code([a.WFI, a.b(-4)]))
    board.run(100_000)
    lines = whereabouts_text(whereabouts(board)).splitlines()
    loop = RAM + 4 * len(start_the_second)
    assert lines == [
        f"spe-unicorn: cpu 0 at {loop:#x} EL1: 14000000  b #{loop:#x}",
        "  last exception: none was taken",
        "spe-unicorn: cpu 1 at 0x40000100 EL1, asleep in a WFI: d503207f  wfi",
        "  last exception: none was taken",
        "spe-unicorn: cpu 2 is off",
    ]


def test_code_that_cannot_be_read_is_said_so() -> None:
    board = board_at([*a.mov64(1, FAR), a.br(1)], el=EL1)
    assert board.run(100) is Ending.FAILED
    assert "spe-unicorn: at 0x80000000 EL1: cannot be read\n" in whereabouts_text(
        whereabouts(board)
    )


def test_in_a_handler_the_interrupted_function_stands_among_the_calls() -> None:
    with Machine(shipped_firmware("pmu_driver"), core="max") as machine:
        machine.run(until="on_interrupt")
        (there,) = whereabouts(machine.board)
        taken = there.last_exception
        assert taken is not None
        names = [(call.symbol or "").partition("+")[0] for call in there.backtrace]
        interrupted = [n for n, call in enumerate(there.backtrace) if call.remark]
        assert names[0] == "on_interrupt"
        assert "trap_el1" in names
        (place,) = [n for n in interrupted if there.backtrace[n].remark == " (interrupted)"]
        assert names[place - 1] == "trap_el1"
        assert there.backtrace[place].pc == taken.place.pc
        assert names[place] == "count_loads"
        # of a function without a frame record the caller was in X30, which the handler has saved
        assert names[place:] == ["count_loads", "main", "_start"]
        machine.run(until="count_loads")
        (there,) = whereabouts(machine.board)
        assert not [call for call in there.backtrace if "interrupted" in call.remark]


def test_what_another_level_has_called_is_not_looked_for() -> None:
    board = board_at([a.svc(1)], el=EL0)
    board.memory.fill(VECTORS + 0x400, a.code([a.NOP, a.b(0)]))
    board.cpu.registers.set_raw(VBAR_EL1, VECTORS)
    board.run(3)
    (there,) = whereabouts(board)
    assert [(call.pc, call.remark) for call in there.backtrace] == [
        (VECTORS + 0x404, ""),
        (RAM + 4, " (interrupted at EL0)"),
    ]
