"""The process in which attempts are made: a line "KIND SEED" in, a line of JSON out.

Its argument is the folder of the kinds. It may die of an attempt, or hang; the campaign sees to
that, and shows its standard error, a file, then.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

from attack import Attack, attacks

FRAMES = 12
"""Lines of a traceback that are told, from its end."""


def _attempt(attack: Attack, seed: int) -> dict[str, object]:
    # the stacks of a process that hangs are there when it is killed
    faulthandler.dump_traceback_later(0.95 * attack.limit, repeat=True)
    try:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            return {"tried": attack.attempt(seed, Path(folder))}
    except Exception:
        lines = traceback.format_exc().splitlines()
        return {"failed": "\n".join(lines[-FRAMES:]), "what": lines[-1]}
    finally:
        faulthandler.cancel_dump_traceback_later()


def main() -> None:
    """Make attempts until standard input ends."""
    faulthandler.enable()
    # an attempt may print: its standard output is not the line to the campaign
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    known = attacks(Path(sys.argv[1]))
    for line in sys.stdin:
        name, seed = line.split()
        json.dump(_attempt(known[name], int(seed)), answers)
        answers.write("\n")
        answers.flush()


if __name__ == "__main__":
    main()
