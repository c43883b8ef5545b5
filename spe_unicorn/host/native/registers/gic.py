"""The GIC's CPU interface in compiled code: what interrupts between PEs live on.

An interrupt that one PE sends and another takes is a write of ICC_SGI1R_EL1, a read of
ICC_IAR1_EL1 and a write of ICC_EOIR1_EL1. They are answered by the functions of
``devices.gicv3.cells`` by which Python answers them. Before the run Python has set at which
Exception levels these accesses need nothing else (``State.gic_at``), and what each PE takes while
its IRQ, its FIQ or its virtual IRQ is asserted. Shared interrupts, two Security states and
everything that is watched are left to Python. ``virtual_gic`` has the accesses of hypervisors and
their guests.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import (
    Pointer,
    Words,
    address_of,
    array_at,
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
    set_line,
)
from spe_unicorn.devices.gicv3.priorities import IMPLEMENTED
from spe_unicorn.devices.gicv3.virtual_cells import WORDS
from spe_unicorn.host.native.calls import call_register, current_el, move_on
from spe_unicorn.host.native.delivery import deliver_by_lines, drive
from spe_unicorn.host.native.registers.virtual_gic import (
    drive_guest,
    is_hypervisors,
    may_trap,
    read_by_guest,
    read_by_hypervisor,
    written_by_guest,
    written_by_hypervisor,
)
from spe_unicorn.host.native.state.actions import READ, WRITE
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.steer import select_set
from spe_unicorn.host.native.state.transit import work_out_special
from spe_unicorn.host.native.state.whole import LAYOUT, offset_of

for _rule in (
    set_line,
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

ANSWERED: Final[tuple[tuple[type[SysReg], int], ...]] = (
    (icc.ICC_IAR1_EL1, READ),
    (icc.ICC_EOIR1_EL1, WRITE),
    (icc.ICC_DIR_EL1, WRITE),
    (icc.ICC_SGI1R_EL1, WRITE),
    (icc.ICC_PMR_EL1, READ),
    (icc.ICC_PMR_EL1, WRITE),
)
"""The accesses of the physical interface that are answered here."""
VIRTUAL: Final = 4
"""``State.gic_at`` has a bit for each Exception level at which ICC names mean the physical
interface. Those from here on mean: at EL1 they mean the virtual one, at EL2 ICH_* are answered."""


class GicPE:
    """A PE in the table ``gic``."""

    kept: int
    """Where the cells are that it keeps."""
    found: int
    """Where the cells are that others find for it."""
    virtual: int
    """Where the cells of its virtual interface are."""
    state: int
    """Where its ``State`` is."""
    affinity: int


GIC_PE: Final = layout(GicPE)

_GIC_PE_BYTES: Final = GIC_PE.itemsize
_SCRATCH: Final = offset_of("scratch")
_SS: Final = int(SPSR.SS.mask)
_PMR, _DIR = icc.ICC_PMR_EL1.encoding.key, icc.ICC_DIR_EL1.encoding.key
_SGI1R: Final = icc.ICC_SGI1R_EL1.encoding.key
_INTID: Final = 0xFF_FFFF


@routine
def answer_gic(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int, register: int
) -> bool:
    """Answer an MSR of ``value``, or an MRS if ``register`` is not -1, which gets the value.

    Return False if Python has to answer it. If that may change who answers a guest, nothing else is
    answered here up to the end of the run.
    """
    if _is_answered(state, engine, user, key, value, register):
        return True
    if register < 0 and may_trap(key):
        select_set(state, state.control_set, 0)
    return False


@routine
def _may_answer(state: StateRecord) -> bool:
    """Whether this run has the GIC answered here, and the block that runs looks out for nothing."""
    return (
        state.gic_at != 0
        and state.pending == 0
        and state.checking == 0
        and state.stop == 0
        and state.notice == 0
    )


@routine
def _is_answered(
    state: StateRecord, engine: Pointer, user: Pointer, key: int, value: int, register: int
) -> bool:
    """Answer an access as :func:`answer_gic`. False, with nothing done, if Python has to."""
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    if not _may_answer(state):
        return False
    el = current_el(state, uc, scratch)
    if state.scratch & _SS != 0 or state.deliver_irq < 0:
        return False
    own = record_at(pointer_to(state.gic + state.gic_own * _GIC_PE_BYTES), GIC_PE)
    k = array_at(pointer_to(own.kept), (KEPT,), np.int64)
    f = array_at(pointer_to(own.found), (FOUND,), np.int64)
    v = array_at(pointer_to(own.virtual), (WORDS,), np.int64)
    of_hypervisor = is_hypervisors(key)
    answers = state.gic_at >> el
    if answers & 1 != 0 and not of_hypervisor:
        if register >= 0:
            value = k[PMR] if key == _PMR else _acknowledge(k, f)
            done = value >= 0
        else:
            done = _written(state, k, f, key, value)
    elif answers >> VIRTUAL & 1 == 0 or key in (_DIR, _SGI1R) or of_hypervisor != (el == EL2):
        done = False
    elif of_hypervisor and register >= 0:
        value, done = read_by_hypervisor(v, key), True
    elif of_hypervisor:
        done = written_by_hypervisor(v, key, value)
    elif register >= 0:
        value = read_by_guest(v, key)
        done = value >= 0
    else:
        done = written_by_guest(k, f, v, key, value)
    if not done:
        return False
    if register >= 0:
        state.scratch = value
        call_register(state.reg_write, uc, register, scratch)
    if answers >> VIRTUAL & 1 != 0:
        drive_guest(state, k, f, v)
    _drive(state, asserted_lines(k, f))
    work_out_special(state)
    move_on(state, uc, scratch)
    return True


@routine
def drive_private(state: StateRecord, intid: int, level: bool) -> bool:
    """Drive the input of a private interrupt. Return False, with nothing done, if Python has to."""
    if not _may_answer(state) or state.deliver_irq < 0:
        return False
    own = record_at(pointer_to(state.gic + state.gic_own * _GIC_PE_BYTES), GIC_PE)
    k = array_at(pointer_to(own.kept), (KEPT,), np.int64)
    f = array_at(pointer_to(own.found), (FOUND,), np.int64)
    if set_line(k, intid, level):
        look(k, f)
        _drive(state, asserted_lines(k, f))
        work_out_special(state)
    return True


@routine
def _written(state: StateRecord, k: Words, f: Words, key: int, value: int) -> bool:
    """Make an MSR of :data:`ANSWERED` with one Security state. Return False if Python has to."""
    if key == _PMR:
        k[PMR] = value & IMPLEMENTED
        return True
    if key == _SGI1R:
        _send(state, value)
        return True
    if key == _DIR:
        return _deactivate(k, f, value & _INTID)
    return _end(k, f, value & _INTID)


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
def _deactivate(k: Words, f: Words, intid: int) -> bool:
    """Write ICC_DIR_EL1 with one Security state. Return False if Python has to.

    Without EOImode it is UNPREDICTABLE: ignored, as by Python.
    """
    if k[SPLIT + NONSECURE] == 0:
        return True
    if intid >= PRIVATE or group_of(k, f, intid) != NONSECURE:
        return False
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
