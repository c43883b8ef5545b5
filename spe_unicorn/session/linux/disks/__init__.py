"""Disks for guests whose kernels cannot mount a folder of the host: ext2, made and read here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spe_unicorn.machine.storage.backing import READ_ONLY, HostFile
from spe_unicorn.session.linux.disks.making import make_disk
from spe_unicorn.session.linux.disks.reading import DiskError, read_disk

OUT, ROOT = "spe-out", "spe-root"
"""The names of the disk that is ``/out``, and of the one that is the root."""
_FILES: Final = {f"{name}.disk": name for name in (OUT, ROOT)}
_WRITE: Final = ",write"
_OUT_ROOM: Final = 4 << 30
"""Bytes that a command can write below ``/out``."""
_ROOT_ROOM: Final = 1 << 30
"""Bytes that are free on a root; what is written stays in the machine's memory."""


def drive_of(name: str, place: Path) -> str:
    """The drive of a machine that has the disk of that name, in a folder of the host."""
    return f"{place / name}.disk" + _WRITE * (name == OUT)


def made_here(drive: str) -> Path | None:
    """The file of a drive that :func:`drive_of` has named, None for any other."""
    file = Path(drive.removesuffix(_WRITE))
    return file if file.name in _FILES else None


def is_out(drives: Sequence[str]) -> bool:
    """Whether the last of these drives is ``/out``."""
    file = made_here(drives[-1]) if drives else None
    return file is not None and _FILES[file.name] == OUT


def make(drive: str, folder: Path | None = None) -> None:
    """Make the disk of such a drive: a root with what is in ``folder``, or an empty one for out.

    Raises GuestError.
    """
    file = Path(drive.removesuffix(_WRITE))
    make_disk(file, _FILES[file.name], folder, _OUT_ROOM if folder is None else _ROOT_ROOM)


def contents(drive: str) -> str:
    """What tells apart the contents of such a drive: nothing for one that begins empty."""
    file = Path(drive.removesuffix(_WRITE))
    if _FILES[file.name] == OUT:
        return OUT
    opened = HostFile(f"{file}{READ_ONLY}")
    found = opened.digest()
    opened.close()
    return found


def take_out(drive: str, folder: Path) -> str | None:
    """Put what is on the disk into a folder; a sentence if not all of it could be."""
    try:
        left_out = read_disk(Path(drive.removesuffix(_WRITE)), folder)
    except DiskError as error:
        return f"the disk of /out cannot be read to its end: it {error}"
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror}, so the disk of /out is not read"
    if not left_out:
        return None
    return f"of /out these were left out, as they are no files or damaged: {', '.join(left_out)}"
