"""What one run of the engine came to: a report, made once, when the engine stands."""

from __future__ import annotations

from typing import NamedTuple

from spe_unicorn.host.native.state.stops import Stop


class RunReport(NamedTuple):
    """What one run of the engine came to. Nothing of it changes afterwards."""

    stop: Stop
    """Why a hook stopped the engine; ``Stop.NONE`` if no hook did."""
    status: int
    """The engine's error number, 0 for none."""
    block: int
    """Address of the block that began last, or before which the engine stands."""
    operations: int
    """How many operations that block has."""
    done: int
    """How many of them were executed; all of them where the engine stands before the block."""
    call: bool
    """Whether an SVC, HVC or SMC has stopped the engine, after which the operation is executed."""
    finished: bool
    """Whether the operation that stopped the engine has been executed: a call, or one after which
    the next one could not be fetched or was to be stepped to."""
    halted: bool = False
    """Whether the engine, which no hook stopped, is at an address where the run must end."""
    begun: bool = True
    """Whether the engine has begun at all. If not, nothing has been executed."""

    @property
    def within(self) -> bool:
        """Whether the engine stands in the midst of a block, at the operation that stopped it."""
        return self.stop in AT_AN_OPERATION

    @property
    def before(self) -> bool:
        """Whether the engine stands before a block, of which nothing has been executed."""
        return not self.within and self.stop is not Stop.NONE

    @property
    def whole(self) -> bool:
        """Whether the block that began last was executed to its end."""
        return self.done == self.operations


def interrupted_at(pc: int) -> RunReport:
    """What a run at ``pc`` comes to that does not begin, as an interrupt is due for Python."""
    return RunReport(Stop.INTERRUPT, 0, pc, 0, 0, call=False, finished=False, begun=False)


AT_AN_OPERATION = frozenset({Stop.EXCEPTION, Stop.SYSTEM, Stop.UNMAPPED, Stop.ACCESS, Stop.AWAITED})
"""Stops before an operation in the middle of a block; after it if that is SVC, HVC or SMC."""
