"""Listings of a kernel's symbols."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.symbols.elf import ElfError
from spe_unicorn.symbols.kallsyms import read_names

HELLO = shipped_firmware("hello")
LISTING = """\
ffff800080010000 T _stext
ffff800080010000 t $x
ffff800080010040 t memset
ffff800080010080 D jiffies
ffff80007a000000 t arm_spe_init\t[arm_spe_pmu]
"""


def test_a_symbol_goes_up_to_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_text(LISTING)
    file = read_names(path)
    assert [(s.address, s.name, s.size, s.function) for s in file.symbols][1:] == [
        (0xFFFF800080010000, "_stext", 0x40, True),
        (0xFFFF800080010040, "memset", 0x40, True),
        (0xFFFF800080010080, "jiffies", 4, False),
    ]
    assert file.symbols.symbolize(0xFFFF80007A000010) == "arm_spe_init+0x10"
    # nothing tells the end of the last one of a module: it is in its page, and in no other
    assert file.symbols.symbolize(0xFFFF80007A000FFF) == "arm_spe_init+0xfff"
    assert file.symbols.symbolize(0xFFFF80007A001000) is None
    assert file.symbols.symbolize(0xFFFF800080010044) == "memset+0x4"
    assert (file.lowest, file.is_pie) == (0xFFFF80007A000000, False)


def test_a_listing_that_root_did_not_make_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_text("0000000000000000 T _stext\n" * 3)
    with pytest.raises(ElfError, match="all addresses are 0: only root"):
        read_names(path)


def test_a_listing_without_an_end_is_refused(tmp_path: Path) -> None:
    """Such as a guest can make with a hole: this one is 1 TiB."""
    path = tmp_path / "kallsyms"
    path.write_text(LISTING)
    os.truncate(path, 1 << 40)
    with pytest.raises(ElfError, match="is too long: at most 64 MiB of names are read"):
        read_names(path)


def test_everything_else_is_an_elf_file_or_none(tmp_path: Path) -> None:
    assert read_names(HELLO).symbols.named("main")
    path = tmp_path / "notes"
    path.write_text("ffff T _stext\n")
    with pytest.raises(ElfError, match="is not an ELF file"):
        read_names(path)
