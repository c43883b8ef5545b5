"""Which loads and stores are checked by their tags (FEAT_MTE2)."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Family, Instruction

_STACK_POINTER: Final = 31
_ACCESSING: Final = frozenset({Family.LOAD, Family.STORE, Family.ATOMIC, Family.ATOMIC_STORE})
_TAG_STORES: Final = (
    (0xFF20_0000, 0xD920_0000),  # LDG, STG and its like, LDGM, STGM, STZGM
    (0xFE40_0000, 0x6800_0000),  # STGP
    (0xFFE0_0C00, 0x1DC0_0400),  # SETG
    (0xFFFF_FFE0, 0xD50B_7460),  # DC GVA
    (0xFFFF_FFE0, 0xD50B_7480),  # DC GZVA
)
"""Masks and values of instructions that access Allocation Tags."""


def is_tag_checked(instruction: Instruction) -> bool:
    """Whether the accesses of an operation are Tag Checked where memory is Tagged (Arm ARM D10.4).

    Not so are those relative to the PC, those relative to SP with an immediate offset and no
    write-back, and those of instructions that access tags.
    """
    if instruction.family not in _ACCESSING:
        return False
    if instruction.elements is not None:
        return True
    access, word = instruction.access, instruction.word
    if access is None or access.base is None:
        return False
    if any(word & mask == value for mask, value in _TAG_STORES):
        return False
    fixed = access.index is None and access.writeback is None and access.index_writeback is None
    return access.base != _STACK_POINTER or not fixed
