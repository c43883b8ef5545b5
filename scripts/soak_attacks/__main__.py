"""Attacks the emulator with fresh seeds for a while. See docs/how-to/test.md.

Exit status: 0 nothing failed, 1 something did, 2 a wrong command line.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys

from attack import Attack, attacks
from campaign import campaign
from repeat import repeat

SEEDS_A_DAY = 1_000_000


def _first_seed(date: datetime.date) -> int:
    return int(date.strftime("%Y%m%d")) * SEEDS_A_DAY


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date; write 2026-11-22") from None


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value <= 7 * 24 * 60:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 10080, a week")
    return value


def _jobs(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1024")
    return value


def _arguments(known: dict[str, Attack]) -> argparse.Namespace:
    def kind(text: str) -> Attack:
        if text not in known:
            there = ", ".join(known)
            raise argparse.ArgumentTypeError(f"no attack is called {text!r}; there is: {there}")
        return known[text]

    parser = argparse.ArgumentParser(
        prog="scripts/soak", description="Attack the emulator with fresh seeds for a while."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--minutes", type=_minutes, metavar="N", help="how long")
    what.add_argument(
        "--repeat",
        nargs=2,
        metavar=("KIND", "SEED"),
        help="one attempt again, in this process, with all that it says",
    )
    what.add_argument("--list", action="store_true", help="the kinds of attack")
    parser.add_argument(
        "--kinds",
        type=lambda text: [kind(name) for name in text.split(",")],
        default=list(known.values()),
        metavar="A,B",
        help="only these kinds",
    )
    parser.add_argument(
        "--date",
        type=_date,
        default=datetime.datetime.now(datetime.timezone.utc).date(),
        metavar="YYYY-MM-DD",
        help="the day that the seeds go by (today, UTC)",
    )
    parser.add_argument(
        "--jobs",
        type=_jobs,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes at a time (one a processor)",
    )
    arguments = parser.parse_args()
    if arguments.repeat:
        name, seed = arguments.repeat
        try:
            arguments.repeat = kind(name), int(seed)
        except (argparse.ArgumentTypeError, ValueError) as error:
            parser.error(f"--repeat: {error}")
    return arguments


def main() -> int:
    """The command."""
    known = attacks()
    arguments = _arguments(known)
    if arguments.list:
        width = max(map(len, known))
        for attack in known.values():
            print(f"{attack.name:{width}}  {attack.summary}")
        return 0
    if arguments.repeat:
        return repeat(*arguments.repeat)
    first = _first_seed(arguments.date)
    return campaign(arguments.kinds, 60 * arguments.minutes, first, arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
