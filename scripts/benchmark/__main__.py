"""Measures the emulator against the bare engine. See docs/how-to/benchmark.md.

Exit status: 0 whatever the speed, 1 if a program gave a wrong result, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from machines import ProgramError
from measure import LOOPS, WORK, measure
from report import as_json, print_tables
from rich.console import Console

QUICK = ("alu8", "crc")


def _programs(text: str) -> list[str]:
    names = text.split(",")
    wrong = [name for name in names if name not in LOOPS + WORK]
    if wrong:
        there = ", ".join(LOOPS + WORK)
        raise argparse.ArgumentTypeError(f"no program is called {wrong[0]!r}; there is: {there}")
    return names


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 3600")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1000")
    return value


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure the emulator against the bare engine."
    )
    parser.add_argument("--quick", action="store_true", help="two programs, one short round")
    parser.add_argument("--seconds", type=_positive, help="for one run of a program (0.3)")
    parser.add_argument("--rounds", type=_count, help="how often each is run (5)")
    parser.add_argument("--programs", type=_programs, metavar="A,B", help="only these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.seconds = arguments.seconds or (0.02 if quick else 0.3)
    arguments.rounds = arguments.rounds or (1 if quick else 5)
    arguments.programs = arguments.programs or (QUICK if quick else LOOPS + WORK)
    return arguments


def main() -> int:
    """The command."""
    arguments = _arguments()
    console, progress = Console(), Console(stderr=True)
    seconds, rounds = arguments.seconds, arguments.rounds
    try:
        with progress.status("") as status:
            results = [measure(n, seconds, rounds, status.update) for n in arguments.programs]
    except ProgramError as wrong:
        print(f"bench: {wrong}", file=sys.stderr)
        return 1
    print_tables(console, results)
    if arguments.json:
        figures = as_json(results, seconds, rounds)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


sys.exit(main())
