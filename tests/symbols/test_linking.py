"""Modules of a kernel, linked where the kernel has them."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from spe_unicorn.session.linux.lines import placed
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.elf import ElfError, read_elf
from spe_unicorn.symbols.kallsyms import read_names
from spe_unicorn.symbols.lines import SourceLines
from spe_unicorn.symbols.linking import has_lines, linked

GCC = shutil.which("aarch64-linux-gnu-gcc")
SOURCE = """\
int kept;
__attribute__((noinline)) int first(void) {
    return kept;
}
__attribute__((section(".text.other"))) int second(void) {
    kept = 7;
    return 1;
}
__attribute__((section(".init.text"))) int gone(void) {
    return 2;
}
"""
FIRST, SECOND, KEPT = 0xFFFF_8000_7A00_0000, 0xFFFF_8000_7A12_3400, 0xFFFF_8000_7A20_0010
LISTING = f"""\
ffff800080000000 T _text
{FIRST:016x} t first\t[mine]
{SECOND:016x} t second\t[mine]
{KEPT:016x} b kept\t[mine]
"""


def built(folder: Path, *flags: str) -> bytes:
    if GCC is None:
        pytest.skip("no aarch64-linux-gnu-gcc here")
    (folder / "mine.c").write_text(SOURCE)
    words = [GCC, "-c", "-g", "-O0", "-ffreestanding", *flags, "mine.c", "-o", "mine.ko"]
    subprocess.run(words, cwd=folder, check=True)
    return (folder / "mine.ko").read_bytes()


@pytest.mark.parametrize("flags", [("-gdwarf-5",), ("-gdwarf-4", "-gz")])
def test_each_section_has_its_lines_where_the_kernel_has_it(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    data = built(tmp_path, *flags)
    assert has_lines(data)
    listing = tmp_path / "kallsyms"
    listing.write_text(LISTING)
    (choice, names) = placed(listing, [("mine", data), ("other", data)], (), tmp_path)
    assert (names.path, choice.address) == (str(listing), None)
    file = read_names(Path(choice.path))
    lines = SourceLines(file)
    found = {file.symbols.symbolize(a): lines.at(a) for a in (FIRST, SECOND, KEPT)}
    assert {name: line and line.number for name, line in found.items()} == {
        "first": 3,
        "second": 6,
        "kept": None,
    }
    numbers = {line.number for a in range(SECOND, SECOND + 24, 4) if (line := lines.at(a))}
    assert numbers == {6, 7, 8}
    # what the kernel has freed, and so does not name, is nowhere
    assert not file.holds(0)
    assert lines.at(0) is None


def test_a_kernel_is_where_it_says_and_another_file_where_it_is_linked(tmp_path: Path) -> None:
    listing = tmp_path / "kallsyms"
    listing.write_text(LISTING)
    built(tmp_path)
    kernels = {"vmlinux": "_text", "other.elf": "begin"}
    for name, symbol in kernels.items():
        ends = ("-nostdlib", "-Wl,-Ttext=0x80000", f"-Wl,--defsym={symbol}=first,-e,first")
        words = [str(GCC), "-g", "-x", "c", "mine.c", *ends, "-o", name]
        subprocess.run(words, cwd=tmp_path, check=True)
    given = [SymbolChoice(str(tmp_path / name)) for name in (*kernels, "mine.ko")]
    kernel, other, module, _ = placed(listing, (), given, tmp_path)
    elf = read_elf(Path(kernel.path))
    (at,) = elf.symbols.named("_text")
    assert kernel.address == elf.lowest + 0xFFFF_8000_8000_0000 - at
    assert other == given[1]
    assert read_elf(Path(module.path)).symbols.named("second") == (SECOND,)


def test_a_module_of_another_kernel_is_refused_where_it_was_named(tmp_path: Path) -> None:
    data = built(tmp_path)
    listing = tmp_path / "kallsyms"
    listing.write_text("ffff800080000000 T _text\nffff80007a000000 t other\t[mine]\n")
    with pytest.raises(ElfError, match="module mine: has no symbol that the kernel names"):
        placed(listing, (), [SymbolChoice(str(tmp_path / "mine.ko"))], tmp_path)
    assert [c.path for c in placed(listing, [("mine", data)], (), tmp_path)] == [str(listing)]


def test_a_damaged_module_is_told_as_one(tmp_path: Path) -> None:
    data = built(tmp_path)
    for size in (0, 20, 64, len(data) // 2, len(data) - 8):
        with pytest.raises(ElfError):
            linked(data[:size], {"first": FIRST})
    for at in range(0, len(data), 61):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with suppress(ElfError):
            linked(bytes(damaged), {"first": FIRST})
