"""Expectations by hand, from the access pseudocode: controls, level, direction, verdict."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    Allowed,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    access,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTKCTL_EL1,
    HCR_EL2,
    SCR_EL3,
)
from spe_unicorn.arch.registers.timer import TIMER_REGISTERS
from tests.support.fakes import FakePE

TABLE = SysRegTable(TIMER_ACCESSORS)
FEATURES = frozenset({Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_VHE, Feature.FEAT_ECV})
E2H, TGE = 1 << 34, 1 << 27
NS, ST = 1, 1 << 11
ALL = 0xF_FFFF
TRAPS_ALL = 1 << 14 | 1 << 13


def verdict(
    name: str,
    el: int,
    *,
    read: bool = True,
    cntkctl: int = 0,
    cnthctl: int = 0,
    hcr: int = 0,
    scr: int = NS,
    features=FEATURES,
) -> str:
    registers = {SCR_EL3: scr, HCR_EL2: hcr, CNTHCTL_EL2: cnthctl, CNTKCTL_EL1: cntkctl}
    pe = FakePE(registers, el=el, features=features)
    accessor = TABLE.named(name)
    assert accessor is not None
    result = access(pe, accessor, read=read)
    if isinstance(result, Allowed):
        return result.register.__name__
    if isinstance(result, SystemAccessTrap):
        assert result.ec == 0x18
        return f"trap EL{result.target_el}"
    assert isinstance(result, Undefined)
    return "undefined"


EL0PCTEN, EL0VCTEN, EL0VTEN, EL0PTEN = 1, 2, 1 << 8, 1 << 9
EL1PCTEN_nVHE, EL1PCEN_nVHE = 1, 2
EL1PCTEN_VHE, EL1PTEN_VHE = 1 << 10, 1 << 11


@pytest.mark.parametrize(
    ("name", "bit"),
    [
        ("CNTPCT_EL0", EL0PCTEN),
        ("CNTPCTSS_EL0", EL0PCTEN),
        ("CNTVCT_EL0", EL0VCTEN),
        ("CNTP_CTL_EL0", EL0PTEN),
        ("CNTP_TVAL_EL0", EL0PTEN),
        ("CNTV_CVAL_EL0", EL0VTEN),
    ],
)
def test_kernel_opens_each_register_to_el0_by_its_bit(name: str, bit: int) -> None:
    guest_open = EL1PCTEN_nVHE | EL1PCEN_nVHE
    assert verdict(name, EL0, cntkctl=bit, cnthctl=guest_open) == name
    assert verdict(name, EL0, cntkctl=ALL & ~bit, cnthctl=guest_open) == "trap EL1"
    assert verdict(name, EL0, cntkctl=ALL & ~bit, cnthctl=guest_open, hcr=TGE) == "trap EL2"


@pytest.mark.parametrize(
    ("cntkctl", "result"),
    [(0, "trap EL1"), (EL0PCTEN, "CNTFRQ_EL0"), (EL0VCTEN, "CNTFRQ_EL0")],
)
def test_either_counter_opens_the_frequency_to_el0(cntkctl: int, result: str) -> None:
    assert verdict("CNTFRQ_EL0", EL0, cntkctl=cntkctl) == result


@pytest.mark.parametrize(
    ("name", "plain_bit", "vhe_bit"),
    [
        ("CNTPCT_EL0", EL1PCTEN_nVHE, EL1PCTEN_VHE),
        ("CNTP_CTL_EL0", EL1PCEN_nVHE, EL1PTEN_VHE),
        ("CNTP_CVAL_EL0", EL1PCEN_nVHE, EL1PTEN_VHE),
    ],
)
@pytest.mark.parametrize("el", [EL0, EL1])
def test_hypervisor_opens_physical_counter_and_timer_by_a_bit_that_moves_with_e2h(
    name: str, plain_bit: int, vhe_bit: int, el: int
) -> None:
    everything = ALL & ~TRAPS_ALL
    assert verdict(name, el, cntkctl=ALL, cnthctl=plain_bit) == name
    assert verdict(name, el, cntkctl=ALL, cnthctl=everything & ~plain_bit) == "trap EL2"
    assert verdict(name, el, cntkctl=ALL, cnthctl=vhe_bit, hcr=E2H) == name
    assert verdict(name, el, cntkctl=ALL, cnthctl=everything & ~vhe_bit, hcr=E2H) == "trap EL2"


@pytest.mark.parametrize(
    ("name", "bit"), [("CNTVCT_EL0", 1 << 14), ("CNTVCTSS_EL0", 1 << 14), ("CNTV_CTL_EL0", 1 << 13)]
)
@pytest.mark.parametrize("el", [EL0, EL1])
def test_hypervisor_traps_virtual_counter_and_timer_with_ecv(name: str, bit: int, el: int) -> None:
    assert verdict(name, el, cntkctl=ALL, cnthctl=bit) == "trap EL2"
    assert verdict(name, el, cntkctl=ALL, cnthctl=ALL & ~bit) == name


def test_traps_of_virtual_timer_are_not_there_without_ecv() -> None:
    old = FEATURES - {Feature.FEAT_ECV}
    assert verdict("CNTV_CTL_EL0", EL1, cnthctl=TRAPS_ALL, features=old) == "CNTV_CTL_EL0"
    assert verdict("CNTVCT_EL0", EL1, cnthctl=TRAPS_ALL, features=old) == "CNTVCT_EL0"
    assert verdict("CNTPCTSS_EL0", EL3, features=old) == "undefined"


def test_secure_el1_is_not_trapped_where_secure_el2_is_off() -> None:
    assert verdict("CNTPCT_EL0", EL1, cnthctl=0, scr=0) == "CNTPCT_EL0"
    assert verdict("CNTP_CTL_EL0", EL1, cnthctl=0, scr=0) == "CNTP_CTL_EL0"


@pytest.mark.parametrize(
    ("name", "bit", "register"),
    [
        ("CNTPCT_EL0", EL0PCTEN, "CNTPCT_EL0"),
        ("CNTVCT_EL0", EL0VCTEN, "CNTVCT_EL0"),
        ("CNTP_CTL_EL0", EL0PTEN, "CNTHP_CTL_EL2"),
        ("CNTP_CVAL_EL0", EL0PTEN, "CNTHP_CVAL_EL2"),
        ("CNTV_TVAL_EL0", EL0VTEN, "CNTHV_TVAL_EL2"),
    ],
)
def test_el0_of_a_host_obeys_cnthctl_and_reaches_the_timers_of_el2(
    name: str, bit: int, register: str
) -> None:
    host = E2H | TGE
    assert verdict(name, EL0, hcr=host, cnthctl=bit) == register
    assert verdict(name, EL0, hcr=host, cnthctl=ALL & ~bit) == "trap EL2"
    assert verdict(name, EL0, hcr=host, cnthctl=bit | TRAPS_ALL) == register


@pytest.mark.parametrize(
    ("name", "plain", "host"),
    [
        ("CNTP_CTL_EL0", "CNTP_CTL_EL0", "CNTHP_CTL_EL2"),
        ("CNTV_CVAL_EL0", "CNTV_CVAL_EL0", "CNTHV_CVAL_EL2"),
        ("CNTP_CTL_EL02", "undefined", "CNTP_CTL_EL0"),
        ("CNTV_TVAL_EL02", "undefined", "CNTV_TVAL_EL0"),
        ("CNTKCTL_EL1", "CNTKCTL_EL1", "CNTHCTL_EL2"),
        ("CNTKCTL_EL12", "undefined", "CNTKCTL_EL1"),
        ("CNTHCTL_EL2", "CNTHCTL_EL2", "CNTHCTL_EL2"),
        ("CNTVOFF_EL2", "CNTVOFF_EL2", "CNTVOFF_EL2"),
        ("CNTHP_CTL_EL2", "CNTHP_CTL_EL2", "CNTHP_CTL_EL2"),
        ("CNTHV_CTL_EL2", "CNTHV_CTL_EL2", "CNTHV_CTL_EL2"),
        ("CNTPS_CTL_EL1", "undefined", "undefined"),
    ],
)
@pytest.mark.parametrize("read", [True, False])
def test_names_at_el2_with_and_without_e2h(name: str, plain: str, host: str, read: bool) -> None:
    assert verdict(name, EL2, read=read) == plain
    assert verdict(name, EL2, read=read, hcr=E2H) == host


@pytest.mark.parametrize(
    ("name", "plain", "host"),
    [
        ("CNTP_CTL_EL0", "CNTP_CTL_EL0", "CNTP_CTL_EL0"),
        ("CNTP_CTL_EL02", "undefined", "CNTP_CTL_EL0"),
        ("CNTKCTL_EL12", "undefined", "CNTKCTL_EL1"),
        ("CNTHV_CTL_EL2", "CNTHV_CTL_EL2", "CNTHV_CTL_EL2"),
        ("CNTPS_CTL_EL1", "CNTPS_CTL_EL1", "CNTPS_CTL_EL1"),
    ],
)
def test_names_at_el3_with_and_without_e2h(name: str, plain: str, host: str) -> None:
    assert verdict(name, EL3) == plain
    assert verdict(name, EL3, hcr=E2H) == host


@pytest.mark.parametrize(
    "name", ["CNTHP_CTL_EL2", "CNTHV_CTL_EL2", "CNTHCTL_EL2", "CNTVOFF_EL2", "CNTP_CTL_EL02"]
)
def test_registers_of_el2_are_undefined_below(name: str) -> None:
    assert verdict(name, EL0) == "undefined"
    assert verdict(name, EL1) == "undefined"


@pytest.mark.parametrize(
    ("el", "scr", "result"),
    [
        (EL0, ST, "undefined"),
        (EL1, ST, "CNTPS_CTL_EL1"),
        (EL1, 0, "trap EL3"),
        (EL1, NS | ST, "undefined"),
        (EL2, NS | ST, "undefined"),
        (EL3, 0, "CNTPS_CTL_EL1"),
    ],
)
def test_secure_timer_is_lent_by_el3(el: int, scr: int, result: str) -> None:
    assert verdict("CNTPS_CTL_EL1", el, scr=scr) == result


def test_secure_el2_keeps_el1_from_the_secure_timer() -> None:
    features = FEATURES | {Feature.FEAT_SEL2}
    assert verdict("CNTPS_CTL_EL1", EL1, scr=ST | 1 << 18, features=features) == "undefined"


@pytest.mark.parametrize(
    ("features", "highest"),
    [
        (frozenset(), EL1),
        (frozenset({Feature.FEAT_EL2}), EL2),
        (frozenset({Feature.FEAT_EL2, Feature.FEAT_EL3}), EL3),
        (frozenset({Feature.FEAT_EL3}), EL3),
    ],
)
def test_frequency_is_written_at_the_highest_level_only(
    features: frozenset[Any] | frozenset[Feature], highest: int
) -> None:
    levels = [EL0, EL1, *([EL2] if Feature.FEAT_EL2 in features else [])]
    levels += [EL3] if Feature.FEAT_EL3 in features else []
    for el in levels:
        expected = "CNTFRQ_EL0" if el == highest else "undefined"
        assert verdict("CNTFRQ_EL0", el, read=False, features=features) == expected


@pytest.mark.parametrize("name", ["CNTPCT_EL0", "CNTVCT_EL0"])
def test_counters_cannot_be_written(name: str) -> None:
    assert verdict(name, EL3, read=False) == "undefined"


def test_every_timer_register_has_an_accessor() -> None:
    names = {accessor.name for accessor in TIMER_ACCESSORS}
    assert {register.__name__ for register in TIMER_REGISTERS} <= names


def test_nested_hypervisor_is_trapped_at_the_names_of_el2() -> None:
    nested = FEATURES | {Feature.FEAT_NV}
    assert verdict("CNTP_CTL_EL02", EL1, hcr=1 << 42, features=nested) == "trap EL2"
    assert verdict("CNTHP_CTL_EL2", EL1, hcr=1 << 42, features=nested) == "trap EL2"
