"""A memory copy of many executions is one instruction to GDB: one step, one breakpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from spe_unicorn import Machine
from tests.host.pe.access.copy_words import EPILOGUE, MAIN, PROLOGUE, cpyf, sets
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import Client, with_client
from tests.support.small_programs import program

SIZE = 200_000
"""Bytes, which take four executions of a main instruction."""
TO, SOURCE = RAM + 0x10_0000, RAM + 0x20_0000
START = [*a64.mov64(1, TO), *a64.mov64(2, SOURCE), *a64.mov64(3, SIZE)]
MAIN_AT = RAM + 4 * (len(START) + 1)


def register(client: Client, number: int) -> int:
    return int.from_bytes(bytes.fromhex(client.ask(f"p{number:x}").decode()), "little")


def pc(client: Client) -> int:
    return register(client, 32)


def left(client: Client) -> int:
    """How many bytes are left: a negative number in X3 says so after the prologue."""
    return (1 << 64) - register(client, 3)


def machine(folder: Path, words: list[int], again: int) -> Machine:
    loop = [*START, *words, a64.b(-4 * (len(START) + again))]
    return Machine(program(folder, a64.code(loop)), core="max")


def test_a_step_executes_all_of_it(tmp_path: Path) -> None:
    copies = [cpyf(stage, 1, 2, 3) for stage in (PROLOGUE, MAIN, EPILOGUE)]

    def talk(connect: Callable[[], Client]) -> None:
        client = connect()
        client.ask(f"Z0,{MAIN_AT:x},4")
        client.ask("vCont;c")
        assert pc(client) == MAIN_AT
        assert client.ask("vCont;s:1").startswith(b"T05")
        assert pc(client) == MAIN_AT + 4
        assert left(client) == 16

    with_client(machine(tmp_path, copies, 3), talk)


def test_a_breakpoint_stops_before_it_once(tmp_path: Path) -> None:
    """It stops the next time in the next round."""
    fills = [sets(stage, 1, 3, 2) for stage in (PROLOGUE, MAIN, EPILOGUE)]

    def talk(connect: Callable[[], Client]) -> None:
        client = connect()
        client.ask(f"Z0,{MAIN_AT:x},4")
        for _ in range(3):
            client.ask("vCont;c")
            assert pc(client) == MAIN_AT
            assert left(client) == SIZE - 16

    with_client(machine(tmp_path, fills, 3), talk)
