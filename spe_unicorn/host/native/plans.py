"""How each member of the population in a block is described when it is the sampled one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from spe_unicorn.arch.operation import NZCV, SP, Family, Instruction, Mark
from spe_unicorn.arch.ports import Cracker
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.native.recipes.steps import Recipe
from spe_unicorn.host.native.recipes.values import Values
from spe_unicorn.host.native.state.plan_row import (
    PLAN_ACCESS,
    PLAN_ALIGN,
    PLAN_BASE,
    PLAN_BASE_AT_END,
    PLAN_DIVIDED,
    PLAN_EXACT,
    PLAN_EXTEND,
    PLAN_FLAGS,
    PLAN_FLAGS_AT_END,
    PLAN_FRAMES_AT_END,
    PLAN_INDEX,
    PLAN_INDEX_AT_END,
    PLAN_LINK_AT_END,
    PLAN_PLACE,
    PLAN_RECIPE,
    PLAN_RUN,
    PLAN_SHIFT,
    PLAN_SIZES,
    PLAN_WRITE,
)

WRITES: Final = frozenset({Family.STORE, Family.ATOMIC, Family.ATOMIC_STORE})
"""Families that write memory."""
_FRAME_POINTER, _LINK = 29, 30
_LARGEST: Final = 1 << PLAN_SIZES - 1
"""Bytes of an access from which on a plan has no room for their number."""
RUNS_ON: Final = frozenset({Mark.NONE, Mark.HINT, Mark.BARRIER, Mark.DSB, Mark.ISB, Mark.EXCEPTION})
"""Marks of operations that no hook and no host code has to see at their own place in a block."""


class When(IntEnum):
    """When a register has the value that the sampled operation finds in it."""

    START = 0
    END = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """How a member of the population in a block is described when it is the sampled one.

    ``instruction`` is the operation, or the micro-operation, and ``place`` is the operation's place
    in the block, counted from 0. If it is ``exact``, the host must step to the operation. Else
    ``base``, ``index`` and ``flags`` say when the values that the operation needs can be read. With
    a ``recipe`` compiled code works these values out before the block runs. ``divided`` says that a
    core model has to tell apart what this member did and what others of the operation did: by the
    address of each, which must then be known before the block runs.
    """

    instruction: Instruction
    place: int
    exact: bool
    base: When = When.START
    index: When = When.START
    flags: When = When.START
    recipe: Recipe | None = None
    divided: bool = False
    frames: When = When.START
    link: When = When.START
    """When X29 and X30 tell the calls that led to it."""

    @property
    def reads_at_end(self) -> bool:
        """Whether a register of its address is read after the block."""
        return When.END in (self.base, self.index)

    @property
    def words(self) -> tuple[int, int]:
        """The first two words of the plan as the compiled block hook reads it."""
        if self.exact:
            return PLAN_EXACT | self.place << PLAN_PLACE, 0
        word = PLAN_RUN | self.place << PLAN_PLACE
        if self.recipe is not None:
            word |= PLAN_RECIPE
        if self.frames is When.END:
            word |= PLAN_FRAMES_AT_END
        if self.link is When.END:
            word |= PLAN_LINK_AT_END
        detail = 0
        access = self.instruction.access
        if access is not None:
            word |= PLAN_ACCESS
            if self.instruction.family in WRITES:
                word |= PLAN_WRITE
            if access.base is not None:
                word |= _number(access.base) + 1 << PLAN_BASE
                if self.base is When.END:
                    word |= PLAN_BASE_AT_END
                    detail = (access.writeback or 0) << 32
            if access.index is not None:
                word |= _number(access.index) + 1 << PLAN_INDEX
                word |= access.extend << PLAN_EXTEND | access.shift << PLAN_SHIFT
                if self.index is When.END:
                    word |= PLAN_INDEX_AT_END
            if self.divided:
                word |= access.size.bit_length() << PLAN_DIVIDED
            if access.align_down:
                word |= access.align_down.bit_length() - 1 << PLAN_ALIGN
            detail += access.offset & 0xFFFF_FFFF
        if tests_flags(self.instruction):
            word |= PLAN_FLAGS if self.flags is When.START else PLAN_FLAGS_AT_END
        return word, detail


def plan_block(
    code: Sequence[Instruction],
    cracker: Cracker | None = None,
    *,
    loads: bool = False,
    modelled: bool = False,
    led: bool = False,
) -> list[Plan]:
    """The plan of each member of the population in a block, in order.

    ``loads``: memory that the block loads can be read beforehand, without any effect.
    ``modelled``: a core model tells what each member did. ``led``: frame records tell what led to
    each.
    """
    runs_on = all(i.mark in RUNS_ON for i in code)
    written_after = [0] * len(code)
    for k in range(len(code) - 2, -1, -1):
        written_after[k] = written_after[k + 1] | code[k + 1].writes
    plans = []
    written = 0
    values = Values(code, loads=loads)
    foresees = wanted("recipes")
    for k, instruction in enumerate(code):
        for part in cracked(instruction, cracker):
            plan = None
            divided = modelled and part.divided
            if runs_on and (not divided or _can_be_told_apart(part)):
                plan = _plan(part, k, written, written_after[k])
                if divided and plan is not None:
                    plan = None if plan.reads_at_end else replace(plan, divided=True)
                if plan is None and foresees:
                    plan = _foreseen(part, k, values, divided=divided)
                if plan is not None and led:
                    plan = _led(plan, written, instruction.writes | written_after[k])
            plans.append(plan or Plan(part, k, exact=True, divided=divided))
        written |= instruction.writes
    return plans


def cracked(instruction: Instruction, cracker: Cracker | None) -> tuple[Instruction, ...]:
    """The members of the population that an operation is."""
    return (instruction,) if cracker is None else cracker.parts(instruction)


def _plan(instruction: Instruction, place: int, before: int, after: int) -> Plan | None:
    """A plan that lets the block run, given what other operations of the block write."""
    access = instruction.access
    if not by_registers(instruction):
        return None
    # the registers of the address
    base = index = flags = When.START
    if access is not None:
        if access.base is not None:
            # after the block, a base that the operation moved can be moved back; a base that the
            # operation loaded over is gone
            kept = access.writeback is not None or not instruction.writes >> access.base & 1
            found = _when(access.base, before, after, kept=kept)
            if found is None or (found is When.END and access.index_writeback is not None):
                return None
            base = found
        if access.index is not None:
            kept = not instruction.writes >> access.index & 1
            found = _when(access.index, before, after, kept=kept)
            if found is None:
                return None
            index = found
    elif instruction.family not in (Family.OTHER, Family.BRANCH):
        return None
    # a branch, or an operation whose outcome depends on the flags
    if instruction.family is Family.BRANCH:
        # the next block begins where the branch went; that says nothing if both ways lead there
        if instruction.conditional and instruction.target_offset == 4:
            return None
    elif tests_flags(instruction):
        found = _when(NZCV, before, after, kept=not instruction.writes >> NZCV & 1)
        if found is None:
            return None
        flags = found
    return Plan(instruction, place, exact=False, base=base, index=index, flags=flags)


def _can_be_told_apart(part: Instruction) -> bool:
    """Whether compiled code can tell what the accesses of a part of an operation did."""
    access = part.access
    return access is not None and access.size & access.size - 1 == 0 < access.size < _LARGEST


def _foreseen(
    instruction: Instruction, place: int, values: Values, *, divided: bool = False
) -> Plan | None:
    """A plan by values that are worked out before the block runs."""
    access = instruction.access
    if not by_registers(instruction):
        return None
    needed: list[int | None] = [None, None, None]
    if access is not None:
        registers = [access.base, access.index, None]
    elif tests_flags(instruction):
        registers = [None, None, NZCV]
    else:
        return None
    values.go_on_to(place)
    for n, register in enumerate(registers):
        if register is not None:
            needed[n] = values.of(register)
            if needed[n] is None:
                return None
    recipe = values.recipe(*needed)
    if recipe is None:
        return None
    return Plan(instruction, place, exact=False, recipe=recipe, divided=divided)


def _led(plan: Plan, before: int, after: int) -> Plan | None:
    """The plan with when X29 and X30 are read: ``after`` is what is written from its place on."""
    frames, link = (
        _when(register, before, after, kept=True) for register in (_FRAME_POINTER, _LINK)
    )
    if frames is None or link is None:
        return None
    return replace(plan, frames=frames, link=link)


def by_registers(instruction: Instruction) -> bool:
    """Whether general registers and the flags are all that it takes to describe an operation.

    Predicates, vectors and their length can be read only right before it. Compiled code neither
    authenticates pointers nor translates addresses as EL0.
    """
    access = instruction.access
    return not (
        instruction.sve or (access is not None and (access.authenticated or access.unprivileged))
    )


def tests_flags(instruction: Instruction) -> bool:
    """Whether NZCV decides what the operation did, and its next PC does not show it."""
    return instruction.conditional and instruction.family is Family.OTHER


def _when(register: int, before: int, after: int, *, kept: bool) -> When | None:
    """When ``register`` has the value that the operation finds in it."""
    if not before >> register & 1:
        return When.START
    if kept and not after >> register & 1:
        return When.END
    return None


def _number(register: int) -> int:
    """The engine's number of X0 to X30, or of SP as 31."""
    return e.SP if register == SP else e.X[register]
