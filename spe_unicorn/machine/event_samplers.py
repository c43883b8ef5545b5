"""Sampling by events: which operations make an event is known before or after their execution.

There are three kinds of events. If the instruction word decides, the operations that make the event
are a population of their own, which compiled code counts. If the run decides, operations near the
next chosen event are executed and judged one by one. Exceptions are reported when they are entered.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from spe_unicorn.arch.operation import Family, Instruction, Mark, RegisterKind, Structure
from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.predictor import Branch
from spe_unicorn.cores.profile import Core
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.counting.modelled import AWAITED, ONLY_CLOSE
from spe_unicorn.host.counting.taken import TakenExceptions
from spe_unicorn.host.native.model import branch_of
from spe_unicorn.host.native.sampling.awaited import CLOSE
from spe_unicorn.machine.events import why_not_sampled
from spe_unicorn.machine.options import OptionError, Sampling
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.pmu.countable import STALLS
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.exceptions import EXCEPTION_EVENTS
from spe_unicorn.pmu.members import Members
from spe_unicorn.pmu.names import NamedEvent
from spe_unicorn.pmu.words import PART_EVENTS, STORED_EVENTS, WORD_EVENTS, events_of
from spe_unicorn.spe.candidates import CandidateSampler
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.sampler import SampledCore, Sampler
from spe_unicorn.spe.taken import ExceptionSampler

_CLOCK: Final = frozenset({E.CPU_CYCLES, E.CNT_CYCLES})
_RETIRED: Final = frozenset({E.INST_RETIRED, E.INST_SPEC, *PART_EVENTS})
_OF_BRANCHES: Final = frozenset(
    {E.BR_MIS_PRED, E.BR_MIS_PRED_RETIRED, E.PC_WRITE_RETIRED, E.PC_WRITE_SPEC}
)
_STORES: Final = frozenset({Family.STORE, Family.ATOMIC, Family.ATOMIC_STORE})
_ACCESSES: Final = frozenset({Family.LOAD, Family.STORE, Family.ATOMIC, Family.ATOMIC_STORE})
_SHARE: Final = 8
"""The most events of caches and TLBs that one member makes: four pieces, each in two lines."""
_OF_STRUCTURE: Final = 32
"""Members of an operation with many accesses: four registers, or a block of zeros."""
_OF_VECTORS: Final = 256
"""Members of such an operation with vectors of 2048 bits."""


def event_sampler(
    pe: ProcessingElement, core: Core, sampling: Sampling, event: NamedEvent, model: CoreModel
) -> Sampler:
    """The sampler of a PE by ``event``. Raises OptionError for an event that cannot be sampled."""
    number = event.number
    reason = why_not_sampled(event, with_model=isinstance(model, CacheModel))
    if reason is not None:
        raise OptionError(f"`event`: {event.text} cannot be sampled: {reason}")
    cpu = pe.cpu
    asked = Asked(sampling.period, sampling.filter, event.levels, event.text)
    retired = replace(asked, retired_only=True)
    one_each = SampledCore(model, features=core.features)
    if number == E.CPU_CYCLES:
        return ExternalSampler(cpu, asked, one_each)
    if number in PART_EVENTS and core.cracking is not None:
        return ExternalSampler(cpu, retired, replace(one_each, cracker=core.cracking))
    if number in _RETIRED or number in WORD_EVENTS - STORED_EVENTS:
        members = Members(lambda i: number in _RETIRED or number in events_of(i))
        return ExternalSampler(cpu, retired, replace(one_each, cracker=members))
    if number == E.BR_PRED:
        predicted = Members(lambda i: branch_of(i.word)[0] != Branch.NONE)
        return ExternalSampler(cpu, retired, replace(one_each, cracker=predicted))
    if number in EXCEPTION_EVENTS:
        taken = ExceptionSampler(cpu, asked, one_each)
        exceptions = TakenExceptions(cpu, taken, E(number))
        pe.samples_counted = lambda counting: counting.sample(exceptions)
        return taken
    if number == E.CNT_CYCLES or number in STALLS:
        unit = CandidateSampler(cpu, asked, one_each, most=0)
    elif number in STORED_EVENTS:
        stores = Members(lambda i: i.family in _STORES or i.mark is Mark.MSR)
        unit = CandidateSampler(cpu, asked, replace(one_each, cracker=stores))
    elif number in _OF_BRANCHES:
        branches = Members(lambda instruction: instruction.family is Family.BRANCH)
        unit = CandidateSampler(cpu, asked, replace(one_each, cracker=branches))
        unit.goal = number if number in AWAITED else None
    else:
        shares = replace(one_each, cracker=Members(_shares))
        unit = CandidateSampler(cpu, asked, shares, most=_SHARE)
        unit.goal = number if number in AWAITED else None
        unit.close = CLOSE if number in ONLY_CLOSE else None

    def begin(counting: Counting) -> None:
        counting.keep(number)
        totals = counting.totals
        unit.total = partial(totals.of, number)
        if number == E.CNT_CYCLES:
            unit.foresee_by(lambda ticks: cpu.rate.cycles(ticks) - totals.executed)

    pe.samples_counted = begin
    return unit


def weighs(core: Core, sampling: Sampling | None) -> bool:
    """Whether an instruction can be several members, or none."""
    event = None if sampling is None else sampling.named
    if event is None:
        return core.cracking is not None
    return event.number not in {*_CLOCK, *STALLS, *EXCEPTION_EVENTS}


def _shares(instruction: Instruction) -> int:
    """How many members an instruction is, if each may make :data:`_SHARE` events at most."""
    if instruction.family not in _ACCESSES:
        return 0
    if instruction.sve:
        return _OF_VECTORS
    whole = instruction.structure is not Structure.NONE
    return _OF_STRUCTURE if whole or instruction.registers is RegisterKind.UNSPECIFIED else 1
