"""What comes in on standard input reaches the guest's UART (``firmware/uart_echo``)."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import a64
from tests.support.running.processes import WALL_SECONDS
from tests.support.small_programs import program

END = b"\x04"
LONG = b"more than the sixteen characters of the FIFO"


def test_input_in_a_file_is_read_whole(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    result = command("run", "-q", firmware("uart_echo"), stdin=LONG + b"\n" + END)
    assert result.stdout == LONG.decode().upper() + "\nbye\n"


def test_equal_files_are_read_at_equal_operations(
    start: Callable[..., Any], firmware: Callable[..., Any], tmp_path: Path
) -> None:
    typed = tmp_path / "typed"
    typed.write_bytes(LONG + END)
    ends = []
    for _ in range(2):
        with typed.open("rb") as file:
            process = start("run", firmware("uart_echo"), stdin=file, stdout=subprocess.PIPE)
            out, err = process.communicate(timeout=WALL_SECONDS)
        assert (process.returncode, out) == (0, LONG.upper() + b"bye\n")
        ends.append(
            next(line for line in err.splitlines() if b" operations in " in line).split()[0]
        )
    assert len(ends) == 2
    assert ends[0] == ends[1]


def test_input_that_comes_late_is_waited_for(
    start: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    process = start(
        "run", "-q", firmware("uart_echo"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdin.write(b"a")
    process.stdin.flush()
    assert process.stdout.read(1) == b"A"
    process.stdin.write(END)
    process.stdin.flush()
    assert process.stdout.read() == b"bye\n"
    assert process.wait(timeout=WALL_SECONDS) == 0


def test_a_guest_that_polls_shows_its_prompt_and_gets_what_comes_late(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    """It never sleeps: most of its looks for input find nothing, and nobody is asked."""
    send, look, nothing_came = a64.str_(2, 1, 0, size=0), a64.ldr(3, 1, 0x18, size=2), 4
    echo = [look, a64.tbnz(3, nothing_came, -4), a64.ldr(2, 1, 0, size=2), send, a64.b(-16)]
    code = [*a64.mov64(1, 0x0900_0000), a64.movz(2, ord("?")), send, *echo]
    process = start(
        "run",
        "-q",
        program(tmp_path, a64.code(code)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.read(1) == b"?"
    for key in b"a", b"bc":
        process.stdin.write(key)
        process.stdin.flush()
        assert process.stdout.read(len(key)) == key
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=WALL_SECONDS) == 130


def test_several_pes_wait_for_input_as_well(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    result = command("run", "-q", "--smp", "2", firmware("uart_echo"), stdin=b"hi" + END)
    assert result.stdout == "HIbye\n"


def test_at_the_end_of_input_nothing_can_wake_the_guest(
    start: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    process = start("run", firmware("uart_echo"), stdout=subprocess.PIPE)
    _, err = process.communicate(timeout=WALL_SECONDS)
    assert process.returncode == 125
    assert b"nothing can ever raise one" in err


def test_without_a_console_nothing_is_read(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    command("run", "-q", "--console", "none", firmware("uart_echo"), stdin=b"a", status=125)


def test_a_terminal_gives_each_key_and_is_left_as_it_was(
    start: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = start("run", "-q", firmware("uart_echo"), stdin=theirs, stdout=subprocess.PIPE)
    os.write(ours, b"k")  # no end of line
    assert process.stdout.read(1) == b"K"
    os.write(ours, END)
    assert process.stdout.read() == b"bye\n"
    assert process.wait(timeout=WALL_SECONDS) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_enter_is_a_carriage_return_and_ctrl_s_a_key(
    start: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    """As on a serial line: the shell of UEFI takes nothing else for the end of a line."""
    ours, theirs = pty.openpty()
    process = start("run", "-q", firmware("uart_echo"), stdin=theirs, stdout=subprocess.PIPE)
    os.write(ours, b"k")
    assert process.stdout.read(1) == b"K"  # from here on keys come one by one
    os.write(ours, b"\r\n\x13" + END)
    assert process.stdout.read() == b"\r\n\x13bye\n"
    assert process.wait(timeout=WALL_SECONDS) == 0
    os.close(ours)
    os.close(theirs)


def test_waiting_for_a_key_ends_with_ctrl_c(
    start: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = start("run", "-q", firmware("uart_echo"), stdin=theirs, stdout=subprocess.PIPE)
    os.write(ours, b"k")
    assert process.stdout.read(1) == b"K"
    time.sleep(0.2)  # it waits
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=WALL_SECONDS) == 130
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
