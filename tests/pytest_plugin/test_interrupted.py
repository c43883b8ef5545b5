"""pytest under a signal while the plugin makes hooks: it does not wait for a function to be made.

The compiler is a call of C that takes hours and takes no notice of signals, as LLVM's do not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.running.processes import WALL_SECONDS

COMPILER = """
import hashlib, os
from spe_unicorn.compiled.functions import Entry

def for_ever(entry):
    os.write(2, b"compiling\\n")
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)

Entry._made = for_ever
"""
BY_FIXTURE = "def test_hello(spe_machine):\n    spe_machine('hello.elf')\n"


@pytest.mark.parametrize(
    ("way", "number", "status", "said"),
    [
        ("--spe-elf", signal.SIGINT, pytest.ExitCode.INTERRUPTED, "KeyboardInterrupt"),
        ("fixture", signal.SIGINT, pytest.ExitCode.INTERRUPTED, "KeyboardInterrupt"),
        ("fixture", signal.SIGTERM, -signal.SIGTERM, ""),
    ],
)
def test_a_signal_ends_pytest_while_a_function_is_made(
    tmp_path: Path, way: str, number: signal.Signals, status: int, said: str
) -> None:
    (tmp_path / "conftest.py").write_text(COMPILER)
    (tmp_path / "hello.elf").symlink_to(shipped_firmware("hello"))
    chosen = ["--spe-elf", "hello.elf"]
    if way == "fixture":
        (tmp_path / "test_hello.py").write_text(BY_FIXTURE)
        chosen = ["test_hello.py"]
    environment = {
        **os.environ,
        "SPE_UNICORN_CACHE_DIR": str(tmp_path / "cache"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    words = [sys.executable, "-m", "pytest", "-s", "-p", "spe_unicorn.pytest_plugin.plugin"]
    with subprocess.Popen(
        [*words, *chosen],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            before = []
            for line in process.stdout:
                before.append(line)
                if "compiling\n" in line:
                    break
            process.send_signal(number)
            after = process.communicate(timeout=WALL_SECONDS)[0]
        finally:
            process.kill()
    assert process.returncode == status, "".join(before) + after
    assert said in after
