"""Damaged kernels (Image, gzip, EFI zboot, ELF) and flash images, started."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated

from tests.support.boot_files import arm64_image, packed, zboot
from tests.support.elf_builder import Elf, Load

FILES = 12
CODE = bytes(place * place % 251 for place in range(0x100))
RAM = 0x4000_0000


def kernels() -> list[bytes]:
    """One of each format."""
    image = arm64_image(0x8_0000, length=64) + CODE
    elf = Elf([Load(RAM + 0x20_0000)], entry=RAM + 0x20_0000).build()
    return [image, packed(image), zboot(packed(image)), elf]


def attack(random: Random, folder: Path) -> int:
    """Damage some kernels."""
    for number in range(FILES):
        file = folder / f"{number}.kernel"
        file.write_bytes(mutated(random, random.choice(kernels()), 64))
        options = ["--ram", random.choice(("1M", "16M", "128M"))]
        if random.random() < 0.3:
            (folder / "initrd").write_bytes(random.randbytes(random.randrange(1, 5000)))
            options += [
                "--initrd",
                str(folder / "initrd"),
                "--append",
                "a=b " * random.randrange(50),
            ]
        what = "--bios" if random.random() < 0.1 else "--kernel"
        if what == "--bios":
            options = []
        call("run", "--quiet", "--max-insns", "5000", "--timeout", "30", *options, what, file)
    return FILES
