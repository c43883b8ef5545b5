"""Builds the files that a machine starts from, byte by byte."""

from __future__ import annotations

import gzip
import struct

MIB = 1 << 20
BRANCH_TO_ITSELF = b"\0\0\0\x14"


def arm64_image(
    text_offset: int = 0,
    image_size: int = 0x30_0000,
    flags: int = 0b1010,
    magic: bytes = b"ARM\x64",
    length: int = 0x2000,
) -> bytes:
    """Linux's header: code0, code1, text_offset, image_size, flags, res2 to res4, magic, res5."""
    fields = (BRANCH_TO_ITSELF, 0, text_offset, image_size, flags, 0, 0, 0, magic, 0)
    return struct.pack("<4sIQQQQQQ4sI", *fields).ljust(length, b"k")


def zboot(payload: bytes, packer: bytes = b"gzip", size: int | None = None) -> bytes:
    """An EFI program that unpacks a kernel: its DOS header, a gap, the packed kernel."""
    fields = (b"MZ\0\0", b"zimg", 0x100, len(payload) if size is None else size, 0, 0, packer)
    header = struct.pack("<4s4sIIII32s", *fields)
    return header.ljust(0x100, b"\0") + payload


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)
