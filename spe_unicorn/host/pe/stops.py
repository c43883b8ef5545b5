"""What is done at each stop of the engine: exceptions, System register accesses, devices.

The runners find out which operation a stop concerns, and count that operation. The handler carries
the operation out, or has ``system_access``, ``device_access`` or ``exceptions`` do so. What lies
around the PE (devices, firmware calls, semihosting) answers as a :class:`Platform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.access import restriction
from spe_unicorn.arch.access.tlb import is_shared, lacked_by_engine, not_noted
from spe_unicorn.arch.access.tlb import refused as refused_tlbi
from spe_unicorn.arch.access.verdicts import Accessor, SysRegTable, SystemAccessTrap
from spe_unicorn.arch.exceptions.blocks import bytes_64_trap
from spe_unicorn.arch.exceptions.routing import Routed, default_target, wait_trap
from spe_unicorn.arch.exceptions.syndromes import EC, UNDEFINED, WFx
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.pe import EL1, EL2, EL3, PEAt
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host
from spe_unicorn.decode import decode
from spe_unicorn.decode.words import (
    ERET,
    EVENT_HINTS,
    SEMIHOSTING,
    SEV,
    SEVL,
    authenticates,
    is_dsb_nxs,
    is_timed_wait,
)
from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.native.requests import Accelerator
from spe_unicorn.host.native.state.clock import FLUSH_MAINTENANCE
from spe_unicorn.host.native.state.ledger import broadcast, not_retired
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.access import pe_registers
from spe_unicorn.host.pe.access.device_access import RefusedAccesses
from spe_unicorn.host.pe.access.system_access import TABLE, Reached, SystemAccesses
from spe_unicorn.host.pe.amended.at_stops import (
    branch,
    bytes_64,
    misaligned,
    misaligned_64,
    octaword,
    quadword,
)
from spe_unicorn.host.pe.amended.copying import Copying
from spe_unicorn.host.pe.amended.ended_loads import load_up_to
from spe_unicorn.host.pe.amended.lacking import Lacking
from spe_unicorn.host.pe.amended.quadword_access import QuadwordAccess
from spe_unicorn.host.pe.amended.tagging import Tagging
from spe_unicorn.host.pe.amended.unaligned import Unaligned
from spe_unicorn.host.pe.checks.debug import masked, masks_debug
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.pe.controls import Controls
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.engine_exceptions import corrected
from spe_unicorn.host.pe.exceptions import Exceptions
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.pe.maintenance import Maintenance, apply_maintenance
from spe_unicorn.host.pe.secure.authentication import execute_authentication
from spe_unicorn.host.pe.vectors import vector_bits
from spe_unicorn.host.ports import (
    NEVER_HAPPENS,
    DeviceRegister,
    Ending,
    EngineException,
    Failure,
    Platform,
)
from spe_unicorn.instructions.ordered import not_ordered
from spe_unicorn.instructions.rows import LONG_VECTOR, Row, Unit, Uses
from spe_unicorn.instructions.sve2.memory import in_its_place
from spe_unicorn.signals import Signal

_MASK: Final = (1 << 64) - 1
_TIMED_WFI: Final = 1 << 5
"""The bit that tells WFIT from WFET."""
_FOREVER: Final = 1 << 60
"""Cycles that no run comes to."""
_SYS: Final = 0xD500_0000
"""System instructions, without the bits of ``Encoding.key`` and Rt."""
PREFETCH_ABORT: Final = 3
"""The engine's number for a fault of an instruction fetch."""
SVC, HVC, SMC = 2, 11, 13
"""The engine's numbers of the exceptions whose return address is the next operation."""
CALLS: Final = frozenset({SVC, HVC, SMC})


