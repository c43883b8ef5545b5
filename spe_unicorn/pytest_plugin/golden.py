"""Golden files: records that a run has to give again, and what differs, packet by packet."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
from pathlib import Path
from typing import Final

from spe_unicorn.output.text import record_text
from spe_unicorn.spe.packets import BadPacket
from spe_unicorn.spe.record import PlacedRecord, decode_stream

_SHOWN: Final = 3
"""Records that differ and are shown whole."""


def save(path: Path, data: bytes) -> None:
    """Write a golden file whole or not at all, whoever else writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.replace(path)


def owner_of(path: Path, test: str, folder: Path) -> str:
    """The first test that asks for a golden file, of all processes that have that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{hashlib.sha256(bytes(path.resolve())).hexdigest()}.golden"
    if not note.exists():
        new = note.with_name(f"{note.name}.{os.getpid()}")
        new.write_text(test)
        with contextlib.suppress(FileExistsError):
            os.link(new, note)
        new.unlink()
    return note.read_text()


def difference(golden: bytes, now: bytes) -> str | None:
    """What differs between two streams of records, None for nothing; several lines."""
    if golden == now:
        return None
    old, new = list(decode_stream(golden)), list(decode_stream(now))
    lines = [f"{len(old)} records in the golden file, {len(new)} in this run"]
    differing = [
        number
        for number in range(max(len(old), len(new)))
        if _bytes(golden, old, number) != _bytes(now, new, number)
    ]
    lines[0] += f", {len(differing)} differ"
    for number in differing[:_SHOWN]:
        before, after = _text(golden, old, number), _text(now, new, number)
        lines += [f"record {number}:"]
        diff = difflib.unified_diff(before, after, n=99, lineterm="")
        lines += [line for line in diff if not line.startswith(("---", "+++", "@@"))]
    if len(differing) > _SHOWN:
        lines.append(f"and {len(differing) - _SHOWN} more")
    return "\n".join(lines)


def _bytes(data: bytes, found: list[PlacedRecord | BadPacket], number: int) -> bytes | None:
    if number >= len(found):
        return None
    placed = found[number]
    if not isinstance(placed, PlacedRecord):
        return b""
    return data[placed.start : placed.end]


def _text(data: bytes, found: list[PlacedRecord | BadPacket], number: int) -> list[str]:
    """The packets of a record a line each, without their places in the stream."""
    if number >= len(found):
        return []
    placed = found[number]
    if not isinstance(placed, PlacedRecord):
        return [str(placed)]
    packets = record_text(data[: placed.end], placed, number, 0, -placed.start).splitlines()[1:]
    return [f"  {line.split(maxsplit=1)[1]}" for line in packets]
