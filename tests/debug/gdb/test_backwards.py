"""Backwards with the real GDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import GDB, with_gdb
from tests.support.small_programs import CRASH, CRASH_SYMBOLS, program

pytestmark = pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")

CELL = RAM + 0x2000
STORES = [
    *a64.mov64(1, CELL),
    a64.movz(0, 0),
    a64.add_imm(0, 0, 1),  # loop
    a64.bl(0x10),  # leaf
    a64.str_(0, 1),
    a64.b(-12),
    0xD503201F,
    a64.add_imm(2, 2, 1),  # leaf
    a64.ret(),
]
LOOP = RAM + 4 * STORES.index(a64.add_imm(0, 0, 1))
STORE, LEAF = LOOP + 8, LOOP + 20
BREAK = f"break *{LEAF:#x}"


@pytest.fixture
def stores(tmp_path: Path) -> Machine:
    return Machine(program(tmp_path, a64.code(STORES)))


def test_back_to_a_breakpoint_and_by_one_operation(stores: Machine, tmp_path: Path) -> None:
    session = with_gdb(
        stores,
        [
            *(BREAK, "ignore 1 1000", "continue", "p $x0"),
            *("reverse-continue", "p $x0", "reverse-continue", "p $x0"),
            *("reverse-stepi", "p/x $pc", "stepi", "p/x $pc", "continue", "p $x0"),
        ],
        tmp_path,
    )
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    assert values == ["1001", "1000", "999", f"{LOOP + 4:#x}", f"{LEAF:#x}", "1000"]


def test_who_wrote_this_is_found_backwards(stores: Machine, tmp_path: Path) -> None:
    session = with_gdb(
        stores,
        [
            *(f"{BREAK} if $x0 == 500", "continue", f"p *(long*){CELL:#x}", "delete"),
            *(f"watch *(long*){CELL:#x}", "reverse-continue", "p/x $pc", f"p *(long*){CELL:#x}"),
            *("reverse-continue", "p/x $pc", f"p *(long*){CELL:#x}"),
        ],
        tmp_path,
    )
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    assert values[0] == "499"
    assert values[1:] == [f"{STORE:#x}", "498", f"{STORE:#x}", "497"]
    assert "Hardware watchpoint 2" in session.text


def test_at_the_beginning_gdb_is_told_so(stores: Machine, tmp_path: Path) -> None:
    session = with_gdb(
        stores,
        [BREAK, "continue", "delete", "reverse-continue", "p/x $pc", "reverse-stepi"],
        tmp_path,
    )
    assert session.met_the_beginning
    assert f"= {RAM:#x}" in session.text


def test_a_write_is_a_part_of_the_history(stores: Machine, tmp_path: Path) -> None:
    """LEAF adds 1 to X2 each time, after the breakpoint."""
    session = with_gdb(
        stores,
        [
            *(BREAK, "continue", "continue", "set $x2 = 77", "continue", "p $x2"),
            *("reverse-continue", "p $x2", "reverse-continue", "p $x2"),
            *("continue", "continue", "p $x2"),
        ],
        tmp_path,
    )
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    assert values == ["78", "77", "0", "78"]
    assert "forgotten" not in session.text


def test_a_write_in_the_past_forgets_what_came_after_it_and_says_so(
    stores: Machine, tmp_path: Path
) -> None:
    session = with_gdb(
        stores,
        [
            *(BREAK, "continue", "continue", "reverse-continue", "set $x2 = $x2", "continue"),
            *("p $x2", "reverse-continue", f"set *(long*){CELL:#x} = 5", "continue", "p $x2"),
            *("reverse-continue", f"p *(long*){CELL:#x}", "reverse-continue", "p/x $pc"),
        ],
        tmp_path,
    )
    said = [line for line in session.lines if "are forgotten" in line]
    assert len(said) == 1
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    assert values == ["1", "1", "5", f"{RAM:#x}"]
    assert session.met_the_beginning


def test_without_history_gdb_knows_that_it_cannot(stores: Machine, tmp_path: Path) -> None:
    session = with_gdb(stores, ["reverse-stepi"], tmp_path, history=0)
    assert "nothing of the past is kept: see --history" in session.text


def test_a_run_that_went_back_and_forth_ends_as_any(tmp_path: Path) -> None:
    plain, machine = (Machine(shipped_firmware("spe_irq_el1")) for _ in range(2))
    plain.run()
    session = with_gdb(
        machine,
        [
            *("break on_interrupt", "continue", "continue", "reverse-continue", "reverse-stepi"),
            *("delete", "continue"),
        ],
        tmp_path,
    )
    assert session.outcome.ending == "exit"
    assert machine.console.output == plain.console.output
    assert machine.pes[0].records.raw == plain.pes[0].records.raw
    assert machine.operations == plain.operations


def test_a_guest_that_cannot_go_on_is_taken_back(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, CRASH, CRASH_SYMBOLS)),
        ["continue", "p/x $pc", "reverse-stepi", "reverse-continue", "p/x $pc"],
        tmp_path,
    )
    assert session.met_the_beginning
    assert session.lines[-2:][0] == f"$2 = {RAM:#x}"
