from __future__ import annotations

import pytest

from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.pe import SecurityState
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1, PMSCR_EL1, PMSCR_EL2
from spe_unicorn.arch.registers.system import HCR_EL2, MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.arch.rules.effective import (
    BufferOwner,
    effective_hcr_nvx,
    effective_pmblimitr_nvm,
    effective_pmscr_el1_ee,
    effective_pmscr_el2_ee,
    el2_enabled,
    el2_enabled_in,
    el_is_in_host,
    have_el,
    lower_security_state,
    profiling_buffer_owner,
    secure_el2_enabled,
    security_state_at,
    tge,
    unprivileged_access_is_privileged,
)
from tests.arch.access_matrix import DATA, EVERYTHING, prepare

S, NS, ROOT, REALM = (
    SecurityState.SECURE,
    SecurityState.NON_SECURE,
    SecurityState.ROOT,
    SecurityState.REALM,
)
F = Feature


@pytest.mark.parametrize(
    ("absent", "nse", "ns", "lower", "at_el3"),
    [
        ({F.FEAT_RME}, 0, 0, S, S),
        ({F.FEAT_RME}, 0, 1, NS, S),
        ({F.FEAT_RME}, 1, 1, NS, S),  # NSE is RES0 without RME
        (set(), 0, 0, S, ROOT),
        (set(), 0, 1, NS, ROOT),
        (set(), 1, 1, REALM, ROOT),
    ],
)
def test_scr_el3_selects_the_security_state(
    absent: set[Feature], nse: int, ns: int, lower: SecurityState, at_el3: SecurityState
) -> None:
    pe = StillPE(frozenset(Feature) - absent)
    pe.registers.set_raw(SCR_EL3, SCR_EL3.of(NSE=nse, NS=ns).value)
    assert lower_security_state(pe) is lower
    assert [security_state_at(pe, el) for el in range(4)] == [lower, lower, lower, at_el3]


@pytest.mark.parametrize(("secure_only", "state"), [(False, NS), (True, S)])
def test_without_el3_there_is_one_security_state(secure_only: bool, state: SecurityState) -> None:
    pe = StillPE(EVERYTHING - {F.FEAT_EL3}, ImpDef(secure_only=secure_only))
    assert lower_security_state(pe) is state
    assert el2_enabled(pe)  # FEAT_SEL2 is there
    pe = StillPE(EVERYTHING - {F.FEAT_EL3, F.FEAT_SEL2}, ImpDef(secure_only=secure_only))
    assert el2_enabled(pe) is not secure_only


@pytest.mark.parametrize("secure_only", [False, True])
def test_without_el3_secure_el2_is_there_where_secure_state_is(secure_only: bool) -> None:
    features = EVERYTHING - {F.FEAT_EL3}
    impdef = ImpDef(secure_only=secure_only)
    assert secure_el2_enabled(StillPE(features, impdef)) is secure_only
    assert el2_enabled_in(StillPE(features, impdef), S) is secure_only
    for absent in (F.FEAT_SEL2, F.FEAT_EL2):
        assert not secure_el2_enabled(StillPE(features - {absent}, impdef))


def test_have_el_knows_the_implemented_exception_levels() -> None:
    pe = StillPE(EVERYTHING - {F.FEAT_EL2})
    assert [have_el(pe, el) for el in range(4)] == [True, True, False, True]
    pe = StillPE(EVERYTHING - {F.FEAT_EL3})
    assert [have_el(pe, el) for el in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("absent", "ns", "eel2", "enabled"),
    [
        (set(), 1, 0, True),
        (set(), 0, 0, False),
        (set(), 0, 1, True),
        ({F.FEAT_SEL2}, 0, 1, False),
        ({F.FEAT_EL2}, 1, 1, False),
    ],
)
def test_el2_is_enabled_by_state(absent: set[Feature], ns: int, eel2: int, enabled: bool) -> None:
    pe = prepare(EVERYTHING - absent, 1, [f"SCR_EL3.NS={ns}", f"SCR_EL3.EEL2={eel2}"])
    assert el2_enabled(pe) is enabled


@pytest.mark.parametrize(
    ("settings", "in_host", "is_tge"),
    [
        ("SCR_EL3.NS=1", (False, False, False), False),
        ("SCR_EL3.NS=1 HCR_EL2.E2H=1", (False, False, True), False),
        ("SCR_EL3.NS=1 HCR_EL2.TGE=1", (False, False, False), True),
        ("SCR_EL3.NS=1 HCR_EL2.E2H=1 HCR_EL2.TGE=1", (True, False, True), True),
        ("SCR_EL3.NS=0 HCR_EL2.E2H=1 HCR_EL2.TGE=1", (False, False, False), False),
    ],
)
def test_host_exception_levels_and_tge(
    settings: str, in_host: tuple[bool, bool, bool], is_tge: bool
) -> None:
    pe = prepare(EVERYTHING, 1, settings.split())
    assert tuple(el_is_in_host(pe, el) for el in range(3)) == in_host
    assert tge(pe) is is_tge


