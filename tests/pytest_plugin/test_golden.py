"""Golden files: what differs is said packet by packet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from spe_unicorn.pytest_plugin.golden import difference, owner_of, save
from spe_unicorn.spe.packets import InstructionAddress
from spe_unicorn.spe.record import Record, encode


def stream(*pcs: int) -> bytes:
    records = (Record(events=2, pc=InstructionAddress(pc), timestamp=9) for pc in pcs)
    return b"".join(encode(record, 6) for record in records)


def test_equal_streams_have_no_difference() -> None:
    assert difference(stream(0x1000, 0x2000), stream(0x1000, 0x2000)) is None


def test_a_changed_packet_is_shown_with_those_around_it() -> None:
    said = difference(stream(0x1000, 0x2000), stream(0x1000, 0x2004))
    assert said is not None
    lines = said.splitlines()
    assert lines[0] == "2 records in the golden file, 2 in this run, 1 differ"
    assert lines[1] == "record 1:"
    assert [line for line in lines if line.startswith("-") and "0x2000" in line]
    assert [line for line in lines if line.startswith("+") and "0x2004" in line]


def test_missing_records_differ() -> None:
    said = difference(stream(0x1000, 0x2000), stream(0x1000))
    assert said is not None
    assert said.startswith("2 records in the golden file, 1 in this run, 1 differ")


def test_many_differences_are_counted_and_three_are_shown() -> None:
    said = difference(stream(*range(0, 40, 4)), stream(*range(4, 44, 4)))
    assert said is not None
    assert said.splitlines()[-1] == "and 7 more"


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "golden" / "a.spe"
    save(path, b"one")
    save(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_belongs_to_the_first_test_of_all_processes(tmp_path: Path) -> None:
    path, folder = tmp_path / "golden/a.spe", tmp_path / "shared"
    ask = (
        "import sys, pathlib; from spe_unicorn.pytest_plugin.golden import owner_of;"
        "print(owner_of(pathlib.Path(sys.argv[1]), 'first', pathlib.Path(sys.argv[2])))"
    )
    words = [sys.executable, "-c", ask, str(path), str(folder)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "first\n"
    assert owner_of(path, "second", folder) == "first"
    assert owner_of(tmp_path / "golden/../golden/a.spe", "second", folder) == "first"
    assert owner_of(tmp_path / "golden/b.spe", "second", folder) == "second"
