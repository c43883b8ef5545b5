"""DC ZVA in compiled code: a block of RAM is filled with zeros at once.

Where memory is not mapped by pages of 4 KiB, the engine stores its bytes one by one, each by its
slowest path. Here one translation decides, and the engine's own function for writes of the host
forgets code that was translated from the block.
"""

from __future__ import annotations

from typing import Final

from unicorn import UC_MEM_WRITE, UC_PROT_WRITE

from spe_unicorn.compiled import Pointer, address_of, int64, routine
from spe_unicorn.decode.branches import ZERO_BLOCK_SIZE
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.native.calls import (
    call_access,
    call_register,
    call_write,
    current_el,
    physical_of,
)
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import EVERY_LEVEL
from spe_unicorn.host.native.state.transit import ZEROING, zeroed_by_engine
from spe_unicorn.host.native.state.whole import offset_of

_SCRATCH: Final = offset_of("scratch")
_PHYSICAL: Final = offset_of("physical")
_WRITE: Final = int(UC_PROT_WRITE)
_PC: Final = int(PC)
_STORE: Final = int(UC_MEM_WRITE)


@routine
def zeroes(state: StateRecord, engine: Pointer, user: Pointer, register: int) -> bool:
    """Carry out DC ZVA of the address in ``register``, which the engine names so.

    False, and nothing has changed, if that is for the engine: it may trap at the PE's Exception
    level, the address may not be written, something else than RAM is there, or a hook is to see
    each byte. A core model is told of one store.
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
    if (
        not state.ram_begin <= physical < state.ram_end
        or call_write(state.mem_write, uc, physical, state.zeros, ZERO_BLOCK_SIZE) != 0
    ):
        call_register(state.reg_read, uc, _PC, here + _SCRATCH)
        zeroed_by_engine(state, state.scratch | ZEROING)
        return False
    if state.told_access != 0:
        zeroed_by_engine(state, 0)
        call_access(state.told_access, uc, _STORE, physical, ZERO_BLOCK_SIZE, int64(0), state.model)
    return True
