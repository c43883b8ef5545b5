"""How much a child process of a test may take, on a busy machine as well as on an idle one.

A limit of wall time alone tells a busy machine and a slow program not apart. A child gets so much
time of a processor; wall time is limited only so that a child that sleeps for ever ends at last.
"""

from __future__ import annotations

import resource
from typing import Final

WALL_SECONDS: Final = 600
CPU_SECONDS: Final = 120
"""Processor time of each child: more than a first run takes that compiles everything."""


def limit_cpu() -> None:
    """In the child, for ``preexec_fn``: SIGXCPU ends it after ``CPU_SECONDS`` of processor time.

    Children of the child each have the same limit.
    """
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soft = CPU_SECONDS if most == resource.RLIM_INFINITY else min(CPU_SECONDS, most)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, most))
