"""Many commands in a guest: which tests there are, and each from the same snapshot."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from spe_unicorn.cores import profile
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.booted import snapshot_file
from spe_unicorn.session.linux.matrix import read_tests, run_all
from spe_unicorn.session.linux.starts import Command, Limits, Point
from tests.session.linux.small_guest import kernel
from tests.support import a64
from tests.support.small_programs import program


def options(tmp_path: Path) -> MachineOptions:
    return MachineOptions(kernel=kernel(tmp_path), ram=16 << 20)


def test_each_test_starts_from_the_same_place(tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "snapshots"
    file = snapshot_file(options(tmp_path), 0, folder, said.append)
    assert file == snapshot_file(options(tmp_path), 0, folder, said.append)
    assert said == ["booting once, up to where commands start"]
    point = Point(options(tmp_path), file, b"")
    tests = [Command(digit, (digit,)) for digit in "03430"]
    found = list(run_all(point, tests, Limits(None, 60), 2))
    assert [result.status for result in found] == [0, 3, 4, 3, 0]
    assert [result.why for result in found] == [None, "exit status 3", None, "exit status 3", None]
    assert [result.skipped for result in found] == [False, False, True, False, False]


def test_another_machine_has_a_snapshot_of_its_own(tmp_path: Path) -> None:
    ours = options(tmp_path)
    others = [ours, replace(ours, seed=7), replace(ours, share=(str(tmp_path),))]
    others.append(replace(ours, share=(f"{tmp_path},readonly",)))
    files = {snapshot_file(one, 0, tmp_path / "kept", lambda text: None) for one in others}
    assert len(files) == 4
    elsewhere = replace(ours, share=(str(tmp_path / "kept"),))
    assert snapshot_file(elsewhere, 0, tmp_path / "kept", lambda text: None) in files
    assert snapshot_file(elsewhere, 1, tmp_path / "kept", lambda text: None) not in files


def test_a_core_that_was_changed_has_another_snapshot(tmp_path: Path) -> None:
    core = tmp_path / "own.toml"
    shipped = Path(profile.__file__).parent / "max.toml"
    core.write_bytes(shipped.read_bytes())
    ours = replace(options(tmp_path), core=str(core))
    before = snapshot_file(ours, 0, tmp_path / "kept", lambda text: None)
    core.write_text(core.read_text().replace("align = ", "align = 1  # ", 1))
    after = snapshot_file(replace(ours), 0, tmp_path / "kept", lambda text: None)
    assert after != before


def test_a_guest_that_never_waits_is_refused(tmp_path: Path) -> None:
    code = a64.code([a64.movz(0, 0x18), a64.adr(1, 8), 0xD45E0000]) + struct.pack("<QQ", 0x20026, 0)
    ours = MachineOptions(kernel=program(tmp_path, code), ram=16 << 20)
    with pytest.raises(GuestError, match="does not come to the point: it ended"):
        snapshot_file(ours, 0, tmp_path, lambda text: None)


def test_a_file_has_a_command_on_each_line(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text("# all\n\ntrue\nsh -c 'exit 3'  # why\n")
    assert read_tests(file) == [
        Command("true", ("true",)),
        Command("sh -c 'exit 3'", ("sh", "-c", "exit 3")),
    ]
    file.write_text("true\nsh -c 'exit\n")
    with pytest.raises(GuestError, match="list:2: No closing quotation"):
        read_tests(file)
    file.write_text("# none\n")
    with pytest.raises(GuestError, match="no line with a command"):
        read_tests(file)


def test_a_folder_has_a_program_in_each_file_that_can_be_executed(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="no file that can be executed"):
        read_tests(tmp_path)
    for name, mode in (("b", 0o755), ("a", 0o755), ("README", 0o644)):
        (tmp_path / name).write_bytes(b"")
        (tmp_path / name).chmod(mode)
    (tmp_path / "deep").mkdir()
    assert read_tests(tmp_path) == [Command("a", ("/tests/a",)), Command("b", ("/tests/b",))]


def test_a_command_that_cannot_be_typed_is_refused_before_any_test(tmp_path: Path) -> None:
    point = Point(options(tmp_path), tmp_path / "none", b"")
    with pytest.raises(GuestError, match="at most 8000 bytes"):
        list(run_all(point, [Command("long", ("x" * steps.MOST_TYPED,))], Limits(None, 60), 1))
