"""Syndromes, routing, PMBIRQ and the SPE Profiling exception."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    BufferStatus,
    EventClass,
)
from spe_unicorn.arch.registers.system import HCR_EL2, MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.spe.management import (
    ManagementEvent,
    buffer_full,
    exception_requested,
    external_abort,
    mmu_fault,
    pending_exception,
    pmbirq_level,
    recorded,
    reporting_el,
)
from tests.support.fakes import EL1_ONLY, EXC, WITH_EL3, FakePE, spe_pe

RME = WITH_EL3 | EXC | {Feature.FEAT_RME}

FULL = buffer_full(0)
NOT_ALLOWED = ManagementEvent(EventClass.OTHER, BufferStatus.NOT_ALLOWED, 0, data_lost=True)
TOO_LARGE = ManagementEvent(EventClass.OTHER, BufferStatus.TOO_LARGE, 0)
STAGE1 = ManagementEvent(EventClass.STAGE1_ABORT, 0x07, 0)
STAGE2 = ManagementEvent(EventClass.STAGE2_ABORT, 0x07, 0)
GPC = ManagementEvent(EventClass.GPC_FAULT, 0, 0)
GPF = ManagementEvent(EventClass.STAGE1_ABORT, 0x28, 0)
GPF_ON_WALK = ManagementEvent(EventClass.STAGE1_ABORT, 0x25, 0)
EXTERNAL = ManagementEvent(EventClass.STAGE1_ABORT, 0x10, 0)
EXTERNAL_ON_WALK = ManagementEvent(EventClass.STAGE1_ABORT, 0x17, 0)


# Syndromes


def test_full_keeps_dl_ea_and_coll() -> None:
    assert recorded(PMBSR_EL1.of(DL=1, EA=1, COLL=1), FULL) == PMBSR_EL1.of(
        S=1, EC=0, MSS=1, DL=1, EA=1, COLL=1
    )
    assert recorded(PMBSR_EL1(0), FULL) == PMBSR_EL1.of(S=1, MSS=1)


def test_access_not_allowed_loses_data() -> None:
    assert recorded(PMBSR_EL1(0), NOT_ALLOWED) == PMBSR_EL1.of(S=1, EC=0, MSS=0, DL=1)


def test_too_large_has_its_status() -> None:
    assert recorded(PMBSR_EL1(0), TOO_LARGE) == PMBSR_EL1.of(S=1, EC=0, MSS=4)


@pytest.mark.parametrize(
    ("fault", "ec", "fsc"),
    [
        (FaultRecord(Fault.Translation, 1), 0x24, 0x05),
        (FaultRecord(Fault.Permission, 3), 0x24, 0x0F),
        (FaultRecord(Fault.AccessFlag, 2), 0x24, 0x0A),
        (FaultRecord(Fault.AddressSize, 0), 0x24, 0x00),
        (FaultRecord(Fault.SyncExternalOnWalk, 2), 0x24, 0x16),
        (FaultRecord(Fault.Alignment, 3), 0x24, 0x21),
        (FaultRecord(Fault.Translation, -1), 0x24, 0x2B),
        (FaultRecord(Fault.Translation, 2, stage2=True), 0x25, 0x06),
        (FaultRecord(Fault.Permission, 3, stage2=True, s1ptw=True), 0x25, 0x0F),
    ],
)
def test_mmu_faults_have_stage_and_level(fault: FaultRecord, ec: int, fsc: int) -> None:
    event = mmu_fault(fault, 0x1000, data_lost=False)
    assert recorded(PMBSR_EL1(0), event) == PMBSR_EL1.of(S=1, EC=ec, MSS=fsc)


def test_a_fault_inside_a_record_loses_data() -> None:
    event = mmu_fault(FaultRecord(Fault.Translation, 3), 0x1000, data_lost=True)
    assert recorded(PMBSR_EL1(0), event) == PMBSR_EL1.of(S=1, EC=0x24, MSS=7, DL=1)


def test_a_fault_at_the_start_of_a_record_leaves_dl() -> None:
    event = mmu_fault(FaultRecord(Fault.Translation, 3), 0x1000, data_lost=False)
    assert recorded(PMBSR_EL1.of(DL=1), event).DL == 1


def test_external_abort_sets_ea() -> None:
    event = external_abort(0x1000, data_lost=True)
    assert recorded(PMBSR_EL1(0), event) == PMBSR_EL1.of(S=1, EC=0x24, MSS=0x10, DL=1, EA=1)


def test_gpc_fault_has_its_own_class() -> None:
    assert recorded(PMBSR_EL1(0), GPC) == PMBSR_EL1.of(S=1, EC=0x1E, MSS=0)


def test_a_second_event_changes_sticky_bits_only() -> None:
    before = PMBSR_EL1.of(S=1, EC=0, MSS=1, MSS2=3)
    assert recorded(before, external_abort(0, data_lost=True)) == before.replace(DL=1, EA=1)


def test_syndrome_of_an_earlier_session_is_replaced() -> None:
    before = PMBSR_EL1.of(EC=0x25, MSS=0x3F, MSS2=0xFF)
    assert recorded(before, FULL) == PMBSR_EL1.of(S=1, MSS=1)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (FULL, "full"),
        (NOT_ALLOWED, "not_allowed"),
        (TOO_LARGE, "too_large"),
        (STAGE1, "stage1_abort"),
        (STAGE2, "stage2_abort"),
        (GPC, "gpc_fault"),
    ],
)
def test_events_are_counted_by_kind(event: ManagementEvent, kind: str) -> None:
    assert event.kind == kind


# Routing


def routing_pe(
    pmsee: int, ee: int, *, e2pb: int = 0b11, scr: dict[str, int] | None = None, **hcr: int
) -> FakePE:
    pe = spe_pe(RME)
    pe.registers.update(SCR_EL3.of(NS=1, **(scr or {})))
    pe.registers.update(MDCR_EL3.of(NSPB=0b11, PMSEE=pmsee))
    pe.registers.update(MDCR_EL2.of(E2PB=e2pb))
    pe.registers.update(PMSCR_EL2.of(EE=ee))
    pe.registers.update(HCR_EL2.of(**hcr))
    return pe


ALL = [FULL, None, STAGE1, STAGE2, GPC, GPF, EXTERNAL]


@pytest.mark.parametrize("event", ALL)
def test_without_the_exception_everything_goes_to_el1(event: ManagementEvent | None) -> None:
    assert reporting_el(spe_pe(EL1_ONLY), event) == 1


@pytest.mark.parametrize("event", ALL)
@pytest.mark.parametrize(
    ("pmsee", "ee", "el"),
    [(0b00, 0b11, 1), (0b01, 0b00, 1), (0b01, 0b01, 1), (0b01, 0b11, 2), (0b11, 0b00, 3)],
)
def test_all_or_nothing_is_routed_alike(
    pmsee: int, ee: int, el: int, event: ManagementEvent | None
) -> None:
    assert reporting_el(routing_pe(pmsee, ee), event) == el


@pytest.mark.parametrize(
    ("event", "owner_el1", "owner_el2"),
    [(FULL, 1, 1), (None, 1, 1), (STAGE1, 1, 2), (STAGE2, 2, 2), (GPC, 2, 2), (EXTERNAL, 1, 2)],
)
def test_own_events_of_el2(event: ManagementEvent | None, owner_el1: int, owner_el2: int) -> None:
    assert reporting_el(routing_pe(0b01, 0b10), event) == owner_el1
    assert reporting_el(routing_pe(0b01, 0b10, e2pb=0b00), event) == owner_el2


@pytest.mark.parametrize("event", [GPF, GPF_ON_WALK])
def test_granule_protection_faults_go_where_el2_and_el3_want_them(event: ManagementEvent) -> None:
    assert reporting_el(routing_pe(0b01, 0b10), event) == 1
    assert reporting_el(routing_pe(0b01, 0b10, GPF=1), event) == 2
    assert reporting_el(routing_pe(0b10, 0b00), event) == 1
    assert reporting_el(routing_pe(0b10, 0b00, scr={"GPF": 1}), event) == 3


@pytest.mark.parametrize("event", [EXTERNAL, EXTERNAL_ON_WALK])
def test_external_aborts_go_where_el2_and_el3_want_them(event: ManagementEvent) -> None:
    assert reporting_el(routing_pe(0b01, 0b10, TEA=1), event) == 2
    assert reporting_el(routing_pe(0b10, 0b01), event) == 1
    assert reporting_el(routing_pe(0b10, 0b01, scr={"EA": 1}), event) == 3


@pytest.mark.parametrize(
    ("event", "el"), [(FULL, 1), (None, 1), (STAGE1, 1), (STAGE2, 1), (GPC, 3)]
)
def test_own_events_of_el3(event: ManagementEvent | None, el: int) -> None:
    assert reporting_el(routing_pe(0b10, 0b01), event) == el


def test_routing_by_el2_holds_while_at_el3() -> None:
    pe = routing_pe(0b01, 0b11)
    pe.el = 3
    assert reporting_el(pe, FULL) == 2


# PMBIRQ


@pytest.mark.parametrize("s", [0, 1])
def test_pmbirq_follows_s(s: int) -> None:
    pe = spe_pe(EL1_ONLY)
    pe.registers.update(PMBSR_EL1.of(S=s, DL=1, COLL=1))
    assert pmbirq_level(pe) == bool(s)


@pytest.mark.parametrize(
    ("pmsee", "el2", "el1", "level"),
    [
        (0b01, 0b00, 0b11, True),
        (0b01, 0b01, 0b00, True),
        (0b01, 0b01, 0b11, False),
        (0b01, 0b11, 0b11, False),
        (0b01, 0b11, 0b00, True),
        (0b00, 0b11, 0b11, True),
    ],
)
def test_pmbirq_is_low_where_the_exception_takes_its_place(
    pmsee: int, el2: int, el1: int, level: bool
) -> None:
    pe = routing_pe(pmsee, el2)
    pe.registers.update(PMSCR_EL1.of(EE=el1))
    pe.registers.update(PMBSR_EL1.of(S=1))
    assert pmbirq_level(pe) == level


# The SPE Profiling exception


def exception_pe(
    pmsee: int = 0b11, el2: int = 0b11, el1: int = 0b11, *, ke: int = 0, el: int = 0, tge: int = 0
) -> FakePE:
    pe = routing_pe(pmsee, el2, TGE=tge)
    pe.registers.update(PMSCR_EL1.of(EE=el1, KE=ke))
    pe.registers.update(PMSCR_EL2.of(EE=el2, KE=ke))
    pe.registers.update(PMBLIMITR_EL1.of(E=1))
    pe.el = el
    return pe


def test_no_exception_without_an_event() -> None:
    assert pending_exception(exception_pe()) is None


def test_no_exception_without_the_feature() -> None:
    pe = spe_pe(EL1_ONLY, el=0)
    pe.registers.update(PMBSR_EL1.of(S=1))
    assert pending_exception(pe) is None


@pytest.mark.parametrize(
    ("el", "ke", "pm", "target"),
    [(0, 0, True, 3), (1, 0, True, 3), (2, 0, True, 3), (3, 1, False, None)],
)
def test_exception_to_el3_is_masked_at_el3_only(
    el: int, ke: int, pm: bool, target: int | None
) -> None:
    pe = exception_pe(el=el, ke=ke)
    pe.pm = pm
    pe.registers.update(PMBSR_EL3.of(S=1))
    assert pending_exception(pe) == target


@pytest.mark.parametrize(
    ("ee", "el", "ke", "pm", "target"),
    [
        (0b11, 0, 0, True, 2),
        (0b11, 1, 0, True, 2),
        (0b11, 2, 1, False, 2),
        (0b11, 2, 1, True, None),
        (0b11, 2, 0, False, None),
        (0b10, 1, 0, False, 2),
        (0b10, 2, 1, False, None),
        (0b11, 3, 1, False, None),
        (0b01, 0, 1, False, None),
    ],
)
def test_exception_to_el2(ee: int, el: int, ke: int, pm: bool, target: int | None) -> None:
    pe = exception_pe(0b01, ee, 0b00, el=el, ke=ke)
    pe.pm = pm
    pe.registers.update(PMBSR_EL2.of(S=1))
    assert pending_exception(pe) == target


@pytest.mark.parametrize(
    ("ee", "el", "ke", "pm", "target"),
    [
        (0b11, 0, 0, True, 1),
        (0b11, 1, 1, False, 1),
        (0b11, 1, 1, True, None),
        (0b11, 1, 0, False, None),
        (0b11, 2, 1, False, None),
        (0b11, 3, 1, False, None),
        (0b00, 0, 1, False, None),
    ],
)
def test_exception_to_el1(ee: int, el: int, ke: int, pm: bool, target: int | None) -> None:
    pe = exception_pe(0b01, 0b01, ee, el=el, ke=ke)
    pe.pm = pm
    pe.registers.update(PMBSR_EL1.of(S=1))
    assert pending_exception(pe) == target


def test_exception_of_el1_goes_to_el2_where_el0_belongs_to_it() -> None:
    pe = exception_pe(0b01, 0b01, 0b11, el=0, tge=1)
    pe.registers.update(PMBSR_EL1.of(S=1))
    assert pending_exception(pe) == 2


def test_exceptions_below_el3_wait_for_the_owning_security_state() -> None:
    pe = exception_pe(0b01, 0b01, 0b11)
    pe.registers.update(PMBSR_EL1.of(S=1))
    pe.registers.update(MDCR_EL3.of(NSPB=0b01, PMSEE=0b01))
    assert pending_exception(pe) is None


def test_exception_of_the_highest_level_goes_first() -> None:
    pe = exception_pe()
    for register in (PMBSR_EL1, PMBSR_EL2, PMBSR_EL3):
        pe.registers.update(register.of(S=1))
    assert pending_exception(pe) == 3
    pe.registers.update(PMBSR_EL3(0))
    assert pending_exception(pe) == 2
    pe.registers.update(PMBSR_EL2(0))
    assert pending_exception(pe) == 1


def test_debug_state_takes_no_exception() -> None:
    pe = exception_pe()
    pe.halted = True
    pe.registers.update(PMBSR_EL3.of(S=1))
    assert pending_exception(pe) is None


@pytest.mark.parametrize(
    ("pmsee", "el2", "el1", "requesting"),
    [
        (0b00, 0b11, 0b11, set()),
        (0b01, 0b00, 0b11, set()),
        (0b01, 0b01, 0b00, set()),
        (0b01, 0b01, 0b11, {PMBSR_EL1}),
        (0b01, 0b10, 0b00, {PMBSR_EL2}),
        (0b01, 0b11, 0b11, {PMBSR_EL1, PMBSR_EL2}),
        (0b10, 0b01, 0b00, {PMBSR_EL3}),
        (0b11, 0b11, 0b11, {PMBSR_EL1, PMBSR_EL2, PMBSR_EL3}),
    ],
)
def test_event_asks_for_an_exception_where_its_level_has_one(
    pmsee: int, el2: int, el1: int, requesting: set[type]
) -> None:
    for register in (PMBSR_EL1, PMBSR_EL2, PMBSR_EL3):
        pe = exception_pe(pmsee, el2, el1, el=3)
        assert not exception_requested(pe)
        pe.registers.update(register.of(S=1))
        assert exception_requested(pe) == (register in requesting)


@given(
    *(st.integers(0, 3) for _ in range(4)),
    *(st.booleans() for _ in range(3)),
    st.integers(0, 7),
)
def test_what_is_taken_was_asked_for(
    pmsee: int, el2: int, el1: int, el: int, ke: bool, tge: bool, pm: bool, events: int
) -> None:
    pe = exception_pe(pmsee, el2, el1, ke=ke, el=el, tge=tge)
    pe.pm = pm
    for n, register in enumerate((PMBSR_EL1, PMBSR_EL2, PMBSR_EL3)):
        pe.registers.update(register.of(S=events >> n & 1))
    target = pending_exception(pe)
    assume(target is not None)
    assert target is not None
    assert exception_requested(pe)
    assert target >= max(el, 1)
