"""IC IVAU in compiled code: the engine forgets what it translated from one cache line.

The engine notices a store to code that it has translated, except through a mapping that was in its
TLB before it translated the code. Kernels patch themselves and load programs through such mappings,
and then execute IC IVAU, which the engine ignores. The engine can be asked to forget a virtual line
that it could fetch from, and not a physical one. At EL3 without translation the two are the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import HCR_EL2, SCTLR_EL3
from spe_unicorn.compiled import Pointer, address_of, array_at, layout, pointer_to, routine
from spe_unicorn.host.engine.builds import release_numbers
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.native.calls import call_register, forget_code, physical_of
from spe_unicorn.host.native.state.clock import CODE_MAINTENANCE
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import broadcast, broadcast_line
from spe_unicorn.host.native.state.whole import offset_of

LINE: Final = release_numbers().code_line
"""Bytes of the line that IC IVAU invalidates."""


class NamedRegister:
    """How the engine's interface names a System register and carries its value."""

    crn: int
    crm: int
    op0: int
    op1: int
    op2: int
    pad: int
    value: int


CP_REG: Final = layout(
    NamedRegister,
    np.dtype(
        [
            *((name, np.uint32) for name in ("crn", "crm", "op0", "op1", "op2", "pad")),
            ("value", np.int64),
        ]
    ),
)

_CP_REG: Final = int(regs.UC_ARM64_REG_CP_REG)
_PSTATE: Final = int(PSTATE)
_READ: Final = int(uc_const.UC_PROT_READ)
_AT_EL3: Final = 0x3CD
_SCRATCH: Final = offset_of("scratch")
_PHYSICAL: Final = offset_of("physical")
_SIZE: Final = CP_REG.itemsize


def named_registers() -> NDArray[np.void]:
    """The two System registers that :func:`forget_line` asks the engine about."""
    return rows_of(HCR_EL2.encoding, SCTLR_EL3.encoding)


def rows_of(*encodings: Encoding) -> NDArray[np.void]:
    """A table of System registers as the engine's interface names them."""
    rows = np.zeros(len(encodings), CP_REG)
    for row, encoding in zip(rows, encodings, strict=True):
        for field in ("crn", "crm", "op0", "op1", "op2"):
            row[field] = getattr(encoding, field)
    return rows


@routine
def forget_line(state: StateRecord, engine: Pointer, user: Pointer, register: int) -> bool:
    """Execute IC IVAU of ``register``. Return False if all code has to be forgotten instead."""
    here = address_of(user)
    uc = address_of(engine)
    call_register(state.reg_read, uc, register, here + _SCRATCH)
    physical = physical_of(state, uc, state.scratch, _READ, here + _PHYSICAL)
    if physical < 0:
        return True  # no memory is there, so the engine has no code of it
    line = physical & -LINE
    if not broadcast_line(state, line):
        broadcast(state, CODE_MAINTENANCE)
    names = array_at(pointer_to(state.named), (2,), CP_REG)
    call_register(state.reg_read, uc, _CP_REG, state.named + _SIZE)
    if names[1].value & 1:
        return False  # EL3 translates: a physical address is not a virtual address there
    call_register(state.reg_read, uc, _PSTATE, here + _SCRATCH)
    pstate = state.scratch
    call_register(state.reg_read, uc, _CP_REG, state.named)
    state.scratch = _AT_EL3
    call_register(state.reg_write, uc, _PSTATE, here + _SCRATCH)
    call_register(
        state.reg_write, uc, _CP_REG, state.named
    )  # at this write the engine looks at PSTATE
    forget_code(state, uc, line, line + LINE)
    state.scratch = pstate
    call_register(state.reg_write, uc, _PSTATE, here + _SCRATCH)
    call_register(state.reg_write, uc, _CP_REG, state.named)
    return True
