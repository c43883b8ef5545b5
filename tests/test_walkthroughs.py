"""Pages of docs that are walked through: each command runs, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GCC = shutil.which("aarch64-linux-gnu-gcc")
LINKER = shutil.which("aarch64-linux-gnu-ld")
CLANG = shutil.which("clang") or shutil.which("clang-14")
BLOCKS = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def walk(page: str, folder: Path) -> str:
    """Run the commands of a page in a folder; what they print, without its numbers.

    What the page shows has to be in it.
    """
    for source in (ROOT / "examples/profile").glob("*.c"):
        shutil.copy(source, folder)
    tools = folder / "tools"
    tools.mkdir()
    command = f'#!/bin/sh\nexec "{sys.executable}" -m spe_unicorn "$@"\n'
    (tools / "spe-unicorn").write_text(command)
    (tools / "spe-unicorn").chmod(0o755)
    if CLANG is not None:
        (tools / "clang").symlink_to(CLANG)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "160"}
    printed = shown = ""
    for kind, text in BLOCKS.findall((ROOT / "docs/how-to" / page).read_text()):
        if kind == "sh":
            ran = subprocess.run(
                ["bash", "-ec", text],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert ran.returncode == 0, f"{text}\n{ran.stderr}"
            printed += ran.stdout + ran.stderr
        else:
            shown += text
    for line in shown.splitlines():
        assert without_numbers(line) in without_numbers(printed)
    return printed


def without_numbers(text: str) -> str:
    return re.sub(r" +", " ", re.sub(r"[-+]?\d[\d,.]*", "#", text))


@pytest.mark.skipif(GCC is None, reason="needs the cross compiler")
def test_a_slow_program_is_mended_by_the_first_sentence(tmp_path: Path) -> None:
    printed = walk("profile.md", tmp_path)
    # a line of 64 bytes serves 8 prices in place of one: most misses are gone
    change = re.search(r"cycles of total latency +([\d,]+) +([\d,]+)", printed)
    assert change is not None
    before, after = (int(number.replace(",", "")) for number in change.groups())
    assert after < 0.8 * before


@pytest.mark.sweep
@pytest.mark.skipif(CLANG is None, reason="needs clang")
@pytest.mark.skipif(LINKER is None, reason="needs a linker for AArch64: binutils")
def test_a_profile_makes_a_program_execute_less(tmp_path: Path) -> None:
    printed = walk("pgo.md", tmp_path)
    before, after = (
        int(number.replace(",", "")) for number in re.findall(r"([\d,]+) +instructions", printed)
    )
    assert after < 0.97 * before
