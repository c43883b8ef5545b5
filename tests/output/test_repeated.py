"""Records that a driver had read twice are found, and what only looks so is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli.commands.decode import decode
from spe_unicorn.output import arrays as arrays_of_records
from spe_unicorn.output.arrays import RecordArrays, read_arrays
from spe_unicorn.output.reader import Stream
from spe_unicorn.output.repeated import Repeated, repeated
from spe_unicorn.report.recording import read
from spe_unicorn.spe.record import Record
from tests.support.samples import load, stream

SAMPLED = [load(0x4000_0000 + 4 * (n % 3), timestamp=1000 + n // 2) for n in range(40)]
"""A loop of three operations, of which two at a time have the same timestamp."""


def arrays_of(*pieces: tuple[int, list[Record]]) -> RecordArrays:
    streams = [Stream(cpu, 0, 0, memoryview(stream(records, 6))) for cpu, records in pieces]
    return read_arrays(streams)[0]


def test_a_stretch_that_comes_again_is_found() -> None:
    arrays = arrays_of((0, SAMPLED), (1, [*SAMPLED[:30], *SAMPLED[10:30], *SAMPLED[30:]]))
    assert list(repeated(arrays)) == [Repeated(1, 10, 30, 20)]


def test_each_stretch_is_told() -> None:
    twice = [*SAMPLED[:20], *SAMPLED[4:14], *SAMPLED[20:], *SAMPLED[30:38]]
    assert list(repeated(arrays_of((0, twice)))) == [Repeated(0, 4, 20, 10), Repeated(0, 40, 50, 8)]


def test_a_plain_stream_has_none() -> None:
    assert not list(repeated(arrays_of((0, SAMPLED))))
    assert not list(repeated(arrays_of((0, SAMPLED[20:]), (1, SAMPLED[20:]), (0, SAMPLED[:20]))))


def test_few_records_or_one_timestamp_say_nothing() -> None:
    """Seven records; and a loop whose records have one timestamp, after a clock that went back."""
    assert not list(repeated(arrays_of((0, [*SAMPLED, *SAMPLED[3:10]]))))
    alike = [load(timestamp=5)] * 20
    assert not list(repeated(arrays_of((0, [*SAMPLED, *alike]))))


def test_records_without_timestamps_say_nothing() -> None:
    loop = [load(0x4000_0000 + 4 * (n % 3), timestamp=None) for n in range(40)]
    assert not list(repeated(arrays_of((0, loop + loop))))


def test_commands_say_so(tmp_path: Path) -> None:
    path = tmp_path / "twice.bin"
    path.write_bytes(stream([*SAMPLED, *SAMPLED[20:]], 6))
    said = (
        f"{path}: 20 records stand in it twice: of PE 0 records 41 to 60 are records 21 to 40"
        " again. The driver had a part of the buffer read twice"
    )
    result = CliRunner().invoke(decode, [str(path), "--format", "table"])
    assert result.exit_code == 0
    assert f"Warning: {said}\n" in result.output
    assert read(str(path)).doubts == [said]


def test_no_arrays_are_made_of_a_file_in_which_time_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take 100 bytes and more a record, of a file that is shown record by record."""
    monkeypatch.setattr(arrays_of_records, "read_arrays", None)
    path = tmp_path / "once.bin"
    path.write_bytes(stream([*SAMPLED, load(timestamp=None), *SAMPLED[-1:]], 6))
    result = CliRunner().invoke(decode, [str(path)])
    assert (result.exit_code, result.stderr) == (0, "")
