"""The keywords of Machine are the options of MachineOptions, with their types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.machine.options import KINDS_OF_OPTIONS
from spe_unicorn.session.keywords import MachineKeywords


def test_the_keywords_are_the_options() -> None:
    expected = {
        name: kind.replace("tuple[str, ...]", "Texts")
        for name, kind in KINDS_OF_OPTIONS.items()
        if name != "firmware"
    }
    declared = MachineKeywords.__annotations__
    assert {name: kind.__forward_arg__ for name, kind in declared.items()} == expected


@pytest.mark.slow
def test_a_type_checker_knows_them(tmp_path: Path) -> None:
    program = tmp_path / "made.py"
    program.write_text(
        "from spe_unicorn import Machine\n"
        'Machine("a.elf", smp=2, share=["out"], core="max", sampling=None)\n'
        'Machine("a.elf", smp="two")\n'
        'Machine("a.elf", sinp=2)\n'
        'count: int = Machine("a.elf").records.where(op="load").count\n'
        'count = Machine("a.elf").records[0]\n'
    )
    command = [sys.executable, "-m", "mypy", "--no-incremental", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert lines == ["3", "4", "6"], done.stdout
