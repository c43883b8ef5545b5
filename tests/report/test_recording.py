"""Records for programs: whatever the way, they say what ``decode`` says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spe_unicorn
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import RecordingInfo
from spe_unicorn.output.jsonl import record_object
from spe_unicorn.output.reader import BadFileError
from spe_unicorn.report import arrow
from spe_unicorn.spe.packets import COUNTER_NAMES
from spe_unicorn.spe.record import encode
from spe_unicorn.symbols.elf import ElfError, read_elf
from tests.support.samples import load, of_every_sort, other, store, stream

SORTS = list(of_every_sort())


HELLO = shipped_firmware("hello")


def written(path, records, cpus=1, image=None):
    writer = open_output(path, info=RecordingInfo(image, cpus=cpus))
    for number, record in enumerate(records):
        writer.write(encode(record, 6), number % cpus)
    writer.close()
    return path


def flat(found):
    """The object of a record as a row: without what columns leave out."""
    row = {}
    for key, value in found.items():
        if key == "counters":
            row |= {f"counters.{k}": v for k, v in value.items() if k in COUNTER_NAMES.values()}
        elif key == "events":
            row[key] = " ".join(value)
        elif isinstance(value, str) and value.startswith("0x"):
            row[key] = int(value, 16)
        elif key != "addresses":
            row[key] = value
    return row


def without_gaps(rows):
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def expected(records):
    return [flat(found) for found in records]


@pytest.mark.parametrize("suffix", ["spe", "data", "jsonl"])
def test_every_way_to_the_records_says_the_same(tmp_path: Path, suffix: str) -> None:
    recording = spe_unicorn.read(written(tmp_path / f"a.{suffix}", SORTS))
    found = list(recording)
    assert len(recording) == len(found) == len(SORTS)
    if suffix != "jsonl":
        assert found == [record_object(r, o["offset"]) for r, o in zip(SORTS, found, strict=True)]
    assert without_gaps(recording.arrow().to_pylist()) == expected(found)
    frame = recording.dataframe()
    assert without_gaps(frame.astype(object).where(frame.notna(), None).to_dict("records")) == (
        expected(found)
    )
    columns = recording.arrays()
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    assert without_gaps(dict(zip(columns, row, strict=True)) for row in rows) == expected(found)


def test_records_of_several_cpus_are_told_apart(tmp_path: Path) -> None:
    recording = spe_unicorn.read(written(tmp_path / "a.data", [load(), store(), other()], cpus=2))
    assert recording.arrays()["cpu"].tolist() == [0, 0, 1]


def test_symbols_come_from_the_recording_or_are_given(tmp_path: Path) -> None:
    elf = HELLO
    (main,) = (s.address for s in read_elf(elf).symbols if s.name == "main")
    path = written(tmp_path / "a.spe", [load(main + 4), other(0x1000)])
    for symbols in (elf, str(elf), [f"{elf}"]):
        frame = spe_unicorn.read(path, symbols).dataframe()
        assert frame["symbol"].fillna("?").tolist() == ["main+0x4", "?"]
        assert frame["function"].fillna("?").tolist() == ["main", "?"]
        assert frame["function_offset"].fillna(99).tolist() == [4, 99]
        line, nothing = frame["line"].fillna("?").tolist()
        assert re.fullmatch(r"hello\.c:\d+", line)
        assert nothing == "?"
    columns = spe_unicorn.read(path).arrays()
    assert not {"symbol", "function", "function_offset", "line"} & set(columns)


def test_samples_of_one_function_are_one_group_wherever_they_are_in_it(tmp_path: Path) -> None:
    (main,) = (s.address for s in read_elf(HELLO).symbols if s.name == "main")
    path = written(tmp_path / "a.spe", [load(main), load(main + 4), load(main + 8), other(0x1000)])
    frame = spe_unicorn.read(path, HELLO).dataframe()
    assert frame.groupby("function").size().to_dict() == {"main": 3}
    assert len(frame.groupby("symbol")) == 3


def test_what_cannot_be_read_is_refused_and_what_is_damaged_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "a.data", [load(), other()])
    with pytest.raises(BadFileError, match="No such file"):
        spe_unicorn.read(tmp_path / "none")
    with pytest.raises(ElfError, match="is not an ELF file"):
        spe_unicorn.read(path, path)
    with pytest.raises(ValueError, match="is no address"):
        spe_unicorn.read(path, f"{HELLO}@main")
    data = path.read_bytes()
    path.write_bytes(data[: data.index(encode(other(), 6))])
    cut = spe_unicorn.read(path)
    assert len(cut) == 1
    assert "truncated" in cut.damage
    raw = tmp_path / "b.spe"
    damaged = bytearray(stream([load(), store(), other()]))
    damaged[64 + 9] = 0xF7  # was the header of the PC
    raw.write_bytes(damaged)
    spoiled = spe_unicorn.read(raw)
    assert len(spoiled) == len(list(spoiled)) == 2
    assert [bad.offset for _, bad in spoiled.bad_packets] == [64 + 9]


def test_an_empty_recording_has_columns_without_rows(tmp_path: Path) -> None:
    recording = spe_unicorn.read(written(tmp_path / "a.data", []))
    assert len(recording) == 0
    assert recording.arrow().num_rows == 0
    assert list(recording.dataframe().columns) == list(recording.arrays())


def test_a_library_that_is_not_installed_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(arrow, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'spe-unicorn\[parquet\]' brings it"):
        arrow.library("pyarrow.parquet")


def test_the_types_of_columns_do_not_depend_on_what_the_records_hold(tmp_path: Path) -> None:
    few = spe_unicorn.read(written(tmp_path / "a.spe", [other()])).arrow().schema
    all_of_them = spe_unicorn.read(written(tmp_path / "b.spe", SORTS)).arrow().schema
    assert few == all_of_them
    assert few.field("va").type == pa.uint64()
    assert json.dumps(few.names) == json.dumps(all_of_them.names)


@given(st.lists(st.sampled_from(SORTS), max_size=20))
def test_masks_say_exactly_which_packets_a_record_has(tmp_path_factory, records):
    path = written(tmp_path_factory.mktemp("masks") / "a.spe", [*records, other()])
    columns = spe_unicorn.read(path).arrays()
    for name, attribute in (("va", "va"), ("target", "target"), ("timestamp", "timestamp")):
        there = [getattr(record, attribute) is not None for record in [*records, other()]]
        assert (~np.ma.getmaskarray(columns[name])).tolist() == there
