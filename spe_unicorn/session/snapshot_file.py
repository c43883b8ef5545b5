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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import zstandard

from spe_unicorn.host.pe.at_rest import EngineState
from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.machine.snapshot.board_state import BoardState
from spe_unicorn.machine.snapshot.pages import NO_PAGES, PAGE, Pages
from spe_unicorn.parts import decode_parts, encode_parts
from spe_unicorn.plain import PlainError, decode, encode
from spe_unicorn.session.console import ConsoleState
from spe_unicorn.session.snapshot import Snapshot, SnapshotError, checked

VERSION: Final = 3
"""The version of the file's form. Each change of the contents raises it."""
_KIND: Final = b"spe-unicorn snapshot "
_DIGEST: Final = 32
_LENGTH: Final = 8
_MOST_HEADER: Final = 16 << 20
_BLOCK: Final = 256
"""The number of pages that are compressed together."""
_MOST_STATES: Final = 1 << 30
"""The most bytes of the states as JSON."""
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

    ``since`` is the file of an earlier snapshot: only pages that differ from that file are written,
    and both files are needed to read the snapshot. Raises SnapshotError if it cannot be written,
    and TypeError for what is no snapshot.
    """
    checked(snapshot)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise SnapshotError(f"{path}: is no regular file")
    earlier: dict[str, str] | None = None
    pages: dict[int, bytes] = dict(snapshot.board.memory.pages)
    if since is not None:
        opened = _open(Path(since))
        pages = snapshot.board.memory.since(_pages(Path(since), opened))
        name = os.path.relpath(os.path.realpath(since), target.parent)
        earlier = {"file": name, "digest": opened.digest}
    return _write(target, path, _parts(snapshot, pages, earlier))


def read_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Read a file of :func:`write_snapshot`.

    Raises SnapshotError, one line with the file's name, for a file that is no snapshot, was cut or
    altered, or is of another release.
    """
    file = Path(path)
    opened = _open(file)
    pages = _pages(file, opened)
    with _naming(path):
        header = opened.header
        states = json.loads(_inflated(opened, "states", _MOST_STATES))
        board = BoardState(
            tuple(decode(EngineState, engine) for engine in states["engines"]),
            dict(states["parts"]),
            pages,
        )
        return Snapshot(
            _options(header["options"]),
            decode(dict[str, str], header["identity"]),
            decode(int, header["operations"]),
            board,
            tuple(decode(ConsoleState, console) for console in states["consoles"]),
            decode(str | None, header["ended"]),
            of_file=True,
        )


def decoded(snapshot: Snapshot, parts: Mapping[str, Any]) -> Snapshot:
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
    return zstandard.ZstdCompressor(level=1).compress(data)  # threads cannot share one


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
    """Read a file, and check its kind, version and digest."""
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
        if length > min(_MOST_HEADER, len(data) - start):
            raise SnapshotError("is damaged: its header is too long")
        header = json.loads(bytes(data[start : start + length]))
        return _Opened(header, data[start + length : -_DIGEST], found.hex())


def _pieces(opened: _Opened, section: str) -> list[memoryview]:
    """The compressed pieces of a section."""
    at = 0
    for name, lengths in opened.header["sections"].items():
        lengths = decode(list[int], lengths)
        if name == section:
            ends = np.cumsum([at, *lengths]).tolist()
            return [opened.data[a:b] for a, b in pairwise(ends)]
        at += sum(lengths)
    raise SnapshotError(f"is damaged: it has no section {section}")


def _inflated(opened: _Opened, section: str, most: int) -> bytes:
    return b"".join(_inflate(piece, most) for piece in _pieces(opened, section))


def _inflate(piece: memoryview, most: int) -> bytes:
    if not 0 <= zstandard.frame_content_size(piece) <= most:
        raise SnapshotError("is damaged: a section is larger than any can be")
    return zstandard.ZstdDecompressor().decompress(piece, allow_extra_data=False)


def _pages(path: Path, opened: _Opened, depth: int = 0) -> Pages:
    """The pages of a file and of the earlier files on which it builds."""
    with _naming(path):
        before = NO_PAGES
        earlier = opened.header["earlier"]
        if earlier is not None:
            if depth >= _MOST_EARLIER:
                raise SnapshotError(f"stands on more than {_MOST_EARLIER} others")
            other = Path(os.path.realpath(path)).parent / earlier["file"]
            below = _open(other)
            if below.digest != earlier["digest"]:
                raise SnapshotError(f"stands on {earlier['file']}, which is another file now")
            before = _pages(other, below, depth + 1)
        addresses = _addresses(opened, "addresses")
        pages = dict(before.pages)
        for at in _addresses(opened, "gone"):
            pages.pop(at, None)
        pieces = _pieces(opened, "pages")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            blocks = list(pool.map(lambda piece: _inflate(piece, _BLOCK * PAGE), pieces))
        where = iter(addresses)
        for block in blocks:
            for n in range(0, len(block), PAGE):
                pages[next(where)] = block[n : n + PAGE]
        if next(where, None) is not None or any(len(block) % PAGE for block in blocks):
            raise SnapshotError("is damaged: pages are missing")
        return Pages(pages)


def _addresses(opened: _Opened, section: str) -> list[int]:
    data = _inflated(opened, section, _MOST_STATES)
    addresses: list[int] = np.frombuffer(data, np.uint64).tolist()
    if any(at % PAGE for at in addresses):
        raise SnapshotError("is damaged: a page has no page's address")
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


_DAMAGED: Final = (
    *(PlainError, KeyError, TypeError, AttributeError, ValueError, StopIteration),
    *(zstandard.ZstdError, RecursionError, OverflowError),
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
