"""Corrects exceptions that the engine finds by itself, where it gets something wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord
from spe_unicorn.arch.exceptions.routing import (
    Routed,
    default_target,
    pointer_authentication_trap,
)
from spe_unicorn.arch.exceptions.syndromes import (
    EC,
    SOFTWARE_STEPS,
    UNDEFINED,
    Syndrome,
    system_register_trap,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import FaultRecord, acc_desc_gpr, acc_desc_ifetch
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.operation import MEMORY_MOVES
from spe_unicorn.arch.pe import EL0, EL1
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.rules.effective import tge
from spe_unicorn.decode import decode
from spe_unicorn.decode.words import authenticates
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import EngineException

_INSTRUCTION_ABORTS: Final = frozenset({EC.InstructionAbort, EC.InstructionAbort + 1})
_DATA_ABORTS: Final = frozenset({EC.DataAbort, EC.DataAbort + 1})
_ISV: Final = 1 << 24
_WNR: Final = 1 << 6
_S1PTW: Final = 1 << 7
_FSC: Final = 0x3F
_TRANSFER: Final = 0x1FF << 16 | 0b11 << 14
"""ISV, SAS, SSE, SRT, SF and AR, which a syndrome has with ISV only."""
_MSR_DAIF: Final = 0xD503_40DF
"""MSR DAIFSet, #imm and, with the bit of the mask, MSR DAIFClr, #imm."""
_MSR_DAIF_MASK: Final = 0xFFFF_F0DF


def corrected(cpu: UnicornCPU, exception: EngineException) -> EngineException:
    """The engine's exception at the PC, as the architecture defines it."""
    syndrome = exception.record.syndrome
    if syndrome is None:
        return exception
    if syndrome == UNDEFINED:
        syndrome = _masks_at_el0(cpu) or syndrome
        routed = _pointer_authentication(cpu)
        if routed is not None:
            record = replace(exception.record, syndrome=routed.syndrome)
            return replace(exception, record=record, target_el=routed.target_el)
    elif syndrome.ec == EC.SVEAccessTrap and Feature.FEAT_SVE not in cpu.features and cpu.whole:
        # the engine has SVE, and CPTR_EL3.EZ keeps it from this core
        record = replace(exception.record, syndrome=UNDEFINED)
        return replace(exception, record=record, target_el=default_target(cpu))
    elif syndrome.ec in SOFTWARE_STEPS:
        if cpu.s.stepped == (cpu.pc, cpu.executed):
            # the host executed the stepped operation, and the engine does not know of it
            syndrome = syndrome._replace(iss=syndrome.iss | _ISV)
    elif syndrome.ec in _DATA_ABORTS:
        if syndrome.iss & _TRANSFER and (not _has_stage2(cpu) or _writes_back(cpu)):
            syndrome = syndrome._replace(iss=syndrome.iss & ~_TRANSFER)
        syndrome = _fault_of_walk(cpu, syndrome, exception.record)
    elif syndrome.ec in _INSTRUCTION_ABORTS:
        syndrome = _fault_of_walk(cpu, syndrome, exception.record)
    return replace(exception, record=replace(exception.record, syndrome=syndrome))


def _pointer_authentication(cpu: UnicornCPU) -> Routed | None:
    """The trap of a pointer authentication instruction, which the engine takes as UNDEFINED."""
    words = cpu.virtual.code(cpu.pc, 1)
    if not words or not authenticates(words[0]):
        return None
    return pointer_authentication_trap(cpu)


def _masks_at_el0(cpu: UnicornCPU) -> Syndrome | None:
    """MSR DAIFSet and DAIFClr at EL0 are trapped as System register accesses (SCTLR_ELx.UMA)."""
    words = cpu.virtual.code(cpu.pc, 1) if cpu.el == EL0 else None
    if not words or words[0] & _MSR_DAIF_MASK != _MSR_DAIF:
        return None
    return system_register_trap(Encoding.from_key(words[0] >> 5 & 0x3FFF), 31, read=False)


def _has_stage2(cpu: UnicornCPU) -> bool:
    """Whether an abort here can be one of stage 2: only its ISS describes a transfer."""
    return cpu.el <= EL1 and not tge(cpu)


def _writes_back(cpu: UnicornCPU) -> bool:
    """Whether the operation at the PC writes its base register, or copies or sets memory.

    ISS then describes no transfer.
    """
    words = cpu.virtual.code(cpu.pc, 1)
    if not words:
        return False
    instruction = decode(words[0])
    access = instruction.access
    if instruction.registers in MEMORY_MOVES:
        return True
    return access is not None and access.writeback is not None


def _fault_of_walk(cpu: UnicornCPU, syndrome: Syndrome, record: ExceptionRecord) -> Syndrome:
    """Give a stage 2 fault of a stage 1 walk the kind and level of stage 2."""
    if not syndrome.iss & _S1PTW or record.vaddress is None:
        return syndrome
    if syndrome.ec in _INSTRUCTION_ABORTS:
        access = acc_desc_ifetch(cpu.el)
    else:
        write = bool(syndrome.iss & _WNR)
        access = acc_desc_gpr(cpu.el, read=not write, write=write)
    context = context_at(cpu, cpu.el)
    fault = full_translate(context, record.vaddress, access, cpu.memory)
    if not isinstance(fault, FaultRecord) or not fault.s1ptw:
        return syndrome
    return syndrome._replace(iss=syndrome.iss & ~_FSC | fault.fsc)
