"""What a PE's virtual CPU interface holds, as an array, and the rules on it that need nothing else.

As in ``cells``, Python and compiled code answer by the same functions, so these use numbers and
arrays alone. A List register has two words: bits 63 to 32, and the vINTID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spe_unicorn.devices.gicv3.cells import SPURIOUS
from spe_unicorn.devices.gicv3.priorities import (
    IDLE,
    IMPLEMENTED,
    LEAST_POINT,
    PRIORITY_BITS,
    active_bit,
    group_mask,
    preempts,
    running,
)
from spe_unicorn.devices.gicv3.virtual_registers import (
    ICH_HCR_EL2,
    ICH_MISR_EL2,
    ICH_VMCR_EL2,
    ICH_VTR_EL2,
    LIST_REGISTERS,
    ListRegister,
)

if TYPE_CHECKING:
    from spe_unicorn.compiled import Words

HCR: Final = 0
VMCR: Final = 1
ACTIVE_PRIORITIES: Final = 2
"""Two words: ICH_AP0R0_EL2 and ICH_AP1R0_EL2."""
HIGH, LOW = 4, 5
"""The words of the first List register. Those of each later one stand two words behind."""
LISTS: Final = len(LIST_REGISTERS)
WORDS: Final = HIGH + 2 * LISTS

VIRQ, VFIQ, MAINTAINED = 1, 2, 4
"""Bits of :func:`driven`: the guest's inputs, and the line that asks for the hypervisor."""
PENDING, ACTIVE = 1, 2
"""Bits of ``ListRegister.State``."""

VTR: Final = ICH_VTR_EL2.of(
    PRIbits=PRIORITY_BITS - 1,
    PREbits=PRIORITY_BITS - 1,
    IDbits=1,
    A3V=1,
    nV4=1,
    TDS=1,
    ListRegs=LISTS - 1,
).value
"""ICH_VTR_EL2."""

_FIRST_LPI: Final = 8192
_LEAST_POINT_1: Final = LEAST_POINT + 1
_EOI: Final = 1 << 9  # in pINTID, of a List register without HW
_INTID: Final = 0xFF_FFFF
_WORD: Final = 0xFFFF_FFFF

_HCR_WRITABLE: Final = ICH_HCR_EL2.writable_mask(frozenset())
_VMCR_WRITABLE: Final = ICH_VMCR_EL2.writable_mask(frozenset())
_VMCR_RES1: Final = ICH_VMCR_EL2.res1_mask(frozenset())
_HIGH_WRITABLE: Final = ListRegister.writable_mask(frozenset()) >> 32

_EN: Final = ICH_HCR_EL2.En.mask
_COUNT: Final = ICH_HCR_EL2.EOIcount.mask
_COUNT_UNIT: Final = 1 << ICH_HCR_EL2.EOIcount.lsb
_REASONS: Final = 0xFE
"""What ICH_HCR_EL2 enables stands at the bits that ICH_MISR_EL2 has for it."""
_IS_EOI, _IS_U, _IS_LRENP, _IS_NP, _IS_0E, _IS_0D, _IS_1E, _IS_1D = (
    field.mask
    for field in (
        ICH_MISR_EL2.EOI,
        ICH_MISR_EL2.U,
        ICH_MISR_EL2.LRENP,
        ICH_MISR_EL2.NP,
        ICH_MISR_EL2.VGrp0E,
        ICH_MISR_EL2.VGrp0D,
        ICH_MISR_EL2.VGrp1E,
        ICH_MISR_EL2.VGrp1D,
    )
)

_VENG0, _VENG1 = ICH_VMCR_EL2.VENG0.mask, ICH_VMCR_EL2.VENG1.mask
_VCBPR, _VEOIM = ICH_VMCR_EL2.VCBPR.mask, ICH_VMCR_EL2.VEOIM.mask
_VBPR0, _VBPR1 = ICH_VMCR_EL2.VBPR0.lsb, ICH_VMCR_EL2.VBPR1.lsb
_VPMR: Final = ICH_VMCR_EL2.VPMR.lsb
_POINT: Final = ICH_VMCR_EL2.VBPR0.max
_OTHERS: Final = ~(ICH_VMCR_EL2.VPMR.mask | ICH_VMCR_EL2.VBPR0.mask | ICH_VMCR_EL2.VBPR1.mask)

