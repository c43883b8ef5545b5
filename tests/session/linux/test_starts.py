"""A guest that has booted once: what its snapshots are for, and what comes of each command."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.booted import names_beside, snapshot_file
from spe_unicorn.session.linux.chosen import on_another
from spe_unicorn.session.linux.matrix import run_all
from spe_unicorn.session.linux.names import kernel_names, telling
from spe_unicorn.session.linux.starts import Command, Limits, Point, Starts
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.snapshot_file import read_snapshot
from spe_unicorn.symbols.choice import SymbolChoice
from tests.session.linux.small_guest import kernel
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.small_programs import printing, program

LIMITS = Limits(None, 60)
PMSFCR_EL1 = (3, 0, 9, 9, 4)


def options_of(kernel_file: str) -> MachineOptions:
    return MachineOptions(kernel=kernel_file, ram=16 << 20)


def booted(options: MachineOptions, folder: Path) -> Path:
    return snapshot_file(options, 0, folder / "snapshots", lambda text: None)


def test_what_a_command_prints_is_kept_below_out(tmp_path: Path) -> None:
    shared, out = tmp_path / "shared", tmp_path / "out"
    shared.mkdir()
    out.mkdir()
    options = replace(options_of(kernel(tmp_path)), share=(str(shared),))
    starts = Starts(Point(options, booted(options, tmp_path), b"", out))
    (running,) = out.iterdir()
    (running / "made").write_text("by the guest")
    found = starts.run(6, Command("a b/c", ("3",)), LIMITS)
    starts.close()
    assert (found.status, found.out) == (3, out / "0007-a_b_c")
    assert sorted(path.name for path in found.out.iterdir()) == ["console.txt", "made"]
    assert (found.out / "console.txt").read_bytes().endswith(b"=== exit status 3\r\n")
    assert found.console == "=== exit status 3\n"


def test_each_command_has_its_own_mistakes_with_the_names_of_the_kernel(tmp_path: Path) -> None:
    """PMSFCR_EL1 has no bit 21 (Arm ARM D24.7)."""
    mistake = [*a64.mov64(0, 1 << 21), a64.msr(PMSFCR_EL1, 0)]
    options = options_of(kernel(tmp_path, mistake))
    listing = tmp_path / "kallsyms"
    listing.write_text(f"{RAM:016x} T mine\n{RAM + 4096:016x} T behind\n")
    file = booted(options, tmp_path)
    plain = Point(options, file, b"")
    watched = replace(plain, misuse=True, symbols=(SymbolChoice(str(listing)),))
    assert Starts(plain).run(0, Command("0", ("0",)), LIMITS).misuses == ()
    starts = Starts(watched)
    for number in range(2):
        found = starts.run(number, Command("0", ("0",)), LIMITS)
        (said,) = [text for text in found.misuses if "reserved-bits" in text]
        assert "<mine+0x" in said
        assert found.status == 0


def test_a_guest_goes_on_on_another_implementation(tmp_path: Path) -> None:
    options = options_of(kernel(tmp_path))
    snapshot = read_snapshot(booted(options, tmp_path))
    with Machine(replace(options, core="generic,late_writes=16"), records=False) as machine:
        found = on_another(snapshot, machine)
        assert (
            snapshot.board.parts.keys()
            < found.board.parts.keys()
            == machine.save().board.parts.keys()
        )
        machine.restore(found)
        machine.console.type(b"3300\n")
        assert machine.run(timeout=60).ending == "exit"
        assert machine.console.text.endswith("=== exit status 3\r\n")


def test_names_that_are_kept_are_told_by_no_guest(tmp_path: Path) -> None:
    options = options_of(kernel(tmp_path))
    kept = names_beside(tmp_path / "one.snapshot")
    kept.write_text("names")
    os.utime(kept, (1, 1))
    said: list[str] = []
    assert kernel_names(options, tmp_path / "one.snapshot", b"", tmp_path, said.append) == kept
    assert said == []
    assert kept.stat().st_mtime > 1


def test_names_are_what_the_guest_leaves_in_its_folder(tmp_path: Path) -> None:
    options = options_of(kernel(tmp_path))
    file, folder = booted(options, tmp_path), tmp_path / "told"
    folder.mkdir()
    tells = telling(partial(steps.share, "share0"))
    with pytest.raises(GuestError, match=r"does not tell its kernel's names: .*/kallsyms"):
        kernel_names(options, file, tells, folder, lambda text: None)
    listing = f"{RAM:016x} T mine\n"
    (folder / "kallsyms").write_text(listing)
    kept = kernel_names(options, file, tells, folder, lambda text: None)
    assert kept == names_beside(file)
    assert kept.read_text() == listing


def test_of_a_guest_that_never_waits_the_last_lines_are_told(tmp_path: Path) -> None:
    options = options_of(program(tmp_path, printing("one\ntwo\nthree\nfour\nfive")))
    with pytest.raises(GuestError, match=r"it said: three \| four \| five$"):
        booted(options, tmp_path)


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    point = Point(options_of(kernel(tmp_path)), tmp_path / "none", b"")
    with pytest.raises(GuestError, match="a process that runs tests has died"):
        list(run_all(point, [Command("0", ("0",))], LIMITS, 1))
