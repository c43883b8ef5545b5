"""When the engine's TLB is flushed so that it can grow."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.engine.roomy import FIRST, MOST, next_flush
from spe_unicorn.host.run.reference import ReferenceRunner
from tests.support.machine_runs import Machine


def test_flushes_are_twice_as_far_apart_each_time_and_then_evenly() -> None:
    at = [next_flush(0)]
    while len(at) < 12:
        at.append(next_flush(at[-1]))
    doubled = [0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000, 0x80_0000]
    doubled += [0x100_0000, 0x200_0000, 0x400_0000]
    assert at == [*doubled, 0x800_0000, 0xC00_0000, 0x1000_0000]


@pytest.mark.parametrize("executed", [0, 1, FIRST - 1, FIRST, FIRST + 1, MOST - 1, MOST, 7 * MOST])
def test_the_next_flush_is_ahead(executed: int) -> None:
    assert executed < next_flush(executed) <= max(2 * executed, FIRST)


def flushes(machine: Machine, monkeypatch: pytest.MonkeyPatch, operations: int) -> list[int]:
    """Operations executed at each flush of the TLB while a machine runs."""
    found: list[int] = []
    flush = Engine.flush_tlb

    def noted(engine: Engine) -> None:
        found.append(machine.board.cpu.executed)
        flush(engine)

    monkeypatch.setattr(Engine, "flush_tlb", noted)
    machine.run(operations)
    monkeypatch.undo()
    return found


def test_the_tlb_is_flushed_at_just_these_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine("bench_alu8")
    machine.run(100_000)  # the program's own are over
    assert flushes(machine, monkeypatch, 1_000_000) == [FIRST, 2 * FIRST, 4 * FIRST]


def test_a_machine_that_is_stepped_flushes_it_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine("bench_alu8")
    machine.run(FIRST - 50)
    machine.go_on_with(ReferenceRunner)
    assert flushes(machine, monkeypatch, 100) == [FIRST]


def test_samples_around_a_flush_are_those_of_the_reference() -> None:
    fast, plain = (Machine("bench_hash", period=13) for _ in range(2))
    for machine in (fast, plain):
        machine.run(FIRST - 300)
    plain.go_on_with(ReferenceRunner)
    assert fast.run(600).differences(plain.run(600)) == {}
    assert any(a.operation <= FIRST < b.operation for a, b in pairwise(plain.sampled))
