"""One PE on the engine: its state as the rules see it, exceptions, memory as it sees it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from unicorn import UC_HOOK_INTR, UC_PROT_EXEC, UC_PROT_READ, UC_PROT_WRITE, Uc

from spe_unicorn.arch.exceptions.entry import (
    ExceptionEntry,
    ExceptionRecord,
    ExceptionType,
    take_exception,
)
from spe_unicorn.arch.exceptions.returns import exception_return, illegal_exception_return
from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.memory.address_translation import AT_OPERATIONS
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_for, translation_regime
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers import system as s
from spe_unicorn.arch.registers.known import REGISTERS
from spe_unicorn.arch.registers.sysreg import Encoding, RegisterFile, SysReg
from spe_unicorn.arch.rules.effective import (
    el2_enabled,
    tge,
    unprivileged_access_is_privileged,
)
from spe_unicorn.arch.rules.identification import identify
from spe_unicorn.arch.rules.start_state import RESET_VALUES, firmware_state
from spe_unicorn.host.engine.engine import NEVER, PC, PSTATE, SP, SP_EL, Engine, lib, new_engine
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.code import LINE
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.state import (
    CODE_MAINTENANCE,
    FLUSH_MAINTENANCE,
    READ,
    SYSTEM,
    TAKEN_ESR,
    TAKEN_FAR,
    TLB_MAINTENANCE,
    Action,
    signed,
)
from spe_unicorn.host.pe import sysregs
from spe_unicorn.host.pe.events import EventRegister
from spe_unicorn.host.pe.secure_memory import SecureMemory
from spe_unicorn.host.ports import EngineException
from spe_unicorn.signals import Signal

if TYPE_CHECKING:
    from spe_unicorn.host.native.model import ModelHooks

_MASK: Final = (1 << 64) - 1
_MASKED: Final = 0x3C0
"""PSTATE.DAIF all set."""
_PM_BIT: Final = s.SPSR.PM.lsb
_VIRTUAL: Final = s.HCR_EL2.VI.mask | s.HCR_EL2.VF.mask
_ADDRESS_CLASSES: Final = frozenset(
    {
        *(EC.InstructionAbort, EC.InstructionAbort + 1, EC.DataAbort, EC.DataAbort + 1),
        *(EC.PCAlignment, 0x34, 0x35),
    }
)
"""Exception classes that write FAR_ELx; the last two are watchpoints."""


@dataclass(frozen=True)
class TakenException:
    """The last exception that a PE has taken.

    ``elr`` and ``from_el`` are where it was taken from, ``after`` how many operations the PE had
    executed before the entry. ``esr`` and ``far`` are what the entry wrote, None for nothing.
    """

    kind: ExceptionType
    from_el: int
    target_el: int
    elr: int
    esr: int | None
    far: int | None
    after: int


@lru_cache(maxsize=1)
def _exception_offset() -> int:
    """Where the engine's saved state holds the syndrome of the last exception.

    Found by taking one whose syndrome is known. Raises RuntimeError for an engine that keeps it
    elsewhere or not at all.
    """
    uc = new_engine()
    uc.mem_map(0, 0x1000)
    uc.mem_write(0, struct.pack("<I", 0xD400_0001 | 0x1234 << 5))  # SVC #0x1234
    found: list[int] = []

    def on_interrupt(uc: Uc, number: int, data: object) -> None:
        found.append(bytes(uc.context_save()).find(struct.pack("<I", 0x5600_1234)))
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, on_interrupt)
    uc.emu_start(0, NEVER)
    if not found or found[0] < 0:
        raise RuntimeError("this build of the Unicorn engine does not show exception syndromes")
    return found[0]


@dataclass(frozen=True)
class Maintenance:
    """Maintenance that is broadcast: of TLBs, of all ``code``, or of lines of it by address.

    ``flush``: TLBs as a whole, or all entries of an address space.
    """

    tlb: bool = False
    flush: bool = False
    code: bool = False
    lines: tuple[int, ...] = ()


class PEAt:
    """A PE as it would be at another Exception level."""

    def __init__(self, cpu: UnicornCPU, el: int) -> None:
        self.features = cpu.features
        self.impdef = cpu.impdef
        self.registers = cpu.registers
        self.el = el
        self.pm = cpu.pm
        self.halted = self.sdd = False


class _ProcessState:
    """The cell of the register PM."""

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu

    def get(self) -> int:
        """PSTATE.PM in its place."""
        return self._cpu.pm << _PM_BIT

    def set(self, value: int) -> None:
        """Write PSTATE.PM."""
        self._cpu.pm = bool(value >> _PM_BIT & 1)


class UnicornCPU:
    """A PE hosted by an engine; implements ``arch.pe.PE``.

    ``features`` and ``impdef`` describe the core that is shown to the guest. ``answer`` and
    ``ours`` are as in ``sysregs.install``. Nothing happens to the engine before :meth:`own`, or
    before the caller installs :attr:`hooks`.
    """

    halted = False
    sdd = False

    def __init__(
        self,
        engine: Engine,
        memory: PhysicalMemory,
        features: Features,
        impdef: ImpDef,
        random: RandomSource,
        *,
        answer: Action = Action.STOP,
        ours: Collection[type[SysReg]] = (),
    ) -> None:
        self.engine = engine
        self.memory = memory
        self.features = features
        self.impdef = impdef
        self.hooks = NativeHooks(engine)
        self.state = self.hooks.state
        self._el: int | None = None
        self.inside = 0
        """Operations that the block which runs has before it, while Python is asked from within."""
        self.ahead = 0
        """Operations that the engine is ahead of the one that is being counted."""
        self._pm = False
        self.secure_memory: SecureMemory | None = None
        """Memory that Non-secure software does not reach, if there is any."""
        self.whole = False
        """Whether the engine is wholly ours, with every exception that it lacks."""
        self.events = EventRegister()
        self.illegal = False
        """PSTATE.IL, of which the engine makes nothing."""
        self.pm_changed: Signal[[]] = Signal()
        """Told when PSTATE.PM has changed."""
        self.model: ModelHooks | None = None
        """What feeds the core model, if that is one that has to see everything."""
        self.exception_taken: Signal[[ExceptionRecord, ExceptionEntry]] = Signal()
        """Told of each exception in front of its entry."""
        mine = (r for r in REGISTERS if r.implemented(features))
        self.registers = RegisterFile(features, mine, impdef)
        self.steering = sysregs.install(self.registers, engine, self.hooks, answer, ours)
        sysregs.identify(self.registers, engine, self.hooks, impdef)
        if s.PM in self.registers:
            self.registers.add(s.PM, _ProcessState(self))
        if Feature.FEAT_SPE in features:
            identify(self)
        self.random = random
        self._unknown = random.stream("reset")
        self.random_number = random.stream("RNDR").bits64
        """Draws the next number that RNDR and RNDRRS give."""
        self._word = ctypes.c_uint64()
        self._word_at = ctypes.byref(self._word)
        self._syndrome_at = (self.state.context or 0) + _exception_offset()
        self.state.exception = self._syndrome_at

    # The PE as the rules see it

    @property
    def el(self) -> int:
        """PSTATE.EL, the current Exception level."""
        if self._el is None:
            self._el = self.engine.get(PSTATE) >> 2 & 3
        return self._el

    def forget_el(self) -> None:
        """The Exception level may have changed behind our back, by ERET."""
        self._el = None

    def left_from(self, el: int) -> None:
        """The PE is taken to be at the level of an ERET while operations up to it are counted."""
        self._el = el

    @property
    def pstate(self) -> int:
        """PSTATE in the layout of SPSR_ELx."""
        return self.engine.get(PSTATE) | self._pm << _PM_BIT

    @property
    def pm(self) -> bool:
        """PSTATE.PM, which the engine does not have."""
        return self._pm

    @pm.setter
    def pm(self, value: bool) -> None:
        if value != self._pm:
            self._pm = value
            self.pm_changed()

    def returned(self, from_el: int) -> None:
        """The engine has executed an ERET at ``from_el``; it knows nothing of PSTATE.PM."""
        self._el = None
        self.illegal = self.whole and bool(self.engine.get(PSTATE) & s.SPSR.IL.mask)
        if s.PM in self.registers:
            self.pm = bool(self.registers.raw(banked.SPSR[from_el]) & s.SPSR.PM.mask)
        if self.secure_memory is not None:
            self.secure_memory.changed()

    @property
    def pc(self) -> int:
        """The address of the next operation."""
        return self.engine.get(PC)

    @pc.setter
    def pc(self, address: int) -> None:
        self.engine.put(PC, address)

    @property
    def executed(self) -> int:
        """Operations attempted since the machine began; exact while the engine is stopped."""
        return int(self.state.granted - self.state.budget) - self.inside

    def counted(self) -> int:
        """Operations attempted up to the one that is being counted, that one included."""
        return self.executed - self.ahead

    @property
    def cycles(self) -> int:
        """Cycles so far: one for each operation, and those that were slept away."""
        return self.executed + int(self.state.skipped)

    def physical_count(self) -> int:
        """CNTPCT_EL0 in ticks of ``sysregs.COUNTER_FREQUENCY``: an ``arch.ports.Clock``."""
        return self.cycles >> 4

    def own(
        self,
        midr: int,
        memory: RamMemory,
        affinity: int = 0,
        weighed: bool = False,
    ) -> None:
        """Make the engine wholly ours: identity, time, and what memory does not answer.

        ``affinity`` is what MPIDR_EL1 says in Aff3 to Aff0; ``weighed`` is as for the hooks.
        """
        self.hooks.act(Action.CELL, sysregs.MIDR_EL1, READ, cell=midr)
        self.hooks.act(Action.CELL, sysregs.MPIDR_EL1, READ, cell=sysregs.MPIDR_RES1 | affinity)
        for register in (s.ISR_EL1, s.RNDR, s.RNDRRS):
            self.hooks.act(Action.ASK, register.encoding, READ)
        sysregs.show_gic(self.registers, self.hooks)
        sysregs.keep_time(self.hooks)
        sysregs.check_returns(self.hooks)
        self.whole = True
        self.state.pc_mask = 0b11
        self.hooks.act(Action.LINE, sysregs.IC_IVAU, SYSTEM)
        for op1, crm, op2 in AT_OPERATIONS:
            self.hooks.act(Action.ASK, Encoding(1, op1, 7, crm, op2), SYSTEM)
        secure = [(region.base, region.base + region.size - 1) for region in memory.secure()]
        if secure:
            self.secure_memory = SecureMemory(self, self.engine, self.state, memory)
        self.hooks.install(memory.gaps(), memory.read_only(), secure, weighed=weighed)

    def start(self, el: int, entry: int, x0: int = 0) -> None:
        """Reset, then the state that firmware leaves for software at ``el``, at ``entry``."""
        self.hear(Maintenance(tlb=True, code=True))
        self.events = EventRegister()
        self.state.taken_to = 0
        self.registers.reset(self._unknown.bits64)
        for register, value in RESET_VALUES.items():
            if register in self.registers:
                self.registers.set_raw(register, value)
        for level, register in banked.SPSR.items():
            if register in self.registers:
                # of the values that UNKNOWN allows, one that an ERET can return to
                spsr = self.registers.read(register)
                self.registers.set_raw(register, spsr.replace(M=level << 2 | 1, IL=0, nRW=0).value)
        firmware_state(self.registers, el)
        sysregs.show_identity(self.engine, self.hooks)
        masks = _MASKED | (s.SPSR.PM.mask if s.PM in self.registers else 0)
        self.set_pstate(masks | el << 2 | 1)
        for number in range(31):
            self.engine.set_x(number, 0)
        self.engine.set_x(0, x0)
        self.pc = entry

    def maintained(self) -> Maintenance | None:
        """The maintenance of which other PEs have not heard, None for none."""
        state = self.state
        if not state.maintenance and not state.line_count:
            return None
        lines = tuple(self.hooks.lines[: state.line_count].tolist())
        result = Maintenance(
            tlb=bool(state.maintenance & TLB_MAINTENANCE),
            flush=bool(state.maintenance & FLUSH_MAINTENANCE),
            code=bool(state.maintenance & CODE_MAINTENANCE),
            lines=lines,
        )
        state.maintenance = state.line_count = 0
        return result

    def hear(self, maintenance: Maintenance) -> None:
        """Forget what another PE's maintenance makes untrue here."""
        if maintenance.tlb:
            self.engine.flush_tlb()
        translates = s.SCTLR_EL3 in self.registers and self.registers.read(s.SCTLR_EL3).M
        if maintenance.code or (maintenance.lines and translates):
            self.engine.uc.ctl_flush_tb()
        elif maintenance.lines:
            self._forget_lines(maintenance.lines)
        self.state.epoch += 1
        self.state.flushes += maintenance.flush

    def _forget_lines(self, lines: Iterable[int]) -> None:
        """Forget the code in lines by their physical addresses (``host.native.code`` says how)."""
        engine = self.engine
        pstate = engine.get(PSTATE)
        engine.put(PSTATE, _MASKED | EL3 << 2 | 1)
        engine.rebuild()
        for line in lines:
            engine.forget_code(line, line + LINE)
        engine.put(PSTATE, pstate)
        engine.rebuild()

    def execute(self, until: int) -> int:
        """Run the engine from the PC on; its error number, 0 for none.

        The engine ends at ``until``, and where it halts, by a WFI of its own, which goes on for
        ever while HCR_EL2 has a virtual interrupt for it. So it has none then.
        """
        halts = until != NEVER or self.engine.halts
        virtual = halts and s.HCR_EL2 in self.registers
        hcr = self.registers.raw(s.HCR_EL2) if virtual else 0
        if not hcr & _VIRTUAL:
            return self.engine.run(self.pc, until)
        encoding = s.HCR_EL2.encoding
        theirs, writes = self.engine.system(encoding), self.state.writes
        self.engine.set_system(encoding, theirs & ~_VIRTUAL)
        status = self.engine.run(self.pc, until)
        if self.state.writes == writes:
            self.engine.set_system(encoding, theirs)
        return status

    # Exceptions

    def engine_exception(self) -> EngineException:
        """The exception at which the engine has just stopped."""
        esr, _, address, target = struct.unpack("<IIQI", ctypes.string_at(self._syndrome_at, 20))
        syndrome = Syndrome.of_esr(esr)
        far = address if syndrome.ec in _ADDRESS_CLASSES else None
        record = ExceptionRecord(ExceptionType.SYNC, syndrome, far)
        return EngineException(int(self.state.interrupt), record, target)

    def take(self, record: ExceptionRecord, target_el: int) -> ExceptionEntry:
        """Take an exception at the PC, to ``target_el``; the PC is then at the vector."""
        pstate = s.SPSR_EL1(self.pstate)
        entry = take_exception(self, pstate, record, target_el, self.pc)
        self.exception_taken(record, entry)
        self._note_taken(record.kind, pstate.value, entry)
        self.enter(entry)
        return entry

    def _note_taken(self, kind: ExceptionType, pstate: int, entry: ExceptionEntry) -> None:
        state = self.state
        state.taken_to, state.taken_kind, state.taken_after = entry.target_el, kind, self.executed
        state.taken_pc, state.taken_pstate = signed(entry.elr), signed(pstate)
        state.taken_has = 0
        if entry.esr is not None:
            state.taken_esr = signed(entry.esr)
            state.taken_has |= TAKEN_ESR
        if entry.far is not None:
            state.taken_far = signed(entry.far)
            state.taken_has |= TAKEN_FAR

    @property
    def last_exception(self) -> TakenException | None:
        """The last exception that was taken since the PE was reset, None for none."""
        state = self.state
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
        registers = self.registers
        target = entry.target_el
        self.events.set()
        registers.set_raw(banked.ELR[target], entry.elr)
        registers.set_raw(banked.SPSR[target], entry.spsr)
        if self.whole and (self.state.suspect or entry.spsr & s.SPSR.IL.mask):
            self._suspect(target, bool(entry.spsr & s.SPSR.IL.mask))
        if entry.esr is not None:
            registers.set_raw(banked.ESR[target], entry.esr)
        if entry.far is not None:
            registers.set_raw(banked.FAR[target], entry.far)
        if entry.hpfar is not None:
            registers.set_raw(s.HPFAR_EL2, entry.hpfar)
        self.set_pstate(entry.pstate.value)
        self.pc = entry.vector

    def _suspect(self, el: int, suspect: bool) -> None:
        """Whether an ERET at ``el`` is not for the engine alone."""
        self.state.suspect = self.state.suspect & ~(1 << el) | suspect << el

    def look_at_returns(self) -> None:
        """An SPSR_ELx has changed, or what makes a return from there illegal."""
        for el, register in banked.SPSR.items():
            if register in self.registers:
                self.look_at_return(el, self.registers.raw(register))

    def look_at_return(self, el: int, spsr: int) -> bool:
        """The same for one SPSR_ELx that has a new value; True if what is to be done changes."""
        if not self.whole:
            return False
        value = s.SPSR_EL1(spsr)
        suspect = bool(value.IL) or self.illegal_return(el, value)
        changes = suspect != bool(self.state.suspect >> el & 1)
        self._suspect(el, suspect)
        return changes

    def illegal_return(self, el: int, spsr: s.SPSR) -> bool:
        """Whether an ERET at ``el`` with ``spsr`` would be illegal."""
        return illegal_exception_return(PEAt(self, el), s.SPSR_EL1(el << 2), spsr)

    def exception_return(self) -> bool:
        """ERET, by our rules; False if it asks for AArch32 state, and then nothing has changed."""
        el = self.el
        spsr = s.SPSR_EL1(self.registers.raw(banked.SPSR[el]))
        elr = self.registers.raw(banked.ELR[el])
        result = exception_return(self, s.SPSR_EL1(self.pstate), spsr, elr)
        if result.aarch32:
            return False
        self.set_pstate(result.pstate.value)
        self.pc = result.pc
        return True

    def set_pstate(self, value: int) -> None:
        """Write PSTATE, changing stack pointers and translation as the architecture would."""
        engine = self.engine
        old = engine.get(PSTATE)
        engine.put(SP_EL[old >> 2 & 3 if old & 1 else 0], engine.get(SP))
        engine.put(PSTATE, value & 0xFFFF_FFFF)
        engine.put(SP, engine.get(SP_EL[value >> 2 & 3 if value & 1 else 0]))
        engine.rebuild()
        self._el = value >> 2 & 3
        self.illegal = bool(value & s.SPSR.IL.mask)
        self.pm = bool(value >> _PM_BIT & 1)
        if self.secure_memory is not None:
            self.secure_memory.changed()

    def undefined_target(self) -> int:
        """Where an UNDEFINED instruction is taken to."""
        if self.el > EL1:
            return self.el
        return EL2 if self.el == EL0 and tge(self) else EL1

    def abort_target(self) -> int:
        """Where a synchronous External abort is taken to: AArch64.AbortException()."""
        if self.el == EL3 or self.registers.read(s.SCR_EL3).EA:
            return EL3
        if self.el == EL2:
            return EL2
        routed = el2_enabled(self) and (
            self.registers.read(s.HCR_EL2).TEA or (self.el == EL0 and tge(self))
        )
        return EL2 if routed else EL1

    # Memory as the PE sees it

    def translate(self, address: int, write: bool) -> int | None:
        """The physical address behind a virtual one at the current Exception level, if any."""
        status = lib.uc_vmem_translate(
            self.engine.handle,
            ctypes.c_uint64(address),
            UC_PROT_WRITE if write else UC_PROT_READ,
            self._word_at,
        )
        return None if status else self._word.value

    def translate_unprivileged(self, address: int, write: bool) -> int | None:
        """The same for an access of LDTR or STTR: AArch64.IsUnprivAccessPriv()."""
        uao = bool(self.engine.get(PSTATE) & s.SPSR.UAO.mask)
        if unprivileged_access_is_privileged(self, uao=uao):
            return self.translate(address, write)
        context = context_for(self, translation_regime(self, EL0))
        access = acc_desc_gpr(EL0, read=not write, write=write)
        result = full_translate(context, address, access, self.memory)
        return None if isinstance(result, FaultRecord) else result.paddress

    def read_virtual(self, address: int, size: int) -> bytes | None:
        """``size`` bytes at a virtual address, None where they cannot be read."""
        buffer = ctypes.create_string_buffer(size)
        return None if self._read_to(address, UC_PROT_READ, buffer, size) else buffer.raw

    def _read_to(self, address: int, access: int, buffer: Any, size: int) -> int:
        """Read virtual memory as ``access`` may; the engine's error number, 0 for none."""
        handle, at = self.engine.handle, ctypes.c_uint64(address)
        return int(lib.uc_vmem_read(handle, at, access, buffer, ctypes.c_size_t(size)))

    def write_virtual(self, address: int, data: bytes) -> bool:
        """Store ``data`` at a virtual address; False where it cannot be written."""
        status = lib.uc_vmem_write(
            self.engine.handle,
            ctypes.c_uint64(address),
            UC_PROT_WRITE,
            data,
            ctypes.c_size_t(len(data)),
        )
        return not status

    def read_code(self, address: int, operations: int) -> tuple[int, ...] | None:
        """Instruction words from a virtual address on, None where they cannot be fetched."""
        if operations == 1:
            self._word.value = 0
            status = self._read_to(address, UC_PROT_EXEC, self._word_at, 4)
            return None if status else (self._word.value,)
        code = (ctypes.c_uint32 * operations)()
        return None if self._read_to(address, UC_PROT_EXEC, code, 4 * operations) else tuple(code)

    def access_as_el2(self, address: int, value: int | None) -> tuple[int, int] | FaultRecord:
        """A doubleword load, or a store of ``value``, as EL2 makes it: NVMem().

        What was loaded or stored, and its physical address; or why that was not possible.
        Little-endian, as SCTLR_EL2.EE is 0 in all software that the engine runs.
        """
        write = value is not None
        context = context_for(self, translation_regime(self, EL2))
        access = acc_desc_gpr(EL2, read=not write, write=write)
        result = full_translate(context, address, access, self.memory)
        if isinstance(result, FaultRecord):
            return result
        if value is not None:
            if self.memory.write(result.paddress, struct.pack("<Q", value), result.paspace):
                return value, result.paddress
        else:
            data = self.memory.read(result.paddress, 8, result.paspace)
            if data is not None:
                return int.from_bytes(data, "little"), result.paddress
        return FaultRecord(Fault.SyncExternal, 0, write=write)
