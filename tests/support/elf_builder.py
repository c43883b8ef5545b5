"""Builds small AArch64 ELF files, right ones and wrong ones, byte by byte."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

RAM = 0x4000_0000
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
EM_X86_64, EM_AARCH64 = 62, 183
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_FILE = 0, 1, 2, 4
SHN_UNDEF, SHN_ABS = 0, 0xFFF1


@dataclass
class Load:
    """One program header; ``memsz`` and ``paddr`` follow ``data`` and ``vaddr`` unless given."""

    vaddr: int = RAM
    data: bytes = b"\x1f\x20\x03\xd5" * 4
    memsz: int | None = None
    paddr: int | None = None
    kind: int = PT_LOAD
    flags: int = 5
    align: int = 4


@dataclass
class Sym:
    name: str
    value: int
    size: int = 0
    kind: int = STT_FUNC
    section: int = 1


@dataclass
class Elf:
    """An ELF file; what is not said has a right default."""

    loads: list[Load] = field(default_factory=lambda: [Load()])
    entry: int = RAM
    kind: int = ET_EXEC
    machine: int = EM_AARCH64
    elf_class: int = 2
    byte_order: int = 1
    symbols: list[Sym] = field(default_factory=list)

    def build(self) -> bytes:
        """Header, program headers, contents, symbol table, strings, section headers."""
        at = 64 + 56 * len(self.loads)
        headers, contents = b"", b""
        for load in self.loads:
            headers += struct.pack(
                "<IIQQQQQQ",
                load.kind,
                load.flags,
                at + len(contents),
                load.vaddr,
                load.vaddr if load.paddr is None else load.paddr,
                len(load.data),
                len(load.data) if load.memsz is None else load.memsz,
                load.align,
            )
            contents += load.data
        body = headers + contents
        section_headers, sections = b"", 0
        if self.symbols:
            strings, table = b"\0", bytes(24)
            for sym in self.symbols:
                table += struct.pack(
                    "<IBBHQQ", len(strings), 0x10 | sym.kind, 0, sym.section, sym.value, sym.size
                )
                strings += sym.name.encode() + b"\0"
            strings_at = len(strings)
            strings += b".symtab\0.strtab\0"
            table_offset = 64 + len(body)
            body += table
            strings_offset = 64 + len(body)
            body += strings
            shdr = struct.Struct("<IIQQQQIIQQ")
            section_headers = (
                bytes(64)
                + shdr.pack(strings_at, 2, 0, 0, table_offset, len(table), 2, 1, 8, 24)
                + shdr.pack(strings_at + 8, 3, 0, 0, strings_offset, len(strings), 0, 0, 1, 0)
            )
            sections = 3
        header = (
            b"\x7fELF"
            + bytes((self.elf_class, self.byte_order, 1))
            + bytes(9)
            + struct.pack(
                "<HHIQQQIHHHHHH",
                self.kind,
                self.machine,
                1,
                self.entry,
                64,
                64 + len(body) if sections else 0,
                0,
                64,
                56,
                len(self.loads),
                64 if sections else 0,
                sections,
                2 if sections else 0,
            )
        )
        return header + body + section_headers
