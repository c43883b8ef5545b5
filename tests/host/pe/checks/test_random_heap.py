"""Random calls of an allocator: what is known and noted is the same however blocks run.

The functions of the allocator give the address that X9 has. One goes on in another by a branch, one
calls another, one takes an exception whose handler asks for a block, one never returns. Blocks may
overlap, and are given back twice, or were never given.
"""

from __future__ import annotations

import gc
import random
from pathlib import Path

import numpy as np
import pytest

from spe_unicorn.host.engine import known
from spe_unicorn.host.native.shadow import heap, marks
from spe_unicorn.host.pe.checks.shadow import Noted, Saved, Shadow
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import AnyRunner, Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import EXECUTE, READ, Image, Segment
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.symbols.table import SymbolTable
from tests.support import a64 as a

DATA = RAM_BASE + (16 << 20)
STACK = 0x8_0000
"""Where the stack ends, behind DATA; what the second PE has is behind that."""
SLOTS = (0x20, 0x60, 0xA0, 0x1A0, 0x400, 0xFF0, 0x1008, 0x1FE0, 0x4001, 0x7000)
SIZES = (0, 1, 8, 13, 24, 48, 64, 200, 300, 3000, 9000)
TURNS = 5
CPU_ON = 0xC400_0003
SVC, HVC, ERET = 0xD400_0001, 0xD400_0002, 0xD69F_03E0
VECTORS = 0x800
SYNCHRONOUS = VECTORS + 0x200
OPERATIONS = 4_000


