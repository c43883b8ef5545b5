"""The number of iterations of a benchmark program, written into its ELF file."""

from __future__ import annotations

import io
from typing import Final

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from sides import ProgramError

_ITERATIONS: Final = "bench_iterations"


def with_iterations(elf: bytes, iterations: int) -> bytes:
    """The ELF file of a benchmark program that does so many iterations. Raises ProgramError."""
    file = ELFFile(io.BytesIO(elf))
    table = file.get_section_by_name(".symtab")
    found = table.get_symbol_by_name(_ITERATIONS) if isinstance(table, SymbolTableSection) else None
    if found:
        address = found[0]["st_value"]
        for segment in file.iter_segments("PT_LOAD"):
            behind = address - segment["p_vaddr"]
            if 0 <= behind < segment["p_filesz"]:
                at = segment["p_offset"] + behind
                return elf[:at] + iterations.to_bytes(8, "little") + elf[at + 8 :]
    raise ProgramError(f"the file has no initialised {_ITERATIONS}")
