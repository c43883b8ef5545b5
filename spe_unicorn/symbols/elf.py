"""Symbols of AArch64 ELF files, and which addresses of a running program they name."""

from __future__ import annotations

import io
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from spe_unicorn.symbols.errors import ElfError as ElfError
from spe_unicorn.symbols.table import Symbol, SymbolTable

DAMAGED = (
    DWARFError,
    ELFError,
    NotImplementedError,  # of pyelftools, for tables that no compiler makes
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What pyelftools raises on damaged files: besides its own errors what its parser met there. Which
that is differs between its releases: overflows in 0.33, in 0.31 endless recursion and more."""

_MOST_BYTES = 2 << 30
"""The largest file that is read; a kernel with all its debug information has a quarter of that."""
_SYM_SIZE = 24
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_NAMES_A_PLACE = (0, 1, *_FUNCTIONS)  # STT_NOTYPE, as of a label in assembly, and STT_OBJECT
_SHN_UNDEF = 0


class Piece(NamedTuple):
    """A load segment: where it is linked to run and to be loaded, and where it is in the file."""

    vaddr: int
    paddr: int
    offset: int
    file_size: int
    size: int


@dataclass(frozen=True)
class ElfFile:
    """What names addresses in an ELF file; all addresses are those that it was linked for."""

    path: Path
    pieces: tuple[Piece, ...]
    symbols: SymbolTable
    is_pie: bool
    alignment: int

    @property
    def lowest(self) -> int:
        """The lowest address at which it has something in memory."""
        return min(piece.vaddr for piece in self.pieces)

    def holds(self, address: int) -> bool:
        """Whether it has something at an address."""
        return any(p.vaddr <= address < p.vaddr + p.size for p in self.pieces)


def read_code(file: ElfFile, address: int, size: int) -> bytes:
    """Bytes of a file that are linked to be at an address: fewer than ``size`` where it ends.

    Raises OSError where the file cannot be read any more.
    """
    for piece in file.pieces:
        begin = address - piece.vaddr
        if 0 <= begin < piece.file_size:
            with file.path.open("rb") as stream:
                stream.seek(piece.offset + begin)
                return stream.read(min(size, piece.file_size - begin))
    return b""


def _check_file(path: Path) -> None:
    """Look at a file before it is opened: a recording may have named it, a guest made it.

    To open a FIFO or to read /proc/kmsg would wait, and /dev/zero has no end. Files of /proc have
    no size. Raises ElfError, and OSError where there is no such file.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ElfError(f"{path}: is no regular file")
    if not found.st_size:
        raise ElfError(f"{path}: is not an ELF file (it is empty)")
    if found.st_size > _MOST_BYTES:
        raise ElfError(f"{path}: is too large: at most {_MOST_BYTES >> 20} MiB are read")


def read_elf(path: Path) -> ElfFile:
    """The symbols and load segments of a file.

    Raises ElfError, whose message begins with the file's name, for one that has none.
    """
    try:
        _check_file(path)
        data = path.read_bytes()
    except OSError as error:
        raise ElfError(f"{path}: {error.strerror or error}") from None
    except ElfError:
        raise
    except (ValueError, MemoryError):  # no file has such a name; it is larger than this host
        raise ElfError(f"{path}: cannot be read") from None
    if not data.startswith(b"\x7fELF"):
        raise ElfError(f"{path}: is not an ELF file (it starts with {data[:4].hex(' ')})")
    try:
        elf = ELFFile(io.BytesIO(data))
        if elf["e_machine"] != "EM_AARCH64" or elf.elfclass != 64:
            machine = str(elf["e_machine"]).removeprefix("EM_")
            raise ElfError(f"{path}: is for {machine}, not for AArch64")
        headers = [elf.get_segment(number).header for number in range(elf["e_phnum"])]
        loaded = [header for header in headers if header.p_type == "PT_LOAD" and header.p_memsz]
        if not loaded:
            raise ElfError(f"{path}: has no load segment")
        return ElfFile(
            path,
            tuple(Piece(h.p_vaddr, h.p_paddr, h.p_offset, h.p_filesz, h.p_memsz) for h in loaded),
            SymbolTable(read_symbols(data, elf)),
            elf["e_type"] == "ET_DYN",
            max(1, *(header.p_align for header in loaded)),
        )
    except ElfError as error:
        said = str(error)
        raise ElfError(said if said.startswith(f"{path}:") else f"{path}: {said}") from None
    except DAMAGED as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise ElfError(f"{path}: is a damaged ELF file ({detail})") from None


def build_id(path: Path) -> bytes:
    """What the linker of a file has called it (``--build-id``); empty if it has no such name."""
    try:
        _check_file(path)
        with path.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_NOTE"):
                for note in segment.iter_notes():
                    if note["n_type"] == "NT_GNU_BUILD_ID":
                        return bytes.fromhex(note["n_desc"])
    except (OSError, ElfError, *DAMAGED):
        pass
    return b""


def read_symbols(data: bytes, elf: ELFFile) -> Iterator[Symbol]:
    """Functions, objects and plain labels of the symbol table, in link addresses.

    Tables of many equal entries are unpacked here: a hundred times faster than pyelftools.
    Raises ElfError where a table lies beyond the end of the file.
    """
    for number in range(elf["e_shnum"]):
        section = elf.get_section(number)
        if section["sh_type"] != "SHT_SYMTAB":
            continue
        table = part_of(data, "symbol table", section["sh_offset"], section["sh_size"])
        header = elf.get_section(section["sh_link"])
        strings = part_of(data, "string table", header["sh_offset"], header["sh_size"])
        whole = len(table) // _SYM_SIZE * _SYM_SIZE
        for name_at, info, _, index, value, size in struct.iter_unpack("<IBBHQQ", table[:whole]):
            kind = info & 0xF
            if index == _SHN_UNDEF or kind not in _NAMES_A_PLACE:
                continue
            end = strings.find(b"\0", name_at)
            name = strings[name_at : end if end >= 0 else None].decode("utf-8", "replace")
            # $x and $d tell code from data; nobody calls them.
            if name and not name.startswith("$"):
                yield Symbol(value, name, size, kind in _FUNCTIONS)


def part_of(data: bytes, what: str, offset: int, size: int) -> bytes:
    """``size`` bytes of a file at ``offset``. Raises ElfError, naming ``what``, past its end."""
    # A segment of zeros alone may name any offset.
    if size and offset + size > len(data):
        raise ElfError(f"is truncated: its {what} ends at {beyond(data, offset + size)}")
    return data[offset : offset + size]


def beyond(data: bytes, end: int) -> str:
    """Where something ends, and where the file does."""
    return f"byte {end:#x}, the file at {len(data):#x}"
