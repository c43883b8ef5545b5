from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scripts.linux_modules import importable, module
from tests.support.running.processes import WALL_SECONDS, limit_cpu

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"

TOO_OLD = """#!/bin/sh
case "$*" in
    *version_info*) exit 1 ;;
    --version) echo Python 3.9.0 ;;
esac
"""
WITHOUT_VENV = """#!/bin/sh
case "$*" in
    *ensurepip*) exit 1 ;;
esac
"""


def run(script: str, tmp_path: Path, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script],
        cwd="/",
        env={**os.environ, "PYTHON": python, "SPE_UNICORN_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


def fake_python(tmp_path: Path, text: str) -> str:
    file = tmp_path / "python"
    file.write_text(text)
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize("script", ["demo", "test", "check"])
def test_without_python_a_script_says_so(tmp_path: Path, script: str) -> None:
    result = run(script, tmp_path, "/nowhere/python3")
    assert result.returncode == 1
    assert result.stderr == (f"{script}: no /nowhere/python3 here; install Python 3.10 or later\n")


def test_an_old_python_is_named_with_its_version(tmp_path: Path) -> None:
    result = run("test", tmp_path, fake_python(tmp_path, TOO_OLD))
    assert result.returncode == 1
    assert "Python 3.9.0 is too old; Python 3.10 or later is needed" in result.stderr


def test_a_python_without_venv_gets_the_name_of_the_package(tmp_path: Path) -> None:
    result = run("demo", tmp_path, fake_python(tmp_path, WITHOUT_VENV))
    assert result.returncode == 1
    assert "apt-get install python3-venv" in result.stderr
    assert not (tmp_path / "venv").exists()


# Tracked links


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "scripts").mkdir(parents=True)
    for name in ("check-links", "environment"):
        shutil.copy(SCRIPTS / name, root / "scripts")
    (root / "README").write_text("text")
    git(root, "init", "-q")
    return root


@pytest.mark.parametrize(
    ("link", "target", "leaves"),
    [
        (".cache", "/srv/cache", True),
        ("cache", "../cache", True),
        ("docs/deep/cache", "../../../cache", True),
        ("up", "..", True),
        ("a b", "../c d", True),
        ("docs/README", "../README", False),
        ("here", ".", False),
        ("nowhere", "missing/file", False),
        ("dots", "..cache", False),
    ],
)
def test_a_tracked_link_that_leaves_the_checkout_is_refused(
    checkout: Path, link: str, target: str, leaves: bool
) -> None:
    (checkout / link).parent.mkdir(parents=True, exist_ok=True)
    (checkout / link).symlink_to(target)
    git(checkout, "add", "-A")
    done = subprocess.run([checkout / "scripts/check-links"], capture_output=True, text=True)
    assert done.returncode == leaves
    assert (f"{link} is a tracked link that leaves the checkout, to {target}" in done.stdout) == (
        leaves
    )


