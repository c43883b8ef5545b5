"""Self-hosted debug on one PE: its registers, and the exceptions of breakpoints and watchpoints.

The engine does software step. It holds only those bits of MDSCR_EL1 that this needs. The host finds
breakpoints and watchpoints, and applies the OS lock and double lock, which the engine lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spe_unicorn.arch.access.fine_grained_traps import trap_id
from spe_unicorn.arch.exceptions.routing import Routed, fp_access_trap, sve_access_trap
from spe_unicorn.arch.exceptions.syndromes import BREAKPOINT, watchpoint
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.pe import PEAt
from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import SPSR_EL1
from spe_unicorn.arch.rules.debug import (
    MemoryAccess,
    armed_breakpoints,
    armed_watchpoints,
    breaks,
    debug_target,
    locked,
    matches_address,
    step_is_pending,
    watched,
    watches,
)
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.host.native import checks as native
from spe_unicorn.host.native.marks import MARK_FP, marks_of
from spe_unicorn.host.pe.checks.accesses import accesses_of, invalidates, silent_accesses_of
from spe_unicorn.host.pe.cpu import UnicornCPU

_TAGS: Final = 0xFF
_OF_ENGINE: Final = d.MDSCR_EL1.SS.mask | d.MDSCR_EL1.KDE.mask
"""The bits of MDSCR_EL1 that the engine holds: those of software step."""
_SIGN: Final = 1 << 48
_EXTENSION: Final = ((1 << 15) - 1) << 49
_PAGE: Final = 0xFFF


@dataclass(frozen=True)
class DebugRegister:
    """A register of self-hosted debug: what an MRS gives and an MSR does."""

    cpu: UnicornCPU
    register: type[SysReg]

    def read(self) -> int:
        """What an MRS gives."""
        registers, register = self.cpu.registers, self.register
        if register is d.DBGDTR_EL0:
            sent = registers.raw(d.OSDTRTX_EL1)
            return sent << 32 | registers.raw(d.OSDTRRX_EL1)
        if register is d.DBGDTRTX_EL0:  # a read is of DBGDTRRX_EL0
            return registers.raw(d.OSDTRRX_EL1)
        value = registers.raw(register)
        if register is d.MDSCR_EL1:
            value |= registers.raw(d.MDCCSR_EL0)
        return value

    def write(self, value: int) -> None:
        """What an MSR does."""
        registers, register = self.cpu.registers, self.register
        is_locked = bool(registers.read(d.OSLSR_EL1).OSLK)
        if register is d.OSLAR_EL1:
            status = registers.read(d.OSLSR_EL1).replace(OSLK=value & 1)
            registers.set_raw(d.OSLSR_EL1, status.value)
        elif register is d.MDSCR_EL1:
            kept = 0 if is_locked else d.LOCKED_BITS
            old = registers.raw(register)
            registers.write(register, value & ~kept | old & kept)
            if is_locked:
                full = d.MDCCSR_EL0.RXfull.mask | d.MDCCSR_EL0.TXfull.mask
                registers.set_raw(d.MDCCSR_EL0, value & full)
                registers.set_raw(register, registers.raw(register) & ~full)
            _tell_engine(self.cpu)
        elif register is d.OSECCR_EL1:
            if is_locked:
                registers.write(register, value)
        elif register is d.DBGCLAIMSET_EL1:
            self._claim(registers.raw(d.DBGCLAIMCLR_EL1) | value & _TAGS)
        elif register is d.DBGCLAIMCLR_EL1:
            self._claim(registers.raw(register) & ~value)
        elif register in (d.DBGDTR_EL0, d.DBGDTRTX_EL0):
            self._send(value, both=register is d.DBGDTR_EL0)
        else:
            registers.write(register, value)

    def _claim(self, tags: int) -> None:
        self.cpu.registers.set_raw(d.DBGCLAIMCLR_EL1, tags)

    def _send(self, value: int, *, both: bool) -> None:
        """Send on the DCC. There is no receiver, so the channel stays full from then on."""
        registers = self.cpu.registers
        registers.write(d.OSDTRTX_EL1, value)
        if both:
            registers.write(d.OSDTRRX_EL1, value >> 32)
        registers.set_raw(d.MDCCSR_EL0, d.MDCCSR_EL0.of(TXfull=1).value)


def _tell_engine(cpu: UnicornCPU) -> int:
    """Have the engine hold its bits of MDSCR_EL1. Return them."""
    theirs = 0 if locked(cpu) else cpu.registers.raw(d.MDSCR_EL1) & _OF_ENGINE
    if cpu.engine.system(d.MDSCR_EL1.encoding) != theirs:
        cpu.engine.set_system(d.MDSCR_EL1.encoding, theirs)
    return theirs


class SelfHostedDebug:
    """Finds the Breakpoint and Watchpoint exceptions of a PE."""

    DERIVED = ("addresses", "steps_itself", "levels", "ranges", "stepping")

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self.levels: tuple[int, ...] = (0,) * 4
        """What is checked for debug at each Exception level: bits of ``State.checking``."""
        self.ranges: tuple[tuple[int, int, int], ...] = ()
        """What is watched: first address, last address and kinds, as in ``native.checks.RANGE``."""
        self.addresses: frozenset[int] = frozenset()
        """The addresses of breakpoints."""
        self.stepping = False
        """Whether software step is on."""
        self.steps_itself = False
        """Whether an Exception level can step itself, as PSTATE.D allows. The host then executes
        MSR DAIFSet and DAIFClr of PSTATE.D, as the engine does not see that they change that."""

    def registers(self) -> dict[type[SysReg], DebugRegister]:
        """Each register, as it is accessed."""
        return {register: DebugRegister(self._cpu, register) for register in d.DEBUG_REGISTERS}

    def changed(self) -> None:
        """Work it out anew: a register that any of this depends on may have been written."""
        cpu = self._cpu
        registers = cpu.registers
        mdscr = registers.raw(d.MDSCR_EL1)
        theirs = _tell_engine(cpu)
        self.stepping = bool(theirs & d.MDSCR_EL1.SS.mask)
        self.steps_itself = theirs == _OF_ENGINE
        if not mdscr & d.MDSCR_EL1.MDE.mask:
            self.levels = (0,) * 4
            self.ranges = ()
            self.addresses = frozenset()
            return
        levels = []
        breakpoints: set[int] = set()
        watchpoints: set[int] = set()
        for el in range(4):
            pe = PEAt(cpu, el)
            broken = armed_breakpoints(pe, el)
            by_address = [n for n in broken if matches_address(registers.read(d.DBGBCRS[n]))]
            seen = armed_watchpoints(pe, el)
            levels.append(
                (native.BREAK if by_address else 0)
                | (native.EVERY if len(by_address) < len(broken) else 0)
                | (native.WATCH if seen else 0)
            )
            breakpoints.update(by_address)
            watchpoints.update(seen)
        self.levels = tuple(levels)
        self.addresses = frozenset(
            _canonical(registers.raw(d.DBGBVRS[n]) & ~3) for n in breakpoints
        )
        self.ranges = tuple(
            (
                place.first,
                place.last,
                place.read * native.LOADS | place.write * native.STORES,
            )
            for n in sorted(watchpoints)
            for place in watched(cpu, n)
        )

    def take_over(self, mdscr: int) -> None:
        """Compiled code has written MDSCR_EL1, where no level has breakpoints or watchpoints."""
        self._cpu.registers.set_raw(d.MDSCR_EL1, mdscr)
        self.stepping = not locked(self._cpu) and bool(mdscr & d.MDSCR_EL1.SS.mask)

    def breaks(self) -> Routed | None:
        """The Breakpoint exception before the operation at the PC, None for none."""
        cpu = self._cpu
        if not self.levels[cpu.el] & (native.BREAK | native.EVERY):
            return None
        if not breaks(cpu, SPSR_EL1(cpu.pstate), cpu.pc):
            return None
        return Routed(self._target(), BREAKPOINT)

    def watches(self, instruction: Instruction) -> tuple[Routed, int] | None:
        """The Watchpoint exception of the operation at the PC, with its address, if any.

        None for an operation that traps, or whose access does not translate: that goes first.
        """
        cpu = self._cpu
        if not self.levels[cpu.el] & native.WATCH or self.traps(instruction):
            return None
        pstate = SPSR_EL1(cpu.pstate)
        for access in accesses_of(cpu, instruction):
            byte = watches(cpu, pstate, access)
            if not self._translates(access, access.address if byte is None else byte):
                return None
            if byte is None:
                continue
            write = access.write
            if access.read and access.write:
                write = watches(cpu, pstate, replace(access, write=False)) is None
            maintains = invalidates(instruction.word)
            return Routed(self._target(), watchpoint(write=write, maintenance=maintains)), byte
        return None

    def ends(self, instruction: Instruction) -> int | None:
        """The element at which a watchpoint ends the load at the PC; None if none does.

        It ends a non-fault load, and a first-fault load after its first element.
        """
        cpu = self._cpu
        if not self.levels[cpu.el] & native.WATCH:
            return None
        pstate = SPSR_EL1(cpu.pstate)
        for n, access in silent_accesses_of(cpu, instruction):
            byte = watches(cpu, pstate, access)
            if not self._translates(access, access.address if byte is None else byte):
                return None
            if byte is not None:
                return n
        return None

    def comes_first(self) -> bool:
        """Whether the guest has a debug exception before the operation at the PC."""
        return self.step_is_pending() or self.breaks() is not None

    def step_is_pending(self) -> bool:
        """Whether a Software Step exception comes before the operation at the PC."""
        return self.stepping and step_is_pending(self._cpu, SPSR_EL1(self._cpu.pstate))

    def _target(self) -> int:
        return debug_target(self._cpu, security_state_at(self._cpu, self._cpu.el))

    def traps(self, instruction: Instruction) -> bool:
        """Whether the operation is trapped before it accesses anything."""
        cpu = self._cpu
        if instruction.sve:
            return Feature.FEAT_SVE not in cpu.features or sve_access_trap(cpu) is not None
        return bool(marks_of(instruction.word) & MARK_FP) and fp_access_trap(cpu) is not None

    def _translates(self, access: MemoryAccess, byte: int) -> bool:
        """Whether an access translates, up to one of its bytes."""
        virtual = self._cpu.virtual
        own = access.el == self._cpu.el
        translate = virtual.translate if own else virtual.translate_unprivileged
        pages: Sequence[int] = (access.address, byte)
        if (access.address ^ byte) <= _PAGE:
            pages = (byte,)
        return all(translate(page, write=access.write) is not None for page in pages)


_DAIF, _IMMEDIATE = 0xD503_40DF, 0xF << 8 | 1 << 5
_D: Final = 1 << 11
"""MSR DAIFSet, #imm; its bits that differ in others and in DAIFClr; PSTATE.D's."""
DEBUG_MASKS: Final = frozenset(
    trap_id(_DAIF | clears << 5 | others << 8 | _D) for clears in (0, 1) for others in range(8)
)
"""The MSR DAIFSet and DAIFClr of PSTATE.D, as ``arch.access.fine_grained_traps`` numbers them."""


def masks_debug(word: int) -> bool:
    """Whether ``word`` is an MSR DAIFSet or DAIFClr whose immediate includes PSTATE.D."""
    return word & ~_IMMEDIATE == _DAIF and bool(word & _D)


def masked(pstate: int, word: int) -> int:
    """PSTATE after the MSR DAIFSet or DAIFClr ``word``."""
    masks = (word >> 8 & 0xF) << 6
    return pstate & ~masks if word >> 5 & 1 else pstate | masks


def _canonical(address: int) -> int:
    """An address in the form that the PC has: bits 63 to 49 are copies of bit 48."""
    return address & (_SIGN * 2 - 1) | (_EXTENSION if address & _SIGN else 0)
