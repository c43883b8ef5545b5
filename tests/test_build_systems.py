"""docs/how-to/build-systems.md: CMake and Meson run firmware, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "build-systems"
CROSS = "aarch64-linux-gnu-gcc"
WAYS = {
    "cmake": (
        ("cmake", "-B", "build", "-G", "Ninja", "-DCMAKE_TOOLCHAIN_FILE=aarch64.cmake"),
        ("cmake", "--build", "build"),
        ("ctest", "--test-dir", "build", "--output-on-failure"),
    ),
    "meson": (
        ("meson", "setup", "build", "--cross-file", "aarch64.ini"),
        ("meson", "test", "-C", "build", "--print-errorlogs"),
    ),
}


@pytest.mark.parametrize("tool", WAYS)
def test_a_build_system_runs_firmware_and_sees_its_status(tool: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for needed in (tool, "ninja", CROSS):
        if shutil.which(needed, path=path) is None:
            pytest.skip(f"{needed} is not installed")
    for status, passes in ((0, True), (5, False)):
        folder = tmp_path / str(status)
        shutil.copytree(EXAMPLES, folder)
        source = (folder / "hello.c").read_text().replace("{0x20026, 0}", f"{{0x20026, {status}}}")
        (folder / "hello.c").write_text(source)
        env = {**os.environ, "PATH": path}
        *build, test = WAYS[tool]
        for words in build:
            done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        done = subprocess.run(test, cwd=folder, env=env, capture_output=True, text=True)
        assert (done.returncode == 0) == passes, done.stdout + done.stderr
