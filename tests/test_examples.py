"""The example scripts run as a stranger would run them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

ROOT = Path(__file__).resolve().parents[1]
IGNORED = shutil.ignore_patterns("__pycache__")


def test_the_machine_example_runs_looks_and_reads_records() -> None:
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "machine.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
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
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
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


@pytest.mark.sweep
def test_the_regression_suite_is_green_and_red_when_a_golden_record_is_changed(
    tmp_path: Path,
) -> None:
    suite = tmp_path / "regression"
    shutil.copytree(ROOT / "examples" / "regression", suite, ignore=IGNORED)

    def tested(*chosen: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite), *chosen],
            capture_output=True,
            text=True,
            timeout=WALL_SECONDS,
            preexec_fn=limit_cpu,
        )

    green = tested()
    assert green.returncode == 0, green.stdout
    golden = suite / "golden" / "copy.spe"
    changed = bytearray(golden.read_bytes())
    changed[1] ^= 4
    golden.write_bytes(changed)
    red = tested("-k", "last_release")
    assert red.returncode == 1
    assert " 1 differ\n" in red.stdout
    assert "--spe-update-golden writes it anew" in red.stdout
    assert "spe-unicorn run --seed 1 " in red.stdout


def test_the_notebook_runs_from_the_run_to_the_plot() -> None:
    notebook = json.loads((ROOT / "examples" / "records.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in code)
    names: dict[str, Any] = {}
    for number, cell in enumerate(code):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert len(names["recording"]) > 1000
    assert "bench_work" in names["by_function"].index
    assert sum(len(bars.x) for bars in names["figure"].data) == len(names["loads"]) > 100
    assert len(names["addresses"].data[0].y) == len(names["loads"])
