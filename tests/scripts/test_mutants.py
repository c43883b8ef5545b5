"""scripts/mutants on a package of its own: which faults it plants, and what it says of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

pytestmark = pytest.mark.sweep(together=True)
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "mutation"
SUMS = '''
MOST = 7


def least(numbers):
    """The least of them, MOST at the most."""
    return min(*numbers, MOST)


def how_many(numbers):
    count = 0
    while count < len(numbers):
        count += 1
    return count


def is_empty(numbers):
    return not numbers


def nobody_asks(number):
    return number + 1
'''
TESTS = """
import pytest
from package.sums.sums import MOST, how_many, is_empty, least
@pytest.fixture(scope="module")
def shared(): return how_many([1, 2])
def test_least(): assert least([3, 2]) == 2
def test_how_many(): assert how_many([5, 5, 5]) == 3
def test_empty(): assert is_empty([])
def test_shared(shared): assert shared == 2
def test_shared_again(shared): assert shared == 2
@pytest.mark.slow
def test_slow(): raise AssertionError("slow tests are not run")
"""
MORE = """
from package.sums.sums import nobody_asks
def test_most(): assert least([9, 8]) == 7
def test_constant(): assert MOST == 7
def test_none(): assert how_many([]) == 0
def test_somebody(): assert nobody_asks(5) == 6
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    for folder in ("package", "package/sums", "tests", "tests/sums"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "package" / "sums" / "sums.py").write_text(SUMS)
    (tmp_path / "tests" / "sums" / "test_sums.py").write_text(TESTS)
    return tmp_path


def mutants(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", SCRIPT, *words],
        cwd=project,
        env={"PYTHONPATH": str(project), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


def all_of(project: Path) -> list[str]:
    result = mutants(project, "--each", "99", "--seconds", "1", "package/sums")
    assert result.returncode == 0, result.stdout
    return result.stdout.splitlines()


def test_what_no_test_finds_is_told(project: Path) -> None:
    """Another MOST, a count from 1 where there are two and more, and what nobody asks for.

    Found are: `max` for `min` and no result of `least`; of `how_many` no count (it hangs), a count
    down, by 2 and by 0, four other comparisons and no result; of `is_empty` no `not` and no result.
    """
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    file, nobody = "package/sums/sums.py", "survives: no test enters its function"
    assert all_of(project) == [
        "5 tests, 19 faults",
        *(f"{file}:2: survives", "    7  ->  6"),
        *(f"{file}:2: survives", "    7  ->  8"),
        *(f"{file}:11: survives", "    0  ->  1"),
        *(f"{file}:22: {nobody}", "    1  ->  0"),
        *(f"{file}:22: {nobody}", "    1  ->  2"),
        *(f"{file}:22: {nobody}", "    number + 1  ->  number - 1"),
        *(f"{file}:22: {nobody}", "    return number + 1  ->  return None"),
        "19 faults planted, 12 found, 7 survived",
    ]
    assert before == {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}


ANOTHER_SEVEN = """
from package.sums.sums import MOST as LIMIT, least
MOST = 7
def test_most(): assert least([9, 8]) == MOST
def test_limit(): assert LIMIT == 7
"""
NOTHING_TO_PLANT = """
SIZE = 5
class Box:
    size = SIZE
def nothing():
    return None
"""


def test_a_constant_of_that_name_in_another_module_is_not_changed(project: Path) -> None:
    (project / "tests" / "sums" / "test_sums.py").write_text(ANOTHER_SEVEN)
    assert not [line for line in all_of(project) if line.startswith("package/sums/sums.py:2:")]


def test_what_no_function_reads_and_none_for_none_are_not_planted(project: Path) -> None:
    with (project / "package" / "sums" / "sums.py").open("a") as file:
        file.write(NOTHING_TO_PLANT)
    assert all_of(project)[-1] == "19 faults planted, 12 found, 7 survived"


def test_a_test_that_finds_a_fault_takes_it_off_the_list(project: Path) -> None:
    with (project / "tests" / "sums" / "test_sums.py").open("a") as file:
        file.write(MORE)
    assert all_of(project)[-1] == "19 faults planted, 19 found, 0 survived"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def test_wrong(): assert least([5]) == 6", "test_wrong: "),
        ("import os\ndef test_away(): os._exit(7)", "ended their process, with status 7"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
    ],
)
def test_tests_that_fail_without_a_fault_have_a_status_of_their_own(
    project: Path, text: str, said: str
) -> None:
    with (project / "tests" / "sums" / "test_sums.py").open("a") as file:
        file.write(text)
    result = mutants(project, "package/sums")
    assert result.returncode == 3
    assert said in result.stdout


def test_a_seed_and_a_limit_choose(project: Path) -> None:
    words = ["--each", "6", "--limit", "4", "--seconds", "2", "package"]
    first, again = (mutants(project, *words, "--seed", "3").stdout for _ in range(2))
    assert first == again
    assert "5 tests, 4 faults\n" in first
    assert mutants(project, *words, "--seed", "4").stdout != first


ONE_THAT_SLEEPS = """
import os, pathlib, subprocess, time
def test_sleeps():
    other = subprocess.Popen(["sleep", "600"])
    pathlib.Path("new").write_text(f"{os.getpid()} {other.pid}")
    pathlib.Path("new").rename("sleepers")
    time.sleep(600)
"""


WAITS = """
import time
from package.sums.sums import is_empty
def test_waits():
    while not is_empty([]): time.sleep(0.1)
"""


def test_a_fault_with_which_a_test_waits_for_ever_is_found(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "tests" / "sums" / "test_sums.py").write_text(WAITS)
    short = project / "mutation"
    shutil.copytree(SCRIPT, short)
    text = (short / "trying.py").read_text()
    assert "WINDOW: Final = 60" in text
    (short / "trying.py").write_text(text.replace("WINDOW: Final = 60", "WINDOW: Final = 4"))
    monkeypatch.setattr(f"{__name__}.SCRIPT", short)
    assert all_of(project)[-1] == "19 faults planted, 2 found, 17 survived"


def test_what_runs_tests_dies_with_a_parent_that_is_killed(project: Path) -> None:
    (project / "tests" / "sums" / "test_sums.py").write_text(ONE_THAT_SLEEPS)
    command = [sys.executable, "-B", SCRIPT, "package/sums"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL) as parent:
        wait_until((project / "sleepers").exists)
        parent.kill()
    for sleeper in (project / "sleepers").read_text().split():
        wait_until(lambda process=Path("/proc", sleeper): not is_running(process))


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(10 * WALL_SECONDS):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(f"not within {WALL_SECONDS} seconds")


def is_running(process: Path) -> bool:
    """Whether it is there and no zombie, which nobody may wait for in a container."""
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("words", [["--each", "0"], ["package/nowhere"], ["--seconds", "-1"]])
def test_a_wrong_command_line_is_refused(project: Path, words: list[str]) -> None:
    assert mutants(project, *words).returncode == 2
