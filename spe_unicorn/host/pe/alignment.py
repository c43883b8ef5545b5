"""Alignment of data and of SP, which the engine checks for exclusives and LSE atomics alone.

What it costs is paid by those who ask for it: while SCTLR_ELx.A is 1 at some Exception level, a
compiled hook stands before every operation, and looks at loads and stores where the bit is 1.
SP is looked at there as well. That Device memory refuses what is not aligned is checked for
devices, where an access comes to us anyway. Whoever wants it for memory that is mapped as such, or
used without translation, and SP without that bit, has it checked everywhere.
"""

from __future__ import annotations

from ctypes import c_size_t
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.exceptions.routing import Routed, abort_target, default_target
from spe_unicorn.arch.exceptions.syndromes import SP_ALIGNMENT, data_abort
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_for, translation_regime
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.operation import Family, Instruction, Operation
from spe_unicorn.arch.pe import EL0, EL1, EL2, PEAt
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.rules.effective import el_is_in_host
from spe_unicorn.decode import address_from, decode
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.native import alignment as native
from spe_unicorn.host.native.state import signed
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register

_MASK: Final = (1 << 64) - 1
_STACK_POINTER: Final = 31
_SP_ALIGNMENT: Final = 16


class Alignment:
    """The alignment checks of one PE."""

    DERIVED = ("_levels", "_hook")
    TRANSIT = ("passing",)
    WIRING = ("_everywhere",)

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._levels: tuple[int, ...] = (0,) * 4
        self._table = np.full(native.CHECKS, -1, native.CHECK)
        self._hook: c_size_t | None = None
        self._everywhere = False
        self.passing = False
        """Whether the next operation has been looked at and is let through."""
        cpu.state.checks = self._table.ctypes.data

    def check_everywhere(self) -> None:
        """From now on, check Device memory and SP at all Exception levels."""
        self._everywhere = True
        self.changed()

    def changed(self) -> None:
        """Look anew: an SCTLR_ELx may have been written. The engine is at rest."""
        cpu = self._cpu
        if not cpu.whole:
            return
        self._levels = tuple(self._checks(PEAt(cpu, el)) for el in range(4))
        wanted = any(self._levels)
        if wanted == (self._hook is not None):
            return
        if self._hook is None:
            self._hook = cpu.hooks.add(uc_const.UC_HOOK_CODE, native.on_operation.address)
        else:
            cpu.hooks.delete(self._hook)
            self._hook = None
        cpu.engine.forget_all_code()

    @property
    def active(self) -> bool:
        """Whether anything is checked anywhere."""
        return self._hook is not None

    def at(self, el: int) -> int:
        """What is checked at an Exception level: ``State.checking``."""
        return 0 if self.passing else self._levels[el]

    def learn(self, pc: int, operations: int) -> None:
        """Tell the hook what to check at the next so many operations."""
        cpu = self._cpu
        words = cpu.virtual.code(pc, operations) or cpu.virtual.code(pc, 1) or ()
        for n, word in enumerate(words):
            address = pc + 4 * n
            slot = address >> 2 & native.CHECKS - 1
            self._table[slot] = self._key(address), *_plan_and_offset(decode(word))

    def lets_through(self) -> bool:
        """Whether the hook has stopped at an operation that it knows and that may execute."""
        pc = self._cpu.pc
        known = int(self._table["key"][pc >> 2 & native.CHECKS - 1]) == self._key(pc)
        self.passing = known and self.fault() is None
        return self.passing

    def _key(self, address: int) -> int:
        """The address of an operation, as the table has it."""
        return signed(address & _MASK) ^ signed(int(self._cpu.state.epoch) << 48 & _MASK)

    def fault(self) -> tuple[Routed, int | None] | None:
        """The fault of the operation at the PC, with its address, None if it may execute."""
        cpu = self._cpu
        words = cpu.virtual.code(cpu.pc, 1)
        instruction = decode(words[0] if words else 0)
        access = instruction.access
        checks = self.at(cpu.el)
        if access is None or instruction.family not in _CHECKED or not checks:
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
        if not checks & native.DATA:
            refused = self._refused_by_device(address, write)
            return None if refused is None else (refused, address)
        fault = FaultRecord(Fault.Alignment, 0, write=write)
        return Routed(abort_target(cpu, fault), data_abort(fault)), address

    def device_fault(self, operation: Operation) -> Routed | None:
        """The fault of an access to a device that is not aligned: the memory type decides."""
        if not operation.misaligned or operation.va is None:
            return None
        write = operation.instruction.family is Family.STORE
        return self._refused_by_device(operation.va, write)

    def _refused_by_device(self, address: int, write: bool) -> Routed | None:
        """The Alignment fault of an access that is not aligned, if it is to Device memory."""
        cpu = self._cpu
        access = acc_desc_gpr(cpu.el, read=not write, write=write)
        context = context_for(cpu, translation_regime(cpu, cpu.el))
        result = full_translate(context, address, access, cpu.memory, aligned=False)
        if not isinstance(result, FaultRecord) or result.kind is not Fault.Alignment:
            return None  # any other fault is for the engine to find
        return Routed(abort_target(cpu, result), data_abort(result))

    def _checks(self, pe: PEAt) -> int:
        """What is checked at the PE's Exception level."""
        host = pe.el == EL0 and el_is_in_host(pe, EL0)
        controls = banked.SCTLR[EL2 if host else max(pe.el, EL1)]
        if controls not in pe.registers:
            return 0
        sctlr = pe.registers.read(controls)
        if not sctlr.A and not self._everywhere:
            return 0
        stack = sctlr.SA0 if pe.el == EL0 else sctlr.SA
        return (native.DATA if sctlr.A else native.DEVICE) | (native.STACK if stack else 0)


_CHECKED: Final = frozenset({Family.LOAD, Family.STORE})


def _plan_and_offset(instruction: Instruction) -> tuple[int, int]:
    """What the hook is to check of an operation, and the offset of its address."""
    access = instruction.access
    if access is None or instruction.family not in _CHECKED:
        return 0, 0
    check = native.CHECKED | access.element - 1 << native.CHECK_MASK
    if access.base == _STACK_POINTER:
        check |= native.CHECK_SP | SP + 1 << native.CHECK_BASE
    elif access.base is not None:
        check |= register(access.base) + 1 << native.CHECK_BASE
    if access.index is not None:
        check |= register(access.index) + 1 << native.CHECK_INDEX
        check |= access.extend << native.CHECK_EXTEND | access.shift << native.CHECK_SHIFT
    return check, access.offset
