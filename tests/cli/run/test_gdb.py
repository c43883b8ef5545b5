"""``run --gdb`` as a user starts it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.debug.gdb.packets import frame
from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.small_programs import EXIT_7, LOOP, program


def started(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "spe_unicorn", "run", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit_cpu,
    )


def connected(run: subprocess.Popen[str]) -> socket.socket:
    assert run.stderr is not None
    line = run.stderr.readline()
    assert "target remote" in line
    host, _, port = line.split()[-1].rpartition(":")
    client = socket.create_connection((host, int(port)), timeout=WALL_SECONDS)
    client.settimeout(WALL_SECONDS)
    return client


def test_kill_ends_with_137(tmp_path: Path) -> None:
    with started("--gdb", "0", str(program(tmp_path, LOOP))) as run, connected(run) as client:
        client.sendall(frame(b"k"))
        _, said = run.communicate(timeout=WALL_SECONDS)
    assert run.returncode == 137
    assert "GDB killed the run; exit status 137" in said


def test_the_time_limit_stands_still_while_gdb_holds_the_machine(tmp_path: Path) -> None:
    firmware = str(program(tmp_path, EXIT_7))
    with (
        started("--gdb", "0", "--timeout", "1", firmware) as run,
        connected(run) as client,
    ):
        client.sendall(frame(b"?"))
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(3)
        client.sendall(frame(b"D"))
        run.communicate(timeout=WALL_SECONDS)
    assert run.returncode == 7


def test_with_gdb_continue_nothing_waits(tmp_path: Path) -> None:
    file = str(program(tmp_path, EXIT_7))
    with started("--gdb", f"unix:{tmp_path}/socket", "--gdb-continue", file) as run:
        run.communicate(timeout=WALL_SECONDS)
    assert run.returncode == 7
    assert not os.path.exists(tmp_path / "socket")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gdb", "x"), "'x' is no place to listen at: write PORT, HOST:PORT or unix:PATH"),
        (("--gdb", "70000"), "a port is a number up to 65535"),
        (("--gdb", "unix:"), "the path of the socket is missing after the colon"),
        (("--gdb", "unix:/no/such/folder/socket"), "No such file or directory"),
        (("--gdb", "192.0.2.1:1234"), "GDB cannot connect to 192.0.2.1:1234"),
        (("--gdb-continue",), "--gdb-continue is about the debugger of --gdb"),
        (("-s",), "QEMU's -s: here it is --gdb 1234 --gdb-continue"),
        (("-S",), "QEMU's -S: here it is --gdb 1234, which waits for GDB"),
    ],
)
def test_wrong_words_are_refused(
    command: Callable[..., Any], tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    result = command("run", *options, str(program(tmp_path, EXIT_7)), status=2)
    assert said in result.stderr


def test_a_port_that_is_taken_is_a_sentence(command: Callable[..., Any], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = command("run", "--gdb", port, str(program(tmp_path, EXIT_7)), status=2)
    assert f"GDB cannot connect to 127.0.0.1:{port}: Address already in use" in result.stderr
