"""A branch predictor: direction by gshare, targets by a BTB, returns by a return stack.

A :class:`Predictor` belongs to one PE. It is a flat array of numbers, so that :func:`resolve`,
which is compiled, can be called from compiled hooks by its address for each branch that a guest
executes.

- A conditional branch is predicted by a table of two-bit counters, indexed by its address and the
  directions of the conditional branches before it. Without such a history this is a bimodal
  predictor.
- A direct branch's target is known as soon as it is decoded, so it is never mispredicted.
- An indirect branch goes where the branch target buffer says it went last. A return goes to the
  address that the return stack has on top. Where these hold nothing, fetching goes on after the
  branch.

Whoever executes the guest tells the predictor of each branch exactly once, in program order, when
it is known where the branch went: :func:`resolve` answers with the address that had been predicted.
If that is not where the branch went, the branch was mispredicted, and a real core would have begun
to execute what lies at the predicted address. So a host that wants wrong paths needs no more than
the pair (predicted, actual) at each call of :func:`resolve`, before the block at ``actual`` is
counted.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.compiled import Pointer, Words, array_at, entry, int64, layout, record_at, routine
from spe_unicorn.cores.model_numbers import PredictorSizes
from spe_unicorn.stateful import expect


class Branch(IntEnum):
    """Kinds of branches, by how they are predicted."""

    NONE = 0
    """No branch, or one that nobody predicts (ERET)."""
    DIRECT = 1
    """B."""
    CONDITIONAL = 2
    """B.cond, CBZ, TBZ and the like."""
    CALL = 3
    """BL."""
    INDIRECT = 4
    """BR."""
    INDIRECT_CALL = 5
    """BLR."""
    RETURN = 6
    """RET."""


class BranchRow:
    """What is known of a branch before it is executed: what :func:`resolve` wants."""

    address: int
    kind: int
    """A :class:`Branch`."""
    target: int
    """Where a direct one goes."""


BRANCH: Final = layout(BranchRow)
_CONDITIONAL, _CALL, _INDIRECT = int(Branch.CONDITIONAL), int(Branch.CALL), int(Branch.INDIRECT)
_INDIRECT_CALL, _RETURN = int(Branch.INDIRECT_CALL), int(Branch.RETURN)

_HISTORY: Final = 0
_HISTORY_MASK: Final = 1
_COUNTERS_MASK: Final = 2
_BUFFER: Final = 3
_BUFFER_MASK: Final = 4
_STACK: Final = 5
_DEPTH: Final = 6
_TOP: Final = 7
"""Where the next return address goes, as a place in the stack."""
_HELD: Final = 8
"""How many return addresses there are."""
_RESOLVED: Final = 9
_MISPREDICTED: Final = 10
MISSED: Final = 11
"""Whether any branch since :meth:`Predictor.begin` was mispredicted."""
_COUNTERS: Final = 12
"""The header's length: counters come first after it."""
_WEAKLY_NOT_TAKEN: Final = 1
_TAKEN: Final = 2
_STRONGLY_TAKEN: Final = 3
_UNBOUNDED: Final = 1 << 40


