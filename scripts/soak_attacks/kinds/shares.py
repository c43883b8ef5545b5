"""9P near enough to sense, to a folder that the guest may change and one that it may not."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from random import Random

from attack import AttackError

from spe_unicorn import Machine
from tests.support.small_programs import LOOP, program

STEPS = 500
RAM, RAM_SIZE = 0x4000_0000, 1 << 20
RINGS, REQUEST, ANSWER = RAM + 0x4_0000, RAM + 0x5_0000, RAM + 0x6_0000
VIRTIO, PLACE, DEVICE = 0x0A00_0000, 0x200, 9
NAMES = (
    *(b"a", b"b", b"folder", b"link", b"up", b"fifo", b"new"),
    *(b"..", b".", b"", b"../outside", b"x\0"),
)
KINDS = (*range(8, 25, 2), 24, 26, 30, 32, 40, 50, 52, 54, 70, 72, 74, 76, 100, 104, 108)
COMMON = (110, 110, 110, 12, 12, 14, 116, 118, 118, 40, 26, 72, 74, 76, 20, 70, 120, 122)
PATTERNS = {
    8: "4", 12: "44", 14: "4n444", 16: "4nn4", 18: "4n4444", 20: "44n", 22: "4", 24: "48",
    26: "44444888888", 30: "44n", 32: "4n844", 40: "484", 50: "44", 52: "414884n", 54: "41884n",
    70: "44n", 72: "4n44", 74: "4n4n", 76: "4n4", 100: "4n", 102: "4nn4", 104: "44nn4", 108: "2",
    110: "44w", 116: "484", 118: "48d", 120: "4", 122: "4",
}  # fmt: skip
"""Fields by kind of message: bytes of a number, n a name, w names, d data."""


def _number(random: Random, size: int) -> bytes:
    value = random.choice(
        (
            *(random.randrange(6), random.randrange(6), random.randrange(6), 0, 1, 0o2102, 0o1001),
            *(0x1FF, 0x200, 4096, random.getrandbits(8 * size)),
            *((1 << 8 * size) - 1, 1 << 8 * size - 1),
        )
    )
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def _name(random: Random) -> bytes:
    name = random.choice(NAMES)
    if random.random() < 0.02:
        name = random.randbytes(random.choice((1, 255, 300, 5000)))
    return struct.pack("<H", len(name)) + name


def _message(random: Random) -> bytes:
    """A message; now and then one of a wrong size, or none at all."""
    kind = random.choice(COMMON if random.random() < 0.7 else KINDS)
    body = b""
    for field in PATTERNS.get(kind, "44"):
        if field == "n":
            body += _name(random)
        elif field == "w":
            count = random.choice((0, 1, 1, 1, 2, 3, 17))
            body += struct.pack("<H", count) + b"".join(_name(random) for _ in range(count))
        elif field == "d":
            data = random.randbytes(random.choice((0, 1, 100, 4000)))
            body += struct.pack("<I", len(data)) + data
        elif field == "4":
            fid = random.randrange(8).to_bytes(4, "little")
            body += fid if random.random() < 0.7 else _number(random, 4)
        else:
            body += _number(random, int(field))
    request = struct.pack("<IBH", 7 + len(body), kind, random.getrandbits(16)) + body
    if random.random() < 0.05:
        request = request[: random.randrange(len(request))] + random.randbytes(random.randrange(9))
    return request[:0xFFF0]


def _send(machine: Machine, place: int, request: bytes, room: int) -> None:
    """One request through the queue."""
    pe, memory = machine.board.pes[0], machine.board.memory
    memory.write(REQUEST, request)
    available = int.from_bytes(memory.read(RINGS + 0x1002, 2) or b"", "little")
    for n, (address, size, flags) in enumerate(((REQUEST, len(request), 1), (ANSWER, room, 2))):
        memory.write(RINGS + 16 * n, struct.pack("<QIHH", address, size, flags, 1))
    memory.write(RINGS + 0x1002, struct.pack("<H", (available + 1) & 0xFFFF))
    pe.write(place + 0x50, 4, 0)


def _start(random: Random, machine: Machine, place: int) -> None:
    """Begin anew: a queue, a version, and the folder as some fid."""
    pe, memory = machine.board.pes[0], machine.board.memory
    memory.write(RINGS, bytes(0x3000))
    for register, value in (
        *((0x70, 0), (0x70, 3), (0x24, 1), (0x20, 1), (0x24, 0), (0x20, 1), (0x70, 11)),
        *((0x30, 0), (0x38, 8), (0x80, RINGS), (0x90, RINGS + 0x1000), (0xA0, RINGS + 0x2000)),
        *((0x44, 1), (0x70, 15)),
    ):
        pe.write(place + register, 4, value)
    for request in (
        struct.pack("<IBHIH", 21, 100, 0, random.choice((4096, 65536)), 8) + b"9P2000.L",
        struct.pack("<IBHIIHHI", 23, 104, 0, 0, 0xFFFF_FFFF, 0, 0, 0),
        struct.pack("<IBHIIHH", 18, 110, 0, 0, 1, 1, 1) + b"a",
        struct.pack("<IBHIIHH", 23, 110, 0, 0, 2, 1, 6) + b"folder",
        struct.pack("<IBHIIH", 17, 110, 0, 0, 3, 0),
        struct.pack("<IBHII", 15, 12, 0, random.choice((1, 3)), random.choice((0, 2))),
    ):
        _send(machine, place, request, 0x8000)
        machine.run(operations=11_000)


def _tree(folder: Path) -> dict[str, object]:
    """What is below a folder: contents, and what links lead to."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        status = path.lstat()
        kept: object = status.st_mode
        if path.is_symlink():
            kept = os.readlink(path)
        elif path.is_file():
            kept = (status.st_mode, path.read_bytes())
        found[name] = kept
    return found


def _fill(folder: Path) -> None:
    (folder / "folder").mkdir(parents=True)
    for name in ("a", "b", "folder/a"):
        (folder / name).write_bytes(name.encode() * 100)
    (folder / "link").symlink_to("../outside/secret")
    (folder / "up").symlink_to("..")
    os.mkfifo(folder / "fifo")


def attack(random: Random, folder: Path) -> int:
    """One machine; nothing outside the folder that may be changed is another afterwards."""
    firmware = program(folder, LOOP)
    whole = folder / "whole"
    for name in ("changed", "kept", "outside"):
        _fill(whole / name)
    (whole / "outside/secret").write_bytes(b"secret")
    before = _tree(whole)
    options = (str(whole / "changed"), f"{whole / 'kept'},readonly")
    with Machine(firmware, ram=RAM_SIZE, share=options) as machine:
        places = (VIRTIO + 31 * PLACE, VIRTIO + 30 * PLACE)
        place = random.choice(places)
        for step in range(STEPS):
            if step % 20 == 0:
                place = random.choice(places)
                _start(random, machine, place)
            room = 0x8000 if random.random() < 0.98 else random.choice((0, 7, 11, 30))
            _send(machine, place, _message(random), room)
            machine.board.memory.write(RAM, LOOP)
            machine.run(operations=11_000)
    after = _tree(whole)
    for name in before.keys() | after.keys():
        if not name.startswith("changed/") and before.get(name) != after.get(name):
            raise AttackError(f"{name} was changed")
    made = {name for name, kept in after.items() if isinstance(kept, str)}
    if not made <= {n for n, kept in before.items() if isinstance(kept, str)} | {
        name for name in made if after[name] in ("../outside/secret", "..")
    }:
        raise AttackError("the guest made a symbolic link")
    return STEPS
