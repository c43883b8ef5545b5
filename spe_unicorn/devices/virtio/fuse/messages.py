"""Messages of FUSE 7 as bytes, as Linux's fuse.h describes them (which has a BSD licence, too).

Numbers are little-endian, names end with a 0.
"""

from __future__ import annotations

import errno
import struct
from enum import IntEnum, IntFlag
from typing import Any, Final

from spe_unicorn.devices.virtio.folder import Data

IN_HEADER: Final = struct.Struct("<IIQQIIIHH")
"""Size of the whole request, opcode, number of the request, node, user, group, process, rest."""
OUT_HEADER: Final = struct.Struct("<IiQ")
"""Size of the whole answer, an error below 0, number of the request."""
ATTRIBUTES: Final = struct.Struct("<QQQQQQIIIIIIIIII")
ENTRY: Final = struct.Struct("<QQQQII")
"""Node, generation, and how long the name and the attributes hold, before the attributes."""
ATTRIBUTES_HOLD: Final = struct.Struct("<QII")
INIT_IN: Final = struct.Struct("<IIIII44x")
INIT_OUT: Final = struct.Struct("<IIIIHHIIHHIIH22x")
SETATTR_IN: Final = struct.Struct("<I4xQQ8xQQ8xIIII16x")
"""What is set, handle, size, times in seconds, their nanoseconds, mode."""
TRANSFER_IN: Final = struct.Struct("<QQI20x")
"""Of a read and a write: handle, place, size."""
OPEN_OUT: Final = struct.Struct("<QI4x")
STATFS_OUT: Final = struct.Struct("<QQQQQIII4x24x")
DIRENT: Final = struct.Struct("<QQII")
WORD: Final = struct.Struct("<I")
LONG: Final = struct.Struct("<Q")
PAIR: Final = struct.Struct("<QQ")


class Op(IntEnum):
    """Requests that are answered; all others are not known here."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


UNANSWERED: Final = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})


class Init(IntFlag):
    """What is agreed on at the beginning."""

    ATOMIC_O_TRUNC = 1 << 3
    BIG_WRITES = 1 << 5
    HANDLE_KILLPRIV_V2 = 1 << 28
    MAX_PAGES = 1 << 22
    INIT_EXT = 1 << 30
    DIRECT_IO_ALLOW_MMAP = 1 << 36


class Valid(IntFlag):
    """What is to be set of a file."""

    MODE = 1 << 0
    SIZE = 1 << 3
    ACCESSED = 1 << 4
    MODIFIED = 1 << 5
    ACCESSED_NOW = 1 << 7
    MODIFIED_NOW = 1 << 8


DIRECT_IO: Final = 1
"""Of an open file: what is read and written does not go through the guest's page cache."""


def fields(layout: struct.Struct, data: Data) -> tuple[Any, ...]:
    """The numbers at the start of ``data``. Raises OSError where it is too short."""
    if len(data) < layout.size:
        raise OSError(errno.EINVAL, "")
    return layout.unpack_from(data)


def name(data: Data) -> bytes:
    """The name at the start of ``data``. Raises OSError where none ends."""
    found, end, _ = bytes(data).partition(b"\0")
    if not end:
        raise OSError(errno.EINVAL, "")
    return found


def answer(request: int, body: bytes) -> bytes:
    """A whole answer to the request of that number."""
    return OUT_HEADER.pack(OUT_HEADER.size + len(body), 0, request) + body


def refusal(request: int, number: int) -> bytes:
    """The answer that is an error."""
    return OUT_HEADER.pack(OUT_HEADER.size, -number, request)
