"""The example scripts run as a stranger would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_machine_example_runs_looks_and_reads_records() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "machine.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    reached, used, ended, records, *where, last = result.stdout.splitlines()
    assert reached.startswith("until: <PE 0: EL1 at 0x")
    assert " in main, X0 is " in reached
    assert "SPE registers were used, PMSIRR_EL1 is PMSIRR_EL1(" in used
    assert ended.startswith("exit, status 0: ")
    assert records.endswith(" bytes")
    assert sum(int(line.split()[0]) for line in where) <= int(records.split()[0])
    assert any("copy" in line for line in where)
    assert last.startswith("its last line: ")


def test_the_plugin_example_prints_its_records_and_what_its_own_hooks_saw() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "plugin.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    *records, summary, hooks = result.stdout.splitlines()
    # 20,000 rounds of 4 operations, of which each 1009th is sampled
    assert summary == f"{80_000 // 1009} records of 80000 operations"
    assert hooks == "hooks of this script saw 20000 loops and 20000 stores"
    assert len(records) == 80_000 // 1009
    # round and operation of the loop in turn: 1009 operations on is one further in the loop
    for number, line in enumerate(records, 1):
        at = (1009 * number - 1) % 4
        assert f"VA={0x10_0000 + 4 * at:#x})" in line.split(" DataAddress")[0], line
