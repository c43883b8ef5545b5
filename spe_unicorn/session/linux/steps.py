"""What our first program of a guest is told: the steps of ``firmware/linux/init.c``."""

from __future__ import annotations

from collections.abc import Sequence

from spe_unicorn.session.linux.archive import GuestError

READY = "=== ready"
"""What the guest prints where it waits for further steps."""
MOST = 65_000
"""Bytes of steps in the initial RAM disk; the guest has room for these."""
MOST_TYPED = 8_000
"""Bytes of steps that are typed: what comes far ahead of who reads it is dropped by the kernel."""
MOST_WORDS = 500
"""Words of a command."""
_MOUNTED = "trans=virtio,version=9p2000.L,msize=512000,cache="


def module(path: str) -> bytes:
    """Load the module in a file of the guest."""
    return _texts("module", path)


def share(tag: str, place: str) -> bytes:
    """Mount a folder of the host; what is written is there at once.

    It is mounted so that each write goes out before it ends. Without any cache Linux 6.12 and 7.2
    send 4 KiB a message; without ``noxattr`` they ask for a file's capabilities at each write.
    """
    return _texts("share", tag, place, f"{_MOUNTED}mmap,noxattr")


def file_system(tag: str, place: str) -> bytes:
    """The same by virtiofs, whose server says which files are written past the guest's cache."""
    return _texts("fs", tag, place)


def root(tag: str) -> bytes:
    """Mount a folder of the host and have it be the root; the guest keeps what it has read."""
    return _texts("root", tag, f"{_MOUNTED}loose")


def disk(name: str, place: str) -> bytes:
    """Mount the disk of that name; what is written is on it at once."""
    return _texts("disk", name, place)


def root_disk(name: str) -> bytes:
    """Mount the disk of that name and have it be the root."""
    return _texts("diskroot", name)


def copy(source: str, target: str) -> bytes:
    """Copy a file of the guest."""
    return _texts("copy", source, target)


def do(words: Sequence[str]) -> bytes:
    """Run a program, and say so if it fails."""
    return _texts("do", *_counted(words))


def ready() -> bytes:
    """Say :data:`READY`, and take what is typed as the steps that follow."""
    return _texts("ready")


def run(words: Sequence[str]) -> bytes:
    """Run the command; a shell for no words."""
    return _texts("run", *_counted(words))


def typed(steps: bytes) -> bytes:
    """What is typed to have further steps done. Raises GuestError for too many."""
    if len(steps) > MOST_TYPED:
        raise GuestError(
            f"a command from a snapshot has at most {MOST_TYPED} bytes, this one {len(steps)}"
        )
    return steps.hex().encode() + b"\n"


def _counted(words: Sequence[str]) -> list[str]:
    if len(words) > MOST_WORDS:
        raise GuestError(f"a command has at most {MOST_WORDS} words, this one {len(words)}")
    return [str(len(words)), *words]


def _texts(*texts: str) -> bytes:
    found = b"".join(text.encode(errors="surrogateescape") + b"\0" for text in texts)
    if found.count(b"\0") != len(texts):
        raise GuestError("a word of a command holds a NUL")
    return found
