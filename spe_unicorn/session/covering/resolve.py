"""From executed operations of an ELF file to lines, branches and functions."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import FELL, TAKEN
from spe_unicorn.output.coverage.model import CoveredFile, Program
from spe_unicorn.symbols.code import Code, Function

_WAYS: Final = (FELL, TAKEN)


def is_conditional(word: int) -> bool:
    """Whether an operation is a conditional branch: B.cond but for AL, CBZ, CBNZ, TBZ, TBNZ."""
    if word & 0xFF00_0000 == 0x5400_0000:
        return word & 0xE != 0xE
    return word & 0x7E00_0000 in (0x3400_0000, 0x3600_0000)


def resolved(path: str, code: Code, program: Program) -> dict[str, CoveredFile]:
    """What was covered of the source files of the ELF file at ``path``.

    Functions without lines are lines of the ELF file itself, numbered from 1 by their addresses.
    """
    files: dict[str, CoveredFile] = {}
    executed = program.operations
    for address, line in code.lines.items():
        file = files.setdefault(line.path, CoveredFile())
        hit = int(address in executed)
        file.lines[line.number] = max(hit, file.lines.get(line.number, 0))
    places = {address: (line.path, line.number) for address, line in code.lines.items()}
    unnamed = sorted(
        (function for function in code.functions if function.line is None),
        key=lambda function: function.ranges,
    )
    for number, function in enumerate(unnamed, 1):
        hit = _is_hit(function, executed)
        own = files.setdefault(path, CoveredFile())
        own.lines[number] = hit
        own.functions[_free(function.name, own)] = number, hit
        for address in _addresses(function):
            if address in code.operations:
                places.setdefault(address, (path, number))
    for function in code.functions:
        if function.line is not None:
            hit = _is_hit(function, executed)
            file = files.setdefault(function.line.path, CoveredFile())
            known = file.functions.get(function.name, (function.line.number, 0))
            file.functions[function.name] = known[0], max(hit, known[1])
    _add_branches(files, places, code, program)
    return files


def _add_branches(
    files: dict[str, CoveredFile],
    places: dict[int, tuple[str, int]],
    code: Code,
    program: Program,
) -> None:
    numbers: dict[tuple[str, int], int] = {}
    for address, word in code.operations.items():
        place = places.get(address)
        if place is None or not is_conditional(word):
            continue
        number = numbers[place] = numbers.get(place, -1) + 1
        ways = program.branches.get(address, 0)
        for way, bit in enumerate(_WAYS):
            hit = int(bool(ways & bit)) if address in program.operations else -1
            files[place[0]].branches[place[1], number, way] = hit


def _is_hit(function: Function, executed: set[int]) -> int:
    return int(any(address in executed for address in _addresses(function)))


def _addresses(function: Function) -> list[int]:
    return [address for start, end in function.ranges for address in range(start, end, 4)]


def _free(name: str, file: CoveredFile) -> str:
    """A name that no other function of the file has."""
    number, free = 1, name
    while free in file.functions:
        number += 1
        free = f"{name}.{number}"
    return free
