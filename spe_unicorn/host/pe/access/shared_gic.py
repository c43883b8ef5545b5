"""What compiled code needs to answer for the GIC: where interrupts are kept, and who may ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np

from spe_unicorn.arch.access.verdicts import reaches
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, PEAt, SecurityState
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.arch.rules.effective import lower_security_state
from spe_unicorn.devices.gicv3 import GICv3
from spe_unicorn.devices.gicv3.access import gic_accessors
from spe_unicorn.host.native.registers.gic import ANSWERED, GIC_PE, VIRTUAL
from spe_unicorn.host.native.registers.virtual_gic import GUESTS, HYPERVISORS, TRAPS
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.state.actions import READ, Action
from spe_unicorn.host.pe.stops import StopHandler

_KNOWN: Final = 64
"""How many answers are remembered."""


class _Interface:
    """Has compiled code answer for the CPU interface of one PE, where ``levels`` says so."""

    def __init__(self, levels: Callable[[], int]) -> None:
        self._levels = levels

    def offer(self, request: RunRequest) -> None:
        """Have compiled code answer in a run of the engine in which counting operations is all."""
        if request.only_counted:
            request.gic_at = self._levels()


class SharedGIC:
    """Has compiled code answer the accesses of interrupts between PEs, with one Security state."""

    DERIVED = ("_known",)

    def __init__(self, gic: GICv3, pes: Sequence[StopHandler]) -> None:
        self._gic = gic
        self._pes = pes
        self._known: dict[tuple[int, ...], int] = {}
        """``State.gic_at``, by the PE's number and the registers that it follows from."""
        held = pes[0].cpu.registers
        self._deciding = [register for register in (SCR_EL3, HCR_EL2) if register in held]
        """What decides beside the GIC itself; all PEs have the same registers."""
        hypervisors = HYPERVISORS if Feature.FEAT_EL2 in pes[0].cpu.features else ()
        self._table = np.zeros(len(pes), GIC_PE)
        for number, pe in enumerate(pes):
            cells, state = gic.routing.cells[number], pe.cpu.state
            self._table[number] = (
                cells.kept.ctypes.data,
                cells.found.ctypes.data,
                gic.cpu_interfaces[number].virtual.words.ctypes.data,
                state.address,
                gic.routing.affinities[number],
            )
            state.gic = self._table.ctypes.data
            state.gic_pes = len(pes)
            state.gic_own = number
            for register, kind in (*ANSWERED, *hypervisors):
                pe.cpu.hooks.accesses.change(Action.GIC, register.encoding, kind)
            pe.accelerators.append(_Interface(partial(self._levels, number)))
            pe.interrupts_rose = self._rose

    def _rose(self, pes: int) -> None:
        """Lines of some PEs have risen, a bit each."""
        for number, pe in enumerate(self._pes):
            if pes >> number & 1:
                pe.interrupts.rose()

    def _levels(self, number: int) -> int:
        """Where compiled code may answer for a PE: ``State.gic_at``."""
        routing, pe = self._gic.routing, self._pes[number]
        if routing.activated or routing.deactivated or routing.driven or pe.system.accessed:
            return 0
        traps = self._gic.cpu_interfaces[number].virtual.hcr.value & TRAPS
        key = (number, traps, *pe.cpu.registers.raws(self._deciding))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[key] = self._answered(number)
        return found

    def _answered(self, number: int) -> int:
        """The same, worked out."""
        found = sum(self._is_physical_at(number, el) << el for el in (EL1, EL2))
        if Feature.FEAT_EL2 not in self._pes[number].cpu.features:
            return found
        guests = self._reaches(number, EL1, GUESTS)
        hypervisors = self._reaches(number, EL2, HYPERVISORS)
        return found | (guests << EL1 | hypervisors << EL2) << VIRTUAL

    def _is_physical_at(self, number: int, el: int) -> bool:
        """Whether ICC_* names mean the physical interface there, with Non-secure priorities.

        Where EL3 takes FIQ, the priorities read differently.
        """
        cpu = self._pes[number].cpu
        if lower_security_state(cpu) is not SecurityState.NON_SECURE:
            return False
        if Feature.FEAT_EL3 in cpu.features and cpu.registers.read(SCR_EL3).FIQ:
            return False
        return self._reaches(number, el, ANSWERED)

    def _reaches(self, number: int, el: int, accesses: Iterable[tuple[type[SysReg], int]]) -> bool:
        """Whether accesses by the encodings of registers are allowed there, and mean these."""
        interface, at_level = self._gic.cpu_interfaces[number], PEAt(self._pes[number].cpu, el)
        accessors = {a.encoding: a for a in gic_accessors(lambda: interface.virtual.hcr)}
        return all(
            reaches(at_level, accessors[register.encoding], register, kind == READ)
            for register, kind in accesses
        )
