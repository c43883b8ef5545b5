"""Instruction words: what the A64 encoding tables say of each (Arm ARM C4).

:func:`decode` looks at the word alone. The bit patterns live in the neighbours named after their
group; what an instruction does with given registers is in ``decode_effects``, what a plain load or
store moves in ``decode_transfer``, and all of it is to be had from here.
"""

from __future__ import annotations

from functools import lru_cache

from spe_unicorn.arch.operation import CostClass, Instruction, Mark
from spe_unicorn.decode.branches import branch_or_system
from spe_unicorn.decode.data_processing import (
    data_processing_immediate,
    data_processing_register,
)
from spe_unicorn.decode.effects import (
    address_from,
    branch_taken,
    branch_target,
    condition_holds,
    effective_address,
    extended,
)
from spe_unicorn.decode.loads_stores import load_store
from spe_unicorn.decode.parts import unallocated
from spe_unicorn.decode.simd_fp import simd_and_floating_point
from spe_unicorn.decode.sve import consecutive_vectors, scalable_vector
from spe_unicorn.decode.transfer import Transfer, transfer

__all__ = [
    "Transfer",
    "address_from",
    "branch_taken",
    "branch_target",
    "condition_holds",
    "decode",
    "effective_address",
    "extended",
    "transfer",
]


@lru_cache(maxsize=1 << 17)
def decode(word: int) -> Instruction:
    """What the instruction ``word`` of 32 bits says; nothing known of it is ``UNALLOCATED``.

    ``writes`` never misses a general register, SP or the flags; where a group of instructions is
    not told apart further it holds what any of them writes.
    """
    return _GROUPS[word >> 25 & 15](word)


def _reserved(word: int) -> Instruction:
    """UDF, and loads and stores of several vectors; the rest is SME, which is not told apart."""
    if word >> 16:
        return consecutive_vectors(word)
    return Instruction(word, mark=Mark.EXCEPTION, cost=CostClass.SYSTEM)


_GROUPS = (
    _reserved,
    unallocated,
    scalable_vector,
    unallocated,
    load_store,
    data_processing_register,
    load_store,
    simd_and_floating_point,
    data_processing_immediate,
    data_processing_immediate,
    branch_or_system,
    branch_or_system,
    load_store,
    data_processing_register,
    load_store,
    simd_and_floating_point,
)
"""By bits 28:25."""
