"""Virtio devices on the board: their places, their files, the same in each run."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.inputs import InputLog
from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.machine.storage import backing
from spe_unicorn.session.snapshot import SnapshotError
from tests.support.claims import all_objects, changed, held, unclaimed
from tests.support.small_programs import LOOP, program

SLOT_31, SLOT_30, SLOT_0 = 0x0A00_3E00, 0x0A00_3C00, 0x0A00_0000
RAM = 0x4002_0000
ISPENDR2 = 0x0800_0208
INTID_79 = 1 << 15


@pytest.fixture
def disk(tmp_path) -> Path:
    path = tmp_path / "disk"
    path.write_bytes(b"".join(bytes((n,)) * 512 for n in range(16)))
    return path


def machine(tmp_path, *drives: object, **options: object) -> Machine:
    file = program(tmp_path, LOOP)
    return Machine(file, drive=tuple(map(str, drives)), ram=1 << 20, **options)


def transfer(made: Machine, kind: int, sector: int, data: bytes = bytes(512)) -> tuple[bytes, int]:
    """One request to the disk in place 31, by hand: what is in its buffer then, and its status."""
    bus, memory = made.board.peripherals.bus, made.board.memory
    for register, value in (
        *((0x70, 0), (0x70, 3), (0x24, 0), (0x20, 0), (0x24, 1), (0x20, 1), (0x70, 11)),
        *((0x30, 0), (0x38, 4), (0x80, RAM), (0x90, RAM + 0x100), (0xA0, RAM + 0x200)),
        *((0x44, 1), (0x70, 15)),
    ):
        bus.write(SLOT_31 + register, 4, value)
    rows = ((RAM + 0x300, 16, 1, 1), (RAM + 0x400, 512, 3 - 2 * kind, 2), (RAM + 0x310, 1, 2, 0))
    for n, (address, size, flags, following) in enumerate(rows):
        row = address.to_bytes(8, "little") + size.to_bytes(4, "little")
        row += flags.to_bytes(2, "little") + following.to_bytes(2, "little")
        memory.write(RAM + 16 * n, row)
    memory.write(RAM + 0x100, bytes((0, 0, 1, 0, 0, 0)))
    memory.write(RAM + 0x200, bytes(4))
    memory.write(RAM + 0x300, bytes((kind, 0, 0, 0, 0, 0, 0, 0)) + sector.to_bytes(8, "little"))
    memory.write(RAM + 0x310, b"\xee")
    memory.write(RAM + 0x400, data)
    made.board.pes[0].write(SLOT_31 + 0x50, 4, 0)
    made.run(operations=9_980)
    assert (memory.read(RAM + 0x310, 1) or b"")[0] == 0xEE  # not before its time
    made.run(operations=50)
    return memory.read(RAM + 0x400, 512) or b"", (memory.read(RAM + 0x310, 1) or b"")[0]


def test_a_disk_is_in_the_highest_place_and_raises_its_interrupt(tmp_path, disk) -> None:
    made = machine(tmp_path, disk, entropy=True)
    bus = made.board.peripherals.bus
    assert [bus.read(slot + 8, 4) for slot in (SLOT_31, SLOT_30, SLOT_0)] == [2, 4, 0]
    assert [bus.read(slot + 4, 4) for slot in (SLOT_31, SLOT_30, SLOT_0)] == [2, 2, 1]
    assert transfer(made, 0, 5) == (b"\5" * 512, 0)
    assert bus.read(ISPENDR2, 4) & INTID_79


def test_writes_stay_in_the_machine(tmp_path, disk) -> None:
    before = disk.read_bytes()
    made = machine(tmp_path, disk)
    assert transfer(made, 1, 3, b"w" * 512)[1] == 0
    assert transfer(made, 0, 3) == (b"w" * 512, 0)
    assert disk.read_bytes() == before


def test_or_go_to_the_file_or_nowhere(tmp_path, disk) -> None:
    with machine(tmp_path, f"{disk},write") as made:
        assert transfer(made, 1, 3, b"w" * 512)[1] == 0
        assert disk.read_bytes()[3 * 512 : 4 * 512] == b"w" * 512
    assert transfer(machine(tmp_path, f"{disk},readonly"), 1, 4, b"v" * 512)[1] == 1
    assert disk.read_bytes()[4 * 512] == 4


def test_going_back_in_time_reads_again_what_a_file_held_and_writes_nothing(tmp_path, disk) -> None:
    with machine(tmp_path, f"{disk},write") as made:
        saved = made.save()
        log = made.board.inputs.log = InputLog()
        assert transfer(made, 0, 3) == (b"\3" * 512, 0)
        assert transfer(made, 1, 3, b"w" * 512)[1] == 0
        disk.write_bytes(bytes(16 * 512))
        made.restore(saved)
        log.replaying, log.cursor = True, 0
        assert transfer(made, 0, 3) == (b"\3" * 512, 0)
        assert transfer(made, 1, 3, b"w" * 512)[1] == 0
    assert disk.read_bytes() == bytes(16 * 512)


def test_what_was_written_is_part_of_a_saved_machine(tmp_path, disk) -> None:
    made = machine(tmp_path, disk)
    transfer(made, 1, 3, b"w" * 512)
    saved = made.save()
    transfer(made, 1, 3, b"v" * 512)
    made.restore(saved)
    assert transfer(made, 0, 3) == (b"w" * 512, 0)


def test_files_that_are_no_disks_are_refused(tmp_path, disk) -> None:
    small = tmp_path / "small"
    small.write_bytes(b"x" * 511)
    with pytest.raises(LoadError, match="small: has 511 bytes; a disk has 512 at least"):
        machine(tmp_path, small)
    with pytest.raises(LoadError, match="none: No such file"):
        machine(tmp_path, tmp_path / "none")
    with machine(tmp_path, disk), pytest.raises(LoadError, match="in use by another machine"):
        machine(tmp_path, f"{disk},write")
    with machine(tmp_path, disk), machine(tmp_path, f"{disk},readonly"):
        pass
    with pytest.raises(OptionError, match="`drive`: there are 32 places"):
        MachineOptions(shipped_firmware("hello"), drive=("x",) * 32, entropy=True)


def test_every_attribute_of_a_board_with_disks_and_flash_is_claimed(tmp_path) -> None:
    letters = tmp_path / "letters"
    letters.write_bytes(b"".join(bytes((ord("a") + n % 16,)) * 512 for n in range(128)))
    made = Machine(
        shipped_firmware("virtio_blk"),
        drive=(str(letters),),
        entropy=True,
        flash=True,
        share=(str(tmp_path),),
    )
    made.run(operations=3_000)
    things = all_objects(made)
    before = held(things)
    made.press_power_key()
    made.run(operations=300_000)
    assert made.console.text.endswith("1..21\n")
    assert unclaimed(all_objects(made)) == {}
    assert changed(things, before) == set()


@pytest.mark.parametrize("how", ["", ",readonly"])
def test_a_snapshot_goes_on_with_what_its_drive_held_and_nothing_else(how, disk, tmp_path):
    made = machine(tmp_path, f"{disk}{how}")
    made.run(operations=1000)
    snapshot = made.save()
    made.close()
    equal = machine(tmp_path, f"{disk}{how}")
    equal.restore(snapshot)
    assert equal.operations == 1000
    equal.close()
    with disk.open("r+b") as stream:
        stream.seek(15 * 512 + 511)
        stream.write(b"!")
    other = machine(tmp_path, f"{disk}{how}")
    other.run(operations=7)
    with pytest.raises(SnapshotError) as caught:
        other.restore(snapshot)
    said = f"`drive`: {disk} holds something else than it did then"
    assert str(caught.value) == f"the snapshot is of another machine: {said}"
    assert other.operations == 7


def test_a_drive_that_the_guest_writes_may_hold_anything(disk, tmp_path):
    made = machine(tmp_path, f"{disk},write")
    snapshot = made.save()
    assert transfer(made, 1, 3, b"?" * 512)[1] == 0
    made.restore(snapshot)
    assert disk.read_bytes()[3 * 512 :][:512] == b"?" * 512


def test_contents_are_told_apart(monkeypatch, tmp_path):
    for name, size in (("WHOLE", 1 << 18), ("_BEGINNING", 1 << 16), ("_PLACES", 8)):
        monkeypatch.setattr(backing, name, size)
    file = tmp_path / "file"
    found = set()
    whole, more = 1 << 18, 1 << 19
    contents = [
        *((16, 0, b""), (17, 0, b""), (16, 15, b"x"), (whole, 0, b""), (whole, whole - 1, b"x")),
        *((more, 0, b""), (more + 1, 0, b""), (more, 0, b"x"), (more, (1 << 16) - 1, b"x")),
        *((more, more - 1, b"x"), (more, more // 4, b"x" * (more // 7))),
    ]
    for size, at, data in contents:
        with file.open("wb") as stream:
            stream.truncate(size)
            stream.seek(at)
            stream.write(data)
        opened = backing.HostFile(f"{file},readonly")
        found.add(opened.digest())
        assert opened.digest() in found
        opened.close()
    assert len(found) == len(contents)
