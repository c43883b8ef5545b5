"""Stretches of harmless blocks: how they grow, which is in use, and what the block hook counts."""

from __future__ import annotations

import ctypes
from random import Random
from typing import Any

import numpy as np
import pytest

from spe_unicorn.bits import signed
from spe_unicorn.compiled import entry, record_at
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.hot_path import BLOCK_HOOKS
from spe_unicorn.host.native.state.block_table import BLOCKS, SPREAD, slot_of
from spe_unicorn.host.native.state.transit import ALL_WORDS, begin_epoch, work_out_plain
from spe_unicorn.host.native.state.whole import LAYOUT, State
from spe_unicorn.host.native.stretches import STRETCH, STRETCHES, join, vote
from spe_unicorn.host.native.tables import BlockTable
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine as Runs
from tests.support.machine_runs import image_of

CODE = 0x4008_0000
KERNEL = signed(0xFFFF_8000_1000_0000)


@entry("void", "pointer", "int64", "int64")
def joined(user: Any, address: Any, operations: Any) -> None:
    join(record_at(user, LAYOUT), address, operations)


@entry("void", "pointer", "int64")
def voted(user: Any, address: Any) -> None:
    vote(record_at(user, LAYOUT), address)


class Machine:
    """A state with a table of stretches, in a run that has to look at blocks."""

    def __init__(self) -> None:
        self.rows = np.zeros(STRETCHES, STRETCH)
        self.state = State(special=1, watch=1, regime=1, stretches=self.rows.ctypes.data)

    def join(self, *blocks: tuple[int, int]) -> None:
        for address, operations in blocks:
            joined(ctypes.addressof(self.state), address, operations)

    def vote(self, address: int, times: int = 1) -> None:
        for _ in range(times):
            voted(ctypes.addressof(self.state), address)

    @property
    def known(self) -> list[tuple[int, int]]:
        return sorted((int(s), int(e)) for s, e in self.rows.tolist() if s != e)

    @property
    def plain(self) -> tuple[int, int]:
        """The first address that is plain, and the one after the last."""
        return self.state.plain_from, self.state.plain_from + 4 * self.state.plain_words


@pytest.mark.parametrize("base", [CODE, KERNEL, -16])
def test_blocks_side_by_side_become_one_stretch_in_whatever_order(base: int) -> None:
    blocks = [(base + 8 * n, 2) for n in range(8)]
    for seed in range(20):
        machine = Machine()
        machine.join(*Random(seed).sample(blocks, len(blocks)))
        assert machine.known == [(base, base + 64)]
        assert machine.plain == (base, base + 64)


def test_blocks_apart_are_stretches_of_their_own_and_the_first_stays_in_use() -> None:
    machine = Machine()
    machine.join((CODE, 2), (CODE + 12, 1), (CODE + 0x1000, 4))
    assert machine.known == [(CODE, CODE + 8), (CODE + 12, CODE + 16), (CODE + 4096, CODE + 4112)]
    assert machine.plain == (CODE, CODE + 8)
    machine.join((CODE + 8, 1))
    assert machine.plain == (CODE, CODE + 16)


def test_a_full_table_forgets_its_oldest_stretch() -> None:
    machine = Machine()
    machine.join(*((CODE + 64 * n, 1) for n in range(STRETCHES + 1)))
    assert (CODE, CODE + 4) not in machine.known
    assert machine.plain == (CODE + 64 * STRETCHES, CODE + 64 * STRETCHES + 4)
    assert len(machine.known) == STRETCHES


def test_the_stretch_with_most_samples_comes_into_use() -> None:
    machine = Machine()
    machine.join((CODE, 2), (KERNEL, 2))
    machine.vote(CODE + 4, 100)
    machine.vote(KERNEL, 4)
    assert machine.plain == (CODE, CODE + 8)
    machine.vote(KERNEL)
    assert machine.plain == (KERNEL, KERNEL + 8)
    machine.vote(CODE + 0x1000, 50)
    assert machine.plain == (KERNEL, KERNEL + 8)


@pytest.mark.parametrize("field", ["deliver", "weigh", "tally"])
def test_there_is_none_in_use_where_each_block_is_looked_at(field: str) -> None:
    machine = Machine()
    machine.join((CODE, 2))
    setattr(machine.state, field, 1)
    machine.state.update_special()
    assert machine.state.plain_words == 0
    setattr(machine.state, field, 0)
    machine.state.update_special()
    assert machine.plain == (CODE, CODE + 8)


def test_a_new_epoch_and_another_regime_forget_the_stretches() -> None:
    machine = Machine()
    machine.join((CODE, 2))
    begin_epoch(machine.state)
    assert machine.state.plain_words == 0
    machine.vote(CODE, 50)
    assert machine.state.plain_words == 0
    machine.join((KERNEL, 2))
    assert machine.known == [(KERNEL, KERNEL + 8)]
    assert machine.plain == (KERNEL, KERNEL + 8)
    machine.state.regime = 2
    work_out_plain(machine.state)
    assert machine.state.plain_words == 0


