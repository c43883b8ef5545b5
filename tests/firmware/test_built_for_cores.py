"""Programs built for each core print what the build for Neoverse N1 prints, on their own cores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import FOLDERS
from tests.firmware.programs import assert_passed
from tests.support.machine_runs import Machine, Result
from tests.support.running.processes import WALL_SECONDS, limit_cpu

FOLDER = next(folder / "cores" for folder in FOLDERS if (folder / "cores").is_dir())
NAMES = ("crypto", "kernels", "lz4")
LATER = ("neoverse-n2", "neoverse-v2", "cortex-x4")
N1 = "neoverse-n1"
LIMIT = 50_000_000
MOST = 300 * 1024
"""Bytes of a committed program, at most."""
FROM_ELSEWHERE = {
    "crypto": "AES: CRC 0x4243c25a",
    "kernels": "list: CRC 0x1dcb815a, 11 found",
    "lz4": "text: 28205 bytes, xxHash32 0x4222688, Adler-32 0x52a94441",
}
"""A line of each as QEMU printed it."""


def elf(name: str, core: str) -> Path:
    return FOLDER / f"{name}-{core}.elf"


def ran(name: str, built_for: str, core: str) -> Result:
    return Machine(elf(name, built_for), core=core).run(LIMIT)


def test_each_program_is_built_for_each_core() -> None:
    wanted = {elf(name, core) for name in NAMES for core in (N1, *LATER)}
    assert set(FOLDER.iterdir()) == wanted
    assert all(file.stat().st_size < MOST for file in wanted)


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_all_builds_print_the_same(name: str) -> None:
    expected = ran(name, N1, N1)
    assert_passed(expected)
    assert FROM_ELSEWHERE[name] in expected.console.decode()
    for core in LATER:
        result = ran(name, core, core)
        assert_passed(result)
        assert result.console == expected.console, core


@pytest.mark.parametrize("name", NAMES)
def test_longer_vectors_change_nothing(name: str) -> None:
    """`max` has vectors of 2048 bits; loops that are partly active in them sum up the same."""
    assert ran(name, "cortex-x4", "max").console == ran(name, N1, N1).console


@pytest.mark.parametrize("name", NAMES)
def test_a_build_for_a_later_core_ends_with_the_feature_that_is_lacking(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spe_unicorn", "run", "--core", N1, elf(name, "neoverse-n2")],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert done.returncode == 99  # the program's own, for an exception that it does not expect
    assert "SVE instruction: neoverse-n1 has no SVE; --core neoverse-v1 has" in done.stderr
