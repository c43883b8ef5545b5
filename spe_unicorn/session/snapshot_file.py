"""A snapshot as a file: plain data with a version and a digest, and pages compressed.

After a first line that says what it is come the length of the header (8 bytes, little-endian), the
header (JSON: what machine, which sections), the sections, and a digest of everything before.
Sections are compressed with zstd: the states as JSON, the addresses of the pages, the pages in
blocks. A file that names an earlier one holds only the pages that are others than there.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from spe_unicorn import zstd
from spe_unicorn.host.pe.at_rest import EngineState
from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.machine.snapshot.board_state import BoardState
from spe_unicorn.machine.snapshot.pages import NO_PAGES, PAGE, Pages
from spe_unicorn.machine.storage.flash_files import memory_of
from spe_unicorn.parts import decode_parts, encode_parts
from spe_unicorn.plain import Count, PlainError, decode, encode
from spe_unicorn.session.console import ConsoleState
from spe_unicorn.session.snapshot import Snapshot, SnapshotError, checked

VERSION: Final = 3
"""The version of the file's form. Each change of the contents raises it."""
_KIND: Final = b"spe-unicorn snapshot "
_DIGEST: Final = 32
_LENGTH: Final = 8
_MOST_HEADER: Final = 16 << 20
_MOST_VALUES: Final = 4 << 20
"""The most values of JSON."""
_BLOCK: Final = 256
"""The number of pages that are compressed together."""
_AT_ONCE: Final = 32
"""The number of blocks that are unpacked before their pages are taken."""
_ADDRESS: Final = 8
"""Bytes of the address of a page."""
_ZEROS: Final = bytes(PAGE)
MORE: Final = "`memory`"
"""How messages name what asks for more memory."""
MOST_MEMORY: Final = 1 << 30
"""Bytes of the memory of a guest that are unpacked unless more is asked for."""
_BOARD_STATES: Final = 96 << 20
"""The most bytes of the states of a board as JSON: three consoles keep 16 MiB each."""
_PE_STATES: Final = 32 << 20
"""What each PE adds to it: large caches, sampled addresses."""
_CONSOLES: Final = 3
_PATHS: Final = frozenset({"firmware", "kernel", "initrd", "dtb", "bios", "semihosting_dir"})
_MOST_EARLIER: Final = 64
"""The most files that build on one another."""


class _Opened(NamedTuple):
    """A file whose digest and version are right."""

    header: dict[str, Any]
    data: memoryview
    """The sections."""
    digest: str


def write_snapshot(
    snapshot: Snapshot, path: str | os.PathLike[str], since: str | os.PathLike[str] | None = None
) -> int:
    """Write a snapshot, all of it or nothing. Return the size of the file in bytes.

    ``since`` is the file of an earlier snapshot in the same folder: only pages that differ from
    that file are written, and both files are needed to read the snapshot. Raises SnapshotError if
    it cannot be written, and TypeError for what is no snapshot.
    """
    checked(snapshot)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise SnapshotError(f"{path}: is no regular file")
    earlier: dict[str, str] | None = None
    pages: dict[int, bytes] = dict(snapshot.board.memory.pages)
    if since is not None:
        other = Path(os.path.realpath(since))
        if other.parent != target.parent:
            raise SnapshotError(f"{path}: {since}, on which it is to stand, is in another folder")
        opened = _open(other)
        whole = _Memory([range(1 << 48)], sys.maxsize)
        pages = snapshot.board.memory.since(_pages(other, opened, whole))
        earlier = {"file": other.name, "digest": opened.digest}
    return _write(target, path, _parts(snapshot, pages, earlier))


