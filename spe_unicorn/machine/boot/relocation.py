"""Applies the relative relocations of a static position-independent executable."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from spe_unicorn.machine.boot.image import LoadError, Segment

_DT_RELA, _DT_RELASZ, _DT_PLTRELSZ, _DT_JMPREL, _DT_RELRSZ, _DT_RELR = 7, 8, 2, 23, 35, 36
_R_NONE, _R_NONE_WITHDRAWN, _R_RELATIVE, _R_IRELATIVE = 0, 256, 1027, 1032
_RELA_SIZE, _RELR_SIZE = 24, 8
_MASK = (1 << 64) - 1


def relocate(
    segments: Sequence[Segment], dynamic: Sequence[tuple[int, int]], bias: int
) -> list[Segment]:
    """The segments of a PIE with its relative relocations applied for ``bias``.

    Start-up code that applies its own R_AARCH64_RELATIVE relocations once more stores the same
    values again. RELR relocations add to what is there, so an image must leave them to us.
    """
    tags = dict(reversed(dynamic))
    memory = _Relocatable(segments, bias)
    for table, size in ((_DT_RELA, _DT_RELASZ), (_DT_JMPREL, _DT_PLTRELSZ)):
        if tags.get(size):
            for where, info, addend in struct.iter_unpack(
                "<QQq", memory.table(tags.get(table, 0), tags[size], _RELA_SIZE)
            ):
                _apply_rela(memory, where, info & 0xFFFF_FFFF, addend, bias)
    if tags.get(_DT_RELRSZ):
        entries = memory.table(tags.get(_DT_RELR, 0), tags[_DT_RELRSZ], _RELR_SIZE)
        for where in _relr_places(e for (e,) in struct.iter_unpack("<Q", entries)):
            memory.store(where, memory.load(where) + bias)
    return memory.segments()


def _apply_rela(memory: _Relocatable, where: int, kind: int, addend: int, bias: int) -> None:
    if kind == _R_RELATIVE:
        memory.store(where, addend + bias)
    elif kind == _R_IRELATIVE:
        raise LoadError(f"relocation at {where:#x} calls a resolver (ifunc); link it without")
    elif kind not in (_R_NONE, _R_NONE_WITHDRAWN):
        raise LoadError(f"relocation at {where:#x} of type {kind} needs a dynamic linker")


def _relr_places(entries: Iterator[int]) -> Iterator[int]:
    """Unpack the RELR format: an even entry is an address, an odd one a bit map of what follows."""
    where = 0
    for entry in entries:
        if not entry & 1:
            yield entry
            where = entry + 8
        else:
            for bit in range(63):
                if entry >> (bit + 1) & 1:
                    yield where + 8 * bit
            where += 63 * 8


class _Relocatable:
    """The contents of the segments while words in them change, by link address."""

    def __init__(self, segments: Sequence[Segment], bias: int) -> None:
        self._bias = bias
        self._parts = [(segment, bytearray(segment.data)) for segment in segments]

    def _find(self, address: int, size: int) -> tuple[bytearray, int]:
        for segment, contents in self._parts:
            offset = address + self._bias - segment.vaddr
            if offset >= 0 and offset + size <= len(contents):
                return contents, offset
        raise LoadError(f"relocation data at {address:#x} lies in no segment")

    def table(self, address: int, size: int, entry: int) -> bytes:
        contents, offset = self._find(address, size)
        return bytes(contents[offset : offset + size // entry * entry])

    def load(self, address: int) -> int:
        contents, offset = self._find(address, 8)
        return int.from_bytes(contents[offset : offset + 8], "little")

    def store(self, address: int, value: int) -> None:
        contents, offset = self._find(address, 8)
        contents[offset : offset + 8] = (value & _MASK).to_bytes(8, "little")

    def segments(self) -> list[Segment]:
        return [replace(segment, data=bytes(contents)) for segment, contents in self._parts]
