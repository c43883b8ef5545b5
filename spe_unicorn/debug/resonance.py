"""Whether samples sit on suspiciously few places: an interval that keeps step with a loop.

Operations that follow one another without a branch are executed equally often, and where a direct
branch goes, as often as the branch. Where many samples are of one of them and hardly any of the
next, the intervals between samples are multiples of a loop's length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.operation import Family, Instruction, Mark
from spe_unicorn.arch.registers.spe import PMSIRR_EL1
from spe_unicorn.debug.places import Place, place
from spe_unicorn.decode import decode
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement

_MANY: Final = 48
_MANY_PARTS: Final = 256
"""As many samples as make it certain; with micro-operations an instruction is so many of them."""
_FEWER: Final = 32
"""Neighbours are suspicious that differ by this factor."""
_LEAVES: Final = frozenset({Mark.EXCEPTION, Mark.ERET, Mark.UNALLOCATED, Mark.WFI, Mark.WFE})
"""What the next operation in memory does not follow, or not soon."""


@dataclass(frozen=True)
class Resonance:
    """Of ``counted`` samples ``here`` are of the operation at ``pc``, ``next`` of those after."""

    pc: int
    here: int
    next: int
    counted: int


@dataclass(frozen=True)
class FewPlaces:
    """What a user is told of a PE whose samples sit on few places."""

    cpu: int
    place: Place
    found: Resonance
    advice: str

    def __str__(self) -> str:
        return (
            f"{self.found.here} of {self.found.counted} samples are of one operation, {self.place},"
            f" {self.found.next} of what follows it as often: {self.advice}"
        )


def few_places(board: Board) -> tuple[FewPlaces, ...]:
    """The PEs of a board whose samples keep step with a loop."""
    found = []
    sampling = board.options.sampling
    if sampling is not None and sampling.event is not None:
        return ()  # the operations around one that makes the event need not make it
    for pe in board.pes:

        def read_word(address: int, pe: ProcessingElement = pe) -> int | None:
            words = pe.cpu.virtual.code(address, 1)
            return None if words is None else words[0]

        one = resonance(pe.unit.tally.counts, read_word, cracked=pe.unit.cracker is not None)
        if one is not None:
            found.append(FewPlaces(pe.number, place(board, one.pc), one, _advice(board, pe)))
    return tuple(found)


def _advice(board: Board, pe: ProcessingElement) -> str:
    if board.options.sampling is not None:
        every = f"every {board.options.sampling.period}th operation keeps step with a loop"
        return f"{every}; leave --no-jitter out, or take another -c"
    pmsirr = pe.cpu.registers.read(PMSIRR_EL1)
    every = f"an interval of {pmsirr.INTERVAL * 256 + 1} operations keeps step with a loop"
    return f"{every}; {'take another INTERVAL' if pmsirr.RND else 'set PMSIRR_EL1.RND'}"


def resonance(
    counts: Mapping[tuple[int, int], int],
    read_word: Callable[[int], int | None],
    *,
    cracked: bool = False,
) -> Resonance | None:
    """The most sampled operation whose successors are hardly sampled, None if there is none.

    ``counts`` are samples by address and instruction word. ``read_word`` is the code as it is now,
    None where there is none; where it has changed nothing is said. ``cracked`` is whether samples
    are of micro-operations.
    """
    counted = sum(counts.values())
    for (pc, word), here in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if here < (_MANY_PARTS if cracked else _MANY):
            return None
        behind = _successors(pc, decode(word))
        if not behind or pc in behind or read_word(pc) != word:
            continue
        words = [(place, read_word(place)) for place in behind]
        following = sum(counts.get((p, w), 0) for p, w in words if w is not None)
        if following * _FEWER < here and all(w is not None for _, w in words):
            return Resonance(pc, here, following, counted)
    return None


def _successors(pc: int, instruction: Instruction) -> tuple[int, ...]:
    """Where operations are that together are executed as often as this one; none if unknown."""
    if instruction.mark in _LEAVES:
        return ()
    if instruction.family is not Family.BRANCH:
        return (pc + 4,)
    if instruction.target_offset is None:
        return ()
    target = pc + instruction.target_offset
    return (pc + 4, target) if instruction.conditional else (target,)