@pytest.mark.parametrize(
    ("regime", "level", "to", "used"),
    [
        *((1, 1, 2, False), (1, 0, 3, False), (1, 0, 1, True), (1, 2, 3, True), (1, 1, 0, True)),
        *((1, 2, 1, True), (2, 2, 1, False), (2, 2, 0, False), (2, 2, 3, False), (2, 3, 2, True)),
        *((3, 3, 2, False), (3, 3, 0, False), (3, 1, 2, True), (2, 2, 2, True)),
    ],
)
def test_a_run_that_may_go_to_another_regime_looks_at_each_block(
    regime: int, level: int, to: int, used: bool
) -> None:
    machine = Machine()
    machine.state.regime = regime
    machine.join((CODE, 2))
    setattr(machine.state, "entries" if to > level else "alike", 1 << 4 * level + to)
    work_out_plain(machine.state)
    assert bool(machine.state.plain_words) == used


def test_all_words_are_plain_where_there_is_nothing_to_look_out_for() -> None:
    machine = Machine()
    machine.join((CODE, 2))
    machine.state.watch = 0
    machine.state.update_special()
    assert (machine.state.plain_from, machine.state.plain_words) == (0, ALL_WORDS)
    machine.state.begin(5)
    begin_epoch(machine.state)
    assert machine.state.plain_words == ALL_WORDS


def test_the_block_hook_counts_what_is_plain_and_asks_about_all_else() -> None:
    asked: list[tuple[int, int]] = []
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    special = ctypes.CFUNCTYPE(None, *kinds)(lambda _, __, at, count: asked.append((at, count)))
    quick = np.full(BLOCKS, -1, np.int64)
    hook = ctypes.CFUNCTYPE(None, *kinds[:2], ctypes.c_uint32, ctypes.c_void_p)(
        BLOCK_HOOKS[0].address
    )
    random = Random(3)
    for base in (0, CODE, KERNEL, -64):
        for everywhere in (False, True):
            state = State(plain_from=base, plain_words=16, quick=quick.ctypes.data, budget=1000)
            state.special_hook = ctypes.cast(special, ctypes.c_void_p).value
            if everywhere:
                state.plain_from, state.plain_words = 0, ALL_WORDS
            for at in [base + n for n in range(-8, 80)] + [signed(random.getrandbits(64))]:
                asked.clear()
                operations = 1 + random.randrange(9)
                state.budget = 5
                hook(None, at & (1 << 64) - 1, 4 * operations, ctypes.addressof(state))
                plain = at & 3 == 0 and (everywhere or base <= at < base + 64)
                counted = plain and operations <= 5
                assert asked == ([] if counted else [(signed(at & (1 << 64) - 1), operations)])
                assert state.budget == (5 - operations if counted else 5)


LOOP, LONG = CODE, CODE + 0x1000
LONGEST = 512
"""Operations after which the engine ends a block by itself."""
PROGRAM = {
    LOOP: a.code([a.movz(1, 20), a.subs_imm(1, 1, 1), a.b_cond(a.NE, -4), a.b(LONG - LOOP - 12)]),
    LONG: a.code([a.NOP] * (LONGEST + 8) + [a.PSB_CSYNC, a.b(LOOP - LONG - 4 * (LONGEST + 9))]),
}
"""A loop, and a block that is cut in two, with a PSB CSYNC in its second part."""


@pytest.fixture
def not_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(known.OPTION, "0")


def test_where_blocks_count_themselves_there_are_no_stretches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(known.OPTION, "1")
    machine = Runs(image_of(PROGRAM, LOOP), period=101)
    machine.run(20_000)
    hooks = machine.board.cpu.hooks
    assert (hooks.inline is None) == bool(hooks.blocks.stretches)


@pytest.mark.usefixtures("not_inline")
def test_a_block_that_the_engine_cuts_is_in_no_stretch() -> None:
    """A block that begins in its middle would go on behind its end."""
    machine = Runs(image_of(PROGRAM, LOOP), period=101)
    machine.run(20_000)
    hooks = machine.board.cpu.hooks
    first, *others = hooks.blocks.stretches
    assert first == (LOOP, LOOP + 16)
    assert all(start > LONG + 4 * (LONGEST + 8) for start, _ in others)
    assert hooks.state.stretch_from == LOOP


def around(gap: list[int], *, enters: bool = False) -> list[int]:
    """A loop around a gap, which is two words behind its start.

    It jumps over the gap, but goes through it wherever bit 8 of the rounds is set, if ``enters``.
    """
    over = a.tbz(2, 8, 4 * len(gap) + 4) if enters else a.b(4 * len(gap) + 4)
    return [a.add_imm(2, 2, 1), over, *gap, a.subs_imm(1, 1, 1), a.b(-4 * len(gap) - 12)]


