"""docs/how-to/build-systems.md: build systems run firmware, where they are installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware

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


@pytest.mark.sweep
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


@pytest.mark.parametrize("passes", [True, False])
def test_the_target_of_a_zephyr_board_runs_firmware(passes: bool, tmp_path: Path) -> None:
    """By CMake alone, which has no board of Zephyr's: the program stands where Zephyr puts it."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    said = b"PROJECT EXECUTION.." if passes else b"a recursion returns"
    program = shipped_firmware("planted").read_bytes().replace(b"a recursion returns", said)
    (tmp_path / "build/zephyr").mkdir(parents=True)
    (tmp_path / "build/zephyr/zephyr.elf").write_bytes(program)
    board = f"include({EXAMPLES / 'zephyr/board.cmake'})"
    lists = ("cmake_minimum_required(VERSION 3.20)", "project(board NONE)", board, "")
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lists))
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["cmake", "-B", "build"], cwd=tmp_path, env=env, check=True, capture_output=True)
    run = ["cmake", "--build", "build", "--target", "run_custom"]
    done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert said.decode()[:17] in done.stdout  # the run ends there
    assert (done.returncode == 0) == passes, done.stdout + done.stderr


def test_twister_is_told_of_the_emulator_as_its_schema_says() -> None:
    """Its platform schema: simulation is a list of name and exec; the simulator is one of some."""
    lines = (EXAMPLES / "zephyr/board.yaml").read_text().splitlines()
    at = lines.index("simulation:")
    assert lines[at + 1 : at + 3] == ["  - name: custom", "    exec: spe-unicorn"]
    assert "type: sim" in lines  # of mcu, qemu, sim, unit, native
    assert "arch: arm64" in lines


def test_cargo_s_runner_runs_firmware() -> None:
    """The words are those that Cargo runs, with the program behind them."""
    config = (EXAMPLES / "cargo/.cargo/config.toml").read_text()
    runner = re.findall(r'^runner = "(.*)"$', config, re.M)[0].split()
    words = [sys.executable, "-m", "spe_unicorn", *runner[1:]]
    done = subprocess.run(
        [*words, str(shipped_firmware("hello"))], capture_output=True, text=True, check=False
    )
    assert (runner[0], done.returncode) == ("spe-unicorn", 0)
    assert done.stdout.startswith("Hello")


def test_editors_attach_where_the_machine_waits() -> None:
    """Both requests are JSON, and name the port of the command before them."""
    page = (EXAMPLES.parents[1] / "docs/how-to/build-systems.md").read_text()
    blocks = re.findall(
        r"`spe-unicorn run --gdb ([0-9]+) firmware.elf`.*?```json\n(.*?)```", page, re.S
    )
    requests = [(port, json.loads(block)) for port, block in blocks]
    dap, code = (request for _, request in requests)
    assert dap["target"] == f"localhost:{requests[0][0]}"
    assert code["target"] == {"type": "remote", "host": "localhost", "port": requests[1][0]}
    assert {request["request"] for _, request in requests} == {"attach"}
