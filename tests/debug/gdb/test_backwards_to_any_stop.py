"""`reverse-continue` stops at the last hit, whatever stops are set, in any mix.

The positions that are expected are worked out by hand from the program.
"""

from __future__ import annotations

from itertools import combinations, groupby
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import (
    GDB,
    ask_past_text,
    back_to_last_stop,
    on_to_next_stop,
    with_client,
    with_gdb,
)
from tests.support.small_programs import program

CELL, VECTORS = RAM + 0x2000, RAM + 0x800
TPIDR_EL1, CONTEXTIDR_EL1, VBAR_EL1 = (3, 0, 13, 0, 4), (3, 0, 13, 0, 1), (3, 0, 12, 0, 0)
BEFORE = [*a64.mov64(1, CELL), *a64.mov64(2, VECTORS), a64.msr(VBAR_EL1, 2)]
ROUND = [
    a64.add_imm(0, 0, 1),  # 0
    a64.msr(TPIDR_EL1, 0),  # 1
    a64.str_(0, 1),  # 2
    a64.svc(0),  # 3, then an ERET at the vector
    a64.msr(CONTEXTIDR_EL1, 0),  # 5
    a64.b(-20),  # 6
]
OPERATIONS = 7
"""Of a round: those of ROUND, and the ERET."""
BEGIN = len(BEFORE)
"""Operations before the first round; the address of its first operation is that many words on."""
START = RAM + 4 * BEGIN
RETURN = VECTORS + 0x200
CODE = a64.code([*BEFORE, *ROUND]).ljust(RETURN - RAM, b"\0") + a64.code([0xD69F_03E0])


def monitor(command: str) -> str:
    return f"qRcmd,{command.encode().hex()}"


STOPS: dict[str, tuple[str, int]] = {
    "breakpoint": (f"Z0,{START:x},4", 0),
    "breakpoint at the store": (f"Z0,{START + 8:x},4", 2),
    "breakpoint at the vector": (f"Z0,{RETURN:x},4", 4),
    "hardware breakpoint": (f"Z1,{START + 20:x},4", 6),
    "watchpoint": (f"Z2,{CELL:x},8", 2),
    "register": (monitor("break-sysreg TPIDR_EL1 w"), 2),
    "register after it": (monitor("break-sysreg CONTEXTIDR_EL1 w"), 6),
    "exception": (monitor("break-event exception"), 4),
}
"""The packet of each stop, and after how many operations of a round it stops."""
BREAKS = ("Z0", "Z1")
MIXES = [*combinations(STOPS, 1), *combinations(STOPS, 2), tuple(STOPS)]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots close to each other, so that there are many."""
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 7)
    monkeypatch.setattr(travelling, "_FOR_A_PAGE", 0)


@pytest.mark.sweep
@pytest.mark.parametrize("mix", MIXES, ids="+".join)
def test_each_hit_is_come_back_to_and_on_to(
    tmp_path: Path, mix: tuple[str, ...], often: None
) -> None:
    machine = Machine(program(tmp_path, CODE))
    rounds = 4
    last = BEGIN + OPERATIONS * rounds + 3
    hits = [BEGIN + OPERATIONS * n + STOPS[stop][1] for n in range(rounds + 1) for stop in mix]
    expected = sorted({hit for hit in hits if hit < last}, reverse=True)
    places = {
        int(packet[3:-2], 16) for packet, _ in map(STOPS.__getitem__, mix) if packet[:2] in BREAKS
    }
    back: list[int] = []
    on: list[int] = []

    def talk(connect):
        client = connect()
        for _ in range(last):
            client.ask("vCont;s:1")
        assert machine.operations == last
        for stop in mix:
            assert ask_past_text(client, STOPS[stop][0]) == b"OK"
        while (position := back_to_last_stop(client, machine)) is not None:
            back.append(position)
            assert len(back) <= len(expected)
        assert machine.operations == 0
        while len(set(on)) < len(expected):
            on.extend(on_to_next_stop(client, machine, places))

    with_client(machine, talk)
    assert back == expected
    assert [position for position, _ in groupby(on)] == expected[::-1]


@pytest.mark.sweep
@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_the_real_gdb_passes_many_hits_of_events(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, CODE)),
        [
            *("monitor break-sysreg TPIDR_EL1 w", "monitor break-event exception"),
            f"break *{START + 16:#x}",
            *["continue"] * 9,
            *["reverse-continue", "p/x $pc"] * 7,
            *("reverse-stepi", "p/x $pc", "continue", "p/x $pc"),
        ],
        tmp_path,
    )
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    register, vector, breakpoint_ = (f"{at:#x}" for at in (START + 8, RETURN, START + 16))
    assert values[:7] == [vector, register, breakpoint_] * 2 + [vector]
    assert values[7:] == [f"{START + 12:#x}", vector]
    assert "TPIDR_EL1 was written at" in session.text


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_a_store_with_a_breakpoint_is_a_hit_of_its_watchpoint_too(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, CODE)),
        [
            *(f"break *{START + 8:#x}", f"watch *(long*){CELL:#x}", *["continue"] * 5),
            *["reverse-continue", "p/x $pc", f"p *(long*){CELL:#x}"] * 2,
        ],
        tmp_path,
    )
    hits = [line for line in session.lines if line.startswith(("Breakpoint 1,", "New value"))]
    assert hits[:5] == [hits[0], "New value = 1", hits[0], "New value = 2", hits[0]]
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    assert values == [f"{START + 8:#x}", "1", f"{START + 8:#x}", "0"]


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_an_event_stops_after_an_operation_with_a_breakpoint(tmp_path: Path) -> None:
    """GDB steps over the breakpoint where the machine stands, and hears of the event then."""
    session = with_gdb(
        Machine(program(tmp_path, CODE)),
        [
            "monitor break-sysreg TPIDR_EL1 w",
            f"break *{START + 4:#x}",
            *["continue", "p/x $pc"] * 5,
        ],
        tmp_path,
    )
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    place, after = f"{START + 4:#x}", f"{START + 8:#x}"
    assert values == [place, after, place, after, place]
    assert session.lines.count("Program received signal SIGINT, Interrupt.") == 2
