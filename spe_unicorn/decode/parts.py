"""What the decoders of all groups share: bit fields, register sets, memory operations."""

from __future__ import annotations

from spe_unicorn.arch.operation import (
    NZCV,
    SP,
    Access,
    CostClass,
    Family,
    Instruction,
    Mark,
    RegisterKind,
    Structure,
)

FLAGS = 1 << NZCV
"""The condition flags as a register set."""
STACK = 1 << SP
"""The stack pointer as a register set."""
TAG_GRANULE = 16
"""Bytes that share an Allocation Tag."""
EVERYTHING = (1 << NZCV + 1) - 1
"""Every general register, SP and the flags."""


def x(register: int) -> int:
    """The set of Xn or Wn where 31 is XZR, which is in no set."""
    return 1 << register & ~STACK


def xsp(register: int) -> int:
    """The set of Xn or Wn where 31 is SP."""
    return 1 << register


def xs(first: int, count: int) -> int:
    """The set of ``count`` consecutive registers from X``first``; XZR is in no set."""
    return ((1 << count) - 1 << first) & STACK - 1


def unallocated(word: int) -> Instruction:
    """A word of which nothing is known: it may read and write every register."""
    return Instruction(word, mark=Mark.UNALLOCATED, reads=EVERYTHING, writes=EVERYTHING)


def memory(
    word: int,
    access: Access | None,
    *,
    load: bool,
    data: int = 0,
    reads: int = 0,
    writes: int = 0,
    registers: RegisterKind = RegisterKind.GENERAL,
    count: int = 1,
    structure: Structure = Structure.NONE,
    scalar: bool = False,
    ordered: bool = False,
    exclusive: bool = False,
    mark: Mark = Mark.NONE,
) -> Instruction:
    """A load or store. The registers of ``access`` are added to ``reads`` and ``writes``.

    ``data`` is the set of general registers that a load writes or a store reads, ``count`` the
    number of registers of any kind that it moves.
    """
    if load:
        writes |= data
    else:
        reads |= data
    return Instruction(
        word,
        family=Family.LOAD if load else Family.STORE,
        mark=mark,
        cost=CostClass.LOAD if load else CostClass.STORE,
        access=access,
        registers=registers,
        register_count=count,
        structure=structure,
        scalar=scalar,
        acquire_release=ordered,
        exclusive=exclusive,
        reads=reads | address_reads(access),
        writes=writes | address_writes(access),
    )


def simd_fp(
    word: int, where: Access, *, load: bool, scalar: bool, count: int = 1, ordered: bool = False
) -> Instruction:
    """A load or store of SIMD&FP registers; ``scalar`` of up to 64 bits."""
    return memory(
        word,
        where,
        load=load,
        registers=RegisterKind.SIMD_FP,
        count=count,
        scalar=scalar,
        ordered=ordered,
    )


def atomic(
    word: int,
    access: Access,
    *,
    reads: int = 0,
    writes: int = 0,
    returns: bool = True,
    ordered: bool = False,
) -> Instruction:
    """Reads and writes memory at once; ``returns`` says whether it gives the old value."""
    return Instruction(
        word,
        family=Family.ATOMIC if returns else Family.ATOMIC_STORE,
        cost=CostClass.ATOMIC,
        access=access,
        acquire_release=ordered,
        atomic=True,
        reads=reads | address_reads(access),
        writes=writes,
    )


def fetch_and_operate(word: int, size: int) -> Instruction:
    """LD<op> and SWP: bit 23 acquires, bit 22 releases.

    LD<op> to XZR is ST<op>: it returns nothing and so does not acquire. SWP stays what it is.
    """
    rt = word & 31
    returns = rt != 31 or bool(word >> 15 & 1)
    return atomic(
        word,
        Access(word >> 5 & 31, 0, size, size),
        reads=x(word >> 16 & 31),
        writes=x(rt),
        returns=returns,
        ordered=bool(word & (0x00C0_0000 if returns else 0x0040_0000)),
    )


def address_reads(access: Access | None) -> int:
    """The registers from which the address and the new base are made."""
    if access is None:
        return 0
    result = 0 if access.base is None else xsp(access.base)
    if access.index is not None:
        result |= x(access.index)
    if access.index_writeback is not None:
        result |= x(access.index_writeback)
    return result


def address_writes(access: Access | None) -> int:
    """The base register where the operation changes it."""
    if access is None or access.base is None:
        return 0
    if access.writeback is None and access.index_writeback is None:
        return 0
    return xsp(access.base)
