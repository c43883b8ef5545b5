"""What is done at each stop of the engine: exceptions, System register accesses, devices.

The runners find out which operation it concerns and count it; the handler carries it out. What
lies around the PE (devices, firmware calls, semihosting) is behind :class:`Platform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.access import (
    Accessor,
    Allowed,
    NVMem,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    Verdict,
    access,
)
from spe_unicorn.arch.descriptors import Fault, FaultRecord
from spe_unicorn.arch.effective import el_is_in_host
from spe_unicorn.arch.exception_routing import default_target, wait_trap
from spe_unicorn.arch.exceptions import ExceptionRecord, ExceptionType
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.fgt_registers import FGT_REGISTERS
from spe_unicorn.arch.operation import Instruction, Mark
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.spe_access import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.syndrome_text import entry_text
from spe_unicorn.arch.syndromes import (
    EC,
    ILLEGAL_STATE,
    PC_ALIGNMENT,
    UNDEFINED,
    Syndrome,
    WFx,
    data_abort,
    instruction_abort,
    system_register_trap,
)
from spe_unicorn.arch.sysreg import Encoding, SysReg
from spe_unicorn.arch.system_registers import CNTPOFF_EL2, SPSR, VNCR_EL2
from spe_unicorn.host import pe_registers
from spe_unicorn.host.address_translation import translate_address
from spe_unicorn.host.controls import EL12_NAMES, REDIRECTED, Controls
from spe_unicorn.host.cpu import EngineException, UnicornCPU
from spe_unicorn.host.decode import Transfer, decode, transfer
from spe_unicorn.host.engine import X
from spe_unicorn.host.engine_exceptions import corrected
from spe_unicorn.host.events import EVENT_HINTS, SEV, SEVL
from spe_unicorn.host.interrupts import Interrupts
from spe_unicorn.host.latch import Latch, NestedAccess, register
from spe_unicorn.host.native_marks import ERET
from spe_unicorn.host.native_state import (
    READ,
    RECORDS_STEERED,
    STEERED,
    SYSTEM,
    WRITE,
    Action,
    Answer,
    Stop,
)
from spe_unicorn.host.sysregs import normal_action

NEVER_HAPPENS: Final = 1 << 62
"""A count of operations that no machine reaches."""
_MASK: Final = (1 << 64) - 1
TABLE: Final = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS))
_SEMIHOSTING: Final = 0xD45E_0000
"""HLT #0xF000."""
_ANY_MRS_MSR, _MRS_OR_MSR = 0xFFD0_0000, 0xD510_0000
"""The bits that all MRS and MSR of registers have in common, and what they are."""
_MSR_PM: Final = 0xD501_421F
"""MSR PM, #0."""
_MSR_PM_IMMEDIATE: Final = 1 << 8
PREFETCH_ABORT: Final = 3
"""The engine's number for a fault of an instruction fetch."""
SVC, HVC, SMC = 2, 11, 13
"""The engine's numbers of the exceptions whose return address is the next operation."""
CALLS: Final = frozenset({SVC, HVC, SMC})


class Ending(Enum):
    """Why a run ended."""

    LIMIT = "limit"
    """The given number of operations has been executed."""
    UNTIL = "until"
    """The given address has been reached."""
    EXIT = "exit"
    """The guest ended it."""
    INTERRUPTED = "interrupted"
    """The user did."""
    ASLEEP = "asleep"
    """The PE waits for an interrupt, or is off, and nothing can happen while it runs alone."""
    RESET = "reset"
    """The guest asked for the machine to start anew."""
    TURN = "turn"
    """Another PE, which had nothing to do, has now."""
    FAILED = "failed"
    """The guest or the engine did something that cannot go on."""


@dataclass(frozen=True)
class Failure:
    """What cannot go on, in a sentence, and where: a virtual address."""

    reason: str
    pc: int
    hint: str = ""


@dataclass(frozen=True)
class SystemAccess:
    """One executed access to a register that the engine lacks, for those who watch."""

    pc: int
    el: int
    name: str
    register: type[SysReg] | None
    read: bool
    value: int
    old: int
    verdict: Verdict


