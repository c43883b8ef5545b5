"""Debug registers at random, under random code: both runners end in the same state."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from tests.host.run.debugged import CODE, DATA, LOG, board, encoding
from tests.support import a64 as a

OPERATIONS = 240


def registers(random: Random) -> dict[type, int]:
    """Some breakpoints and watchpoints, near the code and the data, often enabled."""
    found: dict[type, int] = {d.MDSCR_EL1: random.choice((0xA000, 0xA000, 0xA000, 0x2000))}
    levels = (3 << 1, 1 << 1, 1 << 13 | 3 << 1, 1 << 13 | 3 << 14)
    for n in range(d.BREAKPOINTS):
        if random.random() < 0.4:
            bt = random.choice((0, 0, 0, 1, 2, 3, 4, 8, 10, 12))
            value = CODE + 4 * random.randrange(40) if bt < 2 else random.randrange(3)
            control = bt << 20 | random.randrange(6) << 16 | random.choice(levels)
            found |= {d.DBGBVRS[n]: value, d.DBGBCRS[n]: control | 0xF << 5 | 1}
    for n in range(d.WATCHPOINTS):
        if random.random() < 0.5:
            control = random.choice(levels) | random.randrange(4) << 3 | 1
            control |= random.choice((0xFF, 0x0F, 0x3C, 0x80, 0x81)) << 5
            control |= random.choice((0, 0, 3, 6)) << 24
            found |= {d.DBGWVRS[n]: DATA + 4 * random.randrange(32), d.DBGWCRS[n]: control}
    return found


def code(random: Random) -> list[int]:
    """Loads, stores, atomics, and writes of what is looked for, some of them over and over."""
    makers = (
        lambda: a.ldr(random.randrange(5), 6, 8 * random.randrange(16)),
        lambda: a.str_(random.randrange(5), 6, 8 * random.randrange(16)),
        lambda: a.pair(bool(random.randrange(2)), 1, 2, 6, 8 * random.randrange(8)),
        lambda: a.ldadd(1, 2, 6),
        lambda: a.ldxr(3, 6),
        lambda: a.stxr(4, 3, 6),
        lambda: a.add_imm(1, 1, 3),
        lambda: a.svc(1),
        lambda: a.brk(1),
        lambda: a.daifset(8),
        lambda: a.daifclr(8),
        lambda: a.msr((3, 0, 13, 0, 1), random.choice((8, 31))),
        lambda: a.msr(encoding(d.OSLAR_EL1), random.choice((8, 31, 31))),
        lambda: a.msr(encoding(random.choice(d.DBGWVRS)), 6),
        lambda: a.mrs(2, encoding(d.MDSCR_EL1)),
        lambda: a.ISB,
        lambda: a.fadd(0, 0, 0),
        lambda: a.dc_zva(6),
        lambda: a.b(8),
    )
    words = [random.choice(makers)() for _ in range(40)]
    return [a.movz(8, 1), *words, a.sub_imm(9, 9, 1), a.cbnz(9, -4 * 42)]


@pytest.mark.parametrize("seed", range(24))
def test_both_runners_agree(seed: int) -> None:
    outcomes = []
    for runner in (Runner, ReferenceRunner):
        random = Random(seed)
        chosen, words = registers(random), code(random)
        el = random.choice((1, 1, 2))
        sampling = Sampling(random.choice((1, 7)), jitter=False)
        made, before = board(words, chosen, runner, at=1, el=el, sampling=sampling)
        seen: list[tuple[int, bool, int | None, int | None]] = []
        made.unit.recorded.connect(
            lambda _, operation, seen=seen: seen.append(
                (operation.pc, operation.exception, operation.va, operation.pa)
            )
        )
        ending = made.run(before + OPERATIONS)
        cpu = made.cpu
        outcomes.append(
            (
                ending,
                cpu.pc,
                cpu.pstate,
                cpu.executed,
                [cpu.engine.x(n) for n in range(31)],
                made.memory.read(DATA, 256),
                made.memory.read(LOG, 2048),
                [cpu.registers.raw(r) for r in d.DEBUG_REGISTERS],
                seen,
            )
        )
    for fast, plain in zip(*outcomes, strict=True):
        assert fast == plain
