"""Exceptions of a PE: entries and returns by the rules, and what the engine says of them."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from unicorn import UC_HOOK_INTR, Uc

from spe_unicorn.arch.exceptions.entry import (
    ExceptionEntry,
    ExceptionRecord,
    ExceptionType,
    take_exception,
)
from spe_unicorn.arch.exceptions.returns import exception_return
from spe_unicorn.arch.exceptions.syndromes import EC, SOFTWARE_STEPS, Syndrome
from spe_unicorn.arch.pe import PEAt
from spe_unicorn.arch.registers import banked, system
from spe_unicorn.bits import signed
from spe_unicorn.host.engine.engine import NEVER, TO_FIND_OUT, Engine, new_engine
from spe_unicorn.host.native.levels import set_restoring, set_suspect
from spe_unicorn.host.native.rules import changes_return
from spe_unicorn.host.native.state.clock import TAKEN_ESR, TAKEN_FAR
from spe_unicorn.host.native.state.ledger import (
    note_exception,
    note_fault_address,
    note_syndrome,
)
from spe_unicorn.host.ports import EngineException

if TYPE_CHECKING:
    from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1
_TRAP: Final = 1
"""The engine's number of Undefined exceptions, traps and software step."""
_ADDRESS_CLASSES: Final = frozenset(
    {
        EC.InstructionAbort,
        EC.InstructionAbort + 1,
        EC.DataAbort,
        EC.DataAbort + 1,
        EC.PCAlignment,
        0x34,
        0x35,
    }
)
"""Exception classes that write FAR_ELx; the last two are watchpoints."""


@dataclass(frozen=True)
class TakenException:
    """The last exception that a PE has taken.

    It was taken at ``elr`` and ``from_el``, after ``after`` operations of the PE. ``esr`` and
    ``far`` are the values that the entry wrote, None where it wrote none.
    """

    kind: ExceptionType
    from_el: int
    target_el: int
    elr: int
    esr: int | None
    far: int | None
    after: int


_SVC: Final = 0xD400_0001 | 0x1234 << 5
"""SVC #0x1234."""
_ESR_OF_SVC: Final = 0x5600_1234
_HPFAR: Final = 0x0123_4567_89A0
"""A value of HPFAR_EL2 that is nowhere else in the engine's state."""


@lru_cache(maxsize=1)
def _exception_offset() -> int:
    """Where the engine's saved state holds the syndrome of the last exception.

    It is found by taking an exception whose syndrome is known. Raises RuntimeError for an engine
    that does not keep it there.
    """
    uc = new_engine(TO_FIND_OUT)
    uc.mem_map(0, 0x1000)
    uc.mem_write(0, struct.pack("<I", _SVC))
    states: list[bytes] = []

    def on_interrupt(uc: Uc, number: int, data: object) -> None:
        states.append(bytes(uc.context_save()))
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, on_interrupt)
    uc.emu_start(0, NEVER)
    sizes = [len(state) for state in states]
    found = states[0].find(struct.pack("<I", _ESR_OF_SVC)) if states else -1
    if found < 0:
        raise RuntimeError(
            "this build of the Unicorn engine does not show exception syndromes: after an SVC, "
            f"{_ESR_OF_SVC:#x} is nowhere in its state, of so many bytes at each exception: {sizes}"
        )
    return found


@lru_cache(maxsize=1)
def _hpfar_offset() -> int:
    """Where the engine's saved state holds HPFAR_EL2. Raises RuntimeError if it is nowhere."""
    engine = Engine(new_engine(TO_FIND_OUT))
    engine.set_system(system.HPFAR_EL2.encoding, _HPFAR)
    found = bytes(engine.uc.context_save()).find(struct.pack("<Q", _HPFAR))
    if found < 0:
        raise RuntimeError("this build of the Unicorn engine does not show HPFAR_EL2 in its state")
    return found


