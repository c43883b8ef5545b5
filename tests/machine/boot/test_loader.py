from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, LoadError
from spe_unicorn.machine.boot.loader import PIE_OFFSET, load_elf
from tests.support.elf_builder import (
    EM_X86_64,
    ET_CORE,
    ET_DYN,
    ET_REL,
    PT_DYNAMIC,
    PT_INTERP,
    RAM,
    SHN_ABS,
    SHN_UNDEF,
    STT_FILE,
    STT_NOTYPE,
    STT_OBJECT,
    Elf,
    Load,
    Sym,
)

RAM_SIZE = 0x0800_0000
NOP = b"\x1f\x20\x03\xd5"


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Any]:
    def load(contents: Elf | bytes) -> Image:
        file = tmp_path / "fw.elf"
        file.write_bytes(contents if isinstance(contents, bytes) else contents.build())
        return load_elf(file, RAM, RAM_SIZE)

    return load


@pytest.fixture
def refused(load: Callable[..., Any]) -> Callable[..., Any]:
    """The message with which a file is refused, without its name; one line."""

    def refused(contents: Elf | bytes) -> str:
        with pytest.raises(LoadError) as caught:
            load(contents)
        message = str(caught.value)
        assert "\n" not in message
        name, _, rest = message.partition("fw.elf: ")
        assert name.endswith(os.sep)
        return rest

    return refused


def test_segments_keep_address_contents_size_and_flags(load: Callable[..., Any]) -> None:
    image = load(Elf([Load(RAM, NOP, memsz=0x100), Load(RAM + 0x1000, b"data", flags=6)]))
    code, data = image.segments
    assert (code.address, code.vaddr, code.data, code.size) == (RAM, RAM, NOP, 0x100)
    assert code.flags == READ | EXECUTE
    assert (data.address, data.data, data.size) == (RAM + 0x1000, b"data", 4)
    assert data.flags == READ | WRITE
    assert code.offset == 64 + 2 * 56
    assert not image.is_pie


def test_physical_addresses_come_from_the_program_headers_and_the_entry_is_translated(
    load: Callable[..., Any],
) -> None:
    high = 0xFFFF_0000_0000_0000
    image = load(Elf([Load(high, NOP * 8, paddr=RAM + 0x8_0000)], entry=high + 8))
    assert image.segments[0].address == RAM + 0x8_0000
    assert image.entry == RAM + 0x8_0008


def test_an_entry_that_is_physical_already_stays(load: Callable[..., Any]) -> None:
    high = 0xFFFF_0000_0000_0000
    image = load(Elf([Load(high, NOP * 8, paddr=RAM)], entry=RAM + 4))
    assert image.entry == RAM + 4


def test_a_segment_may_end_exactly_where_ram_ends(load: Callable[..., Any]) -> None:
    image = load(Elf([Load(), Load(RAM + RAM_SIZE - 16, b"x", memsz=16)]))
    assert image.segments[1].end == RAM + RAM_SIZE


def test_empty_load_segments_are_left_out(load: Callable[..., Any]) -> None:
    image = load(Elf([Load(), Load(0, b"", memsz=0)]))
    assert len(image.segments) == 1


def test_a_segment_of_zeros_may_have_an_offset_behind_the_end_of_the_file(
    load: Callable[..., Any],
) -> None:
    elf = bytearray(Elf([Load(), Load(RAM + 0x1000, b"", memsz=0x1000)]).build())
    elf[64 + 56 + 8 : 64 + 56 + 16] = struct.pack("<Q", 0x9000)  # p_offset of the second segment
    zeros = load(bytes(elf)).segments[1]
    assert (zeros.address, zeros.data, zeros.size) == (RAM + 0x1000, b"", 0x1000)


