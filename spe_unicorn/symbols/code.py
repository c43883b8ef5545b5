"""The code of an ELF file: its operations, the lines that they were made of, and its functions.

Functions that the compiler has put into others count as functions of their own, too (DWARF 5,
3.3.8). Without debug information functions are those of the symbol table.
"""

from __future__ import annotations

import io
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

from spe_unicorn.symbols.elf import DAMAGED, ElfFile
from spe_unicorn.symbols.inlined import origins
from spe_unicorn.symbols.lines import Line, line_paths, ranges_of, read_lines

_EXECUTABLE: Final = 4
"""SHF_EXECINSTR."""
_SYMBOL: Final = 24
"""Bytes of a symbol."""
_WORD: Final = 4


class Function(NamedTuple):
    """A function, or one of the places at which the compiler has put it into another."""

    name: str
    ranges: tuple[tuple[int, int], ...]
    """Its addresses, each range with its end."""
    line: Line | None
    """Where it is declared, None without debug information."""


class Code(NamedTuple):
    """What an ELF file has of code. Addresses are those of the link."""

    operations: dict[int, int]
    """The words of its operations by address, in ascending order; data among code are left out."""
    lines: dict[int, Line]
    """The lines of operations by address; empty without line tables."""
    functions: list[Function]


def read_code_of(file: ElfFile) -> Code:
    """Read the code of a file.

    Damaged debug information counts as none. Raises OSError where the file cannot be read any more.
    """
    data = file.path.read_bytes()
    elf = ELFFile(io.BytesIO(data))
    operations = _operations(data, elf)
    table = read_lines(file)
    lines = {}
    for address in operations if table else ():
        line = table.at(address)
        if line is not None and line.number > 0:
            lines[address] = Line(os.path.normpath(line.path), line.number)
    return Code(operations, lines, _functions(elf, file, operations, lines))


def _operations(data: bytes, elf: ELFFile) -> dict[int, int]:
    words: dict[int, int] = {}
    sections = [elf.get_section(number) for number in range(elf["e_shnum"])]
    for number, section in enumerate(sections):
        if not section["sh_flags"] & _EXECUTABLE or section["sh_type"] != "SHT_PROGBITS":
            continue
        begin, size, offset = section["sh_addr"], section["sh_size"], section["sh_offset"]
        size = min(size, len(data) - offset) // _WORD * _WORD
        if size <= 0:
            continue
        marks = sorted(_mapping(data, sections, number))
        starts = [address for address, _ in marks]
        for place, (word,) in enumerate(struct.iter_unpack("<I", data[offset : offset + size])):
            address = begin + _WORD * place
            index = bisect_right(starts, address) - 1
            if index < 0 or marks[index][1]:
                words[address] = word
    return words


def _mapping(data: bytes, sections: list[Any], number: int) -> Iterator[tuple[int, bool]]:
    """Where code (True) and data begin in a section, by the symbols $x and $d."""
    for table in sections:
        if table["sh_type"] != "SHT_SYMTAB":
            continue
        strings = sections[table["sh_link"]]["sh_offset"]
        begin, size = table["sh_offset"], table["sh_size"] // _SYMBOL * _SYMBOL
        for name, _, _, index, value, _ in struct.iter_unpack(
            "<IBBHQQ", data[begin : begin + size]
        ):
            if index == number:
                text = data[strings + name : strings + name + 3]
                if text[:2] in (b"$x", b"$d") and text[2:] in (b"\0", b"."):
                    yield value, text[1:2] == b"x"


def _functions(
    elf: ELFFile, file: ElfFile, operations: dict[int, int], lines: dict[int, Line]
) -> list[Function]:
    found: list[Function] = []
    if lines:
        try:
            dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
            for unit in dwarf.iter_CUs():
                found += _functions_of(dwarf, unit, operations, lines)
        except DAMAGED:
            found = []
    known = {start for function in found for start, _ in function.ranges}
    for symbol in file.symbols:
        if symbol.function and symbol.address in operations and symbol.address not in known:
            (first, last), *_ = [
                extent
                for extent in file.symbols.extents(symbol.name)
                if extent[0] == symbol.address
            ]
            extent = ((first, last + 1),)
            found.append(Function(symbol.name, extent, lines.get(first)))
    return found


def _functions_of(
    dwarf: DWARFInfo, unit: CompileUnit, operations: dict[int, int], lines: dict[int, Line]
) -> Iterator[Function]:
    path = line_paths(dwarf.line_program_for_CU(unit), unit)
    for entry in unit.iter_DIEs():
        if entry.tag not in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
            continue
        ranges = tuple(r for r in ranges_of(dwarf, unit, entry) if r[0] in operations)
        if not ranges:
            continue
        name = _attribute(entry, "DW_AT_name")
        number = _attribute(entry, "DW_AT_decl_line")
        place = _attribute(entry, "DW_AT_decl_file")
        if name is not None:
            declared = path(place.value) if place is not None else None
            line = lines.get(ranges[0][0])  # of an assembler, which names no declaration
            if declared is not None and number is not None:
                line = Line(os.path.normpath(declared), number.value)
            yield Function(name.value.decode(errors="replace"), ranges, line)


def _attribute(entry: Any, name: str) -> Any:
    """An attribute of an entry, or of what the entry refers to; None without it."""
    return next((e.attributes[name] for e in origins(entry) if name in e.attributes), None)
