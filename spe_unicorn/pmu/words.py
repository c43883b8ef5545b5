"""The events that an instruction's word alone decides: each happens once when it retires.

Arm ARM D14.3. Nothing is executed speculatively here, so the events of operations that are counted
whether they retire or not (``_SPEC``) are the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from spe_unicorn.arch.operation import Family, Instruction, Mark
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1, TTBR0_EL1, TTBR1_EL1
from spe_unicorn.pmu.events import PMUEvent as E

_LOADS: Final = frozenset({Family.LOAD, Family.ATOMIC})
_STORES: Final = frozenset({Family.STORE, Family.ATOMIC, Family.ATOMIC_STORE})
_ENCODING: Final = 0xFFFF
_OP1_EL12: Final = 5 << 11
_OP1: Final = 7 << 11
_TABLE_BASES: Final = frozenset({TTBR0_EL1.encoding.key, TTBR1_EL1.encoding.key})
_CONTEXT: Final = frozenset({CONTEXTIDR_EL1.encoding.key})

WORD_EVENTS: Final = frozenset(
    {
        *(E.LD_RETIRED, E.ST_RETIRED, E.LD_SPEC, E.ST_SPEC, E.MEM_ACCESS),
        *(E.BR_RETIRED, E.BR_IMMED_RETIRED, E.BR_RETURN_RETIRED, E.BR_IND_RETIRED, E.EXC_RETURN),
        *(E.TTBR_WRITE_RETIRED, E.CID_WRITE_RETIRED, E.SIMD_INST_SPEC, E.FP_SPEC),
    }
)
"""All of them."""
JUMP_EVENTS: Final = frozenset({E.PC_WRITE_RETIRED, E.PC_WRITE_SPEC})
"""Those of software that writes the PC: a branch that is taken, an exception return."""
PART_EVENTS: Final = frozenset({E.OP_RETIRED, E.OP_SPEC})
"""Those of which an instruction makes as many as it has micro-operations."""


def jumps_always(instruction: Instruction) -> bool:
    """Whether it is a branch without a condition, or an exception return."""
    return instruction.family is Family.BRANCH and not instruction.conditional


def may_jump(instruction: Instruction) -> bool:
    """Whether it is a branch that another one follows where it is not taken."""
    return instruction.family is Family.BRANCH and instruction.conditional


@lru_cache(maxsize=1 << 14)
def events_of(instruction: Instruction) -> frozenset[E]:
    """The events of an instruction that retires."""
    found: set[E] = set()
    family = instruction.family
    if family in _LOADS:
        found |= {E.LD_RETIRED, E.LD_SPEC, E.MEM_ACCESS}
    if family in _STORES:
        found |= {E.ST_RETIRED, E.ST_SPEC, E.MEM_ACCESS}
    if family is Family.BRANCH:
        found |= _of_branch(instruction)
    if instruction.mark is Mark.ERET:
        found.add(E.EXC_RETURN)
    if instruction.mark is Mark.MSR:
        found |= _of_write(instruction.word >> 5 & _ENCODING)
    if instruction.simd or instruction.sve:
        found.add(E.SIMD_INST_SPEC)
    if instruction.fp:
        found.add(E.FP_SPEC)
    return frozenset(found)


def _of_branch(instruction: Instruction) -> set[E]:
    if instruction.target_offset is not None:
        return {E.BR_RETIRED, E.BR_IMMED_RETIRED}
    found = {E.BR_RETIRED, E.BR_IND_RETIRED}
    if instruction.procedure_return:
        found.add(E.BR_RETURN_RETIRED)
    return found


def _of_write(key: int) -> set[E]:
    """Those of an MSR; the _EL12 names are other names of the same registers."""
    if key & _OP1 == _OP1_EL12:
        key &= ~_OP1
    if key in _TABLE_BASES:
        return {E.TTBR_WRITE_RETIRED}
    return {E.CID_WRITE_RETIRED} if key in _CONTEXT else set()
