"""What one run of the engine may do: a request, written once, before the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from spe_unicorn.host.native.levels import begin_flow, begin_watch
from spe_unicorn.host.native.state.budget import UNBOUNDED
from spe_unicorn.host.native.state.steer import select_set
from spe_unicorn.host.native.state.whole import State


class Grant(NamedTuple):
    """How far a run of the engine may go: see :class:`RunRequest`."""

    budget: int
    samples_itself: bool = False
    members: int = UNBOUNDED


@dataclass(slots=True)
class RunRequest:
    """What one run of the engine may do, complete.

    ``EngineRuns`` makes it, and the accelerators add what compiled code may answer by itself. Then
    :meth:`write` tells the hooks, which only read it. All numbers of operations are counted from
    reset, but for ``budget`` and ``members``.
    """

    pc: int
    """The address at which the run begins."""
    until: int
    """The address at which the run ends, ``engine.NEVER`` for none."""
    budget: int
    """Operations that the run may execute before Python is needed."""
    limit: int
    """Executed operations that no block of this run may pass: one that would is not begun."""
    horizon: int
    """Executed operations at which this run is to stop."""
    members: int = UNBOUNDED
    """Members of the population left before the chosen one, where micro-operations are members."""
    samples_itself: bool = False
    """Whether compiled code may take the samples that ``SampleRing.allow`` has allowed."""
    straight: bool = False
    """Whether the run executes ``budget`` operations in a row from ``pc`` on, so that the hooks
    have no block to look at."""
    goes_through: bool = False
    """Whether the run goes on after accesses to devices."""
    only_counted: bool = False
    """Whether each operation is only counted: no observer has to be told of one."""

    # What the hooks look out for

    watch: int = 0
    """Marks of blocks to look out for at the PE's Exception level."""
    entries: int = 0
    """Bit ``4 * a + b``: an exception from EL a to EL b is entered in compiled code."""
    control_set: int = 0
    """The row of the table of control sets that holds; 0 if no write may lead to another."""
    notes_fences: bool = False
    """Whether context synchronization events are noted, and the engine does not stop at them."""
    collects: bool = False
    """Whether a write to a register of which only records tell is noticed."""
    checking: int = 0
    """What is checked before operations: bits of ``native.checks``."""
    tally: int = 0
    """What is added up of each block: see ``State.tally``."""
    weigh: bool = False
    """Whether members are counted by the weights of blocks."""
    speculates: bool = False
    """Whether operations on wrong paths are members."""
    watched: bool = False
    """Whether a ``ports.Watcher`` is told of what no hook sees."""
    heard: bool = False
    """Whether an observer is told of accesses to System registers."""
    flow: tuple[bool, int] | None = None
    """Whether profiling is enabled, and the Exception level, for the hook that follows the last
    branch; None where there is no such hook."""

    seeks: bool = False
    """Whether the run ends before the first block with an operation that the engine executes
    wrongly, as such blocks are not yet looked out for."""

    goals: Mapping[int, int] = field(default_factory=dict)
    """Counts of the core model at which the run ends, as ``Awaited.arm`` has them."""

    # What compiled code may answer by itself

    begins_anew: bool = False
    """Whether the hooks may have a block begin a second time."""
    in_rows: bool = False
    """Whether several instructions that the engine lacks may be carried out in a row."""
    own_calls: int = 0
    """Calls that only the guest answers: OWN_HVC, OWN_SMC."""
    sends_events: bool = False
    """Whether the engine executes a SEV."""
    passes_wfe: int = 0
    """Whether the engine executes a WFE that does not wait: ``State.passes_wfe``."""
    passes_wfi: bool = False
    """Whether the run goes on after a WFI that does not wait."""
    gic_at: int = 0
    """A bit for each Exception level: accesses to the CPU interface of the GIC are answered."""
    uart_at: int = 0
    """The physical address of the UART whose accesses are answered; 0 for none."""
    sampling_at: int = 0
    """A bit for each Exception level: reads of registers that move with samples are answered."""

    def write(self, state: State) -> None:
        """Tell the hooks, and begin to count."""
        state.begin(self.budget, self.samples_itself)
        state.limit, state.horizon = self.limit, self.horizon
        begin_watch(state, self.watch, self.entries, self.notes_fences)
        select_set(state, self.control_set, self.gic_at)
        state.collects, state.checking = self.collects, self.checking
        state.tally = self.tally
        state.weigh = self.weigh
        state.speculates = self.speculates
        if self.flow is not None:
            enabled, el = self.flow
            state.flow_enabled = enabled
            begin_flow(state, el)
        state.begins_anew, state.own_calls = self.begins_anew, self.own_calls
        state.seeks = self.seeks
        state.sends_events, state.passes_wfe = self.sends_events, self.passes_wfe
        state.uart_at, state.sampling_at = self.uart_at, self.sampling_at
        state.gap_epoch = state.epoch
        state.update_special()


class Accelerator(Protocol):
    """Compiled code that answers something within a run of the engine, in place of Python.

    Each is optional: without it the engine stops, and Python answers the same.
    """

    def offer(self, request: RunRequest) -> None:
        """Add to ``request`` what compiled code may answer by itself in that run."""