@pytest.mark.parametrize(
    ("absent", "ns", "nv2", "nv1", "nv", "expected"),
    [
        (set(), 1, 0, 0, 0, 0b000),
        (set(), 1, 1, 1, 0, 0b000),  # NV1 without NV: our choice
        (set(), 1, 0, 0, 1, 0b001),
        (set(), 1, 0, 1, 1, 0b011),
        (set(), 1, 1, 0, 1, 0b101),
        (set(), 1, 1, 1, 1, 0b111),
        (set(), 0, 1, 1, 1, 0b000),  # EL2 is off
        ({F.FEAT_NV2}, 1, 1, 1, 1, 0b011),
        ({F.FEAT_NV}, 1, 1, 1, 1, 0b000),
    ],
)
def test_nested_virtualisation_bits_take_effect_together(
    absent: set[Feature], ns: int, nv2: int, nv1: int, nv: int, expected: int
) -> None:
    settings = [f"SCR_EL3.NS={ns}"]
    settings += [f"HCR_EL2.NV2={nv2}", f"HCR_EL2.NV1={nv1}", f"HCR_EL2.NV={nv}"]
    assert effective_hcr_nvx(prepare(EVERYTHING - absent, 1, settings)) == expected


@pytest.mark.parametrize(
    ("absent", "settings", "el2", "el1"),
    [
        ({F.FEAT_SPE_EXC}, "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=3 PMSCR_EL1.EE=3", 0, 0),
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=0 PMSCR_EL2.EE=3 PMSCR_EL1.EE=3", 0, 0),
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=0 PMSCR_EL1.EE=3", 0, 0),
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=1 PMSCR_EL1.EE=3", 1, 3),
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=2 PMSCR_EL2.EE=2 PMSCR_EL1.EE=3", 2, 3),
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=3 PMSCR_EL2.EE=3 PMSCR_EL1.EE=0", 3, 0),
        (set(), "SCR_EL3.NS=0 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=0 PMSCR_EL1.EE=3", 1, 3),
        (set(), "SCR_EL3.NS=0 SCR_EL3.EEL2=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=0", 0, 0),
        ({F.FEAT_EL2}, "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL1.EE=3", 1, 3),
        ({F.FEAT_EL3}, "PMSCR_EL2.EE=3 PMSCR_EL1.EE=3", 3, 3),
        ({F.FEAT_EL3, F.FEAT_EL2}, "PMSCR_EL1.EE=3", 1, 3),
        # 01 and 10 in PMSCR_EL1 are a guest hypervisor's
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=1 PMSCR_EL1.EE=1", 1, 0),
        (set(), "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=1 PMSCR_EL1.EE=2", 1, 3),
        ({F.FEAT_NV}, "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=1 PMSCR_EL1.EE=2", 1, 0),
        ({F.FEAT_NV}, "SCR_EL3.NS=1 MDCR_EL3.PMSEE=1 PMSCR_EL2.EE=1 PMSCR_EL1.EE=1", 1, 0),
    ],
)
def test_profiling_exception_enables_take_effect_from_el3_down(
    absent: set[Feature], settings: str, el2: int, el1: int
) -> None:
    pe = prepare(EVERYTHING - absent, 1, settings.split())
    assert effective_pmscr_el2_ee(pe) == el2
    assert effective_pmscr_el1_ee(pe) == el1


def nspb_rows() -> list[list[str]]:
    lines = (DATA / "nspb.txt").read_text().splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("row", nspb_rows(), ids=lambda row: " ".join(row[:3]))
@pytest.mark.parametrize("e2pb", range(4))
@pytest.mark.parametrize("eel2", [0, 1])
def test_mdcr_el3_and_e2pb_name_the_owner_of_the_buffer(
    row: list[str], e2pb: int, eel2: int
) -> None:
    rme, nspbe, nspb, owner = row[:4]
    features = frozenset(Feature) if rme.startswith("RME") else EVERYTHING
    pe = StillPE(features, ImpDef(secure_state=rme != "RME-S"))
    pe.registers.set_raw(MDCR_EL3, MDCR_EL3.of(NSPBE=int(nspbe), NSPB=int(nspb, 2)).value)
    pe.registers.set_raw(MDCR_EL2, MDCR_EL2.of(E2PB=e2pb).value)
    pe.registers.set_raw(SCR_EL3, SCR_EL3.of(EEL2=eel2, NS=1).value)
    if owner == "-":
        assert profiling_buffer_owner(pe) is None
    else:
        usable = owner != "SECURE" or eel2 == 1
        el = 2 if usable and e2pb == 0 else 1  # the reserved 0b01 counts as EL1
        assert profiling_buffer_owner(pe) == BufferOwner(SecurityState[owner], el)