class Predictor:
    """One PE's branch predictor."""

    STATE = ("words",)

    def __init__(self, sizes: PredictorSizes) -> None:
        buffer = _COUNTERS + sizes.counters
        stack = buffer + 2 * sizes.targets
        self.words = np.zeros(stack + sizes.returns, np.int64)
        self.words[_COUNTERS:buffer] = _WEAKLY_NOT_TAKEN
        # no branch has an odd address
        self.words[buffer:stack] = -1
        self.words[_HISTORY_MASK] = (1 << sizes.history) - 1
        self.words[_COUNTERS_MASK] = sizes.counters - 1
        self.words[_BUFFER] = buffer
        self.words[_BUFFER_MASK] = sizes.targets - 1
        self.words[_STACK] = stack
        self.words[_DEPTH] = sizes.returns

    def check_words(self, words: NDArray[np.int64]) -> None:
        """Raise StateError for words of another predictor: compiled code follows its places."""
        there = self.words[_HISTORY_MASK:_TOP]
        depth = int(self.words[_DEPTH])
        expect(bool((words[_HISTORY_MASK:_TOP] == there).all()), "the branch predictor")
        expect(0 <= int(words[_HISTORY]) <= int(there[0]), "the predictor's history")
        expect(0 <= int(words[_TOP]) < max(depth, 1), "a return address of the predictor")
        expect(0 <= int(words[_HELD]) <= depth, "a return address of the predictor")
        counters = words[_COUNTERS : int(self.words[_BUFFER])]
        expect(bool(((counters >= 0) & (counters <= _STRONGLY_TAKEN)).all()), "a branch's counter")

    def resolve(self, branch: int, kind: Branch, target: int, actual: int) -> int:
        """A branch has been executed; where it had been predicted to go. See :func:`resolve`."""
        wide = 1 << 64
        signed = (value - wide if value >> 63 else value for value in (branch, target, actual))
        branch, target, actual = signed
        predicted: int = resolve(self.words.ctypes.data, branch, kind, target, actual)
        return predicted % wide

    def begin(self) -> None:
        """An operation begins of which :attr:`missed` is to tell."""
        self.words[MISSED] = 0

    @property
    def missed(self) -> bool:
        """Whether a branch since :meth:`begin` was mispredicted."""
        return bool(self.words[MISSED])

    @property
    def resolved(self) -> int:
        """How many branches there have been."""
        return int(self.words[_RESOLVED])

    @property
    def mispredicted(self) -> int:
        """How many of them went elsewhere than predicted."""
        return int(mispredictions(self.words))


@routine
def mispredictions(predictor: Words) -> int:
    """How many branches went elsewhere than predicted. Python and compiled code both call this."""
    return predictor[_MISPREDICTED]


@entry("int64", "pointer", "int64", "int64", "int64", "int64")
def resolve(predictor: Pointer, branch: int, kind: int, target: int, actual: int) -> int:
    """Where the branch at ``branch``, which went to ``actual``, had been predicted to go.

    ``int64_t resolve(int64_t *predictor, int64_t branch, int64_t kind, int64_t target, int64_t
    actual)``, the first being ``words`` of a :class:`Predictor`. ``kind`` is one of :class:`Branch`
    but not NONE, ``target`` that of a direct branch, taken or not, and unused for others. A
    conditional branch whose target follows it counts as not taken.
    """
    p = array_at(predictor, (_UNBOUNDED,), np.int64)
    behind = branch + 4
    predicted = target
    if kind == _CONDITIONAL:
        counter = _COUNTERS + ((branch >> 2 ^ p[_HISTORY]) & p[_COUNTERS_MASK])
        state = p[counter]
        predicted = target if state >= _TAKEN else behind
        # without a branch of the host's, which it would mispredict where the guest does
        taken = int64(actual != behind)
        p[counter] = min(max(state + 2 * taken - 1, 0), _STRONGLY_TAKEN)
        p[_HISTORY] = (p[_HISTORY] << 1 | taken) & p[_HISTORY_MASK]
    elif kind == _RETURN:
        predicted = behind
        if p[_HELD] > 0:
            p[_HELD] -= 1
            p[_TOP] = (p[_TOP] if p[_TOP] > 0 else p[_DEPTH]) - 1
            predicted = p[p[_STACK] + p[_TOP]]
    elif kind >= _INDIRECT:
        entry = p[_BUFFER] + 2 * (branch >> 2 & p[_BUFFER_MASK])
        predicted = p[entry + 1] if p[entry] == branch else behind
        p[entry] = branch
        p[entry + 1] = actual
    if kind in (_CALL, _INDIRECT_CALL):
        p[p[_STACK] + p[_TOP]] = behind
        p[_TOP] = p[_TOP] + 1 if p[_TOP] + 1 < p[_DEPTH] else 0
        p[_HELD] = min(p[_HELD] + 1, p[_DEPTH])
    p[_RESOLVED] += 1
    missed = int64(predicted != actual)
    p[_MISPREDICTED] += missed
    p[MISSED] |= missed
    return predicted


@entry("int64", "pointer", "pointer", "int64")
def resolve_at(predictor: Pointer, branch: Pointer, actual: int) -> int:
    """The same for the branch of which a BRANCH at an address tells: 0 where it was predicted.

    ``int64_t resolve_at(int64_t *predictor, const int64_t branch[3], int64_t actual)`` returns
    ``actual`` XOR where it had been predicted to go.
    """
    b = record_at(branch, BRANCH)
    return resolve(predictor, b.address, b.kind, b.target, actual) ^ actual
