"""Counts from outside that are bounded to values of CONTEXTIDR, worked out by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.host.counting.outside import Contexts, OutsideCounts, context_of
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.events import PMUEvent as E
from tests.pmu.monitored_pe import LEVELS, P7, MonitoredPE
from tests.support import a64 as a
from tests.support.counters import RUNNERS, enc, put
from tests.support.small_boards import RAM, board_at

E2H, TGE = 1 << 34, 1 << 27


def observed(board: Board, *values: int) -> OutsideCounts:
    pe = board.pes[0]
    contexts = Contexts(pe.cpu, frozenset(values))
    events = (E.INST_RETIRED, E.BR_RETIRED)
    outside = OutsideCounts(pe.counting.totals, events, by_level=False, contexts=contexts)
    pe.counting.observe(outside)
    return outside


def processes(*values: int, rounds: int = 10) -> list[int]:
    """For each value: it is written, and then a loop takes 2 operations a round."""
    code = []
    for value in values:
        code += [*put(system.CONTEXTIDR_EL1, value), a.ISB]
        code += [a.movz(4, rounds), a.sub_imm(4, 4, 1), a.cbnz(4, -4)]
    return [*code, *put(system.CONTEXTIDR_EL1, 99), a.ISB, a.b(0)]


EACH = 1 + 1 + 2 * 10 + 2
"""What a process has: ISB, the move, the loop, and what writes the next one's CONTEXTIDR."""


@RUNNERS
@pytest.mark.parametrize(
    ("values", "instructions"), [((7,), EACH), ((8,), 2 * EACH), ((7, 8), 3 * EACH), ((1,), 0)]
)
def test_what_is_counted_is_between_two_writes(
    runner: type[Runner], values: tuple[int, ...], instructions: int
) -> None:
    board = board_at(processes(7, 8, 5, 8), el=1, runner=runner)
    outside = observed(board, *values)
    board.run(400)
    counts = outside.s.counts
    assert counts[E.INST_RETIRED] == [0, instructions, 0, 0]
    assert counts[E.BR_RETIRED] == [0, 10 * instructions // EACH, 0, 0]


@RUNNERS
def test_exception_levels_are_told_apart(runner: type[Runner]) -> None:
    """EL1 writes the value and returns to EL0, whose loop ends in an SVC."""
    at_el0 = [a.movz(4, 20), a.sub_imm(4, 4, 1), a.cbnz(4, -4), a.svc(0)]
    code = [*a.mov64(0, RAM + 0x8000), a.msr(enc(system.VBAR_EL1), 0), *put(system.SPSR_EL1, 0x3C0)]
    code += [*put(system.ELR_EL1, RAM + 0x4000), *put(system.CONTEXTIDR_EL1, 7), a.ISB, a.ERET]
    board = board_at(code, el=1, runner=runner)
    board.memory.fill(RAM + 0x4000, a.code(at_el0))
    board.memory.fill(RAM + 0x8400, a.code([a.NOP, *put(system.CONTEXTIDR_EL1, 0), a.b(0)]))
    outside = observed(board, 7)
    board.run(300)
    # ISB and ERET before, NOP, the move and the write after it
    assert outside.s.counts[E.INST_RETIRED] == [1 + 40 + 1, 2 + 3, 0, 0]


@pytest.mark.parametrize(
    ("el", "hcr", "context"),
    [
        (EL0, 0, 1),
        (EL1, 0, 1),
        (EL2, 0, None),
        (EL3, 0, None),
        (EL0, E2H | TGE, 2),
        (EL2, E2H | TGE, 2),
        (EL0, E2H, 1),
        (EL1, E2H, 1),
        (EL2, E2H, 2),
        (EL3, E2H | TGE, None),
    ],
)
def test_whose_context_it_is(el: int, hcr: int, context: int | None) -> None:
    pe = MonitoredPE(P7 | LEVELS, el=el)
    for register, value in (
        (system.CONTEXTIDR_EL1, 1),
        (system.CONTEXTIDR_EL2, 2),
        (system.HCR_EL2, hcr),
    ):
        pe.registers.set_raw(register, value)
    pe.registers.set_raw(system.SCR_EL3, 1)
    assert context_of(pe) == context
