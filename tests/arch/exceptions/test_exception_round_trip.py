"""Properties of exception entry and return over random states."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.exceptions.entry import (
    ExceptionRecord,
    ExceptionType,
    el_of,
    pstate_mask,
    take_exception,
)
from spe_unicorn.arch.exceptions.returns import exception_return
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.id import (
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    SPSR,
    VBAR_EL1,
    VBAR_EL2,
    VBAR_EL3,
)
from tests.support.fakes import ALL_LEVELS, FakePE

IDENTITY: dict[type[SysReg], int] = {
    ID_AA64PFR0_EL1: ID_AA64PFR0_EL1.of(DIT=1).value,
    ID_AA64PFR1_EL1: ID_AA64PFR1_EL1.of(SSBS=1, BT=1).value,
    ID_AA64MMFR1_EL1: ID_AA64MMFR1_EL1.of(PAN=1).value,
    ID_AA64MMFR2_EL1: ID_AA64MMFR2_EL1.of(UAO=1).value,
}
MODES = (0x0, 0x4, 0x5, 0x8, 0x9, 0xC, 0xD)
words = st.integers(0, (1 << 64) - 1)


@st.composite
def machines(draw: st.DrawFn) -> FakePE:
    registers: dict[type[SysReg], int] = dict(IDENTITY)
    for register in (SCTLR_EL1, SCTLR_EL2, SCTLR_EL3, VBAR_EL1, VBAR_EL2, VBAR_EL3):
        registers[register] = draw(words)
    registers[SCR_EL3] = SCR_EL3.of(NS=1, RW=1).value
    registers[HCR_EL2] = HCR_EL2.of(RW=1, E2H=draw(st.integers(0, 1))).value
    extra = draw(st.sets(st.sampled_from([Feature.FEAT_MTE2, Feature.FEAT_EBEP])))
    return FakePE(registers, features=ALL_LEVELS | extra)


@given(machines(), words, st.sampled_from(MODES), st.integers(1, 3), st.sampled_from(ExceptionType))
def test_return_undoes_the_entry(
    pe: FakePE, noise: int, mode: int, target_el: int, kind: ExceptionType
) -> None:
    before = SPSR(noise & pstate_mask(pe)).replace(M=mode)
    target_el = max(target_el, el_of(before))
    entry = take_exception(pe, before, ExceptionRecord(kind), target_el, 0x1234)
    after = exception_return(pe, entry.pstate, SPSR(entry.spsr), entry.elr)
    assert not after.illegal
    assert (after.pstate, after.pc) == (before, 0x1234)


@given(machines(), words, st.sampled_from(MODES), st.sampled_from(ExceptionType))
def test_vector_lies_in_the_table_and_everything_is_masked(
    pe: FakePE, noise: int, mode: int, kind: ExceptionType
) -> None:
    before = SPSR(noise & pstate_mask(pe)).replace(M=mode)
    entry = take_exception(pe, before, ExceptionRecord(kind), 3, 0)
    assert entry.vector & ~0x7FF == pe.registers.raw(VBAR_EL3) & ~0x7FF
    assert entry.vector & 0x7F == 0
    assert entry.pstate.value & ~pstate_mask(pe) == 0
    after = entry.pstate
    assert (after.D, after.A, after.I, after.F, after.IL, after.M) == (1, 1, 1, 1, 0, 0xD)
