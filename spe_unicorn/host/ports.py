"""What the host tells upper rooms and asks of them: values and Protocols, nothing that acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from spe_unicorn.arch.counter import NEVER
from spe_unicorn.arch.exceptions.entry import ExceptionRecord
from spe_unicorn.arch.operation import Calls, Mark
from spe_unicorn.arch.pe import PE

NEVER_HAPPENS: Final = NEVER
"""A count of operations that no machine reaches."""
ORDERING: Final = frozenset({Mark.PSB_CSYNC, Mark.DSB, Mark.ISB, Mark.ERET})
"""Marks of the operations that a watcher is told of."""


class Ending(Enum):
    """Why a run ended."""

    LIMIT = "limit"
    """The given number of operations has been executed."""
    UNTIL = "until"
    """The given address has been reached."""
    EXIT = "exit"
    """The guest ended it."""
    INTERRUPTED = "interrupted"
    """The user did."""
    ASLEEP = "asleep"
    """The PE waits for an interrupt, or is off, and nothing can happen while only it runs."""
    WATCHED = "watched"
    """A debugger outside wants to stop before the next operation."""
    RESET = "reset"
    """The guest asked for the machine to start anew."""
    TURN = "turn"
    """Another PE, which had nothing to do, has now."""
    FAILED = "failed"
    """The guest or the engine did something that cannot go on."""
    STOPPED = "stopped"
    """What a debugger asked for has come about."""


class DebugReason(Enum):
    """What a debugger had a PE stop for."""

    BREAKPOINT = "breakpoint"
    """The PE stands before an operation at which there is a breakpoint."""
    STEP = "step"
    """It has executed one operation, or taken an interrupt before that."""
    WATCHPOINT = "watchpoint"
    """It stands before an operation that accesses what is watched."""
    EVENT = "event"
    """Something else that was asked for has happened."""


@dataclass(frozen=True)
class Failure:
    """What cannot go on, in a sentence, and where: a virtual address."""

    reason: str
    pc: int
    hint: str = ""


@dataclass(frozen=True)
class EngineException:
    """What the engine knows of an exception that it took but did not enter.

    ``number`` is the engine's own for the kind of exception, ``target_el`` where it goes.
    """

    number: int
    record: ExceptionRecord
    target_el: int


class Bus(Protocol):
    """The devices that a PE reaches."""

    def claims(self, address: int) -> bool:
        """Whether a device answers at a physical address."""
        ...

    def read(self, address: int, size: int) -> int:
        """A device answers a load of ``size`` bytes."""
        ...

    def write(self, address: int, size: int, value: int) -> None:
        """A device takes a store of ``size`` bytes."""
        ...


class Platform(Bus, Protocol):
    """What is around the PE."""

    def wait_for_event(self) -> None:
        """The PE waits for an event: let others go on, if there are any. It need not wait long."""
        ...

    @property
    def event_awaited(self) -> bool:
        """Whether a PE waits in a WFE, which an event ends."""
        ...

    @property
    def restless(self) -> bool:
        """Whether no WFE of the PE waits now."""
        ...

    def send_event(self) -> None:
        """The PE has sent an event to all others."""
        ...

    def call(self, exception: EngineException) -> bool:
        """Firmware answers an HVC or SMC; False where there is no firmware."""
        ...

    @property
    def conduit(self) -> str | None:
        """How firmware is called, ``hvc`` or ``smc``; None where each of them is the guest's."""
        ...

    def semihosting(self) -> bool:
        """The host answers ``HLT #0xF000``; False where it does not."""
        ...

    @property
    def deadline(self) -> int:
        """``cpu.executed`` at which something happens by itself; :data:`NEVER_HAPPENS` never."""
        ...

    def happen(self) -> None:
        """The deadline has been reached: let it happen, and set the next one."""
        ...

    def wait(self) -> bool:
        """The PE has nothing to do: let the next thing happen; False if that is not up to it."""
        ...

    def give_way(self) -> bool:
        """The PE repeats an exception: others go on. False where nothing will ever end that."""
        ...


