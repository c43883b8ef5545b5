"""The GIC's CPU interface in compiled code: what interrupts between PEs live on.

An interrupt that one PE sends and another takes is a write of ICC_SGI1R_EL1, a read of
ICC_IAR1_EL1 and a write of ICC_EOIR1_EL1. They are answered by the functions of
``devices.gicv3.cells`` by which Python answers them. Before the run Python has set at which
Exception levels these accesses need nothing else (``State.gic_at``), and what each PE takes while
its IRQ or its FIQ is asserted. Shared interrupts, two Security states, a guest's virtual interrupts
and everything that is watched are left to Python.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import (
    Pointer,
    Words,
    address_of,
    array_at,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.devices.gicv3 import cells, priorities
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3.cells import (
    FOUND,
    INTID,
    KEPT,
    LATCH,
    NONSECURE,
    OF_GROUP,
    PMR,
    PRIVATE,
    SPLIT,
    SPURIOUS,
    activate,
    asserted_lines,
    deactivate,
    drop_running,
    gets_through,
    group_of,
    is_target,
    look,
    raise_running,
    running_group,
)
from spe_unicorn.devices.gicv3.priorities import IMPLEMENTED
from spe_unicorn.host.native.calls import call_register, current_el, move_on
from spe_unicorn.host.native.code import NamedRegister
from spe_unicorn.host.native.delivery import deliver_by_lines, drive
from spe_unicorn.host.native.state.actions import READ, WRITE
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.transit import work_out_special
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

for _rule in (
    cells.mask_of,
    cells.all_active,
    priorities.lowest_bit,
    priorities.running,
    priorities.preempts,
    priorities.group_mask,
    priorities.active_bit,
    activate,
    deactivate,
    drop_running,
    gets_through,
    group_of,
    is_target,
    look,
    raise_running,
    running_group,
    asserted_lines,
):
    routine(_rule)

ANSWERED: Final[tuple[tuple[Encoding, int], ...]] = (
    (icc.ICC_IAR1_EL1.encoding, READ),
    (icc.ICC_EOIR1_EL1.encoding, WRITE),
    (icc.ICC_SGI1R_EL1.encoding, WRITE),
    (icc.ICC_PMR_EL1.encoding, READ),
    (icc.ICC_PMR_EL1.encoding, WRITE),
)
"""The accesses that are answered here, where :attr:`State.gic_at` says so."""


class GicPE:
    """A PE in the table ``gic``."""

    kept: int
    """Where the cells are that it keeps."""
    found: int
    """Where the cells are that others find for it."""
    state: int
    """Where its ``State`` is."""
    affinity: int


GIC_PE: Final = layout(GicPE)

_GIC_PE_BYTES: Final = GIC_PE.itemsize
_SCRATCH: Final = offset_of("scratch")
_SS: Final = int(SPSR.SS.mask)
_CRN_OF_PMR: Final = icc.ICC_PMR_EL1.encoding.crn
_CRM_OF_SGI: Final = icc.ICC_SGI1R_EL1.encoding.crm


@routine
def answer_gic(
    state: StateRecord, engine: Pointer, user: Pointer, r: NamedRegister, register: int, read: int
) -> bool:
    """Answer an access of :data:`ANSWERED`. Return False if Python has to answer it."""
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    if (
        state.gic_at == 0
        or state.pending != 0
        or state.checking != 0
        or state.stop != 0
        or state.notice != 0
    ):
        return False
    el = current_el(state, uc, scratch)
    if state.gic_at >> el & 1 == 0 or state.scratch & _SS != 0 or state.deliver_irq < 0:
        return False
    own = record_at(pointer_to(state.gic + state.gic_own * _GIC_PE_BYTES), GIC_PE)
    k = array_at(pointer_to(own.kept), (KEPT,), np.int64)
    f = array_at(pointer_to(own.found), (FOUND,), np.int64)
    if read:
        value = k[PMR] if r.crn == _CRN_OF_PMR else _acknowledge(k, f)
        if value < 0:
            return False
        state.scratch = value
        call_register(state.reg_write, uc, int64(register), scratch)
    elif r.crn == _CRN_OF_PMR:
        k[PMR] = r.value & IMPLEMENTED
    elif r.crm == _CRM_OF_SGI:
        _send(state, r.value)
    elif not _end(k, f, r.value & 0xFF_FFFF):
        return False
    _drive(state, asserted_lines(k, f))
    work_out_special(state)
    move_on(state, uc, scratch)
    return True


@routine
def _acknowledge(k: Words, f: Words) -> int:
    """Read ICC_IAR1_EL1 with one Security state. Return -1 if Python has to."""
    if not gets_through(k, f) or f[OF_GROUP] == 0:
        return SPURIOUS
    intid = f[INTID]
    if intid >= PRIVATE:
        return -1
    raise_running(k, f)
    activate(k, intid)
    look(k, f)
    return intid


@routine
def _end(k: Words, f: Words, intid: int) -> bool:
    """Write ICC_EOIR1_EL1 with one Security state. Return False if Python has to."""
    if intid >= PRIVATE:
        return False
    group = running_group(k)
    if group <= 0:
        return True
    drop_running(k, group)
    if k[SPLIT + NONSECURE] == 0:
        deactivate(k, intid)
        look(k, f)
    return True


@routine
def _send(state: StateRecord, value: int) -> None:
    """Write ICC_SGI1R_EL1 with one Security state."""
    intid = value >> 24 & 0xF
    for n in range(state.gic_pes):
        pe = record_at(pointer_to(state.gic + n * _GIC_PE_BYTES), GIC_PE)
        if not is_target(value, pe.affinity, n == state.gic_own):
            continue
        k = array_at(pointer_to(pe.kept), (KEPT,), np.int64)
        f = array_at(pointer_to(pe.found), (FOUND,), np.int64)
        if group_of(k, f, intid) != NONSECURE:
            continue
        k[LATCH] |= 1 << intid
        look(k, f)
        if n == state.gic_own:
            continue
        other = record_at(pointer_to(pe.state), LAYOUT)
        if _drive(other, asserted_lines(k, f)) and (other.waits != 0 or other.deliver_irq < 0):
            # another PE has to know, with this very operation
            state.rose |= 1 << n
            end_after_block(state)


@routine
def _drive(state: StateRecord, lines: int) -> bool:
    """Drive the IRQ and FIQ of a PE, and set what it takes. True if they changed and one is on."""
    if state.lines == lines:
        return False
    drive(state, lines)
    deliver_by_lines(state)
    return lines != 0
