"""What a PE's part of the GIC holds, as arrays, and the rules on them that need nothing else.

Compiled code answers the registers that interrupts between PEs live on, by the very functions that
answer here: so they use numbers and arrays alone. Here are a PE's private interrupts, its CPU
interface, and of all else what these look at: which groups the Distributor lets through, and the
most urgent shared interrupt. Groups are numbers of :class:`~.routing.Group`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.devices.gicv3.priorities import active_bit, group_mask, lowest_bit, preempts
from spe_unicorn.stateful import expect

if TYPE_CHECKING:
    from spe_unicorn.compiled import Words

PRIVATE: Final = 32
"""INTIDs below are each PE's own: 16 SGIs, then 16 PPIs."""
SPURIOUS: Final = 1023
GROUPS: Final = 3
NONSECURE: Final = 2
"""``Group.GROUP1_NS``."""

PMR: Final = 0
POINT: Final = 1
ACTIVE_PRIORITIES: Final = POINT + GROUPS
INTERFACE_ENABLED: Final = ACTIVE_PRIORITIES + GROUPS
COMMON_POINT: Final = INTERFACE_ENABLED + GROUPS
SPLIT: Final = COMMON_POINT + GROUPS
"""Three words each, by group: binary points, ICC_AP*R0, ICC_IGRPEN*, ICC_CTLR.CBPR and EOImode."""
SPLIT_EL3: Final = SPLIT + GROUPS
"""ICC_CTLR_EL3.EOImode_EL3."""
GROUP, MODIFIER, ENABLED, EDGE, LINE, LATCH, ACTIVE = range(SPLIT_EL3 + 1, SPLIT_EL3 + 8)
"""Bitmaps of the private interrupts: see :class:`~.routing.BankState`."""
PRIORITY: Final = ACTIVE + 1
NSACR: Final = PRIORITY + PRIVATE
"""A word an interrupt."""
KEPT: Final = NSACR + PRIVATE
"""Words that are saved."""

_MOST_KEPT: Final = np.full(KEPT, 1, np.int64)
"""The largest value of each of them."""
_MOST_KEPT[PMR] = 0xFF
_MOST_KEPT[POINT:ACTIVE_PRIORITIES] = 7
_MOST_KEPT[ACTIVE_PRIORITIES:INTERFACE_ENABLED] = 0xFFFF_FFFF
_MOST_KEPT[GROUP:PRIORITY] = 0xFFFF_FFFF
_MOST_KEPT[PRIORITY:NSACR] = 0xFF
_MOST_KEPT[NSACR:] = 3

INTID, URGENCY, OF_GROUP = range(3)
"""The most urgent interrupt that is pending, its priority and group; SPURIOUS for none."""
SHARED: Final = 3
"""The same of the shared interrupts alone: three words."""
DISTRIBUTED: Final = 6
"""GICD_CTLR.EnableGrp*: a bit for each group."""
ONE_STATE: Final = 7
"""GICD_CTLR.DS."""
FOUND: Final = 8
"""Words that follow from those of the machine that are saved."""
_NO_PRIORITY: Final = 0x100


class Cells:
    """The arrays of one PE. ``k`` and ``f`` are how Python reads and writes them."""

    STATE = ("kept",)
    DERIVED = ("found", "f", "k")

    def __init__(self) -> None:
        self.kept = np.zeros(KEPT, np.int64)
        self.found = np.zeros(FOUND, np.int64)
        self.k, self.f = self.kept.data, self.found.data
        self.f[INTID] = self.f[SHARED] = SPURIOUS

    def check_words(self, kept: NDArray[np.int64]) -> None:
        """Raise StateError for words that no writes to the registers leave."""
        expect(bool((kept >= 0).all() and (kept <= _MOST_KEPT).all()), "a register of the GIC")


def set_line(k: Words, intid: int, level: bool) -> bool:
    """Drive the input of a private interrupt; False if it has that level already.

    A rising edge is latched where the interrupt is edge-triggered.
    """
    mask = 1 << intid
    if (k[LINE] & mask != 0) == level:
        return False
    k[LINE] ^= mask
    if level:
        k[LATCH] |= mask & k[EDGE]
    return True


