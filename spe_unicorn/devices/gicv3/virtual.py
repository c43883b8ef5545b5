"""The virtual CPU interface: List registers become the interrupts of a guest at EL1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.devices.gicv3 import virtual_cells as c
from spe_unicorn.devices.gicv3 import virtual_registers as v
from spe_unicorn.devices.gicv3.priorities import LEAST_POINT, PRIORITY_BITS, running
from spe_unicorn.devices.gicv3.virtual_registers import (
    ICH_HCR_EL2,
    ICH_VMCR_EL2,
    ListRegister,
)
from spe_unicorn.plain import Bits32
from spe_unicorn.stateful import Stateful, expect

_LEAST_POINT_1: Final = LEAST_POINT + 1
_CTLR_FIXED: Final = 1 << 15 | 1 << 11 | PRIORITY_BITS - 1 << 8
_INTID: Final = 0xFF_FFFF


@dataclass(slots=True)
class VirtualState:
    """What is saved of one PE's virtual interface: the values of its registers."""

    hcr: ICH_HCR_EL2
    vmcr: ICH_VMCR_EL2
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

    DERIVED = ("words", "_v")

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
        self.words = np.zeros(c.WORDS, np.int64)
        """Its registers, as ``virtual_cells`` has them."""
        self._v = self.words.data
        self.reset()
        self.readers: dict[type[SysReg], Callable[[], int]] = {
            v.ICH_AP0R0_EL2: lambda: self._v[c.ACTIVE_PRIORITIES],
            v.ICH_AP1R0_EL2: lambda: self._v[c.ACTIVE_PRIORITIES + 1],
            v.ICH_HCR_EL2: lambda: self._v[c.HCR],
            v.ICH_VTR_EL2: lambda: c.VTR,
            v.ICH_MISR_EL2: lambda: c.reasons(self._v),
            v.ICH_EISR_EL2: lambda: c.ended_lists(self._v),
            v.ICH_ELRSR_EL2: lambda: c.empty_lists(self._v),
            v.ICH_VMCR_EL2: lambda: self._v[c.VMCR],
            v.ICV_PMR_EL1: lambda: c.read_mask(self._v),
            v.ICV_IAR0_EL1: lambda: self._acknowledge(group=0),
            v.ICV_IAR1_EL1: lambda: self._acknowledge(group=1),
            v.ICV_HPPIR0_EL1: lambda: c.pending_intid(self._v, 0),
            v.ICV_HPPIR1_EL1: lambda: c.pending_intid(self._v, 1),
            v.ICV_BPR0_EL1: lambda: self._vmcr.VBPR0,
            v.ICV_BPR1_EL1: self._read_bpr1,
            v.ICV_AP0R0_EL1: lambda: self._v[c.ACTIVE_PRIORITIES],
            v.ICV_AP1R0_EL1: lambda: self._v[c.ACTIVE_PRIORITIES + 1],
            v.ICV_RPR_EL1: lambda: running(c.both_active(self._v)),
            v.ICV_CTLR_EL1: lambda: _CTLR_FIXED | self._vmcr.VEOIM << 1 | self._vmcr.VCBPR,
            v.ICV_IGRPEN0_EL1: lambda: self._vmcr.VENG0,
            v.ICV_IGRPEN1_EL1: lambda: self._vmcr.VENG1,
        }
        writers: dict[type[SysReg], Callable[[int], None]] = {
            v.ICH_AP0R0_EL2: lambda value: self._set_active(0, value),
            v.ICH_AP1R0_EL2: lambda value: self._set_active(1, value),
            v.ICH_HCR_EL2: lambda value: c.write_hcr(self._v, value),
            v.ICH_VMCR_EL2: lambda value: c.write_vmcr(self._v, value),
            v.ICV_PMR_EL1: lambda value: c.write_mask(self._v, value),
            v.ICV_EOIR0_EL1: lambda value: self._ended(c.end_virtual(self._v, value & _INTID, 0)),
            v.ICV_EOIR1_EL1: lambda value: self._ended(c.end_virtual(self._v, value & _INTID, 1)),
            v.ICV_DIR_EL1: lambda value: self._ended(c.end_split(self._v, value & _INTID)),
            v.ICV_BPR0_EL1: lambda value: self._control(VBPR0=max(value & 7, LEAST_POINT)),
            v.ICV_BPR1_EL1: self._write_bpr1,
            v.ICV_AP0R0_EL1: lambda value: self._set_active(0, value),
            v.ICV_AP1R0_EL1: lambda value: self._set_active(1, value),
            v.ICV_CTLR_EL1: lambda value: self._control(VEOIM=value >> 1 & 1, VCBPR=value & 1),
            v.ICV_IGRPEN0_EL1: lambda value: self._control(VENG0=value & 1),
            v.ICV_IGRPEN1_EL1: lambda value: self._control(VENG1=value & 1),
        }
        for number, register in enumerate(v.LIST_REGISTERS):
            self.readers[register] = partial(c.read_list, self._v, number)
            writers[register] = partial(c.write_list, self._v, number)
        self.writers: dict[type[SysReg], Callable[[int], None]] = {
            register: self._then_update(writer) for register, writer in writers.items()
        }

    @property
    def s(self) -> VirtualState:
        """What is saved."""
        active = self._v[c.ACTIVE_PRIORITIES : c.HIGH].tolist()
        lists = [ListRegister(c.read_list(self._v, n)) for n in range(c.LISTS)]
        return VirtualState(self.hcr, self._vmcr, active, lists)

    @s.setter
    def s(self, state: VirtualState) -> None:
        c.write_hcr(self._v, state.hcr.value)
        c.write_vmcr(self._v, state.vmcr.value)
        for group, value in enumerate(state.active):
            self._set_active(group, value)
        for number, entry in enumerate(state.lists):
            c.write_list(self._v, number, entry.value)

    def check(self, state: VirtualState) -> None:
        """Raise StateError for other registers than there are."""
        there = len(state.active), len(state.lists)
        expect(there == (2, len(v.LIST_REGISTERS)), "the virtual interface of the GIC")

    @property
    def hcr(self) -> ICH_HCR_EL2:
        """The hypervisor's controls."""
        return ICH_HCR_EL2(self._v[c.HCR])

    @property
    def _vmcr(self) -> ICH_VMCR_EL2:
        return ICH_VMCR_EL2(self._v[c.VMCR])

    def reset(self) -> None:
        """Reset: off, nothing listed, nothing active."""
        for word in range(c.WORDS):
            self._v[word] = 0
        c.write_vmcr(self._v, 0)
        self.update()

    def _derive(self) -> None:
        self.update()

    def update(self) -> None:
        """Drive the guest's inputs and the maintenance interrupt."""
        lines = c.driven(self._v)
        self._virq.set_level(bool(lines & c.VIRQ))
        self._vfiq.set_level(bool(lines & c.VFIQ))
        self._maintenance.set_level(bool(lines & c.MAINTAINED))

    def _then_update(self, writer: Callable[[int], None]) -> Callable[[int], None]:
        def write(value: int) -> None:
            writer(value)
            self.update()

        return write

    def _acknowledge(self, group: int) -> int:
        intid = c.acknowledge_virtual(self._v, group)
        self.update()
        return intid

    def _ended(self, physical: int) -> None:
        if physical >= 0:
            self._deactivate_physical(physical)

    def _control(self, **fields: int) -> None:
        self._v[c.VMCR] = self._vmcr.replace(**fields).value

    def _read_bpr1(self) -> int:
        vmcr = self._vmcr
        return min(vmcr.VBPR0 + 1, 7) if vmcr.VCBPR else vmcr.VBPR1

    def _write_bpr1(self, value: int) -> None:
        if not self._vmcr.VCBPR:
            self._control(VBPR1=max(value & 7, _LEAST_POINT_1))

    def _set_active(self, group: int, value: int) -> None:
        self._v[c.ACTIVE_PRIORITIES + group] = value & 0xFFFF_FFFF
