"""Awaited events of the core model's caches: the engine stops at the very operation that makes one.

Whether an access misses is known when it is made, in the midst of an operation. The run has to end
before that operation, so that it can be sampled, or after it, where a counter overflows. So the
hook for accesses, which finds that a count has reached its goal, keeps the engine's registers and
stops it. Python puts the registers back: nothing of the operation has happened then, but that the
core model knows of its first accesses, and that a store is made twice with the same value. The
operation is then executed anew, by itself. Accesses that the model knows change nothing in it: they
are the most recent ones (``cores.caches``). They are not counted again, and what is noted of them
is what they did the first time.

**Hits.** An event that any access may make (HITS) is awaited only close to its goal, within CLOSE.
From there on each access calls a hook: none is compared with the one before it. An atomic, or a
store-exclusive, is taken back at its read, if it may reach the goal: its store would show.

Some operations cannot be taken back (``marks.MARK_WHOLE``): the engine does not leave in their
midst. Before a block with one of them the engine stops if the block might make the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from spe_unicorn.compiled import (
    Pointer,
    Words,
    address_of,
    array_at,
    entry,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.caches import (
    COUNTS,
    L1_TLB,
    L1D,
    L1D_REFILL,
    L2_TLB_ACCESS,
    L2D_REFILLS,
    LINES,
    MASK,
    NOTE_WORDS,
    NOTED,
    OUTCOME,
    PAGES,
    PEER_CORES,
    UNBOUNDED,
    UNNOTED,
    WAYS,
    Happening,
    notes_of,
)
from spe_unicorn.cores.predictor import mispredictions
from spe_unicorn.host.engine.engine import PC, Engine, lib
from spe_unicorn.host.native.calls import call_context, call_register, stop_engine
from spe_unicorn.host.native.marks import MARK_EXCLUSIVE, MARK_FP, MARK_SVE, marks_of
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import forget_access
from spe_unicorn.host.native.state.whole import LAYOUT

HITS: Final = frozenset({Happening.TLB, Happening.L1D})
"""What accesses make that touch what was touched last."""
CLOSE: Final = 1 << 14
"""So far from its goal, in events, and closer one of these is awaited."""
_CACHES: Final = len(Happening)
MISPREDICTIONS: Final = _CACHES
"""Where goals, beside those of each :class:`Happening`, have that of mispredicted branches."""
LAST_LEVEL: Final = _CACHES + 1
"""Where they have that of accesses to the last level of cache."""
_GOALS: Final = _CACHES + 2
_MISSED: Final = L1D_REFILL | L2_TLB_ACCESS
"""What each access has done that counts as one of those."""
_NEVER: Final = 1 << 62
_MISSES: Final = 16
"""Accesses that missed which are kept, a power of two: more than one operation has."""
_MISS: Final = 4
"""Words of each: address, size in bytes, what it did, lines that had been touched before it."""
MOST_OF_OPERATION: Final = 1 << 3
"""The most events of an operation of a block that has none of vectors."""
MOST_OF_VECTORS: Final = 1 << 8
"""The same of a block that has some: the engine makes an access of each element of a structure."""
_MOST_LINES: Final = 2
"""The most lines, and pages, that an access reaches into."""
_SETS: Final = 8
_MASK: Final = (1 << 64) - 1
_PC: Final = int(PC)
_AWAITED: Final = int(Stop.AWAITED)
STOPS, STANDS = 1, 2
NOTHING, FOUND, TAKEN_BACK, AGAIN = range(4)
"""``AwaitedRecord.phase``: nothing was found; an access has reached a goal, and the engine runs;
the engine leaves, or has left; the operation is executed anew."""


class AwaitedRecord:
    """What one PE's hook for accesses has to look out for, and what it has found."""

    armed: int
    """Whether runs of now stop where a goal is reached: STOPS. STANDS: the engine has stopped."""
    close: int
    """Whether a goal is one of HITS."""
    goals: int
    """By :class:`Happening`, the counts of the core model that are goals; and MISPREDICTIONS and
    LAST_LEVEL."""
    misses: int
    """The ring of accesses that missed."""
    next: int
    """How many of them there have been."""
    phase: int
    pc: int
    """The address of the operation that reached the goal."""
    address: int
    size: int
    write: int
    """The access that did, and whether it is a store."""
    before: int
    """The lines that had been touched before that access."""
    passed: int
    """The lines that the operation has touched before that access, as it is executed anew."""
    context: int
    """Where the registers are kept."""
    branches: int
    """1 if a branch has reached a goal, else 0."""
    branch: int
    """The address of that branch."""
    actual: int
    """Where it went."""


