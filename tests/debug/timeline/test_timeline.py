"""A driver's time line: what is on which lane, and that it can be opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.timeline import collecting
from spe_unicorn.debug.timeline.collecting import LANES, Line, collect
from spe_unicorn.debug.timeline.told import page, perfetto, with_mistakes
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.browser import browse


def on(line: Line, lane: str) -> list[str]:
    return [mark.text for mark in line.marks if mark.lane == lane]


@pytest.fixture(scope="module")
def run() -> tuple[Machine, Line]:
    """A driver with interrupts, to its end."""
    machine = Machine(shipped_firmware("spe_irq_el1"))
    (line,) = collect(machine.board)
    machine.run()
    return machine, line


def test_each_interrupt_is_pending_then_taken_then_ended(run: tuple[Machine, Line]) -> None:
    _, line = run
    said = on(line, "interrupt 21")
    # the handler clears PMBSR_EL1.S, which lets the line go, before it ends the interrupt
    whole = ["pending", "taken", "no longer pending", "ended"]
    rounds = [said[n : n + 4] for n in range(len(said)) if said[n : n + 2] == whole[:2]]
    assert len(rounds) >= 4
    assert rounds.count(whole) >= 4


def test_an_event_ends_profiling_and_asks_for_the_interrupt(run: tuple[Machine, Line]) -> None:
    _, line = run
    full = [mark for mark in line.marks if mark.lane == "management events"]
    assert full
    assert all(mark.text == "full: PMBSR_EL1" for mark in full)
    pending = {m.operation for m in line.marks if m.text == "pending"}
    ended = {operation for operation, enabled in line.enabled if not enabled}
    for mark in full:
        assert mark.operation in pending
        assert mark.operation in ended


def test_a_barrier_follows_the_writes_of_the_driver(run: tuple[Machine, Line]) -> None:
    machine, line = run
    names = [m.text for m in line.marks if m.lane in ("registers", "barriers")]
    first = names.index("MSR PMSCR_EL1 = 0x0")
    assert names[first + 1] == "ISB"  # spe_setup() switches profiling off, then synchronizes
    mark = next(m for m in line.marks if m.text == "MSR PMSCR_EL1 = 0x0")
    assert machine.symbolize(mark.pc) == "spe_setup"


def test_at_an_event_the_buffer_is_full_and_before_that_it_fills_by_records(
    run: tuple[Machine, Line],
) -> None:
    _, line = run
    full = {mark.operation for mark in line.marks if mark.lane == "management events"}
    room = {fill.operation: fill.limit - fill.pointer for fill in line.fills if fill.limit}
    # records of this core have up to 128 bytes, so none may begin where 64 are left
    assert {room[at] for at in full} == {64}
    records = [mark.operation for mark in line.marks if mark.lane == "records"]
    first = records.index(min(full))  # a record of 64 bytes came with it, and others before
    assert [room[at] for at in records[first - 3 : first]] == [
        room[records[first]] + 64 * n for n in (3, 2, 1)
    ]


def test_perfetto_finds_a_thread_for_each_lane_and_times_in_order(
    run: tuple[Machine, Line],
) -> None:
    machine, line = run
    events = json.loads("".join(perfetto(machine.board, [line])))["traceEvents"]
    named = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert named == list(LANES)
    marks = [e for e in events if e["ph"] == "i"]
    assert [e["ts"] for e in marks] == sorted(e["ts"] for e in marks)
    assert len(marks) == len(line.marks)
    for span in (e for e in events if e["ph"] == "X"):
        assert span["dur"] >= 0
    assert {"operation", "pc", "el", "symbol", "line", "inlined"} == marks[0]["args"].keys()


def test_the_page_shows_lanes_and_marks(run: tuple[Machine, Line], tmp_path: Path) -> None:
    machine, line = run
    file = tmp_path / "line.html"
    file.write_text(page(machine.board, [line]))
    shown = browse(file)
    assert shown.console == []
    assert f"{len(line.marks):,} marks" in shown.text("shown")
    assert "MSR PMSCR_EL1 = 0x0" in shown.dom
    assert "spe_setup" in shown.dom


def test_the_guest_is_the_same_and_marks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MOST_RECORDS", 10)
    plain, watched = (Machine(shipped_firmware("spe_copy")) for _ in range(2))
    (line,) = collect(watched.board)
    outcomes = [plain.run(), watched.run()]
    assert outcomes[0].operations == outcomes[1].operations
    assert plain.records.raw == watched.records.raw
    assert len(on(line, "records")) == 10
    assert line.left_out["records"] == len(watched.records) - 10


def test_mistakes_stand_where_they_were_made() -> None:
    machine = Machine(shipped_firmware("spe_misuse"))
    machine.watch_misuse()
    lines = collect(machine.board)
    machine.run()
    found = machine.finish_misuses() or ()
    (line,) = with_mistakes(lines, found)
    told = [(mark.operation, mark.pc) for mark in line.marks if mark.lane == "mistakes"]
    assert told == [(one.operation, one.pc) for one in found]
    assert len(told) > 10
    assert on(line, "barriers")  # both watchers are told of these
