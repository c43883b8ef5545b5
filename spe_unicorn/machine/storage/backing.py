"""Files of the host that hold what the guest stores: named by the user, locked while in use."""

from __future__ import annotations

import fcntl
import os
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Final

from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.files import host_errors, naming

READ_ONLY = ",readonly"
"""What stands behind the name of a file that is not to be written."""
VIRTIOFS = ",virtiofs"
"""What stands behind that of a folder that the guest has by virtiofs and not by 9P."""

WHOLE: Final = 64 << 20
"""Bytes of the largest file of which :meth:`HostFile.digest` reads every byte."""
_BEGINNING: Final = 1 << 20
"""Bytes that the digest reads at once, and at the beginning of a larger file."""
_PLACES: Final = 1 << 14
"""Places of a larger file that the digest reads, at equal distances from its start to its end."""
_PLACE: Final = 4096
"""Bytes of each of these places."""


def split_read_only(text: str) -> tuple[str, bool]:
    """A file's name, and whether ``,readonly`` stands behind it."""
    name = text.removesuffix(READ_ONLY)
    return name, name != text


def split_share(text: str) -> tuple[str, bool, bool]:
    """A folder's name, and whether ``,readonly`` and ``,virtiofs`` stand behind it."""
    shorter = text.removesuffix(VIRTIOFS)
    return *split_read_only(shorter), shorter != text


class HostFile:
    """A file, open. What is written is in the file at once, whatever becomes of this process.

    Raises LoadError, one line with the file's name, for what cannot be used.
    """

    WIRING = ("_descriptor",)

    def __init__(self, text: str) -> None:
        name, self.read_only = split_read_only(text)
        self.path = Path(name)
        self._descriptor = -1
        with naming(name), host_errors("cannot be opened"):
            self._open()
            self.size = os.fstat(self._descriptor).st_size

    def _open(self) -> None:
        mode = self.path.stat().st_mode  # opening a FIFO would wait for its writer
        if not stat.S_ISREG(mode):
            raise LoadError("is not a regular file")
        if not self.read_only and not os.access(self.path, os.W_OK):
            raise LoadError(f"is read-only: allow writes, or say {self.path.name}{READ_ONLY}")
        flags = os.O_RDONLY if self.read_only else os.O_RDWR
        self._descriptor = os.open(self.path, flags | os.O_CLOEXEC)
        try:
            lock = fcntl.LOCK_SH if self.read_only else fcntl.LOCK_EX
            fcntl.flock(self._descriptor, lock | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LoadError("is in use by another machine") from None

    def __del__(self) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes | None:
        """The bytes at ``offset``, zeros after the file's end; None where the host cannot read."""
        try:
            data = os.pread(self._descriptor, size, offset)
        except OSError:
            return None
        return data.ljust(size, b"\0")  # somebody has cut it off since

    def write(self, offset: int, data: bytes) -> bool:
        """Store ``data`` at ``offset``; False where the host cannot."""
        try:
            return os.pwrite(self._descriptor, data, offset) == len(data)
        except OSError:
            return False

    def digest(self) -> str:
        """A hash of the file's size and contents, in hexadecimal.

        Of a file larger than :data:`WHOLE` it is a hash of the size, the first megabyte and places
        all over the file, because to read all of a large disk would take seconds. A change between
        those places leaves it as it is.
        """
        found = blake2b(self.size.to_bytes(8, "little"), digest_size=16)
        if self.size <= WHOLE:
            for at in range(0, self.size, _BEGINNING):
                found.update(self.read(at, min(_BEGINNING, self.size - at)) or b"")
            return found.hexdigest()
        found.update(self.read(0, _BEGINNING) or b"")
        for number in range(_PLACES):
            at = (self.size - _PLACE) * number // (_PLACES - 1)
            found.update(self.read(at, _PLACE) or b"")
        return found.hexdigest()

    def flush(self) -> bool:
        """Have the host store all that was written for good; False where it cannot."""
        try:
            os.fsync(self._descriptor)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the file, which unlocks it. A second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