AWAITED: Final = layout(AwaitedRecord)


@routine
def last_level_accesses(own: Words) -> int:
    """How many accesses there have been to the last level of cache.

    Python and compiled code both call this.
    """
    return own[L2D_REFILLS] - own[PEER_CORES]


@routine
def _is_reached(own: Words, goals: Words, more: int) -> bool:
    """Whether one of the goals of accesses is reached once each count has moved by ``more``."""
    reached = last_level_accesses(own) + more >= goals[LAST_LEVEL]
    for n in range(_CACHES):
        reached |= own[COUNTS + n] + more >= goals[n]
    return reached


@routine
def is_at_hand(a: AwaitedRecord, own: Words) -> bool:
    """Whether two accesses, neither in more than two lines, may reach a goal, one of HITS."""
    if a.armed == 0 or a.close == 0:
        return False
    return _is_reached(own, array_at(pointer_to(a.goals), (_GOALS,), np.int64), 2 * _MOST_LINES)


@routine
def stores_what_it_read(word: int) -> bool:
    """Whether an operation reads memory, and then may store there: LDADD, SWP, CAS, STXR, ..."""
    atomic = word & 0x3F20_0C00 == 0x3820_0000
    swaps = word & 0x3FA0_7C00 == 0x08A0_7C00
    return atomic or swaps or marks_of(word) & MARK_EXCLUSIVE != 0


@routine
def counted(
    a: AwaitedRecord,
    own: Words,
    access: tuple[int, int, int],
    outcome: int,
    lines: int,
    stores: int,
) -> None:
    """An access has been made, after ``lines`` lines had been touched: see if it reaches a goal.

    ``access`` is its address, its size in bytes, and whether it is a store. ``stores`` is whether
    its operation stores later on.
    """
    address, size, write = access
    if outcome & _MISSED != 0:
        misses = array_at(pointer_to(a.misses), (_MISSES * _MISS,), np.int64)
        row = (a.next & _MISSES - 1) * _MISS
        misses[row] = address
        misses[row + 1] = size
        misses[row + 2] = outcome
        misses[row + 3] = lines
        a.next += 1
    elif a.close == 0:
        return
    goals = array_at(pointer_to(a.goals), (_GOALS,), np.int64)
    if a.phase == NOTHING and _is_reached(own, goals, _MOST_LINES * stores):
        a.phase = FOUND
        a.address, a.size, a.write, a.before = address, size, write, lines


@routine
def leave(a: AwaitedRecord, state: StateRecord, engine: Pointer, place: int) -> None:
    """Within an access that has reached a goal: keep the registers, and stop the engine.

    ``place`` is the address of ``a``.
    """
    a.phase = TAKEN_BACK
    forget_access(state)
    call_register(state.reg_read, address_of(engine), _PC, place + _PC_AT)
    call_context(state.context_save, address_of(engine), a.context)
    state.stop = _AWAITED
    stop_engine(state, engine)


@routine
def _recall(a: AwaitedRecord, own: Words) -> None:
    """Note what the accesses had done that the operation has made anew."""
    if own[NOTED] == UNNOTED:
        return
    misses = array_at(pointer_to(a.misses), (_MISSES * _MISS,), np.int64)
    begun = a.before - a.passed
    first = notes_of(own)
    for number in range(max(a.next - _MISSES, 0), a.next):
        row = (number & _MISSES - 1) * _MISS
        if misses[row + 3] < begun:
            continue
        own[OUTCOME] |= misses[row + 2]
        for place in range(first, first + own[NOTED] * NOTE_WORDS, NOTE_WORDS):
            if own[place] == misses[row] and own[place + 1] == misses[row + 1]:
                own[place + 2] |= misses[row + 2]


@routine
def made_again(
    a: AwaitedRecord, own: Words, access: tuple[int, int, int], pages: int, lines: int
) -> None:
    """The operation that is executed anew has made an access that had been counted before.

    ``pages`` and ``lines`` are the counts of pages and lines before it was made anew. If it is the
    one that reached the goal, what it and those before it had done is noted: from here on the
    operation makes accesses of which the model does not know.
    """
    more = own[LINES] - lines
    own[PAGES], own[LINES] = pages, lines
    address, size, write = access
    if address == a.address and size == a.size and write == a.write:
        a.phase = NOTHING
        _recall(a, own)
    else:
        a.passed += more


