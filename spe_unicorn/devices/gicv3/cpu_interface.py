"""A PE's CPU interface to the GICv3: acknowledge, end, mask, preempt, signal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL3, PE, SecurityState
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.arch.rules.effective import lower_security_state, security_state_at
from spe_unicorn.devices.gicv3 import cells as c
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3.priorities import (
    IDLE,
    IMPLEMENTED,
    LEAST_POINT,
    PRIORITY_BITS,
    running,
)
from spe_unicorn.devices.gicv3.routing import Group, InterruptRouting, Pending
from spe_unicorn.devices.gicv3.virtual import VirtualInterface

INTID_SECURE: Final = 1020
INTID_NONSECURE: Final = 1021
INTID_SPURIOUS: Final = 1023

_LEAST_POINT_NS: Final = LEAST_POINT + 1
_NONSECURE_LEVELS: Final = 0xFFFF_0000

# A3V, 24-bit INTIDs and the number of priority bits, as on QEMU's board.
_CTLR_FIXED: Final = 1 << 15 | 1 << 11 | PRIORITY_BITS - 1 << 8
_CTLR_EL3_NDS: Final = 1 << 17


class CPUInterface:
    """One PE's ICC registers, and what it signals on the PE's IRQ and FIQ inputs.

    A Group 0 interrupt is an FIQ. With two Security states Group 1 is an IRQ in the Security state
    that it belongs to and an FIQ elsewhere, so that what is signalled changes with the PE's
    Exception level and Security state: ask :meth:`irq_and_fiq`. ``virtual`` is what a guest at EL1
    has instead.
    """

    WIRING = ("_f", "_k")

    def __init__(
        self,
        number: int,
        routing: InterruptRouting,
        pe: PE,
        irq: IRQLine,
        fiq: IRQLine,
        virtual: VirtualInterface,
    ) -> None:
        self.number = number
        self._routing = routing
        self._pe = pe
        self._irq = irq
        self._fiq = fiq
        self.virtual = virtual
        self.cells = routing.cells[number]
        """What it holds, beside the PE's own interrupts."""
        self._k, self._f = self.cells.k, self.cells.f
        self.reset()
        self._readers: dict[type[SysReg], Callable[[], int]] = {
            **virtual.readers,
            icc.ICC_PMR_EL1: self._read_pmr,
            icc.ICC_IAR0_EL1: lambda: self._acknowledge(self._highest_group0),
            icc.ICC_IAR1_EL1: lambda: self._acknowledge(self._highest_group1),
            icc.ICC_HPPIR0_EL1: self._highest_group0,
            icc.ICC_HPPIR1_EL1: self._highest_group1,
            icc.ICC_BPR0_EL1: lambda: self._k[c.POINT + Group.GROUP0],
            icc.ICC_BPR1_EL1: self._read_bpr1,
            icc.ICC_AP0R0_EL1: lambda: self._k[c.ACTIVE_PRIORITIES + Group.GROUP0],
            icc.ICC_AP1R0_EL1: lambda: self._k[c.ACTIVE_PRIORITIES + self._bank()],
            icc.ICC_RPR_EL1: self._read_rpr,
            icc.ICC_CTLR_EL1: self._read_ctlr,
            icc.ICC_IGRPEN0_EL1: lambda: int(self.group_enabled(Group.GROUP0)),
            icc.ICC_IGRPEN1_EL1: lambda: int(self.group_enabled(self._bank())),
            icc.ICC_SRE_EL1: lambda: icc.SRE_EL1,
            icc.ICC_SRE_EL2: lambda: icc.SRE_EL2,
            icc.ICC_SRE_EL3: lambda: icc.SRE_EL2,
            icc.ICC_CTLR_EL3: self._read_ctlr_el3,
            icc.ICC_IGRPEN1_EL3: lambda: (
                self.group_enabled(Group.GROUP1_S) << 1 | self.group_enabled(Group.GROUP1_NS)
            ),
        }
        self._writers: dict[type[SysReg], Callable[[int], None]] = {
            **virtual.writers,
            icc.ICC_PMR_EL1: self._write_pmr,
            icc.ICC_EOIR0_EL1: lambda value: self._end(value, group0=True),
            icc.ICC_EOIR1_EL1: lambda value: self._end(value, group0=False),
            icc.ICC_DIR_EL1: self._deactivate,
            icc.ICC_BPR0_EL1: lambda value: self._set_bpr(Group.GROUP0, value),
            icc.ICC_BPR1_EL1: self._write_bpr1,
            icc.ICC_AP0R0_EL1: lambda value: self._set_active(Group.GROUP0, value),
            icc.ICC_AP1R0_EL1: lambda value: self._set_active(self._bank(), value),
            icc.ICC_SGI0R_EL1: lambda value: self._send(Group.GROUP0, value),
            icc.ICC_SGI1R_EL1: lambda value: self._send(self._own_group1(), value),
            icc.ICC_ASGI1R_EL1: lambda value: self._send(self._other_group1(), value),
            icc.ICC_CTLR_EL1: self._write_ctlr,
            icc.ICC_IGRPEN0_EL1: lambda value: self._enable({Group.GROUP0: value & 1}),
            icc.ICC_IGRPEN1_EL1: lambda value: self._enable({self._bank(): value & 1}),
            icc.ICC_SRE_EL1: lambda value: None,
            icc.ICC_SRE_EL2: lambda value: None,
            icc.ICC_SRE_EL3: lambda value: None,
            icc.ICC_CTLR_EL3: self._write_ctlr_el3,
            icc.ICC_IGRPEN1_EL3: lambda value: self._enable(
                {Group.GROUP1_S: value & 2, Group.GROUP1_NS: value & 1}
            ),
        }

    def reset(self) -> None:
        """Reset: nothing enabled, nothing active, every priority masked."""
        self.virtual.reset()
        k = self._k
        for word in range(c.GROUP):  # up to what the bank has
            k[word] = 0
        for group in Group:
            k[c.POINT + group] = LEAST_POINT
        k[c.POINT + Group.GROUP1_NS] = _LEAST_POINT_NS

    # What the rest of the GIC and the machine use

    @property
    def priority_mask(self) -> int:
        """ICC_PMR_EL1 as Secure software sees it: interrupts of lower numbers are taken."""
        return self._k[c.PMR]

    def group_enabled(self, group: Group) -> bool:
        """Whether ICC_IGRPEN* let a group through."""
        return bool(self._k[c.INTERFACE_ENABLED + group])

    def update(self) -> None:
        """Look for the highest priority pending interrupt again, and drive the PE's inputs."""
        self._routing.look_at_shared(self.number)
        self.update_private()

    def update_private(self) -> None:
        """The same, where no other than the PE's own interrupts have changed."""
        c.look(self._k, self._f)
        self._drive()

    def _drive(self) -> None:
        irq, fiq = self.irq_and_fiq()
        self._irq.set_level(irq)
        self._fiq.set_level(fiq)

    def irq_and_fiq(self, pe: PE | None = None) -> tuple[bool, bool]:
        """The levels of IRQ and FIQ for the PE as it stands, found without a new search.

        ``pe`` is this PE as it would be at another Exception level.
        """
        if not c.gets_through(self._k, self._f):
            return False, False
        fiq = self._is_fiq(Group(self._f[c.OF_GROUP]), pe or self._pe)
        return not fiq, fiq

    @property
    def _pending(self) -> Pending | None:
        f = self._f
        if f[c.INTID] == c.SPURIOUS:
            return None
        return Pending(f[c.URGENCY], f[c.INTID], Group(f[c.OF_GROUP]))

    def read(self, register: type[SysReg]) -> int:
        """What an MRS that the access rules allow returns; acknowledging is a side effect.

        Raises KeyError for what is not an ICC, ICV or ICH register with an MRS.
        """
        return self._readers[register]()

    def write(self, register: type[SysReg], value: int) -> None:
        """What an MSR that the access rules allow does.

        Raises KeyError for what is not an ICC, ICV or ICH register with an MSR.
        """
        self._writers[register](value)

    @property
    def registers(self) -> frozenset[type[SysReg]]:
        """Every ICC, ICV and ICH register."""
        return frozenset(self._readers) | frozenset(self._writers)

    # Signalling

    def _is_fiq(self, group: Group, pe: PE) -> bool:
        if group is Group.GROUP0 or self._routing.s.one_state:
            return group is Group.GROUP0
        if pe.el == EL3:
            return True
        secure = security_state_at(pe, pe.el) is not SecurityState.NON_SECURE
        return (group is Group.GROUP1_S) is not secure

    # The PE's state

    def _secure(self) -> bool:
        """Whether the PE is in Secure state, EL3 included."""
        return security_state_at(self._pe, self._pe.el) is not SecurityState.NON_SECURE

    def _bank(self) -> Group:
        """Whose copy of a banked register the PE reaches; at EL3 SCR_EL3.NS chooses."""
        secure = lower_security_state(self._pe) is SecurityState.SECURE
        return Group.GROUP1_S if secure else Group.GROUP1_NS

    def _routed_to_el3(self, interrupt: str) -> bool:
        """SCR_EL3.FIQ or SCR_EL3.IRQ."""
        if Feature.FEAT_EL3 not in self._pe.features:
            return False
        scr = self._pe.registers.read(SCR_EL3)
        return bool(scr.FIQ if interrupt == "FIQ" else scr.IRQ)

    def _shifted_view(self) -> bool:
        """Whether priorities read as Non-secure software sees them: EL3 keeps Group 0."""
        return (
            Feature.FEAT_EL3 in self._pe.features
            and not self._secure()
            and self._routed_to_el3("FIQ")
        )

    # Acknowledge and end

    def _highest_group0(self) -> int:
        pending = self._pending
        if pending is None:
            return INTID_SPURIOUS
        at_el3 = self._pe.el == EL3
        secure_interrupt = not self._routing.s.one_state and pending.group is not Group.GROUP1_NS
        if pending.group is not Group.GROUP0 and not at_el3:
            return INTID_SPURIOUS
        if secure_interrupt and not self._secure():
            return INTID_SPURIOUS
        if pending.group is not Group.GROUP0:
            return INTID_SECURE if secure_interrupt else INTID_NONSECURE
        return pending.intid

    def _highest_group1(self) -> int:
        pending = self._pending
        if pending is None or pending.group is Group.GROUP0:
            return INTID_SPURIOUS
        if self._routing.s.one_state or self._pe.el == EL3:
            return pending.intid
        belongs = (pending.group is Group.GROUP1_S) is self._secure()
        return pending.intid if belongs else INTID_SPURIOUS

    def _acknowledge(self, highest: Callable[[], int]) -> int:
        if not c.gets_through(self._k, self._f):
            return INTID_SPURIOUS
        intid = highest()
        if intid == self._f[c.INTID]:
            c.raise_running(self._k, self._f)
            self._routing.activate(self.number, intid)  # has this interface look again
        return intid

    def _end(self, value: int, *, group0: bool) -> None:
        """Priority drop, and deactivation unless EOImode splits them.

        Ending what is not the last acknowledged interrupt is UNPREDICTABLE. Our choice: it is
        ignored if the running priority is another group's, else it drops the running priority.
        """
        intid = value & 0xFF_FFFF
        group = c.running_group(self._k)
        if group < 0 or self._routing.bank(self.number, intid) is None:
            return
        if (group == Group.GROUP0) is not group0 or not self._may_end(Group(group)):
            return
        c.drop_running(self._k, group)
        if self._splits_eoi():
            self._drive()
        else:
            self._routing.deactivate(self.number, intid)  # has this interface look again

    def _may_end(self, group: Group) -> bool:
        if self._routing.s.one_state or self._pe.el == EL3:
            return True
        return (group is not Group.GROUP1_NS) is self._secure()

    def _deactivate(self, value: int) -> None:
        """ICC_DIR_EL1. Without EOImode it is UNPREDICTABLE: ignored here."""
        intid = value & 0xFF_FFFF
        if not self._splits_eoi() or self._routing.bank(self.number, intid) is None:
            return
        group = self._routing.group_of(self.number, intid)
        if self._may_deactivate(group):
            self._routing.deactivate(self.number, intid)

    def _may_deactivate(self, group: Group) -> bool:
        """Whether the PE's Exception level is one to which interrupts of the group are routed."""
        el = self._pe.el
        if el == EL3:
            return True
        interrupt = "FIQ" if group is Group.GROUP0 else "IRQ"
        if self._routed_to_el3(interrupt):
            return False
        if self._secure():
            return True
        if not self._routing.s.one_state and group is not Group.GROUP1_NS:
            return False
        if el == EL1 and Feature.FEAT_EL2 in self._pe.features:
            hcr = self._pe.registers.read(HCR_EL2)
            return not (hcr.FMO if group is Group.GROUP0 else hcr.IMO)
        return True

    def _splits_eoi(self) -> bool:
        """EOImode of the current Exception level and Security state."""
        if self._pe.el == EL3:
            return bool(self._k[c.SPLIT_EL3])
        return bool(self._k[c.SPLIT + self._bank()])

    # Priorities

    def _read_pmr(self) -> int:
        pmr = self._k[c.PMR]
        if not self._shifted_view():
            return pmr
        return pmr << 1 & 0xFF if pmr & 0x80 else 0

    def _write_pmr(self, value: int) -> None:
        value &= 0xFF
        if self._shifted_view():
            if not self._k[c.PMR] & 0x80:
                return  # Secure software has masked all that Non-secure software could see
            value = 0x80 | value >> 1
        self._k[c.PMR] = value & IMPLEMENTED
        self._drive()

    def _read_rpr(self) -> int:
        priority = running(c.all_active(self._k))
        if priority == IDLE or not self._shifted_view():
            return priority
        return priority << 1 & 0xFF if priority & 0x80 else 0

    def _read_bpr1(self) -> int:
        bank = self._bank()
        if self._pe.el == EL3 or not self._k[c.COMMON_POINT + bank]:
            return self._k[c.POINT + bank]
        point = self._k[c.POINT + Group.GROUP0]
        return point if bank is Group.GROUP1_S else min(point + 1, 7)

    def _write_bpr1(self, value: int) -> None:
        bank = self._bank()
        if self._pe.el == EL3 or not self._k[c.COMMON_POINT + bank]:
            self._set_bpr(bank, value)
        elif bank is Group.GROUP1_S:
            self._set_bpr(Group.GROUP0, value)

    def _set_bpr(self, group: Group, value: int) -> None:
        least = _LEAST_POINT_NS if group is Group.GROUP1_NS else LEAST_POINT
        self._k[c.POINT + group] = max(value & 7, least)
        self._drive()

    def _set_active(self, group: Group, value: int) -> None:
        """ICC_AP*R0_EL1. Non-secure software cannot claim Secure priorities to be active."""
        if group is Group.GROUP1_NS and not self._routing.s.one_state:
            value &= _NONSECURE_LEVELS
        self._k[c.ACTIVE_PRIORITIES + group] = value & 0xFFFF_FFFF
        self._drive()

    # Controls

    def _read_ctlr(self) -> int:
        k, bank = self._k, self._bank()
        return _CTLR_FIXED | k[c.SPLIT + bank] << 1 | k[c.COMMON_POINT + bank]

    def _write_ctlr(self, value: int) -> None:
        bank = self._bank()
        self._k[c.SPLIT + bank] = value >> 1 & 1
        if self._routing.s.one_state or Feature.FEAT_EL3 not in self._pe.features:
            self._k[c.COMMON_POINT + bank] = value & 1
        self._drive()

    def _read_ctlr_el3(self) -> int:
        k, secure, nonsecure = self._k, Group.GROUP1_S, Group.GROUP1_NS
        return (
            _CTLR_FIXED
            | _CTLR_EL3_NDS
            | k[c.SPLIT + nonsecure] << 4
            | k[c.SPLIT + secure] << 3
            | k[c.SPLIT_EL3] << 2
            | k[c.COMMON_POINT + nonsecure] << 1
            | k[c.COMMON_POINT + secure]
        )

    def _write_ctlr_el3(self, value: int) -> None:
        k, secure, nonsecure = self._k, Group.GROUP1_S, Group.GROUP1_NS
        k[c.COMMON_POINT + secure] = value & 1
        k[c.COMMON_POINT + nonsecure] = value >> 1 & 1
        k[c.SPLIT_EL3] = value >> 2 & 1
        k[c.SPLIT + secure] = value >> 3 & 1
        k[c.SPLIT + nonsecure] = value >> 4 & 1
        self._drive()

    def _enable(self, groups: dict[Group, int]) -> None:
        for group, value in groups.items():
            self._k[c.INTERFACE_ENABLED + group] = bool(value)
        self._routing.changed()  # it also decides who takes 1-of-N interrupts

    # SGIs

    def _own_group1(self) -> Group:
        """The Group 1 of the PE's Security state."""
        return Group.GROUP1_S if self._secure() else Group.GROUP1_NS

    def _other_group1(self) -> Group:
        return Group.GROUP1_NS if self._secure() else Group.GROUP1_S

    def _send(self, group: Group, value: int) -> None:
        """ICC_SGI*R_EL1: to the PEs of a list within one cluster, or to all others."""
        if group is Group.GROUP1_S and self._routing.s.one_state:
            group = Group.GROUP0  # what is Secure where there are two states
        intid = icc.GenerateSGI(value).INTID
        nonsecure = not self._secure()
        for number, affinity in enumerate(self._routing.affinities):
            if c.is_target(value, affinity, number == self.number):
                self._routing.send_sgi(number, intid, group, nonsecure=nonsecure)
