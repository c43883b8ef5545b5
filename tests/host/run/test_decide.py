"""What is to be done after each kind of stop, and who is told, without an engine: by hand."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.arch.exceptions.routing import Routed
from spe_unicorn.arch.exceptions.syndromes import BREAKPOINT
from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.pe import EL1
from spe_unicorn.decode import decode as decoded
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck, Found
from spe_unicorn.host.run.decide import Action, Do, Seen, decide, inspect_stop
from spe_unicorn.host.run.watching import Watching
from tests.support import a64

FAULT = FailedCheck(Routed(EL1, BREAKPOINT))
UNREADABLE, SECURE = Seen(readable=False), Seen(secure=True)
NEW, FAULTY = Seen(found=Found.UNKNOWN), Seen(found=Found.FAULT, fault=FAULT)
WATCHED = Seen(found=Found.OUTSIDE)


def report(
    stop: Stop,
    status: int = 0,
    done: int = 3,
    *,
    call: bool = False,
    finished: bool = False,
    halted: bool = False,
) -> RunReport:
    """A report of a stop in or before a block of 5 operations at 0x4000."""
    return RunReport(stop, status, 0x4000, 5, done, call, finished, halted)


@pytest.mark.parametrize(
    ("stop", "does"),
    [
        (report(Stop.NONE, halted=True), Do.NOTHING),
        (report(Stop.NONE), Do.IDLE),
        (report(Stop.NONE, status=6, halted=True), Do.IDLE),
        (report(Stop.BUDGET), Do.GO_ON_IN_BLOCK),
        (report(Stop.NOTICED), Do.NOTHING),
        (report(Stop.UNSEEN), Do.ADD_BLOCK),
        (report(Stop.INTERRUPT), Do.TAKE_INTERRUPT),
        (report(Stop.TRAP), Do.GO_TO_TRAP),
        (report(Stop.MISALIGNED), Do.NOTHING),
        (report(Stop.WRONG_PATH), Do.NOTHING),
        (report(Stop.UNTRANSLATED), Do.FIND_UNTRANSLATED),
        (report(Stop.EXCEPTION), Do.EXECUTE),
        (report(Stop.EXCEPTION, call=True, finished=True), Do.CARRY_OUT),
        (report(Stop.SYSTEM), Do.EXECUTE),
        (report(Stop.UNMAPPED), Do.EXECUTE),
        (report(Stop.UNMAPPED, finished=True), Do.CARRY_OUT),
        (report(Stop.ACCESS), Do.LET_THROUGH),
    ],
)
def test_each_stop_asks_for_one_thing(stop: RunReport, does: Do) -> None:
    assert decide(stop) == Action(does, stop)


def test_there_is_something_to_do_after_every_stop() -> None:
    for stop in Stop:
        assert isinstance(decide(report(stop)).do, Do)


@pytest.mark.parametrize(
    ("stop", "seen", "does"),
    [
        (report(Stop.SYSTEM), UNREADABLE, Do.REFETCH),
        (report(Stop.UNMAPPED), UNREADABLE, Do.REFETCH),
        # the fetch of the next operation failed, and that one cannot be read
        (report(Stop.UNMAPPED, finished=True), UNREADABLE, Do.CARRY_OUT),
        # the engine has just read the operation
        (report(Stop.EXCEPTION), UNREADABLE, Do.EXECUTE),
        (report(Stop.ACCESS), NEW, Do.LEARN),
        (report(Stop.ACCESS), WATCHED, Do.END),
        (report(Stop.ACCESS), FAULTY, Do.EXECUTE),
        (report(Stop.ACCESS), FAULTY._replace(readable=False), Do.REFETCH),
        # what is found at an operation is nothing to a stop before a block
        (report(Stop.BUDGET), FAULTY, Do.GO_ON_IN_BLOCK),
        (report(Stop.NOTICED), UNREADABLE, Do.NOTHING),
    ],
)
def test_the_operation_decides(stop: RunReport, seen: Seen, does: Do) -> None:
    assert decide(stop, seen).do is does


def test_the_fault_is_carried() -> None:
    assert decide(report(Stop.ACCESS), FAULTY).fault is FAULT
    assert decide(report(Stop.SYSTEM)).fault is None


@pytest.mark.parametrize(
    ("finished", "readable", "refused"),
    [
        (False, True, Do.EXECUTE),
        (False, False, Do.REFETCH),
        (True, False, Do.CARRY_OUT),
    ],
)
def test_secure_memory_is_admitted_or_refused(finished: bool, readable: bool, refused: Do) -> None:
    action = decide(report(Stop.UNMAPPED, finished=finished), SECURE._replace(readable=readable))
    assert (action.do, action.refused) == (Do.ADMIT, refused)


class Handler:
    """What is asked of a PE's handler about the operation at 0x4008, and how often."""

    def __init__(self, code: tuple[int, ...] | None, secure: bool = False) -> None:
        self.refused_as_secure = secure
        self.words = code
        self.pc = 0x4008
        self.checked = 0
        self.controls = self.checks = self.cpu = self.virtual = self.refused = self

    def check_operation(self) -> tuple[Found, FailedCheck]:
        self.checked += 1
        return Found.FAULT, FAULT

    def code(self, pc: int, operations: int) -> tuple[int, ...] | None:
        assert (pc, operations) == (0x4008, 1)
        return self.words


