"""``--until POINT``: the run ends there, with exit status 0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.small_programs import EXIT_7, LOOP, program

HELLO = str(shipped_firmware("hello"))


@pytest.mark.parametrize(
    ("point", "printed"),
    [("100", ""), ("main", ""), ("console:bare", "Hello from bare")],
)
def test_a_run_ends_at_a_point_with_status_0(
    command: Callable[..., Any], run_json: Callable[..., Any], point: str, printed: str
) -> None:
    result = command("run", "--until", point, HELLO)
    assert result.stdout == printed
    assert f"spe-unicorn: {point} was reached; exit status 0\n" in result.stderr
    said = run_json("run", "--until", point, HELLO)
    assert (said["ending"], said["exit_status"]) == ("until", 0)
    assert said["cause"] == f"{point} was reached"


def test_a_guest_that_idles_for_ever_ends_well_at_its_line(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    loop = str(program(tmp_path, LOOP))
    assert "1000 was reached" in command("run", "--until", "1000", loop).stderr
    command("run", "-q", "--max-insns", "1000", loop, status=124)


def test_a_limit_that_comes_first_keeps_its_status(command: Callable[..., Any]) -> None:
    result = command("run", "-q", "--until", "console:bare", "--max-insns", "20", HELLO, status=124)
    assert result.stdout == ""


def test_a_guest_that_ends_before_with_status_0_fails(
    command: Callable[..., Any], run_json: Callable[..., Any]
) -> None:
    result = command("run", "--until", "console:FAILED", HELLO, status=4)
    cause = "the guest ended with status 0, and console:FAILED was not reached"
    assert f"spe-unicorn: {cause}; exit status 4\n" in result.stderr
    said = run_json("run", "--until", "console:FAILED", HELLO, status=4)
    assert (said["ending"], said["exit_status"], said["cause"]) == ("missed", 4, cause)


def test_a_guest_that_ends_before_with_a_status_keeps_it(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    command("run", "-q", "--until", "console:nix", str(program(tmp_path, EXIT_7)), status=7)


def test_mistakes_count_at_a_point_as_at_the_end(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    said = run_json(
        *("run", "--warn", "error", "--until", "setup_not_synchronized+0x10"),
        firmware("spe_misuse"),
        status=3,
    )
    assert said["ending"] == "misuse"
    assert "setup-not-synchronized" in [misuse["rule"] for misuse in said["misuses"]]


def test_a_recording_ends_there_too(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "hello.spe"
    result = command("record", "-q", "-c", "10", "-o", str(file), "--until", "console:bare", HELLO)
    assert result.stdout == "Hello from bare"
    assert file.stat().st_size > 0


def test_a_snapshot_may_be_of_the_point_where_the_run_ends(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = str(tmp_path / "hello.snap")
    save = ("--snapshot-at", "console:from", "--snapshot", file)
    assert command("run", "-q", *save, "--until", "console:from", HELLO).stdout == "Hello from"
    rest = command("run", "-q", "--restore", file, "--until", "console:metal", HELLO)
    assert rest.stdout == " bare metal"


def test_a_snapshot_that_comes_too_late_is_told(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "hello.snap"
    save = ("--snapshot-at", "console:metal", "--snapshot", str(file))
    result = command("run", "-q", *save, "--until", "console:from", HELLO, status=2)
    assert "console:metal was not reached: no snapshot was written" in result.stderr
    assert not file.exists()


def test_traces_have_points_of_their_own(command: Callable[..., Any]) -> None:
    options = ("--trace", "insn", "--trace-start", "main", "--until", "console:H")
    lines = command("run", "-q", *options, HELLO).stderr.splitlines()
    whole = command("run", "-q", "--trace", "insn", "--until", "console:H", HELLO)
    assert " <main" in lines[1]
    assert whole.stderr.endswith("\n".join(lines[1:]) + "\n")
    # the end comes first, so that the trace never stops
    never = ("--trace-stop", "console:metal")
    result = command("run", "-q", "--trace", "insn", "--until", "console:H", *never, HELLO)
    assert result.stderr == whole.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--until", "nobody"), "--until: hello.elf has no symbol 'nobody'"),
        (("--until", "12ab"), "'12ab' is no POINT"),
        (
            ("--until", "main", "--trace", "insn", "--trace-stop", "print"),
            "--trace-stop and --until are two addresses: one run looks for one of them at a time",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    command: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    assert said in command("run", *arguments, HELLO, status=2).stderr


def test_a_number_that_a_snapshot_is_beyond_is_refused(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = str(tmp_path / "hello.snap")
    command("run", "-q", "--snapshot-at", "100", "--snapshot", file, HELLO)
    result = command("run", "--restore", file, "--until", "99", HELLO, status=2)
    assert "--until: 100 operations have been executed already" in result.stderr