_STATE, _GROUP = ListRegister.State.lsb - 32, ListRegister.Group.lsb - 32
_PRIORITY, _PINTID = ListRegister.Priority.lsb - 32, ListRegister.pINTID.lsb - 32
_PRIORITY_BITS, _PINTID_BITS = ListRegister.Priority.max, ListRegister.pINTID.max
_HW: Final = ListRegister.HW.mask >> 32
_STATE_BITS: Final = ListRegister.State.mask >> 32


# Registers, as they are written and read


def write_hcr(v: Words, value: int) -> None:
    """ICH_HCR_EL2."""
    v[HCR] = value & _HCR_WRITABLE


def write_vmcr(v: Words, value: int) -> None:
    """ICH_VMCR_EL2: priorities and binary points become ones that are implemented."""
    kept = value & _VMCR_WRITABLE | _VMCR_RES1
    mask = kept >> _VPMR & IMPLEMENTED
    point0 = max(kept >> _VBPR0 & _POINT, LEAST_POINT)
    point1 = max(kept >> _VBPR1 & _POINT, _LEAST_POINT_1)
    v[VMCR] = kept & _OTHERS | mask << _VPMR | point0 << _VBPR0 | point1 << _VBPR1


def write_mask(v: Words, value: int) -> None:
    """ICV_PMR_EL1."""
    v[VMCR] = v[VMCR] & ~(0xFF << _VPMR) | (value & IMPLEMENTED) << _VPMR


def read_mask(v: Words) -> int:
    """ICV_PMR_EL1."""
    return v[VMCR] >> _VPMR & 0xFF


def write_list(v: Words, number: int, value: int) -> None:
    """ICH_LR<n>_EL2."""
    v[HIGH + 2 * number] = value >> 32 & _HIGH_WRITABLE
    v[LOW + 2 * number] = value & _WORD


def read_list(v: Words, number: int) -> int:
    """ICH_LR<n>_EL2."""
    return v[HIGH + 2 * number] << 32 | v[LOW + 2 * number]


# What is pending, and what preempts


def state_of(v: Words, number: int) -> int:
    """PENDING and ACTIVE of a List register."""
    return v[HIGH + 2 * number] >> _STATE


def list_group(v: Words, number: int) -> int:
    """The group of a List register's interrupt, 0 or 1."""
    return v[HIGH + 2 * number] >> _GROUP & 1


def urgency(v: Words, number: int) -> int:
    """The priority of a List register's interrupt."""
    return v[HIGH + 2 * number] >> _PRIORITY & _PRIORITY_BITS


def physical(v: Words, number: int) -> int:
    """The physical interrupt that a List register with HW stands for; -1 without."""
    high = v[HIGH + 2 * number]
    return high >> _PINTID & _PINTID_BITS if high & _HW != 0 else -1


def highest(v: Words) -> int:
    """The List register with the most urgent interrupt that is pending and not active; -1 for none.

    Only groups that the guest has enabled count. Of equals the first List register is taken.
    """
    found, least = -1, _PRIORITY_BITS + 1
    for n in range(LISTS):
        if state_of(v, n) == PENDING and urgency(v, n) < least:
            enabled = _VENG1 if list_group(v, n) != 0 else _VENG0
            if v[VMCR] & enabled != 0:
                found, least = n, urgency(v, n)
    return found


def virtual_mask(v: Words, group: int) -> int:
    """The bits of a priority that decide on preemption, by the binary point of the group."""
    if group == 0 or v[VMCR] & _VCBPR != 0:
        return group_mask(v[VMCR] >> _VBPR0 & _POINT)
    return group_mask((v[VMCR] >> _VBPR1 & _POINT) - 1)


def both_active(v: Words) -> int:
    """The active priorities of both groups: a bitmap."""
    active: int = v[ACTIVE_PRIORITIES] | v[ACTIVE_PRIORITIES + 1]
    return active


def is_signalled(v: Words, number: int) -> bool:
    """Whether the interrupt of a List register gets past the mask and past what is active."""
    priority = urgency(v, number)
    if v[HCR] & _EN == 0 or priority >= read_mask(v):
        return False
    return preempts(priority, both_active(v), virtual_mask(v, list_group(v, number)))


def pending_intid(v: Words, group: int) -> int:
    """ICV_HPPIR<n>_EL1."""
    number = highest(v)
    if number < 0 or list_group(v, number) != group:
        return SPURIOUS
    return v[LOW + 2 * number] & _INTID


# The guest takes and ends interrupts


