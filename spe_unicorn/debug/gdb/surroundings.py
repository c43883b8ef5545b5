"""What a debugger asks of whoever runs the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spe_unicorn.host.ports import Ending


@dataclass(frozen=True)
class Surroundings:
    """What the debugger asks of whoever runs the machine.

    ``say`` prints a sentence for the user of this program, ``stopping`` is whether the run is to
    end, ``held`` is told when GDB begins to hold the machine and when that ends, ``killed`` that
    GDB has ended the run. ``why_ended`` says in a sentence why a run cannot go on, ``statuses`` are
    what the program then exits with.
    """

    say: Callable[[str], None]
    stopping: Callable[[], bool] = lambda: False
    held: Callable[[bool], None] = lambda _: None
    killed: Callable[[], None] = lambda: None
    why_ended: Callable[[Ending], str] = lambda ending: ending.value
    statuses: Mapping[Ending, int] | None = None
