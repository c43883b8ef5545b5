"""scripts/linux --from-snapshot: booted once, and every scenario starts from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.session.linux import archive
from tests.scripts.linux_modules import importable, module
from tests.session.linux.cpio import entries
from tests.session.linux.small_guest import kernel


@pytest.fixture(scope="module", autouse=True)
def _importable():
    with importable():
        yield


def guest(tmp_path: Path):
    """It tells the last digit of what is typed as its status."""
    return module("guest").Guest(Path(kernel(tmp_path)), {}, ram="16M")


def booted(tmp_path: Path, *options: str):
    return module("booted").Booted(guest(tmp_path), tmp_path / "snapshots", options)


def test_each_scenario_starts_where_the_guest_waits(tmp_path, capfd):
    with booted(tmp_path) as ours:
        for digit in (b"3", b"4", b"3"):
            run = ours.run(digit)
            assert (run.status, run.console) == (int(digit), f"=== exit status {int(digit)}\n")
    assert capfd.readouterr().err.count("booting once") == 1
    with booted(tmp_path) as again:
        assert again.run(b"7").status == 7
    assert "booting" not in capfd.readouterr().err


def test_on_the_terminal_the_options_of_a_run_hold(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with booted(tmp_path, "--max-insns", "100") as ours:
        assert ours.start(b"5") == 124
        assert "the limit of 100 operations was reached" in capfd.readouterr().err
        with pytest.raises(archive.GuestError, match="at most 8000 bytes"):
            ours.start(b"x" * 8000)
    with booted(tmp_path, "-q") as ours:
        assert ours.start(b"5") == 0
    assert capfd.readouterr().out == "=== exit status 5\r\n"
    assert len(list((tmp_path / "snapshots").glob("*.snapshot"))) == 1


def test_a_guest_has_its_files_and_what_its_first_program_is_told(tmp_path):
    (tmp_path / "program").write_bytes(b"12")
    modules = (("spe", b"\x7fELF"),)
    files = {"opt/program": tmp_path / "program"}
    ours = module("guest").Guest(tmp_path / "none", files, modules=modules)
    found = entries(ours.initrd(b"true\n"))
    told = ["module", "/modules/000-spe.ko", "run", "3", "sh", "/prelude.sh", "/scenario"]
    assert found["init.steps"][1].decode().split("\0")[:-1] == told
    assert found["opt/program"][1] == b"12"
    assert found["scenario"][1] == b"true\n"
    assert found["lib64"][:2] == (0o120777, b"lib")
    waiting = entries(ours.waiting())
    assert waiting["init.steps"][1].endswith(b"\0ready\0")
    assert "scenario" not in waiting


@pytest.mark.parametrize("typed", [True, False])
def test_a_scenario_has_what_the_prelude_gives_it(tmp_path, typed):
    """By the shell of this machine, which is none of busybox."""
    guest = module("guest")
    prelude, script = guest.HERE / "guest/prelude.sh", tmp_path / "scenario"
    text = b"echo text >file\nsend file\n(exit 3)\n"
    script.write_bytes(text)
    words = ["sh", str(prelude), str(script)]
    if typed:
        words = [w.replace("/prelude.sh", str(prelude)) for w in guest.typed_words(text)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 3
    assert guest.Run(done.stdout, "", 0, 0.0).file("file") == b"text\n"
