"""Loads and stores of SIMD structures: LD1 to LD4, ST1 to ST4 and their kin (Arm ARM C4.1.96)."""

from __future__ import annotations

from spe_unicorn.arch.operation import Access, Instruction, RegisterKind, Structure
from spe_unicorn.decode.parts import memory, unallocated

_MULTIPLE = {0: (1, 4), 2: (4, 1), 4: (1, 3), 6: (3, 1), 7: (1, 1), 8: (1, 2), 10: (2, 1)}
"""opcode of LD1 to LD4: how often it repeats, elements in a structure."""


def structure_load_store(word: int) -> Instruction:
    """LD1 to LD4, ST1 to ST4, LD1R to LD4R, LDAP1, STL1."""
    post, rm = word >> 23 & 1, word >> 16 & 31
    if word >> 31:
        return unallocated(word)
    if word >> 24 & 1:
        return _single_structure(word, post, rm)
    shape = _MULTIPLE.get(word >> 12 & 15)
    if shape is None or word >> 21 & 1 or (not post and rm):
        return unallocated(word)
    repeat, elements = shape
    size, quad = word >> 10 & 3, word >> 30 & 1
    if size == 3 and not quad and elements > 1:
        return unallocated(word)
    structure = Structure.MULTIPLE if elements == 1 else Structure.INTERLEAVED
    count = repeat * elements
    where = _access(word, count * (8 << quad), 1 << size, post, rm)
    return _vector(word, where, count, structure)


def _single_structure(word: int, post: int, rm: int) -> Instruction:
    opcode, size, s = word >> 13 & 7, word >> 10 & 3, word >> 12 & 1
    load, r = word >> 22 & 1, word >> 21 & 1
    ordered = False
    if not post and rm:
        # LDAP1, STL1: the one form whose Rm field is an opcode
        ordered = rm == 1 and opcode == 4 and size == 1 and not s and not r
        if not ordered:
            return unallocated(word)
    scale = opcode >> 1
    elements = (opcode & 1) * 2 + r + 1
    structure = Structure.LANE
    if scale == 3:  # load and replicate
        if not load or s:
            return unallocated(word)
        scale = size
        structure = Structure.REPLICATE
    elif scale == 1 and size & 1:
        return unallocated(word)
    elif scale == 2:
        if size & 2 or (size and s):
            return unallocated(word)
        scale += size
    where = _access(word, elements << scale, 1 << scale, post, rm)
    return _vector(word, where, elements, structure, ordered=ordered)


def _access(word: int, total: int, element: int, post: int, rm: int) -> Access:
    """The ``total`` bytes from the base on, in pieces of ``element``."""
    return Access(
        word >> 5 & 31,
        0,
        total,
        element,
        writeback=total if post and rm == 31 else None,
        index_writeback=rm if post and rm != 31 else None,
    )


def _vector(
    word: int, where: Access, count: int, structure: Structure, *, ordered: bool = False
) -> Instruction:
    return memory(
        word,
        where,
        load=bool(word >> 22 & 1),
        registers=RegisterKind.SIMD_FP,
        count=count,
        structure=structure,
        ordered=ordered,
    )
