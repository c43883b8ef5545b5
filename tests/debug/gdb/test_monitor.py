"""Words of the monitor at the bounds of what they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.output.line import record_line
from spe_unicorn.spe.record import Record
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import Client, with_client
from tests.support.samples import load, stream
from tests.support.small_programs import LOOP, program

TOP = (1 << 64) - 1


def said(folder: Path, *commands: str, records: Sequence[Record] = ()) -> list[str]:
    """What the monitor of a machine at EL1, which has written records, says to each command."""
    found: list[str] = []
    machine = Machine(program(folder, LOOP))

    def talk(connect: Callable[[], Client]) -> None:
        client = connect()
        machine.board.pes[0].unit.streamed(stream(records))
        for command in commands:
            text, answer = b"", client.ask(f"qRcmd,{command.encode().hex()}")
            while answer != b"OK":
                assert answer.startswith(b"O")
                text += bytes.fromhex(answer[1:].decode())
                answer = client.answer()
            found.append(text.decode().strip())

    with_client(machine, talk)
    return found


@pytest.mark.parametrize("words", ["-1", f"{TOP + 1:#x}", "0 el4", "0 -1", "0 1 2", "", "x"])
def test_translate_refuses_what_is_no_address_or_level(tmp_path: Path, words: str) -> None:
    (answer,) = said(tmp_path, f"translate {words}")
    assert "translate VA [EL]" in answer


def test_translate_takes_each_address_and_the_level_of_the_pe(tmp_path: Path) -> None:
    zero, top, level = said(
        tmp_path, "translate 0", f"translate {TOP:#x}", "translate 0x40000000 el3"
    )
    assert zero.endswith("at EL1")
    assert f"{TOP:#x}" in top
    assert top.endswith("at EL1")
    assert level.endswith("at EL3")
    assert "is physical address 0x40000000" in level


@pytest.mark.parametrize("event", ["irq", "exception", "buffer-full", "collision"])
def test_an_event_stops_and_stops_no_longer(tmp_path: Path, event: str) -> None:
    commands = (f"break-event {event}", f"break-event {event} off", f"break-event {event} on")
    on, off, wrong = said(tmp_path, *commands)
    assert (on, off) == (f"a cpu stops at {event}", f"{event} stops nothing")
    assert "break-event" in wrong
    assert "stops at" not in wrong


def test_a_stop_at_a_write_tells_what_the_register_holds_then(tmp_path: Path) -> None:
    """PMSCR_EL1 keeps E0SPE, E1SPE, CX, PA and TS, bits 0, 1, 3, 4 and 5; PCT is written as 0."""
    pmscr = (3, 0, 9, 9, 0)
    code = a64.code([*a64.mov64(0, 0xFFFF_FF3F), a64.msr(pmscr, 0), a64.mrs(1, pmscr), a64.b(0)])
    texts: list[str] = []

    def talk(connect: Callable[[], Client]) -> None:
        client = connect()
        client.ask(f"qRcmd,{b'break-sysreg PMSCR_EL1 rw'.hex()}")
        assert client.answer() == b"OK"
        for _ in range(2):
            texts.append(bytes.fromhex(client.ask("vCont;c")[1:].decode()).decode())
            assert client.answer().startswith(b"T05")

    with_client(Machine(program(tmp_path, code), el=1), talk)
    place = RAM + 4 * len(a64.mov64(0, 0xFFFF_FF3F))
    assert texts[0].startswith(f"PMSCR_EL1 was written at {place:#x}: 0x3b ")
    assert texts[1].startswith(f"PMSCR_EL1 was read at {place + 4:#x}: 0x3b ")


def test_records_are_ten_or_as_many_as_are_asked_for_up_to_4096(tmp_path: Path) -> None:
    counts = ["", "1", "4095", "4096", "4097", "5000"]
    found = said(tmp_path, *(f"records {count}" for count in counts), records=[load()] * 5000)
    assert [len(answer.splitlines()) for answer in found] == [10, 1, 4095, 4096, 4096, 4096]


def test_a_record_without_a_pc_is_shown_without_a_place(tmp_path: Path) -> None:
    nowhere, somewhere = load(pc=None), load()
    (answer,) = said(tmp_path, "records", records=[nowhere, somewhere])
    first, second = answer.splitlines()
    assert first == record_line(nowhere)
    assert second.endswith(f": {record_line(somewhere)}")
    assert "0x40000100" in second.partition(": ")[0]
