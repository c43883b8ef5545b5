from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.boot.fdt import parse, wide
from tests.support.boot_files import arm64_image, packed
from tests.support.small_programs import EXIT_WITH_LEVEL, LOOP, program, words

PRINT_FIRST_WORD_AT_X0 = words(
    0xAA0003E1,  # mov x1, x0
    *(0x52800060, 0xD45E0000, 0x91000421) * 4,  # mov w0, #3 (SYS_WRITEC); hlt; add x1, x1, #1
    0x52800300,  # mov w0, #0x18 (SYS_EXIT)
    0x10000041,  # adr x1, . + 8
    0xD45E0000,  # hlt #0xf000
) + struct.pack("<QQ", 0x20026, 0)


DEVICE_TREE = b"\xd0\x0d\xfe\xed"
GREETING = "Hello from bare metal AArch64\n"


def kernel(code: bytes) -> bytes:
    """An Image that begins with a branch over its header."""
    return words(0x14000010) + arm64_image(length=64)[4:] + code


def test_flat_image_gets_the_device_tree_in_x0(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "flat"
    file.write_bytes(PRINT_FIRST_WORD_AT_X0)
    assert command("run", "--kernel", str(file)).stdout_bytes == DEVICE_TREE


@pytest.mark.parametrize("pack", [bytes, packed], ids=["plain", "gzip"])
def test_image_gets_the_device_tree_in_x0(
    command: Callable[..., Any], tmp_path: Path, pack: Callable[..., Any] | type[bytes]
) -> None:
    file = tmp_path / "Image"
    file.write_bytes(pack(kernel(PRINT_FIRST_WORD_AT_X0)))
    assert command("run", "--kernel", str(file)).stdout_bytes == DEVICE_TREE


def test_kernel_as_elf_file_gets_the_device_tree_in_x0(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = program(tmp_path, PRINT_FIRST_WORD_AT_X0)
    assert command("run", "--kernel", file).stdout_bytes == DEVICE_TREE


@pytest.mark.parametrize("level", [1, 2, 3])
def test_firmware_starts_at_the_level_asked_for(
    command: Callable[..., Any], tmp_path: Path, level: int
) -> None:
    command("run", "--el", str(level), program(tmp_path, EXIT_WITH_LEVEL), status=level)


def test_firmware_starts_at_el1_if_not_asked(command: Callable[..., Any], tmp_path: Path) -> None:
    command("run", program(tmp_path, EXIT_WITH_LEVEL), status=1)


def test_device_tree_is_written_and_nothing_runs(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    image, initrd, written = (tmp_path / name for name in ("Image", "initrd", "tree.dtb"))
    image.write_bytes(kernel(LOOP))
    initrd.write_bytes(bytes(100))
    options = ("--kernel", str(image), "--initrd", str(initrd), "--append", "quiet", "--el", "2")
    result = command("run", *options, "--ram", "256M", "--dump-dtb", str(written))
    assert (result.stdout, result.stderr) == ("", "")
    tree = parse(written.read_bytes()).root
    assert tree.find("/memory@40000000").properties["reg"] == wide(0x4000_0000, 0x1000_0000)
    assert tree.find("/chosen").properties["bootargs"] == b"quiet\0"
    assert tree.find("/chosen").properties["linux,initrd-start"] == wide(0x4800_0000)
    assert tree.find("/psci").properties["method"] == b"smc\0"


def test_device_tree_of_the_bare_machine_is_written(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    command("run", "--dump-dtb", str(tmp_path / "tree.dtb"))
    assert parse((tmp_path / "tree.dtb").read_bytes()).root.find("/spe-pmu") is not None


def test_device_tree_that_was_written_can_be_given_back(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    tree, again = str(tmp_path / "tree.dtb"), tmp_path / "again.dtb"
    command("run", "--dump-dtb", tree)
    command("run", "--dtb", tree, "--ram", "64M", "--dump-dtb", str(again))
    root = parse(again.read_bytes()).root
    assert root.find("/memory@40000000").properties["reg"] == wide(0x4000_0000, 0x400_0000)
    assert root.find("/pl011@9000000") is not None


def test_guest_that_is_sampled_from_outside_is_told_of_no_spe(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    written = tmp_path / "tree.dtb"
    options = ("-c", "100", "-o", str(tmp_path / "x.spe"), "--dump-dtb", str(written))
    command("record", *options, firmware("hello"))
    assert parse(written.read_bytes()).root.find("/spe-pmu") is None
    assert not (tmp_path / "x.spe").exists()


def test_device_tree_is_not_written_over_the_one_that_is_read(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    tree = tmp_path / "tree.dtb"
    command("run", "--dump-dtb", str(tree))
    before = tree.read_bytes()
    result = command("run", "--dtb", str(tree), "--dump-dtb", str(tree), status=2)
    assert "is read by this run" in result.stderr
    assert tree.read_bytes() == before


def test_full_disk_leaves_no_silence_about_the_device_tree(command: Callable[..., Any]) -> None:
    result = command("run", "--dump-dtb", "/dev/full", status=2)
    assert result.stderr == "Error: /dev/full: No space left on device\n"


def test_console_in_a_file(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    result = command("run", "--console", f"file:{tmp_path / 'out'}", firmware("hello"))
    assert result.stdout == ""
    assert (tmp_path / "out").read_text() == GREETING


def test_no_console(command: Callable[..., Any], firmware: Callable[..., Any]) -> None:
    assert command("run", "--console", "none", "-q", firmware("hello")).output == ""


def test_full_disk_ends_the_run_whose_console_is_there(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    result = command("run", "--console", "file:/dev/full", firmware("hello"), status=2)
    assert "/dev/full: No space left on device" in result.stderr
