"""Stage 1 permissions: AP, APTable, XN, WXN, PAN, E0PD, HPD, and the address spaces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.memory.descriptors import (
    AccessDescriptor,
    AddressDescriptor,
    FaultRecord,
    Regime,
    acc_desc_at,
    acc_desc_gpr,
    acc_desc_ifetch,
    acc_desc_spe,
)
from spe_unicorn.arch.memory.regimes import TranslationContext, translation_context
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.memory.vmsa import VMSA
from spe_unicorn.arch.memory.walk_parameters import Stage1Registers
from spe_unicorn.arch.spaces import PASpace
from tests.arch.translation_tables import (
    AF,
    AP_EL0,
    MAIR,
    NORMAL,
    PAGE,
    PXN,
    READ_ONLY,
    TABLE,
    UXN,
    el10,
)
from tests.support.fakes import FakeMemory

PXN_TABLE = 1 << 59
UXN_TABLE = 1 << 60
NO_EL0_TABLE = 1 << 61
READ_ONLY_TABLE = 1 << 62
NS_TABLE = 1 << 63
NS = 1 << 5
WXN = 1 << 19
EPAN = 1 << 57
SCTLR = 0x1005


def memory_with(leaf: int, table: int = 0) -> FakeMemory:
    memory = FakeMemory()
    memory.cells = {
        0x1000: 0x2000 | TABLE | table,
        0x2000: 0x3000 | TABLE,
        0x3008: 0x4000_5000 | PAGE | AF | NORMAL | leaf,
    }
    return memory


def rights(context: TranslationContext, el: int, leaf: int, table: int = 0) -> str:
    """Which of read, write and execute ``el`` has, as "rwx" with dashes for what it lacks."""
    accesses = {
        "r": acc_desc_gpr(el, read=True),
        "w": acc_desc_gpr(el, write=True),
        "x": acc_desc_ifetch(el),
    }
    memory = memory_with(leaf, table)
    result = ""
    for letter, access in accesses.items():
        found = full_translate(context, 0x1000, access, memory)
        if isinstance(found, FaultRecord):
            assert found.fsc == 0x0F
            assert found.write is (letter == "w")
        result += letter if isinstance(found, AddressDescriptor) else "-"
    return result


def single_range(regime: Regime, sctlr: int = SCTLR) -> TranslationContext:
    return translation_context(
        regime, Stage1Registers(sctlr=sctlr, tcr=25 | 2 << 16, ttbr0=0x1000, mair=MAIR)
    )


@pytest.mark.parametrize(
    ("leaf", "el1", "el0"),
    [
        (0, "rwx", "--x"),
        (AP_EL0, "rw-", "rwx"),  # what EL0 writes, EL1 does not execute
        (READ_ONLY, "r-x", "--x"),
        (READ_ONLY | AP_EL0, "r-x", "r-x"),
        (PXN, "rw-", "--x"),
        (UXN, "rwx", "---"),
        (AP_EL0 | UXN | PXN, "rw-", "rw-"),
    ],
)
def test_leaf_permissions(leaf: int, el1: str, el0: str) -> None:
    assert (rights(el10(), 1, leaf), rights(el10(), 0, leaf)) == (el1, el0)


@pytest.mark.parametrize(
    ("table", "leaf", "el1", "el0"),
    [
        (NO_EL0_TABLE, AP_EL0, "rwx", "--x"),
        (READ_ONLY_TABLE, AP_EL0, "r-x", "r-x"),
        (READ_ONLY_TABLE | NO_EL0_TABLE, AP_EL0, "r-x", "--x"),
        (PXN_TABLE, 0, "rw-", "--x"),
        (UXN_TABLE, 0, "rwx", "---"),
    ],
)
def test_table_permissions_restrict_and_hpd_ignores_them(
    table: int, leaf: int, el1: str, el0: str
) -> None:
    assert (rights(el10(), 1, leaf, table), rights(el10(), 0, leaf, table)) == (el1, el0)
    hpd0 = el10(tcr=1 << 41)
    assert rights(hpd0, 1, leaf, table) == rights(el10(), 1, leaf)
    assert rights(hpd0, 0, leaf, table) == rights(el10(), 0, leaf)
    without = el10(tcr=1 << 41, vmsa=VMSA(hpds=False))
    assert rights(without, 1, leaf, table) == el1


@pytest.mark.parametrize(
    ("leaf", "el1", "el0"),
    [(0, "rw-", "--x"), (AP_EL0, "rw-", "rw-"), (READ_ONLY | AP_EL0, "r-x", "r-x")],
)
def test_wxn_makes_writable_memory_not_executable(leaf: int, el1: str, el0: str) -> None:
    context = el10(sctlr=SCTLR | WXN)
    assert (rights(context, 1, leaf), rights(context, 0, leaf)) == (el1, el0)


def test_regime_without_el0_has_one_kind_of_permission() -> None:
    for regime, el in ((Regime.EL2, 2), (Regime.EL3, 3)):
        context = single_range(regime)
        assert rights(context, el, 0) == "rwx"
        assert rights(context, el, AP_EL0) == "rwx"
        assert rights(context, el, READ_ONLY) == "r-x"
        assert rights(context, el, UXN) == "rw-"
        assert rights(context, el, PXN) == "rwx"
        assert rights(context, el, 0, READ_ONLY_TABLE) == "r-x"
        assert rights(context, el, 0, UXN_TABLE) == "rw-"
        assert rights(context, el, 0, PXN_TABLE) == "rwx"
        assert rights(single_range(regime, SCTLR | WXN), el, 0) == "rw-"


def allowed(
    context: TranslationContext, access: AccessDescriptor, leaf: int, va: int = 0x1000
) -> bool:
    return isinstance(full_translate(context, va, access, memory_with(leaf)), AddressDescriptor)


@pytest.mark.parametrize("write", [False, True])
def test_pan_keeps_el1_from_memory_of_el0(write: bool) -> None:
    access = acc_desc_gpr(1, read=not write, write=write, pan=True)
    assert not allowed(el10(), access, AP_EL0)
    assert allowed(el10(), access, 0)
    assert not allowed(el10(), acc_desc_gpr(1, read=True, pan=True), AP_EL0 | READ_ONLY)


def test_pan_says_nothing_to_el0_fetches_and_the_buffer() -> None:
    assert allowed(el10(), acc_desc_gpr(0, read=True, pan=True), AP_EL0)
    assert allowed(el10(), acc_desc_ifetch(1), AP_EL0 | READ_ONLY)
    assert allowed(el10(), acc_desc_spe(1), AP_EL0)


def test_epan_also_keeps_el1_from_what_el0_only_executes() -> None:
    access = acc_desc_gpr(1, read=True, pan=True)
    epan = el10(sctlr=SCTLR | EPAN)
    assert not allowed(epan, access, 0)
    assert allowed(epan, access, UXN)
    assert allowed(el10(), access, 0)
    assert allowed(el10(sctlr=SCTLR | EPAN, vmsa=VMSA(epan=False)), access, 0)


def test_at_obeys_pan_only_when_told() -> None:
    assert allowed(el10(), acc_desc_at(1, write=False), AP_EL0)
    assert not allowed(el10(), acc_desc_at(1, write=False, pan=True), AP_EL0)
    assert not allowed(el10(), acc_desc_at(1, write=True), READ_ONLY)
    assert allowed(el10(), acc_desc_at(1, write=False), READ_ONLY)


@pytest.mark.parametrize(("bit", "va"), [(55, 0x1000), (56, 0xFFFF_FF80_0000_1000)])
def test_e0pd_closes_one_range_to_el0(bit: int, va: int) -> None:
    context = el10(tcr=1 << bit)
    el0 = acc_desc_gpr(0, read=True)
    fault = full_translate(context, va, el0, memory_with(AP_EL0))
    assert isinstance(fault, FaultRecord)
    assert fault.fsc == 0x04
    assert allowed(context, acc_desc_gpr(1, read=True), AP_EL0, va)
    assert allowed(context, acc_desc_spe(1), AP_EL0, va)
    assert allowed(context, el0, AP_EL0, va ^ 0xFFFF_FF80_0000_0000)
    assert allowed(el10(tcr=1 << bit, vmsa=VMSA(e0pd=False)), el0, AP_EL0, va)


def test_atomic_without_read_permission_is_refused_as_a_read() -> None:
    both = acc_desc_gpr(0, read=True, write=True)
    refused = full_translate(el10(), 0x1000, both, memory_with(0))
    assert isinstance(refused, FaultRecord)
    assert not refused.write
    refused = full_translate(el10(), 0x1000, both, memory_with(AP_EL0 | READ_ONLY))
    assert isinstance(refused, FaultRecord)
    assert refused.write


def test_nv1_turns_uxn_into_pxn_and_hides_el0() -> None:
    plain = el10()
    assert plain.upper is not None
    context = replace(plain, lower=replace(plain.lower, nv1=True))
    assert rights(context, 1, UXN) == "rw-"
    assert rights(context, 1, PXN | AP_EL0) == "rwx"
    assert rights(context, 1, 0, UXN_TABLE) == "rw-"
    assert rights(context, 0, AP_EL0) == "--x"
    assert allowed(context, acc_desc_gpr(1, read=True, pan=True), AP_EL0)


@pytest.mark.parametrize("write", [False, True])
def test_nv1_switches_pan_off(write: bool) -> None:
    plain = el10(sctlr=SCTLR | EPAN)
    context = replace(plain, lower=replace(plain.lower, nv1=True))
    access = acc_desc_gpr(1, read=not write, write=write, pan=True)
    assert not allowed(plain, access, 0)  # EL0 may execute it, so EPAN keeps EL1 away
    assert allowed(context, access, 0)
    assert allowed(context, access, AP_EL0)


def space_of(context: TranslationContext, leaf: int, table: int = 0) -> PASpace:
    found = full_translate(context, 0x1000, acc_desc_gpr(1, read=True), memory_with(leaf, table))
    assert isinstance(found, AddressDescriptor)
    return found.paspace


def test_ns_selects_the_address_space_in_secure_state_only() -> None:
    secure = el10(paspace=PASpace.Secure)
    assert space_of(secure, 0) is PASpace.Secure
    assert space_of(secure, NS) is PASpace.NonSecure
    assert space_of(secure, 0, NS_TABLE) is PASpace.NonSecure
    assert space_of(el10(), 0) is PASpace.NonSecure
    assert space_of(el10(paspace=PASpace.Realm), NS) is PASpace.Realm
    realm_el2 = replace(single_range(Regime.EL2), paspace=PASpace.Realm)
    assert space_of(realm_el2, NS) is PASpace.NonSecure
    root = replace(single_range(Regime.EL3), paspace=PASpace.Root)
    nse = 1 << 11
    assert space_of(root, 0) is PASpace.Secure
    assert space_of(root, NS) is PASpace.NonSecure
    assert space_of(root, nse) is PASpace.Root
    assert space_of(root, nse | NS) is PASpace.Realm


def test_sif_keeps_secure_state_from_executing_non_secure_memory() -> None:
    secure = el10(paspace=PASpace.Secure)
    assert rights(secure, 1, NS) == "rwx"
    assert rights(replace(secure, sif=True), 1, NS) == "rw-"
    assert rights(replace(secure, sif=True), 1, 0) == "rwx"
    assert rights(replace(el10(), sif=True), 1, 0) == "rwx"


def test_root_executes_root_memory_only() -> None:
    root = replace(single_range(Regime.EL3), paspace=PASpace.Root)
    assert rights(root, 3, 1 << 11) == "rwx"
    assert rights(root, 3, NS) == "rw-"
