"""Drivers of a few instructions, and which mistakes are found in them."""

from __future__ import annotations

import spe_unicorn
from spe_unicorn.debug.misuse import Misuses, watch_misuse
from tests.support import a64 as a
from tests.support.user_engine import (
    BUFFER,
    CODE,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    end,
    engine,
)

STOP = a.msr(PMSCR_EL1, 31)
ENABLE = [a.movz(9, 0b10), a.ISB, a.msr(PMSCR_EL1, 9), a.ISB]
SET_UP = [
    a.msr(PMSCR_EL1, 31),
    a.msr(PMBSR_EL1, 31),
    *a.mov64(9, BUFFER),
    a.msr(PMBPTR_EL1, 9),
    *a.mov64(9, BUFFER + 0x1_0000 | 1),
    a.msr(PMBLIMITR_EL1, 9),
    a.movz(9, 256),
    a.msr(PMSIRR_EL1, 9),
    a.msr(PMSFCR_EL1, 31),
    a.msr(PMSICR_EL1, 31),
]
WORK = [a.NOP] * 600


def names(misuses: Misuses) -> list[str]:
    return [misuse.rule.name for misuse in misuses.found]


def found_in(words: list[int]) -> list[str]:
    words = [*words, a.NOP]
    spe = spe_unicorn.attach(engine(words))
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    assert spe.statistics.written or not spe.statistics.population
    return names(misuses)
