"""One attempt again: in this process, so that a debugger can be there, and its files are kept."""

from __future__ import annotations

import faulthandler
import tempfile
import traceback
from pathlib import Path

from attack import Attack

WIDEST = 200
"""Characters that are shown of a line, such as that of a variable."""


def repeat(attack: Attack, seed: int) -> int:
    """Make the attempt of a seed; the exit status: 0 nothing is wrong, 1 something is."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(attack.limit)
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{attack.name}-{seed}-"))
    print(f"soak: {attack.name} {seed}: {attack.summary}; files are in {folder}", flush=True)
    try:
        tried = attack.attempt(seed, folder)
    except Exception as error:
        shown = traceback.TracebackException.from_exception(error, capture_locals=True)
        for line in "".join(shown.format()).splitlines():
            print(line if len(line) <= WIDEST else f"{line[:WIDEST]}...")
        print(f"soak: {attack.name} {seed} failed")
        return 1
    finally:
        faulthandler.cancel_dump_traceback_later()
    print(f"soak: {attack.name} {seed}: {tried} tried, nothing is wrong")
    return 0
