"""Damaged device trees, handed to a kernel."""

from __future__ import annotations

from pathlib import Path
from random import Random

from command import call
from mutation import mutated

from spe_unicorn.machine.boot.dtb import BoardDescription, board_dtb
from tests.support.boot_files import MIB, arm64_image

FILES = 20


def attack(random: Random, folder: Path) -> int:
    """Damage some device trees of ours."""
    kernel = folder / "Image"
    kernel.write_bytes(arm64_image(0x8_0000, length=64) + bytes(0x100))
    initrd = folder / "initrd"
    initrd.write_bytes(b"initrd")
    for number in range(FILES):
        tree = board_dtb(
            BoardDescription(
                ram_size=random.choice((1, 16, 128)) * MIB,
                virtio=random.random() < 0.5,
                bootargs="a" * random.randrange(100) or None,
            )
        )
        file = folder / f"{number}.dtb"
        file.write_bytes(mutated(random, tree, 40))
        options = ["--kernel", kernel, "--dtb", file]
        if random.random() < 0.5:
            options += ["--append", "console=ttyAMA0", "--initrd", initrd]
        if random.random() < 0.5:
            call("run", "--quiet", "--dump-dtb", folder / f"{number}.out", *options)
        else:
            call("run", "--quiet", "--max-insns", "1000", "--timeout", "30", *options)
    return FILES
