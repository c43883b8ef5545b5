"""A hypervisor gives virtual interrupts to its guest by the List registers."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.devices.gicv3 import GICPort, GICv3
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3 import virtual_registers as v
from tests.devices.gic_board import FEATURES
from tests.support.fakes import FakeLine, FakePE

SPURIOUS = 1023
PENDING, ACTIVE = 1 << 62, 2 << 62
GROUP1, HW, EOI = 1 << 60, 1 << 61, 1 << 41
EN = 1
PPI_TIMER = 27
MAINTENANCE = 1 << 25


def listed(intid: int, *, priority: int = 0xA0, flags: int = GROUP1, state: int = PENDING) -> int:
    return state | flags | priority << 48 | intid


class Guest:
    """A guest that has opened its mask and enabled both groups."""

    def __init__(self) -> None:
        self.virq, self.vfiq = FakeLine(), FakeLine()
        port = GICPort(
            FakePE({}, features=FEATURES), 0, FakeLine(), FakeLine(), self.virq, self.vfiq
        )
        self.gic = GICv3([port])
        self.interface = self.gic.cpu_interfaces[0]
        self.msr(v.ICH_HCR_EL2, EN)
        self.msr(v.ICV_PMR_EL1, 0xFF)
        self.msr(v.ICV_IGRPEN0_EL1, 1)
        self.msr(v.ICV_IGRPEN1_EL1, 1)

    def mrs(self, register) -> int:
        return self.interface.read(register)

    def msr(self, register, value: int) -> None:
        self.interface.write(register, value)

    def lines(self) -> str:
        return "vIRQ" * self.virq.level + "vFIQ" * self.vfiq.level

    def maintenance(self) -> bool:
        pending = self.gic.redistributors.read(0x1_0200, 4)
        return bool(pending & MAINTENANCE)


def test_listed_interrupt_is_taken_and_ended_by_the_guest() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50))
    assert guest.lines() == "vIRQ"
    assert guest.mrs(v.ICV_HPPIR1_EL1) == 50
    assert guest.mrs(v.ICV_IAR1_EL1) == 50
    assert guest.lines() == ""
    assert guest.mrs(v.ICH_LR0_EL2) == listed(50, state=ACTIVE)
    assert guest.mrs(v.ICV_RPR_EL1) == 0xA0
    assert guest.mrs(v.ICH_AP1R0_EL2) == 1 << (0xA0 >> 3)
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICH_LR0_EL2) == listed(50, state=0)
    assert guest.mrs(v.ICV_RPR_EL1) == 0xFF
    assert guest.mrs(v.ICH_ELRSR_EL2) == 0b1111


def test_group_0_is_a_virtual_fiq_of_its_own_registers() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50, flags=0))
    assert guest.lines() == "vFIQ"
    assert guest.mrs(v.ICV_IAR1_EL1) == SPURIOUS
    assert guest.mrs(v.ICV_IAR0_EL1) == 50
    guest.msr(v.ICV_EOIR0_EL1, 50)
    assert guest.mrs(v.ICH_LR0_EL2) & ACTIVE == 0


@pytest.mark.parametrize(
    ("register", "hide", "show"),
    [
        (v.ICH_HCR_EL2, 0, EN),
        (v.ICV_IGRPEN1_EL1, 0, 1),
        (v.ICV_PMR_EL1, 0xA0, 0xA8),
        (v.ICH_VMCR_EL2, 0xFF << 24, 0xFF << 24 | 0b10),
    ],
)
def test_guest_is_signalled_only_when_nothing_hides_the_interrupt(
    register: Any, hide: int, show: int
) -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50))
    guest.msr(register, hide)
    assert guest.lines() == ""
    assert guest.mrs(v.ICV_IAR1_EL1) == SPURIOUS
    guest.msr(register, show)
    assert guest.lines() == "vIRQ"


def test_interface_that_is_off_still_shows_what_is_pending() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50))
    guest.msr(v.ICH_HCR_EL2, 0)
    assert guest.mrs(v.ICV_HPPIR1_EL1) == 50
    assert guest.mrs(v.ICV_IAR1_EL1) == SPURIOUS


def test_more_urgent_virtual_interrupt_comes_first_and_preempts() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50, priority=0xA0))
    assert guest.mrs(v.ICV_IAR1_EL1) == 50
    guest.msr(v.ICH_LR1_EL2, listed(51, priority=0xA0))
    assert guest.lines() == ""
    guest.msr(v.ICH_LR2_EL2, listed(52, priority=0x80))
    assert guest.lines() == "vIRQ"
    assert guest.mrs(v.ICV_IAR1_EL1) == 52
    guest.msr(v.ICV_EOIR1_EL1, 52)
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICV_IAR1_EL1) == 51


def test_hardware_interrupt_is_deactivated_by_the_guests_end() -> None:
    guest = Guest()
    active = 0x1_0300  # GICR_ISACTIVER0
    guest.gic.redistributors.write(active, 4, 1 << PPI_TIMER)  # as the hypervisor left it
    guest.msr(v.ICH_LR0_EL2, listed(40, flags=GROUP1 | HW | PPI_TIMER << 32))
    assert guest.mrs(v.ICV_IAR1_EL1) == 40
    assert guest.gic.redistributors.read(active, 4) == 1 << PPI_TIMER
    guest.msr(v.ICV_EOIR1_EL1, 40)
    assert guest.gic.redistributors.read(active, 4) == 0


def test_split_end_waits_for_the_deactivation() -> None:
    guest = Guest()
    guest.msr(v.ICV_CTLR_EL1, 0b10)
    guest.msr(v.ICH_LR0_EL2, listed(50))
    guest.mrs(v.ICV_IAR1_EL1)
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICV_RPR_EL1) == 0xFF
    assert guest.mrs(v.ICH_LR0_EL2) == listed(50, state=ACTIVE)
    guest.msr(v.ICV_DIR_EL1, 50)
    assert guest.mrs(v.ICH_LR0_EL2) == listed(50, state=0)


def test_interrupt_pending_again_while_active_is_signalled_after_its_end() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50))
    guest.mrs(v.ICV_IAR1_EL1)
    guest.msr(v.ICH_LR0_EL2, listed(50, state=PENDING | ACTIVE))
    assert guest.lines() == ""
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICH_LR0_EL2) == listed(50)
    assert guest.lines() == "vIRQ"


def test_end_of_an_unlisted_interrupt_is_counted_for_the_hypervisor() -> None:
    guest = Guest()
    guest.msr(v.ICH_HCR_EL2, EN | 1 << 2)  # LRENPIE
    guest.msr(v.ICH_LR0_EL2, listed(50))
    guest.mrs(v.ICV_IAR1_EL1)
    guest.msr(v.ICH_LR0_EL2, 0)  # the hypervisor needed the List register
    assert not guest.maintenance()
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICH_HCR_EL2) >> 27 == 1
    assert guest.mrs(v.ICH_MISR_EL2) == 1 << 2
    assert guest.maintenance()


def test_end_without_an_active_interrupt_does_nothing() -> None:
    guest = Guest()
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICH_HCR_EL2) == EN


def test_end_is_reported_where_the_list_register_asks_for_it() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR1_EL2, listed(50, flags=GROUP1 | EOI))
    guest.mrs(v.ICV_IAR1_EL1)
    assert guest.mrs(v.ICH_EISR_EL2) == 0
    guest.msr(v.ICV_EOIR1_EL1, 50)
    assert guest.mrs(v.ICH_EISR_EL2) == 0b0010
    assert guest.mrs(v.ICH_ELRSR_EL2) == 0b1101
    assert guest.mrs(v.ICH_MISR_EL2) == 1
    assert guest.maintenance()
    guest.msr(v.ICH_LR1_EL2, 0)
    assert not guest.maintenance()


@pytest.mark.parametrize(
    ("enable", "reason", "lists", "asserted"),
    [
        (1 << 1, 1 << 1, [listed(50)], True),  # underflow: none or one in use
        (1 << 1, 1 << 1, [listed(50), listed(51)], False),
        (1 << 3, 1 << 3, [listed(50, state=ACTIVE)], True),  # none pending
        (1 << 3, 1 << 3, [listed(50)], False),
        (1 << 4, 1 << 4, [], True),  # Group 0 is enabled
        (1 << 5, 1 << 5, [], False),
        (1 << 6, 1 << 6, [], True),
        (1 << 7, 1 << 7, [], False),
    ],
)
def test_maintenance_interrupt_has_its_reason(
    enable: int, reason: int, lists: list[Any] | list[int], asserted: bool
) -> None:
    guest = Guest()
    for register, value in zip(v.LIST_REGISTERS, lists, strict=False):
        guest.msr(register, value)
    guest.msr(v.ICH_HCR_EL2, EN | enable)
    assert guest.mrs(v.ICH_MISR_EL2) == (reason if asserted else 0)
    assert guest.maintenance() is asserted
    guest.msr(v.ICH_HCR_EL2, enable)
    assert not guest.maintenance()


def test_guests_controls_stand_in_the_virtual_machine_control_register() -> None:
    guest = Guest()
    guest.msr(v.ICV_PMR_EL1, 0x7F)
    guest.msr(v.ICV_BPR0_EL1, 4)
    guest.msr(v.ICV_BPR1_EL1, 5)
    guest.msr(v.ICV_CTLR_EL1, 0b10)
    guest.msr(v.ICV_IGRPEN0_EL1, 0)
    assert guest.mrs(v.ICH_VMCR_EL2) == 0x78 << 24 | 4 << 21 | 5 << 18 | 1 << 9 | 1 << 3 | 0b10
    guest.msr(v.ICH_VMCR_EL2, 0x40 << 24 | 0 << 21 | 0 << 18 | 1 << 4 | 1)
    assert guest.mrs(v.ICV_PMR_EL1) == 0x40
    assert guest.mrs(v.ICV_BPR0_EL1) == 2
    assert guest.mrs(v.ICV_BPR1_EL1) == 3  # VCBPR: one more than BPR0
    assert guest.mrs(v.ICV_CTLR_EL1) & 0b11 == 0b01
    assert guest.mrs(v.ICV_IGRPEN0_EL1) == 1
    assert guest.mrs(v.ICV_IGRPEN1_EL1) == 0


def test_lpi_has_no_active_state() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(8200))
    assert guest.mrs(v.ICV_IAR1_EL1) == 8200
    assert guest.mrs(v.ICH_LR0_EL2) >> 62 == 0
    guest.msr(v.ICV_EOIR1_EL1, 8200)
    assert guest.mrs(v.ICV_RPR_EL1) == 0xFF
    assert guest.mrs(v.ICH_HCR_EL2) == EN


def test_type_register_tells_of_four_list_registers_and_five_priority_bits() -> None:
    vtr = v.ICH_VTR_EL2(Guest().mrs(v.ICH_VTR_EL2))
    assert (vtr.ListRegs, vtr.PRIbits, vtr.PREbits, vtr.A3V, vtr.TDS, vtr.nV4) == (3, 4, 4, 1, 1, 1)


def test_physical_and_virtual_interfaces_do_not_touch_each_other() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50))
    assert guest.mrs(icc.ICC_IAR1_EL1) == SPURIOUS
    assert guest.mrs(icc.ICC_PMR_EL1) == 0


def test_reset_empties_the_list() -> None:
    guest = Guest()
    guest.msr(v.ICH_LR0_EL2, listed(50))
    guest.gic.reset()
    assert guest.lines() == ""
    assert guest.mrs(v.ICH_LR0_EL2) == 0
    assert guest.mrs(v.ICH_HCR_EL2) == 0
