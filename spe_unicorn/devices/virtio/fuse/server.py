"""A server of FUSE: one folder, the nodes by which the kernel names what is in it, open files.

As with 9P an answer and what it changes are apart: :meth:`Server.answer` asks the folder and
changes nothing of the server, :meth:`Server.follow` takes over what request and answer say.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final

from spe_unicorn.devices.virtio.folder import (
    BLOCK,
    BLOCKS,
    NAME_MAX,
    Changes,
    Data,
    Folder,
    Path,
    moved,
    named,
)
from spe_unicorn.devices.virtio.fuse.messages import (
    ATTRIBUTES,
    ATTRIBUTES_HOLD,
    DIRECT_IO,
    DIRENT,
    ENTRY,
    IN_HEADER,
    INIT_IN,
    INIT_OUT,
    LONG,
    OPEN_OUT,
    OUT_HEADER,
    PAIR,
    SETATTR_IN,
    STATFS_OUT,
    TRANSFER_IN,
    UNANSWERED,
    WORD,
    Init,
    Op,
    Valid,
    answer,
    fields,
    name,
    refusal,
)
from spe_unicorn.plain import Bits32, Bits64, Count, Within
from spe_unicorn.stateful import StateError, Stateful, expect

WRITE_MAX: Final = 1 << 20
"""Bytes of the largest write, and of the largest read."""
_MAJOR, _MINOR = 7, 36
"""The version that knows a second word of flags."""
_PAGES: Final = 256
_PINNED_NO_MORE: Final = 42
_ASKED: Final = (
    Init.ATOMIC_O_TRUNC
    | Init.BIG_WRITES
    | Init.MAX_PAGES
    | Init.HANDLE_KILLPRIV_V2
    | Init.INIT_EXT
    | Init.DIRECT_IO_ALLOW_MMAP
)
_ROOT: Final = 1
_NODES: Final = 1 << 16
_HANDLES: Final = 4096
_SECOND: Final = 10**9
_DOTS: Final = (b".", b"..")


@dataclass(slots=True)
class Node:
    """What the kernel knows by a number, ``lookups`` times; None is what was removed."""

    path: Path | None = ()
    lookups: Count = 1


@dataclass(slots=True)
class Opened:
    """A node that is open, by the path that it had last."""

    node: Bits64
    path: Path
    flags: Bits32


@dataclass(slots=True)
class ServerState:
    """What is saved of a server."""

    nodes: Annotated[dict[Bits64, Node], Within(1, _NODES)] = field(
        default_factory=lambda: {_ROOT: Node()}
    )
    handles: Annotated[dict[Bits64, Opened], Within(0, _HANDLES)] = field(default_factory=dict)
    next: Count = _ROOT + 1
    """The number of the next node or open file."""
    direct: bool = False
    """Whether what is written goes past the guest's cache."""