def test_addresses_are_symbolized_within_their_function_only(load: Callable[..., Any]) -> None:
    image = load(
        Elf(
            [Load(RAM, NOP * 64)],
            symbols=[Sym("main", RAM + 0x20, 0x10), Sym("_start", RAM, 0, STT_NOTYPE)],
        )
    )
    assert image.symbolize(RAM) == "_start"
    assert image.symbolize(RAM + 0x1C) == "_start+0x1c"
    assert image.symbolize(RAM + 0x20) == "main"
    assert image.symbolize(RAM + 0x2F) == "main+0xf"
    assert image.symbolize(RAM + 0x30) is None
    assert image.symbolize(RAM - 1) is None
    assert image.symbolize(RAM + 0x100) is None


def test_physical_addresses_are_symbolized_too(load: Callable[..., Any]) -> None:
    high = 0xFFFF_0000_0000_0000
    image = load(
        Elf([Load(high, NOP * 8, paddr=RAM)], entry=high, symbols=[Sym("boot", high, 0x20)])
    )
    assert image.symbolize(high + 4) == "boot+0x4"
    assert image.symbolize(RAM + 4) == "boot+0x4"


def test_functions_win_over_labels_and_objects_at_one_address(load: Callable[..., Any]) -> None:
    image = load(
        Elf(
            symbols=[
                Sym("__text_start", RAM, 0, STT_NOTYPE),
                Sym("reset", RAM, 8),
                Sym("blob", RAM, 16, STT_OBJECT),
            ]
        )
    )
    assert image.symbolize(RAM) == "reset"


def test_symbols_that_name_no_place_are_left_out(load: Callable[..., Any]) -> None:
    image = load(
        Elf(
            symbols=[
                Sym("$x", RAM, 0, STT_NOTYPE),
                Sym("start.S", 0, 0, STT_FILE, SHN_ABS),
                Sym("elsewhere", RAM, 4, section=SHN_UNDEF),
                Sym("__stack_size", 0x4000, 0, STT_NOTYPE, SHN_ABS),
            ]
        )
    )
    assert len(image.symbols) == 0


def test_undecodable_symbol_names_are_kept_readable(load: Callable[..., Any]) -> None:
    data = Elf(symbols=[Sym("caf", RAM, 16)]).build().replace(b"caf\0", b"ca\xe9\0")
    assert load(data).symbolize(RAM) == "ca�"


def test_a_file_without_section_headers_loads_without_symbols(load: Callable[..., Any]) -> None:
    assert len(load(Elf()).symbols) == 0


# Position-independent executables.

DT_RELA, DT_RELASZ, DT_RELR, DT_RELRSZ, DT_NEEDED = 7, 8, 36, 35, 1


