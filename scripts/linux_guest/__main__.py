"""Boots Debian's Linux and its perf on the emulator. See docs/how-to/linux.md.

Exit status of a scenario: its own, or the emulator's if it did not come to its end; of --check: 0
if everything is as it should be, else 1. 2 for a wrong command line, 77 if the packages cannot be
had, and 1 for whatever else keeps a guest from being made.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from booted import start_all
from checks import ALL, USUAL, check
from guest import ROOT, Guest, scenario, scenario_names, start
from rate import measure

from spe_unicorn.session.linux.archive import KERNELS, ArchiveError, GuestError, Packages, fetch
from spe_unicorn.session.linux.guest import SETTINGS

FAILURE, NO_PACKAGES = 1, 77


def _scenario(text: str) -> str:
    if text in scenario_names() or Path(text).is_file():
        return text
    raise argparse.ArgumentTypeError(
        f"no scenario and no file is called {text!r}; there is: {', '.join(scenario_names())}"
    )


def _check(text: str) -> str:
    if text in ALL:
        return text
    raise argparse.ArgumentTypeError(f"no check is called {text!r}; there is: {', '.join(ALL)}")


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"no file is called {text!r}")
    return Path(text).resolve()


def _addition(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    file = _file(name)
    return path or f"root/{file.name}", file


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/linux",
        description="Boot Debian's Linux for arm64 and run its perf on the emulator.",
        epilog="What stands after -- goes to spe-unicorn run: --el 2, --smp 4, --trace spe, ...",
    )
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        type=_scenario,
        help=f"{', '.join(scenario_names())}, or a file; several run one after the other",
    )
    parser.add_argument(
        "--from-snapshot",
        action="store_true",
        help="boot once, and start each scenario from a snapshot of the guest that has booted",
    )
    parser.add_argument(
        "--check",
        nargs="*",
        type=_check,
        metavar="NAME",
        help=f"check that all is as it should be, or only NAME: {', '.join(ALL)}; prints TAP;"
        f" {', '.join(ALL.keys() - set(USUAL))} only by name",
    )
    parser.add_argument(
        "--rate",
        nargs="?",
        type=int,
        const=3,
        metavar="ROUNDS",
        help="measure how fast a boot is, and what a recording costs",
    )
    parser.add_argument(
        "--flavour", choices=sorted(KERNELS), default="cloud", help="which of Debian's kernels"
    )
    parser.add_argument("--kernel", type=_file, metavar="FILE", help="a kernel of your own")
    parser.add_argument(
        "--module",
        type=_file,
        action="append",
        default=[],
        metavar="FILE.ko",
        help="a module to load instead of the kernel package's arm_spe_pmu; in order",
    )
    parser.add_argument(
        "--add",
        type=_addition,
        action="append",
        default=[],
        metavar="FILE[=PATH]",
        help="put a file into the guest, into /root unless PATH says where",
    )
    parser.add_argument(
        "--append",
        default=SETTINGS,
        metavar="TEXT",
        help=f"the kernel's command line, besides console=ttyAMA0 ({SETTINGS})",
    )
    parser.add_argument("--suite", default="bookworm", help="the Debian release (bookworm)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / ".cache/linux",
        metavar="DIR",
        help="where packages are kept (.cache/linux)",
    )
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:end])
    arguments.options = words[end + 1 :]
    asked = (arguments.scenarios or None, arguments.check, arguments.rate)
    if sum(a is not None for a in asked) != 1:
        names = ", ".join(scenario_names())
        parser.error(f"name scenarios, or say --check or --rate; scenarios: {names}")
    if arguments.from_snapshot and not arguments.scenarios:
        parser.error("--from-snapshot is for scenarios")
    return arguments


def main() -> int:
    arguments = _arguments()
    try:
        packages = fetch(arguments.cache, arguments.suite)
        if arguments.check is not None:
            names = arguments.check or USUAL
            return check(packages, arguments.suite, names, arguments.options)
        if arguments.rate is not None:
            measure(packages, arguments.rate)
            return 0
        guest = _guest(arguments, packages)
        if arguments.from_snapshot:
            folder = arguments.cache.resolve() / arguments.suite / "snapshots"
            return start_all(guest, arguments.scenarios, folder, arguments.options)
    except (ArchiveError, GuestError, FileNotFoundError) as error:
        print(f"scripts/linux: {error}", file=sys.stderr)
        return NO_PACKAGES if isinstance(error, ArchiveError) else FAILURE
    statuses = [start(guest, scenario(name), arguments.options) for name in arguments.scenarios]
    return next((status for status in statuses if status), 0)


def _guest(arguments: argparse.Namespace, packages: Packages) -> Guest:
    return Guest.of(
        packages,
        arguments.flavour,
        kernel=arguments.kernel,
        modules=arguments.module,
        files=dict(arguments.add),
        append=arguments.append,
    )


if __name__ == "__main__":
    sys.exit(main())
