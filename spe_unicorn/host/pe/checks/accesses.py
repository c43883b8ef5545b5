"""Which bytes an operation is about to access: exactly, and roughly for compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from spe_unicorn.arch.memory.pointer_authentication import authenticated_address
from spe_unicorn.arch.operation import (
    MEMORY_MOVES,
    Access,
    Family,
    Instruction,
    VectorAccess,
)
from spe_unicorn.arch.pe import EL0
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.arch.rules.effective import unprivileged_access_is_privileged
from spe_unicorn.decode import address_from, extended
from spe_unicorn.decode.tagging import is_tag_checked
from spe_unicorn.host.engine.engine import PSTATE, SP
from spe_unicorn.host.native import checks as native
from spe_unicorn.host.native.state.actions import KEYS, READ, SYSTEM, WRITE
from spe_unicorn.host.pe.checks.alignment import is_checked
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register
from spe_unicorn.host.pe.vectors import governing_predicate, vector_bits, vector_element
from spe_unicorn.instructions.copying import (
    MOST,
    Copy,
    copy_of,
    is_misaligned,
    part_of,
    wrong,
)

_MASK: Final = (1 << 64) - 1
_STACK_POINTER: Final = 31
_LONGEST: Final = 16
"""The longest vector in units of the vector length for which the decoder gives offsets."""
_DC_IVAC, _RT = 0xD508_7620, 0x1F
_SYSTEM_INSTRUCTIONS: Final = (0xFFC0_0000, 0xD500_0000)
"""The mask of the bits that MRS, MSR, SYS, SYSL and hints have in common, and their values."""
_READS, _SYS = 1 << 21, 1
_LINE: Final = 64
"""Bytes that a DC IVAC invalidates."""


def invalidates(word: int) -> bool:
    """Whether ``word`` is a DC IVAC. Watchpoints treat it as a store, as Arm's own cores do."""
    return word & ~_RT == _DC_IVAC


class Row(NamedTuple):
    """What compiled code knows of an operation: a row of ``native.checks.CHECK`` without the key.

    The row names at least the bytes that are accessed, and may name more.
    """

    plan: int = 0
    offset: int = 0
    first: int = 0
    size: int = 0


def row_of(instruction: Instruction) -> Row:
    """The row of an operation."""
    if invalidates(instruction.word):
        number = instruction.word & _RT
        base = register(number) + 1 if number != _STACK_POINTER else 0
        plan = native.STORES | base << native.CHECK_BASE
        return Row(plan if base else plan | native.UNCLEAR, 0, 1 - _LINE, 2 * _LINE - 1)
    kinds = _kinds(instruction)
    access = instruction.access
    if instruction.registers in MEMORY_MOVES:
        return Row(native.LOADS | native.STORES | native.UNCLEAR | native.TAGGED)
    if access is None:
        system = access_of(instruction.word)
        if system is not None:
            kind, key = system
            return Row(native.LOOKS, kind * KEYS + key)
        elements = instruction.elements is not None
        return Row(kinds | native.UNCLEAR | native.TAGGED) if kinds and elements else Row()
    plan = kinds
    if is_tag_checked(instruction):
        plan |= native.TAGGED | (native.UNPRIVILEGED if access.unprivileged else 0)
    if is_checked(instruction):
        plan |= native.CHECKED | access.element - 1 << native.CHECK_MASK
    if not plan:
        return Row()
    if access.base == _STACK_POINTER:
        plan |= native.CHECK_SP | SP + 1 << native.CHECK_BASE
    elif access.base is not None:
        plan |= register(access.base) + 1 << native.CHECK_BASE
    if access.index is not None:
        plan |= register(access.index) + 1 << native.CHECK_INDEX
        plan |= access.extend << native.CHECK_EXTEND | access.shift << native.CHECK_SHIFT
    if access.authenticated:
        plan |= native.UNCLEAR
    first, size = 0, access.size
    if access.align_down or access.scalable:
        plan |= native.ROUGH
    if access.align_down:
        first, size = 1 - access.align_down, access.align_down - 1 + size
    elif access.scalable:
        first = min(0, (_LONGEST - 1) * access.offset)
        last = max(0, (_LONGEST - 1) * access.offset) + _LONGEST * size
        size = last - first
    return Row(plan, access.offset, first, size)


def access_of(word: int) -> tuple[int, int] | None:
    """READ, WRITE or SYSTEM, and the ``Encoding.key``, of a word; None if it is no such access."""
    mask, bits = _SYSTEM_INSTRUCTIONS
    if word & mask != bits:
        return None
    key = word >> 5 & KEYS - 1
    op0 = key >> 14
    if op0 <= _SYS:
        return (SYSTEM, key) if op0 else None
    return (READ if word & _READS else WRITE), key


def _kinds(instruction: Instruction) -> int:
    """LOADS, STORES, or both."""
    return _KINDS.get(instruction.family, 0)


_KINDS: Final = {
    Family.LOAD: native.LOADS,
    Family.STORE: native.STORES,
    Family.ATOMIC: native.LOADS | native.STORES,
    Family.ATOMIC_STORE: native.LOADS | native.STORES,
}


