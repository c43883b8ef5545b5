"""Whose memory an address is in, and which file names it: recordings of two processes, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.arrays import read_arrays
from spe_unicorn.output.reader import RecordFile
from spe_unicorn.output.tasks import KERNEL, Act, Clock, Mapping, TaskEvent
from spe_unicorn.report.places import Files, default_address
from spe_unicorn.report.spaces import Spaces, function_or_nothing, symbol_or_nothing
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.elf import ElfFile, Piece, read_elf
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.table import SymbolTable
from tests.report.recordings import stream_of
from tests.support.samples import load

HELLO = str(shipped_firmware("hello"))
HERE = 0x500000
"""Where both processes have their program."""
KERNEL_TEXT = 0x900000


def mapped(process: int, path: str, time: int = 0, address: int = HERE) -> TaskEvent:
    return TaskEvent(Act.MAP, process, process, time, mapping=Mapping(path, address, 4, 0))


HOT_AND_COOL = [
    mapped(KERNEL, "[kernel.kallsyms]_text", address=KERNEL_TEXT),
    mapped(88, "/x/hot"),
    mapped(89, "/x/cool"),
]


def listed(folder: Path, name: str, address: int = 0x400000) -> SymbolChoice:
    """A file with one function of 4 bytes, called as the file is."""
    path = folder / name
    path.write_text(f"{address:016x} T {name}_function\n")
    return SymbolChoice(str(path))


def spaces(
    acts: list[TaskEvent], records: list[Any], *choices: SymbolChoice, clock: Clock | None = None
) -> Spaces:
    clocks = [Clock(0, 1, 0), clock] if clock else []  # the last is in force
    file = RecordFile("a.data", "perf", [stream_of(records, 0)], acts=acts, clocks=clocks)
    arrays, _ = read_arrays(file.streams)
    return Spaces(file, choices, lambda: arrays)


def of_thread(thread: int, **more: Any) -> Any:
    return load(HERE, el=0, context_el1=thread, **more)


def asked(found: Spaces, *addresses: int) -> list[str]:
    return found.names(np.array(addresses, np.uint64), symbol_or_nothing).tolist()


def test_one_address_has_the_name_of_each_process_s_own_file(tmp_path: Path) -> None:
    choices = [listed(tmp_path, "hot"), listed(tmp_path, "cool")]
    records = [of_thread(thread) for thread in (89, 88, 77, 88)]
    found = spaces(HOT_AND_COOL, records, *choices)
    assert asked(found, *[HERE] * 4) == ["cool_function", "hot_function", "", "hot_function"]
    assert {file.path.name for file in found.files} == {"hot", "cool"}


def test_a_file_that_cannot_be_read_still_has_a_name() -> None:
    records = [of_thread(thread) for thread in (88, 89, 77, 77)]
    found = spaces(HOT_AND_COOL, records)
    addresses = np.array([HERE, HERE + 3, HERE, KERNEL_TEXT], np.uint64)
    assert found.objects(addresses).tolist() == ["hot", "cool", "", "[kernel.kallsyms]"]
    assert found.objects(addresses + np.uint64(4)).tolist() == ["", "", "", ""]
    assert not found


def test_of_one_process_alone_each_sample_is_in_its_memory(tmp_path: Path) -> None:
    """Also one of a thread that nobody told of: there is no other memory."""
    found = spaces(HOT_AND_COOL[:2], [of_thread(77), of_thread(88)], listed(tmp_path, "hot"))
    assert asked(found, HERE, HERE) == ["hot_function", "hot_function"]
    assert found.objects(np.array([HERE, KERNEL_TEXT], np.uint64)).tolist() == [
        "hot",
        "[kernel.kallsyms]",
    ]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("[kernel.kallsyms]_text", "[kernel.kallsyms]"),
        ("[vdso]", "[vdso]"),
        ("[heap", "[heap"),
        ("a]b", "a]b"),
        ("/x/b", "b"),
    ],
)
def test_what_is_no_file_is_named_by_its_brackets(path: str, name: str) -> None:
    found = spaces([mapped(88, path)], [of_thread(88)])
    assert found.objects(np.array([HERE], np.uint64)).tolist() == [name]


@pytest.mark.parametrize(
    ("clock", "last_of_hot"),
    [(None, 99), (Clock(shift=0, multiplier=2, zero=9), 45), (Clock(2, 4, 90), 9)],
)
def test_a_sample_is_in_the_memory_of_its_time(
    tmp_path: Path, clock: Clock | None, last_of_hot: int
) -> None:
    """At 100 ns process 88 executes another program; a sample without a time comes after all.

    45 ticks are 9 + 2 * 45 = 99 ns, with the other clock 9 are 90 + 4 * 9 / 4.
    """
    acts = [
        *HOT_AND_COOL[:2],
        TaskEvent(Act.EXECUTE, 88, 88, 100, "cool"),
        mapped(88, "/x/cool", 100),
    ]
    times = (last_of_hot, last_of_hot + 1, 0, None)
    records = [of_thread(88, timestamp=time) for time in times]
    choices = [listed(tmp_path, "hot"), listed(tmp_path, "cool")]
    found = spaces(acts, records, *choices, clock=clock)
    first, second = "hot_function", "cool_function"
    assert asked(found, *[HERE] * 4) == [first, second, first, second]


def test_what_is_asked_of_other_addresses_or_otherwise_is_answered_anew() -> None:
    main = next(symbol for symbol in read_elf(Path(HELLO)).symbols if symbol.name == "main")
    found = spaces([], [load(), load()], SymbolChoice(HELLO))
    some = np.array([main.address + 4, 0x10], np.uint64)
    assert found.names(some, symbol_or_nothing).tolist() == ["main+0x4", ""]
    assert found.names(some, function_or_nothing).tolist() == ["main", ""]
    others = np.array([0x10, main.address], np.uint64)
    assert found.names(others, function_or_nothing).tolist() == ["", "main"]


def names_of(acts: list[TaskEvent], *choices: SymbolChoice) -> Places:
    file = RecordFile("a.data", "perf", acts=acts)
    return Files(file, choices).places(file.mappings)


def test_a_chosen_file_goes_where_the_recording_has_its_name(tmp_path: Path) -> None:
    choice = listed(tmp_path, "hot")
    places = names_of(HOT_AND_COOL, choice)
    assert places.symbolize(HERE) == "hot_function"
    assert places.symbolize(0x400000) is None  # where it is linked
    places = names_of(HOT_AND_COOL, replace(choice, address=0x700000))
    assert places.symbolize(HERE) is None
    assert places.symbolize(0x700000) == "hot_function"
    assert names_of(HOT_AND_COOL[2:], choice).symbolize(0x400000) == "hot_function"


def named(path: str, address: int) -> TaskEvent:
    (piece, *_) = read_elf(Path(HELLO)).pieces
    mapping = Mapping(path, address, piece.size, piece.offset)
    return TaskEvent(Act.MAP, 88, 88, mapping=mapping)


def test_files_that_the_recording_names_are_read_if_none_is_chosen(tmp_path: Path) -> None:
    """A path with detours is the same file; one that is away names nothing."""
    folder, _, name = HELLO.rpartition("/")
    detour = f"{folder}/../{Path(folder).name}/./{name}"
    acts = [named(HELLO, 0x1000000), named(detour, 0x2000000), named("/x/away", 0x3000000)]
    places = names_of(acts)
    assert [str(file.path) for file in places.files] == [HELLO]
    for address, there in ((0x1000000, True), (0x2000000, True), (0x3000000, False)):
        assert (places.at(address) is not None) == there
    chosen = names_of(acts, listed(tmp_path, "hot"))
    assert [file.path.name for file in chosen.files] == ["hot"]
    assert chosen.at(0x1000000) is None


@pytest.mark.parametrize(
    ("is_pie", "loaded_at", "address"),
    [
        (False, [0x1000], None),  # where it is linked, whatever is there
        (True, [0x4000_0000, 0x3F_FFFF_FFFF], None),  # the first and the last byte of RAM
        (True, [0x4000_0000, 0x1000], 0x4020_1000),
        (True, [0x4000_0000, 0x40_0000_0000], 0x4020_1000),
        (True, [0x3FFF_FFFF], 0x4020_1000),
        (True, [0x1000], 0x4020_1000),
    ],
)
def test_a_file_that_can_be_moved_goes_2_mib_into_ram(
    is_pie: bool, loaded_at: list[int], address: int | None
) -> None:
    """Linked at 0x1000 and aligned to 64 KiB, it moves by a multiple of that."""
    pieces = tuple(Piece(0x1000, paddr, 0, 0x10, 0x10) for paddr in loaded_at)
    elf = ElfFile(Path("a.elf"), pieces, SymbolTable(), is_pie, 0x1_0000)
    assert default_address(elf) == address
