"""The recipes of docs/how-to/ci.md: all their steps in order, by a shell that ends at an error.

What would install something is a stand-in that tells what it was asked for. All else runs: tests,
the loops over ELF files, what GitHub is told.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware

ROOT = Path(__file__).resolve().parents[2]
STANDS_IN = '#!/bin/sh\necho "$(basename "$0") $*" >>"$ASKED"\n'
MAKES = 'mkdir -p build && cp "$HELLO" build/first.elf && cp "$HELLO" build/second.elf\n'
SHORT = "doctor --seeds 1 --core generic --el 1 "
"""In place of 32 runs each."""


def steps_of(text: str) -> list[str]:
    """The commands of ``run`` of a workflow, or those of ``script``."""
    lines = text.splitlines()
    found = []
    for n, line in enumerate(lines):
        step = re.match(r"( +)(?:- )?run: (.*)", line)
        if step and step[2].rstrip(" #").split(" #")[0] in ("|", ">"):
            deeper = lines[n + 1 :]
            depth = len(deeper[0]) - len(deeper[0].lstrip())
            end = next(
                (k for k, each in enumerate(deeper) if not each.startswith(" " * depth)), None
            )
            block = [each[depth:] for each in deeper[:end]]
            found.append(("\n" if step[2].startswith("|") else " ").join(block))
        elif step:
            found.append(step[2])
    script = re.search(r"^  script:\n((?:    - .*\n)+)", text, re.M)
    if script:
        found += [line.removeprefix("    - ") for line in script[1].splitlines()]
    return found


class Host:
    """A folder to work in, and what the steps find on the host."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.tools = folder / "venv/bin"
        self.asked, self.output = folder / "asked", folder / "output"
        for made in (self.work, self.tools, folder / "bin"):
            made.mkdir(parents=True)
        for name in ("apt-get", "python3"):
            self._script(folder / "bin" / name, STANDS_IN)
        self._script(folder / "bin/make", STANDS_IN + MAKES)
        self._script(self.tools / "pip", STANDS_IN)
        for name in ("pytest", "spe-unicorn"):
            (self.tools / name).symlink_to(Path(sys.executable).parent / name)
        self.env = {
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "ASKED": str(self.asked),
            "HELLO": str(shipped_firmware("hello")),
            "GITHUB_OUTPUT": str(self.output),
        }

    @staticmethod
    def _script(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, step: str, folder: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a step, which installs to ``folder``."""
        text = step.replace(folder, str(self.tools.parent))
        text = text.replace("doctor ", SHORT).replace(
            "pytest -n auto", "pytest -p no:cacheprovider"
        )
        return subprocess.run(
            ["bash", "-e", "-c", text],
            cwd=self.work,
            env={**self.env, **env},
            capture_output=True,
            text=True,
        )

    def run_all(self, steps: list[str], folder: str, **env: str) -> str:
        """Run steps that all end with status 0. Return what they printed."""
        said = ""
        for step in steps:
            done = self.run(step, folder, **env)
            said += done.stdout + done.stderr
            assert done.returncode == 0, f"{step}\n{said}"
        return said


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.sweep
def test_github_s_steps_leave_what_they_upload(host: Host) -> None:
    text = (ROOT / "examples/ci/github.yml").read_text()
    steps = steps_of(text)
    assert len(steps) == 6
    host.run_all(steps, "/opt/venv")
    assert re.fullmatch(r"digest=[0-9a-f]{16}\n", host.output.read_text())
    (upload,) = re.findall(r'with: { name: report, path: "(.*)" }', text)
    for pattern in upload.split(r"\n"):
        names = sorted(host.work.glob(pattern))
        assert names, pattern
        assert all(name.stat().st_size > 100 for name in names)
    assert len(list(host.work.glob("build/*.elf.xml"))) == 2
    assert "pip install spe-unicorn pytest pytest-xdist" in host.asked.read_text()


@pytest.mark.sweep
def test_a_finding_in_one_of_several_programs_fails_the_step_and_all_are_tried(host: Host) -> None:
    """The loop goes on behind the program with a finding, and its status is 1."""
    (loop,) = [
        step for step in steps_of((ROOT / "examples/ci/github.yml").read_text()) if "done" in step
    ]
    (host.work / "build").mkdir()
    shutil.copyfile(shipped_firmware("spe_misuse"), host.work / "build/a.elf")
    shutil.copyfile(shipped_firmware("hello"), host.work / "build/b.elf")
    done = host.run(loop, "/opt/venv")
    assert done.returncode == 1
    assert re.search(r"^::(?:warning|error) file=[^:\n]*spe_misuse\.c,line=\d+", done.stderr, re.M)
    assert (host.work / "build/b.elf.xml").stat().st_size > 100


@pytest.mark.sweep
def test_gitlab_s_steps_leave_what_they_report(host: Host) -> None:
    text = (ROOT / "examples/ci/gitlab.yml").read_text()
    steps = steps_of(text)
    assert len(steps) == 5
    host.run_all(steps, "/opt/venv")
    for name in re.findall(r"(?:junit|path): ([a-z]+\.xml)", text):
        assert (host.work / name).stat().st_size > 100
    (cache,) = re.findall(r"paths: \[(.*)\]", text)
    assert (host.work / cache).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("name", "status"), [("hello", 0), ("spe_misuse", 1)])
def test_the_action_says_what_doctor_says(name: str, status: int, host: Host) -> None:
    text = (ROOT / "action.yml").read_text()
    install, doctor = steps_of(text)
    places = {"RUNNER_TEMP": str(host.tools.parents[1]), "ACTION_PATH": str(ROOT)}
    venv = host.tools.parent
    venv.rename(venv.parent / "spe-unicorn")
    host.run_all([install], "/opt/venv", **places)
    assert f"pip install {ROOT}" in host.asked.read_text()
    inputs = re.findall(r"^        ([A-Z]+): \${{ inputs\.([a-z]+) }}$", text, re.M)
    given = {"firmware": str(shipped_firmware(name)), "junit": "doctor.xml", "options": ""}
    env = {variable: given.pop(of) for variable, of in inputs}
    assert not given
    done = host.run(doctor, "/opt/venv", **places, **env)
    assert done.returncode == status, done.stdout + done.stderr
    assert (host.work / "doctor.xml").stat().st_size > 100


@pytest.mark.sweep
def test_the_container_s_commands_run(host: Host) -> None:
    """Its RUN lines; the demonstration is the real one."""
    text = (ROOT / "examples/ci/Containerfile").read_text().replace("\\\n", " ")
    steps = re.findall(r"^RUN (.*)$", text, re.M)
    assert len(steps) == 2
    (path,) = re.findall(r"^ENV PATH=(\S+):\$PATH SPE_UNICORN_CACHE_DIR=(\S+)$", text, re.M)
    cache = host.work / "cache"
    moved = [
        step.replace("/var/lib/apt", str(host.work)).replace("/source", str(host.work / "source"))
        for step in steps
    ]
    env = {"PATH": f"{host.tools}:{host.env['PATH']}", "SPE_UNICORN_CACHE_DIR": str(cache)}
    host.run_all(moved, path[0].removesuffix("/bin"), **env)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert any(cache.iterdir())
    assert f"pip install --no-cache-dir {host.work / 'source'}" in host.asked.read_text()
