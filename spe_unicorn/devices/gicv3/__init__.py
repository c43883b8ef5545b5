"""A GICv3 for up to 8 PEs: SGIs, PPIs and SPIs, two Security states, virtual interfaces.

Not there: LPIs and an ITS, extended ranges, the legacy (GICv2) programming model, message-based
SPIs, non-maskable interrupts, interrupt bypass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.devices.gicv3.cpu_interface import CPUInterface
from spe_unicorn.devices.gicv3.mmio import Distributor, Redistributors
from spe_unicorn.devices.gicv3.routing import PRIVATE, SGIS, Group, InterruptRouting
from spe_unicorn.devices.gicv3.virtual import VirtualInterface

MAX_PES: Final = 8

PMBIRQ: Final = 21
PMUIRQ: Final = 23
MAINTENANCE: Final = 25
EL2_PHYSICAL_TIMER: Final = 26
VIRTUAL_TIMER: Final = 27
EL2_VIRTUAL_TIMER: Final = 28
SECURE_PHYSICAL_TIMER: Final = 29
PHYSICAL_TIMER: Final = 30


@dataclass(frozen=True)
class GICPort:
    """One PE as the GIC is wired to it: its state, its affinity and its interrupt inputs."""

    pe: PE
    affinity: int
    """MPIDR_EL1.{Aff3,Aff2,Aff1,Aff0} as 32 bits."""
    irq: IRQLine
    fiq: IRQLine
    virq: IRQLine | None = None
    """The virtual IRQ and FIQ of List registers; HCR_EL2.VI and VF are others beside them."""
    vfiq: IRQLine | None = None


class _Unconnected:
    """A line that leads nowhere."""

    def set_level(self, level: bool) -> None:
        pass


class InputLine:
    """An interrupt input of the GIC: an ``IRQLine`` that a device drives."""

    def __init__(self, routing: InterruptRouting, pe: int, intid: int) -> None:
        self._routing = routing
        self._pe = pe
        self._intid = intid

    def set_level(self, level: bool) -> None:
        """Drive the line; driving it to the level it has is nothing new."""
        self._routing.set_line(self._pe, self._intid, level=level)


class GICv3:
    """The interrupt controller, with the parts that a machine maps.

    ``distributor`` and ``redistributors`` are memory-mapped (see :mod:`.gicv3_mmio`);
    ``cpu_interfaces`` answer the ICC registers of each PE. Raises ValueError for a machine that
    cannot be.
    """

    def __init__(
        self, ports: Sequence[GICPort], *, spis: int = 256, two_security_states: bool = False
    ) -> None:
        if not 1 <= len(ports) <= MAX_PES:
            raise ValueError(f"the GIC serves 1 to {MAX_PES} PEs, got {len(ports)}")
        self.routing = InterruptRouting(
            [p.affinity for p in ports], spis, two_security_states=two_security_states
        )
        """Every interrupt: enabled, pending, active, and where it goes."""
        self.distributor = Distributor(self.routing)
        self.redistributors = Redistributors(self.routing)
        self.cpu_interfaces = tuple(
            self._cpu_interface(number, port) for number, port in enumerate(ports)
        )
        self.routing.attach(self.cpu_interfaces)
        self.routing.changed()

    def _cpu_interface(self, number: int, port: GICPort) -> CPUInterface:
        virtual = VirtualInterface(
            port.virq or _Unconnected(),
            port.vfiq or _Unconnected(),
            self.ppi(number, MAINTENANCE),
            lambda intid: self.routing.deactivate(number, intid),
        )
        return CPUInterface(number, self.routing, port.pe, port.irq, port.fiq, virtual)

    def reset(self, *, nonsecure: bool = False) -> None:
        """Reset all of it. The levels of the input lines stay: they are the devices'.

        With ``nonsecure`` every interrupt is in Group 1 and every PE awake, as firmware leaves it
        to a kernel that is started in Non-secure state.
        """
        for interface in self.cpu_interfaces:
            interface.reset()
        self.routing.reset(nonsecure=nonsecure)

    def reset_cpu_interface(self, pe: int) -> None:
        """Reset what is in the PE itself, as when it is turned on."""
        self.cpu_interfaces[pe].reset()
        self.routing.changed()

    def enabled(self, pe: int) -> int:
        """The interrupts that are enabled for a PE, its own and the shared ones: a bit an INTID."""
        return self.routing.private[pe].s.enabled | self.routing.shared.s.enabled << PRIVATE

    def blocked(self, pe: int, intid: int) -> str | None:
        """Why a PE is not asked to take one of its private interrupts; None if it is, pending."""
        routing = self.routing
        bank, bit = routing.private[pe], 1 << intid
        if not bank.s.enabled & bit:
            return f"INTID {intid} is not enabled in GICR_ISENABLER0"
        if bank.s.active & bit:
            return f"INTID {intid} is active: its end was never written"
        group = next(g for g in Group if bank.members(g, one_state=routing.s.one_state) & bit)
        if not routing.s.group_enables[group]:
            return f"{group.name} is not enabled in GICD_CTLR"
        interface = self.cpu_interfaces[pe]
        if not interface.group_enabled(group):
            return f"{group.name} is not enabled in ICC_IGRPENx_EL1"
        priority = bank.s.priority[intid]
        if priority >= interface.priority_mask:
            return f"ICC_PMR_EL1 masks its priority {priority:#x}"
        return None

    def ppi(self, pe: int, intid: int) -> InputLine:
        """The input of private interrupt ``intid``, 16 to 31, of a PE."""
        if not SGIS <= intid < PRIVATE:
            raise ValueError(f"PPIs have INTIDs {SGIS} to {PRIVATE - 1}, got {intid}")
        return InputLine(self.routing, pe, intid)

    def spi(self, intid: int) -> InputLine:
        """The input of shared interrupt ``intid``, from 32 up."""
        last = PRIVATE + self.routing.shared.count - 1
        if not PRIVATE <= intid <= last:
            raise ValueError(f"SPIs have INTIDs {PRIVATE} to {last}, got {intid}")
        return InputLine(self.routing, 0, intid)
