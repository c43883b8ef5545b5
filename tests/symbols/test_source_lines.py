"""Source lines, a compilation unit at a time: as binutils has them."""

from __future__ import annotations

import io
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.symbols.elf import read_elf
from spe_unicorn.symbols.lines import Line, SourceLines, read_lines
from spe_unicorn.symbols.table import printable

ADDR2LINE = shutil.which("aarch64-linux-gnu-addr2line")


@pytest.mark.skipif(ADDR2LINE is None, reason="needs binutils for AArch64")
@pytest.mark.parametrize("name", ["spe_copy", "priv_el1", "hello_pie", "mix"])
def test_every_instruction_has_the_line_that_binutils_says(name: str) -> None:
    path = shipped_firmware(name)
    file = read_elf(path)
    lines = SourceLines(file)
    code = [s for s in file.symbols if s.function and s.size]
    addresses = [a for s in code for a in range(s.address, s.address + s.size, 4)]
    assert ADDR2LINE is not None
    said = subprocess.run(
        [ADDR2LINE, "-e", str(path)],
        input="".join(f"{a:#x}\n" for a in addresses),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    theirs = [re.sub(r" \(discriminator \d+\)", "", line) for line in said]
    ours = [f"{found.path}:{found.number}" if (found := lines.at(a)) else "??:0" for a in addresses]
    same = sum(
        mine.rpartition("/")[2] == other.rpartition("/")[2].replace(":?", ":0")
        for mine, other in zip(ours, theirs, strict=True)
    )
    assert len(addresses) > 100
    assert same >= 0.99 * len(addresses), [
        p for p in zip(ours, theirs, strict=True) if p[0] != p[1]
    ]


def test_an_address_in_no_unit_has_no_line() -> None:
    lines = SourceLines(read_elf(shipped_firmware("hello")))
    assert lines.at(0) is None
    assert lines.at(0x4800_0000) is None


def test_a_file_without_lines_or_with_damaged_ones_has_none(tmp_path: Path) -> None:
    good = shipped_firmware("hello").read_bytes()
    file = tmp_path / "hello.elf"
    file.write_bytes(good)
    elf = read_elf(file)
    address = next(s.address for s in elf.symbols if s.name == "main")
    assert SourceLines(elf).at(address) is not None
    for start in range(0x4000, len(good), 997):
        file.write_bytes(good[:start] + b"\xff" * 64 + good[start + 64 :])
        found = SourceLines(elf).at(address)
        assert found is None or isinstance(found, Line)
    file.unlink()
    assert SourceLines(elf).at(address) is None


def test_a_unit_whose_abbreviations_are_nowhere_has_no_lines(tmp_path: Path) -> None:
    data = bytearray(shipped_firmware("hello").read_bytes())
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".debug_info")
    at = section["sh_offset"]
    while at < section["sh_offset"] + section["sh_size"]:
        length, version = struct.unpack_from("<IH", data, at)
        struct.pack_into("<I", data, at + (8 if version >= 5 else 6), 0x7FFF_FFFF)
        at += 4 + length
    file = tmp_path / "hello.elf"
    file.write_bytes(data)
    elf = read_elf(file)
    address = next(s.address for s in elf.symbols if s.name == "main")
    assert SourceLines(elf).at(address) is None
    assert read_lines(elf).at(address) is None


def test_names_are_printed_in_characters_that_a_terminal_shows() -> None:
    assert printable("main") == "main"
    assert printable("größe") == "größe"
    assert printable("a\x1b[2Jb\nc\u202e") == "a\\x1b[2Jb\\nc\\u202e"
    assert Line("/src/\x1b[31mevil.c", 7).short == "\\x1b[31mevil.c:7"


def test_a_table_of_ranges_with_segments_is_no_internal_error(tmp_path: Path) -> None:
    data = bytearray(shipped_firmware("hello").read_bytes())
    section = ELFFile(io.BytesIO(data)).get_section_by_name(".debug_aranges")
    data[section["sh_offset"] + 11] = 8  # segment_selector_size, behind the address' size
    file = tmp_path / "hello.elf"
    file.write_bytes(data)
    elf = read_elf(file)
    address = next(s.address for s in elf.symbols if s.name == "main")
    assert SourceLines(elf).at(address) is None
