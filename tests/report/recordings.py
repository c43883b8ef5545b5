"""Recordings of a few records, for tests of reports."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spe_unicorn.output.reader import RecordFile, Stream
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import Samples
from spe_unicorn.spe.record import Record
from spe_unicorn.symbols.elf import ElfFile, Piece
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.support.samples import stream

PROGRAM = ElfFile(
    Path("program.elf"),
    (Piece(0x40000000, 0x40000000, 0x1000, 0x2000, 0x10000),),
    SymbolTable(
        [
            Symbol(0x40000100, "main", 0x40, True),
            Symbol(0x40000120, "loop", 0, False),
            Symbol(0x40000140, "work", 0x20, True),
            Symbol(0x40008000, "buffer", 0x100, False),
        ]
    ),
    False,
    1,
)


def samples(*records: Record, cpu: int = 0, program: ElfFile | None = PROGRAM) -> Samples:
    recording = Recording(RecordFile("a.spe", "raw", [stream_of(records, cpu)]))
    if program is not None:
        recording.places.add_file(program)
    return Samples(recording)


def stream_of(records: Iterable[Record], cpu: int = 0) -> Stream:
    return Stream(cpu, 0, 0, memoryview(stream(records)))
