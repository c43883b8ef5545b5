"""Exceptions of every kind at random, counted by both runners and by Arm's table."""

from __future__ import annotations

from collections import Counter
from random import Random

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.pmu.events import PMUEvent as E
from tests.host.counting import exceptions_at_levels as x
from tests.host.counting.exceptions_at_levels import EL0, EL1, EL2, EL3, Level
from tests.support import a64 as a

CAUSES = 60
"""How many causes a program has; it goes over them again and again."""
PIECES = 60
"""Runs of a few operations each, with an interrupt before some of them."""


def _some(random: Random, *bits: int) -> int:
    return sum(bit for bit in bits if random.random() < 0.4)


def random_level(random: Random) -> Level:
    """An Exception level, with anything in the controls that route what it takes."""
    el = random.choice((EL0, EL1, EL2, EL3))
    secure = el != EL2 and random.random() < 0.2
    hcr = x.RW | _some(random, x.E2H, x.TSC, x.TID3, x.TEA, x.AMO, x.IMO, x.FMO)
    if el != EL1:
        hcr |= _some(random, x.TGE)  # EL1 would be no level to return to
    scr = (
        x.SCR & ~int(secure) | x.SCR_TWI | _some(random, x.SCR_EA, x.SCR_IRQ, x.SCR_FIQ, x.SCR_SMD)
    )
    if random.random() < 0.2:
        scr &= ~x.SCR_HCE
    cptr_el3 = _some(random, x.TFP, 1 << 8)  # EZ
    return Level(el, hcr, scr, _some(random, x.TDE), cptr_el3)


def random_code(random: Random, level: Level) -> list[int]:
    """Causes, some of them several times in a row, and plain operations between them, for ever."""
    causes = {
        **x.causes(level.el),
        "FP": x.cause([a.fadd(0, 0, 0)]),
        "SVE": x.cause([a.NOP, 0x0420_E3E6]),  # CNTB X6
        "ID": x.cause([a.mrs(0, (3, 0, 0, 4, 0))]),  # ID_AA64PFR0_EL1
    }
    if level.el < EL3:
        causes["WFI"] = x.cause([a.WFI])  # which SCR_EL3.TWI traps, if nothing else does
    if not level.el:
        causes |= {"HVC": x.cause([a.hvc(1)]), "SMC": x.cause([x.SMC])}
    names = sorted(causes)
    code: list[int] = [a.adr(x.RESUME, 4)]
    for _ in range(CAUSES):
        code += causes[random.choice(names)] * random.choice((1, 1, 1, 2, 5))
        code += [a.add_imm(1, 1, 1)] * random.choice((0, 0, 1, 4))
    return [*code, a.b(-4 * (len(code)))]


def counted_by(
    level: Level, seed: str, runner: type[Runner]
) -> tuple[list[x.Taken], Counter[E], list[int]]:
    """What is taken in a run of random pieces, what it counted as, and what else was executed."""
    random = Random(seed)
    code = random_code(random, level)
    board = x.board(level, code, runner, random.choice((0, 0x1C0, 0x80, 0x40)))
    inputs = board.pes[0].handler.interrupts
    taken: list[x.Taken] = []
    x.watch(board, taken.append)
    for _ in range(PIECES):
        line = random.choice((None, None, inputs.irq, inputs.fiq))
        if line is not None:
            line.set_level(True)
        elif random.random() < 0.1:
            inputs.pend_serror()
        board.run(random.choice((1, 2, 7, 60)))
        if line is not None:
            line.set_level(False)
        board.run(random.choice((1, 5, 300)))
    return taken, x.counted(board), x.progress(board)


def assert_counted_by_the_table(seed: str) -> int:
    """Both runners take the same exceptions and count them as Table D14-1 says; how many."""
    level = random_level(Random(f"{seed} level"))
    taken, counts, progress = counted_by(level, seed, Runner)
    expected = x.expected(level, taken)
    assert counts == expected, (level, counts - expected, expected - counts)
    stepped, counts, steps = counted_by(level, seed, ReferenceRunner)
    assert stepped == taken, level
    assert steps == progress, level
    assert counts == expected, (level, counts - expected, expected - counts)
    return len(taken)
