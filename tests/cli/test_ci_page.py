"""docs/how-to/ci.md: each command on it, and of its recipes, is run as it stands.

Names of files and symbols that the page makes up are those of shipped programs here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/ci.md").read_text()
ZEPHYR = "console:PROJECT EXECUTION SUCCESSFUL"
MADE_UP = {"first-last": "share-share+0x20", "stack=stack": "stack=__bss_end:__stack_top"}
"""Names of the page, and those of a shipped program."""
HELLO = "console:Hello"


def commands() -> Iterator[str]:
    """Those of the first table and of the blocks of the page."""
    yield from re.findall(r"^\| `((?:spe-unicorn|pytest) [^`]*)` \|", PAGE, re.M)
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S):
        yield from block.splitlines()


def recipes() -> Iterator[str]:
    """Those of the workflows, without the folders that they install to."""
    for name in ("examples/ci/github.yml", "examples/ci/gitlab.yml", "action.yml"):
        text = re.sub(r"\n +(?=--|\$|doctor)", " ", (ROOT / name).read_text())
        text = re.sub(r"\"?(/opt/venv|\$RUNNER_TEMP/spe-unicorn)/bin/([a-z-]+)\"?", r"\2", text)
        yield from re.findall(r"(?:pytest|spe-unicorn doctor) -[^\n]*\S", text)


COMMANDS = [*commands(), *recipes()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with firmware, as the page names it."""
    made = tmp_path_factory.mktemp("page")
    (made / "build").mkdir()
    for name in ("first", "second", "firmware"):
        shutil.copyfile(shipped_firmware("hello"), made / f"build/{name}.elf")
    shutil.copyfile(shipped_firmware("planted"), made / "firmware.elf")
    return made


def test_the_first_screen_names_what_a_ci_owner_looks_for() -> None:
    screen = "\n".join(PAGE.splitlines()[:24])
    for word in ("doctor", "--spe-seeds", "--check", "--interrupt-sweep", "--spe-cov"):
        assert word in screen


def test_the_commands_are_found() -> None:
    assert len(COMMANDS) >= 15
    assert sum("--spe-seeds 0-7" in each for each in COMMANDS) == 2  # of two recipes
    assert sum("--warn-format github" in each for each in COMMANDS) == 2  # and of the action


@pytest.mark.sweep
@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_a_command_of_the_page_runs(command: str, folder: Path) -> None:
    """Each ends with status 0 for firmware that is right, and leaves what it says it writes."""
    words = command
    for name, there in MADE_UP.items():
        words = words.replace(name, there)
    if "--check heap" in words:
        shutil.copyfile(shipped_firmware("heap_blocks"), folder / "firmware.elf")
    else:
        shutil.copyfile(shipped_firmware("planted"), folder / "firmware.elf")
    if "zephyr" in words:
        shutil.copyfile(shipped_firmware("hello"), folder / "build/zephyr.elf")
    words = words.replace(ZEPHYR, HELLO).replace("--fail-under 80", "--fail-under 1")
    words = words.replace("doctor ", "doctor --seeds 1 --core generic --el 1 ")
    if words.startswith("pytest"):
        words = f"{words} -p no:cacheprovider"
    tools = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "elf": "build/first.elf"}
    env |= {"JUNIT": "doctor.xml", "OPTIONS": "", "FIRMWARE": "build/first.elf"}
    done = subprocess.run(words, shell=True, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in re.findall(r"(?:--junitxml=|--spe-cov |--json |--coverage |-o )(\S+)", words):
        assert (folder / name).stat().st_size > 100
