"""With SPE_UNICORN_NO_SKIPS, which CI sets, a test that would be skipped fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
        timeout=60,
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
