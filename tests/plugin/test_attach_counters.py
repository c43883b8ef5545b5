"""The Performance Monitors on an engine of somebody else's."""

from __future__ import annotations

import pytest
from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc, UcError
from unicorn import arm64_const as regs

import spe_unicorn
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.counters import counters, get, put

CODE, TAIL = 0x1_0000, 0x1_8000
READS = [
    *(get(r.PMEVCNTRS[0], 1), get(r.PMCCNTR_EL0, 2), a.NOP, a.NOP),
    *(get(r.PMEVCNTRS[0], 3), get(r.PMCCNTR_EL0, 4)),
]


def engine(words: list[int]) -> Uc:
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(regs.UC_CPU_ARM64_MAX)
    uc.mem_map(CODE, 0x1_0000)
    uc.mem_write(CODE, a.code(words))
    uc.mem_write(TAIL, a.code(READS))
    return uc


def x(uc: Uc) -> list[int]:
    return [uc.reg_read(regs.UC_ARM64_REG_X0 + n) for n in range(1, 5)]


def test_counters_are_ours_and_events_stand_still_in_a_run_of_the_users() -> None:
    words = [*counters(E.INST_RETIRED), *put(r.PMEVCNTRS[0], 0), a.NOP]
    uc = engine(words)
    with spe_unicorn.attach(uc, "max") as spe:
        spe.emu_start(CODE, CODE + 4 * len(words))
        spe.emu_start(TAIL, TAIL + 4 * len(READS))
        first, cycles, second, later = x(uc)
        assert (first, second, later - cycles) == (2, 6, 4)  # MSR and NOP came before
        uc.emu_start(TAIL, TAIL + 4 * len(READS))
        first, cycles, second, later = x(uc)
        assert (first, second, later - cycles) == (8, 8, 4)  # cycles go on
        spe.emu_start(TAIL, TAIL + 4 * len(READS))
        assert x(uc)[0] == 8


def test_a_core_without_the_monitors_has_no_register_of_theirs() -> None:
    uc = engine([get(r.PMCCNTR_EL0, 1)])
    with spe_unicorn.attach(uc, "minimal") as spe, pytest.raises(UcError):
        spe.emu_start(CODE, CODE + 4)
