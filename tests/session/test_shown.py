"""Which shipped program shows a choice, as docs/reference/choices.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spe_unicorn.arch.rules.choices import CHOICE
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.machine import Machine
from tests.firmware.programs import MADE_FOR

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/choices.md"
ROWS = re.findall(r"^\| `(\w+)` \| `(\S+)` \| `(.+?)` \|$", PAGE.read_text(), re.M)
SEEN = re.findall(
    r"^\| `(\w+)` \| `(\S+)` \| `(\w+)` on `(\S+)` \| (console|records) \|$",
    PAGE.read_text(),
    re.M,
)
QUICK = ("buffer_locked", "programming_denied")


def passes(core: str, command: str) -> bool:
    """Whether a shipped program, with its arguments, passes on a core."""
    program, *arguments = command.split()
    made_for = {**MADE_FOR.get(program, {}), "core": core}
    options = MachineOptions(shipped_firmware(program), arguments=tuple(arguments), **made_for)
    with Machine(options, records=False) as machine:
        run = machine.run(6_000_000)
        return run.exit_status == 0 and "not ok" not in machine.console.text


def test_each_row_is_of_a_choice_and_stands_once() -> None:
    names = [row[0] for row in (*ROWS, *SEEN)]
    assert len(names) == len(set(names)) > 5
    assert set(names) <= CHOICE.keys()


@pytest.mark.parametrize(
    ("name", "value", "command"),
    [pytest.param(*row, marks=() if row[0] in QUICK else pytest.mark.slow) for row in ROWS],
)
def test_a_program_fails_with_the_value_and_passes_without(
    name: str, value: str, command: str
) -> None:
    assert passes("max", command)
    assert not passes(f"max,{name}={value}", command)


def seen(core: str, program: str) -> dict[str, str | bytes]:
    """What a shipped program prints and records on a core; it passes."""
    stream = bytearray()
    made_for = {**MADE_FOR.get(program, {}), "core": core}
    options = MachineOptions(shipped_firmware(program), **made_for)
    with Machine(options, records=False) as machine:
        for pe in machine.board.pes:
            pe.unit.streamed.connect(stream.extend)
        assert machine.run(12_000_000).exit_status == 0
        return {"console": machine.console.text, "records": bytes(stream)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value", "program", "core", "what"), SEEN)
def test_a_program_shows_the_value_and_passes_with_it(
    name: str, value: str, program: str, core: str, what: str
) -> None:
    usual, other = seen(core, program), seen(f"{core},{name}={value}", program)
    assert usual[what] != other[what]
    assert usual["console"] == other["console"] or what == "console"
