"""Machine code that is kept between runs, in a folder that belongs only to the user.

Machine code is as good as a program, so it is read from no folder and no file that another user
could have written: both belong to the user, the folder has mode 0700, and neither is a link.
Where there is no such folder nothing is kept, and each run compiles what it needs. Whatever is
wrong with the folder, a file or the disk, a run never fails for it.

The folder is ``compiled`` in ``$SPE_UNICORN_CACHE_DIR``, or in the platform's folder for caches
(``~/.cache/spe-unicorn`` on Linux). A file begins with a digest of its key and contents: damaged
files are as good as none. Files are written under another name and then renamed, so that of several
processes each finds a whole file or none.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

import platformdirs

VARIABLE: Final = "SPE_UNICORN_CACHE_DIR"
_DIGEST: Final = 32
_VERSIONS: Final = 8
"""Files that are kept of each function: for other hosts, versions and environments."""
_LARGEST: Final = 1 << 24
"""Bytes that are read of a file; that of a function here has some ten thousand."""


class _RefusedError(Exception):
    """The folder cannot be used; the message says why."""


def place() -> Path:
    """The folder as it is meant to be, whether it can be used or not."""
    return (_chosen() or Path("~/.cache/spe-unicorn")) / "compiled"


def _chosen() -> Path | None:
    """The folder for caches; None for a user who has no home."""
    with suppress(RuntimeError):  # neither HOME nor an entry in the password file
        chosen = os.environ.get(VARIABLE)
        return Path(chosen or platformdirs.user_cache_dir("spe-unicorn", appauthor=False))
    return None


def read(name: str, key: str) -> bytes | None:
    """What was kept of function ``name`` under ``key``; None if that is nothing, or damaged."""
    try:
        data = _contents(_folder(create=False) / _file(name, key))
    except (OSError, _RefusedError):
        return None
    digest, code = data[:_DIGEST], data[_DIGEST:]
    return code if digest == _digest(key, code) else None


def write(name: str, key: str, code: bytes) -> None:
    """Keep machine code, if that is possible."""
    try:
        folder = _folder(create=True)
        _write(folder, folder / _file(name, key), _digest(key, code) + code)
        _give_up_old(folder, name)
    except (OSError, _RefusedError):
        pass  # said by `say_once` where it lasts


_said = False


def say_nothing() -> None:
    """From now on compile in silence."""
    global _said
    _said = True


def say_once() -> None:
    """Say that something is being compiled, and where it is kept, on standard error."""
    reason = _why_lost()
    if reason is None:
        _say(f"compiling its hooks for this machine (kept in {place()})")
    else:
        _say(
            "compiling its hooks for this machine (not kept, so each run compiles anew:"
            f" {place()}: {reason}; set {VARIABLE})"
        )


def say_if_lost() -> None:
    """Say that machine code is made in each run, on standard error, if it cannot be kept."""
    reason = _why_lost()
    if reason is not None:
        _say(f"each run takes a second to begin: {place()}: {reason}; set {VARIABLE}")


def _why_lost() -> str | None:
    """Why nothing can be kept; None if it can, or if that is not to be told."""
    if _said:
        return None
    try:
        _folder(create=True)
    except (OSError, _RefusedError) as error:
        return error.strerror if isinstance(error, OSError) else str(error)
    return None


def _say(what: str) -> None:
    if _said or sys.stderr is None:
        return
    say_nothing()
    with suppress(OSError):
        print(f"spe-unicorn: {what}", file=sys.stderr, flush=True)


def _folder(*, create: bool) -> Path:
    """The folder, which then belongs only to the user. Raises OSError or _RefusedError."""
    if _chosen() is None:
        raise _RefusedError("this user has no home")
    folder = place()
    if create:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise _RefusedError("it is no folder")
    if hasattr(os, "geteuid"):
        if found.st_uid != os.geteuid():
            raise _RefusedError(f"it belongs to user {found.st_uid}, not to {os.geteuid()}")
        if found.st_mode & 0o077:
            raise _RefusedError(f"it has mode {stat.S_IMODE(found.st_mode):04o}, not 0700")
    if create and not os.access(folder, os.W_OK):
        raise _RefusedError("it cannot be written to")
    return folder


def _contents(file: Path) -> bytes:
    """A file of the user's own. Raises OSError for others."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(file, flags | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise OSError(f"{file} is no file of machine code")
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise OSError(f"{file} belongs to user {found.st_uid}")
        return stream.read()


def _write(folder: Path, file: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _give_up_old(folder: Path, name: str) -> None:
    """Remove all but the newest files of a function."""
    files = sorted(folder.glob(f"{name}-*.o"), key=lambda file: file.stat().st_mtime)
    for file in files[:-_VERSIONS]:
        file.unlink(missing_ok=True)


def _file(name: str, key: str) -> str:
    return f"{name}-{key}.o"


def _digest(key: str, code: bytes) -> bytes:
    return blake2b(code, digest_size=_DIGEST, key=key.encode()).digest()