def group_of(k: Words, f: Words, intid: int) -> int:
    """The group of a private interrupt."""
    if k[GROUP] >> intid & 1:
        return NONSECURE
    return 1 if f[ONE_STATE] == 0 and k[MODIFIER] >> intid & 1 else 0


def look(k: Words, f: Words) -> None:
    """Find the most urgent interrupt that is pending: enabled, not active, in an enabled group.

    Of equals the one with the lowest INTID.
    """
    intid, urgency, group = SPURIOUS, _NO_PRIORITY, 0
    ready = (k[LATCH] | k[LINE] & ~k[EDGE]) & k[ENABLED] & ~k[ACTIVE]
    while ready:
        n = lowest_bit(ready)
        ready &= ready - 1
        if k[PRIORITY + n] < urgency:
            of = group_of(k, f, n)
            if k[INTERFACE_ENABLED + of] != 0 and f[DISTRIBUTED] >> of & 1 != 0:
                intid, urgency, group = n, k[PRIORITY + n], of
    if f[SHARED] != SPURIOUS and f[SHARED + URGENCY] < urgency:
        intid, urgency, group = f[SHARED], f[SHARED + URGENCY], f[SHARED + OF_GROUP]
    f[INTID] = intid
    f[URGENCY] = urgency
    f[OF_GROUP] = group


def mask_of(k: Words, group: int) -> int:
    """The bits of a priority that decide on preemption, by the binary point of the group.

    The Non-secure binary point counts one more than the others, unless it is the common one.
    """
    if k[COMMON_POINT + group] != 0:
        return group_mask(k[POINT])
    return group_mask(k[POINT + group] - (1 if group == NONSECURE else 0))


def all_active(k: Words) -> int:
    """The active priorities of all groups: a bitmap."""
    active: int = k[ACTIVE_PRIORITIES] | k[ACTIVE_PRIORITIES + 1] | k[ACTIVE_PRIORITIES + 2]
    return active


def gets_through(k: Words, f: Words) -> bool:
    """Whether the most urgent interrupt gets past the mask and past what is active."""
    if f[INTID] == SPURIOUS or f[URGENCY] >= k[PMR]:
        return False
    return preempts(f[URGENCY], all_active(k), mask_of(k, f[OF_GROUP]))


def raise_running(k: Words, f: Words) -> None:
    """Acknowledge the most urgent interrupt: its priority becomes the running one."""
    group = f[OF_GROUP]
    k[ACTIVE_PRIORITIES + group] |= active_bit(f[URGENCY] & mask_of(k, group))


def activate(k: Words, intid: int) -> None:
    """A private interrupt becomes active; a line that is still high leaves it pending as well."""
    k[ACTIVE] |= 1 << intid
    k[LATCH] &= ~(1 << intid)


def deactivate(k: Words, intid: int) -> None:
    """End the active state of a private interrupt."""
    k[ACTIVE] &= ~(1 << intid)


def running_group(k: Words) -> int:
    """The group of the most urgent active priority, -1 for none.

    Of equals, Group 0 and Secure first.
    """
    best, lowest = -1, 0
    for group in range(GROUPS):
        bits = k[ACTIVE_PRIORITIES + group]
        if bits and (best < 0 or bits & -bits < lowest):
            best, lowest = group, bits & -bits
    return best


def drop_running(k: Words, group: int) -> None:
    """The most urgent active priority of a group is active no more."""
    k[ACTIVE_PRIORITIES + group] &= k[ACTIVE_PRIORITIES + group] - 1


def asserted_lines(k: Words, f: Words) -> int:
    """With one Security state: 1 for an IRQ, 2 for an FIQ, 0 for neither."""
    if not gets_through(k, f):
        return 0
    return 2 if f[OF_GROUP] == 0 else 1


def is_target(value: int, affinity: int, own: bool) -> bool:
    """Whether a write to ICC_SGI*R_EL1 is for a PE: one of a list in a cluster, or all others.

    Without range selection a target list reaches values of Aff0 up to 15.
    """
    if value >> 40 & 1:
        return not own
    cluster = (value >> 48 & 0xFF) << 24 | (value >> 32 & 0xFF) << 16 | (value >> 16 & 0xFF) << 8
    level = affinity & 0xFF
    return affinity & ~0xFF == cluster and level < 16 and value >> level & 1 != 0
