"""The page on debugging a driver shows what GDB says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.gdb import GDB, with_gdb

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "debug-a-driver.md"


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_the_page_shows_what_gdb_says(tmp_path: Path) -> None:
    commands, shown = [], []
    for block in re.findall(r"```gdb\n(.*?)```", PAGE.read_text(), re.S):
        for line in block.splitlines():
            if line.startswith("(gdb) "):
                commands.append(line.removeprefix("(gdb) "))
            else:
                shown.append(line)
    machine = Machine(shipped_firmware("spe_misuse"), core="cortex-x4", el=2)
    session = with_gdb(machine, commands, tmp_path)
    said = iter(session.lines)
    assert [line for line in shown if line not in said] == []  # in this order
    assert len(shown) > 8
    assert session.outcome.exit_status == 0
