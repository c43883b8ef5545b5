"""Which shipped program shows a choice, as docs/reference/choices.md says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spe_unicorn.arch.rules.choices import CHOICE
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.machine import Machine

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/choices.md"
ROWS = re.findall(r"^\| `(\w+)` \| `(\S+)` \| `(.+?)` \|$", PAGE.read_text(), re.M)
QUICK = ("buffer_locked", "programming_denied")


def passes(core: str, command: str) -> bool:
    """Whether a shipped program, with its arguments, passes on a core."""
    program, *arguments = command.split()
    options = MachineOptions(shipped_firmware(program), core=core, arguments=tuple(arguments))
    with Machine(options, records=False) as machine:
        run = machine.run(6_000_000)
        return run.exit_status == 0 and "not ok" not in machine.console.text


def test_each_row_is_of_a_choice_and_stands_once() -> None:
    names = [name for name, _, _ in ROWS]
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
