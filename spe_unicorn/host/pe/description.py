"""Describes operations: makes an ``arch.operation.Operation`` from the PE's registers.

There are three ways to describe one, and they agree. :meth:`OperationDescriber.begin` is called
before an operation that the engine executes by itself, and :meth:`OperationDescriber.finish` after
it. :meth:`OperationDescriber.describe` is called after a whole block, with the plan of that block.
:meth:`OperationDescriber.sampled` reads what the compiled hook noted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from spe_unicorn.arch.memory.pointer_authentication import authenticated_address
from spe_unicorn.arch.operation import (
    Access,
    Active,
    CostClass,
    Family,
    Instruction,
    Mark,
    Operation,
    RegisterKind,
    VectorAccess,
)
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.bits import signed
from spe_unicorn.decode import (
    address_from,
    branch_taken,
    condition_holds,
    decode,
    extended,
)
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.native.flow import FLOW_VALID, tests, took
from spe_unicorn.host.native.plans import WRITES, Plan, When, cracked, tests_flags
from spe_unicorn.host.native.state.sample_row import (
    SAMPLE_ON_WRONG_PATH,
    SAMPLE_PA,
    Pending,
    Sample,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.vectors import (
    active_elements,
    governing_predicate,
    vector_bits,
    vector_element,
)

_MASK: Final = (1 << 64) - 1
_VECTOR_BITS: Final = 128
"""The vector length for which the decoder gives the offsets and sizes of accesses."""
_ALWAYS: Final = 0xFFFF
"""All values of NZCV."""
_PARTS: Final = 8
"""Bits for the number of a micro-operation."""


@dataclass(frozen=True, slots=True)
class NestedAccess:
    """An MRS or MSR that became an access to memory, made as EL2 makes it: NVMem().

    ``pa`` is None where the address did not translate.
    """

    va: int
    pa: int | None
    read: bool


class OperationDescriber:
    """Describes operations of one PE, or its micro-operations where there is a ``cracker``."""

    def __init__(self, cpu: UnicornCPU, cracker: Cracker | None = None) -> None:
        self._cpu = cpu
        self._cracker = cracker
        self._engine = cpu.engine
        self._state = cpu.hooks.state
        self._choices = cpu.random.stream("vector element")

    def begin(self, pc: int, *, begun: bool = False) -> list[Operation]:
        """Describe the operation at ``pc``, the PE's next one, before it is executed.

        Return its micro-operations in order, or a list of only the operation where there is no
        cracker. ``begun`` says that the engine has begun the block of the operation.
        """
        words = self._cpu.virtual.code(pc, 1)
        parts = cracked(decode(words[0] if words else 0), self._cracker)
        if len(parts) > 1 and parts[0] is parts[-1]:
            return [self._begin(pc, parts[0], begun=begun)] * len(parts)
        return [self._begin(pc, part, begun=begun) for part in parts]

    def begin_as(self, pc: int, instruction: Instruction) -> Operation:
        """Describe an operation that is executed in place of the one at ``pc``."""
        return self._begin(pc, instruction, begun=False)

    def begin_sampled(self, pc: int, *, begun: bool = False) -> list[Operation]:
        """As :meth:`begin`, with the calls that led there."""
        operations = self.begin(pc, begun=begun)
        callers = self._cpu.callers
        if callers is not None:
            calls = callers.here(pc)
            for operation in operations:
                operation.calls = calls
        return operations

    def _begin(self, pc: int, instruction: Instruction, *, begun: bool) -> Operation:
        cpu = self._cpu
        engine = self._engine
        operation = Operation(instruction, pc, cpu.el, cpu.physical_count())
        state = self._state
        if begun or (signed(pc) == state.flow_next and not self._branched_to(pc)):
            _came_by(operation, state.flow_target, state.flow)
        else:  # a branch led here
            _came_by(operation, pc, operation.el | state.flow_was << 2)
        access = instruction.access
        if access is not None:
            base = operation.pc if access.base is None else engine.get(register(access.base))
            index = 0 if access.index is None else engine.get(register(access.index))
            self._access(operation, access, base, index)
        if instruction.sve:
            self._vectors(operation)
        if tests_flags(instruction):
            self._test(operation, engine.get(e.NZCV))
        elif instruction.conditional and instruction.target_offset == 4:
            registers = engine.general()
            nzcv = registers[32] >> 28
            operation.condition_failed = not branch_taken(instruction, registers, nzcv)
        return operation

    def unaligned(self, instruction: Instruction, pc: int) -> bool:
        """Whether an access of the operation at ``pc``, where the PE stands, is not aligned."""
        elements = instruction.elements
        if elements is None:
            return (
                instruction.access is not None
                and self._begin(pc, instruction, begun=True).misaligned
            )
        cpu = self._cpu
        active = governing_predicate(cpu, instruction)
        return any(
            self._element(elements, instruction.lane, n) % elements.size != 0
            for n in range(vector_bits(cpu) // 8 // instruction.lane)
            if active >> instruction.lane * n & 1
        )

    def _element(self, elements: VectorAccess, lane: int, number: int) -> int:
        """The address of an element of a gather or scatter."""
        base = 0 if elements.base is None else self._engine.get(register(elements.base))
        offset = extended(vector_element(self._cpu, elements.vector, lane, number), elements.extend)
        return base + elements.offset + (offset << elements.shift) & _MASK

    def _branched_to(self, pc: int) -> bool:
        """Whether the operation before ``pc``, executed last, is a branch that led there."""
        cpu = self._cpu
        words = cpu.virtual.code(pc - 4 & _MASK, 1) if cpu.hooks.follows_flow else None
        if words is None:
            return False
        number = tests(words[0])
        value = 0
        if number >= 0 and number != 31:
            value = self._engine.get(e.NZCV if number == 32 else e.X[number])
        return bool(took(words[0], value))

    def misspeculated(self, pc: int, instruction: Instruction) -> Operation:
        """Describe an operation, or a part of one, on a wrong path. It is never completed."""
        cpu = self._cpu
        operation = Operation(instruction, pc, cpu.el, cpu.physical_count(), misspeculated=True)
        if cpu.callers is not None:
            operation.calls = cpu.callers.here(pc)
        return operation

    def finish(self, operation: Operation, pc: int) -> None:
        """Complete ``operation`` after it was executed; ``pc`` is the address of the next one."""
        instruction = operation.instruction
        if instruction.family is not Family.BRANCH:
            return
        if instruction.conditional and pc == operation.pc + 4 & _MASK:
            # both ways lead there if the target is the next operation; `begin` found out which
            if instruction.target_offset != 4:
                operation.condition_failed = True
            if operation.condition_failed:
                return
        operation.target = pc
        if instruction.mark is Mark.ERET:
            self._cpu.forget_el()
        operation.target_el = self._cpu.el

    def raised(self, operation: Operation, *, translated: bool) -> None:
        """Complete ``operation``, which took an exception other than SVC, HVC or SMC.

        ``translated`` says that the exception came after the translation of the address: it is a
        watchpoint. The record then has a physical address. That of an External abort has none.
        """
        operation.exception = True
        if not translated:
            operation.pa = None
        access = operation.instruction.access
        if access is not None and access.authenticated:
            # whether its pointer was right is not known, and so neither is the address
            operation.va = operation.pa = None

    def nested_access(self, operation: Operation, made: NestedAccess, *, shown: bool) -> None:
        """Make ``operation``, an MRS or MSR, the memory access ``made`` that it was turned into.

        ``shown`` says that its record has the addresses.
        """
        operation.instruction = replace(
            operation.instruction,
            family=Family.LOAD if made.read else Family.STORE,
            cost=CostClass.LOAD if made.read else CostClass.STORE,
            registers=RegisterKind.NESTED,
            part=1,
        )
        if shown:
            operation.va, operation.pa = made.va, made.pa

    def branched(self, pc: int, following: int) -> Operation | None:
        """Describe the branch at ``pc``, which was executed last and went to ``following``.

        None if its code is not there any more. Nothing is told of what led to it.
        """
        words = self._cpu.virtual.code(pc, 1)
        if words is None:
            return None
        time = self._cpu.rate.ticks(self._cpu.cycles - 1)
        operation = Operation(decode(words[0]), pc, self._cpu.el, time)
        self.finish(operation, following)
        return operation

    def describe(
        self, plan: Plan, pc: int, noted: Pending, before: int, following: int
    ) -> Operation:
        """Describe an operation after its block has run; ``noted`` is what ``plan`` asks for.

        ``before`` is the number of cycles before the operation, ``following`` the PC after it.
        """
        instruction = plan.instruction
        state = self._state
        operation = Operation(instruction, pc, self._cpu.el, self._cpu.rate.ticks(before))
        _came_by(operation, state.flow_target, state.flow)
        access = instruction.access
        if access is not None:
            base = pc
            if access.base is not None:
                if plan.base is When.START:
                    base = noted.base
                else:
                    base = self._engine.get(register(access.base)) - (access.writeback or 0)
            index = 0
            if access.index is not None:
                at_start = plan.index is When.START
                index = noted.index if at_start else self._engine.get(register(access.index))
            self._access(operation, access, base & _MASK, index & _MASK)
        if instruction.family is Family.BRANCH:
            self.finish(operation, following)
        elif instruction.conditional:
            at_start = plan.flags is When.START
            self._test(operation, noted.flags if at_start else self._engine.get(e.NZCV))
        return operation

    def sampled(self, instruction: Instruction, sample: Sample) -> Operation:
        """Describe an operation that the compiled hook has noted in its ring of samples."""
        pc = sample.pc & _MASK
        if sample.level & SAMPLE_ON_WRONG_PATH:
            time = self._cpu.rate.ticks(sample.cycles + 1)
            return Operation(instruction, pc, sample.level & 3, time, misspeculated=True)
        following = sample.following & _MASK
        operation = Operation(
            instruction, pc, sample.level & 3, self._cpu.rate.ticks(sample.cycles)
        )
        _came_by(operation, sample.flow_target, sample.flow)
        access = instruction.access
        if access is not None:
            operation.va = sample.va & _MASK
            if sample.level & SAMPLE_PA:
                operation.pa = sample.pa & _MASK
            operation.misaligned = misaligned(operation.va, access.element)
        else:
            branch = instruction.family is Family.BRANCH
            operation.condition_failed = condition_failed(
                branch,
                instruction.conditional,
                held_by(instruction),
                sample.pc,
                sample.following,
                sample.flags,
            )
            if branch and not operation.condition_failed:
                operation.target = following
                operation.target_el = operation.el
        return operation

    def _access(self, operation: Operation, access: Access, base: int, index: int) -> None:
        if access.authenticated:
            key_b = bool(operation.instruction.word >> 23 & 1)
            base = authenticated_address(self._cpu, base, key_b=key_b)
        self._go_to(operation, access, address_from(access, base, index))

    def _go_to(self, operation: Operation, access: Access, va: int) -> None:
        virtual = self._cpu.virtual
        translate = virtual.translate_unprivileged if access.unprivileged else virtual.translate
        operation.va = va
        operation.pa = translate(va, write=operation.instruction.family in WRITES)
        operation.checked = self._is_checked(operation.instruction, va)
        operation.misaligned = va % access.element != 0

    def _is_checked(self, instruction: Instruction, va: int) -> bool:
        """Whether an access is checked by an Allocation Tag."""
        checks = self._cpu.checks_tags
        return checks is not None and checks(instruction, va)

    def _vectors(self, operation: Operation) -> None:
        """Add what an SVE operation finds: without active elements it accesses nothing."""
        cpu = self._cpu
        instruction = operation.instruction
        operation.vector_bits = vector_bits(cpu)
        if instruction.governor is not None:
            operation.active = active_elements(cpu, instruction, operation.vector_bits)
        access = instruction.access
        if operation.active is Active.NONE:
            operation.va = operation.pa = None
            operation.misaligned = False
        elif instruction.elements is not None:
            self._scattered(operation, instruction.elements)
        elif access is not None and access.scalable and operation.vector_bits != _VECTOR_BITS:
            if operation.va is None:
                word, pc = instruction.word, operation.pc
                raise RuntimeError(f"{word:#010x} at {pc:#x} makes an access without an address")
            further = access.offset * operation.vector_bits // _VECTOR_BITS - access.offset
            self._go_to(operation, access, operation.va + further & _MASK)

    def _scattered(self, operation: Operation, elements: VectorAccess) -> None:
        """Add the address of one element of a gather or scatter, chosen at random, if active."""
        cpu, instruction = self._cpu, operation.instruction
        lane = instruction.lane
        count = operation.vector_bits // 8 // lane // elements.parts
        # the number of operations decides the choice: a second description has the same element
        chance = self._choices.at(cpu.executed << _PARTS | instruction.part)
        element = elements.part * count + chance % count
        if not governing_predicate(cpu, instruction) >> lane * element & 1:
            return
        va = self._element(elements, lane, element)
        operation.va = va
        operation.pa = cpu.virtual.translate(va, write=instruction.family in WRITES)
        operation.checked = self._is_checked(instruction, va)
        operation.misaligned = va % elements.size != 0

    def _test(self, operation: Operation, nzcv: int) -> None:
        condition = operation.instruction.condition
        if condition is not None:
            operation.condition_failed = not condition_holds(condition, nzcv >> 28 & 15)


def misaligned(va: int, element: int) -> bool:
    """Whether an access of elements of ``element`` bytes, a power of two, is not aligned.

    It works only on numbers, as compiled code calls it, too.
    """
    return va & (element - 1) != 0


def condition_failed(
    branch: int, conditional: int, held: int, pc: int, following: int, nzcv: int
) -> bool:
    """Whether an operation that accesses no memory did nothing, because its condition failed.

    ``following`` is the PC after the operation: after a conditional branch that was taken it is not
    ``pc + 4``. ``held`` is the set of values of NZCV with which the condition holds. The function
    works only on numbers, as compiled code calls it, too.
    """
    if branch:
        return conditional != 0 and following == pc + 4
    return held >> (nzcv >> 28 & 15) & 1 == 0


def held_by(instruction: Instruction) -> int:
    """The set of values of NZCV, a bit each, with which an instruction's condition holds."""
    condition = instruction.condition
    return _ALWAYS if not instruction.conditional or condition is None else _holding(condition)


@lru_cache(maxsize=16)
def _holding(condition: int) -> int:
    return sum(condition_holds(condition, nzcv) << nzcv for nzcv in range(16))


def _came_by(operation: Operation, target: int, flow: int) -> None:
    """Add the last branch before ``operation``, if profiling was enabled at that branch."""
    if flow & FLOW_VALID:
        operation.previous_target = target & _MASK
        operation.previous_target_el = flow & 3


def register(number: int) -> int:
    """The engine's number of X0 to X30, or of SP as 31."""
    return e.SP if number == 31 else e.X[number]
