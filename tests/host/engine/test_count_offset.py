"""The physical count as EL2 shows it to EL1: less CNTPOFF_EL2, where that is enabled."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL2
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
CNTHCTL_EL2, CNTPOFF_EL2 = (3, 4, 14, 1, 0), (3, 4, 14, 0, 6)
CNTPCT_EL0, CNTPCTSS_EL0 = (3, 3, 14, 0, 1), (3, 3, 14, 0, 5)
CNTP_TVAL_EL0, CNTP_CTL_EL0, CNTP_CVAL_EL0 = ((3, 3, 14, 2, n) for n in range(3))
ELR_EL2, SPSR_EL2 = (3, 4, 4, 0, 1), (3, 4, 4, 0, 0)
EL1H = 0x3C5
ECV, EL1PCEN, EL1PCTEN = 1 << 12, 1 << 1, 1 << 0
OFFSET = 0x1234
TICK = 16
"""Operations."""


def run(cnthctl: int, runner: type[Runner]) -> tuple[list[int], list[int]]:
    """X1 to X6, and how many ticks had gone by at each of the first four reads.

    Those are of CNTPCT_EL0 at EL2, the same at EL1, CNTPCTSS_EL0, and that of the timer's
    CompareValue after 2 was written to its TimerValue; the others are its control before and after.
    """
    at_el2 = [
        *a.mov64(9, cnthctl),
        a.msr(CNTHCTL_EL2, 9),
        *a.mov64(9, OFFSET),
        a.msr(CNTPOFF_EL2, 9),
        *a.mov64(9, EL1H),
        a.msr(SPSR_EL2, 9),
        *a.mov64(9, CODE + 0x1000),
        a.msr(ELR_EL2, 9),
        a.mrs(1, CNTPCT_EL0),
        a.ERET,
    ]
    at_el1 = [
        a.mrs(2, CNTPCT_EL0),
        a.mrs(3, CNTPCTSS_EL0),
        a.movz(9, 2),
        a.msr(CNTP_TVAL_EL0, 9),
        a.mrs(4, CNTP_CVAL_EL0),
        a.movz(9, 3),
        a.msr(CNTP_CTL_EL0, 9),
        a.mrs(5, CNTP_CTL_EL0),
        *[a.NOP] * (3 * TICK),
        a.mrs(6, CNTP_CTL_EL0),
    ]
    image = image_of({CODE: a.code(at_el2), CODE + 0x1000: a.code([*at_el1, a.b(0)])}, CODE)
    machine = Machine(image, core="max", el=EL2, runner=runner)
    machine.run(len(at_el2) + len(at_el1))
    before = [len(at_el2) - 2, *(len(at_el2) + n for n in (0, 1, 3))]
    return [machine.board.cpu.engine.x(n) for n in range(1, 7)], [n // TICK for n in before]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(("control", "offset"), [(ECV, OFFSET), (0, 0)])
def test_el1_sees_the_count_and_its_timer_less_the_offset_where_el2_says_so(
    control: int, offset: int, runner: type[Runner]
) -> None:
    read, ticks = run(control | EL1PCEN | EL1PCTEN, runner)
    assert read[0] == ticks[0]  # EL2 sees the count itself
    assert read[1] == (ticks[1] - offset) % 2**64
    assert read[2] == (ticks[2] - offset) % 2**64
    assert read[3] == (ticks[3] + 2 - offset) % 2**64
    assert read[4:] == [0b011, 0b111]  # the condition is met two ticks later
