"""What is said of skipped tests; with SPE_UNICORN_NO_SKIPS, which CI sets, they fail instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.running.skips import package_for

ROOT = Path(__file__).resolve().parents[1]
BY_MARK = """
import pytest
@pytest.mark.skipif(True, reason="no perf here")
def test_of_perf(): pass
"""
IN_THE_TEST = """
import pytest
def test_of_perf(): pytest.skip("no perf here")
"""
WHOLE_FILE = """
import pytest
pytest.skip("no perf here", allow_module_level=True)
"""
TWO_REASONS = """
import pytest
@pytest.mark.skipif(True, reason="perf is not installed")
def test_of_perf(): pass
def test_of_perf_too(): pytest.skip("perf is not installed")
@pytest.mark.skipif(True, reason="inline counting is for Linux on x86-64")
def test_of_counting(): pass
"""
EXPECTED_FAILURE = """
import pytest
@pytest.mark.xfail(reason="known")
def test_of_perf(): raise ValueError
"""


def run_pytest(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    file = folder / "test_perf.py"
    file.write_text(text)
    inherited = {name: value for name, value in os.environ.items() if "SPE_UNICORN" not in name}
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "tests.conftest"),
            *("-p", "no:cacheprovider", "--rootdir", folder, file),
        ],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


@pytest.mark.parametrize("text", [BY_MARK, IN_THE_TEST, WHOLE_FILE])
def test_a_skipped_test_fails_with_its_reason(tmp_path: Path, text: str) -> None:
    result = run_pytest(tmp_path, text, SPE_UNICORN_NO_SKIPS="1")
    assert result.returncode != 0
    assert "no perf here" in result.stdout


def test_without_the_variable_it_is_skipped(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, BY_MARK)
    assert result.returncode == 0
    assert "1 skipped" in result.stdout


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, EXPECTED_FAILURE, SPE_UNICORN_NO_SKIPS="1")
    assert result.returncode == 0
    assert "1 xfailed" in result.stdout


def test_each_reason_is_said_once_with_its_count_and_what_to_install(tmp_path: Path) -> None:
    lines = run_pytest(tmp_path, TWO_REASONS).stdout.splitlines()
    assert "   2 perf is not installed (Debian: linux-perf)" in lines
    assert "   1 inline counting is for Linux on x86-64" in lines
    assert "to run them, on Debian: apt-get install linux-perf" in lines


def test_nothing_is_said_where_nothing_was_skipped(tmp_path: Path) -> None:
    assert "skipped tests" not in run_pytest(tmp_path, EXPECTED_FAILURE).stdout


@pytest.mark.parametrize(
    ("reason", "package"),
    [
        ("there is no cross compiler", "gcc-aarch64-linux-gnu"),
        ("needs binutils for AArch64", "binutils-aarch64-linux-gnu"),
        ("perf annotate needs it", "binutils-aarch64-linux-gnu"),
        ("no AArch64 C library here", "libc6-dev-arm64-cross"),
        ("gdb-multiarch is not installed", "gdb-multiarch"),
        ("qemu-system-aarch64 is not installed", "qemu-system-arm"),
        ("needs QEMU", "qemu-system-arm"),
        ("there is no chromium", "chromium"),
        ("perf is not installed; it is the second reader of perf.data files", "linux-perf"),
        ("there is no /dev/full", None),
    ],
)
def test_the_package_is_the_one_that_has_the_tool(reason: str, package: str | None) -> None:
    assert package_for(reason) == package
