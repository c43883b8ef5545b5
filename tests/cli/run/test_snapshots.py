"""Snapshots by ``run --snapshot`` and ``run --restore``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn import Machine, write_snapshot
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.small_programs import LOOP, program

DRIVER = str(shipped_firmware("spe_irq_el1"))
HELLO = str(shipped_firmware("hello"))


@pytest.fixture
def saved(command: Callable[..., Any], tmp_path: Path) -> str:
    file = str(tmp_path / "driver.snap")
    command("run", "-q", "--snapshot-at", "400000", "--snapshot", file, DRIVER)
    return file


def test_a_restored_run_ends_as_the_one_that_saved(
    command: Callable[..., Any], run_json: Callable[..., Any], saved: str, tmp_path: Path
) -> None:
    whole = run_json("run", "-o", str(tmp_path / "whole.spe"), DRIVER)
    rest = run_json("run", "--restore", saved, "-o", str(tmp_path / "rest.spe"), DRIVER)
    del whole["host"], rest["host"]
    assert rest == whole
    records = (tmp_path / "whole.spe").read_bytes()
    behind = (tmp_path / "rest.spe").read_bytes()
    assert 0 < len(behind) < len(records)
    assert records.endswith(behind)


def test_the_run_that_saves_runs_on(command: Callable[..., Any], tmp_path: Path) -> None:
    file = str(tmp_path / "hello.snap")
    result = command("run", "-q", "--snapshot-at", "console:from", "--snapshot", file, HELLO)
    assert result.stdout == "Hello from bare metal AArch64\n"
    assert command("run", "-q", "--restore", file, HELLO).stdout == " bare metal AArch64\n"


def test_a_limit_counts_from_the_beginning_of_the_run(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    loop, file = str(program(tmp_path, LOOP)), str(tmp_path / "loop.snap")
    save = ("--snapshot-at", "1000", "--snapshot", file)
    result = command("run", *save, "--max-insns", "5000", loop, status=124)
    assert "the limit of 5000 operations was reached" in result.stderr
    assert "5000 operations in" in result.stderr
    result = command("run", "--restore", file, "--max-insns", "10", loop, status=124)
    assert "  1010 operations, 10 of them since the snapshot, in " in result.stderr


def test_a_point_that_is_not_reached_is_a_sentence(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "none.snap"
    result = command(
        "run", "-q", "--snapshot-at", "1000000", "--snapshot", str(file), HELLO, status=2
    )
    assert result.stderr == "spe-unicorn: 1000000 was not reached: no snapshot was written\n"
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--snapshot-at", "1"), "--snapshot-at needs --snapshot"),
        (("--snapshot", "x.snap"), "--snapshot needs --snapshot-at"),
        (("--snapshot-at", "1", "--snapshot", "/dev/null"), "is no regular file"),
        (("--snapshot-at", "1", "--snapshot", "/none/x"), "/none is no directory"),
        (("--snapshot-at", "nobody", "--snapshot", "x.snap"), "has no symbol 'nobody'"),
        (("--restore", "/none"), "/none: No such file"),
        (("--restore", HELLO), "is no snapshot"),
    ],
)
def test_what_cannot_be_is_refused(
    command: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    assert said in command("run", *arguments, HELLO, status=2).stderr


def test_options_that_were_said_again_have_to_match(
    command: Callable[..., Any], saved: str
) -> None:
    command("run", "-q", "--restore", saved, "--smp", "1", "--ram", "128M", DRIVER)
    for option, said in (
        (("--smp", "2"), "--smp is 2 here and 1 in the snapshot"),
        (("--core", "max"), "--core: the profile differs"),
        (("--seed", "1"), "--seed is 1 here and 0 in the snapshot"),
        (("--el", "2"), "--el is 2 here and not said in the snapshot"),
        (("--virtio-console", "stdio"), "--virtio-console is on here and off in the snapshot"),
        (("--fw-cfg", f"opt/x={HELLO}"), f"--fw-cfg is 'opt/x={HELLO}' here and not said in"),
        (("--no-reboot",), "--no-reboot: what a reset of the machine does differs"),
        ((HELLO,), "what is loaded differs"),
    ):
        firmware = () if option == (HELLO,) else (DRIVER,)
        assert said in command("run", "--restore", saved, *option, *firmware, status=2).stderr


# What a file names


def forged(path: str, options: dict[str, object]) -> None:
    """Change options in the header of a snapshot; its digest is right again."""
    line, rest = Path(path).read_bytes().split(b"\n", 1)
    length = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + length])
    header["options"].update(options)
    new = json.dumps(header).encode()
    body = line + b"\n" + len(new).to_bytes(8, "little") + new + rest[8 + length : -32]
    Path(path).write_bytes(body + hashlib.blake2b(body, digest_size=32).digest())


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder of somebody: files and folders that no command line names."""
    folder = tmp_path / "host"
    (folder / "calls").mkdir(parents=True)
    (folder / "share").mkdir()
    for name, size in (("disk", 8192), ("flash", 64 << 20), ("data", 4096)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    return folder


def test_a_restore_opens_no_firmware_that_was_not_named(
    command: Callable[..., Any], saved: str
) -> None:
    said = command("run", "--restore", saved, status=2).stderr
    assert said == (
        f"Error: {saved}: a restore opens files and folders that its own command line names, and no"
        f" others: name {DRIVER}, as far as it is to be opened\n"
    )


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"semihosting_dir": "{0}/calls"}, "--semihosting-dir {0}/calls"),
        ({"share": ["{0}/share"]}, "--share {0}/share"),
        ({"share": ["{0}/share,readonly"]}, "--share {0}/share,readonly"),
        ({"drive": ["{0}/disk,write"]}, "--drive {0}/disk,write"),
        ({"drive": ["{0}/disk"], "entropy": True}, "--drive {0}/disk"),
        ({"pflash": ["{0}/flash", "{0}/flash"]}, "--pflash {0}/flash --pflash {0}/flash"),
        ({"fw_cfg": ["opt/x={0}/data"]}, "--fw-cfg opt/x={0}/data"),
        ({"load": ["{0}/data@0x40000000"]}, "--load {0}/data@0x40000000"),
        ({"bios": "{0}/data"}, "--bios {0}/data"),
        ({"kernel": "{0}/data"}, "--kernel {0}/data"),
        ({"initrd": "{0}/data"}, "--initrd {0}/data"),
        ({"dtb": "{0}/data"}, "--dtb {0}/data"),
        ({"core": "{0}/data"}, "--core {0}/data"),
        ({"core": "{0}/data.toml,midr=1"}, "--core {0}/data.toml,midr=1"),
    ],
)
def test_a_forged_snapshot_opens_nothing_of_the_host(
    command: Callable[..., Any],
    saved: str,
    host: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, bool | list[str]] | dict[str, list[str]] | dict[str, str],
    named: str,
) -> None:
    texts = json.loads(json.dumps(options).replace("{0}", str(host)))
    forged(saved, texts)
    opened: list[str] = []
    monkeypatch.setattr(
        "spe_unicorn.session.machine.Machine.__init__", lambda *a, **k: opened.append("a machine")
    )
    said = command("run", "--restore", saved, DRIVER, status=2).stderr
    assert f"and no others: name {named.format(host)}, as far as" in said
    assert opened == []


