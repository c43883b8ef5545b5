"""scripts/slow-tests on tests of its own: what it runs, and what it makes of it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "slow_tests"
PASSING = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_passing(number): pass
def test_quick(): raise AssertionError("it is not slow")
"""
FAILING = """
import pytest
@pytest.mark.slow
def test_failing(): assert 6 * 9 == 42
"""
ENDLESS = """
import time
import pytest
@pytest.mark.slow
def test_endless(): time.sleep(3600)
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_tests_main", SCRIPT / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def slow_tests(folder: Path, text: str, minutes: float) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (folder / "test_slow.py").write_text(text)
    return subprocess.run(
        [sys.executable, SCRIPT, "--minutes", str(minutes), "--order", "a", "--jobs", "2"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


def test_slow_tests_run_and_no_others(tmp_path: Path) -> None:
    result = slow_tests(tmp_path, PASSING, 1)
    assert result.returncode == 0, result.stdout
    assert "slow tests: 8 of 8 ran and passed, 0 were stopped by the time" in result.stdout


def test_a_failing_test_fails_the_run_and_is_shown(tmp_path: Path) -> None:
    result = slow_tests(tmp_path, PASSING + FAILING, 1)
    assert result.returncode == 1
    assert "assert (6 * 9) == 42" in result.stdout
    assert "repeat with: pytest " in result.stdout


@pytest.mark.sweep
def test_a_test_that_the_time_stops_is_no_failure(tmp_path: Path) -> None:
    result = slow_tests(tmp_path, ENDLESS, 0.15)
    assert result.returncode == 0, result.stdout
    assert "slow tests: 0 of 1 ran and passed, " in result.stdout


def test_tests_that_cannot_be_collected_are_an_error(tmp_path: Path) -> None:
    result = slow_tests(tmp_path, "import nothing_of_that_name", 1)
    assert result.returncode == 2
    assert "nothing_of_that_name" in result.stdout


def test_every_commit_has_an_order_of_its_own(script: ModuleType) -> None:
    tests = [f"tests/test_a.py::test[{n}]" for n in range(100)]
    first, second = script.in_order(tests, "1a"), script.in_order(tests, "1b")
    assert first == script.in_order(tests, "1a")
    assert sorted(first) == sorted(second) == sorted(tests)
    assert first != second


def test_over_some_commits_every_test_is_run(script: ModuleType) -> None:
    """If each commit has time for a quarter of them, forty leave nothing out."""
    tests = [f"tests/test_a.py::test[{n}]" for n in range(569)]
    run: set[str] = set()
    for commit in range(40):
        run |= set(script.in_order(tests, f"{commit:040x}")[: len(tests) // 4])
    assert run == set(tests)


def test_a_tenth_of_the_others_runs_without_accelerators(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    (tmp_path / "test_fast.py").write_text(
        """
import os
import pytest
@pytest.mark.parametrize("number", range(41))
def test_fast(number):
    assert os.environ["SPE_UNICORN_ACCELERATORS"] == "none"
@pytest.mark.slow
def test_slow(): raise AssertionError("it is slow")
"""
    )
    words = ["--minutes", "1", "--order", "a", "--without-accelerators"]
    result = subprocess.run(
        [sys.executable, SCRIPT, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert result.returncode == 0, result.stdout
    assert "without accelerators: 5 of 5 ran and passed, 0 were stopped" in result.stdout
