"""Where the program flow last went, for the previous branch target of records (FEAT_SPE_PBT).

A block that does not begin where the one before it ended was reached by a taken branch, or by an
exception or a return from one, which count here as well: the architecture leaves that open. A
branch to the operation behind it cannot be told from going on, and is not noticed.

Only cores that record it pay for this: it is a second hook for blocks, behind the one that counts.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spe_unicorn.compiled import entry, record_at
from spe_unicorn.host.native.state import LAYOUT

FLOW_VALID: Final = 1 << 2
"""In ``State.flow``: the branch was executed while profiling was enabled."""


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_flow(engine: Any, address: Any, size: Any, user: Any) -> None:
    """A block begins, or the engine stops in front of it."""
    s = record_at(user, LAYOUT)
    if s.stop != 0:
        return  # this block is not going to run
    if np.int64(address) != s.flow_next:
        s.flow_target = np.int64(address)
        s.flow = s.flow_el | s.flow_was << 2
    s.flow_next = np.int64(address) + np.int64(size)
    s.flow_was = s.flow_enabled
