"""The compiled hook before every operation, while alignment is checked somewhere."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spe_unicorn.compiled import address_of, entry, pointer_to, record_at
from spe_unicorn.host.native.calls import call_register, call_stop
from spe_unicorn.host.native.rules import access_address
from spe_unicorn.host.native.state import LAYOUT, State, Stop

CHECKS: Final = 1 << 14
"""Rows of the table of operations, direct-mapped by address."""
CHECK: Final = np.dtype([(name, np.int64) for name in ("key", "plan", "offset")])
"""A row: the operation's address with the epoch, what to check, and the offset of its address."""
CHECK_BYTES: Final = CHECK.itemsize
CHECK_BASE: Final = 0
CHECK_INDEX: Final = 16
"""Shifts of the registers' engine numbers plus 1, 0 for none; without a base it is the PC."""
CHECK_EXTEND: Final = 32
CHECK_SHIFT: Final = 36
CHECK_MASK: Final = 40
"""Shifts of the extension of the index, of its shift, and of the bits that must be 0."""
CHECK_SP: Final = 1 << 48
"""The base is SP."""
CHECKED: Final = 1 << 49
"""There is something to check."""
DATA, STACK, DEVICE = 1, 2, 4
"""``State.checking``: addresses of data, SP as a base, addresses of data in Device memory. While it
is not 0, it has the first or the last."""

_ACCESS: Final = int(Stop.ACCESS)
_SCRATCH: Final = State.scratch.offset


@entry("void", "pointer", "uint64", "uint32", "pointer")
def on_operation(engine: Any, address: Any, size: Any, user: Any) -> None:
    """Before an operation: stop if its alignment has to be looked at."""
    s = record_at(user, LAYOUT)
    if s.checking == 0:
        return
    here = np.int64(address)
    slot = (here >> 2) & (CHECKS - 1)
    row = record_at(pointer_to(s.checks + slot * CHECK_BYTES), CHECK)
    stops = row.key != here ^ (s.epoch << 48)
    plan = row.plan
    if not stops and plan & CHECKED:
        uc, scratch = address_of(engine), address_of(user) + _SCRATCH
        where = here
        number = plan >> CHECK_BASE & 0xFFFF
        if number != 0:
            call_register(s.reg_read, uc, number - 1, scratch)
            where = s.scratch
        stops = plan & CHECK_SP != 0 and s.checking & STACK != 0 and where & 15 != 0
        number = plan >> CHECK_INDEX & 0xFFFF
        index = np.int64(0)
        if number != 0:
            call_register(s.reg_read, uc, number - 1, scratch)
            index = s.scratch
        extend, shift = plan >> CHECK_EXTEND & 7, plan >> CHECK_SHIFT & 7
        where = access_address(where + row.offset, index, extend, shift, 1)
        stops = stops or where & (plan >> CHECK_MASK & 0xFF) != 0
    if stops:
        s.stop = _ACCESS
        call_stop(s.emu_stop, address_of(engine))
