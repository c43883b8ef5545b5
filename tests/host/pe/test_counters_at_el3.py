"""Registers of the Performance Monitors that a core does not have: UNDEFINED, at EL3 as elsewhere.

The engine has some of them, and traps nothing at EL3.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc, UcError
from unicorn import arm64_const as regs

import spe_unicorn
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.spe import PMSCR_EL1
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.feed import SampleEvent
from tests.support import a64 as a
from tests.support.counters import MAX, RUNNERS, counters, enc, get, profiling, put, x
from tests.support.small_boards import RAM, board_at

VECTORS = RAM + 0x8000
TWO = replace(MAX, counters=2)
SMC = 0xD400_0003
EL1_CODE = RAM + 0x4000
DOWN = {
    system.VBAR_EL3: VECTORS,
    system.SCR_EL3: 0x431,  # RW, NS
    system.HCR_EL2: 1 << 31,  # RW
    system.MDCR_EL3: 3 << 12 | 1 << 17,  # NSPB, SPME
    system.MDCR_EL2: 3 << 12 | 6,  # E2PB, HPMN
    PMSCR_EL1: 0,  # UNKNOWN after a reset
    system.SPSR_EL3: 0x3C5,
    system.ELR_EL3: EL1_CODE,
}
"""What EL3 writes on its way to EL1, where SPE's buffer is."""
SKIP = [
    *(a.mrs(9, enc(system.ESR_EL3)), a.lsr_imm(9, 9, 26), a.cbnz(9, 8), a.add_imm(20, 20, 1)),
    *(a.mrs(9, enc(system.ELR_EL3)), a.add_imm(9, 9, 4), a.msr(enc(system.ELR_EL3), 9), a.ERET),
]
"""X20 counts exceptions of class 0; each access that raises one is skipped."""


def undefined(accesses: list[int], core: Core, runner: type[Runner], before: list[int]) -> int:
    """How many of some accesses in a row, at EL3, are UNDEFINED."""
    code = [*a.mov64(0, VECTORS), a.msr(enc(system.VBAR_EL3), 0), *before, a.movz(20, 0)]
    board = board_at([*code, *accesses, a.b(0)], runner=runner, core=core)
    board.memory.fill(VECTORS + 0x200, a.code(SKIP))
    board.run(2000)
    assert board.cpu.pc == RAM + 4 * (len(code) + len(accesses))
    return x(board, 20)[0]


def both(register: type[SysReg]) -> list[int]:
    return [get(register, 1), a.msr(enc(register), 1)]


@RUNNERS
def test_a_core_without_them_has_none_at_el3(runner: type[Runner]) -> None:
    accesses = [word for register in r.PMU_REGISTERS for word in both(register)]
    assert len(accesses) >= 2 * (2 * 31 + 20)
    assert undefined(accesses, load_core("minimal"), runner, []) == len(accesses)


@RUNNERS
@pytest.mark.parametrize(
    ("selected", "there"), [(0, 4), (1, 4), (2, 0), (3, 0), (5, 0), (30, 0), (31, 2)]
)
def test_a_selected_counter_that_is_not_there(
    runner: type[Runner], selected: int, there: int
) -> None:
    """31 selects PMCCFILTR_EL0 for PMXEVTYPER_EL0, and no counter."""
    accesses = [*both(r.PMXEVTYPER_EL0), *both(r.PMXEVCNTR_EL0)]
    assert undefined(accesses, TWO, runner, put(r.PMSELR_EL0, selected)) == 4 - there


@RUNNERS
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_counter_that_is_not_there(runner: type[Runner], number: int) -> None:
    accesses = [*both(r.PMEVCNTRS[number]), *both(r.PMEVTYPERS[number])]
    assert undefined(accesses, TWO, runner, []) == (0 if number < 2 else 4)


@pytest.mark.parametrize("register", [r.PMCR_EL0, r.PMCCNTR_EL0, r.PMXEVCNTR_EL0, r.PMEVCNTRS[3]])
@pytest.mark.parametrize("el", [1, 3])
def test_with_the_plugin(register: type[SysReg], el: int) -> None:
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(regs.UC_CPU_ARM64_MAX)
    uc.mem_map(RAM, 0x1000)
    uc.mem_write(RAM, a.code([a.NOP, get(register, 1), a.NOP]))
    uc.reg_write(regs.UC_ARM64_REG_PSTATE, el << 2 | 1)
    with spe_unicorn.attach(uc, "minimal") as spe, pytest.raises(UcError):
        spe.emu_start(RAM, RAM + 12)
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == RAM + 4


# What is there


def test_events_of_sampling_are_exact_at_el3() -> None:
    """SPE is never enabled at EL3: what a read in a block finds there is what EL1 left behind."""
    found = []
    for runner in (Runner, ReferenceRunner):
        at_el1 = [
            *counters(SampleEvent.POP, SampleEvent.FEED, SampleEvent.FILTRATE),
            *profiling(256),
            *[*a.mov64(4, 700), a.sub_imm(4, 4, 1), a.cbnz(4, -4), SMC],
        ]
        code = [word for register, value in DOWN.items() for word in put(register, value)]
        board = board_at([*code, a.ERET], runner=runner, core=MAX)
        board.memory.fill(EL1_CODE, a.code(at_el1))
        reads = [get(r.PMEVCNTRS[n], 1 + n) for n in range(3)]
        board.memory.fill(VECTORS + 0x400, a.code([a.NOP, *reads, a.NOP, a.b(0)]))
        board.run(3000)
        assert board.cpu.el == 3
        found.append(x(board, 1, 2, 3))
    # the move, the loop and the SMC
    assert found[0] == found[1] == [1402, 1402 // 257, 1402 // 257]
