"""`monitor who REG` goes back to the last write of a System register.

The positions that are expected are worked out by hand from the programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import GDB, with_client, with_gdb
from tests.support.small_programs import program

TPIDR_EL1, TPIDR_EL2 = (3, 0, 13, 0, 4), (3, 4, 13, 0, 2)
CONTEXTIDR_EL1 = (3, 0, 13, 0, 1)
CPU_ON = 0xC400_0003
ROUND = [
    a64.add_imm(0, 0, 1),  # 0
    a64.msr(TPIDR_EL1, 0),  # 1
    a64.mrs(2, TPIDR_EL1),  # 2
    a64.b(-12),  # 3
]
WITH_CONTEXT = [ROUND[0], a64.msr(CONTEXTIDR_EL1, 0), a64.mrs(2, CONTEXTIDR_EL1), ROUND[3]]
"""The same with a register that the host knows; the engine alone has TPIDR_EL1."""
OPERATIONS = len(ROUND)
MSR = RAM + 4


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots close to each other, so that there are many."""
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 7)
    monkeypatch.setattr(travelling, "_FOR_A_PAGE", 0)


def command(client, text: str) -> str:
    """Have the monitor do something; what it says."""
    said = b""
    answer = client.ask(f"qRcmd,{text.encode().hex()}")
    while answer != b"OK":
        assert answer.startswith(b"O")
        said += bytes.fromhex(answer[1:].decode())
        answer = client.answer()
    return said.decode()


def go(client, packet: str) -> bytes:
    """Have the machine go on; the stop reply, after sentences about it."""
    said = client.ask(packet)
    while said.startswith(b"O"):
        said = client.answer()
    return said


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("steps", range(2, 2 + 3 * OPERATIONS))
def test_the_last_write_is_found_from_every_place(tmp_path: Path, steps: int) -> None:
    """Also the one that was made just before, and whatever else stops the machine."""
    machine = Machine(program(tmp_path, a64.code(ROUND)))
    rounds = (steps - 2) // OPERATIONS
    write = 1 + OPERATIONS * rounds

    def talk(connect):
        client = connect()
        for _ in range(steps):
            go(client, "vCont;s:1")
        assert client.ask(f"Z0,{RAM:x},4") == client.ask(f"Z0,{MSR + 4:x},4") == b"OK"
        command(client, "break-sysreg TPIDR_EL1 r")
        said = command(client, "who tpidr_el1")
        assert machine.operations == write
        assert machine.pes[0].pc == MSR
        assert machine.pes[0].x[0] == rounds + 1
        first, last = said.splitlines()
        assert first.startswith(f"operation {write}: cpu 0 wrote TPIDR_EL1 at {MSR:#x}")
        assert re.search(rf" EL1: {rounds + 1:#x}\b", first)
        assert "maintenance flush register-cache" in last
        # the way forwards is the same, and stops there again
        for expected in range(write + 1, steps + 1):
            go(client, "vCont;s:1")
            assert machine.operations == expected
        for earlier in range(rounds, -1, -1):
            command(client, "who TPIDR_EL1")
            assert machine.operations == 1 + OPERATIONS * earlier
        assert "no instruction" in command(client, "who TPIDR_EL1")

    with_client(machine, talk)


def test_where_nothing_is_found_the_machine_stays(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, a64.code(ROUND)))

    def talk(connect):
        client = connect()
        assert "nothing of the past is kept" in command(client, "who TPIDR_EL1")
        for _ in range(20):
            go(client, "vCont;s:1")
        pc = machine.pes[0].pc
        said = command(client, "who TPIDR_EL0")
        assert said == (
            "no instruction of cpu 0 wrote TPIDR_EL0 since operation 0: the machine stands where it"
            " stood\n"
        )
        assert (machine.operations, machine.pes[0].pc) == (20, pc)
        assert command(client, "who") == "it is written: monitor who REG\n"
        assert "there is no System register `x0`" in command(client, "who x0")
        assert machine.operations == 20
        # an event that rested stops again
        command(client, "break-sysreg TPIDR_EL1 w")
        assert go(client, "vCont;c").startswith(b"T05")
        assert machine.operations == 22

    with_client(machine, talk)


def test_a_write_that_raised_an_exception_is_none(tmp_path: Path) -> None:
    """MSR of a register of EL2 at EL1 is undefined: it writes nothing."""
    code = [*ROUND[:3], a64.msr(TPIDR_EL2, 0)]
    machine = Machine(program(tmp_path, a64.code(code)), el=1)

    def talk(connect):
        client = connect()
        for _ in range(4):
            go(client, "vCont;s:1")
        assert "no instruction" in command(client, "who TPIDR_EL2")
        assert "operation 1:" in command(client, "who TPIDR_EL1")

    with_client(machine, talk)