@routine
def may_reach(a: AwaitedRecord, own: Words, operations: int, marks: int) -> bool:
    """Whether a block with MARK_WHOLE might reach a goal."""
    if a.armed == 0:
        return False
    vectors = marks & (MARK_SVE | MARK_FP) != 0
    most = operations * (MOST_OF_VECTORS if vectors else MOST_OF_OPERATION)
    return _is_reached(own, array_at(pointer_to(a.goals), (_GOALS,), np.int64), most)


@entry("void", "pointer", "pointer", "int64", "int64", "int64")
def on_awaited_branch(
    engine: Pointer, user: Pointer, branch: int, predicted: int, actual: int
) -> None:
    """A branch was mispredicted: if that reaches a goal, stop before the block it led to."""
    state = record_at(user, LAYOUT)
    a = record_at(pointer_to(state.awaited), AWAITED)
    if a.armed == 0 or a.branches != 0:
        return
    goals = array_at(pointer_to(a.goals), (_GOALS,), np.int64)
    if (
        mispredictions(array_at(pointer_to(state.predictor), (UNBOUNDED,), np.int64))
        < (goals[MISPREDICTIONS])
    ):
        return
    a.branches = 1
    a.branch, a.actual = branch, actual
    if a.armed == STOPS:
        end_after_block(state)


_PC_AT: Final = int(AWAITED.fields["pc"][1])


class Awaited:
    """The awaited events of one PE: of its ``engine`` and its core ``model``."""

    DERIVED = ("_goals", "_misses", "_row")
    TRANSIT = ("_context",)

    def __init__(self, engine: Engine, model: CacheModel) -> None:
        self._engine = engine
        own = model.data.words
        self.suits: bool = all(
            own[level + WAYS] >= _SETS or (own[level + WAYS] > 1 and own[level + MASK] + 1 >= _SETS)
            for level in (L1_TLB, L1D)
        )
        """Whether what an operation has accessed stays while it accesses more."""
        self._goals = np.full(_GOALS, _NEVER, np.int64)
        self._misses = np.zeros(_MISSES * _MISS, np.int64)
        self._row = np.zeros(1, AWAITED)
        self._context = engine.uc.context_save()
        row = self._row[0]
        row["goals"] = self._goals.ctypes.data
        row["misses"] = self._misses.ctypes.data
        row["context"] = self._context.context.value

    @property
    def address(self) -> int:
        """Where the :class:`AwaitedRecord` is."""
        return self._row.ctypes.data

    def arm(self, goals: Mapping[int, int]) -> None:
        """Have runs from now on stop at the operation by which a count reaches its goal."""
        row = self._row[0]
        row["armed"], row["branches"] = STOPS if goals else 0, 0
        row["close"] = not HITS.isdisjoint(goals)
        if goals:
            self._goals[:] = _NEVER
            for what, goal in goals.items():
                self._goals[what] = min(goal, _NEVER)

    @property
    def closes_in(self) -> bool:
        """Whether the runs that :meth:`arm` prepared for have a goal of HITS."""
        return bool(self._row["armed"][0] and self._row["close"][0])

    def disarm(self) -> None:
        """The run is over, and all branches have been told."""
        self._row["armed"][0] = 0

    def stand(self) -> None:
        """The engine has stopped: a branch whose way becomes known now does not stop it."""
        if self._row["armed"][0]:
            self._row["armed"][0] = STANDS

    def take_branch(self) -> tuple[int, int] | None:
        """The branch that reached a goal in the last run, once: its address, and where it went."""
        row = self._row[0]
        if not row["branches"]:
            return None
        row["branches"] = 0
        return int(row["branch"]) & _MASK, int(row["actual"]) & _MASK

    def take_back(self) -> None:
        """The engine has stopped for an event: what the operation had done is taken back."""
        lib.uc_context_restore(self._engine.handle, self._context.context)
        self._engine.put(PC, int(self._row["pc"][0]) & _MASK)

    def again(self) -> None:
        """The operation is executed anew in the next run."""
        self._row["phase"][0] = AGAIN
        self._row["passed"][0] = 0

    def over(self) -> None:
        """It has been executed, or has ended otherwise."""
        self._row["phase"][0] = NOTHING
