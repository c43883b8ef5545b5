"""Sampling from outside: for firmware that knows nothing of SPE, and without its noticing.

Every ``period``-th operation is sampled, on average or exactly, or the one that makes every
``period``-th of certain events. Nothing of it shows in a register or in memory: records go to
observers alone.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.operation import Calls, Operation
from spe_unicorn.arch.pe import EL2, EL3, PE
from spe_unicorn.arch.registers.known import affecting
from spe_unicorn.arch.registers.roles import Affects
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1, CONTEXTIDR_EL2
from spe_unicorn.arch.rules.effective import el2_enabled, have_el, security_state_at, tge
from spe_unicorn.spe.batch import Looked, Written
from spe_unicorn.spe.enabling import Collection
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.interval import Interval, PeriodicInterval
from spe_unicorn.spe.sample import Recorder
from spe_unicorn.spe.sampler import SampledCore, Sampler

CONTROLS: Final = affecting(Affects.RECORDS | Affects.PROFILING)
"""Registers that records depend on.

Call :meth:`ExternalSampler.reload` when one changes without the register file being told.
"""

_CONTEXTS = (CONTEXTIDR_EL1, CONTEXTIDR_EL2)
_PROCID = CONTEXTIDR_EL1.PROCID.mask
_PLENTY = 1 << 30


@dataclass(frozen=True)
class Asked:
    """What somebody asked to have sampled."""

    period: int
    """Every ``period``-th member is sampled."""
    filter: Filter = field(default_factory=Filter)
    """What drops operations: see :func:`~spe_unicorn.spe.filter.chosen_filter`."""
    levels: Container[int] | None = None
    """The Exception levels at which operations are members, None for all."""
    event: str | None = None
    """For people, the name of the event of which every ``period``-th is sampled."""
    retired_only: bool = False
    """Whether operations that end in an exception of their own are no members. The distances
    between samples must not vary then."""


class ExternalSampler(Sampler):
    """Samples a PE on behalf of its owner; driven as the architecture's unit is.

    Records hold everything that there is: contexts, physical addresses, the physical count as
    timestamp. A context register that nobody has written since reset is UNKNOWN and not in them.
    The features of ``core`` say what records look like, if the PE itself is to show no SPE.
    ``interval`` chooses members; without it, every ``period``-th is chosen, without variation.
    """

    DERIVED = ("_el",)

    def __init__(
        self, pe: PE, asked: Asked, core: SampledCore, interval: Interval | None = None
    ) -> None:
        super().__init__(pe, interval or PeriodicInterval(asked.period), core)
        self.period = asked.period
        self.event = asked.event
        """The name of the event of which every ``period``-th is sampled; None for operations."""
        self._filter = asked.filter
        self._el = -1
        self.retired_only = asked.retired_only
        levels = asked.levels
        self.enabled_at = tuple(levels is None or el in levels for el in range(4))
        pe.registers.written.wire(self._on_write)
        self.refresh()

    def reset(self) -> None:
        """The PE was reset: contexts are not collected before software has written them."""
        registers = self._pe.registers
        self.s.unwritten = {r.__name__: registers.raw(r) for r in _CONTEXTS if r in registers}
        self.reload()

    def reload(self) -> None:
        """Registers changed behind the register file's back, as by a reset: look at them anew."""
        self._recorders = {}
        self._el = -1
        self.refresh()

    def refresh(self) -> None:
        """Look again at which Exception level the PE is. Cheap while nothing has changed."""
        el = self._pe.el
        if el == self._el:
            return
        self._el = el
        self.enabled = self.enabled_at[el]
        if el not in self._recorders:
            self._recorders[el] = self._recorder_at(el)

    def take_back(self, members: int, selected: int) -> None:
        """Take back the last ``members``, ``selected`` of them sampled: they did not retire."""
        if not isinstance(self._interval, PeriodicInterval):
            kind = type(self._interval).__name__
            raise RuntimeError(f"{kind} takes back no members: {members}, of them {selected} hits")
        self._interval.take_back(members, selected)
        self.statistics.population -= members
        self.statistics.selected -= selected
        for _ in range(selected):
            self._sampling.pop()

    def forget_translations(self) -> None:
        """There is no buffer whose addresses would be translated."""

    def profiles(self, el: int) -> bool:
        """Whether sampling was asked for at an Exception level."""
        return self.enabled_at[el]

    def quiet_records(self) -> int:
        """There is no buffer, so there are no management events."""
        if self._bias is not None:
            return 0
        for el, enabled in enumerate(self.enabled_at):
            # the PE may go on to any Exception level, and then write what records of it tell
            if enabled and have_el(self._pe, el):
                self._recorder(self._recorders, el)
        return _PLENTY

    def _on_write(self, register: type[SysReg], _old: int, _new: int) -> None:
        self.s.unwritten.pop(register.__name__, None)
        if register in CONTROLS:
            self.reload()

    def _recorder_at(self, el: int) -> Recorder:
        pe = self._pe
        context1 = context2 = None
        if el < EL2 and not tge(pe):
            context1 = self._written_context(CONTEXTIDR_EL1)
        if el != EL3 and el2_enabled(pe):
            context2 = self._written_context(CONTEXTIDR_EL2)
        everything = Collection(context1, context2, pa=True, timestamp_offset=0)
        return Recorder(self._judge.format, everything, security_state_at(pe, el))

    def _written_context(self, register: type[SysReg]) -> int | None:
        """The lower half of a context register, None while nobody has written it."""
        value = self._pe.registers.raw(register)
        unwritten = self.s.unwritten
        if register.__name__ in unwritten:
            if value == unwritten[register.__name__]:
                return None
            del unwritten[register.__name__]
        return value & _PROCID

    def _collides(self) -> bool:
        return False

    def _occupy(self, cycles: int) -> None:
        """Any number of operations is in flight at once: none collides."""

    def _at_once(self, samples: NDArray[np.int64], looked: Looked) -> dict[int, Recorder] | None:
        return self._recorders_of(looked)

    def _keep_all(
        self,
        samples: NDArray[np.int64],
        looked: Looked,
        written: Written,
        calls: Sequence[Calls],
    ) -> None:
        if written.records:
            self._stream(written.data, written.records, calls)

    def _keep(self, record: bytes, operation: Operation) -> None:
        self._written(record, operation)
