from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.sweep
def test_the_access_tests_take_every_branch_of_the_access_module(tmp_path: Path) -> None:
    module = "spe_unicorn/arch/access/verdicts.py"
    data, report = tmp_path / "data", tmp_path / "coverage.json"
    coverage = [sys.executable, "-m", "coverage"]
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    tests += ["tests/arch/access/test_access.py"]
    run = [*coverage, "run", "--branch", f"--include={module}", f"--data-file={data}", *tests]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True)
    make = [*coverage, "json", f"--data-file={data}", "-o", str(report), "-q"]
    subprocess.run(make, cwd=ROOT, check=True, capture_output=True)
    covered = json.loads(report.read_text())["files"][module]
    assert covered["missing_lines"] == []
    assert covered["missing_branches"] == []
    assert covered["summary"]["num_branches"] > 0
