"""Measures the emulator against the bare engine. See docs/how-to/benchmark.md.

Exit status: 0 whatever the speed, 1 if a program gave a wrong result, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import campaigns
from commands import NAMES, find
from counters import mean_cost, measure_counters, print_costs
from measure import LOOPS, WORK, Result, measure
from past import PAST, find_past
from report import as_json, print_tables
from rich.console import Console
from sides import CommitError, ProgramError, sides

PROGRAMS = LOOPS + WORK
FIGURES = (*NAMES, *PAST, campaigns.NAME)
QUICK = ("alu8", "crc")
ROUNDS = 7
"""Fewer leave the quartiles to chance."""


def _names(kind: str, there: tuple[str, ...], text: str) -> list[str]:
    names = text.split(",")
    wrong = [name for name in names if name not in there]
    if wrong:
        known = ", ".join(there)
        raise argparse.ArgumentTypeError(f"no {kind} is called {wrong[0]!r}; there is: {known}")
    return names


def _programs(text: str) -> list[str]:
    return _names("program", PROGRAMS, text)


def _figures(text: str) -> list[str]:
    return _names("figure", FIGURES, text)


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
        prog="scripts/bench",
        description="Measure the emulator against the bare engine, and whole commands. With "
        "--programs or --figures, only what they name.",
    )
    parser.add_argument("--quick", action="store_true", help="two programs, one short round")
    parser.add_argument("--seconds", type=_positive, help="for one run of a program (0.3)")
    parser.add_argument("--rounds", type=_count, help=f"how often each is run ({ROUNDS})")
    parser.add_argument(
        "--programs", type=_programs, metavar="A,B", help=f"of {', '.join(PROGRAMS)}"
    )
    parser.add_argument("--figures", type=_figures, metavar="A,B", help=f"of {', '.join(FIGURES)}")
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure an older commit side by side with this one"
    )
    parser.add_argument(
        "--pmu", action="store_true", help="only what four of the guest's counters cost"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.seconds = arguments.seconds or (0.02 if quick else 0.3)
    arguments.rounds = arguments.rounds or (1 if quick else ROUNDS)
    if arguments.pmu and arguments.programs is None:
        arguments.programs = QUICK if quick else PROGRAMS
    if arguments.programs is None and arguments.figures is None:
        arguments.programs, arguments.figures = (QUICK, ()) if quick else (PROGRAMS, FIGURES)
    return arguments


def _warn(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr)


def _measure_counters(arguments: argparse.Namespace) -> None:
    with sides(None) as there, Console(stderr=True).status("") as status:
        found = measure_counters(
            arguments.programs, there[0], arguments.seconds, arguments.rounds, status.update
        )
    print_costs(Console(), found)
    if arguments.json:
        figures = {
            "pmu": {cost.program: asdict(cost) for cost in found},
            "pmu_mean": mean_cost(found),
        }
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def _measure(arguments: argparse.Namespace) -> None:
    seconds, rounds, against = arguments.seconds, arguments.rounds, arguments.against
    with sides(against) as there, Console(stderr=True).status("") as status:
        by_program: list[list[Result]] = [
            measure(name, there, seconds, rounds, status.update)
            for name in arguments.programs or ()
        ]
        found = find(arguments.figures or (), there, rounds, status.update, _warn)
        found += find_past(arguments.figures or (), rounds, status.update)
        if campaigns.NAME in (arguments.figures or ()):
            found += campaigns.campaign_findings(rounds, status.update)
        commit = there[-1].commit
    results = [side[0] for side in by_program]
    older = [side[1] for side in by_program if len(side) > 1]
    print_tables(Console(), results, older, found, against)
    if arguments.json:
        figures = as_json(results, older, found, seconds, rounds, commit)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


def main() -> int:
    """The command."""
    arguments = _arguments()
    try:
        if arguments.pmu:
            _measure_counters(arguments)
        else:
            _measure(arguments)
    except CommitError as wrong:
        _warn(str(wrong))
        return 2
    except ProgramError as wrong:
        _warn(str(wrong))
        return 1
    return 0


sys.exit(main())
