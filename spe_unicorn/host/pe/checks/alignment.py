"""Alignment of data and of SP, which the engine checks only for exclusives and LSE atomics.

Only guests that ask for it pay for it. While SCTLR_ELx.A is 1 at some Exception level, a compiled
hook runs before every operation. It checks loads, stores and SP at the levels where the bit is 1.

Device memory refuses accesses that are not aligned. That is checked at the devices of the board,
whose accesses the host makes anyway. For memory that is mapped as Device or used without
translation, for SP where SCTLR_ELx.A is 0, and for ordered accesses to Normal memory, it is checked
only after :meth:`Alignment.check_everywhere`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.exceptions.routing import (
    Routed,
    alignment_fault,
    data_abort_of,
    default_target,
)
from spe_unicorn.arch.exceptions.syndromes import SP_ALIGNMENT
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.operation import Family, Instruction, Operation, RegisterKind
from spe_unicorn.arch.pe import EL0, PEAt
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.arch.rules.effective import sctlr, sctlr_register
from spe_unicorn.decode import address_from, decode
from spe_unicorn.host.native import checks as native
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register

_STACK_POINTER: Final = 31
_SP_ALIGNMENT: Final = 16
_QUANTITY: Final = 16
_DECIDING: Final = (*banked.SCTLR.values(), HCR_EL2, SCR_EL3)


class Alignment:
    """The alignment checks of one PE. ``wanted`` is called when what is checked has changed."""

    DERIVED = ("levels", "_known")
    WIRING = ("_everywhere",)

    def __init__(self, cpu: UnicornCPU, wanted: Callable[[], None]) -> None:
        self._cpu = cpu
        self._wanted = wanted
        self.levels: tuple[int, ...] = (0,) * 4
        """What is checked at each Exception level: bits of ``State.checking``."""
        self._everywhere = False
        self._known: tuple[int, ...] = ()
        """The values of the registers from which :attr:`levels` was worked out."""

    def check_everywhere(self) -> None:
        """From now on, check Device memory, SP and ordered accesses at all Exception levels."""
        self._everywhere = True
        self._wanted()

    def changed(self) -> None:
        """Work :attr:`levels` out anew: an SCTLR_ELx may have been written."""
        registers = self._cpu.registers
        key = (self._everywhere, *(registers.raw(r) for r in _DECIDING if r in registers))
        if key == self._known:
            return
        self._known = key
        self.levels = tuple(self._checks(PEAt(self._cpu, el)) for el in range(4))

    def fault(self) -> tuple[Routed, int | None] | None:
        """The fault of the operation at the PC, with its address, None if it may execute."""
        cpu = self._cpu
        words = cpu.virtual.code(cpu.pc, 1)
        instruction = decode(words[0] if words else 0)
        access = instruction.access
        checks = self.levels[cpu.el]
        if access is None or not is_checked(instruction) or not checks:
            return None
        engine = cpu.engine
        base = cpu.pc if access.base is None else engine.get(register(access.base))
        if access.base == _STACK_POINTER and checks & native.STACK and base % _SP_ALIGNMENT:
            return Routed(default_target(cpu), SP_ALIGNMENT), None
        index = 0 if access.index is None else engine.get(register(access.index))
        address = address_from(access, base, index)
        if address % access.element == 0:
            return None
        write = instruction.family is Family.STORE
        if not checks & native.DATA and not self._refused_as_ordered(instruction, address):
            refused = self.refused_by_device(address, write=write)
            return None if refused is None else (refused, address)
        return alignment_fault(cpu, write=write), address

    def device_fault(self, operation: Operation) -> Routed | None:
        """The fault of a misaligned access to a device, None where the memory type allows it."""
        if not operation.misaligned or operation.va is None:
            return None
        write = operation.instruction.family is Family.STORE
        return self.refused_by_device(operation.va, write=write)

    def fault_of_ordered(self) -> tuple[Routed, int] | None:
        """The Alignment fault of the ordered access at the PC, whatever is checked; else None."""
        cpu = self._cpu
        words = cpu.virtual.code(cpu.pc, 1)
        instruction = decode(words[0] if words else 0)
        access = instruction.access
        if access is None or access.base is None:
            return None
        address = address_from(access, cpu.engine.get(register(access.base)), 0)
        if address % access.element == 0 or not self._refused_as_ordered(instruction, address):
            return None
        return alignment_fault(cpu, write=instruction.family is Family.STORE), address

    def _refused_as_ordered(self, instruction: Instruction, address: int) -> bool:
        """Whether a misaligned access faults as it acquires or releases.

        With FEAT_LSE2 it may lie within 16 bytes, or SCTLR_ELx.nAA allows it anywhere; of
        exclusives and atomics, which nAA does not allow, the engine knows where they lie.
        """
        if not is_ordered(instruction):
            return False
        if Feature.FEAT_LSE2 not in self._cpu.features or instruction.access is None:
            return True
        size = instruction.access.size
        return not sctlr(self._cpu).nAA and not is_within_quantity(address, size)

    def refused_by_device(self, address: int, *, write: bool) -> Routed | None:
        """The Alignment fault of a misaligned access, None if it is not to Device memory."""
        cpu = self._cpu
        access = acc_desc_gpr(cpu.el, read=not write, write=write)
        context = context_at(cpu, cpu.el)
        result = full_translate(context, address, access, cpu.memory, aligned=False)
        if not isinstance(result, FaultRecord) or result.kind is not Fault.Alignment:
            return None  # the engine finds every other fault
        return data_abort_of(cpu, result)

    def _checks(self, pe: PEAt) -> int:
        """What is checked at the PE's Exception level."""
        if sctlr_register(pe) not in pe.registers:
            return 0
        controls = sctlr(pe)
        if not controls.A and not self._everywhere:
            return 0
        stack = controls.SA0 if pe.el == EL0 else controls.SA
        return (native.DATA if controls.A else native.DEVICE) | (native.STACK if stack else 0)


def is_within_quantity(address: int, size: int) -> bool:
    """AllInAlignedQuantity(), of 16 bytes."""
    return address % _QUANTITY + size <= _QUANTITY


def is_ordered(instruction: Instruction) -> bool:
    """Whether an access has to be aligned in all memory: LDAR, STLR, LDAPR, LDAP1 and the like.

    Arm ARM B2.2.2.3, and AArch64.UnalignedAccessFaults(): without FEAT_LSE2 that is so wherever the
    access acquires or releases.
    """
    return instruction.acquire_release and instruction.registers in _ORDERED


_ORDERED: Final = frozenset({RegisterKind.GENERAL, RegisterKind.SIMD_FP})
_CHECKED: Final = frozenset({Family.LOAD, Family.STORE})


def is_checked(instruction: Instruction) -> bool:
    """Whether an instruction is a load or store whose alignment is checked."""
    return instruction.access is not None and instruction.family in _CHECKED
