"""Tables changed without TLB maintenance: the same guest in every way of running.

The engine's TLB keeps what it knows until an operation at which it is flushed (ADR 0039). None of
these guests gets so far, so they go on with the translations from before the change.
"""

from __future__ import annotations

import gc
import struct
from typing import Any, Final

import pytest

from spe_unicorn.arch.registers import spe
from spe_unicorn.host.engine import known
from spe_unicorn.host.engine.roomy import FIRST
from spe_unicorn.host.native import hooks
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.stale_tables import (
    CODE,
    FUNCTION,
    LEVEL1,
    LEVEL3,
    MEMORY,
    PAGE,
    PAGES,
    VECTORS,
    load,
    loop,
    map_to,
    mapped,
    page,
    put,
    tables,
)
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of

WAYS: Final = ("each block calls the hook", "blocks count themselves", "noted", "by steps")
MODELS = pytest.mark.parametrize("model", ["none", "cache"])
WORD: Final = 0x400
"""Where in their pages the guests load, so that no page takes another's place in the TLB."""
OLD, NEW = 1, 1000
"""What pages 1 and 3 have there."""
ROUNDS: Final = 60


def machine_of(way: str, segments: dict[int, bytes], monkeypatch: Any, **options: Any) -> Machine:
    gc.collect()
    monkeypatch.setenv(known.OPTION, "0" if way == WAYS[0] else "1")
    runner = ReferenceRunner if way == WAYS[3] else Runner
    machine = Machine(image_of(segments, CODE), runner=runner, ram=16 << 20, **options)
    if way == WAYS[2]:
        machine.board.pes[0].handler.controls.checks.note(noted=True)
    return machine


def guest(body: list[int]) -> dict[int, bytes]:
    return {
        **tables(),
        CODE: a.code([*mapped(), *body, a.b(0)]),
        FUNCTION: a.code([a.add_imm(12, 12, 1), a.RET]),
        MEMORY + PAGE + WORD: struct.pack("<Q", OLD),
        MEMORY + 3 * PAGE + WORD: struct.pack("<Q", NEW),
    }


def runs(segments: dict[int, bytes], operations: int, monkeypatch: Any, **options: Any) -> Any:
    """A machine of each way, after it has run."""
    assert operations < FIRST
    results: list[Result] = []
    for way in WAYS:
        machine = machine_of(way, segments, monkeypatch, **options)
        results.append(machine.run(operations))
        yield machine
    for way, result in zip(WAYS[1:], results[1:], strict=True):
        assert results[0].differences(result) == {}, way


ADDED: Final = [*load(5, PAGES + PAGE + WORD), a.add(10, 10, 5)]
"""Add up in X10 what page 1 has."""
CLEARED: Final = PAGES + 5 * PAGE + WORD
BODIES: Final = {
    "loads": ADDED,
    "stores": [*ADDED, *a.mov64(13, CLEARED), a.str_(5, 13)],
    "DC ZVA": [*ADDED, *a.mov64(13, CLEARED), a.dc_zva(13)],
    "code of a new page": [*ADDED, *a.mov64(14, FUNCTION), a.blr(14)],
    "all of them": [
        *(*ADDED, *a.mov64(13, CLEARED), a.str_(5, 13), a.dc_zva(13)),
        *(*a.mov64(14, FUNCTION), a.blr(14), a.str_(5, 13, 8)),
    ],
}


