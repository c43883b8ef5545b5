"""DynamoRIO's drcov, version 2, which Lighthouse and other tools on disassembly show."""

from __future__ import annotations

import struct
from typing import Final

from spe_unicorn.output.coverage.model import Coverage, ranges

_LARGEST: Final = 0xFFFC
"""Bytes of the largest block: its size has 16 bits."""
_WORD: Final = 4


def drcov(coverage: Coverage) -> bytes:
    """The file. A module is an ELF file, at the addresses of its link."""
    modules, blocks = [], []
    for number, (path, program) in enumerate(sorted(coverage.programs.items())):
        spans = ranges(program.operations, _WORD)
        base = spans[0][0] & ~0xFFF if spans else 0
        end = spans[-1][1] + _WORD if spans else 0
        modules.append(f" {number}, {base:#018x}, {end:#018x}, {0:#018x}, {path}")
        for first, last in spans:
            for start in range(first, last + _WORD, _LARGEST):
                size = min(last + _WORD - start, _LARGEST)
                blocks.append(struct.pack("<IHH", start - base, size, number))
    head = [
        "DRCOV VERSION: 2",
        "DRCOV FLAVOR: drcov",
        f"Module Table: version 2, count {len(modules)}",
        "Columns: id, base, end, entry, path",
        *modules,
        f"BB Table: {len(blocks)} bbs",
    ]
    return "".join(f"{line}\n" for line in head).encode() + b"".join(blocks)
