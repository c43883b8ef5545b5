"""Whether samples sit on suspiciously few places, as an interval keeps step with a loop.

Operations that follow one another without a branch are executed equally often. The targets of a
direct branch together are executed as often as the branch. So if one operation has many samples and
its successors have hardly any, the interval between samples is a multiple of a loop's length.
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
"""So many samples of one operation are certain; the second is for cores with micro-operations."""
_FEWER: Final = 32
"""An operation with so many times the samples of its successors is suspicious."""
_LEAVES: Final = frozenset({Mark.EXCEPTION, Mark.ERET, Mark.UNALLOCATED, Mark.WFI, Mark.WFE})
"""Operations that the next one in memory does not follow, or not soon."""


@dataclass(frozen=True)
class Resonance:
    """Of ``counted`` samples ``here`` are of the operation at ``pc``, ``next`` of successors."""

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
        return ()  # neighbours of an operation that makes the event need not make it
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

    ``counts`` are samples by address and instruction word. ``read_word`` gives the instruction word
    at an address now, None where there is none. An operation whose word has changed is left out.
    ``cracked`` is whether samples are of micro-operations.
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
    """Addresses of operations that together are executed as often as this one; empty if unknown."""
    if instruction.mark in _LEAVES:
        return ()
    if instruction.family is not Family.BRANCH:
        return (pc + 4,)
    if instruction.target_offset is None:
        return ()
    target = pc + instruction.target_offset
    return (pc + 4, target) if instruction.conditional else (target,)
