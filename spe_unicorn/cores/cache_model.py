"""The core model with caches, TLBs and a branch predictor: ``--model cache``.

Latencies are modelled, not measured. The host tells :attr:`CacheModel.data` of every data access
and :attr:`CacheModel.predictor` of every branch that the guest makes, and calls
:meth:`CacheModel.begin` before an operation that is sampled; :meth:`CacheModel.timing` then
tells what that operation did.

An operation takes what ``cores.model`` says of its class, and besides what its access takes longer
than one that hits in the L1 cache and the L1 TLB:

- every access waits for its translation;
- loads and atomics that return a value wait for their data; stores do not, they complete into a
  store buffer;
- one that is not aligned takes :data:`MISALIGNED` more.

Of an operation with several accesses the farthest counts. Where an instruction's accesses are
micro-operations, each tells of its own.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final

from spe_unicorn.arch.operation import CostClass, Family, Operation, Timing
from spe_unicorn.compiled import Words, routine
from spe_unicorn.cores.caches import (
    FROM_PEER_CLUSTER,
    FROM_PEER_CORE,
    L1D_ACCESS,
    L1D_REFILL,
    L2_TLB_ACCESS,
    L2D_ACCESS,
    L2D_MISS,
    LLC_ACCESS,
    LLC_MISS,
    MODIFIED_ELSEWHERE,
    OUTCOME,
    SNOOPED,
    TLB_ACCESS,
    TLB_WALK,
    DataSide,
    Grain,
    SharedCache,
)
from spe_unicorn.cores.model import EXECUTION, ISSUE
from spe_unicorn.cores.model_numbers import ModelNumbers
from spe_unicorn.cores.predictor import MISSED, Predictor

MISALIGNED: Final = 1
"""Cycles that an access takes longer for not being aligned."""
MISPREDICTED: Final = 1 << 7
"""The event of a mispredicted branch."""
_READS: Final = frozenset({Family.LOAD, Family.ATOMIC})
"""Families that wait for data."""
_DATA_EVENTS: Final = TLB_ACCESS | TLB_WALK | L1D_ACCESS | L1D_REFILL | LLC_ACCESS | LLC_MISS
_READ_EVENTS: Final = L2D_ACCESS | L2D_MISS | MODIFIED_ELSEWHERE | SNOOPED


class DataSource(IntEnum):
    """Where a load's data came from, in the numbering of the Neoverse cores."""

    L1D = 0x0
    L2 = 0x8
    PEER_CORE = 0x9
    SYSTEM_CACHE = 0xB
    PEER_CLUSTER = 0xC
    DRAM = 0xE


_SOURCES: Final = {
    DataSource.L1D: L1D_ACCESS,
    DataSource.L2: L2D_ACCESS,
    DataSource.PEER_CORE: FROM_PEER_CORE,
    DataSource.SYSTEM_CACHE: LLC_ACCESS,
    DataSource.PEER_CLUSTER: FROM_PEER_CLUSTER,
    DataSource.DRAM: LLC_MISS,
}
"""What an access does that goes at least so far."""


@routine
def what_was_done(data: Words, predictor: Words) -> int:
    """What the sampled operation did: what its accesses did, and MISPREDICTED.

    Given the ``words`` of a :class:`DataSide` and of a :class:`Predictor`. Python and compiled code
    both call this.
    """
    missed = MISPREDICTED if predictor[MISSED] != 0 else 0
    return data[OUTCOME] | missed


def last_level(numbers: ModelNumbers, pes: int = 1) -> SharedCache:
    """The last-level cache of a board, for all of its PEs."""
    return SharedCache(numbers.level("last"), pes, numbers.cluster)


class CacheModel:
    """One PE's model; ``last`` is the cache that it shares with others, by default with none."""

    def __init__(self, numbers: ModelNumbers, last: SharedCache | None = None) -> None:
        self.data = DataSide(
            l1_tlb=numbers.level("l1_tlb"),
            l2_tlb=numbers.level("l2_tlb"),
            l1d=numbers.level("l1d"),
            l2=numbers.level("l2"),
            last=last or last_level(numbers),
            grain=Grain(numbers.line, numbers.page),
        )
        self.predictor = Predictor(numbers.predictor)
        self._numbers = numbers
        self._cycles = {
            DataSource.L1D: numbers.l1d.cycles,
            DataSource.L2: numbers.l2.cycles,
            DataSource.PEER_CORE: numbers.peer_core,
            DataSource.SYSTEM_CACHE: numbers.last.cycles,
            DataSource.PEER_CLUSTER: numbers.peer_cluster,
            DataSource.DRAM: numbers.memory,
        }
        self._timing = lru_cache(maxsize=None)(self._work_out)

    def begin(self) -> None:
        """The next operation is sampled: note what it does, and nothing that others did."""
        self.data.begin()
        self.predictor.begin()

    def end(self) -> None:
        """It is seen to: note nothing of the operations that follow."""
        self.data.end()

    def timing(self, operation: Operation, did: int | None = None) -> Timing:
        """Latencies in cycles, events and data source of an operation.

        ``did`` is as :func:`what_was_done` told it; None: it is what the operations since
        :meth:`begin` did. An operation that has an address but made no access that the host saw
        takes what a hit takes, without events or a data source. One on a wrong path never came to
        know better.
        """
        instruction = operation.instruction
        if did is None:
            did = self._did(operation)
        # which element's address a gather or scatter shows has nothing to do with what it accessed
        scattered = instruction.gather_scatter and did & L1D_ACCESS
        return self._timing(
            instruction.cost,
            instruction.family,
            operation.va is not None or bool(scattered),
            operation.misaligned,
            did,
        )

    def _did(self, operation: Operation) -> int:
        did = int(what_was_done(self.data.words, self.predictor.words))
        if operation.misspeculated:
            did &= ~MISPREDICTED
        instruction = operation.instruction
        access, pa = instruction.elements or instruction.access, operation.pa
        if instruction.divided and access is not None and pa is not None:
            return self.data.outcome_at(pa, access.size)
        return did

    def _work_out(
        self,
        cost: CostClass,
        family: Family,
        translates: bool,
        misaligned: bool,
        outcome: int,
    ) -> Timing:
        numbers = self._numbers
        execution = ISSUE + EXECUTION[cost] + misaligned * MISALIGNED
        if family is Family.BRANCH:
            return Timing(execution, ISSUE, events=outcome & MISPREDICTED)
        if not translates:
            return Timing(execution, ISSUE)
        if not outcome & L1D_ACCESS:
            return Timing(execution, ISSUE, numbers.l1_tlb.cycles)
        reads = family in _READS
        source = self._source(outcome)
        translation = self._translation(outcome)
        total = execution + translation - numbers.l1_tlb.cycles
        if reads:
            total += self._cycles[source] - numbers.l1d.cycles
        events = outcome & (_DATA_EVENTS | _READ_EVENTS if reads else _DATA_EVENTS)
        if outcome & FROM_PEER_CLUSTER:
            events |= LLC_ACCESS | LLC_MISS
        return Timing(total, ISSUE, translation, events, source if reads else None)

    def _source(self, outcome: int) -> DataSource:
        """Of all places that lines came from, the one from which it took longest."""
        seen = [source for source, did in _SOURCES.items() if outcome & did]
        return max(seen, key=lambda source: (self._cycles[source], source))

    def _translation(self, outcome: int) -> int:
        numbers = self._numbers
        if outcome & TLB_WALK:
            return numbers.walk
        return numbers.l2_tlb.cycles if outcome & L2_TLB_ACCESS else numbers.l1_tlb.cycles
