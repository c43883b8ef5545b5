"""Plants faults in pure code and tells which ones no test finds. See scripts/mutants.

Exit status: 0 whatever survives, 1 if the tests fail without any fault, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec, TestOutcome
from faults import faults

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (Path("spe_unicorn/spe"), Path("spe_unicorn/arch"))
PURE = ("tests/arch", "tests/spe", "tests/pmu", "tests/devices")
"""Tests that need no engine. A file's own tests go first, since they find most faults."""
TOO_SLOW = "*test_access_coverage.py"
LIMIT = 300
"""Seconds for the tests of one fault; one that makes them hang is found."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/mutants", description="Plant faults and tell which ones no test finds."
    )
    parser.add_argument("--each", type=int, default=6, metavar="N", help="faults in a file (6)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the faults (0)")
    parser.add_argument("paths", type=Path, nargs="*", metavar="PATH", help="a room or a file")
    arguments = parser.parse_args()
    if arguments.each < 1:
        parser.error(f"--each is at least 1, got {arguments.each}")
    for path in arguments.paths:
        if not (ROOT / path).exists():
            parser.error(f"{path} is not there; paths begin at {ROOT}")
    return arguments


def _copy_of_last_commit(folder: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def _files(paths: list[Path]) -> list[Path]:
    found = []
    for path in paths:
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def _pytest(*where: str) -> str:
    options = ("-x", "-q", "-p", "no:cacheprovider", "--ignore-glob", TOO_SLOW)
    return shlex.join([sys.executable, "-m", "pytest", *options, *where])


def _tests(file: Path) -> str:
    """The command that tests a file, to be run where it lies: its own tests, then all pure ones."""
    own = sorted(str(test) for test in Path("tests").rglob(f"test_{file.stem}*.py"))
    commands = [_pytest(*own), _pytest(*PURE)] if own else [_pytest(*PURE)]
    return shlex.join(["sh", "-c", " && ".join(commands)])


def _changed(diff: str) -> list[str]:
    lines = diff.splitlines()
    return [x for x in lines if x[:1] in "+-" and not x.startswith(("+++", "---"))]


def _survives(fault: MutationSpec) -> bool:
    """Plant a fault, run the tests, and say so if they pass."""
    result = mutate_and_test([fault], _tests(fault.module_path), LIMIT)
    if result.test_outcome is TestOutcome.INCOMPETENT:
        print(result.output, file=sys.stderr)
    if result.test_outcome is not TestOutcome.SURVIVED:
        return False
    print(f"{fault.module_path}:{fault.start_pos[0]}: {fault.operator_name} survives")
    print(*_changed(result.diff or ""), sep="\n", flush=True)
    return True


def _try_out(paths: list[Path], each: int, seed: int) -> int:
    """The command, in the folder of the copy."""
    clean = subprocess.run(_pytest(*PURE), shell=True, stdout=subprocess.DEVNULL)
    if clean.returncode:
        print("mutants: the tests fail without any fault", file=sys.stderr)
        return 1
    planted = survived = 0
    for file in _files(paths):
        there = list(faults(file))
        chosen = random.Random(f"{seed} {file}").sample(there, min(each, len(there)))
        alive = sum(_survives(fault) for fault in chosen)
        print(f"{file}: {len(chosen)} of {len(there)} planted, {alive} survived", flush=True)
        planted += len(chosen)
        survived += alive
    print(f"{planted} faults planted, {planted - survived} found, {survived} survived")
    return 0


def main() -> int:
    """The command."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        _copy_of_last_commit(Path(folder))
        os.chdir(folder)
        try:
            return _try_out(arguments.paths or list(ROOMS), arguments.each, arguments.seed)
        finally:
            os.chdir(ROOT)


sys.exit(main())
