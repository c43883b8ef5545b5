"""Ctrl-C while the machine goes back in time: it stands somewhere on the way, nothing is lost."""

from __future__ import annotations

import time
from pathlib import Path

from spe_unicorn import Machine
from spe_unicorn.debug.gdb.packets import frame
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import with_client
from tests.support.small_programs import program

ADR_X1, STR_X2 = 0x1004_0001, 0xF900_0022  # adr x1, . + 0x8000; str x2, [x1]
STORES = a64.code([ADR_X1, STR_X2, a64.add_imm(2, 2, 1), a64.b(-8)])
NEVER_WRITTEN = RAM + 0x8010
"""On the page that is, so that each store is looked at."""
OPERATIONS = 1_500_000
BEGIN = RAM.to_bytes(8, "little").hex().encode()


def test_ctrl_c_ends_a_way_back_and_the_machine_goes_on(tmp_path: Path) -> None:
    machine, plain = (Machine(program(tmp_path, STORES)) for _ in range(2))
    said: dict[str, bytes] = {}

    def talk(connect):
        client = connect()
        assert b"ReverseContinue+" in client.ask("qSupported")
        client.send(b"\x03" + frame(b"p20"))  # it stands already
        assert client.answer() == BEGIN
        client.send(frame(b"vCont;c") + b"\x03")
        said["run a little"] = client.answer()
        client.send(frame(b"vCont;c"))
        while machine.operations < OPERATIONS:
            time.sleep(0.01)
        client.send(b"\x03")
        said["run"] = client.answer()
        assert client.ask(f"Z2,{NEVER_WRITTEN:x},8") == b"OK"
        client.send(frame(b"bc") + b"\x03")
        said["back"] = client.answer()
        where = client.ask("p20")
        said["a step"] = client.ask("vCont;s:1")
        assert client.ask("p20") != where
        said["a step back"] = client.ask("bs")
        assert client.ask("p20") == where
        assert client.ask(f"z2,{NEVER_WRITTEN:x},8") == b"OK"
        said["to the beginning"] = client.ask("bc")
        assert client.ask("p20") == BEGIN

    outcome, held = with_client(machine, talk)
    signals = {what: answer[:3] for what, answer in said.items()}
    assert signals.pop("run a little") == signals.pop("run") == b"T02"
    first = b"replaylog" in said.pop("back")  # the way back was over before
    assert signals.pop("back") == (b"T05" if first else b"T02")
    assert set(signals.values()) == {b"T05"}
    assert [what for what, answer in said.items() if b"replaylog" in answer] == ["to the beginning"]
    assert held.said == []
    plain.run(operations=outcome.operations)
    assert (machine.pes[0].pc, machine.pes[0].x[2]) == (plain.pes[0].pc, plain.pes[0].x[2])