class DeviceRegister(Protocol):
    """A System register that is a device's: reads and writes have effects of their own."""

    def read(self) -> int:
        """What an MRS gives."""
        ...

    def write(self, value: int) -> None:
        """What an MSR does."""
        ...


class PlainDeviceRegister:
    """What a :class:`DeviceRegister` derives from whose accesses decide nothing about the run.

    What it does reaches the PE only by its interrupt lines, so the engine goes on at once.
    """


class TimedDeviceRegister:
    """What a :class:`DeviceRegister` derives from that says when a line changes by itself.

    A write reaches the PE only by its interrupt lines and by :attr:`Platform.deadline`.
    """


class Watcher(Protocol):
    """Whoever wants to know in which order things happen on a PE. It changes nothing."""

    @property
    def tracking(self) -> bool:
        """Whether it cares now. What makes it care is something that it is told of."""
        ...

    def reset(self) -> None:
        """The PE was reset."""
        ...

    def executed(self, mark: Mark, pc: int) -> None:
        """An operation with one of the marks in :data:`ORDERING` was executed at ``pc``."""
        ...

    @property
    def at_once(self) -> bool:
        """Whether it has to be told of context synchronization events one by one, as they happen.

        If not, :meth:`synchronized` may tell of the last one of a run of the engine.
        """
        ...

    def synchronized(self, executed: int, members: int) -> None:
        """There were context synchronization events, the last after ``executed`` operations.

        That was one of them itself. ``members`` of the sample population have come after it.
        """
        ...

    def paused(self) -> None:
        """A run has come to its end."""
        ...

    def controls_written(self, pc: int) -> None:
        """A register that steers SPE or its addresses may have been written, at ``pc``."""
        ...

    def foresees_records(self) -> bool:
        """Whether it may hear of the next records together, later than they are made.

        It is asked before each run in which that would be so, while it tracks.
        """
        ...


class Monitored(Protocol):
    """The Performance Monitors of a PE, as resets, exceptions and returns meet them."""

    @property
    def implemented(self) -> int:
        """The number of event counters."""
        ...

    @property
    def quiet(self) -> tuple[int, ...] | None:
        """What decides whether anything counts or asks for an interrupt, beside the controls.

        None unless, with the controls of now, nothing counts anywhere and no overflow is told.
        """
        ...

    def needs_stop(self, *, write: bool) -> bool:
        """Whether the engine has to stop for an access to the counters to be exact."""
        ...

    @property
    def pending(self) -> bool:
        """PSTATE.PPEND."""
        ...

    @property
    def excepts(self) -> bool:
        """Whether overflows are exceptions and no interrupts, or PSTATE.PPEND is set."""
        ...

    def accessed_memory(self, *, write: bool) -> None:
        """The MRS or MSR that the host carries out has accessed memory, by FEAT_NV2."""
        ...

    def retired(self) -> None:
        """The operation that the host carries out has retired: count it now."""
        ...

    def leaving(self, record: ExceptionRecord) -> None:
        """An exception is about to be entered: count what has been executed up to it."""
        ...

    def entered(self, record: ExceptionRecord, target_el: int) -> None:
        """PSTATE.PPEND has been saved: it is 0 from now on, and the exception counts."""
        ...

    def returned(self, before: PE, *, ppend: bool) -> None:
        """An exception return restored ``ppend``; ``before`` is the PE as it was until then."""
        ...


class Callers(Protocol):
    """Tells the calls that led to each sampled operation of one PE."""

    @property
    def by_blocks(self) -> bool:
        """Whether compiled code notes them, so that blocks with a sampled operation may run."""
        ...

    def here(self, pc: int) -> Calls:
        """Those that led to the operation at ``pc``, before which the engine stands.

        It may be an operation on a wrong path: the engine then stands behind the branch.
        """
        ...

    def noted(self, pcs: Sequence[int]) -> list[Calls]:
        """Those that compiled code has noted of the samples of its ring, at ``pcs``."""
        ...

    def pending(self, pc: int, plan: int, n: int) -> Calls:
        """Those of chosen operation ``n``, at ``pc``, of the block that ran last.

        ``plan`` is the first word of its plan. No sample is in the ring.
        """
        ...
