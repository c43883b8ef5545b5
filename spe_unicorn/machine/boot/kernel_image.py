"""Reads kernels that are no ELF files: an arm64 Image, packed or not, or a flat image.

The header is that of Linux's Documentation/arch/arm64/booting.rst, the EFI zboot one that of its
drivers/firmware/efi/libstub/zboot-header.S.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from spe_unicorn.machine.boot.image import LoadError

FLAT_OFFSET: Final = 0x8_0000
"""Where a kernel goes that does not say so, in bytes above a multiple of 2 MiB."""

_HEADER: Final = struct.Struct("<8xQQQ24x4s4x")  # text_offset, image_size, flags; magic
_MAGIC: Final = b"ARM\x64"
_BIG_ENDIAN: Final = 1  # of flags
_GZIP: Final = b"\x1f\x8b"
_ZBOOT: Final = struct.Struct("<2s2x4sII8x32s")  # MZ, zimg, payload's offset and size, packer
_FOREIGN: Final = (
    (0, b"\x7fELF", "is an ELF file in a packed one; unpack it"),
    (0, b"\xd0\x0d\xfe\xed", "is a device tree or a FIT image, not a kernel"),
    (0, b"\x27\x05\x19\x56", "is a U-Boot image; give the Image that it was made of"),
    (0, b"\xfd7zXZ\0", "is packed by xz; unpack it, or pack it by gzip"),
    (0, b"\x28\xb5\x2f\xfd", "is packed by zstd; unpack it, or pack it by gzip"),
    (0, b"BZh", "is packed by bzip2; unpack it, or pack it by gzip"),
    (0, b"\x04\x22\x4d\x18", "is packed by lz4; unpack it, or pack it by gzip"),
    (0, b"\x02\x21\x4c\x18", "is packed by lz4; unpack it, or pack it by gzip"),
    (0x24, b"\x18\x28\x6f\x01", "is a 32-bit Arm kernel; the machine runs AArch64 code only"),
    (0x38, b"RSC\x05", "is a RISC-V kernel, not one for AArch64"),
    (0x202, b"HdrS", "is an x86 kernel, not one for AArch64"),
    (0, b"MZ", "is an EFI program without the header of an arm64 Image"),
)
"""Files that would pass for flat images: where, what stands there, and what that means."""


@dataclass(frozen=True)
class KernelImage:
    """A kernel's bytes, and the memory it wants.

    It is loaded ``offset`` bytes above a multiple of 2 MiB, is entered at its first byte, and
    claims ``size`` bytes from there on. ``has_header`` tells an arm64 Image from a flat image.
    """

    data: bytes
    offset: int = FLAT_OFFSET
    size: int = 0
    has_header: bool = False


def parse_kernel(data: bytes, limit: int) -> KernelImage:
    """The kernel in a file, unpacked if it was packed by gzip.

    Raises LoadError, without a file's name, for one that takes more than ``limit`` bytes and for
    what is recognised as something else.
    """
    data = _unpacked(data, limit)
    if len(data) >= _HEADER.size:
        text_offset, image_size, flags, magic = _HEADER.unpack_from(data)
        if magic == _MAGIC:
            return _with_header(data, text_offset, image_size, flags)
    for place, magic, problem in _FOREIGN:
        if data.startswith(magic, place):
            raise LoadError(problem)
    if len(data) < 4:
        raise LoadError(f"is no kernel: it has {len(data)} bytes, less than one instruction")
    return KernelImage(data, size=len(data))


def _with_header(data: bytes, text_offset: int, image_size: int, flags: int) -> KernelImage:
    if not image_size:
        # A kernel before 3.17: its text_offset has no defined byte order, and its flags are 0.
        return KernelImage(data, size=len(data), has_header=True)
    if flags & _BIG_ENDIAN:
        raise LoadError("is a big-endian kernel; the machine is little-endian")
    if text_offset % 4:
        raise LoadError(f"its text_offset {text_offset:#x} is not a multiple of 4")
    # A signature after the kernel may make the file longer than what the kernel needs.
    return KernelImage(data, text_offset, max(image_size, len(data)), has_header=True)


def _unpacked(data: bytes, limit: int) -> bytes:
    if data.startswith(_GZIP):
        return _gunzip(data, limit)
    if len(data) < _ZBOOT.size:
        return data
    dos, magic, offset, size, packer = _ZBOOT.unpack_from(data)
    if (dos, magic) != (b"MZ", b"zimg"):
        return data
    name = packer.split(b"\0")[0].decode("ascii", "replace")
    if name != "gzip":
        raise LoadError(f"is an EFI zboot kernel packed by {name!r}; only gzip can be unpacked")
    if offset + size > len(data):
        raise LoadError(f"is truncated: {len(data):#x} of {offset + size:#x} bytes")
    return _gunzip(data[offset : offset + size], limit)


def _gunzip(data: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise LoadError(f"is a damaged gzip file ({error})") from None
    if len(unpacked) > limit:
        raise LoadError(f"is larger than RAM when unpacked: {limit:#x} bytes")
    if not unpacker.eof:
        raise LoadError("is a truncated gzip file")
    return unpacked
