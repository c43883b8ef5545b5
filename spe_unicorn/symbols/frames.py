"""Call frame information of an ELF file: where a function keeps what its caller needs.

DWARF 5, 6.4, from .debug_frame or .eh_frame. What is read is where the canonical frame address is
and at which offsets from it registers are saved; rules by expressions, which no compiler makes for
functions in C, are not followed.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from spe_unicorn.symbols.elf import DAMAGED, ElfFile

_MOST_BYTES: Final = 4 << 20
"""Bytes of a section that are read: all tables of it are unpacked when the first is asked for."""
_SECTIONS: Final = (".debug_frame", ".eh_frame")
RETURN_ADDRESS: Final = 30
"""The register of the return address."""


class FrameRule(NamedTuple):
    """How to find a caller: DWARF's numbers are those of X0 to X30, and 31 is SP."""

    register: int
    offset: int
    """The canonical frame address is that register and this offset."""
    saved: Mapping[int, int]
    """Where registers are saved, as offsets from the canonical frame address."""
    outermost: bool
    """Whether there is no caller."""


class FrameTables:
    """The call frame information of one file, read when it is first asked for."""

    def __init__(self, file: ElfFile) -> None:
        self._file = file
        self._starts: list[int] | None = None
        self._entries: list[FDE] = []

    def at(self, address: int) -> FrameRule | None:
        """The rule at an address, as it was linked; None if nothing, or nothing usable, is told."""
        try:
            if self._starts is None:
                self._starts = []
                self._read()
            index = bisect_right(self._starts, address) - 1
            if index < 0:
                return None
            return _rule(self._entries[index], address)
        except (OSError, *DAMAGED):
            return None

    def _read(self) -> None:
        elf = ELFFile(io.BytesIO(self._file.path.read_bytes()))
        sections = [elf.get_section_by_name(name) for name in _SECTIONS]
        if not any(s is not None and 0 < s["sh_size"] <= _MOST_BYTES for s in sections):
            return
        dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        debug, unwinding = sections
        found: list[Any] = []
        if debug is not None and debug["sh_size"] <= _MOST_BYTES and dwarf.has_CFI():
            found += dwarf.CFI_entries()
        if unwinding is not None and unwinding["sh_size"] <= _MOST_BYTES and dwarf.has_EH_CFI():
            found += dwarf.EH_CFI_entries()
        entries = [entry for entry in found if isinstance(entry, FDE)]
        entries.sort(key=lambda entry: int(entry["initial_location"]))
        self._starts = [int(entry["initial_location"]) for entry in entries]
        self._entries = entries


def _rule(entry: FDE, address: int) -> FrameRule | None:
    start, size = int(entry["initial_location"]), int(entry["address_range"])
    if not start <= address < start + size:
        return None
    table = entry.get_decoded().table
    row = next((row for row in reversed(table) if row["pc"] <= address), None)
    if row is None or row["cfa"].expr is not None or row["cfa"].reg is None:
        return None
    saved = {}
    outermost = False
    for number, rule in row.items():
        if not isinstance(number, int):
            continue
        if rule.type == "OFFSET":
            saved[number] = int(rule.arg)
        elif rule.type == "UNDEFINED" and number == RETURN_ADDRESS:
            outermost = True
        elif rule.type not in ("SAME_VALUE", "UNDEFINED") and number == RETURN_ADDRESS:
            return None
    return FrameRule(int(row["cfa"].reg), int(row["cfa"].offset), saved, outermost)
