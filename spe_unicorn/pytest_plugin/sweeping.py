"""The mark ``spe_interrupt_sweep``: an interrupt before each operation of a window."""

from __future__ import annotations

import os

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.point import PointError
from spe_unicorn.session.sweeping.inject import InjectionError
from spe_unicorn.session.sweeping.sweep import lines_of, parse_sweep, sweep


def swept(options: MachineOptions, wanted: str) -> str | None:
    """Sweep as ``INTID[,POINT-POINT]`` says; what failed, None if nothing did.

    A worker of pytest-xdist uses one process. A window that there is not is told, too.
    """
    alone = "PYTEST_XDIST_WORKER" in os.environ
    try:
        asked = parse_sweep(wanted)
        found = sweep(options, asked, 1 if alone else os.cpu_count() or 1)
    except (InjectionError, PointError) as error:
        return f"spe_interrupt_sweep: {error}"
    if found.plain:
        return f"without any interrupt: {found.plain}"
    lines = lines_of(options, asked.interrupt, found)
    return "\n".join(lines) if lines else None