class Entries:
    """Exception entries and returns of one PE.

    Constructing it tells the compiled hooks where the engine keeps the syndrome.
    """

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._state = cpu.state
        context = self._state.context or 0
        self._syndrome_at = context + _exception_offset()
        self._hpfar_at = context + _hpfar_offset()
        self._state.exception = self._syndrome_at

    def of_engine(self) -> EngineException:
        """The exception at which the engine has just stopped.

        HPFAR_EL2 is as the engine left it at the exception. Where its run ends, the engine looks at
        the address at which it was to end, and a stage 2 fault of that walk changes the register.
        """
        esr, _, address, target = struct.unpack("<IIQI", ctypes.string_at(self._syndrome_at, 20))
        (hpfar,) = struct.unpack("<Q", ctypes.string_at(self._hpfar_at, 8))
        syndrome = Syndrome.of_esr(esr)
        far = address if syndrome.ec in _ADDRESS_CLASSES else None
        record = ExceptionRecord(ExceptionType.SYNC, syndrome, far, hpfar)
        return EngineException(int(self._state.interrupt), record, target)

    @property
    def at_step(self) -> bool:
        """Whether the exception at which the engine stopped is a Software Step exception."""
        if self._state.interrupt != _TRAP:
            return False
        syndrome = self.of_engine().record.syndrome
        return syndrome is not None and syndrome.ec in SOFTWARE_STEPS

    def take(self, record: ExceptionRecord, target_el: int) -> ExceptionEntry:
        """Take an exception at the PC, to ``target_el``; the PC is then at the vector."""
        monitors = self._cpu.monitors
        if monitors is not None:
            monitors.leaving(record)
        pstate = system.SPSR_EL1(self._cpu.pstate)
        entry = take_exception(self._cpu, pstate, record, target_el, self._cpu.pc)
        if monitors is not None:
            monitors.entered(record, target_el)
        self._cpu.exception_taken(record, entry)
        self._note_taken(record.kind, pstate.value, entry)
        self.enter(entry)
        if self._cpu.calls is not None:
            level = pstate.value >> 2 & 3 if pstate.value & 1 else 0
            self._cpu.calls.took(record, entry.elr, level)
        return entry

    def _note_taken(self, kind: ExceptionType, pstate: int, entry: ExceptionEntry) -> None:
        state = self._state
        after = self._cpu.executed
        note_exception(state, entry.target_el, kind, after, signed(entry.elr), signed(pstate))
        if entry.esr is not None:
            note_syndrome(state, signed(entry.esr))
        if entry.far is not None:
            note_fault_address(state, signed(entry.far))

    @property
    def last_exception(self) -> TakenException | None:
        """The last exception that was taken since the PE was reset, None for none."""
        state = self._state
        if not state.taken_to:
            return None
        return TakenException(
            ExceptionType(state.taken_kind),
            state.taken_pstate >> 2 & 3,
            state.taken_to,
            state.taken_pc & _MASK,
            state.taken_esr & _MASK if state.taken_has & TAKEN_ESR else None,
            state.taken_far & _MASK if state.taken_has & TAKEN_FAR else None,
            state.taken_after,
        )

    def enter(self, entry: ExceptionEntry) -> None:
        """Write what an exception entry writes, in the order that the engine needs."""
        registers = self._cpu.registers
        target = entry.target_el
        self._cpu.events.set()
        registers.set_raw(banked.ELR[target], entry.elr)
        registers.set_raw(banked.SPSR[target], entry.spsr)
        if self._cpu.whole and (self._state.suspect or entry.spsr & system.SPSR.IL.mask):
            set_suspect(self._state, target, bool(entry.spsr & system.SPSR.IL.mask))
        if self._cpu.whole:
            set_restoring(self._state, target, entry.spsr & 0xFFFF_FFFF)
        if entry.esr is not None:
            registers.set_raw(banked.ESR[target], entry.esr)
        if entry.far is not None:
            registers.set_raw(banked.FAR[target], entry.far)
        if entry.hpfar is not None:
            registers.set_raw(system.HPFAR_EL2, entry.hpfar)
        self._cpu.set_pstate(entry.pstate.value)
        self._cpu.pc = entry.vector

    def update_returns(self) -> None:
        """Find the returns that the engine gets wrong anew, by every SPSR_ELx."""
        for el, register in banked.SPSR.items():
            if register in self._cpu.registers:
                self.update_return(el, self._cpu.registers.raw(register))

    def update_return(self, el: int, spsr: int) -> bool:
        """Do the same for one SPSR_ELx with a new value. True if that changes what ERETs need."""
        if not self._cpu.whole:
            return False
        changes = bool(changes_return(self._state, el, spsr))
        set_suspect(self._state, el, changes != bool(self._state.suspect >> el & 1))
        return bool(set_restoring(self._state, el, spsr & 0xFFFF_FFFF)) or changes

    def exception_return(self) -> bool:
        """Execute an ERET by the rules. False, with nothing done, if it goes to AArch32 state."""
        el = self._cpu.el
        spsr = system.SPSR_EL1(self._cpu.registers.raw(banked.SPSR[el]))
        elr = self._cpu.registers.raw(banked.ELR[el])
        result = exception_return(self._cpu, system.SPSR_EL1(self._cpu.pstate), spsr, elr)
        if result.aarch32:
            return False
        before = PEAt(self._cpu, el)
        self._cpu.set_pstate(result.pstate.value)
        self._cpu.pc = result.pc
        if self._cpu.monitors is not None:
            self._cpu.monitors.returned(before, ppend=bool(spsr.PPEND))
        if self._cpu.calls is not None:
            self._cpu.calls.returned()
        return True
