"""Measures the emulator against the bare engine. See docs/how-to/benchmark.md.

Exit status: 0 whatever the speed, 1 if a program gave a wrong result or a figure could not be
taken, 2 for a wrong command line. A figure whose library is not installed is left out, no error.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import campaigns
import growth
import modes
from commands import NAMES, Finding, find
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


def _factor(text: str) -> int:
    value = int(text)
    if not 1 <= value <= growth.MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {growth.MOST}")
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
    parser.add_argument(
        "--modes", action="store_true", help="only what each mode costs, with one program (interp)"
    )
    parser.add_argument(
        "--growth",
        type=_factor,
        nargs="?",
        const=1,
        metavar="FACTOR",
        help="only what a unit costs where there are many, with sizes so many times as large (1)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.seconds = arguments.seconds or (0.02 if quick else 0.3)
    arguments.rounds = arguments.rounds or (1 if quick else ROUNDS)
    if arguments.pmu and arguments.programs is None:
        arguments.programs = QUICK if quick else PROGRAMS
    if arguments.modes:
        arguments.programs = arguments.programs or (QUICK[1:] if quick else ("interp",))
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


def _measure_modes(arguments: argparse.Namespace) -> None:
    seconds, rounds = arguments.seconds, arguments.rounds
    by_program = {}
    with sides(None) as there, Console(stderr=True).status("") as status:
        for name in arguments.programs:
            costs = modes.measure_modes(name, there[0], seconds, rounds, status.update)
            by_program[name] = costs
    for name, costs in by_program.items():
        modes.print_modes(Console(), name, costs)
    if arguments.json:
        figures = {name: modes.as_json(costs) for name, costs in by_program.items()}
        arguments.json.write_text(json.dumps({"modes": figures}, indent=2) + "\n")


def _measure_growth(arguments: argparse.Namespace) -> None:
    factor, rounds = arguments.growth, min(arguments.rounds, growth.ROUNDS)
    with Console(stderr=True).status("") as status:
        found = growth.measure_growth(factor, rounds, tuple(growth.KINDS), status.update)
    growth.print_growth(Console(), found)
    if arguments.json:
        figures = {each.name: each.as_json() for each in found}
        arguments.json.write_text(json.dumps({"growth": figures}, indent=2) + "\n")


def _measure(arguments: argparse.Namespace) -> bool:
    """Take the figures one by one; each is in the file of --json as soon as it is there.

    Return whether all were taken. Each that was not is told and left out; where something ends
    this before its time, what was taken until then is printed.
    """
    seconds, rounds, against = arguments.seconds, arguments.rounds, arguments.against
    by_program: list[list[Result]] = []
    found: list[Finding] = []
    missed: list[str] = []
    with sides(against) as there, Console(stderr=True).status("") as status:

        def take(name: str) -> None:
            if name in (arguments.programs or ()):
                by_program.append(measure(name, there, seconds, rounds, status.update))
            elif name in PAST:
                found.extend(find_past([name], rounds, status.update))
            elif name == campaigns.NAME:
                found.extend(campaigns.campaign_findings(rounds, status.update))
            else:
                found.extend(find([name], there, rounds, status.update, _warn))

        try:
            for name in (*(arguments.programs or ()), *(arguments.figures or ())):
                why = campaigns.why_not() if name == campaigns.NAME else None
                if why is not None:
                    _warn(f"{name} is left out: {why}")
                    continue
                try:
                    take(name)
                except (ProgramError, OSError) as error:
                    _warn(f"{name} is left out: {error}")
                    missed.append(name)
                    continue
                if arguments.json:
                    figures = as_json(
                        *_by_side(by_program), found, seconds, rounds, there[-1].commit
                    )
                    arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
        finally:
            status.stop()
            print_tables(Console(), *_by_side(by_program), found, against)
    return not missed


def _by_side(by_program: list[list[Result]]) -> tuple[list[Result], list[Result]]:
    """The results of this checkout, and those of the older one if there is one."""
    return [side[0] for side in by_program], [side[1] for side in by_program if len(side) > 1]


def main() -> int:
    """The command."""
    arguments = _arguments()
    try:
        if arguments.pmu:
            _measure_counters(arguments)
        elif arguments.modes:
            _measure_modes(arguments)
        elif arguments.growth:
            _measure_growth(arguments)
        elif not _measure(arguments):
            return 1
    except CommitError as wrong:
        _warn(str(wrong))
        return 2
    except ProgramError as wrong:
        _warn(str(wrong))
        return 1
    return 0


sys.exit(main())
