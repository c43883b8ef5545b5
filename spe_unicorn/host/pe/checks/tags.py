"""Tag checks of loads and stores (FEAT_MTE2): logical tags beside Allocation Tags.

Only guests that ask for it pay for it. While SCTLR_ELx.TCF or TCF0 is not 0 at some Exception
level, a compiled hook runs before every operation, and compares tags. Where they differ it stops
the engine, and this looks at the attributes of the memory, which decide whether it has tags at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spe_unicorn.arch.exceptions.routing import Routed, data_abort_of
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import (
    AccessDescriptor,
    AddressDescriptor,
    Fault,
    FaultRecord,
    acc_desc_gpr,
)
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.pe import EL0, PEAt
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3, SPSR
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.arch.rules.effective import have_el, unprivileged_access_is_privileged
from spe_unicorn.arch.rules.tagging import (
    GRANULE,
    TCF,
    access_is_tag_checked,
    allocation_tag_access_is_enabled,
    allocation_tag_from_address,
    effective_tbi,
    effective_tcf,
    effective_tcma,
    tag_fault_bit,
    tag_fault_status,
)
from spe_unicorn.decode.tagging import is_tag_checked
from spe_unicorn.host.native import checks as native
from spe_unicorn.host.pe.checks.accesses import accesses_of, level_of, silent_accesses_of
from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1
_HALVES: Final = (0, 1 << 55)
"""An address of each range."""
_DECIDING: Final = (*banked.SCTLR.values(), *banked.TCR.values(), HCR_EL2, SCR_EL3)


def _granules(access: MemoryAccess) -> Iterator[int]:
    """The addresses of an access whose tags are checked: its first byte, and further granules."""
    begin, end = access.address, access.address + access.size
    while begin < end:
        yield begin & _MASK
        begin = (begin & -GRANULE) + GRANULE


class TagChecks:
    """The tag checks of one PE."""

    DERIVED = ("levels", "_known")

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self.levels: tuple[int, ...] = (0,) * 4
        """What is checked at each Exception level: bits of ``State.checking``."""
        self._known: tuple[int, ...] = ()
        """The values of the registers from which :attr:`levels` was worked out."""

    def changed(self) -> None:
        """Work out anew what is checked: a register that decides may have been written."""
        cpu = self._cpu
        if Feature.FEAT_MTE2 not in cpu.features:
            return
        key = tuple(cpu.registers.raw(r) for r in _DECIDING if r in cpu.registers)
        if key == self._known:
            return
        self._known = key
        there = [el for el in range(4) if have_el(cpu, el)]
        cpu.state.tag_access = sum(allocation_tag_access_is_enabled(cpu, el) << el for el in there)
        self.levels = tuple(self._checks(PEAt(cpu, el)) if el in there else 0 for el in range(4))
        cpu.checks_tags = self.reaches if any(self.levels) else None

    def _checks(self, pe: PEAt) -> int:
        """What is checked at the PE's Exception level."""
        checks = native.TAGS if self._is_checked(pe, pe.el) else 0
        if pe.el and not unprivileged_access_is_privileged(pe, uao=False):
            checks |= native.TAGS_OF_EL0 if self._is_checked(pe, EL0) else 0
        if checks:
            for n, address in enumerate(_HALVES):
                checks |= (native.TBI << n) * effective_tbi(pe, address, pe.el)
                checks |= (native.TCMA << n) * effective_tcma(pe, address, pe.el)
        return checks

    @staticmethod
    def _is_checked(pe: PEAt, el: int) -> bool:
        """Whether accesses at privilege ``el`` are checked, and that matters."""
        tcf = effective_tcf(pe, el, read=True)
        return tcf is not TCF.IGNORE and allocation_tag_access_is_enabled(pe, el)

    def fault(self, instruction: Instruction) -> tuple[Routed, int] | None:
        """The Tag Check Fault of the operation at the PC, with its address; None if none is taken.

        A check that fails asynchronously is noted in TFSR_ELx. The first access that does not
        translate ends it: the engine finds that fault.
        """
        cpu = self._cpu
        if not self.levels[cpu.el] or not is_tag_checked(instruction):
            return None
        pstate = SPSR(cpu.pstate)
        if pstate.TCO:
            return None
        for access in accesses_of(cpu, instruction):
            tcf = effective_tcf(cpu, access.el, read=access.read)
            if tcf is TCF.IGNORE:
                return None
            for place in _granules(access):
                matches = self._matches(access, place, pan=bool(pstate.PAN))
                if matches is None:
                    return None
                if not matches and tcf is TCF.SYNC:
                    # of an atomic it is that of a read, which would fail as well (ESR_ELx.WnR)
                    write = access.write and not access.read
                    fault = FaultRecord(Fault.TagCheck, 0, write=write)
                    return data_abort_of(cpu, fault), place
                if not matches:
                    self._note(place, access.el)
        return None

    def ends(self, instruction: Instruction) -> int | None:
        """The element at which a check ends the load at the PC; None if none does.

        A check that fails ends a non-fault load, and a first-fault load after its first element, in
        each mode, and is not noted: AArch64.CheckTag(). Where checks have no effect there is none.
        """
        cpu = self._cpu
        if not self.levels[cpu.el] or not is_tag_checked(instruction):
            return None
        pstate = SPSR(cpu.pstate)
        if pstate.TCO:
            return None
        for n, access in silent_accesses_of(cpu, instruction):
            if effective_tcf(cpu, access.el, read=True) is TCF.IGNORE:
                return None
            for place in _granules(access):
                matches = self._matches(access, place, pan=bool(pstate.PAN))
                if matches is None:
                    return None
                if not matches:
                    return n
        return None

    def reaches(self, instruction: Instruction, address: int) -> bool:
        """Whether an operation's access to an address is checked by an Allocation Tag now."""
        cpu = self._cpu
        if not self.levels[cpu.el] or not is_tag_checked(instruction):
            return False
        access = instruction.access
        el = cpu.el if access is None else level_of(cpu, access)
        tco = bool(SPSR(cpu.pstate).TCO)
        if effective_tcf(cpu, el, read=True) is TCF.IGNORE:
            return False
        if not access_is_tag_checked(cpu, address, el, tco=tco):
            return False
        found = self._translated(address, acc_desc_gpr(el, read=True))
        return not isinstance(found, FaultRecord) and found.memattrs.is_tagged

    def _matches(self, access: MemoryAccess, address: int, *, pan: bool) -> bool | None:
        """AArch64.CheckTag(), of a granule of an access; None where that does not translate."""
        cpu = self._cpu
        if cpu.tags is None or not access_is_tag_checked(cpu, address, access.el, tco=False):
            return True
        why = acc_desc_gpr(access.el, read=access.read, write=access.write, pan=pan)
        found = self._translated(address, why)
        if isinstance(found, FaultRecord):
            return None
        if not found.memattrs.is_tagged:
            return True
        tag = cpu.tags.read(found.paddress)
        return tag is None or tag == allocation_tag_from_address(address)

    def _translated(
        self, address: int, access: AccessDescriptor
    ) -> FaultRecord | AddressDescriptor:
        cpu = self._cpu
        context = context_at(cpu, cpu.el)
        return full_translate(context, address, access, cpu.memory)

    def _note(self, address: int, el: int) -> None:
        """AArch64.ReportTagCheckFault(): a check failed asynchronously."""
        registers, register = self._cpu.registers, tag_fault_status(el)
        value = registers.raw(register) | tag_fault_bit(address, el)
        if value != registers.raw(register):
            registers.update(register(value))
