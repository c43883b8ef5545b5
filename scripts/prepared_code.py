"""Make or check the LLVM code that is in the package: see ``scripts/prepare``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from spe_unicorn.compiled import Entry, prepared
from tests.support.every_entry import every_entry


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="scripts/prepare", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only compare it with what numba makes"
    )
    checks = parser.parse_args().check
    entries = [entry for entry in every_entry() if isinstance(entry, Entry)]
    with tempfile.TemporaryDirectory(dir=prepared.PLACE.parent) as folder:
        made = Path(folder) / prepared.PLACE.name
        if not checks:
            prepared.write(entries, made)
            os.replace(made, prepared.PLACE)
            return 0
        stale = prepared.stale(entries)
        if stale:
            print("changed since scripts/prepare was run:", *stale, sep="\n  ")
            return 1
        by, this = prepared.made_by(), prepared.compiler()
        if by != this:
            print(f"{prepared.PLACE.name} was made by {by}, and this is {this}: nothing to compare")
            return 0
        different = [
            entry.name for entry in entries if prepared.read_all(entry) != prepared.made(entry)
        ]
    if different:
        print("not what numba makes:", *different, sep="\n  ")
        return 1
    print(f"{prepared.PLACE.name} is what numba makes of {len(entries)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
