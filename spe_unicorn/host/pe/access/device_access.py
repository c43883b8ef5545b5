"""Memory accesses that the engine does not make: to devices, refused ones, misaligned ones."""

from __future__ import annotations

from typing import Final

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.exceptions.syndromes import data_abort, instruction_abort
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.operation import Instruction
from spe_unicorn.decode import Transfer, decode, transfer
from spe_unicorn.host.native.state.leaving import left_block_after
from spe_unicorn.host.pe.checks.operations import Checks, FailedCheck
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber, register
from spe_unicorn.host.pe.exceptions import Exceptions
from spe_unicorn.host.ports import Bus

_MASK: Final = (1 << 64) - 1


class RefusedAccesses:
    """Carries out the accesses of one PE, or lets the engine make them after all."""

    def __init__(self, cpu: UnicornCPU, checks: Checks, exceptions: Exceptions, bus: Bus) -> None:
        self._cpu = cpu
        self._checks = checks
        self._exceptions = exceptions
        self._bus = bus
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        self._describer = OperationDescriber(cpu)

    @property
    def letting_through(self) -> bool:
        """Whether the next operation, and no other, is let through."""
        memory = self._cpu.secure_memory
        return self._checks.passing or (memory is not None and memory.admitting)

    def close(self) -> None:
        """The operation that was let through, if there was one, has been executed."""
        self._checks.passing = False
        if self._cpu.secure_memory is not None:
            self._cpu.secure_memory.close()

    @property
    def refused_as_secure(self) -> bool:
        """Whether the access that the engine has refused is one to Secure memory."""
        memory = self._cpu.secure_memory
        return memory is not None and memory.holds(self._state.access_address & _MASK)

    def admits(self) -> bool:
        """Whether the engine may make an access to Secure memory that it refused.

        It may until :meth:`close`, which must be called after that operation.
        """
        memory = self._cpu.secure_memory
        state = self._state
        address = state.access_address & _MASK
        if memory is None or not memory.holds(address):
            return False
        write = state.access_type == uc_const.UC_MEM_WRITE_UNMAPPED
        return memory.admits(address, self._describer.begin(self._cpu.pc)[0].va, write=write)

    def checked(self, fault: FailedCheck | None) -> bool:
        """Take the exception of an operation that alignment, a breakpoint or a watchpoint stops."""
        if fault is None or fault.routed is None:
            raise RuntimeError(f"the engine stopped at {self._cpu.pc:#x}, and no check fails there")
        routed = fault.routed
        self._exceptions.synchronous(routed.syndrome, routed.target_el, fault.address)
        return True

    def unmapped(self, word: int | None = None) -> bool:
        """Carry out a device access, and move the PC on. True if it raised an External abort.

        ``word`` is what was executed, if it is not the operation at the PC.
        """
        cpu = self._cpu
        address = self._state.access_address & _MASK
        if word is None:
            words = cpu.virtual.code(cpu.pc, 1)
            word = words[0] if words else 0
        raised = self._carry_out(address, decode(word))
        if cpu.secure_memory is not None:
            cpu.secure_memory.end_access()
            if cpu.secure_memory.holds(address):
                self._engine.flush_tlb()  # an entry there would allow the access next time
        return raised

    def _carry_out(self, address: int, instruction: Instruction) -> bool:
        """As :meth:`unmapped`, for an access to this physical address."""
        cpu, state = self._cpu, self._state
        if state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED:
            if cpu.whole and cpu.pc & 3:
                self._exceptions.misaligned_pc()
                return True
            fault = FaultRecord(Fault.SyncExternal, 0)
            self._exceptions.external_abort(instruction_abort(fault), cpu.pc)
            return True
        write = state.access_type == uc_const.UC_MEM_WRITE_UNMAPPED
        if cpu.secure_memory is not None:
            cpu.secure_memory.begin_access(
                self._describer.begin_as(cpu.pc, instruction).va, write=write
            )
        if self._bus.claims(address):
            if instruction.access is not None and address % instruction.access.element:
                operation = self._describer.begin_as(cpu.pc, instruction)
                refused = self._checks.alignment.device_fault(operation)
                if refused is not None:
                    self._exceptions.synchronous(refused.syndrome, refused.target_el, operation.va)
                    return True
            moved = transfer(instruction.word)
            if moved is None:
                self._exceptions.fail(
                    f"device access at {address:#x} by an instruction that no device answers",
                    "use loads and stores of general-purpose registers on device memory",
                )
                return True
            self._move(instruction, moved, address)
            cpu.pc = cpu.pc + 4 & _MASK
            return False
        operation = self._describer.begin_as(cpu.pc, instruction)
        fault = FaultRecord(Fault.SyncExternal, 0, write=write)
        # of a gather or scatter only a random element's address is known, not that of this one
        far = None if operation.instruction.gather_scatter else operation.va
        self._exceptions.external_abort(data_abort(fault, fnv=far is None), far)
        return True

    def access_within_run(self, pc: int) -> bool:
        """Carry out the access of the operation at ``pc``, where the engine has stopped.

        The PC then moves on by one operation. Return False, with nothing done, if more than a
        device is concerned.
        """
        state, memory = self._state, self._cpu.secure_memory
        address = state.access_address & _MASK
        if state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED:
            return False
        words = self._cpu.virtual.code(pc, 1)
        moved = transfer(words[0]) if words else None
        if words is None or moved is None or address % moved.size:
            return False
        if memory is not None:  # the physical address space decides which device answers
            memory.begin_access(self._describer.begin(pc)[0].va, write=not moved.load)
        try:
            if not self._bus.claims(address) or not left_block_after.called(state.address, pc):
                return False
            self._move(decode(words[0]), moved, address)
        finally:
            if memory is not None:
                memory.end_access()
        self._cpu.pc = pc + 4 & _MASK
        self._cpu.advance_step()
        return True

    def _move(self, instruction: Instruction, moved: Transfer, address: int) -> None:
        """Carry out a load or store of one or two registers on a device, and its write-back."""
        registers = (moved.rt,) if moved.rt2 is None else (moved.rt, moved.rt2)
        mask = (1 << 8 * moved.size) - 1
        for n, number in enumerate(registers):
            place = address + n * moved.size
            if moved.load:
                value = self._bus.read(place, moved.size) & mask
                self._engine.set_x(number, _extended(value, moved))
            else:
                self._bus.write(place, moved.size, self._engine.x(number) & mask)
        access = instruction.access
        if access is not None and access.base is not None and access.writeback:
            base = register(access.base)
            self._engine.put(base, self._engine.get(base) + access.writeback & _MASK)


def _extended(value: int, moved: Transfer) -> int:
    """The value of the 64-bit register after a load of ``value``."""
    bits = 8 * moved.size
    if moved.signed and value >> bits - 1:
        value -= 1 << bits
    return value & (_MASK if moved.width64 else 0xFFFF_FFFF)
