"""Finds PEs that poll memory in a tight loop, which only loads, compares and branches.

Each round of such a loop is like the round before until the memory that it loads changes. So a PE
in such a loop need not run until then, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from spe_unicorn.arch.operation import Access, Extend, Family, Instruction, Mark, RegisterKind
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.decode import decode
from spe_unicorn.host.native.turns.standing import LONGEST_LOOP
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register

Look: TypeAlias = tuple[int, int, int]
"""Memory as it was: physical address, number of bytes, and their value."""

_MASK: Final = (1 << 64) - 1
_PLAIN: Final = frozenset({Mark.NONE, Mark.HINT, Mark.BARRIER, Mark.ISB, Mark.DSB})
"""Marks of operations that change nothing but general registers and flags."""


def polled(cpu: UnicornCPU) -> list[Look] | None:
    """The memory that the PE's loop loads; None if the PE is in no such loop.

    It is empty for a branch to itself.
    """
    loop = _loop_around(cpu)
    if loop is None:
        return None
    start, body = loop
    written = reads = 0
    for instruction in body:
        reads |= instruction.reads & ~written
        written |= instruction.writes
    if reads & written or not all(map(_is_plain, body)):
        return None  # a round depends on the round before, or has effects
    last = start + 4 * (len(body) - 1)
    looks = []
    for n, instruction in enumerate(body):
        offset = instruction.target_offset
        if offset is not None and start <= start + 4 * n + offset <= last and n + 1 < len(body):
            return None  # the branch may skip a part of the loop, and so what that part writes
        if instruction.family is Family.LOAD:
            look = _memory_read(cpu, instruction, start + 4 * n, written)
            if look is None:
                return None
            looks.append(look)
    return looks


def watched_exclusively(cpu: UnicornCPU) -> list[Look]:
    """The memory that the last load-exclusive before the WFE at the PC has read, as it is now.

    A store of another PE to that memory is an event for this PE. The list is empty if there is no
    such load.
    """
    words = cpu.virtual.code(cpu.pc - 4 * LONGEST_LOOP & _MASK, LONGEST_LOOP) or ()
    written = 0
    for n, word in enumerate(reversed(words), 1):
        instruction = decode(word)
        if instruction.exclusive and instruction.family is Family.LOAD:
            look = _memory_read(cpu, instruction, cpu.pc - 4 * n, written | instruction.writes)
            return [] if look is None else [look]
        written |= instruction.writes
    return []


def unchanged(cpu: UnicornCPU, looks: Sequence[Look]) -> bool:
    """Whether memory still holds what was seen."""
    return all(_held(cpu, address, size) == value for address, size, value in looks)


def _loop_around(cpu: UnicornCPU) -> tuple[int, list[Instruction]] | None:
    """The smallest loop around the PC that one branch closes: its address, its operations."""
    pc = cpu.pc
    for n in range(LONGEST_LOOP):
        words = cpu.virtual.code(pc + 4 * n & _MASK, 1)
        if not words:
            return None
        branch = decode(words[0])
        if branch.indirect or branch.link or branch.mark not in _PLAIN:
            return None
        offset = branch.target_offset
        if offset is not None and offset <= -4 * n:
            start = pc + 4 * n + offset
            length = 1 - offset // 4
            code = cpu.virtual.code(start & _MASK, length) if length <= LONGEST_LOOP else None
            return None if code is None else (start, [decode(word) for word in code])
    return None


def _is_plain(instruction: Instruction) -> bool:
    """Whether an operation does nothing but change general registers and flags, or branch."""
    i = instruction
    if i.mark not in _PLAIN or i.fp or i.simd or i.sve or i.indirect or i.link:
        return False
    if i.family in (Family.OTHER, Family.BRANCH):
        return True
    return i.family is Family.LOAD and i.registers is RegisterKind.GENERAL and not i.atomic


def _memory_read(cpu: UnicornCPU, instruction: Instruction, pc: int, written: int) -> Look | None:
    """The memory that a load reads, by the registers as they are now; None if it is unknown.

    ``written`` has a bit for each register whose value may be another one at the load.
    """
    access = instruction.access
    if access is None or access.writeback or access.index_writeback is not None:
        return None
    if access.scalable or access.authenticated or access.unprivileged:
        return None
    used = [n for n in (access.base, access.index) if n is not None]
    if any(written >> n & 1 for n in used):
        return None
    physical = cpu.virtual.translate(_address(cpu, access, pc), write=False)
    held = None if physical is None else _held(cpu, physical, access.size)
    return None if physical is None or held is None else (physical, access.size, held)


def _held(cpu: UnicornCPU, physical: int, size: int) -> int | None:
    """What memory holds, as a number; None where there is none."""
    held = cpu.memory.read(physical, size, PASpace.Secure)  # Secure accesses reach all memory
    return None if held is None else int.from_bytes(held, "little")


def _address(cpu: UnicornCPU, access: Access, pc: int) -> int:
    base = pc if access.base is None else cpu.engine.get(register(access.base))
    index = 0
    if access.index is not None:
        index = cpu.engine.x(access.index)
        if access.extend in (Extend.UXTW, Extend.SXTW):
            index &= 0xFFFF_FFFF
            if access.extend is Extend.SXTW:
                index -= index >> 31 << 32
    return base + access.offset + (index << access.shift) & _MASK
