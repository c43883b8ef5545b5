"""Mistakes planted in shipped drivers: an instruction that a driver needs is taken out."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.symbols.elf import read_elf
from tests.support import a64 as a

_NOP = 0xD503201F
_DSB_NSH = 0xD503379F
_CLEAR_PMBLIMITR = 0xD5189A1F
_CLEAR_PMSCR = 0xD518991F
WORDS = {
    "ISB": a.ISB,
    "PSB CSYNC": a.PSB_CSYNC,
    "DSB NSH": _DSB_NSH,
    "MSR PMBLIMITR_EL1, XZR": _CLEAR_PMBLIMITR,
    "MSR PMSCR_EL1, XZR": _CLEAR_PMSCR,
}
"""What is taken out, by name."""


@dataclass(frozen=True)
class Mistake:
    """The ``number``-th ``word`` of a function of a shipped program is missing; 0 is the first."""

    program: str
    function: str
    word: str
    number: int
    found: bool
    """Whether trials find it; False where the program cannot tell, as ``why`` says."""
    told: bool
    """Whether the misuses of the usual run name it."""
    why: str
    """What it was for, or why nothing shows without it."""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.program}: {self.word} {self.number} of {self.function}"

    def planted(self, folder: Path) -> Path:
        """The program with the mistake."""
        source = shipped_firmware(self.program)
        data = bytearray(source.read_bytes())
        elf = read_elf(source)
        ((start, end),) = elf.symbols.extents(self.function)
        (piece,) = (p for p in elf.pieces if p.vaddr <= start < p.vaddr + p.file_size)
        offset = piece.offset + start - piece.vaddr
        count = (end - start) // 4
        words = struct.unpack_from(f"<{count}I", data, offset)
        places = [n for n, word in enumerate(words) if word == WORDS[self.word]]
        struct.pack_into("<I", data, offset + 4 * places[self.number], _NOP)
        made = folder / f"{self.program}.elf"
        made.write_bytes(data)
        return made


_AGAIN = "spe_stop drains once more before the records are read"
MISTAKES = tuple(
    Mistake(*row)
    for row in (
        ("spe_silicon", "main", "ISB", 0, False, False, "PMSCR_EL1 was 0 and synchronized before"),
        (
            *("spe_silicon", "main", "MSR PMBLIMITR_EL1, XZR", 0, False, False),
            "the session before has cleared it, and a reset",
        ),
        ("spe_silicon", "main", "ISB", 1, False, False, "PMBLIMITR_EL1 was 0 already"),
        ("spe_silicon", "main", "ISB", 2, False, False, "the next ISB comes before it matters"),
        ("spe_silicon", "main", "ISB", 3, False, False, "the next ISB comes before it matters"),
        (
            *("spe_silicon", "main", "ISB", 4, False, True),
            "the next ISB comes before anything is sampled",
        ),
        ("spe_silicon", "main", "ISB", 5, True, False, "profiling is on before the work"),
        (
            *("spe_silicon", "main", "MSR PMSCR_EL1, XZR", 1, False, True),
            "records that come after PMBPTR_EL1 was read lie behind it",
        ),
        ("spe_silicon", "main", "ISB", 6, True, True, "profiling is off before the drain"),
        ("spe_silicon", "main", "PSB CSYNC", 0, True, True, "records are written"),
        ("spe_silicon", "main", "DSB NSH", 0, True, True, "records can be read"),
        ("spe_silicon", "main", "ISB", 7, True, True, "PMBPTR_EL1 is read behind the drain"),
        (
            *("spe_silicon", "main", "MSR PMBLIMITR_EL1, XZR", 1, False, False),
            "the next session clears it before it writes",
        ),
        ("spe_copy", "spe_profile", "ISB", 0, True, False, "profiling is on before the work"),
        ("spe_copy", "spe_profile", "ISB", 1, True, True, "profiling is off before the drain"),
        ("spe_copy", "spe_profile", "PSB CSYNC", 0, True, True, "records are written"),
        ("spe_copy", "spe_profile", "DSB NSH", 0, False, False, _AGAIN),
        ("spe_branches", "spe_profile", "PSB CSYNC", 0, True, True, "PMBPTR_EL1 is read"),
        (
            *("spe_branches", "spe_profile", "MSR PMSCR_EL1, XZR", 0, False, False),
            "spe_stop clears it less than an interval later",
        ),
        ("spe_sve", "spe_profile", "DSB NSH", 0, False, False, _AGAIN),
    )
)
"""Twenty of them; each passes on the usual machine."""
