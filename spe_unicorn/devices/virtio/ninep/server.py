"""A server of 9P2000.L: one folder, and the fids by which a client names what is in it.

An answer and what it changes are apart: :meth:`Server.answer` asks the folder and changes no fid,
:meth:`Server.follow` takes over what request and answer say. So an answer can be kept, and given
again in a replay in which nobody asks the folder.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final

from spe_unicorn.devices.virtio.folder import (
    BLOCK,
    BLOCKS,
    NAME_MAX,
    Changes,
    Folder,
    Path,
    moved,
    named,
)
from spe_unicorn.devices.virtio.ninep.messages import (
    HEADER,
    QID,
    RLERROR,
    Fields,
    Kind,
    ProtocolError,
    message,
    text,
)
from spe_unicorn.plain import Bits32, Within
from spe_unicorn.stateful import StateError, Stateful, expect

VERSION: Final = b"9P2000.L"
MESSAGE_MAX: Final = 1 << 20
"""Bytes of the largest message."""
_MESSAGE_MIN: Final = 4096
_FIDS: Final = 4096
_STEPS: Final = 16
"""Names in one walk."""
_NO_FID: Final = 0xFFFF_FFFF
_DATA: Final = HEADER.size + 4
"""Bytes before the data of a read."""
_BASIC: Final = 0x7FF
"""What of the attributes is told: all that stat tells."""
_ATTRIBUTES: Final = struct.Struct("<IIIQQQQQQQQQQQQQQQ")
_STATFS: Final = struct.Struct("<IIQQQQQQI")
_MAGIC: Final = 0x0102_1997
"""The kind of file system that Linux calls v9fs."""
_MODE, _SIZE, _ATIME, _MTIME, _ATIME_SET, _MTIME_SET = 1, 8, 0x10, 0x20, 0x80, 0x100
_REMOVE_FOLDER: Final = 0x200
_UNLOCKED: Final = 2
_SECOND: Final = 10**9


@dataclass(slots=True)
class Fid:
    """A client's name for something."""

    path: Path = ()
    flags: Bits32 | None = None
    """How it was opened; None while it is not."""


@dataclass(slots=True)
class ServerState:
    """What is saved of a server."""

    fids: Annotated[dict[Bits32, Fid], Within(0, _FIDS)] = field(default_factory=dict)
    size: Annotated[int, Within(_MESSAGE_MIN, MESSAGE_MAX)] = MESSAGE_MAX
    """Bytes of the largest message that was agreed on."""


