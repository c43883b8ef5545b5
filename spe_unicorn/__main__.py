"""Where the command begins: ``spe-unicorn``, or ``python -m spe_unicorn``.

Nothing is imported before Ctrl-C has a quiet meaning, since the imports take a while.
"""

from __future__ import annotations

import gc
import os
import signal

_INTERRUPTED = 128 + signal.SIGINT
_COLLECTED_AFTER = 200_000
"""New objects after which garbage is looked for: by Python's 700, 200 times while we start."""


def program() -> None:
    """The command as a process. Ctrl-C ends it at once until a command takes the signal itself."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    gc.set_threshold(_COLLECTED_AFTER)
    # NumPy's linear algebra, which nothing here uses, would start a thread for each processor
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from spe_unicorn.cli import program as command

    command()


if __name__ == "__main__":
    program()