@pytest.mark.parametrize(
    ("stop", "code", "seen", "checked"),
    [
        (report(Stop.BUDGET), None, Seen(), 0),
        (report(Stop.EXCEPTION), None, Seen(), 0),
        (report(Stop.SYSTEM), (a64.NOP,), Seen(), 0),
        (report(Stop.SYSTEM), None, Seen(readable=False), 0),
        (report(Stop.UNMAPPED), (a64.NOP,), Seen(secure=True), 0),
        (report(Stop.UNMAPPED, finished=True), None, Seen(secure=True), 0),
        (report(Stop.ACCESS), (a64.NOP,), Seen(found=Found.FAULT, fault=FAULT), 1),
    ],
)
def test_what_is_seen_at_the_operation_that_stopped_the_engine(
    stop: RunReport, code: tuple[int, ...] | None, seen: Seen, checked: int
) -> None:
    handler: Any = Handler(code, secure=True)
    assert inspect_stop(stop, handler) == seen
    assert handler.checked == checked


class Noting:
    """A watcher that writes down what it is told."""

    def __init__(self, name: str, notes: list[tuple[object, ...]]) -> None:
        self.name = name
        self.notes = notes
        self.tracking = self.at_once = self.foresees = False

    def reset(self) -> None:
        self.notes.append((self.name, "reset"))

    def executed(self, mark: Mark, pc: int) -> None:
        self.notes.append((self.name, mark, pc))

    def synchronized(self, executed: int, members: int) -> None:
        self.notes.append((self.name, executed, members))

    def paused(self) -> None:
        self.notes.append((self.name, "paused"))

    def controls_written(self, pc: int) -> None:
        self.notes.append((self.name, "controls", pc))

    def foresees_records(self) -> bool:
        return self.foresees


def watched() -> tuple[Watching, Noting, Noting, list[tuple[object, ...]]]:
    """Both kinds of watchers: one outside, and a part of the machine."""
    notes: list[tuple[object, ...]] = []
    outside, machine = Noting("outside", notes), Noting("machine", notes)
    watching = Watching()
    assert not watching.watched
    watching.watch(outside, orders=False)
    assert watching.watched
    watching.watch(machine, orders=True)
    return watching, outside, machine, notes


def test_watchers_are_told_and_the_machine_s_own_first() -> None:
    watching, _, _, notes = watched()
    watching.executed(Mark.ISB, 0x40)
    watching.executed(Mark.WFI, 0x44)  # orders nothing
    watching.synchronized(9, 2)
    watching.controls_written(0x48)
    watching.paused()
    told = [(Mark.ISB, 0x40), (9, 2), ("controls", 0x48), ("paused",)]
    assert notes == [(who, *what) for what in told for who in ("machine", "outside")]


def test_a_watcher_is_muted_until_it_is_told_again_and_the_machine_never() -> None:
    watching, outside, _, notes = watched()
    outside.tracking = outside.at_once = True
    for muted in (False, True, True):
        watching.mute(muted)
    assert (watching.tracking, watching.at_once, watching.watched) == (False, False, True)
    watching.executed(Mark.DSB, 0)
    for muted in (False, False):
        watching.mute(muted)
        assert (watching.tracking, watching.at_once) == (True, True)
    watching.executed(Mark.ERET, 4)
    assert notes == [
        ("machine", Mark.DSB, 0),
        ("machine", Mark.ERET, 4),
        ("outside", Mark.ERET, 4),
    ]


def test_samples_wait_where_each_watcher_that_tracks_can_bear_it() -> None:
    watching, outside, own, _ = watched()
    assert watching.samples_wait
    outside.tracking = True
    assert not watching.samples_wait
    outside.foresees = True
    assert watching.samples_wait
    own.tracking = True
    assert not watching.samples_wait


def test_a_run_goes_up_to_the_first_operation_that_is_tracked() -> None:
    watching, outside, _, _ = watched()
    code = tuple(decoded(word) for word in (a64.NOP, a64.NOP, a64.ISB, a64.DSB_SY))
    assert watching.distance(code) == 4
    outside.tracking = True
    assert [watching.distance(code), watching.distance(code[:2])] == [2, 2]
