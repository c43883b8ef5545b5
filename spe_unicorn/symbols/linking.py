"""A kernel's module as a file that is linked where a kernel has loaded it.

A module is relocatable: each of its sections begins at 0, and its debug information says of an
address in which section it is by relocations (ELF for the Arm 64-bit Architecture, 5.7).
"""

from __future__ import annotations

import io
import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from elftools.elf.elffile import ELFFile

from spe_unicorn.symbols.elf import DAMAGED, ElfError, part_of

_ALLOC: Final = 2
"""SHF_ALLOC."""
_COMPRESSED: Final = 0x800
"""SHF_COMPRESSED."""
_ZLIB: Final = 1
"""ELFCOMPRESS_ZLIB."""
_EXEC: Final = 2
"""ET_EXEC."""
_WIDTHS: Final = {257: 8, 258: 4}
"""Bytes that R_AARCH64_ABS64 and ABS32 write; debug information has no others."""
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_LARGEST: Final = 1 << 30
"""Bytes of a section that was compressed."""


class _Section(NamedTuple):
    header: int
    """Where its header is in the file."""
    name: str
    kind: str
    flags: int
    offset: int
    size: int
    link: int
    info: int


def has_lines(data: bytes) -> bool:
    """Whether a module has line tables."""
    return b".debug_line\0" in data


def linked(data: bytes, addresses: Mapping[str, int]) -> bytes:
    """A module linked to where its symbols are by what the kernel says of their ``addresses``.

    Sections without such a symbol are nowhere. Raises ElfError for a damaged file, and where no
    symbol is known.
    """
    try:
        return _linked(data, addresses)
    except ElfError:
        raise
    except (struct.error, zlib.error, *DAMAGED) as error:
        raise ElfError(f"is a damaged module ({error})") from None


def _linked(data: bytes, addresses: Mapping[str, int]) -> bytes:
    file = bytearray(data)
    sections = _sections(data)
    table = next((s for s in sections if s.kind == "SHT_SYMTAB"), None)
    if table is None:
        raise ElfError("has no symbols")
    symbols = list(_SYMBOL.iter_unpack(part_of(data, "symbol table", table.offset, table.size)))
    starts = _starts(data, sections, sections[table.link], symbols, addresses)
    if not starts:
        raise ElfError("has no symbol that the kernel names")
    values = []
    for number, (name, info, other, index, value, size) in enumerate(symbols):
        placed = value + starts.get(index, 0)
        values.append(placed)
        _SYMBOL.pack_into(
            file, table.offset + number * _SYMBOL.size, name, info, other, index, placed, size
        )
    for index, start in starts.items():
        struct.pack_into("<Q", file, sections[index].header + 16, start)
    for section in sections:
        if section.kind == "SHT_RELA" and section.name.startswith(".rela.debug"):
            _relocate(file, data, section, _unpacked(file, sections[section.info]), values)
    segments = b"".join(
        _SEGMENT.pack(1, 4, s.offset, starts[i], starts[i], 0 if bare else s.size, s.size, 1)
        for i, s in enumerate(sections)
        if i in starts
        for bare in (s.kind == "SHT_NOBITS",)
    )
    struct.pack_into("<H", file, 16, _EXEC)
    struct.pack_into("<Q", file, 32, len(file))
    struct.pack_into("<HH", file, 54, _SEGMENT.size, len(starts))
    return bytes(file) + segments


def _sections(data: bytes) -> list[_Section]:
    elf = ELFFile(io.BytesIO(data))
    at, step = elf["e_shoff"], elf["e_shentsize"]
    found = []
    for number in range(elf["e_shnum"]):
        section = elf.get_section(number)
        words = (section[f"sh_{name}"] for name in ("flags", "offset", "size", "link", "info"))
        kind = str(section["sh_type"])
        found.append(_Section(at + number * step, section.name, kind, *words))
    return found


def _starts(
    data: bytes,
    sections: list[_Section],
    names: _Section,
    symbols: list[tuple[int, ...]],
    addresses: Mapping[str, int],
) -> dict[int, int]:
    """Where the sections begin that are in memory, by their numbers.

    Most of a section's symbols decide, as names of static variables may be there twice.
    """
    strings = part_of(data, "string table", names.offset, names.size)
    votes: dict[int, Counter[int]] = {}
    for name_at, _, _, index, value, _ in symbols:
        name = strings[name_at : strings.find(b"\0", name_at)].decode("utf-8", "replace")
        known = addresses.get(name)
        if known is not None and index < len(sections) and sections[index].flags & _ALLOC:
            votes.setdefault(index, Counter())[known - value] += 1
    most = {index: found.most_common(1)[0][0] for index, found in votes.items()}
    return {index: start for index, start in most.items() if start > 0 and sections[index].size}


def _unpacked(file: bytearray, section: _Section) -> _Section:
    """A section whose bytes are not compressed: they are put at the end of the file."""
    if not section.flags & _COMPRESSED:
        return section
    kind, _, size, _ = struct.unpack_from("<IIQQ", file, section.offset)
    if kind != _ZLIB or size > _LARGEST:
        raise ElfError(f"{section.name} is compressed by other means than zlib, or too large")
    packed = bytes(file[section.offset + 24 : section.offset + section.size])
    whole = zlib.decompressobj().decompress(packed, size)
    offset, flags = len(file), section.flags & ~_COMPRESSED
    file += whole
    struct.pack_into("<Q", file, section.header + 8, flags)
    struct.pack_into("<QQ", file, section.header + 24, offset, len(whole))
    return section._replace(offset=offset, size=len(whole), flags=flags)


def _relocate(
    file: bytearray, data: bytes, relocations: _Section, section: _Section, values: list[int]
) -> None:
    """Write what the relocations of a section say into it."""
    rows = part_of(data, "relocations", relocations.offset, relocations.size)
    for place, info, addend in _RELOCATION.iter_unpack(rows):
        width = _WIDTHS.get(info & 0xFFFF_FFFF)
        if width is not None and place + width <= section.size:
            value = values[info >> 32] + addend & (1 << 8 * width) - 1
            at = section.offset + place
            file[at : at + width] = value.to_bytes(width, "little")
