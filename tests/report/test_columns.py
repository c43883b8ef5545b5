"""Columns by name, with the places of a program, by hand: ``recordings.PROGRAM``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spe_unicorn.output.arrays import read_arrays
from spe_unicorn.report.columns import named_columns
from spe_unicorn.spe.packets import DataAddress
from spe_unicorn.spe.record import Record
from spe_unicorn.symbols.places import Places
from tests.report.recordings import PROGRAM, samples, stream_of
from tests.support.samples import branch, load, other, with_everything

PLACED = {"symbol", "target_symbol", "va_symbol", "function", "function_offset", "line"}


def columns(records: Iterable[Record], places: Places | None = None) -> dict[str, list[Any]]:
    arrays, _ = read_arrays([stream_of(records, 3)])
    return {name: column.tolist() for name, column in named_columns(arrays, places).items()}


def of_program() -> Places:
    places = Places()
    places.add_file(PROGRAM)
    return places


def test_an_address_is_named_where_a_symbol_is_and_masked_elsewhere() -> None:
    found = columns(
        [
            load(0x40000128, va=DataAddress(0x40008010)),
            branch(0x40000144),
            other(0x50000000),
            load(0x40000100, va=DataAddress(0x41000000)),
        ],
        of_program(),
    )
    assert found["symbol"] == ["loop+0x8", "work+0x4", None, "main"]
    assert found["va_symbol"] == ["buffer+0x10", None, None, None]
    assert found["target_symbol"] == [None, "main", None, None]
    assert found["function"] == ["main", "work", None, "main"], "a label is no function"
    assert found["function_offset"] == [0x28, 4, None, 0]
    assert found["line"] == [None] * 4, "the program has no lines"


def test_names_are_there_where_places_are_and_lines_where_they_are_asked_for() -> None:
    arrays, _ = read_arrays([stream_of([load()], 0)])
    with_lines = set(named_columns(arrays, of_program()))
    assert with_lines - set(named_columns(arrays)) == PLACED
    assert with_lines - set(named_columns(arrays, of_program(), lines=False)) == {"line"}
    assert not PLACED.intersection(named_columns(arrays, Places())), "no file, no names"


def test_payloads_are_taken_apart_as_arm_lays_them_out() -> None:
    """Arm ARM D17.2: NS is bit 63, EL bits 62:61, NSE bit 60; CH bit 62, PAT bits 59:56."""
    found = columns([other(), with_everything()])
    assert found["cpu"] == [3, 3]
    assert found["pc"] == [0x4000010C, 0xFFFF_8000_1000_1000]
    assert (found["el"], found["state"]) == ([1, 1], ["non-secure", "realm"])
    assert (found["target_el"][1], found["previous_target_el"][1]) == (2, 3)
    assert found["previous_target_state"] == [None, "secure"]
    assert found["pa"] == [None, 0x8000_1008]
    assert (found["pa_checked"], found["pa_tag"]) == ([None, True], [None, 5])
    assert found["data_source_name"] == [None, None], "0x1234 is no source that has a name"
    assert (found["context_el1"], found["context_el2"]) == ([None, 0x1234], [None, 0xABCD])


def test_a_sample_outside_all_files_is_of_an_unknown_file() -> None:
    found = samples(load(0x40000100), load(0x50000000))
    assert list(found.labels("file")) == ["program.elf", "[unknown]"]
