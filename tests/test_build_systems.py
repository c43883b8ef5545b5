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
PAGE = (EXAMPLES.parents[1] / "docs/how-to/build-systems.md").read_text()
NEEDED = {"cmake": ("cmake", "make", CROSS), "meson": ("meson", "ninja", CROSS)}


def commands_of(tool: str) -> list[str]:
    """The commands of the page that begin with a tool, one after the other."""
    (line,) = re.findall(rf"^{tool} .*$", PAGE, re.M)
    return line.split(" && ")


@pytest.mark.sweep
@pytest.mark.parametrize("tool", NEEDED)
def test_a_build_system_runs_firmware_and_sees_its_status(tool: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    *build, test = commands_of(tool)
    for needed in NEEDED[tool]:
        if shutil.which(needed, path=path) is None:
            pytest.skip(f"{needed} is not installed")
    for status, passes in ((0, True), (5, False)):
        folder = tmp_path / str(status)
        shutil.copytree(EXAMPLES, folder)
        source = (folder / "hello.c").read_text().replace("{0x20026, 0}", f"{{0x20026, {status}}}")
        (folder / "hello.c").write_text(source)
        env = {**os.environ, "PATH": path}
        for command in build:
            done = subprocess.run(
                command.split(), cwd=folder, env=env, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
        done = subprocess.run(test.split(), cwd=folder, env=env, capture_output=True, text=True)
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


def has_target_of_cargo() -> bool:
    """Whether Rust's core library of the example's target is installed."""
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        return False
    asked = ["rustc", "--print", "sysroot"]
    sysroot = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return Path(sysroot, "lib/rustlib/aarch64-unknown-linux-gnu/lib").is_dir()


def test_cargo_run_ends_with_the_status_of_the_firmware(tmp_path: Path) -> None:
    """Where Cargo does not have the target, the words that it would run are run."""
    folder = tmp_path / "cargo"
    shutil.copytree(EXAMPLES / "cargo", folder)
    config = (folder / ".cargo/config.toml").read_text()
    (runner,) = re.findall(r'^runner = "(.*)"$', config, re.M)
    assert runner in PAGE
    source = (folder / "src/main.rs").read_text().replace("[0x20026, 0]", "[0x20026, 7]")
    (folder / "src/main.rs").write_text(source)
    here = has_target_of_cargo()
    words = ["cargo", "run"] if here else [*runner.split(), str(shipped_firmware("hello"))]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    expected = ("hello from Rust", 7) if here else ("Hello from bare metal AArch64", 0)
    assert (done.stdout.strip(), done.returncode) == expected, done.stderr


def test_editors_attach_where_the_machine_waits() -> None:
    """Both requests are JSON, and name the port of the command before them."""
    blocks = re.findall(
        r"`spe-unicorn run --gdb ([0-9]+) firmware.elf`.*?```json\n(.*?)```", PAGE, re.S
    )
    requests = [(port, json.loads(block)) for port, block in blocks]
    dap, code = (request for _, request in requests)
    assert dap["target"] == f"localhost:{requests[0][0]}"
    assert code["target"] == {"type": "remote", "host": "localhost", "port": requests[1][0]}
    assert {request["request"] for _, request in requests} == {"attach"}