def dynamic(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<qQ", *entry) for entry in (*entries, (0, 0)))


def pie(contents: bytes, table: bytes, **more: object) -> Elf:
    """A PIE of one segment at 0 and its dynamic section in a second header."""
    return Elf(
        [Load(0, contents, align=0x1_0000), Load(0x8000, table, kind=PT_DYNAMIC)],
        entry=0,
        kind=ET_DYN,
        **more,
    )


def words(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}Q", data)


def test_a_pie_moves_above_the_start_of_ram_with_its_symbols(load: Callable[..., Any]) -> None:
    image = load(pie(NOP * 8, dynamic(), symbols=[Sym("main", 8, 8)]))
    base = RAM + PIE_OFFSET
    assert image.is_pie
    assert image.bias == base
    assert (image.segments[0].address, image.segments[0].vaddr) == (base, base)
    assert image.entry == base
    assert image.symbolize(base + 0xC) == "main+0x4"


def test_a_pie_linked_inside_ram_stays_there(load: Callable[..., Any]) -> None:
    image = load(Elf(kind=ET_DYN))
    assert (image.bias, image.entry) == (0, RAM)


def test_the_alignment_of_a_pie_is_kept(load: Callable[..., Any]) -> None:
    elf = pie(NOP * 8, dynamic())
    elf.loads[0].align = 0x40_0000
    assert load(elf).segments[0].address == RAM + 0x40_0000


def test_relative_relocations_store_addend_plus_bias(load: Callable[..., Any]) -> None:
    rela = struct.pack("<QQq", 0x40, 1027, 0x18) + struct.pack("<QQq", 0x48, 1027, -8)
    contents = bytes(0x40) + struct.pack("<QQ", 0xDEAD, 0xBEEF) + rela
    image = load(pie(contents, dynamic((DT_RELA, 0x50), (DT_RELASZ, len(rela)))))
    bias = RAM + PIE_OFFSET
    assert words(image.segments[0].data[0x40:0x50]) == (bias + 0x18, bias - 8)


def test_relr_relocations_add_the_bias_in_place(load: Callable[..., Any]) -> None:
    # An address entry (0x40), then a bit map whose bits 1 and 3 mean 0x48 and 0x58.
    relr = struct.pack("<QQ", 0x40, 0b1011)
    contents = bytes(0x40) + struct.pack("<QQQQ", 1, 2, 3, 4) + relr
    image = load(pie(contents, dynamic((DT_RELR, 0x60), (DT_RELRSZ, 16))))
    bias = RAM + PIE_OFFSET
    assert words(image.segments[0].data[0x40:0x60]) == (bias + 1, bias + 2, 3, bias + 4)


def test_relr_bit_maps_continue_63_words_further_on(load: Callable[..., Any]) -> None:
    # Two maps in a row: the second one's first bit is word 1 + 63 after the address entry.
    relr = struct.pack("<QQQ", 0x0, 0b01, 0b11)
    contents = bytes(8 * 80) + relr
    image = load(pie(contents, dynamic((DT_RELR, 640), (DT_RELRSZ, 24))))
    changed = [i for i, word in enumerate(words(image.segments[0].data[:640])) if word]
    assert changed == [0, 64]


@pytest.mark.parametrize(
    ("kind", "message"),
    [(1032, "calls a resolver"), (257, "of type 257 needs a dynamic linker")],
)
def test_relocations_that_need_code_or_a_linker_are_refused(
    refused: Callable[..., Any], kind: int, message: str
) -> None:
    rela = struct.pack("<QQq", 0, kind, 0)
    elf = pie(bytes(0x20) + rela, dynamic((DT_RELA, 0x20), (DT_RELASZ, 24)))
    assert message in refused(elf)


@pytest.mark.parametrize("where", [0x7FFF_0000, 0x31, (1 << 64) - 4])
def test_relocations_outside_the_image_are_refused(refused: Callable[..., Any], where: int) -> None:
    rela = struct.pack("<QQq", where, 1027, 0)
    elf = pie(bytes(0x20) + rela, dynamic((DT_RELA, 0x20), (DT_RELASZ, 24)))
    assert "lies in no segment" in refused(elf)


def test_a_relocation_table_outside_the_image_is_refused(refused: Callable[..., Any]) -> None:
    elf = pie(NOP, dynamic((DT_RELA, 0x1000), (DT_RELASZ, 1 << 60)))
    assert "relocation data at 0x1000 lies in no segment" in refused(elf)


# What is refused, and how it is said.


def test_an_empty_file_is_refused(refused: Callable[..., Any]) -> None:
    assert refused(b"") == "is empty"


def test_what_is_no_elf_file_is_refused_with_its_first_bytes(refused: Callable[..., Any]) -> None:
    assert refused(b"#!/bin/sh\n") == "is not an ELF file (it starts with 23 21 2f 62)"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is a directory"):
        load_elf(tmp_path, RAM, RAM_SIZE)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="No such file or directory"):
        load_elf(tmp_path / "missing", RAM, RAM_SIZE)


def test_a_file_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # Who runs the tests may be allowed to read everything.
    monkeypatch.setattr(Path, "open", refuse)
    file = tmp_path / "secret.elf"
    file.touch()
    with pytest.raises(LoadError, match=r"secret\.elf: Permission denied"):
        load_elf(file, RAM, RAM_SIZE)


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(LoadError, match="is not a regular file"):
        load_elf(fifo, RAM, RAM_SIZE)


def test_a_name_with_a_nul_is_refused() -> None:
    with pytest.raises(LoadError, match="is not a file name"):
        load_elf("fw\0.elf", RAM, RAM_SIZE)


