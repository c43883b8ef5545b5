"""MRS, MSR and SYS that compiled code leaves to the host, answered by the rules in ``arch``.

Before most of them the hooks stop the engine, and :meth:`SystemAccesses.execute` answers. Accesses
to registers that the engine has, or that only time changes, are answered in the middle of a run by
:meth:`SystemAccesses.answer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    Accessor,
    Allowed,
    NVMem,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    Verdict,
    access,
)
from spe_unicorn.arch.exceptions.syndromes import data_abort, system_register_trap
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import FaultRecord
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.registers.debug import DBGPRCR_EL1, MDSCR_EL1
from spe_unicorn.arch.registers.fgt import FGT_REGISTERS
from spe_unicorn.arch.registers.roles import Owner
from spe_unicorn.arch.registers.spe import PMSICR_EL1, PMSIRR_EL1
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import (
    CNTPOFF_EL2,
    DIT,
    GCR_EL1,
    MDCR_EL3,
    RGSR_EL1,
    SSBS,
    TCO,
    TFSR_EL1,
    TFSR_EL2,
    TFSR_EL3,
    TFSRE0_EL1,
    VNCR_EL2,
)
from spe_unicorn.arch.rules.effective import el_is_in_host
from spe_unicorn.host.engine.engine import X
from spe_unicorn.host.native.rules import count_write
from spe_unicorn.host.native.state.actions import READ, SYSTEM, WRITE, Action, Answer
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.leaving import left_block_after
from spe_unicorn.host.native.state.ledger import register_written
from spe_unicorn.host.native.state.transit import CONTROLS_WRITTEN, note_controls
from spe_unicorn.host.pe.access.address_translation import translate_address
from spe_unicorn.host.pe.access.monitor_registers import is_engines as is_engines_monitor
from spe_unicorn.host.pe.controls import EL12_NAMES, REDIRECTED, Controls
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import NestedAccess
from spe_unicorn.host.pe.engine_traps import (
    ENGINE_REGISTERS,
    UNTRAPPED_IN_SECURE_STATE,
    trap_of,
)
from spe_unicorn.host.pe.exceptions import Exceptions
from spe_unicorn.host.pe.sysregs import normal_action
from spe_unicorn.host.ports import DeviceRegister, PlainDeviceRegister, TimedDeviceRegister
from spe_unicorn.signals import Signal
from spe_unicorn.spe.lateness.parts import DirectWrites

_MASK: Final = (1 << 64) - 1
TABLE: Final = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS))
_INTERVALS: Final = frozenset({PMSICR_EL1, PMSIRR_EL1})
"""Registers that say which operation is sampled next. They decide nothing while none is."""
_OF_TAGS: Final = frozenset({GCR_EL1, RGSR_EL1, TFSRE0_EL1, TFSR_EL1, TFSR_EL2, TFSR_EL3})
"""Registers that decide about no run. Linux writes GCR_EL1 at each switch of tasks."""
_EL12_NAMES: Final = {name.key: name for name in EL12_NAMES}
_ANY_MRS_MSR, _MRS_OR_MSR = 0xFFD0_0000, 0xD510_0000
"""Mask and value of the bits that are the same in every MRS and MSR of a register."""
_MSR_PM: Final = 0xD501_421F
"""MSR PM, #0."""
_MSR_PM_IMMEDIATE: Final = 1 << 8
_IMMEDIATE, _IMMEDIATE_BIT = 15 << 8, 1 << 8
"""CRm, and the bit of it that counts."""
_MSR_IMMEDIATE: Final = (
    (0xD503_403F, SSBS, SSBS.SSBS.mask),
    (0xD503_405F, DIT, DIT.DIT.mask),
    (0xD503_409F, TCO, TCO.TCO.mask),
)
"""MSR SSBS, #0, MSR DIT, #0 and MSR TCO, #0, with the register, and what #1 makes it."""


