"""What the engine lacks and Python alone carries out: LSE128, LS64, LD1RO, BC.cond, CB<cc>."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from spe_unicorn.arch.exceptions.routing import Routed, alignment_fault
from spe_unicorn.decode import branch_taken, decode
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register
from spe_unicorn.host.pe.vectors import predicate, set_predicate, set_vector, vector, vector_bits
from spe_unicorn.instructions.at_stops import combined
from spe_unicorn.instructions.rows import Row
from spe_unicorn.instructions.sve2.memory import contiguous
from spe_unicorn.instructions.sve2.quadwords import BY_IMMEDIATE, OCTAWORD, octaword_offset

_MASK: Final = (1 << 64) - 1
_LDP: Final = 0xA940_0000
_STP: Final = 0xA900_0000
"""LDP and STP of two X registers, without an offset."""
_QUADWORD: Final = 16
_BYTES: Final = 64
_FLAGS_AT: Final = 28


def branch(cpu: UnicornCPU, word: int) -> None:
    """Execute BC.cond or CB<cc>, the operation at the PC."""
    instruction = decode(word)
    registers = cpu.engine.general()
    taken = branch_taken(instruction, registers, registers[32] >> _FLAGS_AT & 15)
    cpu.pc = cpu.pc + (instruction.target_offset or 0 if taken else 4) & _MASK


def misaligned(cpu: UnicornCPU, word: int) -> tuple[Routed, int] | None:
    """The Alignment fault of an atomic of a quadword, with its address.

    UnalignedAccessFaults(): it has to lie within 16 bytes, whatever SCTLR_ELx.A is.
    """
    return _misaligned(cpu, word, _QUADWORD, write=False)  # a load would have it, too


def misaligned_64(cpu: UnicornCPU, word: int) -> tuple[Routed, int] | None:
    """The Alignment fault of a load or store of 64 bytes, with its address; None if aligned."""
    return _misaligned(cpu, word, _BYTES, write=word >> 14 & 1 == 0)


def _misaligned(cpu: UnicornCPU, word: int, size: int, *, write: bool) -> tuple[Routed, int] | None:
    address = cpu.engine.get(register(word >> 5 & 31))
    return (alignment_fault(cpu, write=write), address) if address % size else None


@contextmanager
def borrowed(cpu: UnicornCPU, general: int, governor: int) -> Iterator[None]:
    """A general register and a predicate register are as they were, once this is over."""
    kept, governing = cpu.engine.x(general), predicate(cpu, governor)
    places = vector_bits(cpu) // 8  # an exception may lead to a level with other vectors
    try:
        yield
    finally:
        set_predicate(cpu, governor, governing, places)
        cpu.engine.set_x(general, kept)


def bytes_64(cpu: UnicornCPU, word: int, execute: Callable[[int], bool]) -> bool:
    """Execute LD64B or ST64B, the operation at the PC. True if it raised an exception.

    Each memory here has them. The engine loads or stores four pairs, that of the base last.
    """
    engine, load = cpu.engine, word >> 14 & 1
    first, base = word & 31, word >> 5 & 31
    kept = [engine.x(first + n) for n in range(8)]
    pairs = sorted(range(4), key=lambda n: base - first in (2 * n, 2 * n + 1))
    for done, n in enumerate(pairs):
        if done:
            cpu.pc = cpu.pc - 4 & _MASK
        low = first + 2 * n
        if execute((_LDP if load else _STP) | 2 * n << 15 | low + 1 << 10 | base << 5 | low):
            for number, value in enumerate(kept):
                engine.set_x(first + number, value)
            return True
    return False


def quadword(cpu: UnicornCPU, row: Row, word: int, execute: Callable[[int], bool]) -> bool:
    """Execute an atomic of a quadword, the operation at the PC. True if it raised an exception.

    ``execute`` has the engine execute the word that it is given in place of the one at the PC, and
    says whether that raised an exception.
    """
    engine = cpu.engine
    base, operands = word & 31 << 5, (word & 31, word >> 16 & 31)
    scratch = tuple(n for n in range(3) if n != word >> 5 & 31)[:2]
    kept, values = (tuple(map(engine.x, numbers)) for numbers in (scratch, operands))
    both = base | scratch[0] | scratch[1] << 10

    def put(numbers: tuple[int, ...], contents: tuple[int, ...]) -> None:
        for number, value in zip(numbers, contents, strict=True):
            engine.set_x(number, value)

    raised = execute(_LDP | both)
    old = tuple(map(engine.x, scratch))
    if not raised:
        cpu.pc = cpu.pc - 4 & _MASK
        stored = (combined(row.form, *pair) & _MASK for pair in zip(old, values, strict=True))
        put(scratch, tuple(stored))
        raised = execute(_STP | both)
    put(scratch, kept)
    if not raised:
        put(operands, old)
    return raised


def octaword(cpu: UnicornCPU, row: Row, word: int, execute: Callable[[int], bool]) -> bool:
    """Execute an LD1RO, the operation at the PC. True if it raised an exception.

    The engine loads the first 32 bytes of a vector in its place: LD1 of the same elements, with no
    other one active.
    """
    engine, bits = cpu.engine, vector_bits(cpu)
    base, governor, index = word >> 5 & 31, word >> 10 & 7, word >> 16 & 31
    immediate = row.form == BY_IMMEDIATE
    if immediate:
        index = 1 if base == 0 else 0
    with borrowed(cpu, index, governor):
        if immediate:
            engine.set_x(index, octaword_offset(word) >> row.kind & _MASK)
        first = predicate(cpu, governor) & (1 << OCTAWORD) - 1
        set_predicate(cpu, governor, first, bits // 8)
        raised = execute(contiguous(row.kind, word, index))
    if not raised:
        loaded = vector(cpu, word & 31, 8 * OCTAWORD)
        copies = bits // (8 * OCTAWORD)
        whole = sum(loaded << 8 * OCTAWORD * n for n in range(copies))
        set_vector(cpu, word & 31, whole, bits)
    return raised