class Platform(Protocol):
    """What is around the PE."""

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        ...

    def read(self, address: int, size: int) -> int:
        """A device answers a load of ``size`` bytes."""
        ...

    def write(self, address: int, size: int, value: int) -> None:
        """A device takes a store of ``size`` bytes."""
        ...

    def wait_for_event(self) -> None:
        """The PE waits for an event: let others go on, if there are any. It need not wait long."""
        ...

    def send_event(self) -> None:
        """The PE has sent an event to all PEs, itself included."""
        ...

    def call(self, exception: EngineException) -> bool:
        """Firmware answers an HVC or SMC; False where there is no firmware."""
        ...

    def semihosting(self) -> bool:
        """The host answers ``HLT #0xF000``; False where it does not."""
        ...

    deadline: int
    """``cpu.executed`` at which something happens by itself; :data:`NEVER_HAPPENS` for nothing."""

    def happen(self) -> None:
        """The deadline has been reached: let it happen, and set the next one."""
        ...

    def wait(self) -> bool:
        """The PE has nothing to do: let the next thing happen; False if that is not up to it."""
        ...


class DeviceRegister(Protocol):
    """A System register that is a device's: reads and writes have effects of their own."""

    def read(self) -> int:
        """What an MRS gives."""
        ...

    def write(self, value: int) -> None:
        """What an MSR does."""
        ...


