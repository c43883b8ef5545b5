"""A failed run leaves a snapshot from before its end, and the command that looks at it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware

PLAN = """
[campaign]
name = "planted"
[[runs]]
firmware = "planted.elf"
check = [["text"], []]
arguments = ["text"]
"""


def test_a_failed_run_can_be_looked_at_from_before_its_end(tmp_path: Path) -> None:
    shutil.copy(shipped_firmware("planted"), tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    words = ["campaign", "-j", "1", str(tmp_path / "plan.toml"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1, done.output
    (snapshot,) = (tmp_path / "out" / "runs").glob("*/before.snapshot")
    assert "check: text at 0x" in (snapshot.parent / "report.txt").read_text()
    (command,) = (line for line in done.output.splitlines() if "--restore" in line)
    again = shlex.split(command)[1:]
    assert again[again.index("--restore") + 1] == str(snapshot)
    at = again.index("--gdb")
    looked = CliRunner().invoke(main, [*again[:at], *again[at + 2 :]])
    assert looked.exit_code == 0, looked.output
    assert "ok 5 - the timer came" in looked.output
