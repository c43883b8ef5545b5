"""Syndromes: what ESR_ELx says of an exception (Arm ARM D24.2.45).

The instruction set is A64, so ESR_ELx.IL is 1 throughout.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.registers.sysreg import Encoding

_IL = 1 << 25
_CONDITION_ALWAYS = 1 << 24 | 0xE << 20
"""CV and COND of an unconditional instruction, in the syndromes that have them."""


class EC(IntEnum):
    """ESR_ELx.EC. Exception classes; aborts are as taken from a lower Exception level."""

    Uncategorized = 0x00
    WFxTrap = 0x01
    AdvSIMDFPAccessTrap = 0x07
    PACTrap = 0x09
    OtherTrap = 0x0A
    IllegalState = 0x0E
    SupervisorCall = 0x15
    HypervisorCall = 0x16
    MonitorCall = 0x17
    SystemRegisterTrap = 0x18
    SVEAccessTrap = 0x19
    ERetTrap = 0x1A
    InstructionAbort = 0x20
    PCAlignment = 0x22
    DataAbort = 0x24
    SPAlignment = 0x26
    MemoryCopy = 0x27
    """A memory copy or set with the other option, or with a size that none left."""
    SError = 0x2F
    Breakpoint = 0x30
    SoftwareStep = 0x32
    Watchpoint = 0x34
    SoftwareBreakpoint = 0x3C
    Profiling = 0x3D


class WFx(IntEnum):
    """ISS.TI of a trapped wait."""

    WFI = 0
    WFE = 1
    WFIT = 2
    WFET = 3


class ProfilingSource(IntEnum):
    """ISS.FSC of a profiling exception."""

    PMU = 0
    SPE = 1


class Syndrome(NamedTuple):
    """The fields of ESR_ELx but IL: exception class, ISS (25 bits) and ISS2 (24 bits)."""

    ec: int
    iss: int = 0
    iss2: int = 0

    @classmethod
    def of_esr(cls, esr: int) -> Syndrome:
        """The syndrome that a raw ESR_ELx value holds."""
        return cls(esr >> 26 & 0x3F, esr & 0x1FF_FFFF, esr >> 32 & 0xFF_FFFF)

    def esr(self) -> int:
        """The raw value of ESR_ELx."""
        return self.iss2 << 32 | self.ec << 26 | _IL | self.iss


class TransferSyndrome(NamedTuple):
    """What a stage 2 data abort tells of a load or store of one general-purpose register.

    ``size`` is the access size in bytes (1, 2, 4 or 8), ``sign_extend``, ``register``,
    ``sixty_four`` and ``acquire_release`` are SSE, SRT, SF and AR. It exists for single-register
    loads and stores that neither write back nor are exclusive.
    """

    size: int
    register: int
    sign_extend: bool = False
    sixty_four: bool = False
    acquire_release: bool = False

    def bits(self) -> int:
        """ISS bits 24:14, ISV included."""
        sas = self.size.bit_length() - 1
        return (
            1 << 24
            | sas << 22
            | int(self.sign_extend) << 21
            | self.register << 16
            | int(self.sixty_four) << 15
            | int(self.acquire_release) << 14
        )


SERROR = Syndrome(EC.SError)
"""An SError exception of a PE without FEAT_RAS, of which no more is known."""
UNDEFINED = Syndrome(EC.Uncategorized)
"""An UNDEFINED instruction, and every exception that has no class of its own."""
ILLEGAL_STATE = Syndrome(EC.IllegalState)
"""An instruction executed while PSTATE.IL is 1."""
PC_ALIGNMENT = Syndrome(EC.PCAlignment)
SP_ALIGNMENT = Syndrome(EC.SPAlignment)
FP_ACCESS_TRAP = Syndrome(EC.AdvSIMDFPAccessTrap, _CONDITION_ALWAYS)
SVE_ACCESS_TRAP = Syndrome(EC.SVEAccessTrap)
SOFTWARE_STEPS = frozenset({EC.SoftwareStep, EC.SoftwareStep + 1})
"""The classes of software step, from a lower Exception level and from the same."""
_DEBUG_EXCEPTION = 0b100010
"""IFSC and DFSC of a debug exception."""
BREAKPOINT = Syndrome(EC.Breakpoint, _DEBUG_EXCEPTION)
PAC_TRAP = Syndrome(EC.PACTrap)
PSB_CSYNC_TRAP = Syndrome(EC.OtherTrap, 0x3)
"""PSB CSYNC trapped by HFGITR_EL2.PSBCSYNC."""


def _immediate(ec: EC, imm16: int) -> Syndrome:
    if not 0 <= imm16 <= 0xFFFF:
        raise ValueError(f"the immediate of {ec.name} takes 16 bits, got {imm16:#x}")
    return Syndrome(ec, imm16)


def svc(imm16: int) -> Syndrome:
    """SVC. Raises ValueError for more than 16 bits, as the other calls do."""
    return _immediate(EC.SupervisorCall, imm16)


def hvc(imm16: int) -> Syndrome:
    """HVC."""
    return _immediate(EC.HypervisorCall, imm16)


def smc(imm16: int) -> Syndrome:
    """SMC, taken to EL3 or trapped by HCR_EL2.TSC."""
    return _immediate(EC.MonitorCall, imm16)


def brk(comment: int) -> Syndrome:
    """BRK; ``comment`` is its immediate."""
    return _immediate(EC.SoftwareBreakpoint, comment)


def software_step(*, stepped: bool) -> Syndrome:
    """A Software Step exception; ``stepped``: after an operation that was stepped (ISV)."""
    return Syndrome(EC.SoftwareStep, int(stepped) << 24 | _DEBUG_EXCEPTION)


def watchpoint(*, write: bool, maintenance: bool = False) -> Syndrome:
    """A Watchpoint exception: of a store or, where a read would not have raised it, an atomic.

    ``maintenance`` is for DC IVAC, which is a store.
    """
    bits = int(maintenance) << 8 | int(write or maintenance) << 6
    return Syndrome(EC.Watchpoint, bits | _DEBUG_EXCEPTION)


def system_register_trap(
    encoding: Encoding, rt: int, read: bool, ec: int = EC.SystemRegisterTrap
) -> Syndrome:
    """A trapped MSR, MRS or System instruction; ``rt`` is its general-purpose register."""
    return Syndrome(ec, encoding.iss(rt, read=read))


def wfx_trap(wait: WFx, rt: int = 0) -> Syndrome:
    """A trapped WFI or WFE, or a WFIT or WFET of ``rt`` (ISS.RN, with RV)."""
    register = rt << 5 | 1 << 2 if wait in (WFx.WFIT, WFx.WFET) else 0
    return Syndrome(EC.WFxTrap, _CONDITION_ALWAYS | register | wait)


def profiling(source: ProfilingSource, *, synchronous: bool = False) -> Syndrome:
    """A profiling exception; ``synchronous`` is ISS.SYNC."""
    return Syndrome(EC.Profiling, source << 1 | synchronous)


def instruction_abort(fault: FaultRecord, *, fnv: bool = False) -> Syndrome:
    """Syndrome of an Instruction Abort; ``fnv`` says that FAR_ELx holds no address."""
    return Syndrome(EC.InstructionAbort, _abort_bits(fault, fnv=fnv))


def data_abort(
    fault: FaultRecord,
    *,
    transfer: TransferSyndrome | None = None,
    maintenance: bool = False,
    fnv: bool = False,
    vncr: bool = False,
) -> Syndrome:
    """Syndrome of a Data Abort.

    ``transfer`` is shown where the architecture has it: in stage 2 aborts of the access itself.
    ``maintenance`` marks cache maintenance and AT instructions, which report as writes. ``vncr``
    marks accesses through VNCR_EL2, whose aborts have the class of those from EL2 itself.
    """
    iss = _abort_bits(fault, fnv=fnv) | int(fault.write or maintenance) << 6 | int(maintenance) << 8
    if transfer is not None and fault.stage2 and not fault.s1ptw:
        iss |= transfer.bits()
    if vncr:
        return Syndrome(EC.DataAbort + 1, iss | 1 << 13)
    return Syndrome(EC.DataAbort, iss)


def _abort_bits(fault: FaultRecord, *, fnv: bool) -> int:
    """FnV, S1PTW and FSC, which both kinds of abort share. FnV needs an external abort."""
    fnv = fnv and fault.kind is Fault.SyncExternal
    return int(fnv) << 10 | int(fault.s1ptw) << 7 | fault.fsc
