"""Source lines of the addresses of an ELF file, from its DWARF line tables."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from elftools.elf.elffile import ELFFile

from spe_unicorn.symbols.elf import DAMAGED, ElfFile


class Line(NamedTuple):
    """A line of a source file, counted from 1; the path is as the compiler wrote it."""

    path: str
    number: int

    @property
    def short(self) -> str:
        """``main.c:12``."""
        return f"{self.path.rpartition('/')[2]}:{self.number}"


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
                        rows += _rows(program, _folder(unit))
    except (OSError, *DAMAGED):
        return LineTable([])
    return LineTable([row for row in rows if _is_loaded(file, row)])


def _is_loaded(file: ElfFile, row: tuple[int, Line | None]) -> bool:
    address, line = row
    inside = address if line is not None else address - 1  # the end of a sequence is behind it
    return any(piece.vaddr <= inside < piece.vaddr + piece.size for piece in file.pieces)


def _folder(unit: object) -> str:
    """Where the compiler ran."""
    attribute = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")  # type: ignore[attr-defined]
    return "" if attribute is None else attribute.value.decode(errors="replace")


def _rows(program: object, folder: str) -> list[tuple[int, Line | None]]:
    header = program.header  # type: ignore[attr-defined]
    first = 0 if header["version"] >= 5 else 1
    paths: dict[int, str] = {}

    def path(number: int) -> str:
        if number not in paths:
            entry = header["file_entry"][number - first]
            directories = header["include_directory"]
            # Before DWARF 5 directory 0 is the compiler's, and not in the list.
            place = entry.dir_index - first
            base = directories[place].decode(errors="replace") if place >= 0 else folder
            name = entry.name.decode(errors="replace")
            joined = name if name.startswith("/") else f"{base}/{name}"
            paths[number] = joined if joined.startswith("/") else f"{folder}/{joined}"
        return paths[number]

    rows: list[tuple[int, Line | None]] = []
    for entry in program.get_entries():  # type: ignore[attr-defined]
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            rows.append((state.address, None))
        else:
            rows.append((state.address, Line(path(state.file), state.line)))
    return rows
