"""Reads firmware: an ELF file becomes an :class:`Image`, placed and relocated, nothing executed.

Whatever is wrong with the file is told in one :class:`LoadError` of one line. pyelftools reads the
headers; every length is checked against the file before it is used. ``symbols.elf`` reads symbols.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from elftools.elf.elffile import ELFFile

from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, LoadError, Segment
from spe_unicorn.machine.boot.relocation import relocate
from spe_unicorn.machine.files import naming, regular_file
from spe_unicorn.symbols.elf import DAMAGED, ElfError, beyond, part_of, read_symbols
from spe_unicorn.symbols.table import Symbol, SymbolTable

PIE_OFFSET = 0x20_0000
"""Where a position-independent image goes, in bytes above the start of RAM.

It is a multiple of every usual segment alignment, and leaves room below for a device tree.
"""

_EHDR_SIZE, _PHDR_SIZE, _SHDR_SIZE = 64, 56, 64
_DT_NEEDED = 1


def load_elf(path: str | os.PathLike[str], ram_base: int, ram_size: int) -> Image:
    """The image of an AArch64 ELF file: an executable, or a static PIE.

    An executable goes where its program headers say (their physical addresses). A PIE that was
    linked inside RAM stays there, another one is moved to :data:`PIE_OFFSET` above ``ram_base`` and
    its relative relocations are applied; its physical addresses are its virtual ones.

    Raises LoadError, with the file's name and one line that says what is wrong.
    """
    file = Path(path)
    with naming(file):
        return _place(file, _parse(_read(file)), ram_base, ram_size)


@dataclass(frozen=True)
class _Header:
    """What the file says, checked against its size and against nothing else."""

    pie: bool
    entry: int
    segments: tuple[Segment, ...]
    alignment: int
    dynamic: tuple[tuple[int, int], ...]
    symbols: tuple[Symbol, ...]


def _read(file: Path) -> bytes:
    """The bytes of the file, if it is a regular one that begins as an ELF file does."""
    with regular_file(file, "an ELF file") as stream:
        start = stream.read(4)
        if not start:
            raise LoadError("is empty")
        if start != b"\x7fELF":
            raise LoadError(f"is not an ELF file (it starts with {start.hex(' ')})")
        return start + stream.read()


def _parse(data: bytes) -> _Header:
    """The headers, segments and symbols of an AArch64 ELF file."""
    if len(data) < _EHDR_SIZE:
        raise LoadError(f"is truncated: an ELF header has {_EHDR_SIZE} bytes, here are {len(data)}")
    if data[4] == 1:
        raise LoadError("is a 32-bit ELF file; the machine runs 64-bit AArch64 code only")
    if data[4] != 2:
        raise LoadError(f"has the unknown ELF class {data[4]}")
    if data[5] == 2:
        raise LoadError("is big-endian; the machine is little-endian")
    if data[5] != 1:
        raise LoadError(f"has the unknown byte order {data[5]}")
    try:
        return _parse_headers(data, ELFFile(io.BytesIO(data)))
    except LoadError:
        raise
    except ElfError as error:
        raise LoadError(str(error)) from None
    except DAMAGED as error:
        detail = " ".join(str(error).split())
        raise LoadError(f"is a damaged ELF file ({detail or type(error).__name__})") from None


def _parse_headers(data: bytes, elf: ELFFile) -> _Header:
    if elf["e_machine"] != "EM_AARCH64":
        raise LoadError(f"is for {_machine_name(elf['e_machine'])}, not for AArch64")
    kind = elf["e_type"]
    if kind == "ET_REL":
        raise LoadError("is a relocatable object file; link it first")
    if kind not in ("ET_EXEC", "ET_DYN"):
        raise LoadError(f"is not an executable ({kind})")
    _check_table(data, elf, "program headers", "ph", _PHDR_SIZE)
    if elf["e_shnum"]:
        _check_table(data, elf, "section headers", "sh", _SHDR_SIZE)

    segments = []
    dynamic: tuple[tuple[int, int], ...] = ()
    alignment = 1
    for number in range(elf["e_phnum"]):
        header = elf.get_segment(number).header
        if header.p_type == "PT_INTERP":
            raise LoadError("needs a dynamic linker (it has an interpreter); link it statically")
        if header.p_type == "PT_DYNAMIC":
            table = part_of(data, "dynamic section", header.p_offset, header.p_filesz)
            dynamic = tuple(struct.iter_unpack("<qQ", table[: len(table) & ~15]))
        if header.p_type != "PT_LOAD" or not header.p_memsz:
            continue
        if header.p_filesz > header.p_memsz:
            raise LoadError(f"segment {number} is longer in the file than in memory")
        contents = part_of(data, f"segment {number}", header.p_offset, header.p_filesz)
        alignment = max(alignment, header.p_align)
        segments.append(
            Segment(
                address=header.p_paddr if kind == "ET_EXEC" else header.p_vaddr,
                data=contents,
                size=header.p_memsz,
                vaddr=header.p_vaddr,
                flags=header.p_flags & (READ | WRITE | EXECUTE),
                offset=header.p_offset,
            )
        )
    if not segments:
        raise LoadError("has no load segment; link it as an executable")
    if any(tag == _DT_NEEDED for tag, _ in dynamic):
        raise LoadError("needs shared libraries; link it statically")
    return _Header(
        pie=kind == "ET_DYN",
        entry=elf["e_entry"],
        segments=tuple(segments),
        alignment=alignment,
        dynamic=dynamic,
        symbols=tuple(read_symbols(data, elf)) if elf["e_shnum"] else (),
    )


def _machine_name(machine: str | int) -> str:
    if isinstance(machine, int):
        return f"the unknown machine {machine}"
    return machine.removeprefix("EM_")


def _check_table(data: bytes, elf: ELFFile, what: str, prefix: str, expected: int) -> None:
    """Make sure that the whole table of headers lies in the file, so that reading it ends."""
    size, count = elf[f"e_{prefix}entsize"], elf[f"e_{prefix}num"]
    if count and size != expected:
        raise LoadError(f"has {what} of {size} bytes each instead of {expected}")
    end = elf[f"e_{prefix}off"] + count * size
    if end > len(data):
        raise LoadError(f"is truncated: its {what} end at {beyond(data, end)}")


def _place(file: Path, header: _Header, ram_base: int, ram_size: int) -> Image:
    """Decide where the segments go, check that they fit, relocate a PIE."""
    segments: Sequence[Segment] = header.segments
    bias = 0
    if header.pie and not all(_in_ram(s, ram_base, ram_size) for s in segments):
        low = min(s.address for s in segments)
        bias = pie_bias(low, header.alignment, ram_base)
        segments = [replace(s, address=s.address + bias, vaddr=s.vaddr + bias) for s in segments]
    _check_places(segments, ram_base, ram_size)
    if bias:
        segments = relocate(segments, header.dynamic, bias)
    return Image(
        path=file,
        entry=_entry(segments, header.entry + bias),
        segments=tuple(segments),
        symbols=SymbolTable(_placed_symbols(segments, header.symbols, bias)),
        is_pie=header.pie,
        bias=bias,
    )


def pie_bias(lowest: int, alignment: int, ram_base: int) -> int:
    """How far a PIE is moved whose lowest address is ``lowest``; all in bytes."""
    return -(-(ram_base + PIE_OFFSET - lowest) // alignment) * alignment


def _placed_symbols(
    segments: Sequence[Segment], symbols: Sequence[Symbol], bias: int
) -> Iterator[Symbol]:
    """The symbols that name a place in a segment: a linker script also makes sizes symbols."""
    for symbol in symbols:
        address = symbol.address + bias
        if any(s.vaddr <= address < s.vaddr + s.size for s in segments):
            yield replace(symbol, address=address)


def _in_ram(segment: Segment, ram_base: int, ram_size: int) -> bool:
    return ram_base <= segment.address and segment.end <= ram_base + ram_size


def _check_places(segments: Sequence[Segment], ram_base: int, ram_size: int) -> None:
    ram = f"RAM, {ram_base:#x} to {ram_base + ram_size - 1:#x}"
    for segment in segments:
        if _in_ram(segment, ram_base, ram_size):
            continue
        if ram_base <= segment.address < ram_base + ram_size:
            raise LoadError(f"segment {_range(segment)} does not fit into {ram}: give it more RAM")
        raise LoadError(
            f"segment {_range(segment)} lies outside {ram}: "
            f"link it there (ld -Ttext-segment={ram_base:#x}, or your linker script's origin)"
        )
    in_order = sorted(segments, key=lambda s: s.address)
    for one, next_one in pairwise(in_order):
        if one.end > next_one.address:
            raise LoadError(f"segments {_range(one)} and {_range(next_one)} overlap")


def _range(segment: Segment) -> str:
    return f"{segment.address:#x} to {segment.end - 1:#x}"


def _entry(segments: Sequence[Segment], entry: int) -> int:
    """The physical address of the entry point.

    It is looked for among the virtual addresses first. Images that run in the upper half often
    give a physical one, which stays as it is.
    """
    if entry % 4:
        raise LoadError(f"its entry point {entry:#x} is not a multiple of 4")
    for segment in segments:
        if segment.vaddr <= entry < segment.vaddr + segment.size:
            return entry - segment.vaddr + segment.address
    for segment in segments:
        if segment.address <= entry < segment.end:
            return entry
    raise LoadError(f"its entry point {entry:#x} lies in no segment (link with -e _start)")
