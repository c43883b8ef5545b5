"""Calls by call frame information, and where frame records tell the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.operation import Calls
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
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
