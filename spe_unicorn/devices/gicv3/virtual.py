"""The virtual CPU interface: List registers become the interrupts of a guest at EL1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.devices.gicv3 import virtual_registers as v
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
    ICH_VMCR_EL2,
    ListRegister,
)
from spe_unicorn.plain import Bits32
from spe_unicorn.stateful import Stateful, expect

SPURIOUS: Final = 1023
PENDING, ACTIVE = 1, 2

_LEAST_POINT_1: Final = LEAST_POINT + 1
_FIRST_LPI: Final = 8192
_EOI: Final = 1 << 9  # in pINTID, of a List register without HW
_HCR_WRITABLE: Final = ICH_HCR_EL2.writable_mask(frozenset())
_VMCR_WRITABLE: Final = ICH_VMCR_EL2.writable_mask(frozenset())
_VMCR_RES1: Final = ICH_VMCR_EL2.res1_mask(frozenset())
_LR_WRITABLE: Final = ListRegister.writable_mask(frozenset())
_CTLR_FIXED: Final = 1 << 15 | 1 << 11 | PRIORITY_BITS - 1 << 8
_VTR: Final = v.ICH_VTR_EL2.of(
    PRIbits=PRIORITY_BITS - 1,
    PREbits=PRIORITY_BITS - 1,
    IDbits=1,
    A3V=1,
    nV4=1,
    TDS=1,
    ListRegs=len(v.LIST_REGISTERS) - 1,
)


@dataclass(slots=True)
class VirtualState:
    """What is saved of one PE's virtual interface: the values of its registers."""

    hcr: ICH_HCR_EL2 = field(default_factory=lambda: ICH_HCR_EL2(0))
    vmcr: ICH_VMCR_EL2 = field(default_factory=lambda: _vmcr(0))
    active: list[Bits32] = field(default_factory=lambda: [0, 0])
    """ICH_AP*R0_EL2: active priorities of Group 0 and 1, bitmaps."""
    lists: list[ListRegister] = field(
        default_factory=lambda: [ListRegister(0) for _ in v.LIST_REGISTERS]
    )


