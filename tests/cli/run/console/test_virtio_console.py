"""``--virtio-console``: where it leads, and what is typed at it (``firmware/virtio_console``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.reproduce import command_line
from tests.support import a64 as a
from tests.support.small_programs import EXIT_7, program

FIRMWARE = str(shipped_firmware("virtio_console"))
EMERG_WR, UART = 0x0A00_3F08, 0x0900_0000
SAID = "!\nyour name? hello, Ada\n"


@pytest.fixture
def hasty(tmp_path: Path) -> str:
    """Firmware that prints by the emergency write, on the UART as well, and exits with 7."""
    words = []
    for place, text in ((UART, b"first\n"), (EMERG_WR, b"virtio\x1b\nend"), (UART, b"last\n")):
        words += a.mov64(1, place)
        for byte in text:
            words += [a.movz(0, byte), a.str_(0, 1, size=2)]
    if len(words) % 2:
        words.append(a.NOP)
    return program(tmp_path, a.code(words) + EXIT_7)


def test_what_is_typed_goes_to_it_and_what_it_prints_to_standard_output(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    uart = tmp_path / "uart"
    options = ("-q", "--virtio-console", "stdio", "--console", f"file:{uart}")
    result = command("run", *options, FIRMWARE, stdin=b"Ada\nnot read")
    assert result.stdout == SAID
    assert uart.read_text().endswith("1..18\n")


def test_both_consoles_print_in_the_order_in_which_the_guest_does(
    command: Callable[..., Any],
) -> None:
    result = command("run", "-q", "--virtio-console", "stdio", FIRMWARE, stdin=b"Ada\n")
    before, _, after = result.stdout.partition("your name? ")
    assert before.endswith("ok 10 - nothing is printed\n")
    assert after.startswith("ok 11 - a prompt is\n")


def test_two_runs_with_input_of_a_file_are_the_same_operation_by_operation(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    counts = []
    for name in ("one", "two"):
        facts = tmp_path / name
        options = ("-q", "--virtio-console", "stdio", "--json", str(facts))
        command("run", *options, FIRMWARE, stdin=b"Ada\n")
        counts.append(json.loads(facts.read_text())["operations"])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("where", ["stderr", "none", "file"])
def test_its_output_goes_to_standard_error_to_a_file_or_nowhere(
    command: Callable[..., Any], hasty: str, where: str, tmp_path: Path
) -> None:
    file = tmp_path / "out"
    to = f"file:{file}" if where == "file" else where
    result = command("run", "-q", "--virtio-console", to, hasty, status=7)
    assert result.stdout == "first\nlast\n"
    lines = "virtio: virtio\\x1b\nvirtio: end\n" if where == "stderr" else ""
    assert result.stderr == lines
    if where == "file":
        assert file.read_bytes() == b"virtio\x1b\nend"


def test_without_the_option_the_place_is_empty(command: Callable[..., Any], hasty: str) -> None:
    result = command("run", "-q", hasty, status=7)
    assert (result.stdout, result.stderr) == ("first\nlast\n", "")


@pytest.mark.parametrize("text", ["stdin", "file:"])
def test_another_word_is_refused(command: Callable[..., Any], hasty: str, text: str) -> None:
    assert "--virtio-console" in command("run", "--virtio-console", text, hasty, status=2).stderr


def test_a_snapshot_at_its_prompt_goes_on_with_what_is_typed_then(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    saved = str(tmp_path / "prompt.snap")
    virtio = ("--virtio-console", "stdio", "--console", "none")
    at = ("--snapshot-at", "console:name? ", "--snapshot", saved, "--max-insns", "100000")
    assert command("run", "-q", *virtio, *at, FIRMWARE, status=124).stdout == "!\nyour name? "
    result = command("run", "-q", "--restore", saved, *virtio, FIRMWARE, stdin=b"Ada\n")
    assert result.stdout == "hello, Ada\n"
    result = command(
        "run", "-q", "--restore", saved, "--max-insns", "1000000", FIRMWARE, status=124
    )
    assert "hello" not in result.stdout + result.stderr  # nobody types at it


def test_the_command_that_does_the_same_names_it() -> None:
    options = MachineOptions(FIRMWARE, virtio_console=True)
    assert "--virtio-console stdio" in command_line(options)
