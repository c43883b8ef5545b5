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
from spe_unicorn.cores.caches import (
    L1D_ACCESS,
    L1D_REFILL,
    L2_TLB_ACCESS,
    L2D_ACCESS,
    L2D_MISS,
    LLC_ACCESS,
    LLC_MISS,
    TLB_ACCESS,
    TLB_WALK,
    DataSide,
    SharedCache,
)
from spe_unicorn.cores.model import EXECUTION, ISSUE
from spe_unicorn.cores.model_numbers import ModelNumbers
from spe_unicorn.cores.predictor import Predictor

MISALIGNED: Final = 1
"""Cycles that an access takes longer for not being aligned."""
MISPREDICTED: Final = 1 << 7
"""The event of a mispredicted branch."""
_READS: Final = frozenset({Family.LOAD, Family.ATOMIC})
"""Families that wait for data."""
_DATA_EVENTS: Final = TLB_ACCESS | TLB_WALK | L1D_ACCESS | L1D_REFILL | LLC_ACCESS | LLC_MISS
_READ_EVENTS: Final = L2D_ACCESS | L2D_MISS


class DataSource(IntEnum):
    """Where a load's data came from, in the numbering of the Neoverse cores."""

    L1D = 0x0
    L2 = 0x8
    SYSTEM_CACHE = 0xB
    DRAM = 0xE


def last_level(numbers: ModelNumbers) -> SharedCache:
    """The last-level cache of a board, for all of its PEs."""
    return SharedCache(numbers.level("last"))


class CacheModel:
    """One PE's model; ``last`` is the cache that it shares with others, by default with none."""

    constant = False

    def __init__(self, numbers: ModelNumbers, last: SharedCache | None = None) -> None:
        self.data = DataSide(
            l1_tlb=numbers.level("l1_tlb"),
            l2_tlb=numbers.level("l2_tlb"),
            l1d=numbers.level("l1d"),
            l2=numbers.level("l2"),
            last=last or last_level(numbers),
            line=numbers.line,
            page=numbers.page,
        )
        self.predictor = Predictor(numbers.predictor)
        self._numbers = numbers
        self._cycles = {
            DataSource.L1D: numbers.l1d.cycles,
            DataSource.L2: numbers.l2.cycles,
            DataSource.SYSTEM_CACHE: numbers.last.cycles,
            DataSource.DRAM: numbers.memory,
        }
        self._timing = lru_cache(maxsize=None)(self._work_out)

    def begin(self) -> None:
        """The next operation is sampled: forget what others before it did."""
        self.data.begin()
        self.predictor.begin()

    def timing(self, operation: Operation) -> Timing:
        """Latencies in cycles, events and data source of the operation that has just been executed.

        An operation that has an address but made no access that the host saw takes what a hit
        takes, without events or a data source. One on a wrong path never came to know better.
        """
        instruction = operation.instruction
        access, pa = instruction.elements or instruction.access, operation.pa
        if instruction.divided and access is not None and pa is not None:
            outcome = self.data.outcome_at(pa, access.size)
        else:
            outcome = self.data.outcome
        # which element's address a gather or scatter shows has nothing to do with what it accessed
        scattered = instruction.gather_scatter and outcome & L1D_ACCESS
        return self._timing(
            instruction.cost,
            instruction.family,
            operation.va is not None or bool(scattered),
            operation.misaligned,
            outcome,
            self.predictor.missed and not operation.misspeculated,
        )

    def _work_out(
        self,
        cost: CostClass,
        family: Family,
        translates: bool,
        misaligned: bool,
        outcome: int,
        missed: bool,
    ) -> Timing:
        numbers = self._numbers
        execution = ISSUE + EXECUTION[cost] + misaligned * MISALIGNED
        if family is Family.BRANCH:
            return Timing(execution, ISSUE, events=MISPREDICTED if missed else 0)
        if not translates:
            return Timing(execution, ISSUE)
        if not outcome & L1D_ACCESS:
            return Timing(execution, ISSUE, numbers.l1_tlb.cycles)
        reads = family in _READS
        source = _source(outcome)
        translation = self._translation(outcome)
        total = execution + translation - numbers.l1_tlb.cycles
        if reads:
            total += self._cycles[source] - numbers.l1d.cycles
        events = outcome & (_DATA_EVENTS | _READ_EVENTS if reads else _DATA_EVENTS)
        return Timing(total, ISSUE, translation, events, source if reads else None)

    def _translation(self, outcome: int) -> int:
        numbers = self._numbers
        if outcome & TLB_WALK:
            return numbers.walk
        return numbers.l2_tlb.cycles if outcome & L2_TLB_ACCESS else numbers.l1_tlb.cycles


def _source(outcome: int) -> DataSource:
    if outcome & LLC_MISS:
        return DataSource.DRAM
    if outcome & LLC_ACCESS:
        return DataSource.SYSTEM_CACHE
    return DataSource.L2 if outcome & L2D_ACCESS else DataSource.L1D
