"""What is read piece by piece says what is said of all records at once."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spe_unicorn
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.output import grid, reader
from spe_unicorn.output.reader import RecordFile, Stream
from spe_unicorn.report import page, recording
from spe_unicorn.report.findings.first import first
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import KEYS, Samples
from spe_unicorn.report.views.difference import difference, totals
from spe_unicorn.report.views.overview import View, grouped, overview
from spe_unicorn.spe.packets import BadPacket
from tests.report.recordings import PROGRAM
from tests.support.samples import of_every_sort, stream

PIECE = 40


def whole() -> Samples:
    """Records of every sort of two PEs, some bytes that are none, and calls of some."""
    chance = random.Random(35)
    sorts = list(of_every_sort())
    data = [stream([chance.choice(sorts) for _ in range(300)]) for _ in range(3)]
    data[1] += b"\xff" * 64
    streams = [
        Stream(cpu, 0, 0, memoryview(each)) for cpu, each in zip((0, 1, 0), data, strict=True)
    ]
    result = Recording(RecordFile("a.spe", "raw", streams))
    result.places.add_file(PROGRAM)
    for number in range(500):
        result.file.calls.add(number % 2, (0x40000104 + 4 * (number % 3),))
    return Samples(result)


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Samples:
    monkeypatch.setattr(recording, "PIECE", PIECE)
    monkeypatch.setattr(recording, "_CHOSEN", 200)
    monkeypatch.setattr(grid, "MOST", PIECE // 2)
    monkeypatch.setattr(grid, "_AT_ONCE", PIECE)
    found = whole()
    assert len(list(found.pieces())) > 10
    return found


def test_records_and_bad_packets_are_those_of_the_whole(in_pieces: Samples) -> None:
    all_of_them = whole().recording
    assert len(in_pieces) == len(all_of_them.raw_arrays) == 900
    found = [record for piece in in_pieces.recording.pieces() for record in piece.raw_arrays.pc]
    assert found == all_of_them.raw_arrays.pc.tolist()
    chains = [n for piece in in_pieces.recording.pieces() for n in piece.chains.tolist()]
    assert chains == Samples(all_of_them).chains.tolist()
    bad = in_pieces.recording.bad_packets
    assert bad == all_of_them.bad_packets
    assert [type(each) for _, each in bad] == [BadPacket] * len(bad) != []
    assert not in_pieces.recording.is_small


@pytest.mark.parametrize("pieces", [1, 3])
def test_who_looks_at_all_pieces_learns_what_the_whole_comes_to(
    pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "PIECE", PIECE)
    reading = whole().recording
    looked = 0
    read = reading._pieces

    def counted() -> Iterator[Recording]:
        nonlocal looked
        looked += 1
        return read()

    monkeypatch.setattr(reading, "_pieces", counted)
    assert reading.holds_some
    assert looked == 0
    for _ in islice(reading.pieces(), pieces):
        pass  # that is not all of them
    assert len(list(reading.pieces())) == 3
    assert (len(reading), len(reading.bad_packets), looked) == (900, 1, 2)
    assert len(list(reading.pieces())) == 3
    assert looked == 3


def test_what_holds_bad_packets_alone_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PIECE", 1)
    file = RecordFile("a.spe", "raw", [Stream(0, 0, 0, memoryview(b"\xff" * 512))])
    assert not Recording(file).holds_some


def test_tables_are_those_of_the_whole(in_pieces: Samples) -> None:
    at_once = read_at_once()
    assert overview(in_pieces, View()) == overview(at_once, View())
    assert overview(in_pieces, View(by="latency")) == overview(at_once, View(by="latency"))
    for key in KEYS:
        assert grouped(in_pieces, View(), (key, "el")) == grouped(at_once, View(), (key, "el"))
    assert totals(in_pieces, at_once) == totals(at_once, at_once)
    same = difference(at_once, at_once, "symbol", View())
    assert difference(in_pieces, at_once, "symbol", View()) == same


def test_sentences_are_of_stretches_of_all_pieces(in_pieces: Samples) -> None:
    chosen = in_pieces.chosen()
    assert 150 < len(chosen) < 250
    assert set(chosen.arrays.cpu.tolist()) == {0, 1}
    assert len(first(in_pieces)) == len(first(whole()))


def test_the_page_has_the_counts_of_the_whole(
    in_pieces: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, at_once = (page.page_data(each, disassemble) for each in (in_pieces, read_at_once()))
    assert told_calls(few) == told_calls(at_once)
    assert few == at_once
    monkeypatch.setattr(page, "MOST_SAMPLES", 100)
    counted, at_once = (page.page_data(each, disassemble) for each in (in_pieces, read_at_once()))
    assert sorted(told_calls(counted)) == sorted(told_calls(at_once))
    for data in (counted, at_once):
        del data["columns"]  # cells are in the order in which they came
    assert counted == at_once


def told_calls(data: dict[str, Any]) -> list[tuple[str, ...]]:
    """The functions above each sample, taken out of a page: nodes are in any order."""
    calls, (kind, column) = data.pop("calls"), data["columns"].pop("node")
    paths: list[tuple[str, ...]] = []
    for above, name in zip(calls["above"], calls["name"], strict=True):
        paths.append((*(paths[above] if above >= 0 else ()), calls["names"][name]))
    return [paths[n] for n in np.frombuffer(base64.b64decode(column), kind)]


def read_at_once() -> Samples:
    """All records, which are in memory at once."""
    result = whole()
    assert len(result.arrays) == 900
    return result


def test_a_large_file_is_read_as_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(stream(list(of_every_sort()) * 5))
    small = spe_unicorn.read(file)
    monkeypatch.setattr(reader, "_LARGE", 64)
    large = spe_unicorn.read(file)
    assert large.file.mapped is not None
    before = large.raw_arrays.pc.tolist()
    large.file.let_go()
    assert list(large) == list(small)
    assert before == small.raw_arrays.pc.tolist()