@pytest.mark.parametrize("name", ["ICC_PMR_EL1", "icv_pmr_el1", "S3_0_C4_C6_0"])
def test_the_interface_of_the_gic_has_the_name_of_its_instruction(
    tmp_path: Path, name: str
) -> None:
    code = [a64.movz(0, 0x70), a64.msr((3, 0, 4, 6, 0), 0), a64.b(0)]
    machine = Machine(program(tmp_path, a64.code(code)))

    def talk(connect):
        client = connect()
        for _ in range(6):
            go(client, "vCont;s:1")
        said = command(client, f"who {name}")
        assert f"operation 1: cpu 0 wrote ICC_PMR_EL1 at {MSR:#x} EL1: 0x70" in said

    with_client(machine, talk)


def test_what_gdb_wrote_is_told(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, a64.code(WITH_CONTEXT)))

    def talk(connect):
        client = connect()
        for _ in range(9):
            go(client, "vCont;s:1")
        command(client, "set CONTEXTIDR_EL1 0x77")
        go(client, "vCont;s:1")  # the MSR writes 3
        said = command(client, "who CONTEXTIDR_EL1")
        assert "GDB itself" not in said
        assert machine.operations == 9
        said = command(client, "who CONTEXTIDR_EL1")
        assert machine.operations == 5
        assert "GDB itself wrote registers or memory after that, at operation 9\n" in said

    with_client(machine, talk)


def two_pes(folder) -> Machine:
    """PE 0 starts PE 1; both then go round."""
    start = [
        a64.mrs(3, (3, 0, 0, 0, 5)),  # MPIDR_EL1
        *a64.mov64(0, CPU_ON),
        *a64.mov64(1, 1),
        *a64.mov64(2, RAM + 0x100),
        0xD400_0002,  # HVC #0
    ]
    jump = a64.b(0x100 - 4 * len(start))
    code = a64.code([*start, jump]).ljust(0x100, b"\0") + a64.code([a64.movz(0, 0), *WITH_CONTEXT])
    return Machine(program(folder, code), smp=2)


@pytest.mark.parametrize("number", [0, 1])
def test_of_two_pes_the_selected_one_is_meant(tmp_path: Path, number: int) -> None:
    machine = two_pes(tmp_path)

    def talk(connect):
        client = connect()
        pe = machine.pes[number]
        while not 5 <= pe.registers["CONTEXTIDR_EL1"].value < 100:  # it is unknown at reset
            go(client, f"vCont;s:{number + 1:x}")
        end = machine.operations
        client.ask(f"Hg{number + 1:x}")
        for _ in range(4):
            held = pe.registers["CONTEXTIDR_EL1"].value
            said = command(client, "who CONTEXTIDR_EL1")
            assert f": cpu {number} wrote CONTEXTIDR_EL1 at {RAM + 0x108:#x}" in said
            assert f" EL1: {held:#x}" in said
            assert (pe.pc, pe.x[0]) == (RAM + 0x108, held)
            assert pe.registers["CONTEXTIDR_EL1"].value == held - 1
            assert machine.operations < end
            end = machine.operations

    with_client(machine, talk)


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
@pytest.mark.parametrize("make", [None, two_pes])
def test_the_real_gdb_goes_on_from_there(tmp_path: Path, make: Callable[..., Any] | None) -> None:
    machine = make(tmp_path) if make else Machine(program(tmp_path, a64.code(WITH_CONTEXT)))
    msr = RAM + 0x108 if make else MSR
    session = with_gdb(
        machine,
        [
            *(
                f"break *{msr + 8:#x} if $x0 == 7",
                "continue",
                "delete",
                "monitor who CONTEXTIDR_EL1",
            ),
            *("maintenance flush register-cache", "p/x $pc", "p $x0"),
            *("monitor regs CONTEXTIDR_EL1", "stepi", "p/x $pc", "monitor regs CONTEXTIDR_EL1"),
            *("reverse-stepi", "p/x $pc"),
        ],
        tmp_path,
    )
    values = [line.split("= ")[1] for line in session.lines if line.startswith("$")]
    assert values == [f"{msr:#x}", "7", f"{msr + 4:#x}", f"{msr:#x}"]
    assert re.findall(r"^CONTEXTIDR_EL1\((0x\w+)", session.text, re.M) == ["0x6", "0x7"]
    assert re.search(r"operation \d+: cpu \d wrote CONTEXTIDR_EL1 at ", session.text)
