"""An interrupt before each operation of a window: a machine is restored for each, and run on.

Several processes share the operations, in parts. Each makes a machine of its own, which goes on to
the first operation of a part and takes a snapshot there.
"""

from __future__ import annotations

import multiprocessing
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.debug.places import place
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.campaigns.ends import why_failed
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.point import Point, PointError, parse_point
from spe_unicorn.session.reproduce import command_words
from spe_unicorn.session.sweeping.inject import InjectionError, Interrupt

MOST: Final = 1_000_000
"""The most operations of a window."""
_SLACK: Final = 1_000_000
"""Operations that a run may take beyond four times those of the plain one."""
_TOLD: Final = 20
"""The most groups of failures that are told."""
_PART: Final = 64
"""The most operations of a part."""


@dataclass(frozen=True)
class Wanted:
    """``INTID[,POINT-POINT]``: an interrupt, and the window; without points the whole run."""

    interrupt: Interrupt
    first: Point | None = None
    last: Point | None = None


def parse_sweep(text: str) -> Wanted:
    """``INTID[,POINT-POINT]``. Raises InjectionError."""
    number, comma, window = text.partition(",")
    if not re.fullmatch(r"[0-9]{1,4}", number) or bool(comma) != bool(window):
        raise InjectionError(f"{text!r}: write INTID or INTID,POINT-POINT, such as 30,main-1000")
    if not window:
        return Wanted(Interrupt(int(number)))
    for dash in re.finditer("-", window):  # names may have one, too
        with suppress(PointError):
            first = parse_point(window[: dash.start()])
            return Wanted(Interrupt(int(number)), first, parse_point(window[dash.end() :]))
    raise InjectionError(f"{window!r}: write POINT-POINT, two points with a dash between")


@dataclass(frozen=True)
class Position:
    """An interrupt was made pending ``after`` so many operations, before the one at ``place``.

    ``why`` the run failed is a sentence, empty if it did not. ``taken`` says whether the PE took
    the interrupt.
    """

    after: int
    why: str
    taken: bool
    place: str = ""


@dataclass(frozen=True)
class Group:
    """Positions one after the other with the same verdict at the same place."""

    first: int
    last: int
    place: str
    why: str


@dataclass
class Swept:
    """What came of a sweep: the window, and the positions in it in their order."""

    first: int
    last: int
    plain: str
    """Why the run fails without any of it, empty if it does not: then there are no positions."""
    positions: list[Position] = field(default_factory=list)

    @property
    def failed(self) -> list[Group]:
        """What failed, together where positions follow one another with one verdict."""
        groups: list[Group] = []
        for each in self.positions:
            if not each.why:
                continue
            if groups and groups[-1].last == each.after - 1 and groups[-1].why == each.why:
                groups[-1] = Group(groups[-1].first, each.after, groups[-1].place, each.why)
            else:
                groups.append(Group(each.after, each.after, each.place, each.why))
        return groups

    @property
    def never_taken(self) -> int:
        """At how many positions the interrupt was never taken."""
        return sum(not each.taken for each in self.positions)


def lines_of(options: MachineOptions, interrupt: Interrupt, swept: Swept) -> list[str]:
    """What failed, in lines: a group, and the command that repeats its first."""
    lines = []
    for group in swept.failed[:_TOLD]:
        where = f"operation {group.first + 1}"
        if group.last > group.first:
            where = f"operations {group.first + 1} to {group.last + 1}"
        lines.append(f"INTID {interrupt.intid} before {group.place}, {where}: {group.why}")
        inject = ("--inject", f"irq={interrupt.intid}@{group.first}")
        lines.append(f"  repeat: {shlex.join(command_words(options, inject))}")
    if len(swept.failed) > _TOLD:
        lines.append(f"  and {len(swept.failed) - _TOLD} more")
    return lines


@dataclass(frozen=True)
class _Asked:
    """What all processes are asked for; each run has at most ``limit`` operations."""

    options: MachineOptions
    interrupt: Interrupt
    limit: int
    until: str | None


