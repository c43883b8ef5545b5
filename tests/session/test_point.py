from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.session.point import (
    AtAddress,
    AtOperation,
    AtOutput,
    AtSymbol,
    PointError,
    parse_point,
    resolve,
)
from spe_unicorn.symbols.table import Symbol, SymbolTable

SYMBOLS = SymbolTable(
    [
        Symbol(0x4000_0000, "_start", 0x40, True),
        Symbol(0x4000_0040, "main", 0x100, True),
        Symbol(0x4000_0140, "memcpy", 0x40, True),
        Symbol(0x4000_0140, "__memcpy_generic"),
        Symbol(0x4000_0180, "init", 0x10, True),
        Symbol(0x4000_01C0, "init", 0x10, True),
        Symbol(0x4000_0202, "odd"),
    ]
)


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("0", AtOperation(0)),
        ("250000", AtOperation(250_000)),
        ("0x40000100", AtAddress(0x4000_0100)),
        ("0XFFFF800080000000", AtAddress(0xFFFF_8000_8000_0000)),
        ("main", AtSymbol("main")),
        ("main+0x10", AtSymbol("main", 0x10)),
        ("_ZN4core3ptr13drop_in_place17h0123E.llvm.42", AtSymbol(
            "_ZN4core3ptr13drop_in_place17h0123E.llvm.42")),
        ("$x", AtSymbol("$x")),
        ("console:login: ", AtOutput("login: ")),
        ("console:console:1", AtOutput("console:1")),
    ],
)  # fmt: skip
def test_a_point_is_an_operation_an_address_a_symbol_or_output(text: str, point: Any) -> None:
    assert parse_point(text) == point
    assert parse_point(str(point)) == point


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no POINT: write a number of operations, 0x and an address, SYMBOL,"
             " SYMBOL+0xOFFSET or console:TEXT"),
        ("-5", "'-5' is no POINT"),
        ("12ab", "'12ab' is no POINT"),
        ("1_000", "'1_000' is no POINT"),
        ("main+16", "'main+16' is no POINT"),
        ("main+0x", "'main+0x' is no POINT"),
        ("+0x10", "'+0x10' is no POINT"),
        ("a b", "'a b' is no POINT"),
        ("consol:x", "'consol:x' is no POINT"),
        ("console:", "'console:': the text to wait for is missing after the colon"),
        ("0x", "'0x' is no address: write 0x and hexadecimal digits"),
        ("0xmain", "'0xmain' is no address: write 0x and hexadecimal digits"),
        ("0x10000000000000000", "'0x10000000000000000' is no address: it has more than 64 bits"),
        ("0x40000002", "'0x40000002': no instruction is there, its address is a multiple of 4"),
    ],
)  # fmt: skip
def test_what_is_no_point_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(PointError) as error:
        parse_point(text)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


def test_a_symbol_is_resolved_by_the_image_that_runs() -> None:
    assert resolve(parse_point("main+0x10"), SYMBOLS, "fw.elf") == AtAddress(
        0x4000_0050, "main+0x10"
    )


def test_every_name_of_an_address_finds_it() -> None:
    for name in ("memcpy", "__memcpy_generic"):
        assert resolve(AtSymbol(name), SYMBOLS, "fw.elf") == AtAddress(0x4000_0140, name)


def test_what_is_no_symbol_needs_none() -> None:
    for point in (AtOperation(7), AtAddress(0x40), AtOutput("x")):
        assert resolve(point, SymbolTable(), "fw.elf") == point


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mian", "fw.elf has no symbol 'mian': did you mean 'main'?"),
        ("nothing_like_it", "fw.elf has no symbol 'nothing_like_it'"),
        ("init", "'init' names 2 places of fw.elf: write 0x40000180, 0x400001c0"),
        ("main+0x2", "main+0x2: no instruction is at 0x40000042, it is no multiple of 4"),
        ("odd", "odd: no instruction is at 0x40000202, it is no multiple of 4"),
    ],
)
def test_a_symbol_that_is_no_place_is_refused(text: str, said: str) -> None:
    with pytest.raises(PointError) as error:
        resolve(parse_point(text), SYMBOLS, "fw.elf")
    assert str(error.value) == said


def test_an_image_without_symbols_says_so() -> None:
    with pytest.raises(PointError, match=r"fw\.bin has no symbol 'main': it has no symbols, so wr"):
        resolve(AtSymbol("main"), SymbolTable(), "fw.bin")
