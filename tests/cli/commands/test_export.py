from __future__ import annotations

import csv
import json
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from spe_unicorn.report import arrow
from spe_unicorn.spe.record import encode
from tests.support.samples import load, other, store, stream


@pytest.fixture
def recording(command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]) -> Path:
    file = tmp_path / "a.data"
    options = ("-c", "50", "--model", "cache", "--max-insns", "60000")
    command("record", "-q", *options, "-o", str(file), firmware("bench_hash"), status=124)
    return file


def of_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


KINDS = {"ldst": 1, "br": 2, "other": 0}


def test_the_export_read_back_says_what_decode_says(
    command: Callable[..., Any], recording: Path, tmp_path: Path
) -> None:
    command("export", str(recording), "-o", str(tmp_path / "out.csv"))
    command("export", str(recording), "-o", str(tmp_path / "out.parquet"))
    text = command("decode", "--format", "json", str(recording)).stdout
    decoded = [json.loads(line) for line in text.splitlines()]
    assert {record["op_class"] for record in decoded} == {0, 1, 2}
    for name, kind in KINDS.items():
        expected = [record for record in decoded if record["op_class"] == kind]
        rows = parquet.read_table(tmp_path / f"out-{name}.parquet").to_pylist()
        assert len(rows) == len(expected)
        for row, record in zip(rows, expected, strict=True):
            assert (row["pc"], row["el"], row["ts"]) == (
                *(record["pc"], record["el"], record["timestamp"]),
            )
            assert row["total_lat"] == record["counters"]["total"]
            assert row["issue_lat"] == record["counters"]["issue"]
            assert row.get("vaddr", "") == record.get("va", "")
            assert row.get("paddr", "") == record.get("pa", "")
            assert row.get("br_tgt", "") == record.get("target", "")
            assert ("RETIRED" in row["event"].split(":")) == ("retired" in record["events"])
        texts = [
            {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in row.items()}
            for row in rows
        ]
        assert of_csv(tmp_path / f"out-{name}.csv") == texts
        assert all(row["symbol"] for row in rows)


def test_columns_stand_in_the_order_of_the_tool(
    command: Callable[..., Any], recording: Path, tmp_path: Path
) -> None:
    command("export", str(recording), "-o", str(tmp_path / "out.csv"))
    headings = {
        name: (tmp_path / f"out-{name}.csv").read_text().partition("\n")[0].split(",")
        for name in KINDS
    }
    # as the tool's own description lists them; the symbol is the column of its option -s
    columns = {
        "br": "cpu op pc el condition indirect event issue_lat total_lat br_tgt br_tgt_lvl pbt"
        " pbt_lvl context ts symbol",
        "other": "cpu op pc el subclass sve_evl sve_pred sve_fp condition event issue_lat"
        " total_lat context ts symbol",
        "ldst": "cpu op pc el atomic excl ar subclass sve_evl sve_pred sve_sg event issue_lat"
        " total_lat vaddr xlat_lat paddr data_source context ts symbol",
    }
    assert headings == {name: text.split() for name, text in columns.items()}


