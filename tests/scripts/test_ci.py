"""The steps of .ci/run, in a tree of its own with stand-ins for the commands that they call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / ".ci" / "run"
PACKAGES = dict(re.findall(r'^    "([\w-]+) +([\w-]+)"', CI.read_text(), re.MULTILINE))
"""Command by package, "-" for none, as .ci/run has them."""
NEEDED = ("bash", "dirname", "grep", "timeout", "id", "cat")
"""What the script itself calls."""
IS_DEBIAN = re.search(r"^ID=debian$", Path("/etc/os-release").read_text(), re.MULTILINE)


class Tree:
    """A checkout with .ci/run, whose PATH holds ``commands`` and nothing else."""

    def __init__(self, folder: Path, commands: list[str]) -> None:
        self.root = folder / "checkout"
        self.path = folder / "bin"
        for made in (self.root / ".ci", self.root / "scripts", self.path):
            made.mkdir(parents=True)
        shutil.copy(CI, self.root / ".ci/run")
        for name in NEEDED:
            found = shutil.which(name)
            assert found is not None
            (self.path / name).symlink_to(found)
        for name in commands:
            self.command(name, "exit 0")

    def command(self, name: str, text: str) -> None:
        self._script(self.path / name, text)

    def script(self, name: str, text: str) -> None:
        self._script(self.root / "scripts" / name, text)

    @staticmethod
    def _script(file: Path, text: str) -> None:
        file.unlink(missing_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def run(self, *steps: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / ".ci/run", *steps],
            env={"PATH": str(self.path), "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            timeout=WALL_SECONDS,
            preexec_fn=limit_cpu,
        )


TOOLS = [tool for tool in PACKAGES.values() if tool != "-"]


def test_the_list_of_packages_is_read_as_it_is_written() -> None:
    assert PACKAGES["linux-perf"] == "perf"
    assert PACKAGES["device-tree-compiler"] == "dtc"
    assert PACKAGES["python3-venv"] == "-"


def test_with_every_tool_the_step_passes(tmp_path: Path) -> None:
    result = Tree(tmp_path, TOOLS).run("tools")
    assert result.returncode == 0, result.stdout
    assert "CI passed" in result.stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_without_a_tool_ci_fails_and_names_it(tmp_path: Path, tool: str) -> None:
    result = Tree(tmp_path, [name for name in TOOLS if name != tool]).run("tools")
    assert result.returncode == 1
    package = next(package for package, command in PACKAGES.items() if command == tool)
    assert f"missing: {tool} (Debian: apt-get install {package})" in result.stdout
    assert "CI FAILED: tools" in result.stdout


@pytest.mark.skipif(not IS_DEBIAN, reason="packages are installed on Debian only")
def test_a_package_that_cannot_be_installed_fails(tmp_path: Path) -> None:
    tree = Tree(tmp_path, [])
    tree.command("id", "echo 0")
    tree.command("dpkg-query", "echo 'deinstall ok config-files'")
    tree.command("apt-get", 'case "$*" in *cpio*) exit 100 ;; esac')
    result = tree.run("packages")
    assert result.returncode == 1
    assert "cannot be installed: cpio\n" in result.stdout
    assert "cannot be installed: make" not in result.stdout


@pytest.mark.skipif(not IS_DEBIAN, reason="packages are installed on Debian only")
def test_packages_that_are_there_are_not_fetched(tmp_path: Path) -> None:
    tree = Tree(tmp_path, [])
    tree.command("id", "echo 0")
    tree.command("dpkg-query", "echo 'install ok installed'")
    tree.command("apt-get", "exit 100")
    assert tree.run("packages").returncode == 0


@pytest.mark.parametrize(
    ("status", "apt", "expected"),
    [(0, True, 0), (77, True, 1), (77, False, 0), (1, True, 1), (1, False, 1), (2, False, 1)],
)
@pytest.mark.parametrize("step", ["linux", "arm64"])
def test_only_without_apt_a_guest_or_host_that_cannot_be_had_is_skipped(
    tmp_path: Path, step: str, status: int, apt: bool, expected: int
) -> None:
    tree = Tree(tmp_path, ["apt-get"] if apt else [])
    tree.script({"arm64": "arm64-host"}.get(step, step), f"exit {status}")
    result = tree.run(step)
    assert result.returncode == expected, result.stdout


@pytest.mark.parametrize(
    ("commit", "script", "asked"),
    [
        ("1234abcdd", "slow-tests", "--minutes 2 --order 1234abcdd"),
        ("1234abcde", "soak", "--minutes 2"),
        (
            "1234abcdf",
            "slow-tests",
            "--minutes 2 --order 1234abcdf --without-accelerators tests/host tests/machine"
            " tests/firmware tests/plugin",
        ),
    ],
)
@pytest.mark.parametrize("status", [0, 1])
def test_the_last_digit_of_the_commit_chooses_the_rotating_part(
    tmp_path: Path, commit: str, script: str, asked: str, status: int
) -> None:
    tree = Tree(tmp_path, [])
    tree.command("git", f"echo {commit}")
    tree.script("slow-tests", "exit 3")
    tree.script("soak", "exit 3")
    tree.script(script, f'echo "ran {script} $*"; exit {status}')
    result = tree.run("rotating")
    assert result.returncode == status
    assert f"ran {script} {asked}\n" in result.stdout
    assert commit in result.stdout


def test_an_unknown_step_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    result = Tree(tmp_path, []).run("everything")
    assert result.returncode == 2
    assert "no step is called everything; there is: packages tools checks" in result.stderr


STAND_INS = {
    "test": "checks",
    "build-site": "site",
    "check-firmware": "firmware",
    "prepare": "prepared",
    "demo": "demo",
    "arm64-host": "arm64",
    "linux": "linux",
    "soak": "soak",
}
"""What each script is for."""


@pytest.mark.parametrize("failing", [None, "site", "linux", "arm64", "soak", "killed"])
def test_without_words_every_step_runs_though_others_fail(
    tmp_path: Path, failing: str | None
) -> None:
    tree = Tree(tmp_path, [*TOOLS, "dpkg-query"])
    tree.command("git", "echo 1234abcde")
    tree.command("apt-get", "exit 0")
    tree.command("dpkg-query", "echo 'install ok installed'")
    for name, what in STAND_INS.items():
        tree.script(name, f'echo "ran {what}"; exit {int(what == failing)}')
    if failing == "killed":
        tree.script("arm64-host", 'kill -9 "$(cat /proc/$PPID/stat | cut -d" " -f4)"')
        (tree.path / "cut").symlink_to(shutil.which("cut") or "cut")
    result = tree.run()
    assert result.returncode == (failing is not None)
    last = result.stdout.splitlines()[-1]
    if failing == "killed":
        assert last == "CI FAILED: arm64 linux"
        return
    for what in STAND_INS.values():
        assert f"ran {what}\n" in result.stdout
    step = "rotating" if failing == "soak" else failing
    assert last == ("CI passed" if failing is None else f"CI FAILED: {step}")


def test_the_commit_says_which_part_of_the_sweeps_runs(tmp_path: Path) -> None:
    tree = Tree(tmp_path, [])
    tree.command("git", "echo 1234abcde")
    tree.script("test", 'echo "$SPE_UNICORN_NO_SKIPS $SPE_UNICORN_SWEEP"')
    assert "1 1234abcde\n" in tree.run("checks").stdout
