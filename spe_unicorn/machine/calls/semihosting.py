"""Semihosting for AArch64: what a guest asks of its host with ``HLT #0xF000``.

The operations are those of Arm's semihosting specification (version 3): the number is in W0, the
parameter or the address of its block in X1, the result goes to X0. Time is the guest's own, so
that a run stays the same on every host. No host file is touched unless a folder is given.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Protocol

from spe_unicorn.machine.calls.handles import ConsoleFile, ConstantFile, File, os_error
from spe_unicorn.machine.calls.shared_folder import SharedFolder
from spe_unicorn.plain import Bits32, Within
from spe_unicorn.stateful import StateError, Stateful, expect

HLT_IMMEDIATE = 0xF000
"""The immediate of HLT that means semihosting in A64."""

_MASK = (1 << 64) - 1
_ERROR = _MASK
_APPLICATION_EXIT = 0x20026  # ADP_Stopped_ApplicationExit
_PIECE = 0x1_0000
_PAGE = 0x1000
_LONGEST_NAME = 4096
_LONGEST_STRING = 16 << 20
_MOST_FILES = 256
_CONSOLE, _FEATURES_NAME = b":tt", b":semihosting-features"
_FEATURES = b"SHFB\x03"  # EXIT_EXTENDED exists; :tt tells stdout from stderr
_NANOSECONDS = 1_000_000_000


class Operation(IntEnum):
    """The operations that are answered; all others fail with ENOSYS."""

    OPEN = 0x01
    CLOSE = 0x02
    WRITEC = 0x03
    WRITE0 = 0x04
    WRITE = 0x05
    READ = 0x06
    READC = 0x07
    ISERROR = 0x08
    ISTTY = 0x09
    SEEK = 0x0A
    FLEN = 0x0C
    REMOVE = 0x0E
    RENAME = 0x0F
    CLOCK = 0x10
    TIME = 0x11
    ERRNO = 0x13
    GET_CMDLINE = 0x15
    HEAPINFO = 0x16
    EXIT = 0x18
    EXIT_EXTENDED = 0x20
    ELAPSED = 0x30
    TICKFREQ = 0x31


@dataclass(frozen=True, slots=True)
class Exit:
    """The guest ends itself; ``status`` is 0 to 255, as a host's exit status is."""

    status: int


@dataclass(frozen=True, slots=True)
class HeapInfo:
    """Where a C library may put its heap and stack; 0 leaves the choice to the library."""

    heap_base: int = 0
    heap_limit: int = 0
    stack_base: int = 0
    """The first address above the stack, which grows down from here."""
    stack_limit: int = 0


class VirtualMemory(Protocol):
    """Guest memory as the code that asks sees it, through its own translation.

    ``size`` is how many bytes there are of it, whatever the translation makes of them.
    """

    size: int

    def read(self, address: int, size: int) -> bytes | None:
        """``size`` bytes at a virtual address, or None where they cannot be read."""
        ...

    def write(self, address: int, data: bytes) -> bool:
        """Store ``data`` at a virtual address; False where that cannot be done."""
        ...


@dataclass(slots=True)
class OpenFile:
    """A file that the guest has open; ``mode`` is SYS_OPEN's, ``position`` in bytes."""

    name: Annotated[bytes, Within(0, _LONGEST_NAME)]
    mode: Annotated[int, Within(0, 11)]
    position: Annotated[int, Within(0, (1 << 63) - 1)] = 0
    """As it was when the state was saved."""
    digest: str = ""
    """Of what was in it then; empty for what is no file of the host, and for one that is gone."""


@dataclass(slots=True)
class SemihostingState:
    """What is saved of semihosting."""

    errno: Bits32 = 0
    """What SYS_ERRNO gives."""
    files: dict[Annotated[int, Within(1, _MOST_FILES)], OpenFile] = field(default_factory=dict)
    """By handle."""


@dataclass(frozen=True)
class Host:
    """What semihosting has of the host."""

    write: Callable[[bytes], None]
    """Takes console output."""
    read: Callable[[int], bytes]
    """Waits for console input and returns 1 to as many bytes, or none at its end."""
    stopping: Callable[[], bool]
    """Whether the run is to end; asked between the pieces of a long transfer."""
    nanoseconds: Callable[[], int]
    """Guest time since the start."""
    command_line: bytes = b""
    """What SYS_GET_CMDLINE hands out."""
    heap: HeapInfo = HeapInfo()
    folder: SharedFolder | None = None
    """The files of the host that there are."""