class StopHandler:
    """Carries out what a stop asks for, on one PE.

    ``table`` knows the accessors of registers that the hooks do not leave to the engine,
    ``devices`` those registers among them that are devices'.
    """

    def __init__(
        self,
        cpu: UnicornCPU,
        platform: Platform,
        table: SysRegTable = TABLE,
        devices: Mapping[type[SysReg], DeviceRegister] | None = None,
        interrupts: Interrupts | None = None,
    ) -> None:
        self.cpu = cpu
        self.platform = platform
        self.interrupts = interrupts or Interrupts(cpu)
        self.controls = Controls(cpu)
        self._table = table
        self._devices = {**(devices or {}), **pe_registers.registers(cpu, self.interrupts)}
        self.ending: Ending | None = None
        self.failure: Failure | None = None
        self.status = 0
        """The engine's error number at the last stop, 0 for none."""
        self.redirected: NestedAccess | None = None
        """An MRS or MSR that has just accessed memory; whoever knows what was sampled takes it."""
        self.access_observers: list[Callable[[SystemAccess], None]] = []
        """Told of each access to a register that the engine lacks, behind it."""
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        self._latch = Latch(cpu)

    def handle(self, stop: Stop) -> bool:
        """Carry out what ``stop`` is about; True if it raised an exception."""
        if stop is Stop.EXCEPTION:
            return self._exception(corrected(self.cpu, self.cpu.engine_exception()))
        if stop is Stop.UNMAPPED:
            return self._unmapped()
        if stop is Stop.ACCESS:
            return self._misaligned_access()
        if stop is Stop.MISALIGNED:
            return self._misaligned_pc()
        if stop is Stop.TRAP:
            return self._trap()
        return self._system()

    def _trap(self) -> bool:
        """An operation that the engine would execute, and must not."""
        cpu = self.cpu
        if cpu.illegal:
            self._raise(ILLEGAL_STATE, default_target(cpu))
            return True
        words = cpu.read_code(cpu.pc, 1)
        trap = self.controls.trap(decode(words[0])) if words else None
        if trap is None and words and words[0] in EVENT_HINTS:
            return self._event(words[0])
        if trap is None and words == (ERET,):
            if not cpu.exception_return():
                self._aarch32()
            return False
        assert trap is not None
        self._raise(trap.syndrome, trap.target_el)
        return True

    def _event(self, word: int) -> bool:
        """WFE, SEV or SEVL at the PC. True if it raised: a WFE that would wait may be trapped."""
        cpu = self.cpu
        if self._state.entered:
            self._state.entered = 0
            cpu.events.set()
        if word == SEV:
            self.platform.send_event()
        elif word == SEVL:
            cpu.events.set()
        elif not cpu.events.take(cpu.el):
            routed = wait_trap(cpu, WFx.WFE)
            if routed is not None:
                self._raise(routed.syndrome, routed.target_el)
                return True
            self.platform.wait_for_event()
        cpu.pc = cpu.pc + 4 & _MASK
        return False

    def _misaligned_access(self) -> bool:
        found = self.controls.alignment.fault()
        assert found is not None
        routed, address = found
        self._raise(routed.syndrome, routed.target_el, address)
        return True

    def _misaligned_pc(self) -> bool:
        cpu = self.cpu
        self._raise(PC_ALIGNMENT, default_target(cpu), cpu.pc)
        return True

    def steered(self) -> None:
        """A register was written that steers what the engine does not know of."""
        self.cpu.steering.look_again()
        if self.cpu.secure_memory is not None:
            self.cpu.secure_memory.changed()
        before = self.controls.offsets
        self.controls.changed()
        if self.controls.offsets != before:
            self.platform.happen()  # to timers, it is another time
        self.interrupts.update()

    def returned(self) -> None:
        """The guest may have returned from an exception."""
        if self.cpu.pstate & SPSR.nRW.mask:
            self._aarch32()

    def _aarch32(self) -> None:
        self.fail(
            "the guest switched to AArch32 state",
            "this machine executes AArch64 only: build everything for AArch64",
        )

    def idle(self) -> None:
        """The engine stopped by itself: WFI, or an error of its own."""
        cpu = self.cpu
        if self.status:
            name = cpu.engine.error(self.status)
            self.fail(f"the engine stopped: {name}")
            return
        words = cpu.read_code(cpu.pc - 4 & _MASK, 1)
        if words and decode(words[0]).mark is Mark.WFI:
            cpu.pc = cpu.pc - 4 & _MASK
            self._wait()
        else:
            self.ending = Ending.INTERRUPTED

    def _wait(self) -> bool:
        """The WFI at the PC. True if it is trapped, which one that need not wait never is."""
        cpu = self.cpu
        routed = None if self.interrupts.pending else wait_trap(cpu, WFx.WFI)
        if routed is not None:
            self._raise(routed.syndrome, routed.target_el)
            return True
        cpu.pc = cpu.pc + 4 & _MASK
        self._sleep()
        return False

    def _sleep(self) -> None:
        """WFI: time goes on to the next thing that happens, until an interrupt is pending."""
        while not self.interrupts.pending:
            if not self.platform.wait():
                self.ending = Ending.ASLEEP
                return

    def fail(self, reason: str, hint: str = "") -> None:
        """End the run: the guest cannot go on."""
        self.ending = Ending.FAILED
        self.failure = Failure(reason, self.cpu.pc, hint)

    # Exceptions

    def _exception(self, exception: EngineException) -> bool:
        cpu = self.cpu
        if exception.number in (HVC, SMC) and self.platform.call(exception):
            return True
        if exception.number == PREFETCH_ABORT and cpu.whole and cpu.pc & 3:
            return self._misaligned_pc()
        if exception.number == HVC and cpu.el == EL3:
            # the engine has it go to EL2
            self._take(exception.record, EL3)
            return True
        if exception.record.syndrome == UNDEFINED:
            words = cpu.read_code(cpu.pc, 1)
            if words == (_SEMIHOSTING,) and self.platform.semihosting():
                cpu.pc = cpu.pc + 4 & _MASK
                return True
            if words and self._masks_profiling(words[0]):
                cpu.pc = cpu.pc + 4 & _MASK
                return False
            if words and cpu.el == EL1 and self._is_nested(words[0]):
                return self._system()
        syndrome = exception.record.syndrome
        if exception.number == SVC and self.controls.calls_trapped[cpu.el]:
            cpu.pc = cpu.pc - 4 & _MASK
            self._take(exception.record, EL2)
            return True
        if syndrome and syndrome.ec == EC.WFxTrap:
            return self._wait()  # the engine knows neither what is pending nor EL2's EL0
        if syndrome and syndrome.ec == EC.SystemRegisterTrap and self._is_undefined():
            # the engine traps EL1 where registers of the Secure timer do not exist
            self._raise(UNDEFINED, cpu.undefined_target())
            return True
        self._take(exception.record, exception.target_el)
        return True

    def _is_undefined(self) -> bool:
        """Whether our rules call the MRS or MSR at the PC UNDEFINED."""
        words = self.cpu.read_code(self.cpu.pc, 1)
        accessor = self._table.get(words[0] >> 5 & 0xFFFF) if words else None
        if words is None or accessor is None:
            return False
        return isinstance(access(self.cpu, accessor, bool(words[0] >> 21 & 1)), Undefined)

    def _is_nested(self, word: int) -> bool:
        """Whether an MRS or MSR is a nested hypervisor's, of which the engine knows nothing.

        Its details are then as if the hooks had stopped for it.
        """
        if word & _ANY_MRS_MSR != _MRS_OR_MSR:
            return False
        accessor = self._table.get(word >> 5 & 0xFFFF)
        read = bool(word >> 21 & 1)
        if accessor is None or isinstance(access(self.cpu, accessor, read), (Allowed, Undefined)):
            return False
        state = self._state
        state.kind = READ if read else WRITE
        state.key = accessor.encoding.key
        state.rt = 0 if word & 31 == 31 else X[word & 31]
        return True

    def _masks_profiling(self, word: int) -> bool:
        """MSR PM, #<imm>, which the engine does not know; False if ``word`` is nothing of that."""
        if word & ~_MSR_PM_IMMEDIATE != _MSR_PM or self.cpu.el == EL0:
            return False
        if Feature.FEAT_EBEP not in self.cpu.features:
            return False
        self.cpu.pm = bool(word & _MSR_PM_IMMEDIATE)
        return True

    def _take(self, record: ExceptionRecord, target_el: int) -> None:
        """Take an exception, unless there is no vector that could handle it."""
        cpu = self.cpu
        entry = cpu.take(record, target_el)
        if entry.vector != entry.elr and cpu.read_code(entry.vector, 1) is not None:
            return
        cpu.set_pstate(entry.spsr)
        cpu.pc = entry.elr
        what = entry_text(record, entry)
        if entry.vector == entry.elr:
            reason = f"{what} at the first instruction of its own vector"
        else:
            reason = f"{what}, and no code at its vector {entry.vector:#x}"
        hint = f"set VBAR_EL{target_el} to a table of exception vectors before anything can fault"
        self.fail(reason, hint)

    def _raise(self, syndrome: Syndrome, target_el: int, far: int | None = None) -> None:
        self._take(ExceptionRecord(ExceptionType.SYNC, syndrome, far), target_el)

    # System registers

    def _system(self) -> bool:
        """An MRS or MSR that the rules answer. Without an exception, the PC moves on."""
        cpu = self.cpu
        read = self._state.kind == READ
        rt = _general(self._state.rt)
        encoding = Encoding.from_key(self._state.key)
        if encoding in EL12_NAMES:
            return self._el1_register(encoding, rt, read)
        accessor = self._table.get(encoding.key)
        if accessor is None:
            raise LookupError(f"the hooks stop at {encoding}, which no rule knows")
        value = 0 if read else self._engine.x(rt)
        verdict = access(cpu, accessor, read)
        target = verdict.register if isinstance(verdict, Allowed) else None
        device = None if target is None else self._devices.get(target)
        old = 0
        pc, el = cpu.pc, cpu.el
        if device is not None:
            value = self._device_register(device, rt, read)
        elif target is not None:
            old = cpu.registers.raw(target)
            if read:
                value = old
                self._engine.set_x(rt, value)
            else:
                cpu.registers.write(target, value)
                if value != old and (target in FGT_REGISTERS or target is CNTPOFF_EL2):
                    self.steered()
        if self.access_observers:
            seen = SystemAccess(pc, el, accessor.name, target, read, value, old, verdict)
            for observer in self.access_observers:
                observer(seen)
        raised = target is None and self._redirected(verdict, accessor, rt, read, value)
        if not raised:
            cpu.pc = pc + 4 & _MASK
        return raised

    def answer(self) -> Answer:
        """An MRS or MSR of a register that the engine has, in the middle of a run.

        What traps is left to the engine, which knows the traps of its own registers.
        """
        cpu = self.cpu
        state = self._state
        cpu.inside = int(state.block_operations - ((state.scratch - state.block) >> 2))
        cpu.forget_el()
        try:
            read = state.kind == READ
            rt = _general(state.rt)
            encoding = Encoding.from_key(state.key)
            if state.kind == SYSTEM:
                return translate_address(cpu, encoding, self._engine.x(rt))
            redirected = REDIRECTED.get(encoding)
            if redirected is not None:
                if cpu.el != EL2:
                    if not read and self._written(encoding, self._engine.x(rt)):
                        self._stop_behind()
                    return Answer.ENGINE
                stop = self._el2_register(redirected, rt, read)
                return Answer.NOTICE if stop else Answer.DONE
            accessor = self._table.get(state.key)
            verdict = None if accessor is None else access(cpu, accessor, read)
            if not isinstance(verdict, Allowed):
                return Answer.ENGINE
            device = self._devices.get(verdict.register)
            if device is None:
                self._engine.set_x(rt, cpu.registers.raw(verdict.register))
            else:
                self._device_register(device, rt, read)
            return Answer.DONE if read else Answer.NOTICE
        finally:
            cpu.inside = 0

    def _written(self, encoding: Encoding, value: int) -> bool:
        """What the write of an engine's register does besides; True if it is to stop behind it."""
        action = normal_action(encoding, WRITE)
        if action is Action.ENGINE:
            return False
        self._state.writes += 1
        if action is Action.RETURN:
            return self.cpu.look_at_return(max(encoding.op1 >> 1, EL1), value)
        if action is Action.RECORDS:
            self._state.steered |= RECORDS_STEERED
            return bool(self._state.collects)
        self._state.epoch += 1
        watched = action is Action.TRANSLATION and self.controls.watches_order
        if watched or action in (Action.NOTICE, Action.REGIME):
            self._state.steered |= STEERED
        return True

    def _stop_behind(self) -> None:
        """Have the engine stop behind the access that it is about to make."""
        state = self._state
        state.notice = 1
        state.granted -= state.budget
        state.budget = 0

    def _device_register(self, device: DeviceRegister, rt: int, read: bool) -> int:
        if read:
            value = device.read()
            self._engine.set_x(rt, value)
        else:
            value = self._engine.x(rt)
            device.write(value)
        return value

    def _el2_register(self, encoding: Encoding, rt: int, read: bool) -> bool:
        """An EL1 name of a register of EL2, or an _EL12 name. True if it is to stop behind it."""
        if read:
            self._engine.set_x(rt, self._engine.system(encoding))
            return False
        value = self._engine.x(rt)
        self._engine.set_system(encoding, value)
        if normal_action(encoding, WRITE) in (Action.TRANSLATION, Action.REGIME):
            self._engine.flush_tlb()
        return self._written(encoding, value)

    def _el1_register(self, encoding: Encoding, rt: int, read: bool) -> bool:
        """An _EL12 name: it exists at EL2 and EL3 with HCR_EL2.E2H. True if it raised."""
        cpu = self.cpu
        if cpu.el < EL2 or not el_is_in_host(cpu, EL2):
            self._raise(UNDEFINED, cpu.undefined_target())
            return True
        self._el2_register(EL12_NAMES[encoding], rt, read)
        cpu.pc = cpu.pc + 4 & _MASK
        self.steered()
        return False

    def _redirected(
        self, verdict: Verdict, accessor: Accessor, rt: int, read: bool, value: int
    ) -> bool:
        """An access that reaches no register: a trap, UNDEFINED or memory. True if it raised."""
        if isinstance(verdict, SystemAccessTrap):
            syndrome = system_register_trap(accessor.encoding, rt, read, verdict.ec)
            self._raise(syndrome, verdict.target_el)
            return True
        if isinstance(verdict, NVMem):
            return self._nested(verdict.offset, rt, read, value)
        self._raise(UNDEFINED, self.cpu.undefined_target())
        return True

    def _nested(self, offset: int, rt: int, read: bool, value: int) -> bool:
        """NVMem(): an access to the page of VNCR_EL2, made as EL2 would make it."""
        cpu = self.cpu
        address = cpu.registers.read(VNCR_EL2).BADDR << 12 | offset
        result = cpu.access_as_el2(address, None if read else value)
        if isinstance(result, FaultRecord):
            self.redirected = NestedAccess(address, None, read)
            self._raise(data_abort(result, vncr=True), EL2, address)
            return True
        loaded, physical = result
        self.redirected = NestedAccess(address, physical, read)
        if read:
            self._engine.set_x(rt, loaded)
        return False

    # Memory that the engine does not have

    def lets_through(self, stop: Stop) -> bool:
        """Whether the operation in front of which the engine stopped may be executed after all.

        Until :meth:`close`, which must come behind that operation.
        """
        if stop is Stop.ACCESS:
            return self.controls.alignment.lets_through()
        return stop is Stop.UNMAPPED and self._admits()

    @property
    def letting_through(self) -> bool:
        """Whether the next operation, and no other, is let through."""
        memory = self.cpu.secure_memory
        return self.controls.alignment.passing or (memory is not None and memory.admitting)

    def close(self) -> None:
        """The operation that was let through, if there was one, has been executed."""
        self.controls.alignment.passing = False
        if self.cpu.secure_memory is not None:
            self.cpu.secure_memory.close()

    def _admits(self) -> bool:
        """Whether the engine may make an access to Secure memory that it refused."""
        memory = self.cpu.secure_memory
        state = self._state
        address = state.access_address & _MASK
        if memory is None or not memory.holds(address):
            return False
        write = state.access_type == uc_const.UC_MEM_WRITE_UNMAPPED
        return memory.admits(address, self._latch.begin(self.cpu.pc)[0].va, write)

    def _unmapped(self) -> bool:
        """A device access, or an External abort. Without an exception, the PC moves on."""
        cpu = self.cpu
        state = self._state
        address = state.access_address & _MASK
        if cpu.secure_memory is not None and cpu.secure_memory.holds(address):
            self._engine.flush_tlb()  # there the access would find what was refused to it
        if state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED:
            if cpu.whole and cpu.pc & 3:
                return self._misaligned_pc()
            self._abort(instruction_abort(FaultRecord(Fault.SyncExternal, 0)), cpu.pc)
            return True
        write = state.access_type == uc_const.UC_MEM_WRITE_UNMAPPED
        if cpu.secure_memory is not None:
            cpu.secure_memory.look_at(self._latch.begin(cpu.pc)[0].va, write)
        if self.platform.claims(address):
            words = cpu.read_code(cpu.pc, 1)
            instruction = decode(words[0] if words else 0)
            if instruction.access is not None and address % instruction.access.element:
                (operation,) = self._latch.begin(cpu.pc)
                refused = self.controls.alignment.device_fault(operation)
                if refused is not None:
                    self._raise(refused.syndrome, refused.target_el, operation.va)
                    return True
            moved = transfer(instruction.word)
            if moved is None:
                self.fail(
                    f"device access at {address:#x} by an instruction that no device answers",
                    "use loads and stores of general-purpose registers on device memory",
                )
                return True
            self._move(instruction, moved, address)
            cpu.pc = cpu.pc + 4 & _MASK
            return False
        (operation,) = self._latch.begin(cpu.pc)
        fault = FaultRecord(Fault.SyncExternal, 0, write=write)
        # of a gather or scatter only a random element's address is known, not that of this one
        far = None if operation.instruction.gather_scatter else operation.va
        self._abort(data_abort(fault, fnv=far is None), far)
        return True

    def plain_access(self, pc: int) -> bool:
        """Carry out the access of the operation at ``pc``, at which the engine has stopped.

        The PC then moves on. False, with nothing done, if there is more to it than a device that
        answers.
        """
        state = self._state
        address = state.access_address & _MASK
        if state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED or not self.platform.claims(address):
            return False
        words = self.cpu.read_code(pc, 1)
        moved = transfer(words[0]) if words else None
        if words is None or moved is None or address % moved.size:
            return False
        state.budget += int(state.block_operations) - 1 - (int(pc - state.block & _MASK) >> 2)
        self._move(decode(words[0]), moved, address)
        self.cpu.pc = pc + 4 & _MASK
        return True

    def _move(self, instruction: Instruction, moved: Transfer, address: int) -> None:
        """Carry out a load or store of one or two registers on a device, and its write-back."""
        registers = (moved.rt,) if moved.rt2 is None else (moved.rt, moved.rt2)
        mask = (1 << 8 * moved.size) - 1
        for n, number in enumerate(registers):
            place = address + n * moved.size
            if moved.load:
                value = self.platform.read(place, moved.size) & mask
                self._engine.set_x(number, _extended(value, moved))
            else:
                self.platform.write(place, moved.size, self._engine.x(number) & mask)
        access = instruction.access
        if access is not None and access.base is not None and access.writeback:
            base = register(access.base)
            self._engine.put(base, self._engine.get(base) + access.writeback & _MASK)

    def _abort(self, syndrome: Syndrome, far: int | None) -> None:
        """A synchronous External abort: SCR_EL3.EA takes it to EL3."""
        self._raise(syndrome, self.cpu.abort_target(), far)


def _extended(value: int, moved: Transfer) -> int:
    """What a loaded value leaves in its 64-bit register."""
    bits = 8 * moved.size
    if moved.signed and value >> bits - 1:
        value -= 1 << bits
    return value & (_MASK if moved.width64 else 0xFFFF_FFFF)


def _general(number: int) -> int:
    """The number of a general-purpose register by the engine's; 31 is XZR."""
    return X.index(number) if number in X else 31
