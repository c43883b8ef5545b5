"""What a run says of itself while it runs, and at its end."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(text: str) -> None:
    """Write to standard error; nobody has to listen."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