def test_without_el2_or_el3_the_buffer_is_el1s() -> None:
    assert profiling_buffer_owner(StillPE(EVERYTHING - {F.FEAT_EL3, F.FEAT_EL2})) == BufferOwner(
        NS, 1
    )
    assert profiling_buffer_owner(StillPE(EVERYTHING - {F.FEAT_EL3})) == BufferOwner(NS, 2)
    secure = StillPE(EVERYTHING - {F.FEAT_EL3, F.FEAT_SEL2}, ImpDef(secure_only=True))
    assert profiling_buffer_owner(secure) == BufferOwner(S, 1)


@pytest.mark.parametrize(
    ("absent", "nvm", "e2pb", "envm", "nspb", "effective"),
    [
        (set(), 1, 3, 1, 3, True),
        (set(), 1, 3, 0, 3, False),
        (set(), 1, 0, 0, 3, True),  # EL2 owns: its own pointers
        (set(), 0, 0, 1, 3, False),
        (set(), 1, 3, 0, 1, True),  # Secure owner, its EL2 off
        ({F.FEAT_EL2}, 1, 3, 0, 3, True),
        ({F.FEAT_SPE_nVM}, 1, 0, 1, 3, False),
    ],
)
def test_nvm_counts_where_el2_lets_el1_have_it(
    absent: set[Feature], nvm: int, e2pb: int, envm: int, nspb: int, effective: bool
) -> None:
    pe = StillPE(EVERYTHING - absent)
    pe.registers.set_raw(PMBLIMITR_EL1, PMBLIMITR_EL1.of(nVM=nvm).value)
    pe.registers.set_raw(MDCR_EL2, MDCR_EL2.of(E2PB=e2pb).value)
    pe.registers.set_raw(PMSCR_EL2, PMSCR_EL2.of(EnVM=envm).value)
    pe.registers.set_raw(MDCR_EL3, MDCR_EL3.of(NSPB=nspb).value)
    pe.registers.set_raw(SCR_EL3, SCR_EL3.of(NS=1).value)
    assert effective_pmblimitr_nvm(pe) is effective


def test_reset_leaves_the_exception_enables_of_the_highest_level_zero() -> None:
    everything = (1 << 64) - 1
    pe = StillPE(EVERYTHING)
    pe.registers.reset(lambda: everything)
    assert pe.registers.read(MDCR_EL3).PMSEE == 0
    assert pe.registers.read(PMSCR_EL2).EE == 3
    pe = StillPE(EVERYTHING - {F.FEAT_EL3})
    pe.registers.reset(lambda: everything)
    assert pe.registers.read(PMSCR_EL2).EE == 0
    assert pe.registers.read(HCR_EL2).value == 1 << 31  # RW reads as one
    pe = StillPE(EVERYTHING - {F.FEAT_EL3, F.FEAT_EL2})
    pe.registers.reset(lambda: everything)
    assert pe.registers.read(PMSCR_EL1).EE == 0


@pytest.mark.parametrize(
    ("el", "hcr", "uao", "privileged"),
    [
        (0, {}, True, False),
        (1, {}, False, False),
        (1, {}, True, True),
        (1, {"NV": 1, "NV1": 1}, False, True),
        (1, {"NV": 1}, False, False),
        (2, {}, False, True),
        (2, {"E2H": 1}, False, True),
        (2, {"E2H": 1, "TGE": 1}, False, False),
        (2, {"E2H": 1, "TGE": 1}, True, True),
        (3, {}, False, True),
    ],
)
def test_unprivileged_accesses_are_privileged_where_there_is_no_el0_below(
    el: int, hcr: dict[str, int], uao: bool, privileged: bool
) -> None:
    pe = StillPE(EVERYTHING, el=el)
    pe.registers.set_raw(SCR_EL3, SCR_EL3.of(NS=1).value)
    pe.registers.set_raw(HCR_EL2, HCR_EL2.of(**hcr).value)
    assert unprivileged_access_is_privileged(pe, uao=uao) is privileged
