"""The files that the corpus of wrong command lines names, each broken in its own way."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.elf_builder import (
    EM_X86_64,
    ET_CORE,
    ET_DYN,
    ET_REL,
    PT_DYNAMIC,
    PT_INTERP,
    RAM,
    Elf,
    Load,
    Sym,
)

_DYNAMIC_IFUNC = struct.pack("<qQqQqQ", 7, 0x20, 8, 24, 0, 0)
_RECORD = (b"\xb0" + bytes(8) + b"\x42\x02" + b"\x01").ljust(64, b"\0")
"""One record: an instruction's address, the event "retired", the end, padded to 64 bytes."""
_NEEDED = struct.pack("<qQqQ", 1, 1, 0, 0)


def make_broken_files(folder: Path) -> dict[str, str]:
    """Write every file of the corpus into ``folder``; returns what the corpus's names stand for."""
    hello = shipped_firmware("hello").read_bytes()
    files = {
        "empty": b"",
        "one_byte": b"\x7f",
        "text": b"int main(void) { return 0; }\n",
        "zeros": bytes(4096),
        "magic_only": b"\x7fELF",
        "header_only": hello[:64],
        "cut_in_header": hello[:40],
        "cut_in_program_headers": hello[:100],
        "cut_in_half": hello[: len(hello) // 2],
        "cut_at_the_end": hello[:-1],
        "bad_class": hello[:4] + b"\x07" + hello[5:],
        "bad_byte_order": hello[:5] + b"\x09" + hello[6:],
        "x86_64": Elf(machine=EM_X86_64).build(),
        "unknown_machine": Elf(machine=0xFEFE).build(),
        "32_bit": Elf(elf_class=1, machine=40).build(),
        "big_endian": Elf(byte_order=2).build(),
        "object": Elf(kind=ET_REL).build(),
        "core_dump": Elf(kind=ET_CORE).build(),
        "no_segments": Elf([]).build(),
        "dynamic": Elf([Load(), Load(0, b"/lib/ld.so\0", kind=PT_INTERP)]).build(),
        "shared_library": Elf([Load(0), Load(64, _NEEDED, kind=PT_DYNAMIC)], 0, ET_DYN).build(),
        "ifunc": Elf(
            [
                Load(0, bytes(0x20) + struct.pack("<QQq", 0, 1032, 0)),
                Load(64, _DYNAMIC_IFUNC, kind=PT_DYNAMIC),
            ],
            0,
            ET_DYN,
        ).build(),
        "overlap": Elf([Load(memsz=0x2000), Load(RAM + 0x1000)]).build(),
        "at_zero": Elf([Load(0x8_0000)], 0x8_0000).build(),
        "beyond_ram": Elf([Load(1 << 40)], 1 << 40).build(),
        "huge": Elf([Load(memsz=1 << 62)]).build(),
        "longer_in_file": Elf([Load(memsz=1)]).build(),
        "entry_outside": Elf(entry=0x1000).build(),
        "entry_odd": Elf(entry=RAM + 1).build(),
        "bad_symbols": _with_a_broken_symbol_table(),
        "absurd_header_count": hello[:56] + b"\xff\xff" + hello[58:],
        "absurd_header_offset": hello[:32] + struct.pack("<Q", 1 << 60) + hello[40:],
        "undefined_instruction": Elf([Load(data=bytes(4))]).build(),
        # Streams of records.
        "spoiled.spe": _RECORD + b"\xff" * 64 + _RECORD,
        "ends_early.spe": _RECORD + _RECORD[:5],
        "bad_packet.spe": b"\xff" * 64,
        "noise.spe": bytes(x * 167 + 13 & 0xFF for x in range(1000)),
        "cut_record.spe": b"\xb2\x00\x00",
        "empty.spe": b"",
        "empty.data": b"",
        "magic_only.data": b"PERFILE2",
        "cut_header.data": b"PERFILE2" + struct.pack("<Q", 104) + bytes(20),
        "absurd_sections.data": b"PERFILE2"
        + struct.pack("<QQ", 104, 144)
        + struct.pack("<6Q", *[1 << 62] * 6)
        + bytes(32),
        "byte_swapped.data": b"2ELIFREP" + bytes(200),
        "pipe_mode.data": b"PERFILE2" + struct.pack("<Q", 16) + bytes(64),
        "zero_size_record.data": b"PERFILE2"
        + struct.pack("<QQ", 104, 144)
        + struct.pack("<6Q", 104, 0, 104, 64, 0, 0)
        + bytes(32)
        + bytes(64),
    }
    paths = {"folder": str(folder), "missing": str(folder / "missing"), "slash": "/"}
    for name, contents in files.items():
        file = folder / name
        file.write_bytes(contents)
        paths[name] = str(file)
    os.mkfifo(folder / "fifo")
    paths["fifo"] = str(folder / "fifo")
    paths["hello"] = str(shipped_firmware("hello"))
    paths["new"] = str(folder / "new")
    paths["many_digits"] = "9" * 5000  # more than int() takes
    return paths


def _with_a_broken_symbol_table() -> bytes:
    data = bytearray(Elf(symbols=[Sym("main", RAM)]).build())
    data[-128 + 24 : -128 + 32] = struct.pack("<Q", 1 << 61)  # where the symbol table is
    return bytes(data)
