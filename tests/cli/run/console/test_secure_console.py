"""The second UART of a board with ``--secure``, to which EL3 firmware prints when it crashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.cli.run.console import Lines
from tests.support import a64 as a
from tests.support.small_programs import EXIT_7, program

UART, SECURE_UART = 0x0900_0000, 0x0904_0000


def prints(uart: int, text: bytes) -> list[int]:
    """Instructions that write ``text`` to a UART."""
    words = a.mov64(1, uart)
    for byte in text:
        words += [a.movz(0, byte), a.str_(0, 1, size=2)]
    return words


@pytest.fixture
def monitor(tmp_path: Path) -> str:
    """Firmware of EL3 that prints on both UARTs, its last line without an end, and exits with 7."""
    words = [
        *prints(UART, b"hello\n"),
        *prints(SECURE_UART, b"PANIC at\r\nx30 = 0x1\n\x1b[2J"),
    ]
    if len(words) % 2:
        words.append(a.NOP)
    return program(tmp_path, a.code(words) + EXIT_7)


LINES = "secure: PANIC at\nsecure: x30 = 0x1\nsecure: \\x1b[2J\n"
RAW = b"PANIC at\r\nx30 = 0x1\n\x1b[2J"


def test_by_default_its_lines_go_to_standard_error_and_stay_where_all_is_to_be_quiet(
    command: Callable[..., Any], monitor: str
) -> None:
    result = command("run", "-q", "--secure", monitor, status=7)
    assert (result.stdout, result.stderr) == ("hello\n", LINES)
    result = command("run", "--secure", "--secure-console", "stderr", monitor, status=7)
    assert result.stderr.startswith(f"{LINES}spe-unicorn: exit status 7\n")


def test_it_can_go_to_a_file_byte_by_byte(
    command: Callable[..., Any], monitor: str, tmp_path: Path
) -> None:
    file = tmp_path / "panic.txt"
    options = ("--secure", "--secure-console", f"file:{file}")
    result = command("run", "-q", *options, monitor, status=7)
    assert (result.stdout, result.stderr, file.read_bytes()) == ("hello\n", "", RAW)


@pytest.mark.parametrize("console", ["stdio", "none"])
def test_it_can_go_to_standard_output_or_nowhere(
    command: Callable[..., Any], monitor: str, console: str
) -> None:
    for first in ("stdio", "none"):
        options = ("--secure", "--secure-console", console, "--console", first)
        result = command("run", "-q", *options, monitor, status=7)
        expected = (b"hello\n" if first == "stdio" else b"") + (RAW if console == "stdio" else b"")
        assert (result.stdout_bytes, result.stderr) == (expected, "")


def test_without_the_second_uart_there_is_nothing_to_choose(
    command: Callable[..., Any], monitor: str, tmp_path: Path
) -> None:
    left = tmp_path / "console.txt"
    options = ("--secure-console", "stderr", "--console", f"file:{left}")
    result = command("run", *options, monitor, status=2)
    assert "--secure-console: the second UART is there with --secure only" in result.stderr
    assert not left.exists()


@pytest.mark.parametrize("text", ["stdin", "file:"])
def test_another_word_is_refused(command: Callable[..., Any], monitor: str, text: str) -> None:
    assert (
        "--secure-console"
        in command("run", "--secure", "--secure-console", text, monitor, status=2).stderr
    )


def test_a_line_that_never_ends_comes_out_in_pieces() -> None:
    printed: list[str] = []
    lines = Lines("> ", printed.append)
    for _ in range(5000):
        lines.write(b"ab")
    assert printed == ["> " + "ab" * 2048 + "\n"] * 2
    lines.write(b"\xff\n")
    assert printed[2:] == ["> " + "ab" * 904 + "\\xff\n"]
    lines.close()
    assert len(printed) == 3
