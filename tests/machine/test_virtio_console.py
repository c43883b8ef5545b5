"""The virtio console on the board: its place, when input comes, waits, replays, snapshots."""

from __future__ import annotations

import struct

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.travel import Travel
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64 as a
from tests.support.small_programs import LOOP, program

SLOT_31, SLOT_30 = 0x0A00_3E00, 0x0A00_3C00
RAM = 0x4002_0000
LATENCY = 10_000
"""Operations: 10 us."""
WFI = 0xD503_207F
SAID = b"!\nyour name? hello, Ada\n"


def machine(tmp_path, words: bytes = LOOP, **options: object) -> Machine:
    """A machine whose console has one buffer of 16 bytes in its receive queue."""
    made = Machine(program(tmp_path, words), virtio_console=True, ram=1 << 20, **options)
    bus, memory = made.board.peripherals.bus, made.board.memory
    for register, value in (
        *((0x70, 0), (0x70, 3), (0x24, 0), (0x20, 0), (0x24, 1), (0x20, 1), (0x70, 11)),
        *((0x30, 0), (0x38, 4), (0x80, RAM), (0x90, RAM + 0x100), (0xA0, RAM + 0x200)),
        *((0x44, 1), (0x70, 15)),
    ):
        bus.write(SLOT_31 + register, 4, value)
    memory.write(RAM, struct.pack("<QIHH", RAM + 0x300, 16, 2, 0))
    memory.write(RAM + 0x100, struct.pack("<HHH", 0, 1, 0))
    made.board.pes[0].write(SLOT_31 + 0x50, 4, 0)
    return made


def received(made: Machine) -> bytes:
    used, size = struct.unpack("<2xH4xI", made.memory.read(RAM + 0x200, 12))
    return made.memory.read(RAM + 0x300, size) if used else b""


def test_it_is_in_the_place_below_disks_and_the_source_of_random_numbers(tmp_path):
    made = Machine(program(tmp_path, LOOP), virtio_console=True, entropy=True, ram=1 << 20)
    bus = made.board.peripherals.bus
    assert [bus.read(slot + 8, 4) for slot in (SLOT_31, SLOT_30)] == [4, 3]


@pytest.mark.parametrize("smp", [1, 2])
def test_what_is_typed_arrives_a_fixed_number_of_operations_later(tmp_path, smp):
    made = machine(tmp_path, smp=smp)
    made.run(operations=50_001)
    assert received(made) == b""
    made.virtio_console.type("hello")
    made.run(operations=LATENCY - 20)
    assert received(made) == b""
    made.run(operations=40)
    assert received(made) == b"hello"


def test_what_waits_already_comes_as_soon_as_there_is_a_buffer(tmp_path):
    made = machine(tmp_path)
    made.virtio_console.type("hello")
    made.run(operations=LATENCY + 20)
    assert received(made) == b"hello"


@pytest.mark.parametrize("smp", [1, 2])
def test_a_machine_that_sleeps_waits_for_what_is_typed_at_it(tmp_path, smp):
    typed = [b"", b"hello"]
    ends = ConsoleEnds(
        arrived_virtio=lambda size: typed.pop(0) if typed else b"",
        wait_virtio=lambda: bool(typed),
    )
    made = machine(tmp_path, a.code([WFI, a.b(-4)]), console=ends, smp=smp)
    assert made.run(operations=100_000).ending == "asleep"
    assert (received(made), typed) == (b"hello", [])


def test_a_snapshot_while_a_buffer_waits_takes_it_along(tmp_path):
    made = machine(tmp_path)
    made.run(operations=50_000)
    waiting = made.save()
    made.virtio_console.type("first")
    typed = made.save()
    made.run(operations=LATENCY + 20)
    assert received(made) == b"first"
    made.restore(waiting)
    assert received(made) == b""
    made.virtio_console.type("second")
    made.run(operations=LATENCY + 20)
    assert received(made) == b"second"
    made.restore(typed)
    made.run(operations=LATENCY + 20)
    assert received(made) == b"first"


def test_going_back_in_time_types_the_same_again_and_prints_nothing_twice():
    typed = [b"", b"A", b"", b"da", b"\nmore"]
    printed = bytearray()
    ends = ConsoleEnds(
        write_virtio=printed.extend,
        arrived_virtio=lambda size: typed.pop(0) if typed else b"",
    )
    made = Machine(shipped_firmware("virtio_console"), virtio_console=True, console=ends)
    travel = Travel(made.board)
    assert travel.run() is Ending.EXIT
    end, registers = travel.end, [made.pes[0].x[n] for n in range(31)]
    assert printed == SAID
    for at in (0, end // 3, end // 2, end - 1):
        travel.back_to(at)
        assert travel.run() is Ending.EXIT
        assert (travel.position, [made.pes[0].x[n] for n in range(31)]) == (end, registers)
    assert printed == SAID
    travel.close()


def test_the_firmware_prints_and_reads_a_line():
    made = Machine(shipped_firmware("virtio_console"), virtio_console=True)
    made.virtio_console.type("Ada\nmore")
    assert made.run(until="console:name? ").ending == "until"
    assert made.run(operations=1_000_000).exit_status == 0
    assert made.virtio_console.output == SAID
    assert made.console.text.endswith("1..18\n")


def test_there_are_32_places():
    with pytest.raises(ValueError, match="`drive`: there are 32 places"):
        Machine("hello", drive=("x",) * 32, virtio_console=True)
