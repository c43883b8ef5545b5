"""Accesses to counters that trap: what the host does to the engine for one is undone."""

from __future__ import annotations

from spe_unicorn.arch.registers.system import MDCR_EL3
from spe_unicorn.host.run.runner import Runner
from tests.host.counting import exceptions_at_levels as x
from tests.host.counting.exceptions_at_levels import EL1, Level
from tests.support import a64 as a


def test_nobody_sees_that_the_engine_has_mdcr_el3_tpm_for_a_moment() -> None:
    """Counting looks at MDCR_EL3 before the trap is taken, at times first after other writes."""
    board = x.board(Level(EL1), [a.NOP], Runner)
    system, registers = board.handler.system, board.cpu.registers
    board.cpu.hooks.state.writes += 1  # whatever was known of registers is old
    system._have_it_trap(rt=1, read=True)
    assert board.cpu.engine.system(MDCR_EL3.encoding) == 3 << 12 | 1 << 17 | MDCR_EL3.TPM.mask
    assert registers.raw(MDCR_EL3) == 3 << 12 | 1 << 17
    system.stopped()
    assert registers.raw(MDCR_EL3) == 3 << 12 | 1 << 17
