"""scripts/linux --from-snapshot: booted once, and every scenario starts from there."""

from __future__ import annotations

import base64
import struct
import sys
from pathlib import Path

import pytest

from spe_unicorn.session.linux import archive
from tests.scripts.linux_modules import importable, module
from tests.support import a64
from tests.support.small_programs import LOOP, program

UART, FLAGS = 0x0900_0000, 0x18
RX_EMPTY = 4
READY = b"=== ready\r\n"
EXIT = a64.code([a64.movz(0, 0x18), a64.adr(1, 8), 0xD45E0000])  # SYS_EXIT
WAITS = (
    a64.code(
        [
            *a64.mov64(1, UART),
            *(word for byte in READY for word in (a64.movz(0, byte), a64.str_(0, 1, size=2))),
            a64.ldr(0, 1, FLAGS, size=2),
            a64.tbnz(0, RX_EMPTY, -4),
            a64.ldr(0, 1, size=2),
            a64.subs_imm(31, 0, 4),  # Ctrl-D ends it
            a64.b_cond(0, 12),
            a64.str_(0, 1, size=2),
            a64.b(-24),
        ]
    )
    + EXIT
    + struct.pack("<QQ", 0x20026, 0)
)
"""Says that it is ready, and says again what is typed."""


@pytest.fixture(scope="module", autouse=True)
def _importable():
    with importable():
        yield


def guest(tmp_path: Path, code: bytes = WAITS):
    return module("guest").Guest(Path(program(tmp_path, code)), {}, ram="16M")


def test_each_scenario_starts_where_the_guest_waits(tmp_path, capfd):
    booted = module("booted").Booted(guest(tmp_path), tmp_path / "snapshots")
    for script in (b"first\n", b"second\n", b"first\n"):
        run = booted.run(script)
        assert (run.status, run.console) == (0, base64.encodebytes(script).decode())
    assert capfd.readouterr().err.count("booting once") == 1
    again = module("booted").Booted(guest(tmp_path), tmp_path / "snapshots")
    assert again.run(b"third\n").console == base64.encodebytes(b"third\n").decode()
    assert "booting" not in capfd.readouterr().err


def test_on_the_terminal_the_options_of_a_run_hold(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    folder = tmp_path / "snapshots"
    booted = module("booted").Booted(guest(tmp_path), folder, ("--max-insns", "100"))
    assert booted.start(b"x" * 100) == 124
    assert "the limit of 100 operations was reached" in capfd.readouterr().err
    assert module("booted").Booted(guest(tmp_path), folder, ("-q",)).start(b"x\n") == 0
    assert capfd.readouterr().out == base64.encodebytes(b"x\n").decode()
    assert len(list(folder.glob("*.snapshot"))) == 1


def test_another_machine_has_a_snapshot_of_its_own(tmp_path):
    folder = tmp_path / "snapshots"
    for options in ((), ("--smp", "2"), ("--seed", "7")):
        module("booted").Booted(guest(tmp_path), folder, options)
    assert len(list(folder.glob("*.snapshot"))) == 3


def test_a_snapshot_that_was_altered_is_made_again(tmp_path, capfd):
    folder = tmp_path / "snapshots"
    module("booted").Booted(guest(tmp_path), folder)
    (file,) = folder.glob("*.snapshot")
    file.write_bytes(file.read_bytes()[:-5])
    capfd.readouterr()
    run = module("booted").Booted(guest(tmp_path), folder).run(b"x\n")
    assert run.status == 0
    assert "booting once" in capfd.readouterr().err


def test_only_the_latest_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(module("booted"), "_KEPT", 2)
    folder = tmp_path / "snapshots"
    for seed in "1234":
        module("booted").Booted(guest(tmp_path), folder, ("--seed", seed))
    assert len(list(folder.iterdir())) == 4  # each with its RAM disk


def test_a_guest_that_never_waits_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module("booted"), "_BOOT_LIMIT", 0.05)
    with pytest.raises(archive.GuestError, match=r"does not say '=== ready.*time limit"):
        module("booted").Booted(guest(tmp_path, LOOP), tmp_path / "snapshots")


def test_a_scenario_that_is_too_long_to_be_typed_is_refused():
    with pytest.raises(archive.GuestError, match="at most 32768 bytes, this one 32769"):
        module("booted").typed(bytes(32769))
