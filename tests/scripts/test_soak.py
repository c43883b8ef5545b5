"""scripts/soak with attacks of its own: what it counts, and what it makes of bad ends."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

ROOT = Path(__file__).resolve().parents[2]
SOAK = ROOT / "scripts" / "soak_attacks"
MODULES = ("attack", "campaign", "command", "hostile", "mutation", "recordings", "repeat", "whole")
GOOD = '''"""Tries nothing."""
def attack(random, folder):
    assert not list(folder.iterdir())
    (folder / "made").write_text("made")
    return 3
'''
WRONG = '''"""Finds something."""
from attack import AttackError
def attack(random, folder):
    raise AttackError("a guest wrote into the host")
'''
ABORTS = '''"""Ends its process."""
import os
def attack(random, folder):
    os.abort()
'''
HANGS = '''"""Never returns."""
LIMIT = 1
def attack(random, folder):
    while True:
        pass
'''
SLEEPS = '''"""Waits for nothing."""
import time
LIMIT = 0.1
def attack(random, folder):
    time.sleep(600)
'''
LONG = '''"""Takes long."""
import time
def attack(random, folder):
    time.sleep(600)
'''
GROWS = '''"""Takes memory."""
import time
def attack(random, folder):
    taken = b"x" * (400 << 20)
    time.sleep(600)
'''


@pytest.fixture(scope="module", autouse=True)
def _importable() -> Iterator[None]:
    sys.path.insert(0, str(SOAK))
    yield
    sys.path.remove(str(SOAK))
    for name in MODULES:  # other scripts may have modules of these names
        sys.modules.pop(name, None)


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def soak(folder: Path, seconds: float = WALL_SECONDS, jobs: int = 1, **kinds: str) -> int:
    """Attack by these kinds until each has had two attempts."""
    for name, text in kinds.items():
        (folder / f"{name}.py").write_text(text)
    known = module("attack").attacks(folder)
    campaign = module("campaign").campaign
    return campaign(list(known.values()), seconds, 7_000_000, jobs, folder, each=2)


def test_a_failure_is_counted_shown_and_has_the_command_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak(tmp_path, a_good=GOOD, b_wrong=WRONG) == 1
    said = capsys.readouterr().out
    assert "AttackError: a guest wrote into the host" in said
    assert "FAILED: scripts/soak --repeat b-wrong 7000000" in said
    assert "a-good" in said


def test_where_nothing_fails_the_status_is_0_and_says_how_much_was_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak(tmp_path, good=GOOD) == 0
    words = capsys.readouterr().out.splitlines()[-1].replace(",", "").split()
    attempts, tried, failed = (int(word) for word in words if word.isdigit())
    assert attempts > 0
    assert (tried, failed) == (3 * attempts, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ABORTS, "the process died: signal SIGABRT"),
        (HANGS, "no end after 1 s of a processor"),
        (SLEEPS, "no end after 3 s"),
    ],
)
def test_an_attempt_that_ends_its_process_or_hangs_has_failed_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert soak(tmp_path, jobs=2, a_bad=text, b_good=GOOD) == 1
    output = capsys.readouterr().out
    assert said in output
    good = next(line for line in output.splitlines() if line.startswith("b-good"))
    assert int(good.split()[1]) > 1


def test_an_attempt_that_grows_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module("campaign"), "MEMORY", 200 << 20)
    assert soak(tmp_path, grows=GROWS) == 1
    assert "the process grew beyond 200 MiB" in capsys.readouterr().out


def test_an_attempt_that_the_time_ends_has_not_failed(tmp_path: Path) -> None:
    assert soak(tmp_path, seconds=1, long=LONG) == 0


def test_a_seed_is_the_same_chance_every_time_and_another_for_another_kind(tmp_path: Path) -> None:
    attack = module("attack").Attack
    found: list[float] = []

    def note(random: Random, folder: Path) -> int:
        found.append(random.random())
        return 1

    for name, seed in (("a", 1), ("a", 1), ("a", 2), ("b", 1)):
        attack(name, "", note).attempt(seed, tmp_path)
    assert found[0] == found[1]
    assert len(set(found)) == 3


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SOAK, *words],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


def test_every_kind_is_listed_with_a_sentence() -> None:
    result = command("--list")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert len(lines) == len(list((SOAK / "kinds").rglob("*.py"))) >= 16
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "one of the arguments --minutes --repeat --list is required"),
        (["--minutes", "0"], "0 is not between 0 and 10080, a week"),
        (["--minutes", "1", "--kinds", "nothing"], "no attack is called 'nothing'; there is: core"),
        (["--repeat", "nothing", "1"], "--repeat: no attack is called 'nothing'"),
        (["--repeat", "elf", "x"], "--repeat: invalid literal"),
        (["--minutes", "1", "--date", "today"], "'today' is no date; write 2026-11-22"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_there_is(
    words: list[str], complaint: str
) -> None:
    result = command(*words)
    assert result.returncode == 2
    assert complaint in " ".join(result.stderr.split())


def test_an_attempt_can_be_repeated_alone() -> None:
    result = command("--repeat", "raw-records", "20261122000000")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "soak: raw-records 20261122000000: 20 tried, nothing is wrong" in result.stdout


def test_mutations_change_the_bytes_and_are_of_any_length() -> None:
    mutation = module("mutation")
    data = bytes(range(256)) * 4
    found = [mutation.mutated(Random(seed), data) for seed in range(200)]
    assert sum(changed != data for changed in found) > 190
    assert min(map(len, found)) < len(data) < max(map(len, found))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(file.stem for file in (SOAK / "kinds").rglob("*.py")))
def test_an_attempt_of_each_kind_comes_to_its_end(kind: str, tmp_path: Path) -> None:
    attack = module("attack").attacks()[kind.replace("_", "-")]
    assert attack.attempt(1, tmp_path) > 0
