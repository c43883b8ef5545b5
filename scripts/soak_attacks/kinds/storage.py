"""Flash, fw_cfg and virtio devices, driven by nonsense that is near enough to sense."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

from attack import AttackError

from spe_unicorn import Machine
from tests.support.small_programs import LOOP, program

STEPS = 600
RAM, RAM_SIZE = 0x4000_0000, 1 << 20
RINGS = RAM + 0x4_0000
FLASHES, FLASH = (0x0000_0000, 0x0400_0000), 64 << 20
FW_CFG, VIRTIO, PLACE = 0x0902_0000, 0x0A00_0000, 0x200
DISK = 64 << 10
PRINTED = 64 << 10
"""Bytes that the virtio console prints of one request at most."""
COMMANDS = (0x00, 0x10, 0x20, 0x40, 0x50, 0x60, 0x70, 0x90, 0x98, 0xD0, 0xE8, 0xFF, 0x01, 0x77)
REGISTERS = (0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x64, 0x70, 0x80, 0x84, 0x90, 0x94)


def _number(random: Random) -> int:
    return random.choice(
        (
            *(random.getrandbits(64), random.getrandbits(32), random.getrandbits(8)),
            *(RINGS + random.randrange(0x1000), RAM + random.randrange(RAM_SIZE)),
            *(0, 1, (1 << 64) - 1, RAM + RAM_SIZE - random.randrange(32)),
        )
    )


def _flash(random: Random, machine: Machine) -> None:
    bus, base = machine.board.peripherals.bus, random.choice(FLASHES)
    offset = random.choice((0, 4, random.randrange(FLASH), FLASH - random.randrange(1, 9)))
    size = random.choice((1, 2, 4, 4, 4, 8))
    offset = min(offset, FLASH - size)
    if random.random() < 0.3:
        bus.read(base + offset, size)
    else:
        command = random.choice(COMMANDS)
        value = random.choice((command | command << 16, _number(random), random.randrange(20)))
        bus.write(base + offset, size, value % (1 << 8 * size))


def _fw_cfg(random: Random, machine: Machine) -> None:
    bus, memory = machine.board.peripherals.bus, machine.board.memory
    request = RINGS + random.randrange(0x100) * 16
    control = random.getrandbits(5) | random.randrange(0x40) << 16
    memory.write(
        request, struct.pack(">IIQ", control, _number(random) % (1 << 32), _number(random))
    )
    offset, size = random.choice(((0, 8), (0, 1), (8, 2), (16, 8), (16, 8), (16, 4), (20, 4)))
    value = random.choice((int.from_bytes(request.to_bytes(8, "big"), "little"), _number(random)))
    bus.write(FW_CFG + offset, size, value % (1 << 8 * size))
    bus.read(FW_CFG + offset, size)


def _virtio(random: Random, machine: Machine) -> None:
    """A driver that mostly does what it should, with rings full of anything."""
    pe, memory = machine.board.pes[0], machine.board.memory
    place = VIRTIO + PLACE * random.choice((31, 30, 29, 28, 27, 27, random.randrange(32)))
    if random.random() < 0.3:
        pe.write(place + random.choice(REGISTERS), 4, _number(random) % (1 << 32))
        pe.read(place + random.randrange(PLACE - 8), random.choice((1, 2, 4, 8)))
        pe.write(place + 0x100 + random.randrange(0x20), random.choice((1, 2, 4)), 0xA5)
        machine.virtio_console.type(random.randbytes(random.choice((0, 1, 100))))
        return
    queue = random.choice((0, 0, 1))
    size = random.choice((1, 2, 4, 8, 256))
    for register, value in (
        *((0x70, 0), (0x70, 3), (0x24, 1), (0x20, 1), (0x70, 11), (0x30, queue), (0x38, size)),
        *((0x80, RINGS), (0x90, RINGS + 0x1000), (0xA0, RINGS + 0x2000), (0x44, 1), (0x70, 15)),
    ):
        pe.write(place + register, 4, value)
    sense = random.random() < 0.5
    for n in range(min(size, 8)):
        address, length, flags = RINGS + 0x3000 + 0x200 * n, 512, (1, 3, 2)[min(n, 2)]
        if n == 0:
            length = 16
        if not sense:
            address = random.choice((address, _number(random)))
            length = random.choice((1, 16, 512, 4096, _number(random) % (1 << 32)))
            flags = random.choice((0, 1, 1, 2, 3, 3, 4))
        elif random.random() < 0.2:
            flags = random.choice((0, 1, 2, 3))
        following = n + 1 if sense else random.choice((n + 1, _number(random)))
        row = struct.pack("<QIHH", address, length, flags, following % size)
        memory.write(RINGS + 16 * n, row)
        sector = random.choice((0, random.randrange(256), _number(random)))
        header = struct.pack("<IIQ", random.choice((0, 1, 1, 4, 8, 9)), 0, sector)
        memory.write(RINGS + 0x3000 + 0x200 * n, header)
    available = random.choice((1, 1, 2, size, _number(random) % (1 << 16)))
    memory.write(RINGS + 0x1000, struct.pack("<HH", random.getrandbits(1), available))
    pe.write(place + 0x50, 4, queue)


def attack(random: Random, folder: Path) -> int:
    """One machine with all of them; no file but those that may be written is another afterwards."""
    named = {name: folder / name for name in ("first", "second", "disk", "kept", "written", "blob")}
    for name, path in named.items():
        with path.open("wb") as file:
            file.write(random.randbytes(512))
            file.truncate(FLASH if name in ("first", "second") else DISK)
    before = {name: path.read_bytes() for name, path in named.items()}
    firmware = program(folder, LOOP)
    files = set(folder.iterdir())
    machine = Machine(
        firmware,
        ram=RAM_SIZE,
        el=1,
        pflash=(f"{named['first']},readonly", str(named["second"])),
        drive=(str(named["disk"]), f"{named['kept']},readonly", f"{named['written']},write"),
        fw_cfg=(f"opt/blob={named['blob']}",),
        entropy=True,
        virtio_console=True,
        secure=random.random() < 0.3,
        smp=random.choice((1, 2)),
    )
    with machine:
        machine.board.cpu.pc = RAM
        for _ in range(STEPS):
            random.choice((_flash, _fw_cfg, _virtio))(random, machine)
            machine.board.memory.write(RAM, LOOP)
            before_run = machine.virtio_console.position
            machine.run(operations=random.choice((1, 100, 12_000)))
            if machine.virtio_console.position - before_run > 2 * PRINTED:
                raise AttackError("the virtio console printed more than requests may")
    for name in ("first", "disk", "kept", "blob"):
        if named[name].read_bytes() != before[name]:
            raise AttackError(f"{name} was written")
    for name in ("second", "written"):
        if named[name].stat().st_size != len(before[name]):
            raise AttackError(f"{name} has another size")
    if set(folder.iterdir()) != files:
        raise AttackError("files have come or gone")
    return STEPS
