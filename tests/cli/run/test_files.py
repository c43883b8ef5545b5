from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.files import Files, OutputFile


class Errors(list):
    """Collects what files report."""

    def __call__(self, path: str, error: OSError) -> None:
        self.append((path, error.strerror))


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files((), Errors())
    yield files
    files.close()


def test_one_file_cannot_take_two_outputs(tmp_path: Path, files: Files) -> None:
    files.text(str(tmp_path / "out"))
    with pytest.raises(UsageProblem, match="is named for two outputs"):
        files.text(str(tmp_path / "." / "out"))


def test_what_the_run_reads_is_not_written_over(tmp_path: Path) -> None:
    firmware = tmp_path / "firmware.elf"
    firmware.write_text("precious")
    link = tmp_path / "link"
    link.symlink_to(firmware)
    with pytest.raises(UsageProblem, match="is read by this run"):
        Files((str(firmware),), Errors()).text(str(link))
    assert firmware.read_text() == "precious"


def test_discarding_removes_new_files_and_keeps_old_ones(tmp_path: Path, files: Files) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("")
    for path in (old, new):
        files.text(str(path))
    files.discard()
    assert old.exists()
    assert not new.exists()


def test_a_place_that_cannot_be_written_is_a_usage_problem(tmp_path: Path, files: Files) -> None:
    with pytest.raises(UsageProblem, match="No such file or directory"):
        files.text(str(tmp_path / "none" / "out"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_device_may_be_named_twice_and_a_full_one_is_reported_at_the_latest_when_closed() -> None:
    errors = Errors()
    files = Files((), errors)
    first, _ = files.text("/dev/full"), files.text("/dev/full")
    first.write("x")
    assert errors == []
    files.close()
    assert errors == [("/dev/full", "No space left on device")]


def test_a_file_that_failed_takes_no_more_and_reports_once() -> None:
    errors = Errors()
    taken = []

    def write(text: str) -> None:
        taken.append(text)
        raise OSError(28, "No space left on device")

    file = OutputFile("out", write, lambda: None, errors)
    file.write("one")
    file.write("two")
    assert taken == ["one"]
    assert errors == [("out", "No space left on device")]


def test_all_files_but_one_can_be_closed(tmp_path: Path, files: Files) -> None:
    last, other = files.text(str(tmp_path / "last")), files.text(str(tmp_path / "other"))
    last.write("a")
    other.write("b")
    files.close(last)
    assert (tmp_path / "other").read_text() == "b"
    last.write("c")
    files.close()
    assert (tmp_path / "last").read_text() == "ac"
