"""Snapshots by ``run --snapshot`` and ``run --restore``."""

from __future__ import annotations

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.small_programs import LOOP, program

DRIVER = str(shipped_firmware("spe_irq_el1"))
HELLO = str(shipped_firmware("hello"))


@pytest.fixture
def saved(command, tmp_path) -> str:
    file = str(tmp_path / "driver.snap")
    command("run", "-q", "--snapshot-at", "400000", "--snapshot", file, DRIVER)
    return file


def test_a_restored_run_ends_as_the_one_that_saved(command, run_json, saved, tmp_path):
    whole = run_json("run", "-o", str(tmp_path / "whole.spe"), DRIVER)
    rest = run_json("run", "--restore", saved, "-o", str(tmp_path / "rest.spe"))
    del whole["host"], rest["host"]
    assert rest == whole
    records = (tmp_path / "whole.spe").read_bytes()
    behind = (tmp_path / "rest.spe").read_bytes()
    assert 0 < len(behind) < len(records)
    assert records.endswith(behind)


def test_the_run_that_saves_runs_on(command, tmp_path):
    file = str(tmp_path / "hello.snap")
    result = command("run", "-q", "--snapshot-at", "console:from", "--snapshot", file, HELLO)
    assert result.stdout == "Hello from bare metal AArch64\n"
    assert command("run", "-q", "--restore", file).stdout == " bare metal AArch64\n"


def test_a_limit_counts_from_the_beginning_of_the_run(command, tmp_path):
    loop, file = str(program(tmp_path, LOOP)), str(tmp_path / "loop.snap")
    save = ("--snapshot-at", "1000", "--snapshot", file)
    result = command("run", *save, "--max-insns", "5000", loop, status=124)
    assert "the limit of 5000 operations was reached" in result.stderr
    assert "5000 operations in" in result.stderr
    result = command("run", "--restore", file, "--max-insns", "10", status=124)
    assert "  1010 operations, 10 of them since the snapshot, in " in result.stderr


def test_a_point_that_is_not_reached_is_a_sentence(command, tmp_path):
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
def test_what_cannot_be_is_refused(command, arguments, said):
    assert said in command("run", *arguments, HELLO, status=2).stderr


def test_options_that_were_said_again_have_to_match(command, saved):
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
        assert said in command("run", "--restore", saved, *option, status=2).stderr
