from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.output.formats import OutputError, format_of, open_output
from spe_unicorn.output.perf_format import MAGIC
from spe_unicorn.spe.record import encode
from tests.support.samples import load, other


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("a.spe", None, "raw"),
        ("b/c.data", None, "perf"),
        ("d.jsonl", None, "jsonl"),
        ("perf.out", "perf", "perf"),
        ("a.spe", "jsonl", "jsonl"),
        ("-", "raw", "raw"),
    ],
)
def test_format_comes_from_name_or_suffix(path: str, name: str | None, expected: str) -> None:
    assert format_of(path, name) == expected


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        (
            "out.txt",
            None,
            "out.txt: the suffix .txt names no output format;"
            " there are .spe (raw), .data (perf), .jsonl (jsonl)",
        ),
        (
            "out",
            None,
            "out: a name without a suffix says no output format;"
            " there are .spe (raw), .data (perf), .jsonl (jsonl)",
        ),
        ("-", None, "-: standard output has no suffix that names a format: give --format"),
        ("a.spe", "csv", "no output format csv; there are raw, perf, jsonl"),
    ],
)
def test_unknown_format_is_refused_with_those_there_are(
    path: str, name: str | None, message: str
) -> None:
    with pytest.raises(OutputError) as caught:
        format_of(path, name)
    assert str(caught.value) == message


def test_wrong_suffix_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        open_output(tmp_path / "out.txt")
    assert not list(tmp_path.iterdir())


def test_perf_data_does_not_go_to_standard_output() -> None:
    with pytest.raises(OutputError, match="cannot be written to standard output"):
        open_output("-", "perf")


def test_folder_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_output(tmp_path / "none" / "a.spe")


def test_raw_file_holds_the_records_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.spe"
    writer = open_output(path)
    writer.write(encode(load(), 6))
    writer.write(encode(other(), 6), 1)
    writer.close()
    writer.close()
    assert path.read_bytes() == encode(load(), 6) + encode(other(), 6)


def test_raw_records_go_to_standard_output(capfdbinary: pytest.CaptureFixture[str]) -> None:
    writer = open_output("-", "raw")
    writer.write(encode(other(), 6))
    writer.close()
    assert capfdbinary.readouterr().out == encode(other(), 6)


def test_suffix_picks_the_writer(tmp_path: Path) -> None:
    for name, start in (("a.data", MAGIC), ("a.jsonl", b'{"offset": 0, "cpu": 0, "pc": ')):
        writer = open_output(tmp_path / name)
        writer.write(encode(load(), 6))
        writer.close()
        assert (tmp_path / name).read_bytes().startswith(start)