class Semihosting(Stateful[SemihostingState]):
    """Answers semihosting calls; knows guest memory, and what it has of the host."""

    DERIVED = ("_files",)

    def __init__(self, memory: VirtualMemory, host: Host) -> None:
        self._memory = memory
        self._host = host
        self._files: dict[int, File] = {}
        """What the handles stand for on the host."""
        self.s = SemihostingState()

    def call(self, operation: int, parameter: int) -> int | Exit:
        """Do the operation numbered ``operation`` (W0) with ``parameter`` (X1).

        Returns the value for X0, or an :class:`Exit`. What fails returns what the specification
        says for failure (mostly -1) and leaves its number for SYS_ERRNO.
        """
        handler = _HANDLERS.get(operation & 0xFFFF_FFFF)
        try:
            if handler is None:
                raise os_error(errno.ENOSYS)
            result = handler(self, parameter)
        except OSError as error:
            self.s.errno = error.errno or errno.EIO
            return _ERROR
        return result if isinstance(result, Exit) else result & _MASK

    def close(self) -> None:
        """Close every file that the guest left open."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self.s.files.clear()

    def save(self) -> SemihostingState:
        """A copy of the state, with the positions of the files as they are now."""
        for handle, file in self._files.items():
            opened = self.s.files[handle]
            opened.position = file.position()
            opened.digest = self._digest(opened)
        return super().save()

    def check(self, state: SemihostingState) -> None:
        """Raise StateError for a file that is not what it was when the guest had it open."""
        for opened in state.files.values():
            if opened.name == _CONSOLE:
                continue
            if opened.name == _FEATURES_NAME:
                expect(opened.mode <= 1, "a file of semihosting")
                continue
            name = repr(opened.name.decode(errors="replace"))
            now = self._digest(opened)
            if not now:
                raise StateError(f"{name}, which the guest had open, is not there (semihosting)")
            if now != opened.digest:
                raise StateError(
                    f"{name}, which the guest had open, has other contents now (semihosting)"
                )

    def _digest(self, opened: OpenFile) -> str:
        if opened.name in (_CONSOLE, _FEATURES_NAME) or self._host.folder is None:
            return ""
        return self._host.folder.digest(opened.name)

    def _derive(self) -> None:
        """Open the files anew, as they were. Raises OSError for one that is no longer there."""
        for file in self._files.values():
            file.close()
        self._files = {}
        for handle, opened in self.s.files.items():
            self._files[handle] = file = self._opened(opened.name, opened.mode, again=True)
            if not file.is_terminal:
                file.seek(opened.position)

    # Guest memory. A failure is EFAULT, as a system call would have it.

    def _load(self, address: int, size: int) -> bytes:
        data = self._memory.read(address & _MASK, size)
        if data is None:
            raise os_error(errno.EFAULT)
        return data

    def _store(self, address: int, data: bytes) -> None:
        if not self._memory.write(address & _MASK, data):
            raise os_error(errno.EFAULT)

    def _fields(self, block: int, count: int) -> tuple[int, ...]:
        data = self._load(block, 8 * count)
        return tuple(int.from_bytes(data[8 * i : 8 * i + 8], "little") for i in range(count))

    def _name(self, address: int, size: int) -> bytes:
        if size > _LONGEST_NAME:
            raise os_error(errno.ENAMETOOLONG)
        return self._load(address, size)

    def _file(self, handle: int) -> File:
        try:
            return self._files[handle]
        except KeyError:
            raise os_error(errno.EBADF) from None

    # The console.

    def _writec(self, address: int) -> int:
        self._host.write(self._load(address, 1))
        return 0

    def _write0(self, address: int) -> int:
        """SYS_WRITE0. What is longer than :data:`_LONGEST_STRING` is no string any more."""
        left = _LONGEST_STRING
        while left > 0:
            # Up to the end of a page: what lies after the string may not be mapped.
            piece = self._load(address, min(256, _PAGE - address % _PAGE))
            text, end, _ = piece.partition(b"\0")
            if text:
                self._host.write(text)
            if end:
                return 0
            address += len(piece)
            left -= len(piece)
            if address % _PAGE == 0 and self._host.stopping():
                return 0
        raise os_error(errno.E2BIG)

    def _readc(self, _: int) -> int:
        data = self._host.read(1)
        return data[0] if data else _ERROR

    # Files and handles.

    def _open(self, block: int) -> int:
        address, mode, size = self._fields(block, 3)
        name = self._name(address, size)
        if mode > 11:
            raise os_error(errno.EINVAL)
        if len(self._files) >= _MOST_FILES:
            raise os_error(errno.EMFILE)
        handle = next(n for n in range(1, _MOST_FILES + 1) if n not in self._files)
        self._files[handle] = self._opened(name, mode)
        self.s.files[handle] = OpenFile(name, mode)
        return handle

    def _opened(self, name: bytes, mode: int, *, again: bool = False) -> File:
        if name == _CONSOLE:
            return (
                ConsoleFile(read=self._host.read)
                if mode < 4
                else ConsoleFile(write=self._host.write)
            )
        if name == _FEATURES_NAME:
            if mode > 1:
                raise os_error(errno.EACCES)
            return ConstantFile(_FEATURES)
        return self._shared().open(name, mode // 2, again=again)

    def _shared(self) -> SharedFolder:
        if self._host.folder is None:
            raise os_error(errno.EACCES)
        return self._host.folder

    def _close(self, block: int) -> int:
        (handle,) = self._fields(block, 1)
        self._file(handle).close()
        del self._files[handle], self.s.files[handle]
        return 0

    def _write_file(self, block: int) -> int:
        """SYS_WRITE returns the number of bytes that were not written."""
        handle, address, left = self._fields(block, 3)
        try:
            file = self._file(handle)
            end = left - min(left, self._memory.size)
            while left:
                if left <= end:
                    raise os_error(errno.EFAULT)  # it would write some of memory twice
                piece = self._load(address, min(left - end, _PIECE - address % _PIECE))
                file.write(piece)
                address += len(piece)
                left -= len(piece)
                if self._host.stopping():
                    break
        except OSError as error:
            self.s.errno = error.errno or errno.EIO
        return left

    def _read_file(self, block: int) -> int:
        """SYS_READ returns the number of bytes that were not read; all of them at the end."""
        handle, address, left = self._fields(block, 3)
        try:
            file = self._file(handle)
            while left:
                data = file.read(min(left, _PIECE))
                if not data:
                    break
                self._store(address, data)
                address += len(data)
                left -= len(data)
                if file.is_terminal or self._host.stopping():
                    break  # a line that was typed is an answer; do not wait for more
        except OSError as error:
            self.s.errno = error.errno or errno.EIO
        return left

    def _is_error(self, block: int) -> int:
        return self._fields(block, 1)[0] >> 63

    def _is_terminal(self, block: int) -> int:
        return int(self._file(*self._fields(block, 1)).is_terminal)

    def _seek(self, block: int) -> int:
        handle, position = self._fields(block, 2)
        if position >> 63:
            raise os_error(errno.EINVAL)
        self._file(handle).seek(position)
        return 0

    def _length(self, block: int) -> int:
        return self._file(*self._fields(block, 1)).length()

    def _remove(self, block: int) -> int:
        self._shared().remove(self._name(*self._fields(block, 2)))
        return 0

    def _rename(self, block: int) -> int:
        old, old_size, new, new_size = self._fields(block, 4)
        self._shared().rename(self._name(old, old_size), self._name(new, new_size))
        return 0

    # Time, and what the guest asks about itself.

    def _clock(self, _: int) -> int:
        return self._host.nanoseconds() * 100 // _NANOSECONDS

    def _time(self, _: int) -> int:
        """SYS_TIME counts seconds since 1970; a deterministic machine starts at that moment."""
        return self._host.nanoseconds() // _NANOSECONDS

    def _elapsed(self, block: int) -> int:
        self._store(block, self._host.nanoseconds().to_bytes(8, "little"))
        return 0

    def _tick_frequency(self, _: int) -> int:
        return _NANOSECONDS

    def _last_error(self, _: int) -> int:
        return self.s.errno

    def _get_command_line(self, block: int) -> int:
        address, size = self._fields(block, 2)
        if len(self._host.command_line) + 1 > size:
            raise os_error(errno.E2BIG)
        self._store(address, self._host.command_line + b"\0")
        self._store(block + 8, len(self._host.command_line).to_bytes(8, "little"))
        return 0

    def _heap_info(self, block: int) -> int:
        (address,) = self._fields(block, 1)
        heap = self._host.heap
        words = (heap.heap_base, heap.heap_limit, heap.stack_base, heap.stack_limit)
        self._store(address, b"".join(word.to_bytes(8, "little") for word in words))
        return 0

    def _exit(self, block: int) -> Exit:
        """SYS_EXIT takes a block in A64: the reason, and for an application's exit its status."""
        reason, status = self._fields(block, 2)
        return Exit(status & 0xFF if reason == _APPLICATION_EXIT else 1)


