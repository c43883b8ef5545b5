"""Messages of 9P2000.L as bytes: sizes and numbers are little-endian, texts have a length before.

The layouts are those of the protocol's description in diod (protocol.md) and of intro(5) of Plan 9.
"""

from __future__ import annotations

import errno
import struct
from enum import IntEnum
from typing import Final

HEADER: Final = struct.Struct("<IBH")
"""Size of the whole message, kind, tag."""
QID: Final = struct.Struct("<BIQ")
"""What a file is: kind, version, number."""


class Kind(IntEnum):
    """Requests; an answer's kind is one more."""

    STATFS = 8
    LOPEN = 12
    LCREATE = 14
    SYMLINK = 16
    MKNOD = 18
    RENAME = 20
    READLINK = 22
    GETATTR = 24
    SETATTR = 26
    XATTRWALK = 30
    XATTRCREATE = 32
    READDIR = 40
    FSYNC = 50
    LOCK = 52
    GETLOCK = 54
    LINK = 70
    MKDIR = 72
    RENAMEAT = 74
    UNLINKAT = 76
    VERSION = 100
    AUTH = 102
    ATTACH = 104
    FLUSH = 108
    WALK = 110
    READ = 116
    WRITE = 118
    CLUNK = 120
    REMOVE = 122


RLERROR: Final = 7


class ProtocolError(OSError):
    """A message that makes no sense; it has a number of Linux, as what the host refuses has."""

    def __init__(self, number: int = errno.EINVAL) -> None:
        super().__init__(number, "")


class Fields:
    """The fields of a message, one after the other. Raises ProtocolError where it is too short."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        """The next number of so many bytes."""
        return int.from_bytes(self.bytes(size), "little")

    def text(self) -> bytes:
        """The next text."""
        return self.bytes(self.number(2))

    def bytes(self, size: int) -> bytes:
        """So many bytes."""
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise ProtocolError
        self._at += size
        return data


def message(kind: int, tag: int, body: bytes) -> bytes:
    """A whole message."""
    return HEADER.pack(HEADER.size + len(body), kind, tag) + body


def text(data: bytes) -> bytes:
    """A text with its length."""
    return struct.pack("<H", len(data)) + data