def sweep(
    options: MachineOptions,
    wanted: Wanted,
    processes: int,
    until: str | None = None,
    most: int | None = None,
    begun: Callable[[Swept], object] = lambda _: None,
) -> Swept:
    """Run firmware once for each operation of a window, ``processes`` at a time.

    A run passes if the guest ends with status 0 and prints no line of TAP that begins with
    "not ok", or if it comes to the point ``until``. ``most`` operations are the most of the plain
    run. ``begun`` is given what is returned, to which positions then come in their order.

    Raises PointError and InjectionError for a window that there is not, and what Machine raises.
    """
    with Machine(options, records=False) as machine:
        wanted.interrupt.check(machine.board)
        first = _come_to(machine, wanted.first)
        last = None if wanted.last is None else _come_to(machine, wanted.last)
        plain = _verdict(machine, most, until)
        total = machine.operations
    last = total if last is None else last
    swept = Swept(first, last, plain)
    if plain:
        return swept
    if not 0 < last - first <= MOST:
        raise InjectionError(f"the window has {last - first} operations: allowed are 1 to {MOST}")
    begun(swept)
    asked = _Asked(options, wanted.interrupt, 4 * total + _SLACK, until)
    size = min(_PART, max(1, (last - first) // processes))
    parts = [(begin, min(begin + size, last)) for begin in range(first, last, size)]
    if processes == 1:
        with closing(_Worker(asked)) as worker:
            for part in parts:
                swept.positions += worker.positions(part)
        return swept
    context = multiprocessing.get_context("fork")
    with context.Pool(processes, initializer=_begin, initargs=(asked,)) as pool:
        for found in pool.imap(_positions, parts):
            swept.positions += found
    return swept


def _come_to(machine: Machine, point: Point | None) -> int:
    """Run up to a point; after how many operations that is."""
    if point is not None:
        outcome = machine.run(until=point)
        if outcome.ending != "until":
            raise PointError(f"{point} was not reached: {outcome.cause or 'the guest has ended'}")
    return machine.operations


def _verdict(machine: Machine, most: int | None, until: str | None) -> str:
    """Run to the end; why it failed."""
    outcome = machine.run(most, until=until)
    row = {
        "ending": outcome.ending,
        "cause": outcome.cause,
        "exit_status": outcome.exit_status,
        "operations": outcome.operations,
    }
    if outcome.ending == "until":
        row |= {"ending": "exit", "exit_status": 0}
    return why_failed(row, machine.console.text)


class _Worker:
    """A machine that runs one position after the other."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._machine = Machine(asked.options, records=False)
        self._at = 0
        """At which operation the snapshot was taken."""
        self._snapshot = self._machine.save()

    def close(self) -> None:
        """End the machine."""
        self._machine.close()

    def positions(self, part: tuple[int, int]) -> list[Position]:
        """All of a part: the first operation, and the one after the last. Parts go forward."""
        first, end = part
        self._go_to(first)
        self._at, self._snapshot = first, self._machine.save()
        return list(self._each(first, end))

    def _go_to(self, operation: int) -> None:
        self._machine.restore(self._snapshot)
        self._machine.board.run(operation - self._at)

    def _each(self, first: int, end: int) -> Iterator[Position]:
        machine, asked = self._machine, self._asked
        board = machine.board
        for after in range(first, end):
            self._go_to(after)
            asked.interrupt.put_into(board)
            why = _verdict(machine, asked.limit, asked.until)
            taken = not asked.interrupt.is_pending(board)
            where = ""
            if why:
                self._go_to(after)
                where = str(place(board, board.running.cpu.pc))
            yield Position(after, why, taken, where)


_WORKERS: Final[list[_Worker]] = []
"""That of a process of a sweep."""


def _begin(asked: _Asked) -> None:
    """In a process of its own: make the machine. Who began the sweep ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _WORKERS.append(_Worker(asked))


def _positions(part: tuple[int, int]) -> list[Position]:
    return _WORKERS[0].positions(part)
