"""Calls by call frame information, and where frame records tell the same."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.operation import Calls
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.pe.calls import unwinding
from spe_unicorn.host.pe.calls.unwinding import Unwinder
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.symbols.frames import FrameRule
from tests.support.machine_runs import Machine
from tests.support.running.calling import GCC, compiled

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no cross compiler")
RUNNERS: list[Any] = [Runner, ReferenceRunner]
OMITTED = ("-fomit-frame-pointer", "-fasynchronous-unwind-tables")
KEPT = ("-fno-omit-frame-pointer", "-fasynchronous-unwind-tables")
PLAIN = ("-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-g0")
ORDER = {"leaf": "middle", "middle": "outer", "outer": "main", "main": "_start"}
"""Each function of the program with the one that calls it."""


def led(program: Path, runner: Any, *, by_cfi: bool) -> list[tuple[str, tuple[str, ...]]]:
    """The function of each operation of main and what it calls, and the functions that called."""
    machine = Machine(program, runner=runner, period=1)
    found: list[Calls] = []
    machine.board.follow_calls("cfi" if by_cfi else "fp")

    def note(_: bytes, calls: Sequence[Calls]) -> None:
        found.extend(calls)

    machine.board.pes[0].unit.led.connect(note)
    machine.run(200)

    def name(address: int) -> str:
        return machine.board.names.function(address) or hex(address)

    return [
        (name(one.pc), tuple(name(back - 4) for back in calls))
        for one, calls in zip(machine.operations, found, strict=True)
        if name(one.pc) in ORDER
    ]


def callers(name: str) -> tuple[str, ...]:
    """The functions that lead to one, by the source."""
    path = []
    while (name := ORDER.get(name, "")) != "":
        path.append(name)
    return tuple(path)


@pytest.mark.parametrize("flags", [OMITTED, KEPT])
def test_every_operation_has_all_its_callers(tmp_path: Path, flags: tuple[str, ...]) -> None:
    program = compiled(tmp_path, *flags)
    runs = [led(program, runner, by_cfi=True) for runner in RUNNERS]
    assert runs[0] == runs[1]
    assert {name for name, _ in runs[0]} == ORDER.keys()
    for name, calls in runs[0]:
        assert calls == callers(name)


@pytest.mark.parametrize("flags", [KEPT, PLAIN])
def test_frame_records_tell_the_same_where_there_are_any(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    for name, calls in led(compiled(tmp_path, *flags), Runner, by_cfi=False):
        assert calls == callers(name)


def test_without_frame_records_they_cannot_agree(tmp_path: Path) -> None:
    # X30 tells the last call alone, and nothing the calls before that
    found = led(compiled(tmp_path, *OMITTED), Runner, by_cfi=False)
    assert ("leaf", ("middle",)) in found
    assert not any(calls == callers(name) for name, calls in found if name == "leaf")


def test_compiled_code_notes_the_same_calls_where_records_are_made_at_once() -> None:
    streams = []
    for runner in RUNNERS:
        machine = Machine("priv_gic", runner=runner, period=20, jitter=True, together=True)
        found: list[Calls] = []
        machine.board.follow_calls("cfi")

        def note(_: bytes, calls: Sequence[Calls], found: list[Calls] = found) -> None:
            found.extend(calls)

        machine.board.pes[0].unit.led.connect(note)
        machine.run(20_000)
        streams.append((bytes(machine.streams[0]), found))
    assert streams[0] == streams[1]
    assert max(map(len, streams[0][1])) > 3


class Rules:
    """Names that have a rule for each address."""

    def __init__(self, rule: FrameRule | None) -> None:
        self._rule = rule
        self.asked: list[int] = []

    def function(self, address: int) -> str | None:
        return f"f{address:x}"

    def frame(self, address: int) -> FrameRule | None:
        self.asked.append(address)
        return self._rule


SP_AT = 0x4010_0000


def unwinder(rule: FrameRule | None, *stack: int) -> tuple[Unwinder, Rules, int]:
    """An unwinder of a machine whose stack holds these doublewords, and its PC."""
    machine = Machine("hello")
    cpu = machine.board.pes[0].cpu
    cpu.engine.put(SP, SP_AT)
    machine.board.memory.write(SP_AT, struct.pack(f"<{len(stack)}Q", *stack))
    rules = Rules(rule)
    return Unwinder(cpu, rules), rules, cpu.pc


def test_saved_registers_are_read_wherever_they_lie() -> None:
    # X29 is saved farther away from X30 than what is read at once
    for far in (16, 8 * 40):
        rule = FrameRule(31, far, {29: -far, 30: -8}, outermost=False)
        stack = [0] * (far // 4)
        stack[far // 8 - 1] = 0x4008_0000
        found, rules, pc = unwinder(rule, *stack)
        assert found.here(pc) == (0x4008_0000,)  # and the caller's return address is 0
        assert rules.asked == [pc, 0x4008_0000 - 4]


def test_frames_that_do_not_lie_above_end_the_calls() -> None:
    below = FrameRule(31, -16, {30: 8}, outermost=False)
    found, _, pc = unwinder(below, 1, 2, 3, 4)
    assert found.here(pc) == ()
    still = FrameRule(31, 0, {30: 0}, outermost=False)  # each frame is the one before
    found, _, pc = unwinder(still, 0x4008_0000)
    assert found.here(pc) == (0x4008_0000,) * 127


@pytest.mark.parametrize("register", [32, 64, 1 << 40, -1])
def test_rules_by_registers_that_there_are_not_end_the_calls(register: int) -> None:
    rule = FrameRule(register, 1 << 70, {30: 1 << 70, 1 << 40: 0, -1: 0}, outermost=False)
    found, _, pc = unwinder(rule, 0x4008_0000)
    assert found.here(pc) == ()


def test_more_rules_than_the_table_holds_are_told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwinding, "_MOST_RULES", 6)  # those of one chain of calls here
    rule = FrameRule(31, 16, {30: 8 - 16}, outermost=False)
    machine = Machine("hello")
    cpu = machine.board.pes[0].cpu
    cpu.engine.put(SP, SP_AT)
    names = Rules(rule)
    found = Unwinder(cpu, names)
    for turn in range(3):
        calls = tuple(0x4008_0000 + 0x1000 * turn + 0x100 * n for n in range(5))
        stack = [word for call in calls for word in (0, call)]
        machine.board.memory.write(SP_AT, struct.pack("<12Q", *stack, 0, 0))
        assert found.here(cpu.pc) == calls
    assert names.asked.count(cpu.pc) == 3
