"""The registers of one PE by GDB's numbers: as bytes, little-endian, read and written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.aarch32_id import AARCH32_ID_REGISTERS
from spe_unicorn.arch.registers.caches import CACHE_REGISTERS, CSSELR_EL1
from spe_unicorn.arch.registers.fgt import FGT_REGISTERS
from spe_unicorn.arch.registers.id import ID_REGISTERS
from spe_unicorn.arch.registers.identity import IDENTITY_REGISTERS
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.timer import TIMER_REGISTERS
from spe_unicorn.debug.gdb.description import CORE, FPU, SVE, Described, describe
from spe_unicorn.debug.system_registers import SystemRegisters
from spe_unicorn.host.engine.engine import FPCR, FPSR, SP
from spe_unicorn.host.pe.vectors import (
    FFR,
    predicate,
    set_predicate,
    set_vector,
    vector,
    vector_bits,
)
from spe_unicorn.machine.pe import ProcessingElement

_IDENTIFICATION: Final = (
    *IDENTITY_REGISTERS,
    *ID_REGISTERS,
    *AARCH32_ID_REGISTERS,
    *CACHE_REGISTERS,
    CSSELR_EL1,
)
_GROUPS: Final = (
    ("spe", frozenset(SPE_REGISTERS)),
    ("pmu", frozenset(PMU_REGISTERS)),
    ("timer", frozenset(TIMER_REGISTERS)),
    ("fgt", frozenset(FGT_REGISTERS)),
    ("id", frozenset(_IDENTIFICATION)),
)
_PSTATE: Final = (1 << 32) - 1


def group_of(register: type[SysReg]) -> str:
    """The group in which GDB shows a System register."""
    if register.__name__.startswith(("ICC_", "ICH_", "ICV_")):
        return "gic"
    return next((group for group, members in _GROUPS if register in members), "system")


def groups_of(registers: Iterable[type[SysReg]]) -> list[tuple[str, list[type[SysReg]]]]:
    """Registers by group, in the order in which they come."""
    found: dict[str, list[type[SysReg]]] = {}
    for register in registers:
        found.setdefault(group_of(register), []).append(register)
    return list(found.items())


class RegisterError(LookupError):
    """An unknown register, or a value that a register does not take; the message is one line."""


class PERegisters:
    """The registers of one PE. ``bits`` is the vector length that GDB is told, 0 without SVE."""

    def __init__(self, pe: ProcessingElement, bits: int) -> None:
        self._pe = pe
        self._bits = bits
        self._system = SystemRegisters(pe)
        self.described: tuple[Described, ...] = describe(groups_of(self._system), bits)
        """The registers by number."""

    @property
    def general(self) -> tuple[Described, ...]:
        """The registers in a ``g`` packet: the core's and the vectors."""
        return tuple(r for r in self.described if r.sysreg is None)

    def is_general(self, number: int) -> bool:
        """Whether a register is one of the core's or a vector: storing what it holds is no act.

        Raises RegisterError for a number that has none.
        """
        return self._numbered(number).sysreg is None

    def read(self, number: int) -> bytes:
        """The bytes of a register. Raises RegisterError for a number that has none."""
        register = self._numbered(number)
        mask = (1 << register.bits) - 1
        return (self._value(register) & mask).to_bytes(register.bits // 8, "little")

    def write(self, number: int, data: bytes) -> None:
        """Write a register. Raises RegisterError for an unknown or read-only one."""
        register = self._numbered(number)
        if len(data) != register.bits // 8:
            raise RegisterError(f"{register.name} has {register.bits // 8} bytes, not {len(data)}")
        value = int.from_bytes(data, "little")
        if register.sysreg is None:
            self._set(register, value)
            return
        if register.sysreg.read_only:
            raise RegisterError(f"{register.name} is read-only")
        try:
            self._system.write(register.sysreg, value)
        except LookupError as error:
            raise RegisterError(f"{register.name} is read-only") from error

    def _numbered(self, number: int) -> Described:
        if not 0 <= number < len(self.described):
            raise RegisterError(f"there is no register {number}")
        return self.described[number]

    def _value(self, register: Described) -> int:
        cpu, name = self._pe.cpu, register.name
        if register.sysreg is not None:
            return self._system.raw(register.sysreg)
        if register.feature == CORE:
            if name == "pc":
                return cpu.pc
            if name == "sp":
                return cpu.engine.get(SP)
            return cpu.pstate if name == "cpsr" else cpu.engine.x(int(name[1:]))
        if name in _FLOATING:
            return cpu.engine.get(_FLOATING[name])
        if register.feature == FPU:
            return cpu.engine.vector(int(name[1:]))
        if name == "vg":
            return vector_bits(cpu) // 64
        if name[0] == "z":
            return vector(cpu, int(name[1:]), self._bits)
        return predicate(cpu, FFR if name == "ffr" else int(name[1:]))

    def _set(self, register: Described, value: int) -> None:
        pe, name = self._pe, register.name
        cpu = pe.cpu
        if name == "pc":
            cpu.pc = value
            pe.wake()
            pe.resync()
        elif name == "sp":
            cpu.engine.put(SP, value)
        elif name == "cpsr":
            cpu.set_pstate(cpu.pstate & ~_PSTATE | value)
            pe.resync()
        elif register.feature == CORE:
            cpu.engine.set_x(int(name[1:]), value)
        elif name in _FLOATING:
            cpu.engine.put(_FLOATING[name], value)
        elif register.feature == FPU:
            cpu.engine.set_vector(int(name[1:]), value)
        elif register.feature == SVE and name[0] == "z":
            set_vector(cpu, int(name[1:]), value, self._bits)
        elif name == "vg":
            raise RegisterError("vg is what ZCR_ELx come to: write those")
        else:
            number = FFR if name == "ffr" else int(name[1:])
            set_predicate(cpu, number, value, self._bits // 8)


_FLOATING: Final = {"fpsr": FPSR, "fpcr": FPCR}


def shown_vector_bits(pe: ProcessingElement) -> int:
    """The length of SVE's vectors at a PE's Exception level, in bits; 0 for a core without SVE."""
    return vector_bits(pe.cpu) if Feature.FEAT_SVE in pe.cpu.features else 0
