"""Debuggers that go away while the guest runs: it runs on to its end, without their stops."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.gdb.packets import frame
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import GDB, with_client, with_gdb
from tests.support.running.processes import WALL_SECONDS
from tests.support.small_programs import EXIT_7, program

CELL = RAM + 0x2000
COUNT = 20_000_000
LONG = [
    *a64.mov64(0, CELL),
    *a64.mov64(2, COUNT),
    a64.subs_imm(2, 2, 1),
    a64.b_cond(a64.NE, -4),
    a64.msr((3, 0, 12, 0, 0), 0),  # VBAR_EL1, the first operation after the loop
    a64.str_(2, 0),
]
AFTER = RAM + 4 * (len(LONG) - 2)


def monitor(command: str) -> str:
    return f"qRcmd,{command.encode().hex()}"


STOPS = {
    "breakpoint": f"Z0,{AFTER:x},4",
    "hardware breakpoint": f"Z1,{AFTER:x},4",
    "watchpoint": f"Z2,{CELL:x},8",
    "register": monitor("break-sysreg VBAR_EL1 w"),
}


def wait_for_end(machine: Machine) -> None:
    deadline = time.monotonic() + WALL_SECONDS
    while machine.board.exit_status is None and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("history", [0, 1 << 26])
def test_a_stop_of_one_that_has_gone_is_none(tmp_path: Path, stop: str, history: int) -> None:
    machine = Machine(program(tmp_path, a64.code(LONG) + EXIT_7))

    def talk(connect):
        client = connect()
        client.ask(STOPS[stop])
        client.send(frame(b"vCont;c"))
        while machine.operations < 100:
            time.sleep(0.001)
        client.close()
        wait_for_end(machine)

    outcome, held = with_client(machine, talk, history=history)
    assert (outcome.ending, outcome.exit_status) == ("exit", 7)
    assert len(held.said) == 1
    assert held.said[0].endswith("; the machine runs on")


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_a_real_gdb_that_is_killed_leaves_the_guest_running(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, a64.code(LONG) + EXIT_7)),
        [
            f"break *{AFTER:#x}",
            "python import os, threading; threading.Timer(0.5, lambda: os._exit(0)).start()",
            "continue",
        ],
        tmp_path,
        operations=1_000_000_000,
    )
    assert (session.outcome.ending, session.outcome.exit_status) == ("exit", 7)
