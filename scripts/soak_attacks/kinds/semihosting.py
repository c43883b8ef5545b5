"""Semihosting calls with anything in their blocks; nothing outside the shared folder changes."""

from __future__ import annotations

from pathlib import Path
from random import Random

from attack import AttackError
from hostile import levels, program, run, value

from tests.support import a64 as a
from tests.support.random_programs import DATA

CALLS = 120
OPERATIONS = 20_000
HLT_SEMIHOSTING = 0xD45E_0000
BLOCK, NAME, ROOM = DATA, DATA + 0x1000, DATA + 0x2000
"""Where a call's fields, the name of a file, and bytes to read or write are."""
NUMBERS = (
    *range(0x01, 0x0B),
    *(0x0C, 0x0E, 0x0F, 0x10, 0x11, 0x12, 0x13, 0x15, 0x16, 0x18, 0x20, 0x30, 0x31),
)
NAMES = (
    *(b":tt", b":semihosting-features", b"a", b"b", b"deep/c", b"../secret", b"/etc/passwd", b""),
    *(b".", b"..", b"link", b"linked/secret", b"a/../../secret", b"\xff\xfe", b"n" * 300, b"x\0y"),
)
SECRET = b"nobody outside may read or write this"


def _store(address: int, stored: int) -> list[int]:
    return [*a.mov64(2, address), *a.mov64(3, stored), a.str_(3, 2)]


def _field(random: Random) -> int:
    return random.choice(
        (NAME, ROOM, random.randrange(12), random.randrange(300), 1 << 40, value(random))
    )


def _call(random: Random) -> list[int]:
    number = random.choice(NUMBERS) if random.random() < 0.9 else random.getrandbits(32)
    words = []
    if random.random() < 0.5:
        name = random.choice(NAMES)[:96]
        for at in range(0, len(name) + 1, 8):
            words += _store(NAME + at, int.from_bytes(name[at : at + 8].ljust(8, b"\0"), "little"))
        words += _store(BLOCK, NAME) + _store(BLOCK + 8, random.randrange(13))
        words += _store(BLOCK + 16, len(name))
        number = random.choice((number, 0x01, 0x0E, 0x0F))
    else:
        words += _store(BLOCK, random.choice((random.randrange(6), _field(random))))
        for place in (8, 16, 24):
            words += _store(BLOCK + place, _field(random))
    if number in (0x18, 0x20) and random.random() < 0.95:
        number = 0x10  # they end the program
    parameter = BLOCK if random.random() < 0.85 else value(random)
    return [*words, *a.mov64(0, number), *a.mov64(1, parameter), HLT_SEMIHOSTING]


def attack(random: Random, folder: Path) -> int:
    """One program of such calls, with a folder to share and a secret beside it."""
    start, target = levels(random)
    shared, secret = folder / "shared", folder / "secret"
    (shared / "deep").mkdir(parents=True)
    (shared / "a").write_bytes(b"contents of a\n" * 20)
    secret.write_bytes(SECRET)
    (shared / "link").symlink_to(secret)
    (shared / "linked").symlink_to(folder)
    code = [word for _ in range(CALLS) for word in _call(random)]
    elf = program(random, code, start=start, target=target)
    run(random, folder, elf, start, OPERATIONS, "--semihosting-dir", str(shared))
    known = {"shared", "secret", "hostile.elf", "trace", "facts.json", "out"}
    strange = {file.name for file in folder.iterdir() if file.name.split(".")[0] != "out"} - known
    if strange or secret.read_bytes() != SECRET:
        raise AttackError(f"outside the shared folder: {strange or 'the secret has changed'}")
    return CALLS