class SnapshotFile:
    """A file of :func:`write_snapshot`, of which the header alone has been looked at.

    The constructor and :meth:`read` raise SnapshotError, one line with the file's name, for a file
    that is no snapshot, was cut or altered, or is of another release.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._opened = _open(self._path)
        with _naming(path):
            self.options = _options(self._opened.header["options"])
            """The options of its machine; None if a file could not hold them."""

    def read(self, memory: int = MOST_MEMORY, drive: Sequence[str] | None = None) -> Snapshot:
        """The snapshot: no more is unpacked of it than its machine can have.

        ``memory`` is the most bytes of the guest's memory. ``drive`` are the machine's drives, of
        which pages can be in it: by default those that the file names.
        """
        opened = self._opened
        with _naming(self._path):
            machine = self.options or _stated(opened.header)
            drives = machine.drive if drive is None else drive
        pages = _pages(self._path, opened, _Memory(memory_of(machine), memory))
        with _naming(self._path):
            header = opened.header
            states = _json(_inflated(opened, "states", _most_states(machine.smp, drives)))
            board = BoardState(
                tuple(decode(EngineState, engine) for engine in states["engines"]),
                dict(states["parts"]),
                pages,
            )
            consoles = tuple(decode(ConsoleState, console) for console in states["consoles"])
            if len(board.engines) != machine.smp or len(consoles) != _CONSOLES:
                raise SnapshotError("is damaged: it has the states of another machine")
            return Snapshot(
                self.options,
                decode(dict[str, str], header["identity"]),
                decode(Count, header["operations"]),
                board,
                consoles,
                decode(str | None, header["ended"]),
                of_file=True,
            )


def read_snapshot(path: str | os.PathLike[str], memory: int = MOST_MEMORY) -> Snapshot:
    """Read a file of :func:`write_snapshot`.

    The guest's memory in it may take ``memory`` bytes. Raises SnapshotError, one line with the
    file's name, for a file that is no snapshot, was cut or altered, is of another release, or is
    larger than its machine.
    """
    return SnapshotFile(path).read(memory=memory)


def decoded(snapshot: Snapshot, parts: Mapping[str, object]) -> Snapshot:
    """A snapshot of a file, with its states decoded for the ``parts`` of a machine.

    Raises SnapshotError if the states are those of other parts.
    """
    if not snapshot.of_file:
        return snapshot
    try:
        found = decode_parts(parts, snapshot.board.parts)
    except PlainError as error:
        raise SnapshotError(f"the snapshot is of another release: {error}") from None
    return replace(snapshot, board=replace(snapshot.board, parts=found), of_file=False)


# Writing


def _parts(
    snapshot: Snapshot, pages: dict[int, bytes], earlier: dict[str, str] | None
) -> Iterator[bytes]:
    """The pieces of the file, in order; the digest comes after them."""
    board = snapshot.board
    states = {
        "engines": [encode(engine) for engine in board.engines],
        "parts": encode_parts(board.parts),
        "consoles": [encode(console) for console in snapshot.consoles],
    }
    addresses = sorted(pages)
    gone = [at for at in addresses if not pages[at]]
    there = [at for at in addresses if pages[at]]
    blocks = [there[n : n + _BLOCK] for n in range(0, len(there), _BLOCK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        packed = list(pool.map(lambda at: _deflated(b"".join(pages[a] for a in at)), blocks))
    sections = {
        "states": [_deflated(json.dumps(states, separators=(",", ":")).encode())],
        "addresses": [_deflated(np.array(there, np.uint64).tobytes())],
        "gone": [_deflated(np.array(gone, np.uint64).tobytes())],
        "pages": packed,
    }
    header = json.dumps(
        {
            "identity": encode(snapshot.identity),
            "options": _plain_options(snapshot.options),
            "operations": snapshot.operations,
            "ended": snapshot.ended,
            "earlier": earlier,
            "sections": {name: [len(piece) for piece in all_] for name, all_ in sections.items()},
        }
    ).encode()
    yield _KIND + f"{VERSION}\n".encode()
    yield len(header).to_bytes(_LENGTH, "little")
    yield header
    for all_ in sections.values():
        yield from all_


def _deflated(data: bytes) -> bytes:
    return zstd.compress(data, 1)


def _write(target: Path, path: object, pieces: Iterator[bytes]) -> int:
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    digest = blake2b(digest_size=_DIGEST)
    try:
        with open(beside, "xb") as stream:
            for piece in pieces:
                digest.update(piece)
                stream.write(piece)
            stream.write(digest.digest())
            size = stream.tell()
        os.replace(beside, target)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{path}: {_why(error)}; nothing was written") from None
    finally:
        with suppress(OSError):
            beside.unlink()
    return size


def _plain_options(options: MachineOptions | None) -> dict[str, Any] | None:
    """The options as JSON; None if they hold an object that no file can hold."""
    if options is None:
        return None
    found: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in _PATHS and isinstance(value, (str, os.PathLike)):
            value = os.path.abspath(os.fspath(value))
        elif isinstance(value, Sampling):
            value = {f.name: getattr(value, f.name) for f in fields(value)}
        elif field.name == "core" and isinstance(value, str) and os.path.isfile(value):
            value = os.path.abspath(value)
        if value is not None and not isinstance(value, (bool, int, str, tuple, dict)):
            return None
        found[field.name] = value
    return found


# Reading


def _open(path: Path) -> _Opened:
    """Read a file, and check its kind, version and digest; nothing is unpacked."""
    with _naming(path):
        if not stat.S_ISREG(path.stat().st_mode):
            raise SnapshotError("is no regular file")
        data = memoryview(path.read_bytes())
        line = bytes(data[: len(_KIND) + 8]).split(b"\n", 1)
        if not line[0].startswith(_KIND) or len(line) < 2:
            raise SnapshotError("is no snapshot")
        version = line[0].removeprefix(_KIND).decode(errors="replace")
        if version != str(VERSION):
            raise SnapshotError(
                f"is a snapshot of version {version:.8}; this release reads version {VERSION}"
            )
        found = bytes(data[-_DIGEST:])
        if blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != found:
            raise SnapshotError("was cut or altered: its digest is not that of its contents")
        start = len(line[0]) + 1
        length = int.from_bytes(data[start : start + _LENGTH], "little")
        start += _LENGTH
        if length > min(_MOST_HEADER, len(data) - _DIGEST - start):
            raise SnapshotError("is damaged: its header is too long")
        header = _json(bytes(data[start : start + length]))
        if not isinstance(header, dict):
            raise SnapshotError("is damaged: it has no header")
        return _Opened(header, data[start + length : -_DIGEST], found.hex())


def _json(data: bytes) -> Any:
    """JSON of at most so many values: each takes a hundred times the memory of its text."""
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise SnapshotError("is damaged: it has more values than any can have")
    return json.loads(data)


def _pieces(opened: _Opened, section: str) -> list[memoryview]:
    """The compressed pieces of a section."""
    at = 0
    for name, lengths in opened.header["sections"].items():
        lengths = decode(list[Count], lengths)
        if name == section:
            ends = np.cumsum([at, *lengths]).tolist()
            return [opened.data[a:b] for a, b in pairwise(ends)]
        at += sum(lengths)
    raise SnapshotError(f"is damaged: it has no section {section}")


def _inflated(opened: _Opened, section: str, most: int) -> bytes:
    """A section of one piece, of at most so many bytes."""
    (piece,) = _pieces(opened, section)
    return _inflate(piece, range(most + 1))


def _inflate(piece: memoryview, sizes: range) -> bytes:
    """What a piece unpacks to, which has one of these sizes."""
    if zstd.content_size(piece) not in sizes:
        raise SnapshotError("is damaged: a section is larger than any can be")
    return zstd.decompress(piece)


class _Memory(NamedTuple):
    """What memory the machine has that a file is for."""

    regions: list[range]
    most: int
    """Bytes of it that are unpacked."""

    @property
    def room(self) -> int:
        """Bytes of the addresses of all its pages."""
        return sum(len(region) // PAGE for region in self.regions) * _ADDRESS


def _pages(path: Path, opened: _Opened, memory: _Memory, depth: int = 0) -> Pages:
    """The pages of a file and of the earlier files on which it builds."""
    with _naming(path):
        before = NO_PAGES
        earlier = opened.header["earlier"]
        if earlier is not None:
            if depth >= _MOST_EARLIER:
                raise SnapshotError(f"stands on more than {_MOST_EARLIER} others")
            name = decode(str, earlier["file"])
            other = beside(path, name)
            below = _open(other)
            if below.digest != earlier["digest"]:
                raise SnapshotError(f"stands on {name}, which is another file now")
            before = _pages(other, below, memory, depth + 1)
        addresses = _addresses(opened, "addresses", memory)
        pages = dict(before.pages)
        for at in _addresses(opened, "gone", memory):
            pages.pop(at, None)
        size = len(pages.keys() | addresses) * PAGE
        if size > memory.most:
            raise SnapshotError(_too_large(size, memory.most))
        pieces = _pieces(opened, "pages")
        counts = [len(addresses[n : n + _BLOCK]) for n in range(0, len(addresses), _BLOCK)]
        if len(pieces) != len(counts):
            raise SnapshotError("is damaged: pages are missing")
        where = iter(addresses)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for first in range(0, len(pieces), _AT_ONCE):
                some = slice(first, first + _AT_ONCE)
                for block in pool.map(_inflate_pages, pieces[some], counts[some]):
                    for n in range(0, len(block), PAGE):
                        pages[next(where)] = block[n : n + PAGE]
        return Pages(pages)


def _inflate_pages(piece: memoryview, count: int) -> bytes:
    data = _inflate(piece, range(count * PAGE, count * PAGE + 1))
    if any(data[n : n + PAGE] == _ZEROS for n in range(0, len(data), PAGE)):
        raise SnapshotError("is damaged: a page of zeros is in it")
    return data


def _too_large(size: int, most: int) -> str:
    return (
        f"holds {-(-size >> 20)} MiB of memory; {most >> 20} MiB are read unless {MORE} says more"
    )


def beside(path: Path, name: str) -> Path:
    """The file ``name`` in the folder of a snapshot. Raises SnapshotError for what is elsewhere."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise SnapshotError(f"stands on {name!r:.60}, which is not a file in its own folder")
    found = Path(os.path.realpath(path)).parent / name
    if found.is_symlink():
        raise SnapshotError(f"stands on {name!r:.60}, which is a link")
    return found


