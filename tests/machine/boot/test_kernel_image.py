"""Kernel files, from Linux's Documentation/arch/arm64/booting.rst."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.kernel_image import KernelImage, parse_kernel
from tests.support.boot_files import MIB, arm64_image, packed, zboot

LIMIT = 16 * MIB


def test_image_says_where_it_goes_and_how_much_memory_it_needs() -> None:
    data = arm64_image(text_offset=0x8_0000, image_size=0x12_3000)
    assert parse_kernel(data, LIMIT) == KernelImage(data, 0x8_0000, 0x12_3000, has_header=True)


def test_image_of_unknown_size_goes_where_old_kernels_go() -> None:
    """Before 3.17 image_size is 0, and text_offset is 0x80000 whatever the field holds."""
    data = arm64_image(text_offset=0x1234_5678, image_size=0)
    assert parse_kernel(data, LIMIT) == KernelImage(data, 0x8_0000, len(data), has_header=True)


def test_bytes_behind_the_image_need_memory_too() -> None:
    data = arm64_image(image_size=0x1000, length=0x1234)
    assert parse_kernel(data, LIMIT).size == 0x1234


def test_file_without_the_magic_number_is_a_flat_image() -> None:
    data = arm64_image(magic=b"ARM\x65")
    assert parse_kernel(data, LIMIT) == KernelImage(data, 0x8_0000, len(data), has_header=False)


def test_flat_image_may_be_one_instruction() -> None:
    assert parse_kernel(bytes(4), LIMIT).size == 4


@pytest.mark.parametrize("pack", [packed, lambda data: zboot(packed(data))], ids=["gzip", "zboot"])
def test_kernel_is_unpacked(pack: Callable[..., Any]) -> None:
    data = arm64_image(text_offset=0x8_0000)
    assert parse_kernel(pack(data), LIMIT) == parse_kernel(data, LIMIT)


def test_bytes_behind_the_packed_kernel_are_left_alone() -> None:
    assert parse_kernel(packed(arm64_image()) + b"signature", LIMIT).data == arm64_image()


def test_efi_stub_in_an_image_changes_nothing() -> None:
    """Distributions' kernels begin with MZ: code0 is an instruction that spells it."""
    data = b"MZ" + arm64_image()[2:]
    assert parse_kernel(data, LIMIT).has_header


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (arm64_image(flags=0b1011), "is a big-endian kernel; the machine is little-endian"),
        (arm64_image(text_offset=2), "its text_offset 0x2 is not a multiple of 4"),
        (b"abc", "is no kernel: it has 3 bytes, less than one instruction"),
        (packed(b""), "is no kernel: it has 0 bytes"),
        (packed(bytes(LIMIT + 1)), "is larger than RAM when unpacked: 0x1000000 bytes"),
        (packed(arm64_image())[:-9], "is a truncated gzip file"),
        (packed(b"\x7fELF" + bytes(60)), "is an ELF file in a packed one"),
        (b"\x1f\x8b\xff" + bytes(40), "is a damaged gzip file"),
        (zboot(packed(arm64_image()), b"zstd22"), "zboot kernel packed by 'zstd22'; only gzip"),
        (zboot(b"", size=0x1000), "is truncated: 0x100 of 0x1100 bytes"),
        (zboot(b"\x1f\x8c"), "is a damaged gzip file"),
        (b"\xd0\x0d\xfe\xed" + bytes(99), "is a device tree or a FIT image"),
        (b"\x27\x05\x19\x56" + bytes(99), "is a U-Boot image"),
        (b"\xfd7zXZ\0" + bytes(99), "is packed by xz"),
        (b"\x28\xb5\x2f\xfd" + bytes(99), "is packed by zstd"),
        (b"BZh9" + bytes(99), "is packed by bzip2"),
        (b"\x02\x21\x4c\x18" + bytes(99), "is packed by lz4"),
        (b"\x04\x22\x4d\x18" + bytes(99), "is packed by lz4"),
        (bytes(0x24) + b"\x18\x28\x6f\x01", "is a 32-bit Arm kernel"),
        (bytes(0x38) + b"RSC\x05", "is a RISC-V kernel"),
        (b"MZ" + bytes(0x200) + b"HdrS", "is an x86 kernel"),
        (b"MZ" + bytes(99), "is an EFI program without the header of an arm64 Image"),
    ],
)
def test_what_is_no_kernel_for_this_machine_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(LoadError) as error:
        parse_kernel(data, LIMIT)
    assert problem in str(error.value)


def test_damage_inside_the_packed_kernel_is_noticed() -> None:
    data = bytearray(gzip.compress(arm64_image(), mtime=0))
    data[-5] ^= 1  # of the checksum
    with pytest.raises(LoadError, match="is a damaged gzip file"):
        parse_kernel(bytes(data), LIMIT)
