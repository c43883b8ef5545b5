"""CNTVCT_EL0 without its offset: at EL2 with HCR_EL2.E2H, and at EL0 with TGE as well."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system, timer
from spe_unicorn.host.native.state.actions import READ, Action
from spe_unicorn.host.pe import sysregs
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import board_at

E2H, TGE, RW = 1 << 34, 1 << 27, 1 << 31
OFFSET = 1 << 40
MASKED = 0x3C0
READABLE = 0b11 | 0b11 << 10
"""CNTHCTL_EL2: EL0 and EL1 may read the physical count, with E2H and without."""


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(
    ("el", "hcr", "is_behind"),
    [
        (2, 0, True),
        (2, TGE, True),
        (2, E2H, False),
        (2, E2H | TGE, False),
        (1, E2H, True),
        (0, 0, True),
        (0, TGE, True),
        (0, E2H, True),
        (0, E2H | TGE, False),
    ],
)
def test_the_virtual_count_is_behind_unless_the_level_is_in_a_host(
    el: int, hcr: int, is_behind: bool, runner: type[Runner]
) -> None:
    """It is read in a loop, so that the second read is one of code that has run before."""
    code = [*put(system.CNTKCTL_EL1, 0b11), *put(system.HCR_EL2, hcr | RW), a.ISB]
    code += [*put(system.CNTHCTL_EL2, READABLE), *put(system.CNTVOFF_EL2, OFFSET), a.ISB]
    if el < 2:
        code += [*put(system.SPSR_EL2, MASKED | el << 2), a.adr(3, 16)]
        code += [a.msr(astuple(system.ELR_EL2.encoding), 3), a.ISB, a.ERET]
    vct, pct = (astuple(one.encoding) for one in (timer.CNTVCT_EL0, timer.CNTPCT_EL0))
    code += [a.mrs(2, pct), a.mrs(1, vct), a.b(-8)]
    board = board_at(code, el=2, runner=runner)
    assert board.run(len(code) + 6) is Ending.LIMIT
    assert board.cpu.el == el
    behind = (board.cpu.engine.x(2) - board.cpu.engine.x(1)) & (1 << 64) - 1
    assert (behind + 8) >> 4 == (OFFSET >> 4 if is_behind else 0), "some ticks at the most"
    actions = board.cpu.hooks.accesses
    assert actions.action(sysregs.CNTVCT_EL0, READ) is Action.COUNT, "not by Python"
