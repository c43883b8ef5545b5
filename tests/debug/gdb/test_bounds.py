"""The last value that is allowed and the first that is not, and what a write leads to."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.gdb import memory as memories
from spe_unicorn.debug.gdb.backwards import Backwards
from spe_unicorn.debug.gdb.breakpoints import BreakpointError, Breakpoints
from spe_unicorn.debug.gdb.connection import Connection, ConnectionLost
from spe_unicorn.debug.gdb.memory import DebuggerMemory
from spe_unicorn.debug.gdb.packets import ProtocolError, Reader, frame, unescape
from spe_unicorn.debug.gdb.recent import RecentRecords
from spe_unicorn.debug.gdb.replies import why
from spe_unicorn.debug.gdb.resume import parse_vcont, thread_id
from spe_unicorn.debug.travel import HISTORY
from spe_unicorn.host.ports import DebugReason, Ending
from spe_unicorn.host.run.debug_stops import Stopped
from spe_unicorn.signals import Signal
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import with_client
from tests.support.samples import load, stream
from tests.support.small_programs import LOOP, program

COUNTING = [a64.add_imm(0, 0, 1), a64.add_imm(1, 1, 1), a64.b(-8)]
LONGEST = 0x8010
"""Bytes of a packet on the wire before its `#`, the `$` among them: two times 0x4000, and 16."""


def test_the_longest_packet_is_taken_and_a_longer_one_is_refused_though_it_is_whole() -> None:
    assert Reader().feed(frame(b"x" * (LONGEST - 1))) == [b"x" * (LONGEST - 1)]
    with pytest.raises(ProtocolError, match=f"{LONGEST + 1} bytes, {LONGEST} are allowed"):
        Reader().feed(frame(b"x" * LONGEST))


@pytest.mark.parametrize(
    ("data", "plain"),
    [(b"a}]b", b"a}b"), (b"}}a", b"]a"), (b"}\x03}\x04", b"#$"), (b"}]}", b"}"), (b"}]]", b"}]")],
)
def test_an_escape_is_for_one_byte(data: bytes, plain: bytes) -> None:
    assert unescape(data) == plain


def test_there_are_32_watchpoints_and_1024_breakpoints() -> None:
    breakpoints = Breakpoints()
    for n in range(32):
        assert breakpoints.insert(2, 8 * n, 8)
    with pytest.raises(BreakpointError, match="32 watchpoints"):
        breakpoints.insert(2, 8 * 32, 8)
    assert len(breakpoints.watchpoints) == 32
    for n in range(1024):
        assert breakpoints.insert(0, 4 * n, 4)
    with pytest.raises(BreakpointError, match="1024 breakpoints"):
        breakpoints.insert(0, 4 * 1024, 4)
    assert len(breakpoints.addresses) == 1024
    # GDB manual, "Packets": inserting is idempotent, so that a packet may come twice
    assert breakpoints.insert(2, 0, 8)
    assert breakpoints.insert(0, 0, 4)
    assert (len(breakpoints.watchpoints), len(breakpoints.addresses)) == (32, 1024)
    breakpoints.remove(2, 0, 8)
    assert breakpoints.insert(2, 8 * 32, 8)


def test_what_was_set_is_removed_by_its_kind_and_others_stay() -> None:
    breakpoints = Breakpoints()
    software, hardware, write, unknown = 0, 1, 2, 5
    for kind in (software, hardware, write):
        assert breakpoints.insert(kind, 0x1000, 4)
    assert not breakpoints.is_hardware(0x1000)
    assert breakpoints.remove(software, 0x1000, 4)
    assert breakpoints.is_hardware(0x1000)
    assert breakpoints.addresses == {0x1000}
    assert breakpoints.remove(hardware, 0x1000, 4)
    assert breakpoints.addresses == frozenset()
    assert len(breakpoints.watchpoints) == 1
    for _ in range(2):  # what is not there is removed without an error
        assert breakpoints.remove(write, 0x1000, 4)
    assert breakpoints.watchpoints == ()
    assert breakpoints.insert(unknown, 0x1000, 4) is False  # GDB is told that there is no such kind
    assert breakpoints.remove(unknown, 0x1000, 4) is False


def test_the_reason_of_a_stop_in_gdb_s_words() -> None:
    breakpoints = Breakpoints()
    for kind, address in ((0, 0x1000), (1, 0x2000), (2, 0x3000), (3, 0x4000), (4, 0x5000)):
        breakpoints.insert(kind, address, 4)
    stopped = {reason: Stopped(reason) for reason in DebugReason}
    at_breakpoint = stopped[DebugReason.BREAKPOINT]
    assert why(at_breakpoint, breakpoints, 0x1000) == "swbreak:;"
    assert why(at_breakpoint, breakpoints, 0x2000) == "hwbreak:;"
    words = {0x3003: "watch:3003;", 0x4000: "rwatch:4000;", 0x5000: "awatch:5000;"}
    for address, said in words.items():
        watched = Stopped(DebugReason.WATCHPOINT, address=address)
        assert why(watched, breakpoints, 0x1000) == said
    for reason in (DebugReason.STEP, DebugReason.EVENT):
        assert why(stopped[reason], breakpoints, 0x1000) == ""


def test_the_last_byte_of_all_can_be_watched_and_nothing_after_it() -> None:
    breakpoints = Breakpoints()
    assert breakpoints.insert(3, (1 << 64) - 1, 1)
    assert breakpoints.kind_of_watch((1 << 64) - 1) == "rwatch"
    with pytest.raises(BreakpointError):
        breakpoints.insert(3, (1 << 64) - 1, 2)
    with pytest.raises(BreakpointError):
        breakpoints.insert(3, 0, 0)


def test_the_first_action_of_vcont_that_names_a_thread_is_its_own() -> None:
    assert parse_vcont(";s:1;c", range(3)).steps == {0}
    assert parse_vcont(";c:1;s", range(3)).steps == {1, 2}
    assert parse_vcont(";c:2;s:2;s:3", range(3)).steps == {2}
    ranges = parse_vcont(";r10,20:1;r30,40", range(2))
    assert ranges.ranges == {0: (0x10, 0x20), 1: (0x30, 0x40)}


def test_threads_are_numbered_in_hexadecimal_digits_and_minus_1_is_all() -> None:
    assert [thread_id(text) for text in ("1", "1f", "-1", "0")] == [1, 31, -1, 0]
    assert parse_vcont(";s:10;c", range(32)).steps == {15}
    with pytest.raises(ValueError, match="thread -2"):
        thread_id("-2")


def test_batches_of_records_are_kept_up_to_256_kib_and_the_oldest() -> None:
    units = [SimpleNamespace(streamed=Signal[[bytes]]()) for _ in range(2)]
    board: Any = SimpleNamespace(pes=[SimpleNamespace(unit=unit) for unit in units])
    recent = RecentRecords(board)
    batches = [stream([load(pc=0x1000 * n + 4 * k) for k in range(1024)]) for n in range(6)]
    assert {len(batch) for batch in batches} == {0x1_0000}
    for batch in batches:
        units[1].streamed(batch)

    def kept(pe: int, count: int) -> list[int]:
        return [record.pc.value for record in recent.last(pe, count) if record.pc]

    assert (kept(0, 9), kept(1, 0), len(kept(1, 10_000))) == ([], [], 5 * 1024)
    assert kept(1, 10_000)[0] == 0x1000
    assert kept(1, 2) == [0x5000 + 4 * 1022, 0x5000 + 4 * 1023]
    units[1].streamed(batches[0][:-64])
    assert len(kept(1, 10_000)) == 5 * 1024 - 1
    units[1].streamed(batches[0][:64])  # without the oldest batch there are 256 KiB now
    assert len(kept(1, 10_000)) == 5 * 1024
    units[1].streamed(batches[0][:64])  # and here there are more
    assert len(kept(1, 10_000)) == 4 * 1024 + 1
    units[0].streamed(batches[0][: 64 + 30])  # a record, and one that is cut off
    assert kept(0, 9) == [0]
    recent.close()
    units[0].streamed(batches[0])
    assert kept(0, 9) == [0]


class Stepped:
    """A board of one PE: its first run ends by a step after three operations, the next by a limit.

    It notes how many operations each run is given.
    """

    def __init__(self) -> None:
        self.given: list[int | None] = []
        self.executed = 100
        self.runner = self.stops = self.cpu = self
        self.pes = [self]
        self.number = self.pc = 0
        self.stopped: Stopped | None = None

    def run(self, operations: int | None, until: int) -> Ending:
        self.given.append(operations)
        if len(self.given) == 1:
            self.executed += 3
            self.stopped = Stopped(DebugReason.STEP)
            return Ending.STOPPED
        return Ending.LIMIT

    def resume(self, *stops: object, **events: bool) -> None:
        self.stopped = None


@pytest.mark.parametrize(("left", "given"), [(10, [10, 7]), (None, [None, None])])
def test_the_way_back_runs_no_further_than_it_was_told(
    left: int | None, given: list[int | None]
) -> None:
    anything: Any = Stepped()
    assert Backwards(anything, Breakpoints(), anything)._run(left, False) is Ending.LIMIT
    assert anything.given == given


def test_1024_packets_wait_for_an_answer_and_one_more_ends_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours)
        connection.stop_acknowledging()
        theirs.sendall(frame(b"g") * 1024)
        connection.receive()
        assert connection.waiting
        theirs.sendall(frame(b"g"))
        with pytest.raises(ConnectionLost, match="does not wait for answers"):
            connection.receive()


def test_ctrl_c_is_heard_after_the_packet_that_it_follows_and_forgotten_before_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours)
        theirs.sendall(b"\x03" + frame(b"vCont;c") + b"\x03\x03")
        connection.receive()
        assert connection.packet() == b"vCont;c"
        assert not connection.waiting
        assert connection.interrupted()
        assert not connection.interrupted()
        theirs.sendall(b"\x03")
        connection.receive()
        assert connection.interrupted()


def test_memory_over_the_end_of_a_page_is_that_of_both_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(program(tmp_path, LOOP))
    pages = {0x1000: RAM + 0x5000, 0x2000: RAM + 0x3000}

    def translate(pe, address):
        page = pages.get(address & ~0xFFF)
        found = memories.PASpace.NonSecure
        return None if page is None else (page + (address & 0xFFF), found)

    monkeypatch.setattr(memories, "translate", translate)
    memory, pe = DebuggerMemory(machine.board), machine.board.pes[0]
    assert memory.write(pe, 0x1FFC, b"abcdefgh")
    assert machine.memory.read(RAM + 0x5FFC, 8) == b"abcd\0\0\0\0"
    assert machine.memory.read(RAM + 0x3000, 4) == b"efgh"
    assert memory.read(pe, 0x1FFC, 8) == b"abcdefgh"
    assert memory.read(pe, 0x1000, 0x2001) == machine.memory.read(RAM + 0x5000, 0x1000) + (
        machine.memory.read(RAM + 0x3000, 0x1000)
    )
    assert not memory.write(pe, 0x2FFC, b"ABCDEFGH")  # and nothing of it is written
    assert machine.memory.read(RAM + 0x3FFC, 4) == bytes(4)


@pytest.mark.parametrize("smp", [1, 2])
def test_code_that_is_written_is_executed_also_where_it_was_translated(
    tmp_path: Path, smp: int
) -> None:
    machine = Machine(program(tmp_path, a64.code(COUNTING)), smp=smp)

    def talk(connect):
        client = connect()
        for _ in range(9):
            client.ask("vCont;s:1")
        assert client.ask("p0") == (3).to_bytes(8, "little").hex().encode()
        word = a64.code([a64.add_imm(0, 0, 16)])
        assert client.ask(f"M{RAM:x},4:{word.hex()}") == b"OK"
        for _ in range(3):
            client.ask("vCont;s:1")
        assert client.ask("p0") == (19).to_bytes(8, "little").hex().encode()

    with_client(machine, talk)


@pytest.mark.parametrize("history", [0, HISTORY])
def test_a_descriptor_that_is_written_counts_at_once(tmp_path: Path, history: int) -> None:
    """Without a past no snapshot is taken at the write, which would forget translations as well."""
    level1, level2, block = RAM + 0x10000, RAM + 0x11000, 1 << 10 | 3 << 8 | 1
    ones, twos = RAM + 0x20_0000, RAM + 0x40_0000
    tcr = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32  # 39 bits below, nothing above
    setup = [
        *(*a64.mov64(0, level1), a64.msr((3, 0, 2, 0, 0), 0)),  # TTBR0_EL1
        *(*a64.mov64(0, tcr), a64.msr((3, 0, 2, 0, 2), 0)),  # TCR_EL1
        *(a64.movz(0, 0xFF), a64.msr((3, 0, 10, 2, 0), 0)),  # MAIR_EL1
        *(*a64.mov64(0, 0x30D0_0801), a64.msr((3, 0, 1, 0, 0), 0)),  # SCTLR_EL1.M
        *(0xD503_3FDF, a64.movz(2, 0)),  # ISB
    ]
    # the virtual address 0 is read a hundred times, then comes the breakpoint
    loop = [a64.movz(1, 100), a64.ldr(0, 2), a64.sub_imm(1, 1, 1), a64.cbnz(1, -8), a64.b(-16)]
    machine = Machine(program(tmp_path, a64.code([*setup, *loop])), el=1)
    stop = RAM + 4 * (len(setup) + len(loop) - 1)

    def talk(connect):
        client = connect()

        def write(address: int, value: int) -> None:
            data = value.to_bytes(8, "little").hex()
            assert client.ask(f"M{address:x},8:{data}") == b"OK"

        for address, value in (
            *((ones, 1), (twos, 2), (level1, level2 | 3), (level1 + 8, RAM | block)),
            (level2, ones | block),
        ):
            write(address, value)
        assert client.ask(f"Z0,{stop:x},4") == b"OK"
        assert client.ask("vCont;c").startswith(b"T05")
        assert client.ask("p0") == (1).to_bytes(8, "little").hex().encode()
        for value, found in ((twos, 2), (ones, 1)):
            write(level2, value | block)
            client.ask("vCont;s:1")  # off the breakpoint
            assert client.ask("vCont;c").startswith(b"T05")
            assert client.ask("p0") == found.to_bytes(8, "little").hex().encode()

    with_client(machine, talk, history=history)


def test_another_level_s_address_is_translated_whatever_may_be_done_there(tmp_path: Path) -> None:
    """At EL2: a block of EL1's table that EL1 may only read, and EL0 not at all."""
    level1, read_only, block = RAM + 0x10000, 2 << 6, 1 << 10 | 3 << 8 | 1
    tcr = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32  # 39 bits below, nothing above
    registers = {"TTBR0_EL1": level1, "TCR_EL1": tcr, "MAIR_EL1": 0xFF, "SCTLR_EL1": 0x30D0_0801}
    said: list[str] = []

    def talk(connect):
        client = connect()
        data = (RAM | read_only | block).to_bytes(8, "little").hex()
        assert client.ask(f"M{level1:x},8:{data}") == b"OK"
        commands = [f"set {name} {value:#x}" for name, value in registers.items()]
        for command in (*commands, "translate 0x1234 el1", "translate 0x40001234 el1"):
            text = client.ask(f"qRcmd,{command.encode().hex()}")[1:].decode()
            said.append(bytes.fromhex(text).decode())
            assert client.answer() == b"OK"

    with_client(Machine(program(tmp_path, LOOP), el=2), talk)
    assert said[-2] == f"0x1234 is physical address {RAM + 0x1234:#x} (NonSecure) at EL1\n"
    assert said[-1] == "0x40001234 is not mapped for cpu 0 at EL1\n"