@dataclass(frozen=True)
class SystemAccess:
    """One executed access to a register that the engine lacks, for those who watch.

    ``old`` and ``new`` are what ``register`` held before and after the access. Both are None where
    the access reached no register, and for a register of a device, whose reads have effects.
    """

    pc: int
    el: int
    name: str
    register: type[SysReg] | None
    read: bool
    value: int
    old: int | None
    new: int | None
    verdict: Verdict

    def __str__(self) -> str:
        """One line: ``0x40081ab4 at EL1: MSR PMBSR_EL1 = 0x0, was 0x20000``."""
        if self.read:
            what = f"MRS {self.name} -> {self.value:#x}"
        else:
            was = "" if self.old is None else f", was {self.old:#x}"
            what = f"MSR {self.name} = {self.value:#x}{was}"
        if not isinstance(self.verdict, Allowed):
            what += f" ({type(self.verdict).__name__})"
        return f"{self.pc:#x} at EL{self.el}: {what}"

    def __repr__(self) -> str:
        return f"<SystemAccess {self}>"


@dataclass(frozen=True)
class Reached:
    """The registers that accesses reach here."""

    table: SysRegTable
    """The accessors of registers that the hooks do not leave to the engine."""
    devices: Mapping[type[SysReg], DeviceRegister]
    """Those of these registers that a device answers."""