def _addresses(opened: _Opened, section: str, memory: _Memory) -> list[int]:
    """Addresses of pages, which ascend and are the machine's."""
    data = _inflated(opened, section, memory.room)
    addresses: list[int] = np.frombuffer(data, np.uint64).tolist()
    if any(at % PAGE for at in addresses):
        raise SnapshotError("is damaged: a page has no page's address")
    if any(a >= b for a, b in pairwise(addresses)):
        raise SnapshotError("is damaged: its pages are in no order")
    if not all(any(at in region for region in memory.regions) for at in addresses):
        raise SnapshotError("is damaged: a page lies where its machine has no memory")
    return addresses


def _options(data: dict[str, Any] | None) -> MachineOptions | None:
    if data is None:
        return None
    sampling = data["sampling"]
    return MachineOptions(
        **{
            **data,
            "arguments": tuple(data["arguments"]),
            "sampling": None
            if sampling is None
            else Sampling(**{**sampling, "kinds": tuple(sampling["kinds"])}),
        }
    )


def _stated(header: dict[str, Any]) -> MachineOptions:
    """A machine as large as the one that a header without options is of."""
    said = decode(dict[str, str], header["identity"])
    return MachineOptions(ram=int(said["ram"]), smp=int(said["smp"]), flash=True, secure=True)


def _most_states(pes: int, drives: Iterable[str]) -> int:
    """Bytes of the states of a machine as JSON, at most."""
    disks = 0
    for text in drives:
        with suppress(OSError, ValueError):
            disks += os.path.getsize(text)
    return _BOARD_STATES + _PE_STATES * pes + 2 * disks


_DAMAGED: Final = (
    PlainError,
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    StopIteration,
    zstd.ZstdError,
    RecursionError,
    OverflowError,
)


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the file's name before the error within."""
    name = str(path) if str(path).isprintable() else repr(str(path))
    try:
        yield
    except SnapshotError as error:
        raise SnapshotError(f"{name}: {error}") from None
    except (OSError, MemoryError) as error:
        raise SnapshotError(f"{name}: {_why(error)}") from None
    except _DAMAGED as error:
        raise SnapshotError(f"{name}: is damaged: {error}") from None


def _why(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or "cannot be read"
    return "is no file name" if isinstance(error, ValueError) else "is too large for this host"