class VirtualInterface(Stateful[VirtualState]):
    """One PE's List registers and the ICV registers of its guest.

    ``virq`` and ``vfiq`` are the virtual interrupt inputs of the PE, which HCR_EL2.VI and VF share.
    ``maintenance`` is the line that asks for the hypervisor; ``deactivate`` ends the active state
    of a physical interrupt, for List registers with HW.
    """

    def __init__(
        self,
        virq: IRQLine,
        vfiq: IRQLine,
        maintenance: IRQLine,
        deactivate: Callable[[int], None],
    ) -> None:
        self._virq = virq
        self._vfiq = vfiq
        self._maintenance = maintenance
        self._deactivate_physical = deactivate
        self.reset()
        self.readers: dict[type[SysReg], Callable[[], int]] = {
            v.ICH_AP0R0_EL2: lambda: self.s.active[0],
            v.ICH_AP1R0_EL2: lambda: self.s.active[1],
            v.ICH_HCR_EL2: lambda: self.s.hcr.value,
            v.ICH_VTR_EL2: lambda: _VTR.value,
            v.ICH_MISR_EL2: self._misr,
            v.ICH_EISR_EL2: self._eisr,
            v.ICH_ELRSR_EL2: self._elrsr,
            v.ICH_VMCR_EL2: lambda: self.s.vmcr.value,
            v.ICV_PMR_EL1: lambda: self.s.vmcr.VPMR,
            v.ICV_IAR0_EL1: lambda: self._acknowledge(group=0),
            v.ICV_IAR1_EL1: lambda: self._acknowledge(group=1),
            v.ICV_HPPIR0_EL1: lambda: self._highest_intid(group=0),
            v.ICV_HPPIR1_EL1: lambda: self._highest_intid(group=1),
            v.ICV_BPR0_EL1: lambda: self.s.vmcr.VBPR0,
            v.ICV_BPR1_EL1: self._read_bpr1,
            v.ICV_AP0R0_EL1: lambda: self.s.active[0],
            v.ICV_AP1R0_EL1: lambda: self.s.active[1],
            v.ICV_RPR_EL1: self._running,
            v.ICV_CTLR_EL1: lambda: _CTLR_FIXED | self.s.vmcr.VEOIM << 1 | self.s.vmcr.VCBPR,
            v.ICV_IGRPEN0_EL1: lambda: self.s.vmcr.VENG0,
            v.ICV_IGRPEN1_EL1: lambda: self.s.vmcr.VENG1,
        }
        writers: dict[type[SysReg], Callable[[int], None]] = {
            v.ICH_AP0R0_EL2: lambda value: self._set_active(0, value),
            v.ICH_AP1R0_EL2: lambda value: self._set_active(1, value),
            v.ICH_HCR_EL2: self._write_hcr,
            v.ICH_VMCR_EL2: self._write_vmcr,
            v.ICV_PMR_EL1: lambda value: self._control(VPMR=value & IMPLEMENTED),
            v.ICV_EOIR0_EL1: lambda value: self._end(value & 0xFF_FFFF, group=0),
            v.ICV_EOIR1_EL1: lambda value: self._end(value & 0xFF_FFFF, group=1),
            v.ICV_DIR_EL1: lambda value: self._end_split(value & 0xFF_FFFF),
            v.ICV_BPR0_EL1: lambda value: self._control(VBPR0=max(value & 7, LEAST_POINT)),
            v.ICV_BPR1_EL1: self._write_bpr1,
            v.ICV_AP0R0_EL1: lambda value: self._set_active(0, value),
            v.ICV_AP1R0_EL1: lambda value: self._set_active(1, value),
            v.ICV_CTLR_EL1: lambda value: self._control(VEOIM=value >> 1 & 1, VCBPR=value & 1),
            v.ICV_IGRPEN0_EL1: lambda value: self._control(VENG0=value & 1),
            v.ICV_IGRPEN1_EL1: lambda value: self._control(VENG1=value & 1),
        }
        for number, register in enumerate(v.LIST_REGISTERS):
            self.readers[register] = self._list_reader(number)
            writers[register] = self._list_writer(number)
        self.writers: dict[type[SysReg], Callable[[int], None]] = {
            register: self._then_update(writer) for register, writer in writers.items()
        }

    def check(self, state: VirtualState) -> None:
        """Raise StateError for other registers than there are."""
        there = len(state.active), len(state.lists)
        expect(there == (2, len(v.LIST_REGISTERS)), "the virtual interface of the GIC")

    def reset(self) -> None:
        """Reset: off, nothing listed, nothing active."""
        self.s = VirtualState()
        self.update()

    def _derive(self) -> None:
        self.update()

    def update(self) -> None:
        """Drive the guest's inputs and the maintenance interrupt."""
        number = self._highest()
        signalled = number is not None and self._preempts(self.s.lists[number])
        group = self.s.lists[number].Group if number is not None else 0
        self._virq.set_level(signalled and group == 1)
        self._vfiq.set_level(signalled and group == 0)
        self._maintenance.set_level(bool(self.s.hcr.En and self._misr()))

    def _then_update(self, writer: Callable[[int], None]) -> Callable[[int], None]:
        def write(value: int) -> None:
            writer(value)
            self.update()

        return write

    def _list_reader(self, number: int) -> Callable[[], int]:
        return lambda: self.s.lists[number].value

    def _list_writer(self, number: int) -> Callable[[int], None]:
        def write(value: int) -> None:
            self.s.lists[number] = ListRegister(value & _LR_WRITABLE)

        return write

    # What is pending and what preempts

    def _highest(self) -> int | None:
        """The List register with the most urgent interrupt that is pending and not active.

        Only groups that the guest has enabled count; of equals the first List register is taken.
        """
        enabled = (self.s.vmcr.VENG0, self.s.vmcr.VENG1)
        ready = [
            (entry.Priority, number)
            for number, entry in enumerate(self.s.lists)
            if entry.State == PENDING and enabled[entry.Group]
        ]
        return min(ready)[1] if ready else None

    def _preempts(self, entry: ListRegister) -> bool:
        if not self.s.hcr.En or entry.Priority >= self.s.vmcr.VPMR:
            return False
        mask = self._group_priority_mask(entry.Group)
        return preempts(entry.Priority, self.s.active[0] | self.s.active[1], mask)

    def _group_priority_mask(self, group: int) -> int:
        common = group == 0 or self.s.vmcr.VCBPR
        point = self.s.vmcr.VBPR0 if common else self.s.vmcr.VBPR1 - 1
        return group_mask(point)

    def _running(self) -> int:
        return running(self.s.active[0] | self.s.active[1])

    def _highest_intid(self, group: int) -> int:
        number = self._highest()
        if number is None or self.s.lists[number].Group != group:
            return SPURIOUS
        return self.s.lists[number].vINTID & 0xFF_FFFF

    # The guest takes and ends interrupts

    def _acknowledge(self, group: int) -> int:
        number = self._highest()
        if number is None or self.s.lists[number].Group != group:
            return SPURIOUS
        entry = self.s.lists[number]
        if not self._preempts(entry):
            return SPURIOUS
        priority = entry.Priority & self._group_priority_mask(group)
        self.s.active[group] |= active_bit(priority)
        # An LPI has no active state.
        state = 0 if entry.vINTID >= _FIRST_LPI else ACTIVE
        self.s.lists[number] = entry.replace(State=state)
        self.update()
        return entry.vINTID & 0xFF_FFFF

    def _end(self, intid: int, group: int) -> None:
        """Priority drop, then deactivation unless VEOIM splits them.

        The drop comes before all checks, which the architecture lets us choose.
        """
        if SPURIOUS - 3 <= intid <= SPURIOUS:
            return
        ended = self._running()
        if ended == IDLE:
            return
        bit = active_bit(ended)
        self.s.active[0 if self.s.active[0] & bit else 1] &= ~bit
        number = self._find_active(intid)
        if number is None:
            if intid < _FIRST_LPI and not self.s.vmcr.VEOIM:
                self._count_unlisted()
            return
        entry = self.s.lists[number]
        dropped = entry.Priority & self._group_priority_mask(group)
        if entry.Group == group and dropped == ended and not self.s.vmcr.VEOIM:
            self._deactivate(number)

    def _end_split(self, intid: int) -> None:
        """ICV_DIR_EL1: ignored unless VEOIM splits the end of interrupts."""
        if not self.s.vmcr.VEOIM or SPURIOUS - 3 <= intid <= SPURIOUS:
            return
        number = self._find_active(intid)
        if number is not None:
            self._deactivate(number)
        elif intid < _FIRST_LPI:
            self._count_unlisted()

    def _find_active(self, intid: int) -> int | None:
        for number, entry in enumerate(self.s.lists):
            if entry.State & ACTIVE and entry.vINTID == intid:
                return number
        return None

    def _deactivate(self, number: int) -> None:
        entry = self.s.lists[number]
        self.s.lists[number] = entry.replace(State=entry.State & ~ACTIVE)
        if entry.HW:
            self._deactivate_physical(entry.pINTID)

    def _count_unlisted(self) -> None:
        """An interrupt ended that no List register has."""
        self.s.hcr = self.s.hcr.replace(EOIcount=(self.s.hcr.EOIcount + 1) & 0x1F)

    # Registers

    def _write_hcr(self, value: int) -> None:
        self.s.hcr = ICH_HCR_EL2(value & _HCR_WRITABLE)

    def _write_vmcr(self, value: int) -> None:
        self.s.vmcr = _vmcr(value)

    def _control(self, **fields: int) -> None:
        self.s.vmcr = self.s.vmcr.replace(**fields)

    def _read_bpr1(self) -> int:
        return min(self.s.vmcr.VBPR0 + 1, 7) if self.s.vmcr.VCBPR else self.s.vmcr.VBPR1

    def _write_bpr1(self, value: int) -> None:
        if not self.s.vmcr.VCBPR:
            self._control(VBPR1=max(value & 7, _LEAST_POINT_1))

    def _set_active(self, group: int, value: int) -> None:
        self.s.active[group] = value & 0xFFFF_FFFF

    # The hypervisor's view

    def _eisr(self) -> int:
        return sum(
            1 << number
            for number, entry in enumerate(self.s.lists)
            if not entry.State and not entry.HW and entry.pINTID & _EOI
        )

    def _elrsr(self) -> int:
        return sum(
            1 << number
            for number, entry in enumerate(self.s.lists)
            if not entry.State and (entry.HW or not entry.pINTID & _EOI)
        )

    def _misr(self) -> int:
        hcr, vmcr = self.s.hcr, self.s.vmcr
        valid = sum(1 for entry in self.s.lists if entry.State)
        pending = any(entry.State & PENDING for entry in self.s.lists)
        return v.ICH_MISR_EL2.of(
            EOI=self._eisr() != 0,
            U=hcr.UIE & (valid <= 1),
            LRENP=hcr.LRENPIE & (hcr.EOIcount != 0),
            NP=hcr.NPIE & (not pending),
            VGrp0E=hcr.VGrp0EIE & vmcr.VENG0,
            VGrp0D=hcr.VGrp0DIE & (1 - vmcr.VENG0),
            VGrp1E=hcr.VGrp1EIE & vmcr.VENG1,
            VGrp1D=hcr.VGrp1DIE & (1 - vmcr.VENG1),
        ).value


def _vmcr(value: int) -> ICH_VMCR_EL2:
    """ICH_VMCR_EL2 as it is after a write of ``value``."""
    vmcr = ICH_VMCR_EL2(value & _VMCR_WRITABLE | _VMCR_RES1)
    return vmcr.replace(
        VPMR=vmcr.VPMR & IMPLEMENTED,
        VBPR0=max(vmcr.VBPR0, LEAST_POINT),
        VBPR1=max(vmcr.VBPR1, _LEAST_POINT_1),
    )