@pytest.mark.sweep(first=True)
@MODELS
@pytest.mark.parametrize("name", BODIES)
def test_a_page_that_is_mapped_anew_stays_where_it_was(
    name: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = [*ADDED, *map_to(1, 3), a.DSB_SY, a.ISB, *loop(ROUNDS, BODIES[name]), *ADDED]
    for machine in runs(guest(body), 2000, monkeypatch, model=model):
        assert machine.board.cpu.engine.x(10) == (ROUNDS + 2) * OLD


@MODELS
def test_after_tlb_maintenance_it_is_where_the_table_says(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained = [*map_to(1, 3), a.DSB_SY, a.sys(0, 8, 7, 0), a.DSB_SY, a.ISB]
    body = [*ADDED, *maintained, *loop(ROUNDS, BODIES["all of them"])]
    for machine in runs(guest(body), 2000, monkeypatch, model=model):
        assert machine.board.cpu.engine.x(10) == OLD + ROUNDS * NEW


@pytest.mark.sweep
@MODELS
@pytest.mark.parametrize("cleared", [False, True])
@pytest.mark.parametrize("table", [LEVEL1, LEVEL3])
def test_records_over_the_tables_in_use_change_nothing_yet(
    table: int, cleared: bool, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = {
        spe.PMSIRR_EL1: spe.PMSIRR_EL1.of(INTERVAL=1).value,
        spe.PMSICR_EL1: 0,
        spe.PMSFCR_EL1: 0,
        spe.PMSCR_EL1: spe.PMSCR_EL1.of(E1SPE=1, PA=1).value,
        spe.PMBPTR_EL1: table,
        spe.PMBLIMITR_EL1: table + PAGE | 1,
    }
    body = [word for register, value in sampling.items() for word in put(register, value)]
    name = "DC ZVA" if cleared else "stores"
    body += [a.ISB, *ADDED, *loop(1500, BODIES[name])]
    for machine in runs(guest(body), 12_000, monkeypatch, model=model):
        assert machine.board.cpu.engine.x(10) > 1000
        assert len(machine.sampled) == 12_000 // 257
        assert machine.board.memory.read(table, 64) == machine.sampled[0].record


# Code that the tables no longer have, and that the engine runs as it has translated it

HERE: Final = 0x10
"""The page that the code of these guests is in."""
SAME_PLACE: Final = 1 << 19
"""Addresses that are so far apart have the same place in a TLB of at most 512 entries."""


def unmaps_itself(epochs: bool) -> dict[int, bytes]:
    """A guest that takes its page of code out of the table, and then 24 others into the TLB."""
    rounds = 30
    crowd = [w for _ in range(24) for w in (a.ldr(5, 17), a.add(17, 17, 18))]
    begin = [*a.mov64(17, CODE + HERE * PAGE), *a.mov64(18, SAME_PLACE)]
    unmap = [a.subs_imm(31, 9, rounds // 2), a.b_cond(a.NE, 8), a.str_(31, 6)]
    body = [*begin, *unmap, *crowd, a.add_imm(10, 10, 1)]
    if epochs:  # compiled code looks at its blocks anew after that
        body.append(a.msr((3, 0, 2, 0, 0), 19))
    body += [a.add_imm(12, 12, 1)]
    code = [*a.mov64(6, LEVEL3 + 8 * HERE), *a.mov64(19, LEVEL1), *loop(rounds, body), a.b(0)]
    handler = [a.mrs(21, (3, 0, 5, 2, 0)), a.b(0)]
    rows = {HERE: page(HERE, executed=True)}
    return {
        **tables(rows),
        CODE: a.code([*mapped(), *a.mov64(14, PAGES + HERE * PAGE), a.br(14)]),
        VECTORS + 0x200: a.code(handler),
        MEMORY + HERE * PAGE: a.code(code),
    }


@pytest.mark.sweep
@MODELS
@pytest.mark.parametrize("period", [None, 7, 64, 1000])
@pytest.mark.parametrize("epochs", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_guest_that_unmaps_its_code_does_not_end_the_run(
    way: str, epochs: bool, period: int | None, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on, or takes an Instruction Abort: a Translation fault at level 3."""
    machine = machine_of(way, unmaps_itself(epochs), monkeypatch, model=model, period=period)
    assert machine.run(3000).ending is Ending.LIMIT
    x = machine.board.cpu.engine.x
    assert x(21) == 0x8600_0007 or (x(21), x(12)) == (0, 30)


@pytest.mark.parametrize("way", WAYS[:2])
def test_it_takes_an_abort_where_its_entry_has_given_way(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = machine_of(way, unmaps_itself(True), monkeypatch)
    machine.run(3000)
    assert machine.board.cpu.engine.x(21) == 0x8600_0007
    assert machine.board.cpu.entries.last_exception is not None


def test_where_the_engine_cannot_slow_stores_down_a_model_has_no_inline_counting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks, "slow_stores_by", lambda: 0)
    for model, on in (("none", known.why_not() is None), ("cache", False)):
        machine = machine_of(WAYS[1], guest([]), monkeypatch, model=model)
        assert machine.board.cpu.hooks.counted_inline.on is on
