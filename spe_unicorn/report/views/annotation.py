"""The instructions of a function, each with what its samples say."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from spe_unicorn.machine.shipped import source_folder
from spe_unicorn.output.arrays import Has
from spe_unicorn.report.samples import Samples
from spe_unicorn.report.tables import Cell, Column, Kind, Table
from spe_unicorn.spe.packets import Event
from spe_unicorn.symbols.elf import ElfFile, read_code
from spe_unicorn.symbols.lines import Line
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.sources import Sources
from spe_unicorn.symbols.table import Symbol

Disassemble = Callable[[int, int], str]
"""The text of an instruction word at an address."""

MOST_INSTRUCTIONS = 20_000
"""A symbol without a size covers everything up to the next one, which may be far."""

_EVENTS = (
    (Event.L1D_MISS, "L1D miss"),
    (Event.LLC_MISS, "LLC miss"),
    (Event.TLB_WALK, "TLB walk"),
    (Event.MISPREDICTED, "mispredicted"),
    (Event.NOT_TAKEN, "not taken"),
    (Event.EXCEPTION, "exception"),
)
"""Events that have a column where they happened."""


class NoSuchSymbolError(LookupError):
    """A function that there is not; the message is a sentence."""


def annotate(
    samples: Samples,
    name: str,
    disassemble: Disassemble,
    folders: Iterable[Path] = (),
    sources: Sources | None = None,
) -> Table:
    """The function ``name``: address, assembly, source line, and what was sampled of each.

    Shares are of the function's samples. Source files are read from the folder of the ELF file and
    from ``folders`` alone, or are ``sources``; the note says so where one is in none of them. Of a
    listing of a kernel's symbols, whose instructions nobody has, those are shown that have a
    sample. Raises NoSuchSymbolError, OSError.
    """
    file, symbol = find(samples, name)
    size = min(symbol.size or _up_to_next(file, symbol), 4 * MOST_INSTRUCTIONS)
    code = read_code(file, symbol.address, size)
    lines = samples.lines.table(file)
    sources = sources_of(file, folders) if sources is None else sources
    found = _Inside(samples, file, symbol.address, size)
    total = int(found.count.sum())
    there = [
        (each, text) for each, (_, text) in zip(found.events, _EVENTS, strict=True) if each.any()
    ]
    rows: list[tuple[Cell, ...]] = []
    previous: Line | None = None
    words: dict[int, int | None] = dict.fromkeys(np.flatnonzero(found.count if not code else []))
    for n, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & ~3])):
        words[n] = word
    for number, word in words.items():
        address = symbol.address + 4 * int(number)
        line = lines.at(address)
        source = sources.text(line) if line is not None and line != previous else None
        previous = line
        count, timed = int(found.count[number]), int(found.timed[number])
        rows.append(
            (
                count / total if count else None,
                count or None,
                float(found.cycles[number] / timed) if timed else None,
                *(int(each[number]) or None for each, _ in there),
                f"{address:x}",
                None if word is None else disassemble(word, address),
                source,
            )
        )
    columns = (
        Column("share", Kind.SHARE),
        Column("samples", Kind.COUNT),
        Column("mean latency", Kind.CYCLES),
        *(Column(text, Kind.COUNT) for _, text in there),
        Column("address"),
        Column("instruction", least=16),
        Column("source", least=5),
    )
    note = None if total else "no sample is in this function"
    if not code:
        note = note or f"{file.path.name} holds no instructions: those with samples are shown"
    notes = [each for each in (note, sources.why_not("--source DIR")) if each is not None]
    note = "; ".join(notes) or None
    return Table(f"{symbol.name} of {file.path.name}, {total} samples", columns, rows, note)


def sources_of(file: ElfFile, folders: Iterable[Path] = ()) -> Sources:
    """The sources of a file: in its own folder, in ``folders``, and of a program that we ship."""
    shipped = source_folder(file.path)
    own = (file.path.parent,) if shipped is None else (file.path.parent, shipped)
    return Sources((*folders, *own))


def find(samples: Samples, name: str) -> tuple[ElfFile, Symbol]:
    """The symbol ``name`` and its file. Raises NoSuchSymbolError."""
    files = samples.spaces.files
    if not files:
        raise NoSuchSymbolError(
            f"{samples.recording.file.path} does not name its ELF file: give it by --symbols"
        )
    for file in files:
        for symbol in file.symbols:
            if symbol.name == name:
                return file, symbol
    known = sorted({symbol.name for file in files for symbol in file.symbols})
    near = get_close_matches(name, known, 3) or [there for there in known if name in there][:5]
    hint = f"; near are {', '.join(near)}" if near else ""
    names = ", ".join(str(file.path) for file in files)
    raise NoSuchSymbolError(f"no symbol {name} in {names}{hint}")


def _up_to_next(file: ElfFile, symbol: Symbol) -> int:
    """Bytes from a symbol without a size to the next one, or the end of its segment."""
    later = [other.address for other in file.symbols if other.address > symbol.address]
    ends = [p.vaddr + p.size for p in file.pieces if p.vaddr <= symbol.address < p.vaddr + p.size]
    return min([*later, *ends], default=symbol.address) - symbol.address


class _Inside:
    """What was sampled of each instruction in ``size`` bytes from ``start`` on of a file."""

    def __init__(self, samples: Samples, file: ElfFile, start: int, size: int) -> None:
        words = size // 4 + 1
        self.count = np.zeros(words, np.int64)
        self.timed = np.zeros(words, np.int64)
        self.cycles = np.zeros(words, np.int64)
        self.events = [np.zeros(words, np.int64) for _ in _EVENTS]

        def word(places: Places, pc: int) -> str:
            place = places.at(pc)
            if place is None or place.file is not file:
                return ""
            away = place.linked - start
            return str(away // 4) if 0 <= away < size else ""

        for piece in samples.pieces():
            arrays = piece.arrays
            said = piece.spaces.names(piece.pcs, word)
            number_of = np.array([int(name or -1) for name in said.names] or [-1], np.int64)
            numbers = np.where(arrays.where(Has.PC), number_of[said.numbers], -1)
            rows = np.flatnonzero(numbers >= 0)
            inside = numbers[rows]
            timed = arrays.where(Has.TOTAL)[rows]
            self.count += np.bincount(inside, minlength=words)
            self.timed += np.bincount(inside[timed], minlength=words)
            cycles = arrays.total[rows][timed]
            self.cycles += np.bincount(inside[timed], cycles, words).astype(np.int64)
            for counts, (event, _) in zip(self.events, _EVENTS, strict=True):
                counts += np.bincount(inside[piece.with_event(event)[rows]], minlength=words)