class StopHandler:
    """Carries out what a stop asks for, on one PE.

    ``table`` holds the accessors of registers that the hooks do not leave to the engine.
    ``devices`` holds those of these registers that a device answers.
    """

    TRANSIT = ("ending", "failure", "sleeping", "status")

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
        self.lacking = Lacking(cpu)
        """Instructions that the core has and the engine has not."""
        self._unaligned = Unaligned(cpu, self.controls.checks.alignment)
        self.tagging = Tagging(cpu, self._access, self._raise, self.lacking.know_page)
        self.copying = Copying(cpu, self._access, self._raise, self.tagging.tag)
        self.ending: Ending | None = None
        self.execute_one: Callable[[], None] = lambda: None
        """Has the engine execute the operation at the PC, without counting it."""
        self.asked_to_stop: Callable[[], bool] = lambda: False
        """Whether the run must end. It is asked while the PE waits."""
        self.accelerators: list[Accelerator] = []
        """What may have compiled code answer something within a run of the engine."""
        self.undefined: Signal[[int, int]] = Signal()
        """An UNDEFINED instruction was taken by the guest's vectors: its address, and its word."""
        self.waits: Signal[[]] = Signal()
        """Told when the PE is about to wait for an interrupt."""
        self.uart_sent: Callable[[int], None] = lambda count: None
        """Told how many characters compiled code has taken for the UART."""
        self.interrupts_rose: Callable[[int], None] = lambda pes: None
        """Told of PEs, a bit each, whose interrupt lines rose while another part waits for that."""
        self.sleeping = False
        """Whether the run has ended while the PE waited for an interrupt."""
        self.failure: Failure | None = None
        self.status = 0
        """The engine's error number at the last stop, 0 for none."""
        self.exceptions = Exceptions(cpu, self.fail)
        self.exceptions.interrupted = self._interrupted
        registers: dict[type[SysReg], DeviceRegister] = {
            **(devices or {}),
            **pe_registers.registers(cpu, self.interrupts),
            **self.controls.checks.debug.registers(),
        }
        self.system = SystemAccesses(
            cpu,
            self.controls,
            self.exceptions,
            Reached(table, registers),
            self.controls_written,
            self.prevents_trap,
        )
        self.system.deadline = lambda: platform.deadline
        self.refused = RefusedAccesses(cpu, self.controls.checks, self.exceptions, platform)
        self._state = cpu.hooks.state

    def handle(self, stop: Stop, fault: FailedCheck | None = None) -> bool:
        """Carry out what ``stop`` asks for. Return True if it raised an exception.

        ``fault`` is what the checks before the operation found, at ``Stop.ACCESS``.
        Raises RuntimeError for a stop that is not for an operation: there is nothing to carry out.
        """
        self.system.stopped()
        if self._fetch_failed(stop) and self.controls.checks.debug.step_is_pending():
            self.exceptions.step()  # it has priority over an abort of the fetch (D1.4.5.6)
            return True
        if stop is Stop.EXCEPTION:
            return self._exception(corrected(self.cpu, self.cpu.entries.of_engine()))
        if stop is Stop.UNMAPPED:
            return self.refused.unmapped()
        if stop is Stop.ACCESS:
            if fault is not None and fault.routed is None:
                return load_up_to(self.cpu, fault.element, self._access)
            return self.refused.checked(fault)
        if stop is Stop.MISALIGNED:
            self.exceptions.misaligned_pc()
            return True
        if stop is Stop.TRAP:
            return self._trap()
        if stop is Stop.SYSTEM:
            return self.system.execute()
        raise RuntimeError(f"{stop.name} at {self.cpu.pc:#x} is for no operation")

    def _fetch_failed(self, stop: Stop) -> bool:
        """Whether the engine stopped at the fetch of the next operation."""
        if stop is Stop.EXCEPTION:
            return bool(self._state.interrupt == PREFETCH_ABORT)
        fetched = self._state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED
        return stop is Stop.UNMAPPED and bool(fetched)

    def _trap(self) -> bool:
        """Carry out an operation that the engine must not execute. True if it raised."""
        cpu = self.cpu
        routed = self.controls.checks.debug.breaks()
        if routed is not None:
            self.exceptions.synchronous(routed.syndrome, routed.target_el)
            return True
        if cpu.illegal:
            self.exceptions.illegal_state()
            return True
        words = cpu.virtual.code(cpu.pc, 1)
        trap = self.controls.trap(decode(words[0])) if words else None
        if trap is None and words and words[0] in EVENT_HINTS:
            return self._event(words[0])
        if trap is None and words and masks_debug(words[0]):
            cpu.set_pstate(masked(cpu.pstate, words[0]))
            cpu.pc = cpu.pc + 4 & _MASK
            return False
        if trap is None and words == (ERET,):
            if not cpu.entries.exception_return():
                self._aarch32()
            return False
        if trap is None:
            word = f"{words[0]:#010x}" if words else "which cannot be read"
            raise RuntimeError(f"the engine stopped at {cpu.pc:#x} for nothing: word {word}")
        if words and self.system.accessed:
            self.system.tell_trapped(words[0])
        pc = cpu.pc
        self.exceptions.synchronous(trap.syndrome, trap.target_el)
        if trap.syndrome == UNDEFINED and words and self.ending is None:
            self.undefined(pc, words[0])
        return True

    def _event(self, word: int) -> bool:
        """WFE, SEV or SEVL at the PC. True if it raised: a WFE that would wait may be trapped."""
        cpu = self.cpu
        if word == SEV:
            cpu.events.set()
            self.platform.send_event()
        elif word == SEVL:
            cpu.events.set()
        elif not cpu.events.take(cpu.el):
            routed = wait_trap(cpu, WFx.WFE)
            if routed is not None:
                self.exceptions.synchronous(routed.syndrome, routed.target_el)
                return True
            self.platform.wait_for_event()
        cpu.pc = cpu.pc + 4 & _MASK
        return False

    def prevents_trap(self, accessor: Accessor, trap: SystemAccessTrap) -> bool:
        """Asked before a trap of a System register access: True if it is not to be taken."""
        return False

    def controls_written(self) -> None:
        """A register was written that controls something which the engine does not have."""
        self.cpu.steering.resync_cells()
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
        if self.status == ABORTED:
            if cpu.engine.exhausted:
                self.fail(
                    f"the engine failed {cpu.engine.aborts} times to translate code, and cannot"
                    " go on",
                    "the guest executes data in many places: look for where it begins to",
                )
            else:
                self.fail(
                    f"the engine cannot translate the block at {cpu.pc:#x}: an assertion of its"
                    " own failed",
                    "this is a fault of the Unicorn engine: report it with the words of the block",
                )
            return
        if self.status:
            name = cpu.engine.error(self.status)
            self.fail(f"the engine stopped: {name}")
            return
        before = cpu.pc - 4 & _MASK
        words = cpu.virtual.code(before, 1)
        if words and decode(words[0]).mark is Mark.WFI:
            self._wait(before)
        else:
            self.ending = Ending.INTERRUPTED

    def _wait(self, pc: int) -> bool:
        """Execute the WFI at ``pc``; True if it trapped.

        A WFI with an interrupt pending completes and never traps.
        """
        cpu = self.cpu
        routed = None if self.interrupts.pending else wait_trap(cpu, WFx.WFI)
        if routed is not None:
            cpu.pc = pc
            self.exceptions.synchronous(routed.syndrome, routed.target_el)
            return True
        cpu.pc = pc + 4 & _MASK
        self.sleep()
        return False

    def sleeps_at(self) -> int:
        """The Exception levels at which a WFI surely waits, a bit each, by the controls of now."""
        levels = [PEAt(self.cpu, el) for el in (EL1, EL2, EL3)]
        return sum(1 << pe.el for pe in levels if wait_trap(pe, WFx.WFI) is None)

    def sleep(self) -> None:
        """WFI, or a call to firmware that waits as it does.

        Time goes on from one event of the platform to the next, until an interrupt is pending. What
        the operation itself causes, such as an overflow, happens before that.
        """
        if self.cpu.monitors is not None:
            self.cpu.monitors.retired()
        self.sleeping = True
        self.waits()
        while not self.interrupts.pending:
            if self.asked_to_stop():
                self.ending = Ending.INTERRUPTED
                return
            if not self.platform.wait():
                self.ending = Ending.ASLEEP
                return
        self.sleeping = False

    def _wait_for_count(self, word: int) -> bool:
        """Execute a WFET or WFIT, the operation at the PC. True if it trapped."""
        cpu, rt = self.cpu, word & 31
        wait = WFx.WFIT if word & _TIMED_WFI else WFx.WFET
        count = cpu.engine.x(rt)
        goes_on = self.interrupts.pending if wait is WFx.WFIT else cpu.events.take(cpu.el)
        if not goes_on and self._cycles_to(count) > 0:
            routed = wait_trap(cpu, wait, rt)
            if routed is not None:
                self.exceptions.synchronous(routed.syndrome, routed.target_el)
                return True
            cpu.pc = cpu.pc + 4 & _MASK
            self._sleep_until(count)
        else:
            cpu.pc = cpu.pc + 4 & _MASK
        return False

    def _cycles_to(self, count: int) -> int:
        """In how many cycles CNTVCT_EL0 is ``count``; 0 if it has passed that."""
        cpu = self.cpu
        offset = 0 if el_is_in_host(cpu, cpu.el) else self.controls.offsets[0]
        if cpu.physical_count() - offset & _MASK >= count:
            return 0
        return max(1, cpu.rate.cycles(min(count + offset & _MASK, _FOREVER)) - cpu.cycles)

    def _sleep_until(self, count: int) -> None:
        """Let time pass until CNTVCT_EL0 is ``count`` or an interrupt is pending.

        Where other PEs run it ends at their next turn, as a wait may at any time.
        """
        cpu = self.cpu
        if cpu.monitors is not None:
            cpu.monitors.retired()
        self.platform.wait_for_event()
        while self.ending is None and not self.interrupts.pending:
            left = self._cycles_to(count)
            if cpu.cycles + left > _FOREVER:
                self.sleep()
                return
            if self.asked_to_stop():
                self.ending = Ending.INTERRUPTED
                return
            if cpu.executed + left <= self.platform.deadline:
                self._state.skipped += left
                self.platform.happen()
                return
            if not self.platform.wait():
                return

    def _interrupted(self) -> bool:
        """Where an exception repeats itself, let time pass until an interrupt is taken.

        False if none ever will be. With several PEs the others go on meanwhile.
        """
        while not self.interrupts.take():
            if self.asked_to_stop():
                self.ending = Ending.INTERRUPTED
                return True
            if self.platform.deadline == NEVER_HAPPENS or not self.platform.wait():
                return self.platform.give_way()
        return True

    def _carry_out(self, row: Row, word: int) -> bool:
        """Carry out an instruction that the engine lacks. True if it raised: it may be trapped."""
        trap = self.lacking.trap(row)
        if trap is not None:
            self.exceptions.synchronous(trap.syndrome, trap.target_el)
            return True
        if row.uses & Uses.LONG_VECTORS and vector_bits(self.cpu) < LONG_VECTOR:
            self._raise(Routed(default_target(self.cpu), UNDEFINED), None)
            return True
        if row.unit == Unit.BRANCH:
            branch(self.cpu, word)
            return False
        if row.unit == Unit.LSE128:
            fault = misaligned(self.cpu, word)
            if fault is None:
                return quadword(self.cpu, row, word, self._access)
            self._raise(*fault)
            return True
        if row.unit is Unit.LS64:
            refused = bytes_64_trap(self.cpu) or misaligned_64(self.cpu, word)
            if refused is None:
                return bytes_64(self.cpu, word, self._access)
            self._raise(*refused)
            return True
        if row.unit is Unit.ORDERED:
            return self._ordered(row, word)
        if row.unit is Unit.OCTAWORD:
            return octaword(self.cpu, row, word, self._access)
        if row.unit is Unit.SVE2P1_MEMORY:
            self.lacking.tell_hooks()
            by_device = self.controls.checks.alignment.refused_by_device
            access = QuadwordAccess(self.cpu, row, word, self._access, self._raise, by_device)
            return access.carry_out()
        if row.unit is Unit.COPYING:
            return self.copying.carry_out(word)
        if row.unit is Unit.TAG_ACCESS:
            self.lacking.tell_hooks()
            return self.tagging.carry_out(row, word)
        if row.uses & Uses.MEMORY:
            return self._access(in_its_place(row.form, word))
        self.lacking.carry_out(row, word)
        return False

    def _ordered(self, row: Row, word: int) -> bool:
        """Execute a load or store of FEAT_LRCPC3, the operation at the PC. True if it raised."""
        fault = self.controls.checks.alignment.fault_of_ordered()
        if fault is None:
            return self._access(not_ordered(row.form, word))
        self._raise(*fault)
        return True

    def _raise(self, routed: Routed, far: int | None) -> None:
        self.exceptions.synchronous(routed.syndrome, routed.target_el, far)

    def _access(self, word: int) -> bool:
        """Have the engine execute ``word`` in place of the operation at the PC. True if it raised.

        It makes the accesses of one that the engine lacks.
        """
        cpu = self.cpu
        pc = cpu.pc
        guests = cpu.virtual.code(pc, 1)
        if guests is None:
            raise RuntimeError(f"the operation at {pc:#x} can no longer be fetched")
        with self.lacking.replaced(guests[0], word):
            self.execute_one()
        cpu.forget_el()
        stop = Stop(cpu.state.stop)
        if stop is Stop.EXCEPTION:
            taken = cpu.entries.of_engine()
            syndrome = taken.record.syndrome
            if syndrome is None or syndrome.ec != EC.WFxTrap:
                return self._exception(corrected(cpu, taken))
            cpu.pc = pc + 4 & _MASK  # the engine ends a run by a WFI of its own
            return False
        return stop is Stop.UNMAPPED and self.refused.unmapped(word)

    def _invalidate(self, tlbi: Encoding, rt: int) -> bool:
        """Carry out a TLBI that the engine lacks: it forgets its whole TLB. True if it raised.

        The hook for SYS has noted what other PEs and the core model have to hear of it.
        """
        cpu = self.cpu
        refused = refused_tlbi(cpu, tlbi, rt)
        if refused is not None:
            pc = cpu.pc
            self.exceptions.synchronous(refused.syndrome, refused.target_el)
            if refused.syndrome == UNDEFINED and self.ending is None:
                self.undefined(pc, tlbi.key << 5 | _SYS | rt)
            return True
        apply_maintenance(cpu, Maintenance(tlb=True, flush=not_noted(tlbi)))
        if not_noted(tlbi) and is_shared(tlbi):
            broadcast(self._state, FLUSH_MAINTENANCE)
        cpu.pc = cpu.pc + 4 & _MASK
        self.lacking.tell_hooks()
        return False

    def _restrict(self, rt: int) -> bool:
        """Carry out COSP RCTX, the operation at the PC. True if it raised: it may be trapped."""
        cpu = self.cpu
        refused = restriction.refused(cpu, rt)
        if refused is None:
            cpu.pc = cpu.pc + 4 & _MASK
            return False
        self.exceptions.synchronous(refused.syndrome, refused.target_el)
        return True

    def fail(self, reason: str, hint: str = "") -> None:
        """End the run: the guest cannot go on."""
        self.ending = Ending.FAILED
        self.failure = Failure(reason, self.cpu.pc, hint)

    def _exception(self, exception: EngineException) -> bool:
        cpu = self.cpu
        if exception.number in (HVC, SMC) and self.platform.call(exception):
            return True
        if exception.number == PREFETCH_ABORT and cpu.whole and cpu.pc & 3:
            self.exceptions.misaligned_pc()
            return True
        if exception.number == HVC and cpu.el == EL3:
            # the engine has it go to EL2
            self.exceptions.take(exception.record, EL3)
            return True
        if exception.record.syndrome == UNDEFINED:
            words = cpu.virtual.code(cpu.pc, 1)
            if words == (SEMIHOSTING,) and self.platform.semihosting():
                cpu.pc = cpu.pc + 4 & _MASK
                return True
            if words and self.system.sets_process_state(words[0]):
                self.lacking.tell_hooks()
                cpu.pc = cpu.pc + 4 & _MASK
                return False
            if words and cpu.el == EL1 and self.system.is_nested(words[0]):
                return self.system.execute(words[0])
            if words and is_dsb_nxs(words[0]) and Feature.FEAT_XS in cpu.features:
                self.lacking.tell_hooks()
                cpu.pc = cpu.pc + 4 & _MASK
                return False
            if words and is_timed_wait(words[0]) and Feature.FEAT_WFxT in cpu.features:
                return self._wait_for_count(words[0])
            tlbi = lacked_by_engine(words[0], cpu.features) if words else None
            if words and tlbi is not None:
                return self._invalidate(tlbi, words[0] & 31)
            if words and restriction.is_there(words[0], cpu.features):
                return self._restrict(words[0] & 31)
            row = self.lacking.find(words[0]) if words else None
            if words and row is not None:
                return self._carry_out(row, words[0])
            if words and authenticates(words[0]) and not el2_enabled(cpu):
                taken = execute_authentication(cpu, words[0], self.execute_one)
                return taken is not None and self._exception(corrected(cpu, taken))
        unaligned = self._unaligned.find(exception)
        if unaligned is not None and exception.record.vaddress is not None:
            address = exception.record.vaddress
            return self._unaligned.carry_out(unaligned, address, self._access)
        syndrome = exception.record.syndrome
        if exception.number == SVC and self.controls.calls_trapped[cpu.el]:
            cpu.pc = cpu.pc - 4 & _MASK
            not_retired(cpu.state)
            self.exceptions.take(exception.record, EL2)
            return True
        if syndrome and syndrome.ec == EC.WFxTrap:
            return self._wait(cpu.pc)  # the engine knows neither what is pending nor EL2's EL0
        if syndrome and syndrome.ec == EC.SystemRegisterTrap:
            raised = self.system.rerouted()
            if raised is not None:
                return raised
        pc = cpu.pc
        words = cpu.virtual.code(pc, 1) if syndrome == UNDEFINED and self.undefined else None
        self.exceptions.take(exception.record, exception.target_el)
        if words and self.ending is None:
            self.undefined(pc, words[0])
        return True