class Server(Stateful[ServerState]):
    """Serves ``folder``. ``s`` is changed by :meth:`follow` and :meth:`reset` alone."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.s = ServerState()

    def reset(self) -> None:
        """Forget all fids."""
        self.s = ServerState()
        self._derive()

    def check(self, state: ServerState) -> None:
        """Raise StateError for names that no client can walk to."""
        for fid in state.fids.values():
            path: Path = ()
            try:
                for name in fid.path:
                    path = named(path, name)
            except OSError:
                raise StateError(f"9P: {fid.path!r:.60} is no path within the folder") from None
        expect(_NO_FID not in state.fids, "a fid of 9P")

    def _derive(self) -> None:
        self._folder.forget()

    def answer(self, request: bytes) -> bytes:
        """The answer to a request of at least a header; an error is an answer, too."""
        _, kind, tag = HEADER.unpack_from(request)
        handler = self._handlers().get(kind)
        try:
            if handler is None:
                raise ProtocolError(errno.EOPNOTSUPP)
            return message(kind + 1, tag, handler(Fields(request[HEADER.size :])))
        except OSError as error:
            number = error.errno or errno.EIO
            return message(RLERROR, tag, number.to_bytes(4, "little"))
        except ValueError:  # a number or a name that the host cannot take
            return message(RLERROR, tag, errno.EINVAL.to_bytes(4, "little"))

    def follow(self, request: bytes, answer: bytes) -> None:
        """Take over what an answer to a request says."""
        kind, done = request[4], answer[4] != RLERROR
        fields = Fields(request[HEADER.size :])
        fids = self.s.fids
        if kind in (Kind.CLUNK, Kind.REMOVE) and len(request) >= HEADER.size + 4:
            number = fields.number(4)  # gone, whatever the answer is
            fids.pop(number, None)
            self._folder.close(number)
        elif done and kind == Kind.VERSION:
            self.reset()
            self.s.size = int.from_bytes(answer[HEADER.size : HEADER.size + 4], "little")
        elif done and kind == Kind.ATTACH:
            fids[fields.number(4)] = Fid()
        elif done and kind == Kind.WALK:
            self._walked(fields, answer)
        elif done and kind in (Kind.LOPEN, Kind.LCREATE):
            fid = fids[fields.number(4)]
            if kind == Kind.LCREATE:
                fid.path = (*fid.path, fields.text())
            fid.flags = fields.number(4)
        elif done and kind in (Kind.RENAME, Kind.RENAMEAT):
            self._renamed(*self._moved(kind, fields))

    def _walked(self, fields: Fields, answer: bytes) -> None:
        old, new, asked = fields.number(4), fields.number(4), fields.number(2)
        if int.from_bytes(answer[HEADER.size : HEADER.size + 2], "little") == asked:
            path = self.s.fids[old].path
            for _ in range(asked):
                path = _below(path, fields.text())
            self.s.fids[new] = Fid(path)

    def _renamed(self, old: Path, new: Path) -> None:
        for fid in self.s.fids.values():
            fid.path = moved(fid.path, old, new)

    def _handlers(self) -> dict[int, Callable[[Fields], bytes]]:
        return {
            Kind.VERSION: self._version,
            Kind.ATTACH: self._attach,
            Kind.WALK: self._walk,
            Kind.FLUSH: lambda fields: b"",  # each request is done before the next one is taken
            Kind.LOPEN: self._open,
            Kind.LCREATE: self._create,
            Kind.READ: self._read,
            Kind.WRITE: self._write,
            Kind.READDIR: self._readdir,
            Kind.GETATTR: self._getattr,
            Kind.SETATTR: self._setattr,
            Kind.STATFS: self._statfs,
            Kind.READLINK: lambda fields: text(self._folder.link_target(self._fid(fields).path)),
            Kind.MKDIR: self._mkdir,
            Kind.SYMLINK: partial(self._refuse, errno.EPERM),
            Kind.MKNOD: partial(self._refuse, errno.EPERM),
            Kind.LINK: self._link,
            Kind.RENAME: partial(self._rename, Kind.RENAME),
            Kind.RENAMEAT: partial(self._rename, Kind.RENAMEAT),
            Kind.UNLINKAT: self._unlink,
            Kind.REMOVE: self._remove,
            Kind.CLUNK: self._clunk,
            Kind.FSYNC: self._sync,
            Kind.LOCK: self._lock,
            Kind.GETLOCK: self._getlock,
        }

    # What the client names

    def _fid(self, fields: Fields) -> Fid:
        fid = self.s.fids.get(fields.number(4))
        if fid is None:
            raise ProtocolError(errno.EBADF)
        return fid

    def _opened(self, fields: Fields) -> tuple[int, Path, int]:
        number = fields.number(4)
        fid = self.s.fids.get(number)
        if fid is None or fid.flags is None:
            raise ProtocolError(errno.EBADF)
        return number, fid.path, fid.flags

    def _child(self, fields: Fields) -> Path:
        """A fid of a folder and a name in it."""
        return named(self._fid(fields).path, fields.text())

    def _moved(self, kind: Kind | int, fields: Fields) -> tuple[Path, Path]:
        """What a rename is to move, and where to."""
        if kind == Kind.RENAMEAT:
            return self._child(fields), self._child(fields)
        return self._fid(fields).path, self._child(fields)

    # The requests

    def _version(self, fields: Fields) -> bytes:
        size, name = fields.number(4), fields.text()
        if size < _MESSAGE_MIN:
            raise ProtocolError
        known = VERSION if name == VERSION else b"unknown"
        return struct.pack("<I", min(size, MESSAGE_MAX)) + text(known)

    def _attach(self, fields: Fields) -> bytes:
        self._new(fields.number(4))
        if fields.number(4) != _NO_FID:
            raise ProtocolError(errno.EOPNOTSUPP)
        return _qid(self._folder.status(()))

    def _new(self, number: int) -> None:
        """A number for another fid."""
        if number in self.s.fids or number == _NO_FID:
            raise ProtocolError(errno.EBADF)
        if len(self.s.fids) >= _FIDS:
            raise ProtocolError(errno.ENFILE)

    def _walk(self, fields: Fields) -> bytes:
        number, new, count = fields.number(4), fields.number(4), fields.number(2)
        fid = self.s.fids.get(number)
        if fid is None or (new == number and fid.flags is not None):
            raise ProtocolError(errno.EBADF)
        if new != number:
            self._new(new)
        if count > _STEPS:
            raise ProtocolError
        names = [fields.text() for _ in range(count)]
        found: list[bytes] = []
        try:
            self._follow_names(fid.path, names, found)
        except OSError:
            if not found:
                raise
        return struct.pack("<H", len(found)) + b"".join(found)

    def _follow_names(self, path: Path, names: list[bytes], found: list[bytes]) -> None:
        for name in names:
            path = _below(path, name)
            found.append(_qid(self._folder.status(path)))

    def _open(self, fields: Fields) -> bytes:
        number = fields.number(4)
        fid, flags = self.s.fids.get(number), fields.number(4)
        if fid is None or fid.flags is not None:
            raise ProtocolError(errno.EBADF)
        return _qid(self._folder.open(number, fid.path, flags)) + bytes(4)

    def _create(self, fields: Fields) -> bytes:
        number = fields.number(4)
        fid = self.s.fids.get(number)
        if fid is None or fid.flags is not None:
            raise ProtocolError(errno.EBADF)
        path = named(fid.path, fields.text())
        flags, mode = fields.number(4), fields.number(4)
        return _qid(self._folder.create(number, path, flags, mode)) + bytes(4)

    def _read(self, fields: Fields) -> bytes:
        opened = self._opened(fields)
        offset, count = fields.number(8), fields.number(4)
        data = self._folder.read(*opened, offset, min(count, self.s.size - _DATA))
        return struct.pack("<I", len(data)) + data

    def _write(self, fields: Fields) -> bytes:
        opened = self._opened(fields)
        offset, count = fields.number(8), fields.number(4)
        return struct.pack("<I", self._folder.write(*opened, offset, fields.bytes(count)))

    def _readdir(self, fields: Fields) -> bytes:
        _, path, _ = self._opened(fields)
        offset, count = fields.number(8), fields.number(4)
        room = min(count, self.s.size - _DATA)
        rows = b""
        up = [(b"." * (n + 1), self._folder.status(path[: len(path) - n])) for n in (0, 1)]
        dots = [(name, status.st_ino, stat.S_IFDIR >> 12) for name, status in up]
        entries = [*dots, *self._folder.entries(path)]
        for place, (name, inode, kind) in enumerate(entries[offset:], offset + 1):
            row = QID.pack(_qid_kind(kind << 12), 0, inode) + struct.pack("<QB", place, kind)
            row += text(name)
            if len(rows) + len(row) > room:
                break
            rows += row
        return struct.pack("<I", len(rows)) + rows

    def _getattr(self, fields: Fields) -> bytes:
        status = self._folder.status(self._fid(fields).path)
        times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
        pairs = [part for time in times for part in divmod(max(time, 0), _SECOND)]
        size, blocks = status.st_size, -(-status.st_size // 512)
        numbers = (status.st_mode, 0, 0, status.st_nlink, 0, size, BLOCK, blocks, *pairs)
        return struct.pack("<Q", _BASIC) + _qid(status) + _ATTRIBUTES.pack(*numbers, 0, 0, 0, 0)

    def _setattr(self, fields: Fields) -> bytes:
        path = self._fid(fields).path
        valid, mode, _, _, size = (fields.number(n) for n in (4, 4, 4, 4, 8))
        accessed, modified = (_SECOND * fields.number(8) + fields.number(8) for _ in range(2))
        changes = Changes(
            mode if valid & _MODE else None,
            size if valid & _SIZE else None,
            _time(valid, _ATIME, _ATIME_SET, accessed),
            _time(valid, _MTIME, _MTIME_SET, modified),
        )
        self._folder.change(path, changes)
        return b""

    def _statfs(self, fields: Fields) -> bytes:
        self._fid(fields)
        return _STATFS.pack(_MAGIC, BLOCK, *(BLOCKS,) * 5, 0, NAME_MAX)

    def _mkdir(self, fields: Fields) -> bytes:
        path = self._child(fields)
        return _qid(self._folder.make_folder(path, fields.number(4)))

    def _refuse(self, number: int, fields: Fields) -> bytes:
        raise ProtocolError(number)

    def _link(self, fields: Fields) -> bytes:
        folder, file = self._fid(fields), self._fid(fields)
        self._folder.link(file.path, named(folder.path, fields.text()))
        return b""

    def _rename(self, kind: Kind, fields: Fields) -> bytes:
        old, new = self._moved(kind, fields)
        if not old:
            raise ProtocolError(errno.EBUSY)
        if new[: len(old)] == old and new != old:
            raise ProtocolError
        self._folder.rename(old, new)
        return b""

    def _unlink(self, fields: Fields) -> bytes:
        path = self._child(fields)
        self._folder.remove(path, folder=bool(fields.number(4) & _REMOVE_FOLDER))
        return b""

    def _remove(self, fields: Fields) -> bytes:
        path = self._fid(fields).path
        if not path:
            raise ProtocolError(errno.EBUSY)
        self._folder.remove(path, folder=stat.S_ISDIR(self._folder.status(path).st_mode))
        return b""

    def _clunk(self, fields: Fields) -> bytes:
        self._fid(fields)
        return b""

    def _sync(self, fields: Fields) -> bytes:
        self._folder.sync(*self._opened(fields))
        return b""

    def _lock(self, fields: Fields) -> bytes:
        self._fid(fields)
        return b"\0"  # nobody else is here to hold one

    def _getlock(self, fields: Fields) -> bytes:
        self._fid(fields)
        _, start, length, process = (fields.number(n) for n in (1, 8, 8, 4))
        return struct.pack("<BQQI", _UNLOCKED, start, length, process) + text(fields.text())


def _below(path: Path, name: bytes) -> Path:
    """Something in a folder; ``..`` leads up, at most to the folder that is served."""
    return path[:-1] if name == b".." else named(path, name)


def _time(valid: int, asked: int, is_set: int, time: int) -> int | None:
    if not valid & asked:
        return None
    return time if valid & is_set else -1


def _qid_kind(mode: int) -> int:
    return 0x80 if stat.S_ISDIR(mode) else 0x02 if stat.S_ISLNK(mode) else 0


def _qid(status: os.stat_result) -> bytes:
    version = (status.st_mtime_ns ^ status.st_size << 8) & 0xFFFF_FFFF
    return QID.pack(_qid_kind(status.st_mode), version, status.st_ino)