def test_a_range_ends_at_its_end_and_is_left_at_once_by_a_jump_before_it(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, a64.code(COUNTING)))

    def talk(connect):
        client = connect()
        client.ask(f"vCont;r{RAM:x},{RAM + 8:x}:1")
        assert machine.operations == 2
        assert client.ask("p20") == (RAM + 8).to_bytes(8, "little").hex().encode()
        client.ask(f"vCont;r{RAM + 4:x},{RAM + 12:x}:1")
        assert client.ask("p20") == RAM.to_bytes(8, "little").hex().encode()
        assert machine.operations == 3
        client.ask(f"vCont;r{RAM + 4:x},{RAM + 12:x}:1")  # comes to its first place, and goes on
        assert machine.operations == 6

    with_client(machine, talk)


@pytest.mark.parametrize("how", ["G", "P", "M", "X"])
def test_what_is_written_in_the_past_is_there_when_the_way_comes_there_again(
    tmp_path: Path, how: str
) -> None:
    machine = Machine(program(tmp_path, a64.code(COUNTING)))
    cell = RAM + 0x1000
    value = (500).to_bytes(8, "little")

    def talk(connect):
        client = connect()
        for _ in range(9):
            client.ask("vCont;s:1")
        for _ in range(3):
            client.ask("bs")
        packets = {
            "G": b"G" + value.hex().encode() + client.ask("g")[16:],
            "P": b"P0=" + value.hex().encode(),
            "M": b"M%x,8:%s" % (cell, value.hex().encode()),
            "X": b"X%x,8:%s" % (cell, value),
        }
        assert client.ask(packets[how]) == b"OK"
        said = client.ask("bs")
        assert b"are forgotten" in bytes.fromhex(said[1:].decode())  # text comes first
        client.answer()
        client.ask("vCont;s:1")
        found = client.ask("p0") if how in "GP" else client.ask(f"m{cell:x},8")
        assert found == value.hex().encode()
        assert machine.operations == 6

    with_client(machine, talk)
