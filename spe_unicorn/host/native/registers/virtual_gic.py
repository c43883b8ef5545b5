"""The GIC's virtual CPU interface in compiled code: what hypervisors save, load and look at.

An exit of a guest reads and writes a dozen of ICH_*, and the guest takes and ends its interrupts by
ICV_IAR1_EL1 and ICV_EOIR1_EL1. They are answered by the functions of
``devices.gicv3.virtual_cells`` by which Python answers them. Guests that have enabled Group 0 are
left to Python, as a virtual FIQ is.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.compiled import Words, routine
from spe_unicorn.devices.gicv3 import MAINTENANCE, virtual_cells
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3 import virtual_registers as v
from spe_unicorn.devices.gicv3.cells import PRIVATE, deactivate, look, set_line
from spe_unicorn.devices.gicv3.registers import SRE_EL1, SRE_EL2
from spe_unicorn.devices.gicv3.virtual_cells import (
    ACTIVE_PRIORITIES,
    HCR,
    MAINTAINED,
    VIRQ,
    VMCR,
    VTR,
    acknowledge_virtual,
    driven,
    empty_lists,
    end_virtual,
    ended_lists,
    find_active,
    physical,
    read_list,
    read_mask,
    reasons,
    write_hcr,
    write_list,
    write_mask,
    write_vmcr,
)
from spe_unicorn.host.native.delivery import deliver_by_lines, drive_virtual
from spe_unicorn.host.native.state.actions import READ, WRITE
from spe_unicorn.host.native.state.fields import StateRecord

for _rule in (
    virtual_cells.state_of,
    virtual_cells.list_group,
    virtual_cells.urgency,
    virtual_cells.read_mask,
    virtual_cells.physical,
    virtual_cells.highest,
    virtual_cells.virtual_mask,
    virtual_cells.both_active,
    virtual_cells.is_signalled,
    virtual_cells.set_state,
    virtual_cells.find_active,
    virtual_cells.acknowledge_virtual,
    virtual_cells.deactivate_virtual,
    virtual_cells.count_unlisted,
    virtual_cells.end_virtual,
    virtual_cells.ended_lists,
    virtual_cells.empty_lists,
    virtual_cells.reasons,
    virtual_cells.driven,
    virtual_cells.read_list,
    virtual_cells.write_list,
    virtual_cells.write_hcr,
    virtual_cells.write_mask,
    virtual_cells.write_vmcr,
):
    routine(_rule)

GUESTS: Final[tuple[tuple[type[SysReg], int], ...]] = (
    (v.ICV_IAR1_EL1, READ),
    (v.ICV_EOIR1_EL1, WRITE),
    (v.ICV_PMR_EL1, READ),
    (v.ICV_PMR_EL1, WRITE),
)
"""The accesses of a guest that are answered here, by names of ICC registers."""
_READ_ONLY: Final[tuple[type[SysReg], ...]] = (
    v.ICH_VTR_EL2,
    v.ICH_MISR_EL2,
    v.ICH_EISR_EL2,
    v.ICH_ELRSR_EL2,
)
_BOTH: Final[tuple[type[SysReg], ...]] = (
    v.ICH_AP0R0_EL2,
    v.ICH_AP1R0_EL2,
    v.ICH_HCR_EL2,
    v.ICH_VMCR_EL2,
    *v.LIST_REGISTERS,
    icc.ICC_SRE_EL1,
    icc.ICC_SRE_EL2,
)
HYPERVISORS: Final[tuple[tuple[type[SysReg], int], ...]] = (
    *((register, READ) for register in (*_READ_ONLY, *_BOTH)),
    *((register, WRITE) for register in _BOTH),
)
"""The accesses of EL2 that are answered here."""
TRAPS: Final = (
    v.ICH_HCR_EL2.TC.mask
    | v.ICH_HCR_EL2.TALL0.mask
    | v.ICH_HCR_EL2.TALL1.mask
    | v.ICH_HCR_EL2.TDIR.mask
)
"""Bits of ICH_HCR_EL2 that decide who answers a guest."""

_VENG0: Final = v.ICH_VMCR_EL2.VENG0.mask
_OP1: Final = v.ICH_HCR_EL2.encoding.op1
_INTID: Final = 0xFF_FFFF
_WORD: Final = 0xFFFF_FFFF
_PMR: Final = icc.ICC_PMR_EL1.encoding.key
_SRE_EL1, _SRE_EL2 = icc.ICC_SRE_EL1.encoding.key, icc.ICC_SRE_EL2.encoding.key
_AP0R0, _AP1R0 = v.ICH_AP0R0_EL2.encoding.key, v.ICH_AP1R0_EL2.encoding.key
_HCR, _VMCR = v.ICH_HCR_EL2.encoding.key, v.ICH_VMCR_EL2.encoding.key
_VTR_KEY, _MISR = v.ICH_VTR_EL2.encoding.key, v.ICH_MISR_EL2.encoding.key
_EISR, _ELRSR = v.ICH_EISR_EL2.encoding.key, v.ICH_ELRSR_EL2.encoding.key
_LR0: Final = v.ICH_LR0_EL2.encoding.key
"""The others follow it."""


@routine
def is_hypervisors(key: int) -> bool:
    """Whether one of the accesses that are answered is of :data:`HYPERVISORS`."""
    return key >> 11 & 7 == _OP1 or key == _SRE_EL1


@routine
def may_trap(key: int) -> bool:
    """Whether a write of that register may decide about who answers a guest."""
    return key == _HCR


@routine
def read_by_hypervisor(v: Words, key: int) -> int:
    """What an MRS of :data:`HYPERVISORS` returns."""
    if key == _HCR:
        return v[HCR]
    if key >= _LR0:
        return read_list(v, key - _LR0)
    if key == _VMCR:
        return v[VMCR]
    if key == _AP1R0:
        return v[ACTIVE_PRIORITIES + 1]
    if key == _AP0R0:
        return v[ACTIVE_PRIORITIES]
    if key == _ELRSR:
        return empty_lists(v)
    if key == _MISR:
        return reasons(v)
    if key == _EISR:
        return ended_lists(v)
    if key == _VTR_KEY:
        return VTR
    return SRE_EL1 if key == _SRE_EL1 else SRE_EL2


@routine
def written_by_hypervisor(v: Words, key: int, value: int) -> bool:
    """Make an MSR of :data:`HYPERVISORS`. Return False, with nothing done, if Python has to."""
    if v[VMCR] & _VENG0 != 0:
        return False
    if key == _HCR:
        if (v[HCR] ^ value) & TRAPS != 0:
            return False
        write_hcr(v, value)
    elif key >= _LR0:
        write_list(v, key - _LR0, value)
    elif key == _VMCR:
        if value & _VENG0 != 0:
            return False
        write_vmcr(v, value)
    elif key == _AP1R0:
        v[ACTIVE_PRIORITIES + 1] = value & _WORD
    elif key == _AP0R0:
        v[ACTIVE_PRIORITIES] = value & _WORD
    return True  # of ICC_SRE_ELx nothing can be written


@routine
def read_by_guest(v: Words, key: int) -> int:
    """What an MRS of :data:`GUESTS` returns, and does; -1 if Python has to answer it."""
    if key == _PMR:
        return read_mask(v)
    return -1 if v[VMCR] & _VENG0 != 0 else acknowledge_virtual(v, 1)


@routine
def written_by_guest(k: Words, f: Words, v: Words, key: int, value: int) -> bool:
    """Make an MSR of :data:`GUESTS`. Return False, with nothing done, if Python has to."""
    if v[VMCR] & _VENG0 != 0:
        return False
    if key == _PMR:
        write_mask(v, value)
        return True
    intid = value & _INTID
    number = find_active(v, intid)
    if number >= 0 and physical(v, number) >= PRIVATE:
        return False
    ended = end_virtual(v, intid, 1)
    if ended >= 0:
        deactivate(k, ended)
        look(k, f)
    return True


@routine
def drive_guest(state: StateRecord, k: Words, f: Words, v: Words) -> None:
    """Drive the guest's virtual IRQ, and the maintenance interrupt, which is a private one."""
    lines = driven(v)
    if set_line(k, MAINTENANCE, lines & MAINTAINED != 0):
        look(k, f)
    level = lines & VIRQ
    if state.virq != level:
        drive_virtual(state, level)
        deliver_by_lines(state)
