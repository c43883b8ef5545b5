"""When profiling is enabled and what it may collect: the architecture's tables, row by row."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.access.checks import nspb_trap
from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    ExceptionEnable,
)
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTPOFF_EL2,
    CNTVOFF_EL2,
    CONTEXTIDR_EL1,
    CONTEXTIDR_EL2,
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SCR_EL3,
)
from spe_unicorn.arch.rules.effective import effective_pmscr_el1_ee, profiling_buffer_owner
from spe_unicorn.spe.enabling import (
    Collection,
    collection,
    discards,
    profiling_buffer_enabled,
    profiling_stopped,
    statistical_profiling_enabled,
)
from tests.support.fakes import EL1_ONLY, EXC, V1P2, WITH_EL2, WITH_EL3, FakePE, spe_pe

EL1_OWNS, EL2_OWNS = 0b11, 0b00
SECURE_OWNS, NON_SECURE_OWNS = 0b00, 0b11
ALL_BITS = {"E0SPE": 1, "E1SPE": 1}
ALL_BITS_EL2 = {"E0HSPE": 1, "E2SPE": 1}


def pe_with(
    features: Features = WITH_EL2, *, e2pb: int = EL1_OWNS, tge: int = 0, e2h: int = 0, el: int = 1
) -> FakePE:
    """A Non-secure PE with the buffer enabled and every enable bit set."""
    pe = spe_pe(features, el)
    registers = pe.registers
    registers.update(PMBLIMITR_EL1.of(E=1))
    registers.update(PMSCR_EL1.of(**ALL_BITS))
    if Feature.FEAT_EL2 in features:
        registers.update(PMSCR_EL2.of(**ALL_BITS_EL2))
        registers.update(MDCR_EL2.of(E2PB=e2pb))
        registers.update(HCR_EL2.of(TGE=tge, E2H=e2h))
    if Feature.FEAT_EL3 in features:
        registers.update(SCR_EL3.of(NS=1))
        registers.update(MDCR_EL3.of(NSPB=NON_SECURE_OWNS))
    return pe


def enabled(pe: FakePE) -> list[int]:
    return [el for el in range(4) if statistical_profiling_enabled(pe, el)]


@pytest.mark.parametrize(
    ("e2pb", "tge", "levels"),
    [
        pytest.param(EL1_OWNS, 0, [0, 1], id="EL1 owns"),
        pytest.param(0b10, 0, [0, 1], id="EL1 owns, access traps"),
        pytest.param(0b01, 0, [0, 1], id="reserved: EL1 owns"),
        pytest.param(EL1_OWNS, 1, [], id="EL1 owns, EL0 belongs to EL2"),
        pytest.param(EL2_OWNS, 0, [0, 1, 2], id="EL2 owns"),
    ],
)
@pytest.mark.parametrize("features", [WITH_EL2, WITH_EL3])
def test_levels_where_profiling_is_enabled(
    features: Features, e2pb: int, tge: int, levels: list[int]
) -> None:
    assert enabled(pe_with(features, e2pb=e2pb, tge=tge)) == levels


@pytest.mark.parametrize(
    ("el1", "el2", "tge", "levels"),
    [
        ({"E0SPE": 1}, {}, 0, [0]),
        ({"E1SPE": 1}, {}, 0, [1]),
        ({}, {"E2SPE": 1}, 0, [2]),
        ({}, {"E0HSPE": 1}, 0, []),
        ({"E0SPE": 1}, {}, 1, []),
        ({}, {"E0HSPE": 1}, 1, [0]),
    ],
)
def test_each_level_has_its_bit_where_el2_owns(
    el1: dict[str, int], el2: dict[str, int], tge: int, levels: list[int]
) -> None:
    pe = pe_with(e2pb=EL2_OWNS, tge=tge)
    pe.registers.update(PMSCR_EL1.of(**el1))
    pe.registers.update(PMSCR_EL2.of(**el2))
    assert [el for el in enabled(pe) if not (tge and el == 1)] == levels


def test_without_el2_its_controls_do_not_matter() -> None:
    assert enabled(pe_with(EL1_ONLY)) == [0, 1]


def test_disabled_el2_leaves_the_buffer_to_el1() -> None:
    pe = pe_with(WITH_EL3, e2pb=EL2_OWNS, tge=1)
    pe.registers.update(SCR_EL3.of(NS=0, EEL2=0))
    pe.registers.update(MDCR_EL3.of(NSPB=SECURE_OWNS))
    assert enabled(pe) == [0, 1]


def test_secure_el2_owns_where_it_is_enabled() -> None:
    pe = pe_with(WITH_EL3, e2pb=EL2_OWNS)
    pe.registers.update(SCR_EL3.of(NS=0, EEL2=1))
    pe.registers.update(MDCR_EL3.of(NSPB=SECURE_OWNS))
    assert enabled(pe) == [0, 1, 2]


@pytest.mark.parametrize(("ns", "nspb"), [(0, NON_SECURE_OWNS), (1, SECURE_OWNS)])
def test_profiling_is_disabled_in_the_state_that_does_not_own(ns: int, nspb: int) -> None:
    pe = pe_with(WITH_EL3)
    pe.registers.update(SCR_EL3.of(NS=ns))
    pe.registers.update(MDCR_EL3.of(NSPB=nspb))
    assert enabled(pe) == []
    assert not profiling_buffer_enabled(pe)


def test_realm_owner_is_enabled_in_realm_state_only() -> None:
    pe = pe_with(WITH_EL3 | {Feature.FEAT_RME})
    pe.registers.update(MDCR_EL3.of(NSPBE=1, NSPB=0b11))
    assert enabled(pe) == []
    pe.registers.update(SCR_EL3.of(NS=1, NSE=1))
    assert enabled(pe) == [0, 1]


def test_reserved_owner_disables() -> None:
    pe = pe_with(WITH_EL3 | {Feature.FEAT_RME})
    pe.registers.update(MDCR_EL3.of(NSPBE=1, NSPB=0b01))
    assert not profiling_buffer_enabled(pe)


def test_what_a_reserved_owner_means_is_a_choice() -> None:
    """A reserved value acts as one of the defined ones (Arm ARM D24.2), and traps as that does."""
    choice = ImpDef(reserved_owner=1)
    pe = pe_with(e2pb=0b01)
    pe.impdef = choice
    assert enabled(pe) == [0, 1, 2]  # as 0b00, EL2's
    pe = pe_with(WITH_EL3 | {Feature.FEAT_RME})
    pe.registers.update(MDCR_EL3.of(NSPBE=1, NSPB=0b01))
    pe.registers.update(SCR_EL3.of(NS=0))
    assert nspb_trap(pe)
    pe.impdef = choice
    assert enabled(pe) == [0, 1]  # as NSPBE 0, Secure state's
    assert not nspb_trap(pe)
    pe.registers.update(SCR_EL3.of(NS=1))
    assert nspb_trap(pe)


@pytest.mark.parametrize("ee", [0b01, 0b10])
def test_what_a_reserved_ee_means_is_a_choice(ee: int) -> None:
    """Without FEAT_NV 0b01 and 0b10 are reserved (Arm ARM D24.7, PMSCR_EL1)."""
    pe = pe_with(WITH_EL3 | {Feature.FEAT_SPE_EXC})
    pe.registers.update(MDCR_EL3.of(NSPB=NON_SECURE_OWNS, PMSEE=0b01))
    pe.registers.update(PMSCR_EL2.of(EE=0b01))
    pe.registers.update(PMSCR_EL1.of(EE=ee))
    assert effective_pmscr_el1_ee(pe) == ExceptionEnable.DISABLED
    pe.impdef = ImpDef(reserved_ee_enables=True)
    assert effective_pmscr_el1_ee(pe) == ExceptionEnable.ALL_EVENTS


def test_the_buffer_must_be_enabled() -> None:
    pe = pe_with()
    pe.registers.update(PMBLIMITR_EL1.of(E=0))
    assert enabled(pe) == []


def test_debug_state_disables() -> None:
    pe = pe_with()
    pe.halted = True
    assert enabled(pe) == []


def test_an_event_stops_profiling() -> None:
    pe = pe_with()
    pe.registers.update(PMBSR_EL1.of(S=1))
    assert profiling_stopped(pe)
    assert enabled(pe) == []


def test_a_collision_stops_nothing() -> None:
    pe = pe_with()
    pe.registers.update(PMBSR_EL1.of(COLL=1, DL=1, EA=1))
    assert not profiling_stopped(pe)


@pytest.mark.parametrize(
    ("pmsee", "ee", "by_el2", "by_el3"),
    [
        (0b00, 0b11, False, False),
        (0b01, 0b00, False, False),
        (0b01, 0b01, False, False),
        (0b01, 0b10, True, False),
        (0b01, 0b11, True, False),
        (0b10, 0b11, True, True),
        (0b11, 0b01, False, True),
    ],
)
def test_an_event_of_a_higher_level_stops_while_its_exception_is_enabled(
    pmsee: int, ee: int, by_el2: bool, by_el3: bool
) -> None:
    for register, stops in ((PMBSR_EL2, by_el2), (PMBSR_EL3, by_el3)):
        pe = pe_with(WITH_EL3 | EXC)
        pe.registers.update(MDCR_EL3.of(NSPB=NON_SECURE_OWNS, PMSEE=pmsee))
        pe.registers.update(PMSCR_EL2.of(EE=ee))
        pe.registers.update(register.of(S=1))
        assert profiling_stopped(pe) == stops


@pytest.mark.parametrize(("fm", "v1p2", "v1p0"), [(0, False, False), (2, True, False)])
def test_discard_mode_comes_with_v1p2(fm: int, v1p2: bool, v1p0: bool) -> None:
    for features, expected in ((EL1_ONLY | V1P2, v1p2), (EL1_ONLY, v1p0)):
        pe = pe_with(features)
        pe.registers.update(PMBLIMITR_EL1.of(E=1, FM=fm))
        assert discards(pe) == expected


@pytest.mark.parametrize("fm", [1, 3])
def test_reserved_fill_modes_fill(fm: int) -> None:
    pe = pe_with(EL1_ONLY | V1P2)
    pe.registers.update(PMBLIMITR_EL1.of(E=1, FM=fm))
    assert not discards(pe)


# What is collected


def collected(pe: FakePE, el: int = 1) -> Collection:
    return collection(pe, el, profiling_buffer_owner(pe))


@pytest.mark.parametrize(
    ("el", "e2pb", "tge", "cx", "contexts"),
    [
        (1, EL1_OWNS, 0, (1, 1), (0x11, 0x22)),
        (0, EL1_OWNS, 0, (1, 1), (0x11, 0x22)),
        (1, EL1_OWNS, 0, (1, 0), (0x11, None)),
        (1, EL1_OWNS, 0, (0, 1), (None, 0x22)),
        (2, EL2_OWNS, 0, (1, 1), (None, 0x22)),
        (0, EL2_OWNS, 1, (1, 1), (None, 0x22)),
    ],
)
def test_context_of_el1_belongs_to_what_el1_runs(
    el: int,
    e2pb: int,
    tge: int,
    cx: tuple[int, int],
    contexts: tuple[int | None, int | None],
) -> None:
    pe = pe_with(e2pb=e2pb, tge=tge)
    pe.registers.update(CONTEXTIDR_EL1(0x11))
    pe.registers.update(CONTEXTIDR_EL2(0x22))
    pe.registers.update(PMSCR_EL1.of(CX=cx[0]))
    pe.registers.update(PMSCR_EL2.of(CX=cx[1]))
    found = collected(pe, el)
    assert (found.context1, found.context2) == contexts


def test_without_el2_there_is_one_context() -> None:
    pe = pe_with(EL1_ONLY)
    pe.registers.update(CONTEXTIDR_EL1(0x11))
    pe.registers.update(PMSCR_EL1.of(CX=1))
    assert collected(pe).context1 == 0x11
    assert collected(pe).context2 is None


@pytest.mark.parametrize(
    ("e2pb", "el1", "el2", "pa"),
    [
        (EL1_OWNS, 1, 1, True),
        (EL1_OWNS, 1, 0, False),
        (EL1_OWNS, 0, 1, False),
        (EL2_OWNS, 0, 1, True),
        (EL2_OWNS, 1, 0, False),
    ],
)
def test_el2_decides_about_physical_addresses(e2pb: int, el1: int, el2: int, pa: bool) -> None:
    pe = pe_with(e2pb=e2pb)
    pe.registers.update(PMSCR_EL1.of(PA=el1))
    pe.registers.update(PMSCR_EL2.of(PA=el2))
    assert collected(pe).pa == pa


@pytest.mark.parametrize("pa", [0, 1])
def test_without_el2_el1_decides_about_physical_addresses(pa: int) -> None:
    pe = pe_with(EL1_ONLY)
    pe.registers.update(PMSCR_EL1.of(PA=pa))
    assert collected(pe).pa == bool(pa)


@pytest.mark.parametrize(
    ("e2pb", "el1", "el2", "timestamp"),
    [
        (EL1_OWNS, 1, 0, True),
        (EL1_OWNS, 0, 1, False),
        (EL2_OWNS, 1, 0, False),
        (EL2_OWNS, 0, 1, True),
    ],
)
def test_the_owner_decides_about_timestamps(e2pb: int, el1: int, el2: int, timestamp: bool) -> None:
    pe = pe_with(e2pb=e2pb)
    pe.registers.update(PMSCR_EL1.of(TS=el1))
    pe.registers.update(PMSCR_EL2.of(TS=el2))
    assert (collected(pe).timestamp_offset is not None) == timestamp


VIRTUAL, PHYSICAL, OFFSET = 0x1000, 0, 0x20


@pytest.mark.parametrize(
    ("owner", "el2_pct", "el1_pct", "expected"),
    [
        (EL1_OWNS, 0b00, 0b00, VIRTUAL),
        (EL1_OWNS, 0b00, 0b01, VIRTUAL),
        (EL1_OWNS, 0b00, 0b11, VIRTUAL),
        (EL1_OWNS, 0b01, 0b00, VIRTUAL),
        (EL1_OWNS, 0b01, 0b01, PHYSICAL),
        (EL1_OWNS, 0b01, 0b11, OFFSET),
        (EL1_OWNS, 0b11, 0b00, VIRTUAL),
        (EL1_OWNS, 0b11, 0b01, OFFSET),
        (EL1_OWNS, 0b11, 0b11, OFFSET),
        (EL2_OWNS, 0b00, 0b01, VIRTUAL),
        (EL2_OWNS, 0b01, 0b00, PHYSICAL),
        (EL2_OWNS, 0b11, 0b00, OFFSET),
    ],
)
def test_counter_of_the_timestamp(owner: int, el2_pct: int, el1_pct: int, expected: int) -> None:
    pe = pe_with(WITH_EL2 | {Feature.FEAT_ECV, Feature.FEAT_ECV_POFF}, e2pb=owner)
    pe.registers.update(CNTVOFF_EL2(VIRTUAL))
    pe.registers.update(CNTPOFF_EL2(OFFSET))
    pe.registers.update(CNTHCTL_EL2.of(ECV=1))
    pe.registers.update(PMSCR_EL1.of(TS=1, PCT=el1_pct))
    pe.registers.update(PMSCR_EL2.of(TS=1, PCT=el2_pct))
    assert collected(pe).timestamp_offset == expected


def test_without_el2_time_is_physical() -> None:
    pe = pe_with(EL1_ONLY)
    pe.registers.update(PMSCR_EL1.of(TS=1, PCT=1))
    assert collected(pe).timestamp_offset == 0


@pytest.mark.parametrize(
    ("el", "e2h", "tge", "offset"), [(2, 1, 0, 0), (2, 0, 0, VIRTUAL), (0, 1, 1, 0)]
)
def test_a_host_at_el2_has_no_virtual_offset(el: int, e2h: int, tge: int, offset: int) -> None:
    pe = pe_with(e2pb=EL2_OWNS, e2h=e2h, tge=tge)
    pe.registers.update(CNTVOFF_EL2(VIRTUAL))
    pe.registers.update(PMSCR_EL2.of(TS=1))
    assert collected(pe, el).timestamp_offset == offset


@pytest.mark.parametrize(("ecv", "ecven", "offset"), [(1, 1, OFFSET), (0, 1, 0), (1, 0, 0)])
def test_el2_and_el3_must_enable_the_physical_offset(ecv: int, ecven: int, offset: int) -> None:
    pe = pe_with(WITH_EL3 | {Feature.FEAT_ECV, Feature.FEAT_ECV_POFF}, e2pb=EL2_OWNS)
    pe.registers.update(SCR_EL3.of(NS=1, ECVEn=ecven))
    pe.registers.update(CNTPOFF_EL2(OFFSET))
    pe.registers.update(CNTHCTL_EL2.of(ECV=ecv))
    pe.registers.update(PMSCR_EL2.of(TS=1, PCT=0b11))
    assert collected(pe).timestamp_offset == offset


def test_the_one_state_of_a_core_without_el3_may_be_secure() -> None:
    pe = spe_pe(EL1_ONLY, impdef=ImpDef(secure_only=True))
    pe.registers.update(PMBLIMITR_EL1.of(E=1))
    assert profiling_buffer_enabled(pe)