@pytest.mark.usefixtures("not_inline")
@pytest.mark.parametrize(
    ("gap", "joined"),
    [
        ([a.NOP], True),
        ([a.NOP] * 29, True),  # 124 bytes: what lies in between is of the lines of both sides
        ([a.NOP] * 30, False),  # the line of neither side begins there
        ([a.NOP, a.PSB_CSYNC, a.NOP], False),
        ([a.ERET], False),
        ([0], True),
    ],
    ids=["a word", "two lines", "three lines", "PSB CSYNC", "ERET", "UDF"],
)
def test_a_gap_of_the_same_lines_that_would_be_harmless_is_joined(
    gap: list[int], joined: bool
) -> None:
    machine = Runs(image_of({LOOP: a.code(around(gap))}, LOOP), period=101)
    machine.run(2000)
    right = LOOP + 8 + 4 * len(gap)
    whole = [(LOOP, right + 8)]
    assert machine.board.cpu.hooks.blocks.stretches == (
        whole if joined else [(LOOP, LOOP + 8), (right, right + 8)]
    )


@pytest.mark.usefixtures("not_inline")
@pytest.mark.parametrize("period", [7, 101, 997])
def test_a_gap_that_runs_at_last_is_counted_and_sampled(period: int) -> None:
    code = a.code(around([a.add_imm(3, 3, 1), a.udiv(4, 3, 2), a.NOP], enters=True))
    machines = [
        Runs(image_of({LOOP: code}, LOOP), runner=r, period=period)
        for r in (Runner, ReferenceRunner)
    ]
    fast, plain = (machine.run(6000) for machine in machines)
    assert fast.differences(plain) == {}
    assert len(plain.records) > 5000 // period


class Harmless:
    """A table of blocks beside a table of stretches, in which blocks have run."""

    def __init__(self) -> None:
        self.state = State(special=1, watch=1, regime=1)
        self.blocks = BlockTable(self.state)

    def ran(self, *blocks: tuple[int, int]) -> None:
        """Blocks have been found to be harmless, as ``blocks_hook._goes_on`` notes it."""
        table = (ctypes.c_int64 * BLOCKS).from_address(self.state.quick)
        for address, operations in blocks:
            key = address ^ operations ^ signed(self.state.epoch * SPREAD & (1 << 64) - 1)
            table[slot_of(address, operations)] = key
            joined(ctypes.addressof(self.state), address, operations)

    def enter(self, address: int, operations: int) -> None:
        words = [a.NOP] * operations
        self.blocks.enter(address, words, np.zeros(8, np.int64), marks=0, members=1)


@pytest.mark.parametrize("base", [CODE, KERNEL])
def test_blocks_that_have_run_are_found_beside_one_of_them(base: int) -> None:
    table = Harmless()
    table.ran((base, 3), (base + 4, 2), (base + 12, 32), (base + 0x2000, 1))
    first = base & (1 << 64) - 1
    assert table.blocks.harmless_near(first) == [(first, 3), (first + 4, 2), (first + 12, 32)]
    table.enter(first, 3)
    assert table.blocks.harmless_near(first) == [(first + 4, 2), (first + 12, 32)]
    assert table.blocks.harmless_near(first + 0x2000) == [(first + 0x2000, 1)]
    assert table.blocks.harmless_near(first + 0x3000) == []


def test_the_nearest_blocks_of_a_stretch_are_found_and_no_more_than_eight() -> None:
    table = Harmless()
    blocks = [(CODE + 8 * n, 2) for n in range(100)]
    table.ran(*blocks)
    middle = CODE + 8 * 50
    near = table.blocks.harmless_near(middle)
    assert near[0] == (middle, 2)
    assert sorted(near) in (blocks[46:54], blocks[47:55])


def test_blocks_of_another_epoch_or_another_regime_are_not_found() -> None:
    table = Harmless()
    table.ran((CODE, 2))
    table.state.regime = 2
    assert table.blocks.harmless_near(CODE) == []
    table.state.regime = 1
    assert table.blocks.harmless_near(CODE) == [(CODE, 2)]
    begin_epoch(table.state)
    assert table.blocks.harmless_near(CODE) == []
    table.ran((CODE + 8, 2))
    assert table.blocks.harmless_near(CODE + 8) == [(CODE + 8, 2)]


@pytest.mark.usefixtures("not_inline")
def test_the_first_sample_in_a_loop_has_its_other_blocks_planned() -> None:
    """The first one is the twentieth operation of the loop, the ninth time round the program."""
    program = 42 + LONGEST + 8 + 2
    board = Runs(image_of(PROGRAM, LOOP), period=8 * program + 20).board
    parts = [(LOOP, 3), (LOOP + 4, 2), (LOOP + 12, 1)]

    def known() -> list[bool]:
        return [board.cpu.hooks.blocks.find(*part) is not None for part in parts]

    board.run(4000)
    assert known() == [False, False, False]
    board.run(2000)
    assert known() == [True, True, True]


@pytest.mark.usefixtures("not_inline")
@pytest.mark.parametrize("period", [11, 101, 997])
def test_samples_in_and_beside_stretches_are_those_of_the_reference(period: int) -> None:
    machines = [
        Runs(image_of(PROGRAM, LOOP), runner=r, period=period) for r in (Runner, ReferenceRunner)
    ]
    fast, plain = (machine.run(20_000) for machine in machines)
    assert fast.differences(plain) == {}
    assert len(plain.records) > 15_000 // period
