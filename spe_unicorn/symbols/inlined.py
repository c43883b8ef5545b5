"""Which functions the compiler has inlined at an address of an ELF file, from its DWARF."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo

from spe_unicorn.symbols.elf import DAMAGED, ElfFile
from spe_unicorn.symbols.lines import Line, SourceLines, line_paths, ranges_of
from spe_unicorn.symbols.table import printable

_DEEPEST: Final = 64
"""Inlined calls in each other that are told of; a damaged file may have any number."""
_FUNCTION: Final = "DW_TAG_subprogram"
_INLINED: Final = "DW_TAG_inlined_subroutine"
_NAMES: Final = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")
_ORIGINS: Final = ("DW_AT_abstract_origin", "DW_AT_specification")


class Frame(NamedTuple):
    """A function that an address is in, and the line in it: of the instruction, or of the call.

    ``first`` is the line in which the function is declared, 0 where that is not known.
    """

    function: str
    line: Line | None
    first: int = 0

    def __str__(self) -> str:
        """``work (main.c:12)``, or the function alone; it can be printed."""
        name = printable(self.function)
        return name if self.line is None else f"{name} ({self.line.short})"


class _Scope(NamedTuple):
    """A function, or a copy of one in another; ``called`` is the line of its call there."""

    name: str
    first: int
    called: Line | None


class InlinedCalls:
    """The functions of an ELF file at an address, of which only what is asked for is read.

    Addresses are those of the link. A file without debug information has no frames, and neither
    has a damaged one.
    """

    def __init__(self, file: ElfFile) -> None:
        self._file = file
        self._lines = SourceLines(file)
        self._units: dict[int, tuple[list[int], list[tuple[_Scope, ...]]]] = {}

    def at(self, address: int) -> tuple[Frame, ...]:
        """The frames at an address, that of the instruction first, that of the symbol last."""
        found = self._lines.unit_at(address)
        # functions that the linker left out stand at address 0
        if found is None or not self._file.holds(address):
            return ()
        dwarf, offset = found
        if offset not in self._units:
            self._units[offset] = [], []
            try:
                self._units[offset] = _stacks(dwarf, dwarf.get_CU_at(offset))
            except (OSError, *DAMAGED):
                return ()
        starts, stacks = self._units[offset]
        index = bisect_right(starts, address) - 1
        if index < 0:
            return ()
        line = self._lines.at(address)
        frames = []
        for scope in reversed(stacks[index]):
            frames.append(Frame(scope.name, line, scope.first))
            line = scope.called
        return tuple(frames)


def _stacks(dwarf: DWARFInfo, unit: CompileUnit) -> tuple[list[int], list[tuple[_Scope, ...]]]:
    """The addresses at which other functions begin, and those that are there from then on."""
    program = dwarf.line_program_for_CU(unit)
    path = line_paths(program, unit)
    parts: list[tuple[int, int, int, _Scope]] = []
    waiting: list[tuple[DIE, int]] = [(unit.get_top_DIE(), 0)]
    while waiting:
        entry, depth = waiting.pop()
        if depth >= _DEEPEST:
            continue
        inside = depth
        if entry.tag in (_FUNCTION, _INLINED):
            inside += 1
            name, first = _origin(entry)
            called = None
            number = _number(entry, "DW_AT_call_line")
            file = path(_number(entry, "DW_AT_call_file"))
            if entry.tag == _INLINED and file is not None and number:
                called = Line(file, number)
            scope = _Scope(name, first, called)
            parts += [(a, -b, depth, scope) for a, b in ranges_of(dwarf, unit, entry) if a < b]
        waiting += [(child, inside) for child in entry.iter_children()]
    parts.sort(key=lambda part: part[:3])
    return _flat(parts)


def _flat(
    parts: list[tuple[int, int, int, _Scope]],
) -> tuple[list[int], list[tuple[_Scope, ...]]]:
    """What is at each address, of ranges that lie in each other: start, minus end, depth, scope."""
    changes: dict[int, tuple[_Scope, ...]] = {}
    open_: list[tuple[int, _Scope]] = []

    def close(until: int) -> None:
        while open_ and open_[-1][0] <= until:
            end, _ = open_.pop()
            changes[end] = tuple(scope for _, scope in open_)

    for start, negated, _, scope in parts:
        close(start)
        open_.append((-negated if not open_ else min(-negated, open_[-1][0]), scope))
        changes[start] = tuple(scope for _, scope in open_)
    close(1 << 64)
    starts = sorted(changes)
    return starts, [changes[start] for start in starts]


def _origin(entry: DIE) -> tuple[str, int]:
    """The name of a function and the line of its declaration, which may stand in other entries."""
    found: dict[str, str] = {}
    first = 0
    for each in origins(entry):
        for key in _NAMES:
            if key in each.attributes and key not in found:
                found[key] = each.attributes[key].value.decode(errors="replace")
        first = first or _number(each, "DW_AT_decl_line")
    return next((found[key] for key in _NAMES if key in found), "?"), first


def origins(entry: DIE) -> Iterator[DIE]:
    """An entry, and those that it is an instance of."""
    for _ in range(_DEEPEST):
        yield entry
        origin = next((name for name in _ORIGINS if name in entry.attributes), None)
        if origin is None:
            return
        entry = entry.get_DIE_from_attribute(origin)


def _number(entry: DIE, name: str) -> int:
    attribute = entry.attributes.get(name)
    return 0 if attribute is None else int(attribute.value)
