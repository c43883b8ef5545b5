"""The manual pages: one for each command, with all that its help says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.cli import main
from tests.support.running.processes import WALL_SECONDS, limit_cpu

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "manual" / "__main__.py"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run(
        [sys.executable, SCRIPT, folder],
        check=True,
        capture_output=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    return {page.name: page.read_text() for page in folder.iterdir()}


def test_there_is_a_page_for_each_command(pages: dict[str, str]) -> None:
    names = {"spe-unicorn.1", *(f"spe-unicorn-{name}.1" for name in main.commands)}
    assert set(pages) == names


def test_a_page_has_every_option(pages: dict[str, str]) -> None:
    page = pages["spe-unicorn-run.1"].replace("\\", "")
    for option in ("--core", "--max-insns", "--semihosting-dir", "--output", "--trace"):
        assert option in page


def test_the_name_line_is_a_whole_sentence(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        line = re.search(r"^\.SH NAME\n(.*)$", page, re.MULTILINE)
        assert line is not None
        assert not line[1].endswith("..."), name


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_man_shows_a_page_without_a_warning(pages: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "page.1"
    file.write_text(pages["spe-unicorn-run.1"])
    words = ["man", "--warnings", "--local-file", str(file)]
    shown = subprocess.run(
        words, capture_output=True, text=True, timeout=WALL_SECONDS, preexec_fn=limit_cpu
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "OPTIONS" in shown.stdout
