"""What a perf.data file tells of processes: who had which name and which memory, and when."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")
KERNEL = 0xFFFF_FFFF
"""The process that what is mapped for all of them belongs to: -1."""


class Mapping(NamedTuple):
    """A piece of a file in memory: ``size`` bytes at ``address``, from ``offset`` in the file."""

    path: str
    address: int
    size: int
    offset: int


class Act(Enum):
    """What a thread did."""

    MAP = auto()
    NAME = auto()
    EXECUTE = auto()
    """It took a name since its process executes another program, which has no mapping yet."""
    FORK = auto()


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One act, at a time in nanoseconds; ``parent`` is the process that forked."""

    act: Act
    process: int
    thread: int
    time: int = 0
    name: str = ""
    parent: int = 0
    parent_thread: int = 0
    mapping: Mapping | None = None


@dataclass(frozen=True)
class Clock:
    """From timestamps of records to nanoseconds, as TIME_CONV has it."""

    shift: int
    multiplier: int
    zero: int

    def nanoseconds(self, ticks: Array) -> Array:
        """The times of timestamps; both are 64 bits wide."""
        shift, multiplier = np.uint64(self.shift), np.uint64(self.multiplier)
        rest = ticks & np.uint64((1 << self.shift) - 1)
        times: Array = np.uint64(self.zero) + (ticks >> shift) * multiplier
        times += rest * multiplier >> shift
        return times

    def ticks(self, nanoseconds: int) -> float:
        """The timestamp at a time."""
        since = (nanoseconds - self.zero) & (1 << 64) - 1
        return since * (1 << self.shift) / self.multiplier if self.multiplier else 0.0


class _History(Generic[T]):
    """What was so from when on, by number of a process or thread."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[list[int], list[T]]] = {}

    def put(self, number: int, time: int, value: T) -> None:
        times, values = self._steps.setdefault(number, ([], []))
        times.append(time)
        values.append(value)

    def last(self, number: int) -> T | None:
        found = self._steps.get(number)
        return found[1][-1] if found else None

    def at(self, numbers: Array, times: Array, otherwise: T) -> npt.NDArray[np.object_]:
        """What was so of each number at its time; what came first is so for all earlier times."""
        result = np.full(len(numbers), otherwise, dtype=object)
        for number in np.unique(numbers).tolist():
            found = self._steps.get(number)
            if found is None:
                continue
            rows = np.flatnonzero(numbers == number)
            step = np.searchsorted(np.array(found[0], np.uint64), times[rows], "right")
            values = np.empty(len(found[1]), dtype=object)
            values[:] = found[1]
            result[rows] = values[np.maximum(step.astype(np.int64) - 1, 0)]
        return result


class Space(Hashable):
    """The memory of a process from one ``execve`` to the next; what is mapped later lies on top."""

    def __init__(self, mappings: tuple[Mapping, ...] = ()) -> None:
        self.mappings = list(mappings)

    def __hash__(self) -> int:
        return id(self)


@dataclass
class Tasks:
    """Processes and threads of a recording. ``everywhere`` is what is mapped for all of them.

    Within a space a mapping counts from its beginning on: a library that is unloaded while another
    takes its place gives its addresses to the other.
    """

    everywhere: list[Mapping] = field(default_factory=list)
    spaces: list[Space] = field(default_factory=list)
    _of_process: _History[Space] = field(default_factory=_History)
    _names: _History[str] = field(default_factory=_History)
    _processes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, events: list[TaskEvent]) -> Tasks:
        """What follows from acts, which are put in the order of their times."""
        tasks = cls()
        for event in sorted(events, key=attrgetter("time")):
            tasks._do(event)
        return tasks

    def processes(self, threads: Array) -> Array:
        """The process of each thread; a thread that nobody told of is a process of its own."""
        unique, where = np.unique(threads, return_inverse=True)
        known = [self._processes.get(thread, thread) for thread in unique.tolist()]
        return np.array(known, np.int64)[where] if len(known) else np.zeros(0, np.int64)

    def names(self, threads: Array, times: Array) -> npt.NDArray[np.object_]:
        """The name that each thread had at a time, empty where it is not known."""
        return self._names.at(threads, times, "")

    def spaces_of(self, threads: Array, times: Array) -> npt.NDArray[np.object_]:
        """The :class:`Space` that each thread was in at a time, None where it is not known."""
        histories: Any = self._of_process
        result: npt.NDArray[np.object_] = histories.at(self.processes(threads), times, None)
        return result

    def _do(self, event: TaskEvent) -> None:
        if event.mapping is not None:
            if event.process == KERNEL:
                self.everywhere.append(event.mapping)
            else:
                self._space(event.process, event.time).mappings.append(event.mapping)
            return
        self._processes[event.thread] = event.process
        if event.act is Act.FORK:
            self._names.put(event.thread, event.time, self._names.last(event.parent_thread) or "")
            if event.process != event.parent:
                parent = self._of_process.last(event.parent)
                self._begin(event.process, event.time, () if parent is None else parent.mappings)
            return
        if event.act is Act.EXECUTE:
            self._begin(event.process, event.time)
        self._names.put(event.thread, event.time, event.name)

    def _space(self, process: int, time: int) -> Space:
        return self._of_process.last(process) or self._begin(process, time)

    def _begin(self, process: int, time: int, mappings: Iterable[Mapping] = ()) -> Space:
        space = Space(tuple(mappings))
        self.spaces.append(space)
        self._of_process.put(process, time, space)
        return space
