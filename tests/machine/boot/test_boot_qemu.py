"""The same files on QEMU's virt: everything is loaded at the same place."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from spe_unicorn.cores.profile import load_core
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.options import MachineOptions
from tests.support.boot_files import MIB, arm64_image, packed
from tests.support.elf_builder import Elf, Load
from tests.support.running.processes import WALL_SECONDS, limit_cpu

QEMU = shutil.which("qemu-system-aarch64")
pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")

CORE = load_core("generic")
LOADED = re.compile(
    r'(?:addr=(?P<address>[0-9a-f]{16})|virt\.flash0) size=\S+ (?:mem=ram )?name="(?P<name>[^"]*)"'
)
"""A line of ``info roms``; flash bank 0 is at address 0."""
OURS = {"device tree": "dtb"}
"""Our names for what QEMU calls otherwise."""


def loaded_by_qemu(ram_mib: int, files: dict[str, str]) -> dict[str, int]:
    """What QEMU's monitor shows before the first instruction, less QEMU's own first instructions.

    Of an ELF file it shows the program headers.
    """
    options = [word for name, path in files.items() for word in (f"-{name}", path)]
    done = subprocess.run(
        [
            *(QEMU, "-S", "-display", "none", "-nic", "none", "-serial", "none"),
            *("-monitor", "stdio"),
            *("-M", "virt,gic-version=3", "-cpu", "max", "-m", f"{ram_mib}M", *options),
        ],
        input="info roms\nquit\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    found = {line["name"]: int(line["address"] or "0", 16) for line in LOADED.finditer(done.stdout)}
    return {
        name.split("/")[-1].split(" ")[0]: at for name, at in found.items() if name != "bootloader"
    }


def image_above(offset: int) -> bytes:
    return Elf([Load(0x4000_0000 + offset)], entry=0x4000_0000 + offset).build()


@pytest.mark.parametrize("ram_mib", [96, 512])
@pytest.mark.parametrize(
    "contents",
    [
        {"kernel": arm64_image()},
        {"kernel": arm64_image(), "initrd": b"i" * 12345},
        {"kernel": arm64_image(0x8_0000, 66 * MIB), "initrd": b"i" * (3 * MIB)},
        {"kernel": arm64_image(0x1_2340, image_size=0)},
        {"kernel": packed(arm64_image(0x8_0000)), "initrd": b"i"},
        {"kernel": bytes(5000), "initrd": b"i"},
        {"kernel": image_above(2 * MIB)},
        {"bios": b"flash"},
    ],
    ids=["image", "initrd", "large", "old", "gzip", "flat", "elf", "bios"],
)
def test_pieces_are_where_qemu_puts_them(
    tmp_path: Path, ram_mib: int, contents: dict[str, bytes]
) -> None:
    files = {}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
        files[name] = str(tmp_path / name)
    plan = boot_plan(MachineOptions(core=CORE, ram=ram_mib * MIB, **files))
    ours = {OURS.get(piece.name, piece.name): piece.address for piece in plan.pieces}
    assert ours == loaded_by_qemu(ram_mib, files)
