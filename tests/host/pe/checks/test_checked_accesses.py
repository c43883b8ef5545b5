"""Accesses that look at shadows of RAM by themselves: nobody sees a difference.

With a core model the same code compares lines for it, too.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import numpy as np
import pytest

import spe_unicorn
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.shadow import heap, marks
from spe_unicorn.host.pe.checks.noncoherent import Coherence
from spe_unicorn.host.pe.checks.shadow import Noted, Saved, Shadow
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of

pytestmark = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)

DATA = RAM_BASE + (16 << 20)
SIZES = (0, 1, 2, 3)
"""Of an access, as instructions have them: 1, 2, 4 and 8 bytes."""
UNWRITTEN, HEAP = marks.UNWRITTEN, marks.HEAP


def run(
    firmware: str | Image,
    looks: int,
    functions: tuple[tuple[int, int, int, int], ...],
    operations: int,
    inline: bool,
    monkeypatch: pytest.MonkeyPatch,
    model: bool,
) -> tuple[Saved, list[Noted], list[tuple[int, ...]], list[int]]:
    """What is known and was noted after some operations, loads past the cache, and registers."""
    use_inline(monkeypatch, inline)
    options = MachineOptions(
        firmware,
        ram=64 << 20,
        core="neoverse-n1" if model else "generic",
        model="cache" if model else "none",
    )
    with spe_unicorn.Machine(options, records=False) as machine:
        checks = Checks(machine.board, looks, functions)
        machine.run(64)  # then there is memory for stubs
        machine.run(operations)
        checks.coherence.restore()
        checks.looked_at_inline(inline)
        registers = [machine.board.pes[0].cpu.engine.x(n) for n in range(31)]
        return checks.shadow.save(), checks.shadow.take(), checks.loads, registers


def use_inline(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    """Blocks of machines from now on may count themselves, or may not."""
    gc.collect()  # engines of other tests leave no memory near this one's code
    monkeypatch.setenv(known.OPTION, str(int(on)))


class Checks:
    """Both shadows of a board."""

    def __init__(
        self, board: Board, looks: int, functions: Sequence[tuple[int, int, int, int]] = ()
    ) -> None:
        self.cpus: list[UnicornCPU] = [pe.cpu for pe in board.pes]
        self.loads: list[tuple[int, ...]] = []
        self.shadow = Shadow(self.cpus, board.memory, board.ram, looks, functions)
        self.coherence = Coherence(
            self.cpus, board.memory, board.ram, lambda *load: self.loads.append(load)
        )

    def looked_at_inline(self, on: bool) -> None:
        """Accesses of the first PE have looked by themselves, or have not."""
        counted = self.cpus[0].hooks.counted_inline
        assert counted.on is on
        assert bool(counted.blocks) is on
        assert not counted.refused


def alike(
    firmware: str | Image,
    looks: int,
    functions: tuple[tuple[int, int, int, int], ...],
    operations: int,
    monkeypatch: pytest.MonkeyPatch,
    model: bool,
) -> list[Noted]:
    """What was noted, with such accesses as without."""
    without, those = (
        run(firmware, looks, functions, operations, inline, monkeypatch, model)
        for inline in (False, True)
    )
    assert np.array_equal(without[0].used, those[0].used)
    assert np.array_equal(without[0].marks, those[0].marks)
    assert np.array_equal(without[0].chunks, those[0].chunks)
    assert without[1:] == those[1:]
    return those[1]


with_model = pytest.mark.parametrize("model", [False, True])


@pytest.mark.sweep(first=True)
@with_model
@pytest.mark.parametrize("name", ["bench_list", "spe_copy", "stale_lines", "priv_smp"])
def test_the_marks_of_all_bytes_are_the_same(
    name: str, model: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike(str(shipped_firmware(name)), UNWRITTEN, (), 300_000, monkeypatch, model)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("name", "core", "smp", "period"),
    [
        ("bench_hash", "neoverse-n1", 1, 997),
        ("bench_list", "neoverse-v2", 1, 509),
        ("spe_copy", "generic", 1, None),
        ("spe_smp", "neoverse-n1", 2, None),
        ("spe_coherence", "generic", 4, None),
    ],
)
def test_a_core_model_is_told_the_same_while_memory_is_checked(
    name: str, core: str, smp: int, period: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caches, records and PMU events; none of the programs reads past a cache."""
    seen: list[Result] = []
    for inline, check in ((True, False), (True, True), (False, True)):
        use_inline(monkeypatch, inline)
        machine = Machine(name, core=core, model="cache", smp=smp, period=period, together=True)
        checks = Checks(machine.board, UNWRITTEN) if check else None
        machine.board.run(64)
        seen.append(machine.run(400_000))
        if checks is not None:
            checks.looked_at_inline(inline)
            assert checks.loads == []
    assert seen[0].differences(seen[1]) == {}
    assert seen[0].differences(seen[2]) == {}


TURNS = 40


@with_model
@pytest.mark.parametrize(("sized", "warm"), [(False, False), (True, False), (True, True)])
def test_an_allocator_is_followed_while_blocks_count_themselves(
    sized: bool, warm: bool, model: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``warm``: the block to which the first call returns counts itself before that call."""
    begin = [*a.mov64(20, DATA), a.movz(25, TURNS), a.movz(26, 100 * warm), a.b(4 + 8 * warm)]
    warming = [a.subs_imm(26, 26, 1), a.b_cond(a.GT, -4), a.b_cond(a.EQ, -16)] if warm else []
    uses = [word for n in SIZES for word in (a.str_(1, 21, 8, n), a.ldr(2, 21, 8, n))]
    found = [a.ldr(2, 21, 16), a.str_(1, 21, 24, 0)]  # not written; behind the block
    turn = [a.movz(0, 24), 0, *warming, a.add_imm(21, 0, 0), *uses, *found, a.add_imm(0, 21, 0), 0]
    turn += [a.ldr(3, 21, 8), a.subs_imm(25, 25, 1)]  # given back
    turn += [a.b_cond(a.NE, -4 * len(turn)), a.b(0)]
    # what these do to their own memory is right
    malloc = [a.str_(9, 20, 24), a.add_imm(0, 20, 0), a.add_imm(20, 20, 32), a.ret()]
    free = [a.str_(9, 0), a.ret()]
    calls = [n for n, word in enumerate(turn) if word == 0]
    turn[calls[0]] = a.bl(4 * (len(turn) - calls[0]))
    turn[calls[1]] = a.bl(4 * (len(turn) + len(malloc) - calls[1]))
    words = [*begin, *turn, *malloc, *free]
    first = RAM_BASE + 4 * (len(begin) + len(turn))
    sizes = (4 * len(malloc), 4 * len(free)) if sized else (0, 0)
    functions = (
        (first, heap.GETS, 0, sizes[0]),
        (first + 4 * len(malloc), heap.GIVES_BACK, 0, sizes[1]),
    )
    image = image_of({RAM_BASE: a.code(words)}, RAM_BASE)
    noted = alike(image, UNWRITTEN | HEAP, functions, 2_000, monkeypatch, model)
    fresh = len(begin) + 3 + len(warming) + len(uses)
    places = [(each.kind, (each.pc - RAM_BASE) // 4) for each in noted]
    assert places == [
        (marks.FRESH, fresh),
        (marks.STORE, fresh + 1),
        (marks.LOAD, fresh + 4),
    ]
    assert [each.address - DATA for each in noted] == [16, 24, 8]
