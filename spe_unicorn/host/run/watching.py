"""Tells a watcher of operations that no hook sees: barriers and ERETs, which order SPE's work.

The engine does not stop for an ISB, a PSB CSYNC, a DSB or an ERET. While a :class:`Watcher` tracks
them, the runner stops before each block that holds one, and steps over it. An ISB or ERET that only
moves the watcher's counts is not stopped for: compiled code notes it. The same operations are
executed and sampled as without a watcher; it only takes longer.
"""

from __future__ import annotations

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Instruction, Mark
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import ORDERING, Watcher
from spe_unicorn.host.run.horizons import Horizon
from spe_unicorn.spe.lateness.whole import Lateness
from spe_unicorn.spe.unit import StatisticalProfilingUnit


class Watching:
    """The watcher of one PE's runner, if there is one."""

    WIRING = ("watcher", "ordering", "_aside")

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self.ordering: tuple[Watcher, ...] = ()
        """What of the machine itself waits for barriers; it is never muted."""
        self._aside: Watcher | None = None

    @property
    def watched(self) -> bool:
        """Whether anybody is ever told."""
        return self.watcher is not None or bool(self.ordering)

    @property
    def _told(self) -> tuple[Watcher, ...]:
        return self.ordering if self.watcher is None else (*self.ordering, self.watcher)

    def watch(self, watcher: Watcher, *, orders: bool) -> None:
        """Tell ``watcher`` from now on. One that ``orders`` is a part of the machine."""
        if orders:
            self.ordering += (watcher,)
        else:
            self.watcher = watcher

    def mute(self, muted: bool) -> None:
        """Tell the watcher nothing from now on, or tell it again."""
        if muted and self.watcher is not None:
            self.watcher, self._aside = None, self.watcher
        elif not muted and self._aside is not None:
            self.watcher, self._aside = self._aside, None

    @property
    def tracking(self) -> bool:
        """Whether a watcher now wants to be told of the operations in ``ORDERING``."""
        return any(watcher.tracking for watcher in self._told)

    @property
    def at_once(self) -> bool:
        """Whether that watcher wants to be told of each context synchronization event at once."""
        return any(watcher.at_once for watcher in self._told)

    def distance(self, code: tuple[Instruction, ...]) -> int:
        """How many operations of ``code`` come before the first one that the watcher tracks."""
        if not self.tracking:
            return len(code)
        return next((k for k, i in enumerate(code) if i.mark in ORDERING), len(code))

    def executed(self, mark: Mark, pc: int) -> None:
        """Tell the watcher of the operation executed at ``pc``, if it tracks ``mark``."""
        if mark in ORDERING:
            for watcher in self._told:
                watcher.executed(mark, pc)

    def synchronized(self, executed: int, members: int) -> None:
        """Tell the watcher of the last context synchronization event that compiled code noted."""
        for watcher in self._told:
            watcher.synchronized(executed, members)

    @property
    def samples_wait(self) -> bool:
        """Whether the samples of a run may be completed after it, for all who track."""
        return all(watcher.foresees_records() for watcher in self._told if watcher.tracking)

    def controls_written(self, pc: int) -> None:
        """Tell the watcher that the operation at ``pc`` may have written a steering register."""
        for watcher in self._told:
            watcher.controls_written(pc)

    def paused(self) -> None:
        """Tell the watcher that a run has ended."""
        for watcher in self._told:
            watcher.paused()


class Silicon:
    """Tells the :class:`~spe_unicorn.spe.lateness.whole.Lateness` of one PE's unit what happens.

    It is a :class:`~spe_unicorn.host.ports.Watcher` that is a part of the machine.
    """

    def __init__(self, cpu: UnicornCPU, unit: StatisticalProfilingUnit) -> None:
        self._unit = unit
        self._late: Lateness = unit.lateness
        self.horizon = Horizon(lambda: self._late.due, self._happen)
        """Ends a run of the engine where something happens by itself."""
        if self._late.records is not None or self._late.writes is not None:
            cpu.exception_taken.wire(self._on_exception)

    @property
    def tracking(self) -> bool:
        """Whether something waits for a barrier, or may do so before the engine stops."""
        return self._late.pending or (self._unit.armed and self._late.orders)

    @property
    def at_once(self) -> bool:
        """Each context synchronization event does something by itself."""
        return self.tracking

    def reset(self) -> None:
        """The PE was reset, and the unit with it."""

    def executed(self, mark: Mark, pc: int) -> None:
        """An ISB, a PSB CSYNC, a DSB or an ERET was executed."""
        if mark is Mark.PSB_CSYNC:
            self._late.psb_csync()
        elif mark is Mark.DSB:
            self._late.dsb()
        else:
            self._late.context_synchronization()
        self._unit.refresh()

    def synchronized(self, executed: int, members: int) -> None:
        """Nothing waited at the time, so nothing follows."""

    def paused(self) -> None:
        """A run has ended: nothing follows."""

    def controls_written(self, pc: int) -> None:
        """A register that steers SPE was written: nothing follows."""

    def foresees_records(self) -> bool:
        """What is late is so by numbers of operations: each sample is completed in its place."""
        return False

    def _on_exception(self, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        self._late.context_synchronization()

    def settle(self) -> None:
        """The PE waits, and executes nothing meanwhile: what is to happen by itself happens."""
        self._late.settle()
        self._unit.refresh()

    def _happen(self) -> None:
        self._late.happen()
        self._unit.refresh()
