"""scripts/linux --rate: its leanest machine, and how both are measured."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.machine import Machine
from tests.scripts.linux_modules import LINUX, ROOT, importable, module

PREBUILT = ROOT / "firmware" / "prebuilt"


@pytest.fixture(scope="module", autouse=True)
def _importable():
    with importable():
        yield


def machine(program: str, output: bytearray) -> Machine:
    options = MachineOptions(str(PREBUILT / f"{program}.elf"))
    return Machine(options, console=ConsoleEnds(write=output.extend), records=False)


@pytest.mark.parametrize("program", ["hello", "exceptions", "priv_timer"])
def test_the_leanest_machine_executes_what_the_machine_does(program):
    said, lean_said = bytearray(), bytearray()
    outcome = machine(program, said).run()
    lean = module("lean").Lean(machine(program, lean_said).board)
    lean.run()
    assert lean_said == said
    assert said
    assert lean.operations == pytest.approx(outcome.operations, rel=0.01)


@pytest.mark.parametrize("kind", ["lean", "whole"])
def test_a_machine_is_measured_in_a_process_of_its_own(kind, tmp_path):
    (disk := tmp_path / "initrd").write_bytes(b"no archive")
    kernel = str(PREBUILT / "hello.elf")
    words = [sys.executable, str(LINUX / "rate.py"), kind, kernel, str(disk)]
    found = json.loads(subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout)
    assert found["rate"] > 0
    assert found["marks"] == {}