class Server(Stateful[ServerState]):
    """Serves ``folder``. ``s`` is changed by :meth:`follow` and :meth:`reset` alone."""

    DERIVED = ("_by_path",)

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.s = ServerState()
        self._derive()

    def reset(self) -> None:
        """Forget all nodes and open files."""
        self.s = ServerState()
        self._derive()

    def check(self, state: ServerState) -> None:
        """Raise StateError for paths that no kernel can look up, and for numbers to come."""
        paths = [node.path for node in state.nodes.values()]
        for path in (*paths, *(opened.path for opened in state.handles.values())):
            _check_path(path or ())
        numbers = (*state.nodes, *state.handles)
        root = state.nodes.get(_ROOT)
        expect(root is not None and root.path == (), "the first node of FUSE")
        named_ones = [node.path for node in state.nodes.values() if node.path is not None]
        expect(len(set(named_ones)) == len(named_ones), "two nodes of FUSE with one path")
        expect(all(0 < number < state.next for number in numbers), "a number of FUSE")

    def _derive(self) -> None:
        self._folder.forget()
        self._by_path = {n.path: number for number, n in self.s.nodes.items() if n.path is not None}

    def answer(self, request: bytes) -> bytes:
        """The answer to a request of at least a header; none for those that want none."""
        _, op, number, node, *_ = IN_HEADER.unpack_from(request)
        if op in UNANSWERED:
            return b""
        handler = self._handlers().get(op)
        try:
            if handler is None:
                return refusal(number, errno.ENOSYS)
            return answer(number, handler(node, memoryview(request)[IN_HEADER.size :]))
        except OSError as error:
            return refusal(number, error.errno or errno.EIO)
        except ValueError:  # a number or a name that the host cannot take
            return refusal(number, errno.EINVAL)

    def follow(self, request: bytes, said: bytes) -> None:
        """Take over what an answer to a request says."""
        _, op, _, node, *_ = IN_HEADER.unpack_from(request)
        body = memoryview(request)[IN_HEADER.size :]
        if op == Op.FORGET and len(body) >= LONG.size:
            self._forget(node, LONG.unpack_from(body)[0])
        elif op == Op.BATCH_FORGET and len(body) >= LONG.size:
            count = min(WORD.unpack_from(body)[0], (len(body) - LONG.size) // PAIR.size)
            for at in range(count):
                self._forget(*PAIR.unpack_from(body, LONG.size + at * PAIR.size))
        elif said and OUT_HEADER.unpack_from(said)[1] == 0:
            self._followed(op, node, body, said[OUT_HEADER.size :])

    def _followed(self, op: int, node: int, body: Data, said: bytes) -> None:
        """Take over what was done."""
        s = self.s
        if op in (Op.INIT, Op.DESTROY):
            self.reset()
            s = self.s
            s.direct = op == Op.INIT and _may_be_direct(body, said)
        elif op in (Op.LOOKUP, Op.MKDIR, Op.LINK, Op.CREATE):
            path = self._below(node, body[_BEFORE_NAME[op] :])
            self._known(ENTRY.unpack_from(said)[0], path)
            if op == Op.CREATE:
                self._keep(said[ENTRY.size + ATTRIBUTES.size :], self._by_path[path], body)
        elif op in (Op.OPEN, Op.OPENDIR):
            self._keep(said, node, body)
        elif op in (Op.RELEASE, Op.RELEASEDIR):
            (handle,) = LONG.unpack_from(body)
            s.handles.pop(handle, None)
            self._folder.close(handle)
        elif op in (Op.UNLINK, Op.RMDIR):
            self._gone(self._below(node, body))
        elif op == Op.RENAME:
            self._renamed(*self._ways(node, body))

    def _known(self, number: int, path: Path) -> None:
        s = self.s
        if number in s.nodes:
            s.nodes[number].lookups += 1
            return
        s.nodes[number] = Node(path)
        self._by_path[path] = number
        s.next = max(s.next, number + 1)

    def _keep(self, said: bytes, node: int, body: Data) -> None:
        handle, _ = OPEN_OUT.unpack_from(said)
        self.s.handles[handle] = Opened(node, self._path(node), WORD.unpack_from(body)[0])
        self.s.next = max(self.s.next, handle + 1)

    def _forget(self, number: int, lookups: int) -> None:
        node = self.s.nodes.get(number)
        if node is None or number == _ROOT:
            return
        node.lookups = max(node.lookups - lookups, 0)
        if not node.lookups:
            del self.s.nodes[number]
            if node.path is not None:
                del self._by_path[node.path]

    def _gone(self, path: Path) -> None:
        """Nothing is there any more: what comes there is another node."""
        number = self._by_path.pop(path, None)
        if number is not None:
            self.s.nodes[number].path = None

    def _renamed(self, old: Path, new: Path) -> None:
        if old == new:
            return
        for node in self.s.nodes.values():
            if node.path is not None:
                replaced = node.path[: len(new)] == new
                node.path = None if replaced else moved(node.path, old, new)
        for opened in self.s.handles.values():
            opened.path = moved(opened.path, old, new)
        self._by_path = {n.path: number for number, n in self.s.nodes.items() if n.path is not None}

    def _handlers(self) -> dict[int, Callable[[int, Data], bytes]]:
        return {
            Op.INIT: self._init,
            Op.DESTROY: _nothing,
            Op.LOOKUP: self._lookup,
            Op.GETATTR: self._getattr,
            Op.SETATTR: self._setattr,
            Op.READLINK: lambda node, body: self._folder.link_target(self._path(node)),
            Op.SYMLINK: _refused,
            Op.MKNOD: _refused,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: partial(self._remove, False),
            Op.RMDIR: partial(self._remove, True),
            Op.RENAME: self._rename,
            Op.LINK: self._link,
            Op.OPEN: self._open,
            Op.OPENDIR: self._open,
            Op.CREATE: self._create,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.READDIR: self._readdir,
            Op.STATFS: _statfs,
            Op.RELEASE: self._release,
            Op.RELEASEDIR: self._release,
            Op.FSYNC: self._sync,
            Op.FSYNCDIR: _nothing,
        }

    # What the kernel names

    def _path(self, number: int) -> Path:
        node = self.s.nodes.get(number)
        if node is None or node.path is None:
            raise OSError(errno.ESTALE, "")
        return node.path

    def _below(self, node: int, body: Data) -> Path:
        return named(self._path(node), name(body))

    def _handle(self, body: Data) -> tuple[int, Path, int]:
        (handle,) = fields(LONG, body)
        opened = self.s.handles.get(handle)
        if opened is None:
            raise OSError(errno.EBADF, "")
        return handle, opened.path, opened.flags

    def _ways(self, node: int, body: Data) -> tuple[Path, Path]:
        """What a rename is to move, and where to."""
        (folder,) = fields(LONG, body)
        old = body[LONG.size :]
        return self._below(node, old), self._below(folder, old[len(name(old)) + 1 :])

    # The requests

    def _init(self, node: int, body: Data) -> bytes:
        _, _, ahead, low, high = _asked_for(body)
        agreed = _ASKED & (low | high << 32)
        size = (0, 0, WRITE_MAX, 1, _PAGES, 0)
        flags = agreed & 0xFFFF_FFFF, agreed >> 32
        return INIT_OUT.pack(_MAJOR, _MINOR, ahead, flags[0], *size, flags[1], 0, 0)

    def _entry(self, path: Path, status: os.stat_result) -> bytes:
        """What the kernel is told of a name; nothing of it holds, as the host may change it."""
        number = self._by_path.get(path)
        if number is None:
            if len(self.s.nodes) >= _NODES:
                raise OSError(errno.ENFILE, "")
            number = self.s.next
        return ENTRY.pack(number, 0, 0, 0, 0, 0) + _attributes(status)

    def _lookup(self, node: int, body: Data) -> bytes:
        path = self._below(node, body)
        return self._entry(path, self._folder.status(path))

    def _getattr(self, node: int, body: Data) -> bytes:
        return ATTRIBUTES_HOLD.pack(0, 0, 0) + _attributes(self._status(node))

    def _status(self, number: int) -> os.stat_result:
        """What is told of a node; one that was removed is known by a file that is open."""
        node = self.s.nodes.get(number)
        if node is not None and node.path is None:
            for handle, opened in self.s.handles.items():
                if opened.node == number:
                    return self._folder.opened(handle, opened.path, opened.flags)
        return self._folder.status(self._path(number))

    def _setattr(self, node: int, body: Data) -> bytes:
        path = self._path(node)
        valid, _, size, *times, mode = fields(SETATTR_IN, body)
        accessed, modified, accessed_rest, modified_rest, _ = times
        changes = Changes(
            mode if valid & Valid.MODE else None,
            size if valid & Valid.SIZE else None,
            _time(valid, Valid.ACCESSED, Valid.ACCESSED_NOW, accessed, accessed_rest),
            _time(valid, Valid.MODIFIED, Valid.MODIFIED_NOW, modified, modified_rest),
        )
        self._folder.change(path, changes)
        return self._getattr(node, b"")

    def _mkdir(self, node: int, body: Data) -> bytes:
        path = self._below(node, body[_BEFORE_NAME[Op.MKDIR] :])
        return self._entry(path, self._folder.make_folder(path, fields(WORD, body)[0]))

    def _remove(self, folder: bool, node: int, body: Data) -> bytes:
        self._folder.remove(self._below(node, body), folder=folder)
        return b""

    def _rename(self, node: int, body: Data) -> bytes:
        old, new = self._ways(node, body)
        if new[: len(old)] == old and new != old:
            raise OSError(errno.EINVAL, "")
        self._folder.rename(old, new)
        return b""

    def _link(self, node: int, body: Data) -> bytes:
        path = self._below(node, body[_BEFORE_NAME[Op.LINK] :])
        self._folder.link(self._path(fields(LONG, body)[0]), path)
        return self._entry(path, self._folder.status(path))

    def _new_handle(self) -> int:
        """A number for an open file, which is none of a node that is new with it."""
        if len(self.s.handles) >= _HANDLES:
            raise OSError(errno.ENFILE, "")
        return self.s.next + 1

    def _open(self, node: int, body: Data) -> bytes:
        handle = self._new_handle()
        flags = fields(WORD, body)[0]
        self._folder.open(handle, self._path(node), flags)
        return OPEN_OUT.pack(handle, self._how(flags))

    def _create(self, node: int, body: Data) -> bytes:
        flags, mode = fields(WORD, body)[0], fields(WORD, body[WORD.size :])[0]
        path = self._below(node, body[_BEFORE_NAME[Op.CREATE] :])
        handle = self._new_handle()
        entry = self._entry(path, self._folder.create(handle, path, flags, mode))
        return entry + OPEN_OUT.pack(handle, self._how(flags))

    def _read(self, node: int, body: Data) -> bytes:
        opened = self._handle(body)
        _, place, size = fields(TRANSFER_IN, body)
        return self._folder.read(*opened, place, min(size, WRITE_MAX))

    def _write(self, node: int, body: Data) -> bytes:
        opened = self._handle(body)
        _, place, size = fields(TRANSFER_IN, body)
        data = body[TRANSFER_IN.size : TRANSFER_IN.size + size]
        if len(data) < size:
            raise OSError(errno.EINVAL, "")
        return LONG.pack(self._folder.write(*opened, place, data))

    def _readdir(self, node: int, body: Data) -> bytes:
        _, path, _ = self._handle(body)
        _, start, size = fields(TRANSFER_IN, body)
        ups = [(dot, self._folder.status(path[: len(path) - n])) for n, dot in enumerate(_DOTS)]
        dots = [(dot, status.st_ino, stat.S_IFDIR >> 12) for dot, status in ups]
        rows = b""
        entries = [*dots, *self._folder.entries(path)]
        for place, (text, inode, kind) in enumerate(entries[start:], start + 1):
            row = DIRENT.pack(inode, place, len(text), kind) + text + bytes(-len(text) % 8)
            if len(rows) + len(row) > min(size, WRITE_MAX):
                break
            rows += row
        return rows

    def _how(self, flags: int) -> int:
        """How a file is used; who only reads has the guest's cache, which reads ahead."""
        return DIRECT_IO if self.s.direct and flags & os.O_ACCMODE else 0

    def _release(self, node: int, body: Data) -> bytes:
        self._handle(body)
        return b""

    def _sync(self, node: int, body: Data) -> bytes:
        self._folder.sync(*self._handle(body))
        return b""


_BEFORE_NAME: Final[dict[int, int]] = {Op.LOOKUP: 0, Op.MKDIR: 8, Op.LINK: 8, Op.CREATE: 16}
"""Bytes of a request before the name that it has."""


def _check_path(path: Path) -> None:
    """Raise StateError for a path that leads out of the folder."""
    try:
        for at, step in enumerate(path):
            named(path[:at], step)
    except OSError:
        raise StateError(f"FUSE: {path!r:.60} is no path within the folder") from None


def _attributes(status: os.stat_result) -> bytes:
    """What is told of a file. All files are root's."""
    times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
    seconds, rests = zip(*(divmod(max(time, 0), _SECOND) for time in times), strict=True)
    size, blocks = status.st_size, -(-status.st_size // 512)
    kept = (status.st_mode, status.st_nlink, 0, 0, 0, BLOCK, 0)
    return ATTRIBUTES.pack(status.st_ino, size, blocks, *seconds, *rests, *kept)


def _asked_for(body: Data) -> tuple[int, ...]:
    """What the kernel begins with; before 7.36 without a second word of flags, and shorter."""
    return fields(INIT_IN, bytes(body).ljust(INIT_IN.size, b"\0"))


def _may_be_direct(body: Data, said: bytes) -> bool:
    """Whether what is written may go past the guest's cache, by what was agreed on.

    Linux from 6.6 on maps such files. From 6.14 on, whose FUSE is 7.42, perf has its buffers where
    no direct write can take them from: each write of ``perf record`` would be EFAULT.
    """
    minor, flags = _asked_for(body)[1], INIT_OUT.unpack_from(said)[10]
    return minor < _PINNED_NO_MORE and bool(flags << 32 & Init.DIRECT_IO_ALLOW_MMAP)


def _time(valid: int, asked: int, now: int, seconds: int, rest: int) -> int | None:
    if not valid & asked:
        return None
    return -1 if valid & now else seconds * _SECOND + rest


def _statfs(node: int, body: Data) -> bytes:
    return STATFS_OUT.pack(*(BLOCKS,) * 5, BLOCK, NAME_MAX, BLOCK)


def _nothing(node: int, body: Data) -> bytes:
    return b""


def _refused(node: int, body: Data) -> bytes:
    raise OSError(errno.EPERM, "")
