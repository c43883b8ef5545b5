"""Exception entry: vectors, PSTATE, and what each register gets."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.exceptions import syndromes
from spe_unicorn.arch.exceptions.entry import (
    ExceptionEntry,
    ExceptionRecord,
    ExceptionType,
    el_of,
    hpfar_of,
    take_exception,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.pe import SecurityState
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
from spe_unicorn.arch.spaces import PASpace
from tests.support.fakes import ALL_LEVELS, FakePE

EL0T, EL1T, EL1H, EL2T, EL2H, EL3T, EL3H = 0x0, 0x4, 0x5, 0x8, 0x9, 0xC, 0xD
REGISTERS: dict[type[SysReg], int] = {
    SCR_EL3: SCR_EL3.of(NS=1, RW=1).value,
    HCR_EL2: HCR_EL2.of(RW=1).value,
    VBAR_EL1: 0x1_0000,
    VBAR_EL2: 0x2_0000,
    VBAR_EL3: 0x3_0000,
    ID_AA64PFR0_EL1: ID_AA64PFR0_EL1.of(DIT=1).value,
    ID_AA64PFR1_EL1: ID_AA64PFR1_EL1.of(SSBS=1, BT=1).value,
    ID_AA64MMFR1_EL1: ID_AA64MMFR1_EL1.of(PAN=2).value,
    ID_AA64MMFR2_EL1: ID_AA64MMFR2_EL1.of(UAO=1).value,
}
SVC = ExceptionRecord(ExceptionType.SYNC, syndromes.svc(0))
SPAN = SCTLR_EL1.SPAN.mask


def pe(extra: dict[type[SysReg], int] | None = None, **kwargs: frozenset[Feature]) -> FakePE:
    return FakePE({**REGISTERS, **(extra or {})}, **kwargs)


def enter(
    pstate: int,
    target_el: int,
    exception: ExceptionRecord = SVC,
    extra: dict[type[SysReg], int] | None = None,
    **kwargs: frozenset[Feature],
) -> ExceptionEntry:
    return take_exception(pe(extra, **kwargs), SPSR(pstate), exception, target_el, 0x8000_1234)


@pytest.mark.parametrize(
    ("mode", "target_el", "vector"),
    [
        (EL1T, 1, 0x1_0000),
        (EL1H, 1, 0x1_0200),
        (EL0T, 1, 0x1_0400),
        (EL0T, 2, 0x2_0400),
        (EL1T, 2, 0x2_0400),
        (EL1H, 2, 0x2_0400),
        (EL2T, 2, 0x2_0000),
        (EL2H, 2, 0x2_0200),
        (EL0T, 3, 0x3_0400),
        (EL2H, 3, 0x3_0400),
        (EL3T, 3, 0x3_0000),
        (EL3H, 3, 0x3_0200),
    ],
)
@pytest.mark.parametrize(
    ("kind", "offset"),
    [
        (ExceptionType.SYNC, 0),
        (ExceptionType.IRQ, 0x80),
        (ExceptionType.FIQ, 0x100),
        (ExceptionType.SERROR, 0x180),
    ],
)
def test_vector(mode: int, target_el: int, vector: int, kind: ExceptionType, offset: int) -> None:
    entry = enter(mode, target_el, ExceptionRecord(kind))
    assert entry.vector == vector + offset
    assert entry.target_el == el_of(entry.pstate) == target_el
    assert entry.pstate.M & 3 == 1


def test_low_bits_of_vbar_are_ignored() -> None:
    assert enter(EL0T, 1, extra={VBAR_EL1: 0xFFFF_8000_0001_07FF}).vector == 0xFFFF_8000_0001_0400


def test_state_before_the_exception_is_saved_whole() -> None:
    pstate = 0xA340_0C40 | EL0T  # N, C, TCO, DIT, PAN, BTYPE 3, F
    entry = enter(pstate, 1)
    assert entry.spsr == pstate
    assert entry.elr == 0x8000_1234


def test_flags_and_dit_survive_and_all_masks_are_set() -> None:
    everything = SPSR.of(
        N=1, Z=1, C=1, V=1, DIT=1, UAO=1, SS=1, IL=1, SSBS=1, BTYPE=3, M=EL0T
    ).value
    entry = enter(everything, 1, extra={SCTLR_EL1: SPAN})
    assert entry.pstate == SPSR.of(N=1, Z=1, C=1, V=1, DIT=1, D=1, A=1, I=1, F=1, M=EL1H)


@pytest.mark.parametrize(
    ("target_el", "span", "e2h_tge", "pan_before", "pan_after"),
    [
        (1, 0, 0, 0, 1),
        (1, 1, 0, 0, 0),
        (1, 1, 0, 1, 1),
        (2, 0, 0, 0, 0),
        (2, 0, 1, 0, 1),
        (2, 1, 1, 0, 0),
        (2, 1, 1, 1, 1),
        (3, 0, 0, 0, 0),
        (3, 0, 0, 1, 1),
    ],
)
def test_span_decides_whether_pan_is_set(
    target_el: int, span: int, e2h_tge: int, pan_before: int, pan_after: int
) -> None:
    pan = enter(
        SPSR.of(PAN=pan_before, M=EL0T).value,
        target_el,
        extra={
            SCTLR_EL1: SPAN * span,
            SCTLR_EL2: SPAN * span,
            SCTLR_EL3: SPAN * span,
            HCR_EL2: HCR_EL2.of(RW=1, E2H=e2h_tge, TGE=e2h_tge).value,
        },
    ).pstate.PAN
    assert pan == pan_after


def test_host_at_el2_without_tge_does_not_set_pan() -> None:
    assert enter(EL2H, 2, extra={HCR_EL2: HCR_EL2.of(E2H=1).value}).pstate.PAN == 0


@pytest.mark.parametrize("dssbs", [0, 1])
def test_ssbs_becomes_what_the_target_says(dssbs: int) -> None:
    extra: dict[type[SysReg], int] = {SCTLR_EL1: SCTLR_EL1.of(DSSBS=dssbs, SPAN=1).value}
    before = SPSR.of(SSBS=1 - dssbs, M=EL0T).value
    ssbs = enter(before, 1, extra=extra).pstate.SSBS
    assert ssbs == dssbs


def test_features_that_are_absent_leave_no_trace_in_pstate() -> None:
    none: dict[type[SysReg], int] = {
        ID_AA64PFR1_EL1: 0,
        ID_AA64MMFR1_EL1: 0,
        SCTLR_EL1: SCTLR_EL1.of(DSSBS=1).value,
    }
    assert enter(EL0T, 1, extra=none).pstate == SPSR.of(D=1, A=1, I=1, F=1, M=EL1H)


def test_tag_checks_are_off_at_the_vector_with_mte() -> None:
    assert enter(EL0T, 1).pstate.TCO == 0
    assert enter(EL0T, 1, features=ALL_LEVELS | {Feature.FEAT_MTE2}).pstate.TCO == 1


def test_profiling_exceptions_are_masked_at_the_vector_with_ebep() -> None:
    features = ALL_LEVELS | {Feature.FEAT_EBEP, Feature.FEAT_SEBEP}
    entry = enter(SPSR.of(PPEND=1, M=EL0T).value, 1, features=features)
    assert (entry.pstate.PM, entry.pstate.PPEND) == (1, 0)
    assert entry.spsr == SPSR.of(PPEND=1, M=EL0T).value
    assert enter(EL0T, 1).pstate.PM == 0


@pytest.mark.parametrize(
    ("nv2", "nv1", "nv", "mode_saved"),
    [
        (0, 0, 0, EL1H),
        (0, 0, 1, EL2H),
        (0, 1, 1, EL1H),
        (0, 1, 0, EL1H),
        (1, 0, 1, EL2H),
        (1, 1, 1, EL2H),
    ],
)
def test_guest_hypervisor_sees_itself_at_el2(nv2: int, nv1: int, nv: int, mode_saved: int) -> None:
    features = ALL_LEVELS | {Feature.FEAT_NV2}
    extra: dict[type[SysReg], int] = {HCR_EL2: HCR_EL2.of(RW=1, NV2=nv2, NV1=nv1, NV=nv).value}
    assert enter(EL1H, 1, extra=extra, features=features).spsr == mode_saved
    assert enter(EL0T, 1, extra=extra, features=features).spsr == EL0T
    assert enter(EL1H, 2, extra=extra, features=features).spsr == EL1H


@pytest.mark.parametrize(
    ("mode", "target_el", "ec"), [(EL0T, 1, 0x24), (EL1H, 1, 0x25), (EL1H, 2, 0x24)]
)
def test_abort_class_tells_whether_it_came_from_below(mode: int, target_el: int, ec: int) -> None:
    abort = syndromes.data_abort(FaultRecord(Fault.Translation, 2, write=True))
    entry = enter(mode, target_el, ExceptionRecord(ExceptionType.SYNC, abort, 0xDEAD_BEE8))
    assert entry.esr == ec << 26 | 0x0200_0046
    assert entry.far == 0xDEAD_BEE8


def test_instruction_abort_from_the_same_level() -> None:
    abort = syndromes.instruction_abort(FaultRecord(Fault.Permission, 3))
    entry = enter(EL2H, 2, ExceptionRecord(ExceptionType.SYNC, abort, 0x1000))
    assert entry.esr == 0x8600_000F


def test_call_leaves_fault_addresses_alone() -> None:
    entry = enter(EL0T, 1)
    assert entry.esr == 0x5600_0000
    assert entry.far is None
    assert entry.hpfar is None


@pytest.mark.parametrize("kind", [ExceptionType.IRQ, ExceptionType.FIQ])
def test_interrupt_leaves_the_syndrome_alone(kind: ExceptionType) -> None:
    assert enter(EL0T, 1, ExceptionRecord(kind)).esr is None


@pytest.mark.parametrize(("mode", "target_el"), [(EL2H, 1), (EL3H, 2), (EL0T, 0)])
def test_exception_never_goes_down(mode: int, target_el: int) -> None:
    with pytest.raises(ValueError, match=f"cannot be taken to EL{target_el}"):
        enter(mode, target_el)


def test_hpfar_holds_the_page_of_the_ipa() -> None:
    fault = FaultRecord(
        Fault.Translation, 2, stage2=True, ipa=0x12_3456_7ABC, ipa_space=PASpace.NonSecure
    )
    assert hpfar_of(fault, SecurityState.NON_SECURE) == 0x1_2345_670
    assert hpfar_of(fault, SecurityState.SECURE) == 1 << 63 | 0x1_2345_670
    secure = fault._replace(ipa_space=PASpace.Secure)
    assert hpfar_of(secure, SecurityState.SECURE) == 0x1_2345_670
    assert hpfar_of(FaultRecord(Fault.Translation, 2), SecurityState.NON_SECURE) is None
    abort = ExceptionRecord(ExceptionType.SYNC, syndromes.data_abort(fault), 0, 0x1230)
    assert enter(EL1H, 2, abort).hpfar == 0x1230
