"""What an instruction does with the registers at hand: addresses, conditions, branches."""

from __future__ import annotations

from collections.abc import Sequence

from spe_unicorn.arch.operation import Access, Extend, Family, Instruction, Mark
from spe_unicorn.bits import signed

_MASK = (1 << 64) - 1
_UXTW, _SXTW, _REMAINS = int(Extend.UXTW), int(Extend.SXTW), int(Extend.REMAINS)


def effective_address(
    access: Access, pc: int, x: Sequence[int], sp: int, vector_length: int = 128
) -> int:
    """The virtual address that ``access`` goes to, 64 bits.

    ``pc`` is that of the instruction, ``x`` X0 to X30 before it, ``vector_length`` in bits.
    A pointer authentication code (``access.authenticated``) is still in the result: how many bits
    it has is known to the translation regime alone.
    """
    base = pc if access.base is None else sp if access.base == 31 else x[access.base]
    index = 0 if access.index is None else x[access.index]
    return address_from(access, base, index, vector_length)


def address_from(access: Access, base: int, index: int, vector_length: int = 128) -> int:
    """:func:`effective_address` by the values of the base, or PC, and of the index, if any."""
    offset = access.offset
    if access.scalable:
        offset = offset * vector_length // 128
    offset += base
    index = 0 if access.index is None else index
    return address_of(offset, index, access.extend, access.shift, access.align_down or 1) & _MASK


def address_of(base: int, index: int, extend: int, shift: int, align: int) -> int:
    """An address by what enters it, modulo 2^64: rounded down to ``align``, a power of two.

    Numbers alone: compiled code calls it, too.
    """
    return base + (extended(index, extend) << shift) & -align


def extended(value: int, extend: int) -> int:
    """A register that enters an address, before its shift (``extend`` is an :class:`Extend`).

    Numbers alone: compiled code calls it, too.
    """
    if extend == _UXTW:
        return value & 0xFFFF_FFFF
    if extend == _SXTW:
        return (value & 0xFFFF_FFFF ^ 0x8000_0000) - 0x8000_0000
    if extend == _REMAINS:
        return value if value >> 63 & 1 else 0
    return value


def condition_holds(condition: int, nzcv: int) -> bool:
    """ConditionHolds(): ``nzcv`` has N in bit 3 and V in bit 0. AL and NV always hold."""
    n, z, c, v = nzcv >> 3 & 1, nzcv >> 2 & 1, nzcv >> 1 & 1, nzcv & 1
    kind = condition >> 1
    if kind == 7:
        return True
    if kind < 4:  # EQ, CS, MI, VS
        holds = (z | c << 1 | n << 2 | v << 3) >> kind & 1
    elif kind == 4:  # HI
        holds = c & ~z
    elif kind == 5:  # GE
        holds = 1 ^ n ^ v
    else:  # GT
        holds = (1 ^ n ^ v) & ~z
    return holds != condition & 1


def branch_taken(instruction: Instruction, x: Sequence[int], nzcv: int) -> bool:
    """Whether the branch goes to its target, by X0 to X30 and the flags before it.

    Raises ValueError for what is no branch.
    """
    if instruction.family is not Family.BRANCH:
        raise ValueError(f"{instruction.word:#010x} is no branch")
    if not instruction.conditional:
        return True
    if instruction.condition is not None:
        return condition_holds(instruction.condition, nzcv)
    word = instruction.word
    value = _register(x, word & 31)
    kind = word >> 25 & 0x3F
    if kind == 0b011010:  # CBZ, CBNZ
        if not word >> 31:
            value &= 0xFFFF_FFFF
        return (value != 0) == bool(word >> 24 & 1)
    if kind == 0b011011:  # TBZ, TBNZ
        return value >> (word >> 26 & 32 | word >> 19 & 31) & 1 == word >> 24 & 1
    return _compare_and_branch(word, value, x)


def _compare_and_branch(word: int, value: int, x: Sequence[int]) -> bool:
    """CB<cc>: registers of 64, 32, 16 or 8 bits, or a register and an unsigned 6-bit number."""
    bits = 64 if word >> 31 else 32
    relation = word >> 21 & 7
    if word >> 24 & 1:
        other = word >> 15 & 63
        less = relation in (1, 3)  # LT and LO take the places of GE and HS
    else:
        bits = {2: 8, 3: 16}.get(word >> 14 & 3, bits)
        other = _register(x, word >> 16 & 31)
        less = False
    mask = (1 << bits) - 1
    value, other = value & mask, other & mask
    if relation >= 6:
        return (value == other) == (relation == 6)
    if relation < 2:
        value, other = signed(value, bits), signed(other, bits)
    if less:
        return value < other
    return value >= other if relation & 1 else value > other


def branch_target(instruction: Instruction, pc: int, x: Sequence[int]) -> int | None:
    """Where a branch at ``pc`` goes when it is taken, 64 bits.

    None for ERET and for the branches that authenticate their pointer, and for what is no branch.
    """
    if instruction.target_offset is not None:
        return pc + instruction.target_offset & _MASK
    word = instruction.word
    plain = word & 0xFF1F_FC1F == 0xD61F_0000  # BR, BLR, RET
    if instruction.mark is Mark.ERET or not plain or instruction.family is not Family.BRANCH:
        return None
    return _register(x, word >> 5 & 31)


def _register(x: Sequence[int], register: int) -> int:
    """The value of Xn where 31 is XZR."""
    return 0 if register == 31 else x[register]
