"""The events that an instruction's word alone decides: each happens once when it retires.

Arm ARM D14.3. Nothing is executed speculatively here, so the events of operations that are counted
whether they retire or not (``_SPEC``) are the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from spe_unicorn.arch.operation import (
    CostClass,
    Family,
    Instruction,
    Mark,
    RegisterKind,
    Structure,
)
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1, TTBR0_EL1, TTBR1_EL1
from spe_unicorn.pmu.events import PMUEvent as E

_LOADS: Final = frozenset({Family.LOAD, Family.ATOMIC})
_STORES: Final = frozenset({Family.STORE, Family.ATOMIC, Family.ATOMIC_STORE})
_ENCODING: Final = 0xFFFF
_TABLE_BASES: Final = frozenset({TTBR0_EL1.encoding.key, TTBR1_EL1.encoding.key})
_CONTEXT: Final = frozenset({CONTEXTIDR_EL1.encoding.key})

_PLAIN: Final = frozenset({Family.LOAD, Family.STORE})
_ADVANCED_SIMD: Final = 0xDE00_0000
_SCALAR: Final = 0x5E00_0000
"""Advanced SIMD scalar instructions, SHA1 and SHA256 among them."""
_NOT_SIMD: Final = (
    (0xFF20_F000, 0x0420_5000),  # ADDVL, ADDPL, RDVL, ADDSVL, ADDSPL, RDSVL
    (0xFF20_E000, 0x0420_E000),  # CNTB, INCB, SQINCB and their kin
    (0xFF20_F00F, 0x2520_2000),  # CTERMEQ, CTERMNE
)
"""Masks and words of SVE's instructions that are no SIMD (Arm ARM D14.1.1)."""

WORD_EVENTS: Final = frozenset(
    {
        E.LD_RETIRED,
        E.ST_RETIRED,
        E.LD_SPEC,
        E.ST_SPEC,
        E.MEM_ACCESS,
        E.BR_RETIRED,
        E.BR_IMMED_RETIRED,
        E.BR_RETURN_RETIRED,
        E.BR_IND_RETIRED,
        E.EXC_RETURN,
        E.TTBR_WRITE_RETIRED,
        E.CID_WRITE_RETIRED,
        E.SIMD_INST_SPEC,
        E.FP_SPEC,
    }
)
"""All of them."""
JUMP_EVENTS: Final = frozenset({E.PC_WRITE_RETIRED, E.PC_WRITE_SPEC})
"""Those of software that writes the PC: a branch that is taken, an exception return."""
STORED_EVENTS: Final = frozenset({E.ST_RETIRED})
"""Those of stores that leave out a store-exclusive that fails (Arm ARM D14.3, 0x0007)."""
LOAD_EVENTS: Final = frozenset({E.LD_RETIRED, E.LD_SPEC, E.MEM_ACCESS})
STORE_EVENTS: Final = frozenset({E.ST_RETIRED, E.ST_SPEC, E.MEM_ACCESS})
"""Those of a load and of a store, which FEAT_NV2 makes of MRS and MSR (Arm ARM D14.1.1)."""
PART_EVENTS: Final = frozenset({E.OP_RETIRED, E.OP_SPEC})
"""Those of which an instruction makes as many as it has micro-operations."""


def jumps_always(instruction: Instruction) -> bool:
    """Whether it is a branch without a condition, or an exception return."""
    return instruction.family is Family.BRANCH and not instruction.conditional


def may_jump(instruction: Instruction) -> bool:
    """Whether it is a branch that another one follows where it is not taken."""
    return instruction.family is Family.BRANCH and instruction.conditional


def may_fail(instruction: Instruction) -> bool:
    """Whether it is a store-exclusive, which may not store."""
    return instruction.exclusive and instruction.family is Family.STORE


@lru_cache(maxsize=1 << 14)
def events_of(instruction: Instruction) -> frozenset[E]:
    """The events of an instruction that retires, of a store-exclusive one that stores."""
    found: set[E] = set()
    family = instruction.family
    if family in _LOADS:
        found |= LOAD_EVENTS
    if family in _STORES:
        found |= STORE_EVENTS
    if family is Family.BRANCH:
        found |= _of_branch(instruction)
    if instruction.mark is Mark.ERET:
        found.add(E.EXC_RETURN)
    if instruction.mark is Mark.MSR:
        found |= _of_write(instruction.word >> 5 & _ENCODING)
    if _is_simd(instruction):
        found.add(E.SIMD_INST_SPEC)
    if instruction.fp:
        found.add(E.FP_SPEC)
    return frozenset(found)


def _is_simd(instruction: Instruction) -> bool:
    """Whether SIMD_INST_SPEC counts it, as from Armv9.5 on.

    Loads and stores: SVE's, structures of SIMD&FP registers, and Q registers. Data processing:
    Advanced SIMD without its scalar instructions, SVE without what computes with its vector length.
    """
    if instruction.family is not Family.OTHER:
        if instruction.registers is RegisterKind.SIMD_FP and instruction.family in _PLAIN:
            return instruction.structure is not Structure.NONE or not instruction.scalar
        return instruction.sve
    if instruction.sve:
        return not any(instruction.word & mask == word for mask, word in _NOT_SIMD)
    scalar = instruction.word & _ADVANCED_SIMD == _SCALAR
    return instruction.simd and (not scalar or instruction.cost is CostClass.CRYPTO)


def _of_branch(instruction: Instruction) -> set[E]:
    if instruction.target_offset is not None:
        return {E.BR_RETIRED, E.BR_IMMED_RETIRED}
    found = {E.BR_RETIRED, E.BR_IND_RETIRED}
    if instruction.procedure_return:
        found.add(E.BR_RETURN_RETIRED)
    return found


def _of_write(key: int) -> set[E]:
    """Those of an MSR, by the name that it writes: a write by an _EL12 name is none."""
    if key in _TABLE_BASES:
        return {E.TTBR_WRITE_RETIRED}
    return {E.CID_WRITE_RETIRED} if key in _CONTEXT else set()
