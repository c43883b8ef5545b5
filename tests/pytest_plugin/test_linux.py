"""The fixture spe_linux: options, and what a command comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.pytest_plugin.linux import LinuxOfTest
from spe_unicorn.session.linux.archive import GuestError
from tests.session.linux.small_guest import kernel


def test_each_command_starts_where_the_guest_waited(tmp_path: Path) -> None:
    options = {"kernel": kernel(tmp_path), "busybox": "none", "cache": str(tmp_path / "cache")}
    linux = LinuxOfTest.of(tmp_path, ram=16 << 20, **options)
    done = [linux.run(digit) for digit in "304"]
    assert [(one.status, one.why, one.skipped) for one in done] == [
        (3, "exit status 3", False),
        (0, None, False),
        (4, None, True),
    ]
    assert [one.out and one.out.name for one in done] == ["0001-3", "0002-0", "0003-4"]
    assert (tmp_path / "0001-3/console.txt").read_text().endswith("status 3\n")
    assert len(list((tmp_path / "cache/snapshots").rglob("*.snapshot"))) == 1


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="no file and no folder is called 'gone'"):
        LinuxOfTest.of(tmp_path, add=["gone"])