def test_a_name_with_a_line_end_still_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as caught:
        load_elf(tmp_path / "two\nlines", RAM, RAM_SIZE)
    assert "\n" not in str(caught.value)


def test_another_machine_is_refused_by_name(refused: Callable[..., Any]) -> None:
    assert refused(Elf(machine=EM_X86_64)) == "is for X86_64, not for AArch64"


def test_an_unknown_machine_is_refused_by_number(refused: Callable[..., Any]) -> None:
    assert refused(Elf(machine=0xFEFE)) == "is for the unknown machine 65278, not for AArch64"


def test_32_bit_files_are_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf(elf_class=1)).startswith("is a 32-bit ELF file")


def test_big_endian_files_are_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf(byte_order=2)).startswith("is big-endian")


def test_object_files_are_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf(kind=ET_REL)) == "is a relocatable object file; link it first"


def test_core_dumps_are_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf(kind=ET_CORE)) == "is not an executable (ET_CORE)"


def test_a_file_without_load_segments_is_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf([])).startswith("has no load segment")


def test_dynamic_executables_are_refused(refused: Callable[..., Any]) -> None:
    interpreter = Load(0, b"/lib/ld.so\0", kind=PT_INTERP)
    assert refused(Elf([Load(), interpreter])).startswith("needs a dynamic linker")


def test_shared_libraries_are_refused(refused: Callable[..., Any]) -> None:
    assert refused(pie(NOP, dynamic((DT_NEEDED, 1)))).startswith("needs shared libraries")


def test_a_header_cut_short_is_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf().build()[:40]).startswith("is truncated: an ELF header has 64 bytes")


def test_contents_cut_short_are_refused(refused: Callable[..., Any]) -> None:
    data = Elf().build()
    assert refused(data[:-1]) == (
        f"is truncated: its segment 0 ends at byte {len(data):#x}, the file at {len(data) - 1:#x}"
    )


def test_section_headers_cut_short_are_refused(refused: Callable[..., Any]) -> None:
    data = Elf(symbols=[Sym("main", RAM)]).build()
    assert refused(data[:-1]).startswith("is truncated: its section headers end at")


def test_overlapping_segments_are_refused(refused: Callable[..., Any]) -> None:
    elf = Elf([Load(RAM, NOP, memsz=0x1001), Load(RAM + 0x1000)])
    assert refused(elf) == (
        "segments 0x40000000 to 0x40001000 and 0x40001000 to 0x4000100f overlap"
    )


def test_segments_outside_ram_are_refused_with_the_place_of_ram(
    refused: Callable[..., Any],
) -> None:
    message = refused(Elf([Load(0x8_0000)], entry=0x8_0000))
    assert "segment 0x80000 to 0x8000f lies outside RAM, 0x40000000 to 0x47ffffff" in message
    assert "-Ttext-segment=0x40000000" in message


def test_segments_that_leave_ram_are_refused_with_its_size(refused: Callable[..., Any]) -> None:
    message = refused(Elf([Load(RAM, NOP, memsz=RAM_SIZE + 1)]))
    assert "does not fit into RAM, 0x40000000 to 0x47ffffff" in message


def test_absurd_sizes_are_refused_without_allocating(refused: Callable[..., Any]) -> None:
    assert "does not fit" in refused(Elf([Load(RAM, NOP, memsz=1 << 63)]))


def test_a_segment_longer_in_the_file_than_in_memory_is_refused(
    refused: Callable[..., Any],
) -> None:
    assert refused(Elf([Load(RAM, NOP, memsz=2)])) == (
        "segment 0 is longer in the file than in memory"
    )


def test_an_entry_outside_all_segments_is_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf(entry=0)).startswith("its entry point 0x0 lies in no segment")


def test_a_misaligned_entry_is_refused(refused: Callable[..., Any]) -> None:
    assert refused(Elf(entry=RAM + 2)) == ("its entry point 0x40000002 is not a multiple of 4")
