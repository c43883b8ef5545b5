"""Who may access debug registers: a matrix written by hand from the pages of Arm ARM D24.3."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.access.debug import DEBUG_ACCESSORS, EMULATED, may_trap
from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.access.verdicts import (
    Allowed,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    access,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import fgt, system
from spe_unicorn.arch.registers.sysreg import Encoding

FEATURES = frozenset({Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_FGT, Feature.FEAT_VHE})
TDE, TDA, TDOSA, TDRA, TDCC = 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 27

# op1,CRn,CRm,op2 | directions | groups | bit of HDFGRTR_EL2 and HDFGWTR_EL2
MATRIX = """
0,0,0,2 RW DCC -
0,0,2,0 RW DCC -
0,0,2,2 RW TDA 4
0,0,3,2 RW DCC -
0,0,6,2 RW TDA 10
0,0,0,4 RW TDA 1
0,0,5,4 RW TDA 1
0,0,0,5 RW TDA 0
0,0,5,5 RW TDA 0
0,0,0,6 RW TDA 3
0,0,3,6 RW TDA 3
0,0,0,7 RW TDA 2
0,0,3,7 RW TDA 2
0,1,0,0 R TDRA -
0,1,0,4 W TDOSA 8
0,1,1,4 R TDOSA 9
0,1,3,4 RW TDOSA 11
0,1,4,4 RW TDOSA 7
0,7,8,6 RW TDA 5
0,7,9,6 RW TDA 5
0,7,14,6 R TDA 6
3,0,1,0 R DCC0 -
3,0,4,0 RW DCC0 -
3,0,5,0 RW DCC0 -
"""
ROWS = [line.split() for line in MATRIX.split("\n") if line]
BY_EL2 = {
    "TDA": {TDE, TDA},
    "TDOSA": {TDE, TDOSA},
    "TDRA": {TDE, TDRA},
    "DCC": {TDE, TDA, TDCC},
    "DCC0": {TDE, TDA, TDCC},
}
BY_EL3 = {"TDA": {TDA}, "TDOSA": {TDOSA}, "TDRA": {TDA}, "DCC": {TDA, TDCC}, "DCC0": {TDA, TDCC}}
TABLE = SysRegTable(DEBUG_ACCESSORS)
CASES = [
    pytest.param(
        Encoding(2, *map(int, place.split(","))), way == "R", group, bit, id=f"{place}{way}"
    )
    for place, ways, group, bit in ROWS
    for way in ways
]


def pe(el: int, features: frozenset[Feature] = FEATURES, **values: int) -> StillPE:
    made = StillPE(features, el=el)
    made.registers.set_raw(system.SCR_EL3, system.SCR_EL3.of(NS=1, FGTEn=1, RW=1).value)
    for name, value in values.items():
        register = getattr(system, name, None) or getattr(fgt, name, None) or getattr(d, name)
        made.registers.set_raw(register, value)
    return made


def verdict(of: StillPE, encoding: Encoding, read: bool) -> str:
    accessor = TABLE.get(encoding.key)
    assert accessor is not None
    found = access(of, accessor, read=read)
    if isinstance(found, SystemAccessTrap):
        assert found.ec == 0x18
        return f"EL{found.target_el}"
    assert isinstance(found, (Allowed, Undefined))
    return "allowed" if isinstance(found, Allowed) else "undefined"


@pytest.mark.parametrize(("encoding", "read", "group", "bit"), CASES)
def test_who_has_it_where_nothing_traps(
    encoding: Encoding, read: bool, group: str, bit: str
) -> None:
    at_el0 = "allowed" if group == "DCC0" else "undefined"
    found = [verdict(pe(el), encoding, read) for el in range(4)]
    assert found == [at_el0, "allowed", "allowed", "allowed"]


@pytest.mark.parametrize(("encoding", "read", "group", "bit"), CASES)
@pytest.mark.parametrize("control", [TDE, TDA, TDOSA, TDRA, TDCC])
def test_el2_traps_what_its_controls_say(
    encoding: Encoding, read: bool, group: str, bit: str, control: int
) -> None:
    expected = "EL2" if control in BY_EL2[group] else "allowed"
    assert verdict(pe(1, MDCR_EL2=control), encoding, read) == expected
    assert verdict(pe(2, MDCR_EL2=control), encoding, read) == "allowed"
    if group == "DCC0":
        assert verdict(pe(0, MDCR_EL2=control), encoding, read) == expected
    if expected == "EL2":
        assert may_trap(pe(1, MDCR_EL2=control))


@pytest.mark.parametrize(("encoding", "read", "group", "bit"), CASES)
@pytest.mark.parametrize("control", [TDA, TDOSA, TDCC])
def test_el3_traps_what_its_controls_say(
    encoding: Encoding, read: bool, group: str, bit: str, control: int
) -> None:
    expected = "EL3" if control in BY_EL3[group] else "allowed"
    for el in (1, 2):
        assert verdict(pe(el, MDCR_EL3=control), encoding, read) == expected
        assert may_trap(pe(el, MDCR_EL3=control))
    assert verdict(pe(3, MDCR_EL3=control), encoding, read) == "allowed"


@pytest.mark.parametrize(("encoding", "read", "group", "bit"), CASES)
def test_el2_comes_before_el3(encoding: Encoding, read: bool, group: str, bit: str) -> None:
    both = pe(1, MDCR_EL2=TDE, MDCR_EL3=TDA | TDOSA)
    assert verdict(both, encoding, read) == "EL2"


@pytest.mark.parametrize(("encoding", "read", "group", "bit"), CASES)
def test_fine_grained_traps_are_one_bit_each(
    encoding: Encoding, read: bool, group: str, bit: str
) -> None:
    name = "HDFGRTR_EL2" if read else "HDFGWTR_EL2"
    for trapping in range(12):
        trapped = pe(1, **{name: 1 << trapping})
        expected = "EL2" if bit == str(trapping) else "allowed"
        assert verdict(trapped, encoding, read) == expected
        assert may_trap(trapped)
        trapped.registers.set_raw(system.SCR_EL3, system.SCR_EL3.of(NS=1, RW=1).value)
        assert verdict(trapped, encoding, read) == "allowed"


def test_tdcc_needs_fine_grained_traps() -> None:
    for control in ("MDCR_EL2", "MDCR_EL3"):
        without = pe(1, FEATURES - {Feature.FEAT_FGT}, **{control: TDCC})
        assert verdict(without, Encoding(2, 0, 0, 2, 0), True) == "allowed"


def test_el1_keeps_the_channel_from_el0() -> None:
    status = Encoding(2, 3, 0, 1, 0)
    assert verdict(pe(0, MDSCR_EL1=1 << 12), status, True) == "EL1"
    assert verdict(pe(0, MDSCR_EL1=1 << 12, HCR_EL2=1 << 27), status, True) == "EL2"
    assert verdict(pe(0, HCR_EL2=1 << 27), status, True) == "EL2"
    assert verdict(pe(1, MDSCR_EL1=1 << 12), status, True) == "allowed"


def test_only_the_directions_that_there_are() -> None:
    named = {a.name: (a.read is not None, a.write is not None) for a in DEBUG_ACCESSORS}
    assert {name for name, (read, _) in named.items() if not read} == {"OSLAR_EL1"}
    assert {name for name, (_, write) in named.items() if not write} == {
        *("MDRAR_EL1", "OSLSR_EL1", "DBGAUTHSTATUS_EL1", "MDCCSR_EL0"),
    }


def test_the_engine_has_nothing_that_el0_may_use() -> None:
    assert all(accessor.encoding.op1 == 0 for accessor in EMULATED)


def test_nothing_may_trap_at_reset() -> None:
    assert not may_trap(pe(1))
