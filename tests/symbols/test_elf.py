from __future__ import annotations

import os
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.symbols.elf import ElfError, build_id, read_elf
from tests.support.elf_builder import EM_X86_64, ET_DYN, RAM, Elf, Load, Sym


def written(tmp_path: Path, data: bytes) -> Path:
    file = tmp_path / "program.elf"
    file.write_bytes(data)
    return file


def test_segments_and_symbols_are_read_with_the_addresses_of_the_link(tmp_path: Path) -> None:
    elf = Elf([Load(RAM, b"x" * 64, memsz=128)], symbols=[Sym("main", RAM + 16, 8)])
    file = read_elf(written(tmp_path, elf.build()))
    (piece,) = file.pieces
    assert (piece.vaddr, piece.paddr, piece.file_size, piece.size) == (RAM, RAM, 64, 128)
    assert [(s.name, s.address, s.size) for s in file.symbols] == [("main", RAM + 16, 8)]
    assert (file.lowest, file.is_pie) == (RAM, False)


def test_a_position_independent_file_says_so(tmp_path: Path) -> None:
    file = read_elf(written(tmp_path, Elf([Load(0)], 0, ET_DYN).build()))
    assert (file.lowest, file.is_pie) == (0, True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an ELF file"),
        (b"text file", "is not an ELF file (it starts with 74 65 78 74)"),
        (Elf(machine=EM_X86_64).build(), "is for X86_64, not for AArch64"),
        (Elf([]).build(), "has no load segment"),
        (b"\x7fELF", "is a damaged ELF file"),
    ],
)
def test_what_is_no_elf_file_of_ours_is_refused_by_name(
    tmp_path: Path, data: bytes, message: str
) -> None:
    file = written(tmp_path, data)
    with pytest.raises(ElfError) as caught:
        read_elf(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match="none: No such file or directory"):
        read_elf(tmp_path / "none")


def test_every_cut_of_a_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    whole = shipped_firmware("hello").read_bytes()
    file = tmp_path / "cut.elf"
    for size in range(0, len(whole), 97):
        file.write_bytes(whole[:size])
        assert outcome(file) in ("read", "refused in one line")


def outcome(file: Path) -> str:
    try:
        found = read_elf(file)
    except ElfError as error:
        return "refused in more lines" if "\n" in str(error) else "refused in one line"
    return "read" if found.pieces else "empty"


def test_a_file_that_is_larger_than_any_program_is_not_read(tmp_path: Path) -> None:
    """Such as a guest can make with a hole: this one would take 1 TiB."""
    path = tmp_path / "huge"
    path.write_bytes(Elf([Load()]).build())
    os.truncate(path, 1 << 40)
    with pytest.raises(ElfError, match="is too large: at most 2048 MiB are read"):
        read_elf(path)
    assert build_id(path) == b""


def test_a_file_without_a_size_is_not_read() -> None:
    """As those of /proc: to read /proc/kmsg waits for the kernel's next message."""
    with pytest.raises(ElfError, match="it is empty"):
        read_elf(Path("/proc/version"))


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero")):
        with pytest.raises(ElfError, match="is no regular file"):
            read_elf(path)