class SystemAccesses:
    """Carries out the accesses of one PE.

    ``controls_written`` is called after a write that changes something the engine does not have.
    ``prevents_trap`` is asked before a trap, and returns True if the trap must not be taken.
    """

    TRANSIT = ("failure", "nested_access", "_untrapped")

    def __init__(
        self,
        cpu: UnicornCPU,
        controls: Controls,
        exceptions: Exceptions,
        reached: Reached,
        controls_written: Callable[[], None],
        prevents_trap: Callable[[Accessor, SystemAccessTrap], bool],
    ) -> None:
        self.accessed: Signal[[SystemAccess]] = Signal()
        """Told of each access to a register that the engine lacks, after it."""
        self.trapped: Signal[[Accessor, SystemAccessTrap, bool]] = Signal()
        """Told of each such access that traps, before the exception; the last says if it reads."""
        self.nested_access: NestedAccess | None = None
        """The memory access that an MRS or MSR was turned into, for the runner to take."""
        self._untrapped: int | None = None
        """The engine's MDCR_EL3 as it was, while TPM is set in it to have one access trap."""
        self.quiet: Callable[[], bool] = lambda: False
        """Whether no operation is sampled at any Exception level, with the controls of now."""
        self.deadline: Callable[[], int] = lambda: 0
        """The number of executed operations at which a line changes by itself."""
        self.late: DirectWrites | None = None
        """Has direct writes take effect later than at once; None where all do at once."""
        self.failure: BaseException | None = None
        """What a listener raised while the engine ran; whoever runs it has to raise that."""
        self._cpu = cpu
        self._controls = controls
        self._exceptions = exceptions
        self._table = reached.table
        self._devices = reached.devices
        self._controls_written = controls_written
        self._prevents_trap = prevents_trap
        self._engine = cpu.engine
        self._state = cpu.hooks.state

    def execute(self, word: int | None = None) -> bool:
        """Execute the MRS or MSR at which the hooks stopped, or else ``word``, by the rules.

        Return True if it raised, else the PC moves on.
        """
        state = self._state
        if word is None:
            return self._execute(int(state.key), _general(state.rt), state.kind == READ)
        return self._execute(*_parts_of(word))

    def _execute(self, key: int, rt: int, read: bool) -> bool:
        """Execute an MRS or MSR of ``rt``, by ``Encoding.key``."""
        cpu = self._cpu
        if key in _EL12_NAMES:
            return self._el1_register(_EL12_NAMES[key], rt, read=read)
        accessor = self._table.get(key)
        if accessor is None:
            raise LookupError(f"the hooks stop at {Encoding.from_key(key)}, which no rule knows")
        # the verdict
        value = 0 if read else self._engine.x(rt)
        verdict = access(cpu, accessor, read)
        target = verdict.register if isinstance(verdict, Allowed) else None
        device = None if target is None else self._devices.get(target)
        old = new = None
        pc, el = cpu.pc, cpu.el
        # an allowed access: to a device, or to the PE's register
        if device is not None:
            value = self._device_register(device, rt, read=read)
            if target is DBGPRCR_EL1 and not read:
                self._controls_written()  # it decides about the OS double lock
        elif target is not None:
            old = cpu.registers.raw(target)
            if read:
                new = value = old if self.late is None else self.late.shown(target)
                self._engine.set_x(rt, value)
            else:
                if self.late is None or not self.late.takes(target, value):
                    cpu.registers.write(target, value)
                if self.accessed:
                    new = cpu.registers.raw(target)
                if value != old and (target in FGT_REGISTERS or target is CNTPOFF_EL2):
                    self._controls_written()
        if self.accessed:
            self.accessed(
                SystemAccess(pc, el, accessor.name, target, read, value, old, new, verdict)
            )
        # any other verdict: a trap, UNDEFINED, or memory
        raised = target is None and self._carry_out_verdict(
            verdict, accessor, rt, read=read, value=value
        )
        if not raised:
            cpu.pc = pc + 4 & _MASK
        return raised

    def access_within_run(self, pc: int) -> bool:
        """Carry out the access at ``pc``, where the engine has stopped, if a device answers it.

        So is one to a register that matters while operations are sampled, and to nothing else, if
        none are: see :attr:`quiet`. The PC then moves on by one operation. Return False, with
        nothing done, if more is concerned: a trap, a register that decides about the run, an
        observer.
        """
        cpu, state = self._cpu, self._state
        accessor = None if self.accessed else self._table.get(state.key)
        if accessor is None or not self._may_access_within_run(accessor.register):
            return False
        read = state.kind == READ
        verdict = access(cpu, accessor, read)
        if not isinstance(verdict, Allowed):
            return False
        register = verdict.register
        if register is not accessor.register and not self._may_access_within_run(register):
            return False
        if not left_block_after.called(state.address, pc):
            return False
        device, rt = self._devices.get(register), _general(state.rt)
        if device is not None:
            self._device_register(device, rt, read=read)
        elif read:
            self._engine.set_x(rt, cpu.registers.raw(register))
        else:
            cpu.registers.write(register, self._engine.x(rt))
        cpu.pc = pc + 4 & _MASK
        cpu.advance_step()
        return True

    def _may_access_within_run(self, register: type[SysReg] | None) -> bool:
        """Whether accesses to ``register`` may concern nothing that decides about the run."""
        if register in _OF_TAGS:
            return True
        if register in _INTERVALS:
            return self.late is None and self.quiet()
        return register is not None and isinstance(self._devices.get(register), PlainDeviceRegister)

    def answer(self) -> Answer:
        """Answer an MRS or MSR of a register that the engine has, in the middle of a run.

        An access that traps is left to the engine, which takes the traps of its own registers.
        """
        cpu = self._cpu
        state = self._state
        self._controls.take_over_set()
        cpu.inside = int(state.block_operations - ((state.scratch - state.block) >> 2))
        cpu.forget_el()
        try:
            read = state.kind == READ
            rt = _general(state.rt)
            encoding = Encoding.from_key(state.key)
            if state.kind == SYSTEM:
                return translate_address(cpu, encoding, self._engine.x(rt))
            at_el2 = REDIRECTED.get(encoding)
            if at_el2 is not None:
                stop = self._el2_register(at_el2, rt, read=read)
                return Answer.NOTICE if stop else Answer.DONE
            accessor = self._table.get(state.key)
            verdict = None if accessor is None else access(cpu, accessor, read)
            if not isinstance(verdict, Allowed):
                there = accessor is not None and (accessor.read if read else accessor.write)
                if is_engines_monitor(state.key) and there:
                    return self._have_it_trap(rt, read=read)
                return Answer.ENGINE  # it knows which of its registers are read-only or write-only
            if is_engines_monitor(state.key) and self._is_to_stop(write=not read):
                return self._have_it_trap(rt, read=read)
            device = self._devices.get(verdict.register)
            if device is None:
                self._engine.set_x(rt, cpu.registers.raw(verdict.register))
            else:
                old = cpu.registers.raw(MDSCR_EL1) if verdict.register is MDSCR_EL1 else None
                timed = not read and isinstance(device, TimedDeviceRegister)
                lines = self._lines() if timed else None
                value = self._device_register(device, rt, read=read)
                if self.accessed and accessor is not None and is_engines_monitor(state.key):
                    self._tell_within(accessor, verdict, read=read, value=value)
                if old is not None and cpu.registers.raw(MDSCR_EL1) == old:
                    return Answer.DONE  # hypervisors write it at each exit
                if timed and lines == self._lines() and self.deadline() >= state.limit:
                    return Answer.DONE  # nothing happens before the run ends in any case
                if verdict.register.owner is Owner.EMULATED and not read:
                    note_controls(state, CONTROLS_WRITTEN)
            return Answer.DONE if read else Answer.NOTICE
        finally:
            cpu.inside = 0

    def _lines(self) -> tuple[int, int, int]:
        """What interrupts are asserted, and what the PE takes of them."""
        state = self._state
        return int(state.lines), int(state.deliver), int(state.deliver_irq)

    def _is_to_stop(self, *, write: bool) -> bool:
        """Whether the engine has to stop for an access to the counters: to be exact, or be told.

        At EL3 it cannot: there the counters are exact, and :meth:`_tell_within` tells.
        """
        monitors = self._cpu.monitors
        if monitors is None or self._cpu.el == EL3:
            return False
        return bool(self.accessed) or monitors.needs_stop(write=write)

    def _tell_within(self, accessor: Accessor, verdict: Allowed, *, read: bool, value: int) -> None:
        """Tell of an access in the middle of a run, where nothing may be raised."""
        pc, el = int(self._state.scratch) & _MASK, self._cpu.el
        told = SystemAccess(
            pc, el, accessor.name, verdict.register, read, value, None, None, verdict
        )
        try:
            self.accessed(told)
        except BaseException as failure:
            self.failure = failure
            end_after_block(self._state)

    def _have_it_trap(self, rt: int, *, read: bool) -> Answer:
        """Have the engine trap an access to a register of the Performance Monitors.

        :meth:`rerouted` then decides where the trap goes. At EL3 the engine traps nothing, so a
        read gives 0 there.
        """
        if self._cpu.el == EL3:
            if read:
                self._engine.set_x(rt, 0)
            return Answer.DONE
        key = MDCR_EL3.encoding
        self._cpu.registers.raw(MDCR_EL3)  # the cell remembers it: it must not see TPM
        self._untrapped = self._engine.system(key)
        self._engine.set_system(key, self._untrapped | MDCR_EL3.TPM.mask)
        return Answer.ENGINE

    def stopped(self) -> None:
        """After the engine has stopped: undo what :meth:`_have_it_trap` set for one access."""
        if self._untrapped is not None:
            self._engine.set_system(MDCR_EL3.encoding, self._untrapped)
            self._untrapped = None

    def _count_write(self, encoding: Encoding, value: int) -> bool:
        """Count a write to an engine's register. Return True if the engine must stop after it."""
        action = normal_action(encoding, WRITE)
        if action is Action.TRANSLATION:
            # the hook does not stop after such a write: ask for it where an observer must see it
            if self._controls.watches_order:
                action = Action.REGIME
            count_write(self._state, action, True)
            return True
        if action is Action.RETURN:
            register_written(self._state)
            return self._cpu.entries.update_return(max(encoding.op1 >> 1, EL1), value)
        return count_write(self._state, action, True)

    def _device_register(self, device: DeviceRegister, rt: int, *, read: bool) -> int:
        if read:
            value = device.read()
            self._engine.set_x(rt, value)
        else:
            value = self._engine.x(rt)
            device.write(value)
        return value

    def _el2_register(self, encoding: Encoding, rt: int, *, read: bool) -> bool:
        """Access a register by an EL1 name that means one of EL2, or by an _EL12 name.

        Return True if the engine must stop after it, since other things depend on the new value.
        """
        if read:
            self._engine.set_x(rt, self._engine.system(encoding))
            return False
        value, old = self._engine.x(rt), self._engine.system(encoding)
        if value == old:
            return False
        self._engine.set_system(encoding, value)
        if normal_action(encoding, WRITE) in (Action.TRANSLATION, Action.REGIME):
            self._engine.flush_tlb()
        return self._count_write(encoding, value)

    def _el1_register(self, name: Encoding, rt: int, *, read: bool) -> bool:
        """Access by an _EL12 name: there are some at EL2 and EL3 with E2H. True if it raised."""
        cpu = self._cpu
        if cpu.el < EL2 or not el_is_in_host(cpu, EL2):
            self._exceptions.undefined()
            return True
        owned = ENGINE_REGISTERS.get(name.key)
        verdict = None if owned is None else access(cpu, owned, read)
        if owned is not None and isinstance(verdict, SystemAccessTrap):
            routed = trap_of(owned, verdict, rt, read=read)
            self._exceptions.synchronous(routed.syndrome, routed.target_el)
            return True
        decides = self._el2_register(EL12_NAMES[name], rt, read=read)
        cpu.pc = cpu.pc + 4 & _MASK
        if decides:
            self._controls_written()
        return False

    def _carry_out_verdict(
        self, verdict: Verdict, accessor: Accessor, rt: int, *, read: bool, value: int
    ) -> bool:
        """Carry out a verdict that reaches no register: a trap, UNDEFINED, or memory.

        Return True if it raised.
        """
        if isinstance(verdict, SystemAccessTrap):
            if self._prevents_trap(accessor, verdict):
                return True
            self.trapped(accessor, verdict, read)
            syndrome = system_register_trap(accessor.encoding, rt, read, verdict.ec)
            self._exceptions.synchronous(syndrome, verdict.target_el)
            return True
        if isinstance(verdict, NVMem):
            return self._nested(verdict.offset, rt, read=read, value=value)
        self._exceptions.undefined()
        return True

    def _nested(self, offset: int, rt: int, *, read: bool, value: int) -> bool:
        """NVMem(): an access to the page of VNCR_EL2, made as EL2 would make it."""
        cpu = self._cpu
        address = cpu.registers.read(VNCR_EL2).BADDR << 12 | offset
        result = cpu.virtual.access_as_el2(address, None if read else value)
        if isinstance(result, FaultRecord):
            self.nested_access = NestedAccess(address, None, read)
            self._exceptions.synchronous(data_abort(result, vncr=True), EL2, address)
            return True
        loaded, physical = result
        self.nested_access = NestedAccess(address, physical, read)
        if cpu.monitors is not None:
            cpu.monitors.accessed_memory(write=not read)
        if read:
            self._engine.set_x(rt, loaded)
        return False

    def rerouted(self) -> bool | None:
        """Decide anew about the MRS or MSR at the PC, which the engine has trapped.

        True if it raised an exception, False if it was executed, None where the engine is right.
        """
        cpu = self._cpu
        words = cpu.virtual.code(cpu.pc, 1)
        if not words or words[0] & _ANY_MRS_MSR != _MRS_OR_MSR:
            return None
        key, rt, read = _parts_of(words[0])
        if is_engines_monitor(key):
            return self._monitor_trapped(key, rt, read=read)
        owned = ENGINE_REGISTERS.get(key)
        accessor = owned or self._table.get(key)
        verdict = None if accessor is None else access(cpu, accessor, read)
        if isinstance(verdict, Undefined):
            # the engine traps EL1 where registers of the Secure timer do not exist
            self._exceptions.undefined()
            return True
        if owned is None or verdict is None:
            return None
        if isinstance(verdict, SystemAccessTrap):
            routed = trap_of(owned, verdict, rt, read=read)
            self._exceptions.synchronous(routed.syndrome, routed.target_el)
            return True
        if owned.register not in UNTRAPPED_IN_SECURE_STATE:
            return None
        # the engine asks EL2, which is not enabled
        if read:
            self._engine.set_x(rt, self._engine.system(owned.encoding))
        else:
            self._engine.set_system(owned.encoding, self._engine.x(rt))
        cpu.pc = cpu.pc + 4 & _MASK
        return False

    def _monitor_trapped(self, key: int, rt: int, *, read: bool) -> bool | None:
        """An access to a register of the Performance Monitors that :meth:`answer` had trapped."""
        accessor = self._table.get(key)
        if accessor is None:
            return None
        verdict = access(self._cpu, accessor, read)
        if isinstance(verdict, Allowed):
            return self._execute(key, rt, read)
        value = 0 if read else self._engine.x(rt)
        if self.accessed:
            self._tell_refused(accessor, verdict, read=read, value=value)
        return self._carry_out_verdict(verdict, accessor, rt, read=read, value=value)

    def tell_trapped(self, word: int) -> None:
        """Tell of the MRS or MSR at the PC that is about to raise an exception, if ``word`` is one.

        Only of one to a register that the engine does not have to itself.
        """
        accessor = self._table.get(word >> 5 & 0xFFFF)
        if word & _ANY_MRS_MSR == _MRS_OR_MSR and accessor is not None:
            read = bool(word >> 21 & 1)
            verdict = access(self._cpu, accessor, read)
            if not isinstance(verdict, Allowed):
                value = 0 if read else self._engine.x(word & 31)
                self._tell_refused(accessor, verdict, read=read, value=value)

    def _tell_refused(
        self, accessor: Accessor, verdict: Verdict, *, read: bool, value: int
    ) -> None:
        pc, el = self._cpu.pc, self._cpu.el
        self.accessed(SystemAccess(pc, el, accessor.name, None, read, value, None, None, verdict))

    def is_nested(self, word: int) -> bool:
        """Whether ``word`` is a nested hypervisor's MRS or MSR, which the engine does not have."""
        if word & _ANY_MRS_MSR != _MRS_OR_MSR:
            return False
        key, _, read = _parts_of(word)
        accessor = self._table.get(key)
        if accessor is None:
            return False
        return not isinstance(access(self._cpu, accessor, read), (Allowed, Undefined))

    def sets_process_state(self, word: int) -> bool:
        """Execute an MSR of an immediate to PSTATE that the engine lacks: PM, SSBS, DIT, TCO.

        False if ``word`` is something else, or if the core has none such.
        """
        for value, register, bit in _MSR_IMMEDIATE:
            registers = self._cpu.registers
            if word & ~_IMMEDIATE == value and register in registers:
                written = bit & registers.writable(register) if word & _IMMEDIATE_BIT else 0
                registers.set_raw(register, written)
                return True
        return self._masks_profiling(word)

    def _masks_profiling(self, word: int) -> bool:
        """Execute MSR PM, #<imm>, which the engine lacks. False if ``word`` is something else."""
        if word & ~_MSR_PM_IMMEDIATE != _MSR_PM or self._cpu.el == EL0:
            return False
        if Feature.FEAT_EBEP not in self._cpu.features:
            return False
        self._cpu.pm = bool(word & _MSR_PM_IMMEDIATE)
        return True


def _parts_of(word: int) -> tuple[int, int, bool]:
    """The ``Encoding.key`` of an MRS or MSR, its register, 31 being XZR, and whether it reads."""
    return word >> 5 & 0xFFFF, word & 31, bool(word >> 21 & 1)


def _general(number: int) -> int:
    """The number of a general-purpose register by the engine's; 31 is XZR."""
    return X.index(number) if number in X else 31