_HANDLERS: dict[int, Callable[[Semihosting, int], int | Exit]] = {
    Operation.OPEN: Semihosting._open,
    Operation.CLOSE: Semihosting._close,
    Operation.WRITEC: Semihosting._writec,
    Operation.WRITE0: Semihosting._write0,
    Operation.WRITE: Semihosting._write_file,
    Operation.READ: Semihosting._read_file,
    Operation.READC: Semihosting._readc,
    Operation.ISERROR: Semihosting._is_error,
    Operation.ISTTY: Semihosting._is_terminal,
    Operation.SEEK: Semihosting._seek,
    Operation.FLEN: Semihosting._length,
    Operation.REMOVE: Semihosting._remove,
    Operation.RENAME: Semihosting._rename,
    Operation.CLOCK: Semihosting._clock,
    Operation.TIME: Semihosting._time,
    Operation.ERRNO: Semihosting._last_error,
    Operation.GET_CMDLINE: Semihosting._get_command_line,
    Operation.HEAPINFO: Semihosting._heap_info,
    Operation.EXIT: Semihosting._exit,
    Operation.EXIT_EXTENDED: Semihosting._exit,
    Operation.ELAPSED: Semihosting._elapsed,
    Operation.TICKFREQ: Semihosting._tick_frequency,
}
