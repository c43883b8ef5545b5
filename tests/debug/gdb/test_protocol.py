"""What no GDB sends: errors are the connection's, never the machine's."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

from spe_unicorn import Machine
from spe_unicorn.debug.gdb.packets import frame
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import with_client
from tests.support.small_programs import LOOP, program

DIGITS = b"0123456789abcdef,:;=-. x"
HELLO = shipped_firmware("hello")
LETTERS = b"?!gGpPmMXxzZHTqQvcCsSDkrRtiIbBdF0123456789abcdef:;,.#$}*\x03+-\x00\xff"


def test_packets_that_are_wrong_are_answered_and_change_nothing(tmp_path: Path) -> None:
    answers = {
        "": b"",
        "Xzz": b"E22",
        "m": b"E22",
        "m40000000": b"E22",
        "m-1,4": b"E22",
        "m40000000,-4": b"E22",
        "mffffffffffffffff,8": b"E14",
        "m0000000010000000000000000,4": b"E22",
        "M40000000,4:00": b"E.1 bytes came, and 4 were promised",
        "M0000000009000000,1:00": b"E.no memory at virtual address 0x9000000 for cpu 0 at EL1",
        "p7fffffff": b"E.there is no register 2147483647",
        "P0=00": b"E.x0 has 8 bytes, not 1",
        "P0=xyz": b"E22",
        "Z0,40000002,4": b"E.no A64 instruction is at 0x40000002 with 4 bytes",
        "Z0,40000000,2": b"E.no A64 instruction is at 0x40000000 with 2 bytes",
        "Z9,40000000,4": b"",
        "Z0": b"E22",
        "Hg9": b"E22",
        "Hgzz": b"E22",
        "T9": b"E22",
        "vCont;q": b"E22",
        "vCont;s:zz": b"E22",
        "vMustReplyEmpty": b"",
        "qXfer:features:read:other.xml:0,100": b"E00",
        "qXfer:features:read:target.xml:x": b"E22",
        "qRcmd,zz": b"E22",
    }
    found = {}

    def talk(connect):
        client = connect()
        for packet in answers:
            found[packet] = client.ask(packet)
        client.close()

    with_client(Machine(program(tmp_path, LOOP)), talk, operations=1000)
    assert found == answers


def test_a_stop_reply_has_the_registers_that_gdb_asks_for_first(tmp_path: Path) -> None:
    """By GDB's numbers: X29 is 29, SP 31, PC 32 and CPSR 33; packets have them in hexadecimal."""
    code = [a64.movz(n, 0x100 + n) for n in range(31)] + [a64.add_imm(31, 0, 0), a64.b(0)]

    def talk(connect):
        client = connect()
        assert client.ask("?") == b"T05thread:1;"
        client.ask(f"Z0,{RAM + 4 * 32:x},4")
        reply = client.ask("vCont;c").decode()
        values = [client.ask(f"p{n:x}").decode() for n in (29, 31, 32, 33)]
        expected = "".join(
            f"{n}:{value};" for n, value in zip(("1d", "1f", "20", "21"), values, strict=True)
        )
        assert reply == f"T05swbreak:;thread:1;{expected}"
        assert client.ask("?").decode() == reply
        assert values[:3] == [n.to_bytes(8, "little").hex() for n in (0x11D, 0x100, RAM + 128)]
        assert len(values[3]) == 8

    with_client(Machine(program(tmp_path, a64.code(code))), talk)


def test_a_pc_that_is_written_wakes_a_cpu_from_its_wfi(tmp_path: Path) -> None:
    code = [a64.WFI, a64.b(-4), a64.movz(5, 7), a64.b(0)]

    def talk(connect):
        client = connect()
        assert client.ask("vCont;c").startswith(b"O")  # why it stopped: nothing can wake it
        assert client.answer().startswith(b"T05")
        assert client.ask(f"P20={(RAM + 8).to_bytes(8, 'little').hex()}") == b"OK"
        client.ask("vCont;s:1")
        assert client.ask("p5") == (7).to_bytes(8, "little").hex().encode()

    with_client(Machine(program(tmp_path, a64.code(code))), talk)


def test_noise_ends_a_connection_and_the_next_one_is_served() -> None:
    machine = Machine(HELLO)
    chance = random.Random(14)

    def talk(connect):
        for _ in range(30):
            client = connect()
            noise = bytes(chance.choice(LETTERS) for _ in range(chance.randrange(1, 400)))
            with suppress(OSError):
                client.ask("?")
                client.send(noise.translate(None, b"kDcCsSvR"))
                client.send(b"$" + noise.translate(None, b"$#kDcCsSvR") + b"#00")
            client.close()
        client = connect()
        assert client.ask("?").startswith(b"T05")
        with suppress(OSError):
            client.send(b"$" + b"m" * (1 << 20))
            assert client.answer() == b""
        client.close()
        client = connect()
        assert client.ask("qSupported").startswith(b"PacketSize")
        assert client.ask("vCont;c").startswith(b"W00")

    _, held = with_client(machine, talk)
    assert machine.console.text.startswith("Hello from bare metal")
    assert any("outside a packet" in said for said in held.said)
    assert "a packet of more than 32784 bytes" in held.said[-1]


def test_random_packets_raise_nothing(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP))
    chance = random.Random(15)
    verbs = [b"m", b"M", b"X", b"p", b"P", b"Z", b"z", b"H", b"T", b"G", b"qXfer:features:read:"]
    verbs += [b"qRcmd,", b"vCont;", b"Qqemu.PhyMemMode:", b"qThreadExtraInfo,"]

    def talk(connect):
        client = connect()
        for _ in range(1500):
            tail = bytes(
                chance.choice(b"0123456789abcdef,:;=-. x") for _ in range(chance.randrange(24))
            )
            packet = chance.choice(verbs) + tail
            if packet[:6] == b"vCont;" and packet[6:7] in b"csrCS":
                continue
            client.send(frame(packet))
            client.answer()
        client.close()

    with_client(machine, talk, operations=1000)


def test_a_second_debugger_is_turned_away(tmp_path: Path) -> None:
    def talk(connect):
        first = connect()
        assert first.ask("?").startswith(b"T05")
        second = connect()
        assert second.answer() == b"E.another debugger holds this machine"
        assert second.answer() == b""
        assert first.ask("?").startswith(b"T05")

    _, held = with_client(Machine(program(tmp_path, LOOP)), talk, operations=1000)
    assert held.said == ["a second debugger was turned away: one holds this machine already"]


def test_one_that_goes_while_the_guest_runs_leaves_it_running(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP))

    def talk(connect):
        client = connect()
        assert client.ask("Z0,40000000,4") == b"OK"
        assert client.ask("z0,40000000,4") == b"OK"
        client.send(frame(b"c"))
        client.close()
        other = connect()  # which stops it
        assert other.ask("?").startswith(b"T05")

    outcome, held = with_client(machine, talk)
    assert outcome.operations > 0
    assert held.held[:3] == [True, False, True]