def accesses_of(cpu: UnicornCPU, instruction: Instruction) -> Iterator[MemoryAccess]:
    """The contiguous accesses that the operation at the PC is about to make, in order."""
    if invalidates(instruction.word):
        address = cpu.engine.x(instruction.word & _RT) & -_LINE
        yield MemoryAccess(address, _LINE, cpu.el, read=False, write=True)
        return
    kinds = _kinds(instruction)
    read, write = bool(kinds & native.LOADS), bool(kinds & native.STORES)
    if not kinds:
        return
    if instruction.elements is not None:
        raising, _ = _active(cpu, instruction)
        yield from _elements(cpu, instruction, raising)
        return
    if instruction.registers in MEMORY_MOVES:
        yield from _moves(cpu, instruction.word)
        return
    access = instruction.access
    if access is None:
        return
    start, size = _place(cpu, instruction, access)
    el = level_of(cpu, access)
    if instruction.governor is None:
        yield MemoryAccess(start, size, el, read, write)
        return
    raising, _ = _active(cpu, instruction)
    if not access.scalable and size == access.element:  # LD1R: one element for all
        if raising:
            yield MemoryAccess(start, size, el, read, write)
        return
    yield from _elements(cpu, instruction, raising)


def silent_accesses_of(
    cpu: UnicornCPU, instruction: Instruction
) -> Iterator[tuple[int, MemoryAccess]]:
    """The elements, and their accesses, that a fault ends in place of raising an exception.

    They are those of a non-fault load, and of a first-fault load all but the first active one.
    """
    if instruction.governor is None or not _kinds(instruction):
        return
    _, silent = _active(cpu, instruction)
    yield from zip(silent, _elements(cpu, instruction, silent), strict=True)


def _elements(
    cpu: UnicornCPU, instruction: Instruction, numbers: list[int]
) -> Iterator[MemoryAccess]:
    """The accesses of some elements of an SVE operation."""
    kinds = _kinds(instruction)
    read, write = bool(kinds & native.LOADS), bool(kinds & native.STORES)
    if instruction.elements is not None:
        for n in numbers:
            address = _scattered(cpu, instruction, instruction.elements, n)
            yield MemoryAccess(address, instruction.elements.size, cpu.el, read, write)
    access = instruction.access
    if access is None:
        return
    start, size = _place(cpu, instruction, access)
    whole = instruction.governed * vector_bits(cpu) // 8 if access.scalable else size
    count = whole // instruction.lane
    step = size // count
    for n in numbers:
        if n < count:
            yield MemoryAccess(start + n * step & _MASK, step, level_of(cpu, access), read, write)


def values_of(cpu: UnicornCPU, copy: Copy) -> tuple[int, int, int]:
    """What the registers of a memory copy or set hold: destination, source and size."""
    source = 0 if copy.source == _STACK_POINTER else cpu.engine.x(copy.source)
    return cpu.engine.x(copy.destination), source, cpu.engine.x(copy.size)


def _moves(cpu: UnicornCPU, word: int) -> Iterator[MemoryAccess]:
    """What one execution of a memory copy or set accesses at most."""
    copy = copy_of(word)
    if copy is None or copy.is_undefined:
        return
    part = part_of(copy, *values_of(cpu, copy))
    count = min(part.due, MOST)
    if not count or wrong(part, cpu.engine.get(PSTATE)) is not None or is_misaligned(part):
        return
    to, source = part.spans(count)
    if not copy.sets:
        el = _level(cpu, unprivileged=copy.reads_unprivileged)
        yield MemoryAccess(source, count, el, read=True, write=False)
    el = _level(cpu, unprivileged=copy.writes_unprivileged)
    yield MemoryAccess(to, count, el, read=False, write=True)


def level_of(cpu: UnicornCPU, access: Access) -> int:
    """The Exception level with whose rights an access is made."""
    return _level(cpu, unprivileged=access.unprivileged)


def _level(cpu: UnicornCPU, *, unprivileged: bool) -> int:
    if not unprivileged:
        return cpu.el
    uao = bool(cpu.engine.get(PSTATE) & SPSR.UAO.mask)
    return cpu.el if unprivileged_access_is_privileged(cpu, uao=uao) else EL0


def _place(cpu: UnicornCPU, instruction: Instruction, access: Access) -> tuple[int, int]:
    """The first byte of a contiguous access, and its size in bytes."""
    engine = cpu.engine
    base = cpu.pc if access.base is None else engine.get(register(access.base))
    index = 0 if access.index is None else engine.get(register(access.index))
    if access.authenticated:
        base = authenticated_address(cpu, base, key_b=bool(instruction.word >> 23 & 1))
    start, size = address_from(access, base, index), access.size
    if access.scalable:
        longer = vector_bits(cpu) // 128
        start, size = start + access.offset * (longer - 1) & _MASK, size * longer
    return start, size


def _active(cpu: UnicornCPU, instruction: Instruction) -> tuple[list[int], list[int]]:
    """The active elements of an SVE operation: whose accesses can raise an exception, and others.

    The others are of non-fault and first-fault loads.
    """
    governing = governing_predicate(cpu, instruction)
    count = instruction.governed * vector_bits(cpu) // 8 // instruction.lane
    active = [n for n in range(count) if governing >> n * instruction.lane & 1]
    word = instruction.word
    group, form = word >> 25, word >> 13 & 7
    if group == _CONTIGUOUS_LOADS and form == 5 and word >> 20 & 1:
        return [], active  # LDNF1 never raises one
    first_fault = (
        form == 3
        if group == _CONTIGUOUS_LOADS
        else instruction.elements is not None and group in _GATHERS and form & 1
    )
    return (active[:1], active[1:]) if first_fault else (active, [])


_CONTIGUOUS_LOADS: Final = 0x52
_GATHERS: Final = frozenset({0x42, 0x62})
"""Bits 31 to 25 of SVE loads."""


def _scattered(cpu: UnicornCPU, instruction: Instruction, elements: VectorAccess, n: int) -> int:
    """Where element ``n`` of a gather or scatter is."""
    base = 0 if elements.base is None else cpu.engine.get(register(elements.base))
    value = vector_element(cpu, elements.vector, instruction.lane, n)
    offset = extended(value, elements.extend) << elements.shift
    return base + elements.offset + offset & _MASK
