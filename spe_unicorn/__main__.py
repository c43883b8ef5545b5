"""Where the command begins: ``spe-unicorn``, or ``python -m spe_unicorn``.

Nothing is imported before Ctrl-C has a quiet meaning, since the imports take a while.
"""

from __future__ import annotations

import os
import signal

_INTERRUPTED = 128 + signal.SIGINT


def program() -> None:
    """The command as a process. Ctrl-C ends it at once until a command takes the signal itself."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from spe_unicorn.cli import program as command

    command()


if __name__ == "__main__":
    program()