def acknowledge_virtual(v: Words, group: int) -> int:
    """ICV_IAR<n>_EL1."""
    number = highest(v)
    if number < 0 or list_group(v, number) != group or not is_signalled(v, number):
        return SPURIOUS
    v[ACTIVE_PRIORITIES + group] |= active_bit(urgency(v, number) & virtual_mask(v, group))
    intid = v[LOW + 2 * number]
    set_state(v, number, 0 if intid >= _FIRST_LPI else ACTIVE)  # an LPI has no active state
    return intid & _INTID


def set_state(v: Words, number: int, state: int) -> None:
    """Set PENDING and ACTIVE of a List register."""
    v[HIGH + 2 * number] = v[HIGH + 2 * number] & ~_STATE_BITS | state << _STATE


def find_active(v: Words, intid: int) -> int:
    """The List register in which an interrupt is active; -1 for none."""
    for n in range(LISTS):
        if state_of(v, n) & ACTIVE != 0 and v[LOW + 2 * n] == intid:
            return n
    return -1


def end_virtual(v: Words, intid: int, group: int) -> int:
    """ICV_EOIR<n>_EL1: priority drop, then deactivation unless VEOIM splits them.

    Return the physical interrupt to be deactivated, -1 for none. The drop comes before all checks,
    which the architecture lets us choose.
    """
    if SPURIOUS - 3 <= intid <= SPURIOUS:
        return -1
    ended = running(both_active(v))
    if ended == IDLE:
        return -1
    bit = active_bit(ended)
    of = 0 if v[ACTIVE_PRIORITIES] & bit != 0 else 1
    v[ACTIVE_PRIORITIES + of] &= ~bit
    if v[VMCR] & _VEOIM != 0:
        return -1
    number = find_active(v, intid)
    if number < 0:
        count_unlisted(v, intid)
    elif list_group(v, number) == group and urgency(v, number) & virtual_mask(v, group) == ended:
        return deactivate_virtual(v, number)
    return -1


def end_split(v: Words, intid: int) -> int:
    """ICV_DIR_EL1: as :func:`end_virtual`, without a drop. Ignored unless VEOIM splits the two."""
    if v[VMCR] & _VEOIM == 0 or SPURIOUS - 3 <= intid <= SPURIOUS:
        return -1
    number = find_active(v, intid)
    if number >= 0:
        return deactivate_virtual(v, number)
    count_unlisted(v, intid)
    return -1


def deactivate_virtual(v: Words, number: int) -> int:
    """End the active state of a List register's interrupt. Return the physical one, -1 for none."""
    set_state(v, number, state_of(v, number) & ~ACTIVE)
    return physical(v, number)


def count_unlisted(v: Words, intid: int) -> None:
    """An interrupt ended that no List register has: EOIcount."""
    if intid < _FIRST_LPI:
        v[HCR] = v[HCR] & ~_COUNT | v[HCR] + _COUNT_UNIT & _COUNT


# The hypervisor's view


def ended_lists(v: Words) -> int:
    """ICH_EISR_EL2."""
    found = 0
    for n in range(LISTS):
        high = v[HIGH + 2 * n]
        if state_of(v, n) == 0 and high & _HW == 0 and high >> _PINTID & _EOI != 0:
            found |= 1 << n
    return found


def empty_lists(v: Words) -> int:
    """ICH_ELRSR_EL2."""
    found = 0
    for n in range(LISTS):
        if state_of(v, n) == 0:
            found |= 1 << n
    return found & ~ended_lists(v)


def reasons(v: Words) -> int:
    """ICH_MISR_EL2: why the maintenance interrupt is asserted."""
    valid, pending = 0, False
    for n in range(LISTS):
        valid += state_of(v, n) != 0
        pending |= state_of(v, n) & PENDING != 0
    found = _IS_U if valid <= 1 else 0
    found |= _IS_LRENP if v[HCR] & _COUNT != 0 else 0
    found |= 0 if pending else _IS_NP
    found |= _IS_0E if v[VMCR] & _VENG0 != 0 else _IS_0D
    found |= _IS_1E if v[VMCR] & _VENG1 != 0 else _IS_1D
    return found & v[HCR] & _REASONS | (_IS_EOI if ended_lists(v) != 0 else 0)


def driven(v: Words) -> int:
    """The lines that are asserted: VIRQ or VFIQ, and MAINTAINED."""
    found = MAINTAINED if v[HCR] & _EN != 0 and reasons(v) != 0 else 0
    number = highest(v)
    if number >= 0 and is_signalled(v, number):
        found |= VIRQ if list_group(v, number) != 0 else VFIQ
    return found
