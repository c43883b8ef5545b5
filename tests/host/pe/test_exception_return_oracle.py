"""Our ERET against the engine's own, over random states.

Known differences, kept out or masked here: the engine returns to AArch32 state, to EL2 in Secure
state, and to EL0 in AArch64 state below an EL1 in AArch32 state; it leaves PSTATE.PAN alone on an
illegal return.
"""

from __future__ import annotations

from random import Random

from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc
from unicorn import arm64_const as regs
from unicorn.arm64_const import UC_CPU_ARM64_MAX

from spe_unicorn.arch.exceptions.entry import el_of
from spe_unicorn.arch.exceptions.returns import exception_return
from spe_unicorn.arch.registers.id import (
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    ELR_EL1,
    ELR_EL2,
    ELR_EL3,
    HCR_EL2,
    SCR_EL3,
    SPSR,
    SPSR_EL1,
    SPSR_EL2,
    SPSR_EL3,
)
from tests.support.fakes import FakePE

CODE, TARGET = 0x1_0000, 0x1_0100
ERET = 0xD69F_03E0
SPSR_OF: dict[int, type[SysReg]] = {1: SPSR_EL1, 2: SPSR_EL2, 3: SPSR_EL3}
ELR_OF: dict[int, type[SysReg]] = {1: ELR_EL1, 2: ELR_EL2, 3: ELR_EL3}
IDENTIFICATION = (ID_AA64PFR0_EL1, ID_AA64PFR1_EL1, ID_AA64MMFR1_EL1, ID_AA64MMFR2_EL1)
CASES = 600


def key(register: type[SysReg]) -> tuple[int, int, int, int, int]:
    e = register.encoding
    return e.crn, e.crm, e.op0, e.op1, e.op2


def write(uc: Uc, register: type[SysReg], value: int) -> None:
    uc.reg_write(regs.UC_ARM64_REG_CP_REG, (*key(register), value))


def test_random_returns_agree_with_the_engine() -> None:
    rng = Random("ERET")
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
    uc.mem_map(CODE, 0x1000)
    uc.mem_write(CODE, ERET.to_bytes(4, "little"))
    identity = {r: uc.reg_read(regs.UC_ARM64_REG_CP_REG, key(r)) for r in IDENTIFICATION}
    legal = illegal = 0
    for _ in range(CASES):
        el = rng.randint(1, 3)
        pstate = SPSR(rng.getrandbits(4) << 28 | rng.getrandbits(4) << 6 | el << 2 | 1)
        spsr = SPSR(rng.getrandbits(32) & ~SPSR.nRW.mask & ~SPSR.SS.mask)
        if rng.random() < 0.7:
            spsr = spsr.replace(M=rng.choice((0b0000, 0b0100, 0b0101, 0b1000, 0b1001, 0b1101)))
        ns = int(el == 2 or rng.random() < 0.7)
        if el_of(spsr) == 2 and not ns:
            continue
        to_el0 = el_of(spsr) == 0
        scr = SCR_EL3.of(NS=ns, RW=to_el0 or el < 3 or rng.random() < 0.8, HCE=1).value
        tge = el > 1 and rng.random() < 0.3
        rw = to_el0 or el == 1 or rng.random() < 0.8
        hcr = HCR_EL2.of(RW=rw, TGE=tge, E2H=rng.random() < 0.5).value
        uc.reg_write(regs.UC_ARM64_REG_PSTATE, pstate.value)
        for register, value in (
            (SCR_EL3, scr),
            (HCR_EL2, hcr),
            (SPSR_OF[el], spsr.value),
            (ELR_OF[el], TARGET),
        ):
            write(uc, register, value)
        uc.emu_start(CODE, 1, count=1)
        pe = FakePE({SCR_EL3: scr, HCR_EL2: hcr, **identity}, el=el)
        ours = exception_return(pe, pstate, spsr, TARGET)
        ignored = SPSR.PAN.mask if ours.illegal else 0
        engine = SPSR(uc.reg_read(regs.UC_ARM64_REG_PSTATE) & ~ignored)
        context = f"{pstate!r} {spsr!r} {SCR_EL3(scr)!r} {HCR_EL2(hcr)!r}"
        assert SPSR(ours.pstate.value & ~ignored) == engine, context
        assert uc.reg_read(regs.UC_ARM64_REG_PC) == ours.pc == TARGET
        legal, illegal = legal + (not ours.illegal), illegal + ours.illegal
    assert legal > CASES // 8
    assert illegal > CASES // 4
