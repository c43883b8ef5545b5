"""The shadow of RAM: of which loads nobody has written what they load."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.host.native.shadow import heap, marks
from spe_unicorn.host.pe.checks.shadow import Noted, Shadow
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
STORED, ZEROED, FILLED, TYPED = (DATA + 0x1000 * n for n in (1, 2, 3, 4))
X0 = a.mov64(0, DATA)
"""Two words."""


def noted(words: list[int], runner: type[AnyRunner]) -> list[Noted]:
    """What is noted of a program; ``FILLED`` and ``TYPED`` are written from outside."""
    code = a.code(words)
    board = Board(MachineOptions(), ConsoleEnds(lambda data: None), runner=runner)
    segment = Segment(RAM_BASE, code, len(code), RAM_BASE, READ | EXECUTE, 0)
    board.load(Image(Path("loads"), RAM_BASE, (segment,), SymbolTable()))
    cpus = [pe.cpu for pe in board.pes]
    shadow = Shadow(cpus, board.memory, board.ram, marks.UNWRITTEN)
    board.memory.fill(FILLED, bytes(8))
    cpus[0].virtual.write(TYPED, bytes(8))
    board.run(100)
    return shadow.take()


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_loads_are_noted_once_unless_somebody_has_written_a_byte(runner: type[AnyRunner]) -> None:
    # four words are loaded in a loop, and the last one again
    loop = [*a.mov64(0, DATA), a.movz(1, 4)]
    first = len(loop)
    loop += [a.ldr9(2, 0, 8, 0b01), a.subs_imm(1, 1, 1), a.b_cond(1, -8)]
    again = len(loop)
    loop += [a.ldr9(3, 0, -8, 0b00)]
    # stored, one byte of it is enough; zeroed; written from outside
    right = [*a.mov64(4, STORED), a.str_(1, 4, size=0), a.ldr(5, 4)]
    right += [*a.mov64(4, ZEROED), a.dc_zva(4), a.ldr(5, 4, 56)]
    right += [*a.mov64(4, FILLED), a.ldr(5, 4), *a.mov64(4, TYPED), a.ldr(5, 4)]
    # behind what was stored: none of the eight bytes
    behind = len(loop) + len(right) + 2
    words = [*loop, *right, *a.mov64(4, STORED), a.ldr(5, 4, 8), a.b(0)]
    # a note of its own says that the loop goes on where it has just been
    found = [each for each in noted(words, runner) if not each.follows]
    assert [(each.pc - RAM_BASE) // 4 for each in found] == [first, again, behind]
    assert [each.address for each in found] == [DATA, DATA + 24, STORED + 8]
    # operations before each: the loop takes three of each of its four turns
    turns = 4 * 3
    assert [each.executed for each in found] == [first, first + turns, behind + turns - 3]
    assert {(each.kind, each.size) for each in found} == {(marks.FRESH, 8)}


def test_a_later_piece_of_an_access_says_so() -> None:
    words = [*X0, a.str_(0, 0), a.pair(True, 2, 3, 0), a.b(0)]
    (found,) = noted(words, Runner)
    assert found.follows
    assert found.address == DATA + 8


@pytest.mark.parametrize("core", ["generic", "neoverse-n2"])
def test_a_block_of_more_than_half_of_all_addresses_has_no_byte(core: str) -> None:
    """Where the upper byte of an address is ignored, DATA - 2**63 is DATA."""
    begin = [*a.mov64(0, 1 << 62), a.movz(1, 2)]
    calloc = [*X0, a.ret()]
    words = [*begin, a.bl(8), a.b(0), *calloc]
    first = RAM_BASE + 4 * (len(begin) + 2)
    code = a.code(words)
    board = Board(MachineOptions(core=core), ConsoleEnds(lambda data: None))
    segment = Segment(RAM_BASE, code, len(code), RAM_BASE, READ | EXECUTE, 0)
    board.load(Image(Path("calloc"), RAM_BASE, (segment,), SymbolTable()))
    functions = ((first, heap.CLEARS, 0, 4 * len(calloc)),)
    cpus = [pe.cpu for pe in board.pes]
    shadow = Shadow(cpus, board.memory, board.ram, marks.HEAP, functions)
    board.run(100)
    saved = shadow.save()
    assert [(chunk["address"], chunk["size"]) for chunk in saved.chunks] == [(DATA, 0)]
    assert not (saved.marks & (marks.LIVE | marks.WRITTEN)).any()


@pytest.mark.parametrize("looks", [marks.HEAP, marks.HEAP | marks.UNWRITTEN])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_block_that_is_given_again_has_its_own_marks(looks: int, runner: type[AnyRunner]) -> None:
    """All are at one address: of the same size as before, of a larger one, and the first one."""
    malloc, free = [a.add_imm(0, 20, 0), a.ret()], [a.ret()]
    words = [*a.mov64(20, DATA), a.b(4 * (1 + len(malloc) + len(free)))]
    first = 4 * len(words)
    words += malloc + free
    fresh = (marks.FRESH,) if looks & marks.UNWRITTEN else ()
    found: list[tuple[int, int, int]] = []

    def call(size: int) -> None:
        """A block of so many bytes; 0: it is given back."""
        argument = a.movz(0, size) if size else a.add_imm(0, 20, 0)
        target = first if size else first + 4 * len(malloc)
        words.extend((argument, a.bl(target - 4 * (len(words) + 1))))

    def access(word: int, offset: int, *kinds: int) -> None:
        found.extend((kind, len(words), offset) for kind in kinds)
        words.append(word)

    call(24)
    call(0)
    call(24)
    access(a.str_(1, 20, 24), 24, marks.STORE)
    access(a.str_(1, 20), 0)
    access(a.ldr(2, 20), 0)
    access(a.ldr(2, 20, 8), 8, *fresh)
    call(0)
    call(40)
    access(a.str_(1, 20, 24), 24)
    access(a.ldr(2, 20, 24), 24)
    access(a.ldr(2, 20, 40), 40, marks.LOAD, *fresh)
    call(0)
    call(24)
    access(a.str_(1, 20, 24), 24, marks.STORE)
    access(a.ldr(2, 20, 16), 16, *fresh)
    call(0)
    access(a.ldr(2, 20), 0, marks.LOAD, *fresh)
    words.append(a.b(0))
    code = a.code(words)
    board = Board(MachineOptions(), ConsoleEnds(lambda data: None), runner=runner)
    segment = Segment(RAM_BASE, code, len(code), RAM_BASE, READ | EXECUTE, 0)
    board.load(Image(Path("again"), RAM_BASE, (segment,), SymbolTable()))
    functions = (
        (RAM_BASE + first, heap.GETS, 0, 4 * len(malloc)),
        (RAM_BASE + first + 4 * len(malloc), heap.GIVES_BACK, 0, 4 * len(free)),
    )
    cpus = [pe.cpu for pe in board.pes]
    shadow = Shadow(cpus, board.memory, board.ram, looks, functions)
    board.run(200)
    noted = [(n.kind, (n.pc - RAM_BASE) // 4, n.address - DATA) for n in shadow.take()]
    assert noted == found