class Program:
    """Words, functions of an allocator first; all PEs run the rest."""

    def __init__(self, seed: int, abandons: bool, smp: int) -> None:
        self._chance = random.Random(seed)
        self.words = [a.b(0)]
        self._functions: list[tuple[int, int, int, int]] = []
        self._places: dict[str, int] = {}
        self._define("malloc", heap.GETS, a.add_imm(0, 9, 0), a.ret())
        self._define("calloc", heap.CLEARS, self._to("malloc", a.b, 0))
        save = [a.sub_imm(31, 31, 32), a.str_(30, 31)]
        back = [a.ldr(30, 31), a.add_imm(31, 31, 32), a.ret()]
        self._define("realloc", heap.MOVES, *save, self._to("malloc", a.bl, 2), *back)
        self._define("trapping", heap.GETS, SVC, a.add_imm(0, 9, 0), a.ret())
        self._define("aligned_alloc", heap.ALIGNS, a.add_imm(0, 9, 0), a.ret())
        self._define("free", heap.GIVES_BACK, a.str_(9, 0), a.ret())
        self._define("leaving", heap.GETS, a.add_imm(31, 31, 64), a.br(28))
        self._kinds = [name for name in self._places if name != "leaving" or abandons]
        self._put_handler()
        self.words[0] = a.b(4 * len(self.words))
        if smp > 1:
            on = (CPU_ON, 1, RAM_BASE + 4 * (len(self.words) + 10), 1 << 20)
            words = [word for n, value in enumerate(on) for word in a.mov64(n, value)]
            words.append(HVC)
            words.append(a.movz(0, 0))
            self.words += [0xD503_201F] * (10 - len(words)) + words
        self._put_turns()

    def _define(self, name: str, kind: int, *words: int) -> None:
        place = 4 * len(self.words)
        self._places[name] = place
        self._functions.append((RAM_BASE + place, kind, 0, 4 * len(words) * (name != "realloc")))
        self.words += words

    def _to(self, name: str, branch: object, further: int) -> int:
        assert callable(branch)
        word = branch(self._places[name] - 4 * (len(self.words) + further))
        assert isinstance(word, int)
        return word

    def _put_handler(self) -> None:
        """It asks for a block while the call that it has interrupted has not returned."""
        self.words += [a.b(0)] * (SYNCHRONOUS // 4 - len(self.words))
        self.words += [a.sub_imm(31, 31, 64), a.pair(True, 10, 11, 31), a.pair(False, 0, 30, 31)]
        self.words += [a.str_(9, 31, 16), a.add_imm(9, 20, 0x600), a.movz(0, 16)]
        self.words.append(self._to("malloc", a.bl, 0))
        self.words += [a.ldr(9, 31, 16), a.pair(True, 0, 30, 31), a.add_imm(31, 31, 64), ERET]

    def _put_turns(self) -> None:
        begin = [*a.mov64(20, DATA), 0x8B00_0294, *a.mov64(1, STACK), 0x8B01_0281]
        begin += [a.add_imm(31, 1, 0), *a.mov64(1, RAM_BASE + VECTORS), 0xD518_C001]
        self.words += [*begin, a.movz(25, TURNS)]
        first = len(self.words)
        for _ in range(60):
            self._access() if self._chance.random() < 0.5 else self._call()
        self.words.append(a.subs_imm(25, 25, 1))
        self.words += [a.b_cond(a.NE, 4 * (first - len(self.words))), a.b(0)]

    def _slot(self, register: int) -> None:
        """An address of a slot, or seldom one beside it."""
        slot = self._chance.choice(SLOTS) + (8 if self._chance.random() < 0.1 else 0)
        self.words += [*a.mov64(11, slot), 0x8B0B_0280 | register]

    def _call(self) -> None:
        name = self._chance.choice([*self._kinds, "malloc", "free", "free"])
        if name == "leaving":
            self.words += [a.sub_imm(31, 31, 64), 0x1000_001C | 5 + 2 << 5]  # ADR X28
            self.words += [a.movz(0, 8), *[0xD503_201F] * 4]
            self.words.append(self._to(name, a.bl, 0))
            self.words[-7] = 0x1000_001C | 7 << 5
            return
        self._slot(9)
        size = self._chance.choice(SIZES)
        if name in ("realloc", "free"):
            self._slot(0)
        else:
            self.words.append(a.movz(0, 1 if name in ("calloc", "aligned_alloc") else size))
        self.words.append(a.movz(1, size))
        if name in ("malloc", "free") and self._chance.random() < 0.3:
            # who has no block calls nothing: the block to which calls return begins without one
            self.words += [a.subs_imm(31, 25, self._chance.randrange(TURNS)), a.b_cond(a.EQ, 8)]
        self.words.append(self._to(name, a.bl, 0))

    def _access(self) -> None:
        self._slot(8)
        size = self._chance.randrange(4)
        offset = self._chance.choice((0, 8, 16, 24, 48, 200)) >> size << size
        kind = self._chance.choice((a.ldr, a.str_))
        if self._chance.random() < 0.2:
            self.words.append(a.pair(self._chance.random() < 0.5, 2, 3, 8))
        self.words.append(kind(2, 8, offset, size))

    @property
    def functions(self) -> tuple[tuple[int, int, int, int], ...]:
        """As ``Shadow`` has them."""
        return tuple(self._functions)


def known_after(
    program: Program, looks: int, smp: int, runner: type[AnyRunner]
) -> tuple[Saved, list[Noted], list[int], list[int]]:
    """What is known and was noted, X0 to X30, and what keeps blocks from counting themselves."""
    options = MachineOptions(ram=64 << 20, smp=smp, turn=97)
    board = Board(options, ConsoleEnds(lambda data: None), runner=runner)
    code = a.code(program.words)
    segment = Segment(RAM_BASE, code, len(code), RAM_BASE, READ | EXECUTE, 0)
    board.load(Image(Path("random"), RAM_BASE, (segment,), SymbolTable()))
    cpus = [pe.cpu for pe in board.pes]
    shadow = Shadow(cpus, board.memory, board.ram, looks, program.functions)
    noted = []
    for _ in range(OPERATIONS // 500):
        board.run(500)
        noted += shadow.take()
    registers = [cpu.engine.x(n) for cpu in cpus for n in range(31)]
    return shadow.save(), noted, registers, [cpu.state.allocating for cpu in cpus]


@pytest.mark.skipif(known.why_not() is not None, reason="inline counting is for Linux on x86-64")
@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("looks", [marks.HEAP, marks.HEAP | marks.UNWRITTEN])
@pytest.mark.parametrize(("smp", "abandons"), [(1, False), (1, True), (2, False), (2, True)])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_is_known_of_random_calls(
    seed: int, smp: int, abandons: bool, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(seed * 8 + smp * 2 + abandons, abandons, smp)
    seen = []
    for inline, runner in ((True, Runner), (False, Runner), (False, ReferenceRunner)):
        gc.collect()  # engines of other tests leave no memory near this one's code
        monkeypatch.setenv(known.OPTION, str(int(inline)))
        seen.append(known_after(program, looks, smp, runner))
    assert seen[0][1]  # something is noted
    for other in seen[1:]:
        assert np.array_equal(seen[0][0].used, other[0].used)
        assert np.array_equal(seen[0][0].marks, other[0].marks)
        order = [np.sort(one[0].chunks, order="address") for one in (seen[0], other)]
        assert np.array_equal(*order)
        assert seen[0][1:3] == other[1:3]
    assert seen[0][3] == [0] * smp  # blocks count themselves
