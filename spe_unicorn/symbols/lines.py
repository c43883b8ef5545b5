"""Source lines of the addresses of an ELF file, from its DWARF line tables."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.dwarf.ranges import BaseAddressEntry
from elftools.elf.elffile import ELFFile

from spe_unicorn.symbols.elf import DAMAGED, ElfFile
from spe_unicorn.symbols.table import printable


class Line(NamedTuple):
    """A line of a source file, counted from 1; the path is as the compiler wrote it."""

    path: str
    number: int

    @property
    def short(self) -> str:
        """``main.c:12``, in characters that a terminal can show."""
        return f"{printable(self.path.rpartition('/')[2])}:{self.number}"


class LineTable:
    """Which line an address belongs to; addresses are those of the link."""

    def __init__(self, rows: list[tuple[int, Line | None]]) -> None:
        rows.sort(key=lambda row: (row[0], row[1] is not None))
        self._addresses = [address for address, _ in rows]
        self._lines = [line for _, line in rows]

    def __bool__(self) -> bool:
        return bool(self._lines)

    def at(self, address: int) -> Line | None:
        """The line that the instruction at an address was made of, None if nobody knows."""
        index = bisect_right(self._addresses, address) - 1
        return self._lines[index] if index >= 0 else None


class SourceLines:
    """The source lines of an ELF file, of which only what is asked for is read.

    The first question reads which compilation unit is where, and each the line table of its unit.
    A file without line tables, or with damaged ones, has no lines.
    """

    def __init__(self, file: ElfFile) -> None:
        self._file = file
        self._dwarf: DWARFInfo | None = None
        self._starts: list[int] | None = None
        self._units: list[tuple[int, int]] = []
        """Where each range ends, and its unit's place in .debug_info."""
        self._tables: dict[int, LineTable] = {}

    def at(self, address: int) -> Line | None:
        """The line of the instruction at an address, as it was linked; None if nobody knows."""
        found = self.unit_at(address)
        try:
            return None if found is None else self._table(*found).at(address)
        except (OSError, *DAMAGED):
            return None

    def unit_at(self, address: int) -> tuple[DWARFInfo, int] | None:
        """The unit that an address is in, by its place in .debug_info; None if nobody knows."""
        try:
            if self._starts is None:
                self._starts = []
                self._read_units()
        except (OSError, *DAMAGED):
            return None
        index = bisect_right(self._starts, address) - 1
        if self._dwarf is None or index < 0 or address >= self._units[index][0]:
            return None
        return self._dwarf, self._units[index][1]

    def _read_units(self) -> None:
        stream = io.BytesIO(self._file.path.read_bytes())
        elf = ELFFile(stream)
        if not elf.has_dwarf_info():
            return
        dwarf = self._dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        ranges = []
        known = set()
        named = dwarf.get_aranges()
        for entry in () if named is None else named.entries:
            ranges.append((entry.begin_addr, entry.begin_addr + entry.length, entry.info_offset))
            known.add(entry.info_offset)
        for unit in dwarf.iter_CUs():
            if unit.cu_offset not in known:
                code = ranges_of(dwarf, unit, unit.get_top_DIE())
                ranges += [(start, end, unit.cu_offset) for start, end in code]
        ranges.sort()
        self._starts = [start for start, _, _ in ranges]
        self._units = [(end, offset) for _, end, offset in ranges]

    def _table(self, dwarf: DWARFInfo, offset: int) -> LineTable:
        table = self._tables.get(offset)
        if table is None:
            table = self._tables[offset] = LineTable([])  # of a damaged one, too
            unit = dwarf.get_CU_at(offset)
            program = dwarf.line_program_for_CU(unit)
            if program is not None:
                rows = _rows(program, unit)
                table = LineTable([row for row in rows if _is_loaded(self._file, row)])
                self._tables[offset] = table
        return table


def ranges_of(dwarf: DWARFInfo, unit: CompileUnit, entry: DIE) -> Iterator[tuple[int, int]]:
    """Where the code of an entry of a unit is: starts and ends; one without code gives nothing."""
    attributes = entry.attributes
    of_unit = unit.get_top_DIE().attributes
    start = attributes.get("DW_AT_low_pc") or of_unit.get("DW_AT_low_pc")
    base = 0 if start is None else start.value
    if "DW_AT_ranges" in attributes:
        lists = dwarf.range_lists()
        offset = attributes["DW_AT_ranges"].value
        for entry in () if lists is None else lists.get_range_list_at_offset(offset, cu=unit):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            else:
                bias = 0 if entry.is_absolute else base
                yield entry.begin_offset + bias, entry.end_offset + bias
    elif "DW_AT_high_pc" in attributes and "DW_AT_low_pc" in attributes:
        high = attributes["DW_AT_high_pc"]
        absolute = describe_form_class(high.form) == "address"
        yield base, high.value if absolute else base + high.value


def read_lines(file: ElfFile) -> LineTable:
    """The line table of an ELF file; an empty one if it has none, or a damaged one.

    Lines of functions that the linker left out, which stand at address 0, are left out too.
    """
    rows: list[tuple[int, Line | None]] = []
    try:
        with file.path.open("rb") as stream:
            elf = ELFFile(stream)
            if elf.has_dwarf_info():
                dwarf = elf.get_dwarf_info()
                for unit in dwarf.iter_CUs():
                    program = dwarf.line_program_for_CU(unit)
                    if program is not None:
                        rows += _rows(program, unit)
    except (OSError, *DAMAGED):
        return LineTable([])
    return LineTable([row for row in rows if _is_loaded(file, row)])


def _is_loaded(file: ElfFile, row: tuple[int, Line | None]) -> bool:
    address, line = row
    inside = address if line is not None else address - 1  # the end of a sequence is behind it
    return file.holds(inside)


def _folder(unit: CompileUnit) -> str:
    """Where the compiler ran."""
    attribute = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
    return "" if attribute is None else attribute.value.decode(errors="replace")


def line_paths(program: Any, unit: CompileUnit) -> Callable[[int], str | None]:
    """What gives the path of a file by its number in a unit's line program, None for no such file.

    ``program`` is None for a unit without one.
    """
    if program is None:
        return lambda _: None
    entries = program.header["file_entry"]
    directories = program.header["include_directory"]
    folder = _folder(unit)
    first = 0 if program.header["version"] >= 5 else 1

    @cache
    def path(number: int) -> str | None:
        if not first <= number < first + len(entries):
            return None
        entry = entries[number - first]
        # Before DWARF 5 directory 0 is the compiler's, and not in the list.
        place = entry.dir_index - first
        base = directories[place].decode(errors="replace") if place >= 0 else folder
        name = entry.name.decode(errors="replace")
        joined = name if name.startswith("/") else f"{base}/{name}"
        return joined if joined.startswith("/") or base == folder else f"{folder}/{joined}"

    return path


def _rows(program: Any, unit: CompileUnit) -> list[tuple[int, Line | None]]:
    path = line_paths(program, unit)
    rows: list[tuple[int, Line | None]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        file = None if state.end_sequence else path(state.file)
        rows.append((state.address, None if file is None else Line(file, state.line)))
    return rows