def test_a_snapshot_with_a_semihosting_folder_needs_it_named(
    command: Callable[..., Any], tmp_path: Path, host: Path
) -> None:
    file, calls = str(tmp_path / "calls.snap"), str(host / "calls")
    save = ("--snapshot-at", "100", "--snapshot", file)
    command("run", "-q", *save, "--semihosting-dir", calls, HELLO)
    said = command("run", "-q", "--restore", file, HELLO, status=2).stderr
    assert f"name --semihosting-dir {calls}, as far as" in said
    command("run", "-q", "--restore", file, "--semihosting-dir", calls, HELLO)


def test_what_a_snapshot_needs_is_said_in_words_that_a_shell_takes(
    command: Callable[..., Any], saved: str
) -> None:
    forged(saved, {"load": ["a b;\x1b[2J@0", "x" * 5000]})
    said = command("run", "--restore", saved, DRIVER, status=2).stderr
    assert "--load 'a b;\\x1b[2J@0' --load xxx" in said
    assert said.endswith("x..., as far as it is to be opened\n")
    assert len(said) < 1500


def test_a_machine_that_had_ended_is_a_sentence(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "ended.snap"
    with Machine(HELLO) as machine:
        machine.run()
        write_snapshot(machine.save(), file)
    said = command("run", "--restore", str(file), HELLO, status=2).stderr
    assert (
        said == f"Error: {file}: its machine goes no further: the guest has ended with status 0\n"
    )


def test_more_memory_than_that_is_read_for_ram_that_was_said(
    command: Callable[..., Any], saved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.session.snapshot_file.MOST_MEMORY", 4096)
    said = command("run", "-q", "--restore", saved, DRIVER, status=2).stderr
    assert "MiB of memory; 0 MiB are read unless --ram says more" in said
    command("run", "-q", "--restore", saved, "--ram", "128M", DRIVER)