def test_what_was_written_is_said_unless_asked_to_be_quiet(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(encode(load(), 6))
    said = command("export", str(file), "-o", str(tmp_path / "x.csv")).stderr.splitlines()
    assert said == [
        f"{tmp_path}/x-ldst.csv: 1 records",
        f"{tmp_path}/x-br.csv: 0 records",
        f"{tmp_path}/x-other.csv: 0 records",
    ]
    assert command("export", "-q", str(file), "-o", str(tmp_path / "y.csv")).stderr == ""


def test_bad_packets_are_counted_and_the_rest_is_written(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.spe"
    damaged = bytearray(stream([load(), store(), other()]))
    damaged[64 + 9] = 0xF7  # was the header of the PC
    file.write_bytes(damaged)
    result = command("export", "-q", str(file), "-o", str(tmp_path / "x.csv"), status=1)
    assert result.stderr == f"{file}: 1 bad packets were left out\n"
    assert len(of_csv(tmp_path / "x-other.csv")) == 1


@pytest.mark.parametrize(
    ("file", "output", "message"),
    [
        ("a.spe", "x.txt", "name a file that ends in .parquet or .csv"),
        ("a.spe", "x", "name a file that ends in .parquet or .csv"),
        ("none.spe", "x.csv", "No such file or directory"),
        ("noise.spe", "x.csv", "holds no SPE records"),
        ("a.spe", "none/x.csv", "No such file or directory"),
        ("a.spe", "none/x.parquet", "No such file or directory"),
    ],
)
def test_what_cannot_be_exported_leaves_no_file(
    command: Callable[..., Any], tmp_path: Path, file: str, output: str, message: str
) -> None:
    (tmp_path / "a.spe").write_bytes(encode(load(), 6))
    (tmp_path / "noise.spe").write_bytes(b"\xff" * 64)
    result = command("export", str(tmp_path / file), "-o", str(tmp_path / output), status=2)
    assert message in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.spe", "noise.spe"]


def test_files_that_were_there_stay_whole_when_a_later_one_fails(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.spe").write_bytes(encode(load(), 6))
    (tmp_path / "x-ldst.csv").write_text("precious")

    @contextmanager
    def fails(path):
        def append(_table):
            path.write_text("half")
            if "other" in path.name:
                raise OSError(28, "No space left on device", str(path))

        yield append

    monkeypatch.setitem(
        __import__("spe_unicorn.report.export").report.export.WRITERS, ".csv", fails
    )
    command("export", str(tmp_path / "a.spe"), "-o", str(tmp_path / "x.csv"), status=2)
    assert (tmp_path / "x-ldst.csv").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.spe", "x-ldst.csv"]


def test_parquet_without_its_library_says_how_to_get_it(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.spe").write_bytes(encode(load(), 6))

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(arrow, "import_module", missing)
    arguments = ("export", str(tmp_path / "a.spe"), "-o")
    result = command(*arguments, str(tmp_path / "x.parquet"), status=2)
    assert "pyarrow is not installed; pip install 'spe-unicorn[parquet]' brings it" in result.stderr
    command(*arguments, str(tmp_path / "x.csv"))


def test_a_profile_is_one_file_in_the_format_that_is_named(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(stream([load(), load(), other()]))
    out = tmp_path / "out"
    said = command("export", str(file), "--format", "folded", "-o", str(out)).stderr
    assert said == f"{out}: 3 records\n"
    assert out.read_text() == "firmware;EL1;0x40000100 2\nfirmware;EL1;0x4000010c 1\n"
    command("export", "-q", str(file), "--format", "folded", "--by", "latency", "-o", str(out))
    assert out.read_text() == "firmware;EL1;0x40000100 26\n"


def test_a_weight_is_for_profiles(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(encode(load(), 6))
    arguments = ("export", str(file), "-o", str(tmp_path / "x.csv"), "--by", "latency")
    assert "--by goes with --format" in command(*arguments, status=2).stderr


def test_a_profile_goes_to_standard_output(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(stream([load(), other()]))
    for name in ("folded", "pprof"):
        command("export", str(file), "--format", name, "-o", str(tmp_path / "out"))
        said = command("export", str(file), "--format", name, "-o", "-")
        assert said.stdout_bytes == (tmp_path / "out").read_bytes()
        assert said.stderr == "-: 2 records\n"


@pytest.mark.parametrize("options", [("export", "--format", "folded", "-o"), ("report", "--html")])
def test_what_is_made_of_a_recording_is_neither_itself_nor_a_folder(
    command: Callable[..., Any], tmp_path: Path, options: tuple[str, ...]
) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(encode(load(), 6))
    (tmp_path / "same.spe").symlink_to(file)
    for output, reason in (
        (file, "is the recording that is read"),
        (tmp_path / "same.spe", "is the recording that is read"),
        (tmp_path, "Is a directory"),
        (".", "Is a directory"),
        (tmp_path / "none" / "x", "No such file or directory"),
    ):
        said = command(*options, str(output), str(file), status=2).stderr
        assert said.endswith(f"Error: {output}: {reason}\n")
    assert file.read_bytes() == encode(load(), 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.spe", "same.spe"]


def test_a_file_that_cannot_be_written_is_named_as_it_was_to_be_called(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(encode(load(), 6))
    out = tmp_path / "none" / "x.csv"
    said = command("export", str(file), "-o", str(out), status=2).stderr
    assert f"Error: {tmp_path}/none/x-ldst.csv: No such file or directory" in said
