"""What the PEs of a board have executed, told by ELF file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from spe_unicorn.machine.board import Board
from spe_unicorn.output.coverage.model import Coverage, Program
from spe_unicorn.session.covering.resolve import resolved
from spe_unicorn.symbols.code import Code, read_code_of
from spe_unicorn.symbols.elf import ElfError, read_elf


def coverage_of(board: Board) -> Coverage:
    """What the PEs of a board have executed of its ELF files, since it notes that."""
    names, covered = board.names, board.covered
    programs = {path: Program() for path in names.files}
    for address in covered.operations:
        found = names.located(address)
        if found is not None:
            programs[found[0]].operations.add(found[1])
    for branch, ways in covered.ways.items():
        found = names.located(branch)
        if found is not None:
            known = programs[found[0]].branches
            known[found[1]] = known.get(found[1], 0) | ways
    coverage = Coverage(incomplete=board.coverage_full)
    for path, program in programs.items():
        try:
            code = _code(path, path.stat().st_mtime_ns)
        except (ElfError, OSError):  # a kernel image, or one that was made in memory
            continue
        program.operations &= code.operations.keys()
        one = Coverage(resolved(str(path), code, program), {str(path): program})
        coverage.merge(one)
    return coverage


@lru_cache(maxsize=8)
def _code(path: Path, changed: int) -> Code:
    """The code of a file, which was ``changed`` last at a time in nanoseconds."""
    return read_code_of(read_elf(path))
