"""Samples of accesses that fault: what their records say, with both runners."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, Final

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.host.stale_tables import CODE, FURTHER, MEMORY, PAGES, VECTORS, loop, mapped, tables
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

EXCEPTION, RETIRED, L1D_ACCESS, TLB_ACCESS, MISALIGNED = 1, 1 << 1, 1 << 2, 1 << 4, 1 << 11
"""Events of records."""
GO_ON: Final = [
    *(a.mrs(22, astuple(system.ELR_EL1.encoding)), a.add_imm(22, 22, 4)),
    *(a.msr(astuple(system.ELR_EL1.encoding), 22), a.ERET),
]
"""A handler that goes on after the operation."""
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
UNMASK_DEBUG: Final = a.daifclr(0b1000)
CHECKED: Final = 1 << 1
"""SCTLR_EL1.A."""


def machine_of(body: list[int], sctlr: int = 0, **options: Any) -> Machine:
    """A machine with the MMU on that executes ``body`` and skips what faults."""
    segments = {**tables(), CODE: a.code([*mapped(sctlr), *body, a.b(0)])}
    segments[VECTORS + 0x200] = a.code(GO_ON)
    return Machine(image_of(segments, CODE), ram=16 << 20, **options)


def records(machine: Machine, word: int) -> list[Record]:
    """The records of an operation."""
    found = []
    for sampled, operation in zip(machine.sampled, machine.operations, strict=True):
        if operation.instruction.word == word:
            placed = read_record(sampled.record, 0)
            assert isinstance(placed, PlacedRecord)
            found.append(placed.record)
    return found


# An access that crosses a page, and whose second page is not there

ACROSS: Final = {
    "ldr": a.ldr(5, 4),
    "str": a.str_(5, 4),
    "ldp": a.pair(True, 5, 7, 4, 0),
    "ldr q": a.ldr_q(1, 4),
}
SIMD: Final = [*a.mov64(3, 0b11 << 20), a.msr(astuple(system.CPACR_EL1.encoding), 3), a.ISB]


def crossing(runner: type[Runner], word: int, period: int) -> Machine:
    body = [*SIMD, *a.mov64(4, FURTHER - 4), *loop(40, [word, a.add_imm(10, 10, 1), a.NOP])]
    machine = machine_of(body, runner=runner, period=period, model="cache")
    machine.run(450)
    return machine


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [1, 7, 13])
@pytest.mark.parametrize("name", ACROSS)
def test_a_fault_of_the_second_page_gives_the_records_of_the_reference(
    name: str, period: int
) -> None:
    fast, plain = (crossing(r, ACROSS[name], period) for r in (Runner, ReferenceRunner))
    assert fast.sampled == plain.sampled
    assert fast.streams == plain.streams
    assert fast.model() == plain.model()
    assert fast.board.cpu.engine.x(10) == 40


@RUNNERS
@pytest.mark.parametrize("period", [7, 13])
def test_a_fault_of_the_second_page_comes_after_the_look_at_the_caches(
    runner: type[Runner], period: int
) -> None:
    """The model takes the page that follows for the second one, and the access as made."""
    found = records(crossing(runner, ACROSS["ldr"], period), ACROSS["ldr"])
    assert len(found) > 2
    for record in found:
        assert record.pa is None
        assert record.va is not None
        assert record.va.VA == FURTHER - 4
    did = EXCEPTION | RETIRED | L1D_ACCESS | TLB_ACCESS | MISALIGNED
    assert {record.events for record in found[1:]} == {did}


# Alignment and watchpoints: the first is checked before translation, the second after it


@RUNNERS
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 4])
def test_a_misaligned_access_that_is_refused_has_no_physical_address(
    runner: type[Runner], model: Any, period: int
) -> None:
    body = [*a.mov64(4, PAGES + 1), *loop(30, [a.ldr(5, 4), a.NOP, a.str_(5, 4)])]
    machine = machine_of(body, CHECKED, runner=runner, period=period, model=model)
    machine.run(400)
    found = records(machine, a.ldr(5, 4)) + records(machine, a.str_(5, 4))
    assert len(found) > 4
    for record in found:
        assert record.events & EXCEPTION
        assert record.pa is None
        assert record.va is not None
        assert record.va.VA == PAGES + 1


@RUNNERS
def test_one_that_is_aligned_has_its_own(runner: type[Runner]) -> None:
    body = [*a.mov64(4, PAGES + 8), *loop(30, [a.ldr(5, 4), a.NOP])]
    machine = machine_of(body, CHECKED, runner=runner, period=1)
    machine.run(100)
    found = records(machine, a.ldr(5, 4))
    assert len(found) > 4
    for record in found:
        assert not record.events & EXCEPTION
        assert record.pa is not None
        assert record.pa.PA == MEMORY + 8


@RUNNERS
def test_an_access_that_a_watchpoint_stops_has_been_translated(runner: type[Runner]) -> None:
    """AArch64.TranslateAddress() looks at watchpoints once the address is translated."""
    every, loads, enabled = 0xFF << 5, 0b01 << 3, 0b11 << 1 | 1
    watch = [
        *(*a.mov64(3, PAGES + 8), a.msr(astuple(d.DBGWVRS[0].encoding), 3)),
        *(*a.mov64(3, every | loads | enabled), a.msr(astuple(d.DBGWCRS[0].encoding), 3)),
        *(*a.mov64(3, 1 << 15 | 1 << 13), a.msr(astuple(d.MDSCR_EL1.encoding), 3)),
        *(a.msr(astuple(d.OSLAR_EL1.encoding), 31), a.ISB, UNMASK_DEBUG),
    ]
    body = [*watch, *a.mov64(4, PAGES + 8), *loop(3, [a.ldr(5, 4), a.NOP])]
    machine = machine_of(body, runner=runner, period=1)
    machine.run(150)
    found = records(machine, a.ldr(5, 4))
    assert found
    for record in found:
        assert record.events & EXCEPTION
        assert record.pa is not None
        assert record.pa.PA == MEMORY + 8
