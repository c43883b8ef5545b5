"""How the decoder would have an instruction predicted, against which compiled code is held."""

from __future__ import annotations

from spe_unicorn.arch.operation import Family, Instruction, Mark
from spe_unicorn.cores.predictor import Branch


def branch_kind(instruction: Instruction) -> Branch:
    """How an instruction is predicted as a branch."""
    if instruction.family is not Family.BRANCH or instruction.mark is Mark.ERET:
        return Branch.NONE
    if instruction.procedure_return:
        return Branch.RETURN
    if instruction.indirect:
        return Branch.INDIRECT_CALL if instruction.link else Branch.INDIRECT
    if instruction.conditional:
        return Branch.CONDITIONAL
    return Branch.CALL if instruction.link else Branch.DIRECT
