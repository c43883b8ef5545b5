"""Guests that execute loads and stores of FEAT_SVE2p1 on registers that a case sets."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe.vectors import predicate, set_predicate, set_vector, vector
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.normal_memory import SCTLR, machine, map_pages
from tests.instructions.sve2p1.memory_model import Operands, Page, Vectors
from tests.support import a64 as a
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CORE = "max"
ZCR_EL3 = (3, 6, 1, 2, 0)
UNDEFINED = 1 << 25
TRANSLATION_FAULT, ALIGNMENT_FAULT, WRITES = 0x9600_0007, 0x9600_0021, 1 << 6
"""Of loads at EL3."""
BYTES, ROOM = RAM + 0x4_0000, 0x8000
"""Where cases load and store."""
CODE = RAM + 0x800
MIDDLE = BYTES + ROOM // 2
LAST, PAGES_AT = RAM + 0x6_0000, RAM + 0x7_0000
"""Where mapped memory ends in cases of faults, and the table of its pages."""
LD1Q, LD2Q, ST1B_2 = 0xC41F_A8E3, 0xA490_E8E4, 0xA060_00EA
"""Of P2 or PN8, and Z7 or X7."""
LOOP = (LD1Q, LD2Q, ST1B_2)


def guest(
    length: int, runner: type[Runner], core: str = CORE, end: int = 0, controls: int = 0b101
) -> Board:
    """At EL3, with vectors of so many bits, behind its own operations; RAM up to ``end``.

    ``controls`` are bits of SCTLR_EL3.
    """
    setting = [*put(system.CPTR_EL3, 1 << 8), *a.mov64(0, length // 128 - 1), a.msr(ZCR_EL3, 0)]
    setting += put(system.SCTLR_EL3, SCTLR | controls)
    board = machine([*setting, a.ISB], runner, checks=False, core=core)
    if end:
        map_pages(board, PAGES_AT, end)
    board.run(60)
    return board


def random_vectors(random: Random, size: int, page: Page, o: Operands) -> Vectors:
    """Random registers, with addresses near the middle of the room."""
    z = [random.getrandbits(8 * size) for _ in range(32)]
    p = [random.getrandbits(size) for _ in range(16)]
    if random.random() < 0.3:
        p[o.g] |= (1 << size) - 1 & ~0xFFFF if page.consecutive else (1 << size) - 1
    x = [random.getrandbits(64) for _ in range(16)]
    x[o.n % 16] = MIDDLE + random.randrange(64)
    if page.gathers:
        offset = random.getrandbits(64)
        x[o.m] = offset
        z[o.n] = sum(
            (MIDDLE + random.randrange(-2000, 2000) - offset & (1 << 64) - 1) << 128 * n
            | random.getrandbits(64) << 128 * n + 64
            for n in range(size // 16)
        )
    elif page.by_register and o.m != o.n:
        x[o.m] = random.randrange(-20, 20) & (1 << 64) - 1
    memory = {BYTES + n: byte for n, byte in enumerate(random.randbytes(ROOM))}
    return Vectors(size, z, p, x, memory)


def execute(board: Board, word: int, v: Vectors, operations: int = 1) -> None:
    """Have the guest execute a word on these registers, and what comes after it."""
    cpu, length = board.cpu, 8 * v.size
    for n, value in enumerate(v.z):
        set_vector(cpu, n, value, length)
    for n, value in enumerate(v.p):
        set_predicate(cpu, n, value, v.size)
    for n, value in enumerate(v.x):
        cpu.engine.set_x(n, value)
    board.memory.fill(BYTES, bytes(v.memory[BYTES + n] for n in range(ROOM)))
    board.memory.fill(CODE, a.code([word, a.b(0)]))
    cpu.engine.forget_all_code()
    cpu.pc = CODE
    assert board.run(operations) is Ending.LIMIT


def registers(board: Board, size: int) -> tuple[list[int], list[int], list[int]]:
    """Vectors, predicates and X0 to X15."""
    cpu = board.cpu
    z = [vector(cpu, n, 8 * size) for n in range(32)]
    p = [predicate(cpu, n) & (1 << size) - 1 for n in range(16)]
    return z, p, [cpu.engine.x(n) for n in range(16)]
