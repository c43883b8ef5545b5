"""DC ZVA in compiled code: a block of RAM is filled with zeros at once.

Where memory is not mapped by pages of 4 KiB, the engine stores its bytes one by one, each by its
slowest path. Here one translation decides, and the engine's own function for writes of the host
forgets code that was translated from the block.
"""

from __future__ import annotations

from typing import Final

from unicorn import UC_PROT_WRITE

from spe_unicorn.compiled import Pointer, address_of, routine
from spe_unicorn.decode.branches import ZERO_BLOCK_SIZE
from spe_unicorn.host.native.calls import call_register, call_write, current_el, physical_of
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import EVERY_LEVEL
from spe_unicorn.host.native.state.whole import offset_of

_SCRATCH: Final = offset_of("scratch")
_PHYSICAL: Final = offset_of("physical")
_WRITE: Final = int(UC_PROT_WRITE)


@routine
def zeroes(state: StateRecord, engine: Pointer, user: Pointer, register: int) -> bool:
    """Carry out DC ZVA of the address in ``register``, which the engine names so.

    False, and nothing has changed, if that is for the engine: it may trap at the PE's Exception
    level, the address may not be written, or something else than RAM is there.
    """
    uc, here = address_of(engine), address_of(user)
    if state.zeroes_at != EVERY_LEVEL:
        el = current_el(state, uc, here + _SCRATCH)
        if state.zeroes_at >> el & 1 == 0:
            return False
    state.scratch = 0
    call_register(state.reg_read, uc, register, here + _SCRATCH)
    address = state.scratch & -ZERO_BLOCK_SIZE
    physical = physical_of(state, uc, address, _WRITE, here + _PHYSICAL)
    if not state.ram_begin <= physical < state.ram_end:
        return False
    return call_write(state.mem_write, uc, physical, state.zeros, ZERO_BLOCK_SIZE) == 0
