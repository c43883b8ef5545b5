from pathlib import Path

from spe_unicorn.symbols.elf import ElfFile, Piece
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.table import Symbol, SymbolTable


def elf(name, *pieces, symbols=(), pie=False):
    table = SymbolTable(Symbol(address, name, size, True) for name, address, size in symbols)
    return ElfFile(Path(name), pieces, table, pie, 0x1000)


PROGRAM = elf(
    "program",
    Piece(0x1000, 0x1000, 0x100, 0x80, 0x100),
    symbols=[("first", 0x1000, 0x40), ("second", 0x1040, 0x20)],
)


def test_addresses_of_a_file_are_named_where_it_was_linked():
    places = Places()
    places.add_file(PROGRAM)
    assert places.symbolize(0x1000) == "first"
    assert places.symbolize(0x1044) == "second+0x4"
    assert places.symbolize(0x1060) is None  # behind the end of second
    assert places.at(0x1060).file is PROGRAM
    assert places.at(0x0FFF) is None
    assert places.at(0x1100) is None


def test_a_file_that_was_moved_is_named_where_it_is():
    places = Places()
    places.add_file(PROGRAM, 0x4000_0000)
    assert places.symbolize(0x4000_0041) == "second+0x1"
    assert places.at(0x4000_0041).linked == 0x1041
    assert places.at(0x1000) is None


def test_load_addresses_are_named_too():
    kernel = elf("k", Piece(0xFFFF_0000, 0x8000, 0, 64, 64), symbols=[("boot", 0xFFFF_0010, 8)])
    places = Places()
    places.add_file(kernel)
    assert places.symbolize(0xFFFF_0014) == places.symbolize(0x8014) == "boot+0x4"


def test_what_was_added_first_wins_where_files_overlap():
    other = elf("other", Piece(0x0F80, 0x0F80, 0, 0x400, 0x400), symbols=[("around", 0xF80, 0x400)])
    places = Places()
    places.add_file(PROGRAM)
    places.add_file(other)
    names = [places.symbolize(address) for address in (0xF80, 0xFFF, 0x1000, 0x10FF, 0x1100)]
    assert names == ["around", "around+0x7f", "first", None, "around+0x180"]
    assert places.files == [PROGRAM, other]


def test_a_mapping_names_what_the_file_has_at_its_offset():
    places = Places()
    assert places.add_mapping(PROGRAM, 0xAAAA_0000, 0x1000, 0)  # from the page before on
    assert places.symbolize(0xAAAA_0000 + 0x100 + 0x44) == "second+0x4"
    assert not places.add_mapping(PROGRAM, 0xBBBB_0000, 0x1000, 0x5000)
    assert places.at(0xBBBB_0000) is None


def test_a_segment_without_bytes_in_the_file_is_found_by_its_size():
    program = elf(
        "program",
        Piece(0x1000, 0x1000, 0x100, 0x80, 0x80),
        Piece(0x8000, 0x8000, 0x180, 0, 0x4000),
        symbols=[("code", 0x1000, 0x80), ("zeros", 0x8000, 0x4000)],
    )
    places = Places()
    assert places.add_mapping(program, 0x8000, 0x4000, 0x180)
    assert places.add_mapping(program, 0x1000, 0x80, 0x100)
    assert [places.symbolize(a) for a in (0x8010, 0x1004)] == ["zeros+0x10", "code+0x4"]


def test_no_files_name_nothing():
    assert not Places()
    assert Places().symbolize(0) is None
