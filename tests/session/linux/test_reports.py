"""What a real kernel's console makes of reports: how such a line looks in front of its words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.pytest_plugin.linux import LinuxOfTest
from tests.session.linux.kernel_reports import REPORTS


@pytest.mark.slow
def test_each_report_that_is_printed_by_a_kernel_is_noticed(tmp_path: Path) -> None:
    """As Debian's kernels have neither KASAN nor lockdep, its words are written to the log."""
    linux = LinuxOfTest.of(tmp_path)
    for report in map(bytes.decode, REPORTS):
        done = linux.run("sh", "-c", 'echo "$0" >/dev/kmsg', f"<3>{report}", timeout=1200)
        assert (done.status, done.why) == (0, f"the kernel reported: {report}")
    done = linux.run("sh", "-c", 'echo "$0" >/dev/kmsg', "<3>arm_spe_pmu: no report", timeout=1200)
    assert (done.status, done.why) == (0, None)


@pytest.mark.slow
def test_a_report_ends_a_run_with_a_status_of_its_own() -> None:
    words = [sys.executable, "-m", "spe_unicorn", "linux", "-q", "--from", "modules", "--"]
    words += ["sh", "-c", 'echo "<3>BUG: KASAN: use-after-free in f+0x8/0x10" >/dev/kmsg']
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 5
    assert "kernel reported:\n  BUG: KASAN: use-after-free in f+0x8/0x10" in done.stderr
