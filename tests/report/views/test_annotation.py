from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.report import lines as report_lines
from spe_unicorn.report.views import annotation
from spe_unicorn.report.views.annotation import NoSuchSymbolError, annotate
from spe_unicorn.symbols.elf import ElfFile, Piece, read_elf
from spe_unicorn.symbols.lines import Line, LineTable, read_lines
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.report.recordings import samples
from tests.support.samples import branch, load, other

HELLO = read_elf(shipped_firmware("hello"))
MAIN = next(symbol for symbol in HELLO.symbols if symbol.name == "main")


def test_each_instruction_has_its_samples() -> None:
    found = samples(
        load(MAIN.address),
        load(MAIN.address),
        branch(MAIN.address + 4),
        other(MAIN.address + MAIN.size),  # after it
        program=HELLO,
    )
    table = annotate(found, "main", disassemble)
    assert table.title == "main of hello.elf, 3 samples"
    names = [column.name for column in table.columns]
    assert names == [
        *("share", "samples", "mean latency", "L1D miss", "mispredicted"),
        *("address", "instruction", "source"),
    ]
    assert len(table.rows) == MAIN.size // 4
    assert table.rows[0][:6] == (2 / 3, 2, 13.0, 2, None, f"{MAIN.address:x}")
    assert table.rows[1][:6] == (1 / 3, 1, 2.0, None, 1, f"{MAIN.address + 4:x}")
    assert {row[:5] for row in table.rows[2:]} == {(None,) * 5}


def test_instructions_are_those_of_the_file() -> None:
    table = annotate(samples(load(), program=HELLO), "main", disassemble)
    done = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-d", "--disassemble=main", str(HELLO.path)],
        capture_output=True,
        text=True,
        check=False,
    ) if _has_objdump() else pytest.skip("there is no objdump for AArch64")  # fmt: skip
    theirs = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("    4")]
    ours = [(row[-3], row[-2].split()[0]) for row in table.rows]
    assert ours == [(parts[0].strip().rstrip(":"), parts[2].strip()) for parts in theirs]
    assert table.note == "no sample is in this function"


def _has_objdump():
    from shutil import which

    return which("aarch64-linux-gnu-objdump") is not None


def test_source_lines_stand_at_their_first_instruction() -> None:
    table = annotate(samples(load(), program=HELLO), "main", disassemble)
    sources = [row[-1] for row in table.rows if row[-1] is not None]
    text = (shipped_firmware("hello").parents[1] / "hello.c").read_text().splitlines()
    for source in sources:
        number, _, line = source.removeprefix("hello.c:").partition("  ")
        assert line == text[int(number) - 1].strip()
    assert any("print(" in source for source in sources)


def test_lines_agree_with_addr2line() -> None:
    from shutil import which

    if which("aarch64-linux-gnu-addr2line") is None:
        pytest.skip("there is no addr2line for AArch64")
    lines = read_lines(HELLO)
    addresses = range(MAIN.address, MAIN.address + MAIN.size, 4)
    done = subprocess.run(
        ["aarch64-linux-gnu-addr2line", "-e", str(HELLO.path), *map(hex, addresses)],
        capture_output=True,
        text=True,
        check=True,
    )
    # addr2line has the compiler's folder twice where a prefix map makes it a relative one
    theirs = [
        line.split(" ")[0].replace("firmware/firmware/", "firmware/")
        for line in done.stdout.splitlines()
    ]
    assert [f"{lines.at(a).path}:{lines.at(a).number}" for a in addresses] == theirs


def test_a_symbol_that_there_is_not_is_refused_with_names_that_are_near() -> None:
    with pytest.raises(NoSuchSymbolError, match=r"no symbol mai in .*hello\.elf; near are main"):
        annotate(samples(load(), program=HELLO), "mai", disassemble)
    with pytest.raises(NoSuchSymbolError, match=r"does not name its ELF file: give it by --symb"):
        annotate(samples(load(), program=None), "main", disassemble)


def test_a_program_far_from_its_sources_says_what_to_name(tmp_path: Path) -> None:
    file = tmp_path / "build" / "hello.elf"
    file.parent.mkdir()
    file.write_bytes(HELLO.path.read_bytes())
    moved = read_elf(file)
    table = annotate(samples(load(MAIN.address), program=moved), "main", disassemble)
    lines = [row[-1] for row in table.rows if row[-1] is not None]
    assert lines
    assert not any(" " in line for line in lines)
    assert table.note == (
        f"no source of hello.c: it is not in {file.parent};"
        " name its folder by --source DIR (the compiler had it in firmware)"
    )
    found = samples(load(MAIN.address), program=moved)
    table = annotate(found, "main", disassemble, [HELLO.path.parents[1]])
    assert table.note is None
    assert any("print(" in row[-1] for row in table.rows if row[-1] is not None)


@pytest.mark.parametrize("path", ["/dev/zero", "../../secret/x.c", "{0}/secret/x.c", "x.c"])
def test_no_file_that_dwarf_names_is_read_outside_the_programs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.c").write_text("the secret\n" * 100)
    file = tmp_path / "in" / "build" / "hello.elf"
    file.parent.mkdir(parents=True)
    file.write_bytes(HELLO.path.read_bytes())
    os.mkfifo(file.parent / "x.c")
    monkeypatch.chdir(tmp_path)
    line = Line(path.format(tmp_path), 1)
    monkeypatch.setattr(report_lines, "read_lines", lambda _: LineTable([(MAIN.address, line)]))
    table = annotate(samples(load(MAIN.address), program=read_elf(file)), "main", disassemble)
    assert table.rows[0][-1] == line.short
    assert table.note.startswith(f"no source of {line.short[:-2]}: ")


@pytest.mark.parametrize(
    ("address", "size"),
    [
        (0x1000, 0x30),  # up to the next symbol
        (0x1030, 0x7D0),  # up to the end of its segment
        (0x1800, 0),  # in no segment, nothing after it
    ],
)
def test_a_symbol_without_a_size_goes_up_to_the_next_one_or_the_end_of_its_segment(address, size):
    segment = Piece(0x1000, 0x1000, 0, 0x800, 0x800)
    symbols = [Symbol(at, f"at {at:x}") for at in (0x1000, 0x1030, 0x1800)]
    file = ElfFile(Path("a.elf"), (segment,), SymbolTable(symbols), False, 1)
    (symbol,) = [symbol for symbol in symbols if symbol.address == address]
    assert annotation._up_to_next(file, symbol) == size
