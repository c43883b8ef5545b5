"""Programs that need no SPE print the same lines on QEMU's virt board, and end the same way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare-with-qemu"
RUNS = re.findall(r"^([\w@]+) +\| +[\w/-]+\.(?:elf|bin) +\|", SCRIPT.read_text(), re.MULTILINE)


def test_the_script_has_runs() -> None:
    assert {"hello", "priv_el3@bios", "priv_smp"} <= set(RUNS)


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="needs QEMU")
@pytest.mark.parametrize("name", RUNS)
def test_program_does_the_same_on_qemu(name: str) -> None:
    result = subprocess.run(
        [SCRIPT, name],
        env={
            **os.environ,
            "SPE_UNICORN": f"{sys.executable} -m spe_unicorn",
            "LIMIT": str(WALL_SECONDS),
        },
        cwd=SCRIPT.parents[1],
        capture_output=True,
        text=True,
        timeout=3 * WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("ok 1 ")
    if "# SKIP" in result.stdout:
        pytest.skip(result.stdout.splitlines()[0].partition("# SKIP ")[2])