def test_a_link_that_is_not_tracked_is_nobody_s_business(checkout: Path) -> None:
    (checkout / ".cache").symlink_to("/srv/cache")
    done = subprocess.run([checkout / "scripts/check-links"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_our_own_links_stay_in_the_checkout() -> None:
    done = subprocess.run([SCRIPTS / "check-links"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# QEMU

START_OF_QEMU = re.compile(r"(-M|-machine)\W{1,4}f?\W?virt(,| -cpu)")
NO_CARD = re.compile(r"-nic\W+none")


def test_every_start_of_qemu_is_without_a_network_card() -> None:
    """Its option ROM is in a package that is only recommended: QEMU would not start without it."""
    root = SCRIPTS.parent
    files = [
        file
        for folder in ("scripts", "tests", "docs", "firmware")
        for file in (root / folder).rglob("*")
        if file.suffix not in (".elf", ".bin", ".pyc") and file.is_file()
    ]
    starts = {
        file: text
        for file in [root / "README.md", *files]
        if START_OF_QEMU.search(text := file.read_text(errors="replace"))
    }
    assert len(starts) >= 4
    assert [str(file) for file, text in starts.items() if not NO_CARD.search(text)] == []


# Help

ALL = sorted(file.name for file in SCRIPTS.iterdir() if file.is_file() and os.access(file, os.X_OK))
WITHOUT_WORDS = ("build-firmware", "build-site", "check-firmware", "check-links", "house")


def head(script: str) -> str:
    """The comment at the head of a script."""
    lines = (SCRIPTS / script).read_text().splitlines()[1:]
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "".join(f"{line.removeprefix('#').removeprefix(' ')}\n" for line in lines[:end])


@pytest.mark.parametrize("script", ALL)
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_the_comment_at_the_head_and_nothing_is_made(
    tmp_path: Path, script: str, word: str
) -> None:
    result = subprocess.run(
        [SCRIPTS / script, word],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": "/nowhere", "SPE_UNICORN_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, head(script), "")
    assert len(result.stdout) > 60
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", WITHOUT_WORDS)
def test_a_script_that_takes_no_words_refuses_them(script: str) -> None:
    refused = subprocess.run([SCRIPTS / script, "--quick"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert (
        refused.stderr == f"{script}: takes no words, such as --quick; --help says what it does\n"
    )


FOR_PYTEST = {"check", "test"}
"""What their words mean only pytest knows, which is in the environment."""


def refused(script: str, *words: str, folder: Path) -> str:
    """What a script says when it refuses these words, before anything is made."""
    result = subprocess.run(
        [SCRIPTS / script, *words],
        cwd=folder,
        env={**os.environ, "PYTHON": "/nowhere", "SPE_UNICORN_VENV": str(folder / "venv")},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert list(folder.iterdir()) == []
    return result.stderr


@pytest.mark.parametrize("script", sorted(set(ALL) - FOR_PYTEST))
@pytest.mark.parametrize("word", ["--no-such-word", "--no-such-word=3", "--.*"])
def test_an_unknown_option_is_refused_before_an_environment_is_made(
    tmp_path: Path, script: str, word: str
) -> None:
    said = refused(script, word, folder=tmp_path)
    assert said.startswith(f"{script}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "words", "unknown"),
    [
        ("bench", ["--quick", "sort"], "sort"),
        ("bench", ["--rounds", "3", "4"], "4"),
        ("demo", ["spe_copy"], "spe_copy"),
        ("prepare", ["check"], "check"),
        ("record-types", ["--chekc"], "--chekc"),
        ("soak", ["--minutes=1", "2"], "2"),
        ("soak", ["--repeat", "psci", "1", "2"], "2"),
        ("linux", ["boot", "--flavor", "cloud"], "--flavor"),
        ("mutants", ["--eahc", "3", "--", "--each"], "--eahc"),
        ("compare-with-qemu", ["hello", "no_such_run"], "no_such_run"),
        ("arm64-host", ["--check", "--fast"], "--fast"),
        ("linux", ["boot", "--append", "quiet", "recrod"], "recrod"),
        ("linux", ["--check", "shares", "kvn", "--", "--smp", "4"], "kvn"),
        ("mutants", ["spe_unicorn/spe", "spe_unicorn/sep"], "spe_unicorn/sep"),
        ("mutants", ["--tests", "tests/spe", "tests/sep", "--", "spe_unicorn/spe"], "tests/sep"),
        ("mutants", ["--each", "3", "--", "spe_unicorn/sep"], "spe_unicorn/sep"),
        (
            "slow-tests",
            ["--minutes", "1", "tests/nothing.py::test_it"],
            "tests/nothing.py::test_it",
        ),
    ],
)
def test_the_word_that_is_refused_is_named(
    tmp_path: Path, script: str, words: list[str], unknown: str
) -> None:
    assert unknown in refused(script, *words, folder=tmp_path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("bench", ["--rounds", "3", "--programs", "sort,crc", "--json=out"]),
        ("soak", ["--repeat", "psci", "1"]),
        ("soak", ["--minutes", "1", "--date", "2026-11-22"]),
        ("slow-tests", ["--minutes", "1", "--jobs", "2", "tests/spe"]),
        ("linux", ["record", "--append", "quiet", "--suite", "trixie", "--", "--smp", "4"]),
        ("linux", ["boot", str(Path(__file__)), "--module", "nothing.ko"]),
        ("linux", ["--rate", "3"]),
        ("slow-tests", ["--minutes", "1", "--order", "word", "tests/test_scripts.py::test_it"]),
        ("mutants", ["-k", "words", "--tests", "tests/spe", "--", "spe_unicorn/spe"]),
        ("arm64-host", ["run", "--max-insns", "5", "hello.elf"]),
        ("record-types", ["--check"]),
    ],
)
def test_words_that_the_usage_has_get_as_far_as_the_environment(
    tmp_path: Path, script: str, words: list[str]
) -> None:
    expect_to_go_on(script, words, tmp_path)


def test_the_shell_knows_each_check_of_a_guest(tmp_path: Path) -> None:
    with importable():
        names = list(module("checks").ALL)
    expect_to_go_on("linux", ["--check", *names], tmp_path)


def expect_to_go_on(script: str, words: list[str], tmp_path: Path) -> None:
    result = subprocess.run(
        [SCRIPTS / script, *words],
        env={**os.environ, "PYTHON": "/nowhere", "SPE_UNICORN_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (
        1,
        f"{script}: no /nowhere here; install Python 3.10 or later\n",
    )


@pytest.mark.parametrize("words", [["--pages"], ["a", "b"]])
def test_build_man_takes_one_folder_and_no_option(tmp_path: Path, words: list[str]) -> None:
    refused = subprocess.run(
        [SCRIPTS / "build-man", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert refused.stderr == "build-man: takes one FOLDER, and no option; --help says more\n"
    assert list(tmp_path.iterdir()) == []


def test_what_stands_after_two_dashes_is_no_word_of_the_script(tmp_path: Path) -> None:
    """They are for spe-unicorn."""
    result = subprocess.run(
        [SCRIPTS / "linux", "--", "--help"],
        env={**os.environ, "PYTHON": "/nowhere", "SPE_UNICORN_VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "no /nowhere here" in result.stderr
