"""The mark ``spe_interrupt_sweep``: an interrupt before each operation of a window."""

from __future__ import annotations

import os

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.sweeping.sweep import lines_of, parse_sweep, sweep


def swept(options: MachineOptions, wanted: str) -> str | None:
    """Sweep as ``INTID[,POINT-POINT]`` says; what failed, None if nothing did.

    A worker of pytest-xdist uses one process. Raises InjectionError and PointError.
    """
    asked = parse_sweep(wanted)
    alone = "PYTEST_XDIST_WORKER" in os.environ
    found = sweep(options, asked, 1 if alone else os.cpu_count() or 1)
    if found.plain:
        return f"without any interrupt: {found.plain}"
    lines = lines_of(options, asked.interrupt, found)
    return "\n".join(lines) if lines else None
