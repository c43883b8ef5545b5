"""What hardware writes into tables: the access flag and the dirty state."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.descriptors import (
    AccessDescriptor,
    AddressDescriptor,
    FaultRecord,
    acc_desc_at,
    acc_desc_gpr,
    acc_desc_ifetch,
    acc_desc_spe,
)
from spe_unicorn.arch.memory.regimes import TranslationContext
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.memory.vmsa import VMSA
from tests.arch.translation_tables import (
    AF,
    AP_EL0,
    DBM,
    NORMAL,
    PAGE,
    READ_ONLY,
    TABLE,
    el10,
)
from tests.support.fakes import FakeMemory

HA = 1 << 39
HD = 1 << 40
LEAF = 0x4000_5000 | PAGE | NORMAL
READ = acc_desc_gpr(1, read=True)
WRITE = acc_desc_gpr(1, write=True)
SPE = acc_desc_spe(1)


def leaf_after(
    context: TranslationContext, access: AccessDescriptor, leaf: int
) -> tuple[AddressDescriptor | FaultRecord, int]:
    memory = FakeMemory()
    memory.cells = {0x1000: 0x2000 | TABLE, 0x2000: 0x3000 | TABLE, 0x3008: leaf}
    result = full_translate(context, 0x1000, access, memory)
    return result, memory.cells[0x3008]


@pytest.mark.parametrize("access", [READ, WRITE, SPE, acc_desc_ifetch(1)])
def test_hardware_sets_the_access_flag(access: AccessDescriptor) -> None:
    result, leaf = leaf_after(el10(tcr=HA), access, LEAF)
    assert isinstance(result, AddressDescriptor)
    assert leaf == LEAF | AF


def test_core_without_the_feature_faults_instead() -> None:
    result, leaf = leaf_after(el10(tcr=HA, vmsa=VMSA(af=False)), READ, LEAF)
    assert isinstance(result, FaultRecord)
    assert result.fsc == 0x0B
    assert leaf == LEAF


def test_at_needs_no_access_flag_and_sets_none() -> None:
    result, leaf = leaf_after(el10(tcr=HA), acc_desc_at(1, write=False), LEAF)
    assert isinstance(result, AddressDescriptor)
    assert leaf == LEAF


def test_permitted_write_makes_a_page_dirty() -> None:
    clean = LEAF | AF | READ_ONLY | DBM
    for access in (WRITE, SPE):
        result, leaf = leaf_after(el10(tcr=HA | HD), access, clean)
        assert isinstance(result, AddressDescriptor)
        assert leaf == LEAF | AF | DBM


def test_write_can_set_both_at_once() -> None:
    _, leaf = leaf_after(el10(tcr=HA | HD), WRITE, LEAF | READ_ONLY | DBM)
    assert leaf == LEAF | AF | DBM


def test_read_leaves_a_clean_page_clean() -> None:
    clean = LEAF | AF | READ_ONLY | DBM
    assert leaf_after(el10(tcr=HA | HD), READ, clean)[1] == clean


def test_at_sees_a_clean_page_as_writable_and_leaves_it_clean() -> None:
    clean = LEAF | AF | READ_ONLY | DBM
    result, leaf = leaf_after(el10(tcr=HA | HD), acc_desc_at(1, write=True), clean)
    assert isinstance(result, AddressDescriptor)
    assert leaf == clean


@pytest.mark.parametrize(
    "context",
    [
        el10(tcr=HD),  # HD needs HA
        el10(tcr=HA),
        el10(tcr=HA | HD, vmsa=VMSA(dbm=False)),
    ],
)
def test_without_dirty_management_dbm_means_nothing(context: TranslationContext) -> None:
    clean = LEAF | AF | READ_ONLY | DBM
    result, leaf = leaf_after(context, WRITE, clean)
    assert isinstance(result, FaultRecord)
    assert result.fsc == 0x0F
    assert leaf == clean


def test_read_only_page_without_dbm_stays_read_only() -> None:
    result, leaf = leaf_after(el10(tcr=HA | HD), WRITE, LEAF | AF | READ_ONLY)
    assert isinstance(result, FaultRecord)
    assert leaf == LEAF | AF | READ_ONLY


def test_refused_access_changes_nothing() -> None:
    privileged = LEAF | READ_ONLY | DBM
    result, leaf = leaf_after(el10(tcr=HA | HD), acc_desc_gpr(0, write=True), privileged)
    assert isinstance(result, FaultRecord)
    assert result.fsc == 0x0F
    assert leaf == privileged


def test_dirty_page_that_el0_could_write_is_not_executed_above() -> None:
    result, _ = leaf_after(
        el10(tcr=HA | HD), acc_desc_ifetch(1), LEAF | AF | READ_ONLY | DBM | AP_EL0
    )
    assert isinstance(result, FaultRecord)


def test_buffer_writes_update_nothing_unless_pmbidr_f_says_so() -> None:
    old = VMSA(spe_flag_update=False)
    result, leaf = leaf_after(el10(tcr=HA | HD, vmsa=old), SPE, LEAF)
    assert isinstance(result, FaultRecord)
    assert (result.fsc, leaf) == (0x0B, LEAF)
    clean = LEAF | AF | READ_ONLY | DBM
    result, leaf = leaf_after(el10(tcr=HA | HD, vmsa=old), SPE, clean)
    assert isinstance(result, FaultRecord)
    assert (result.fsc, leaf) == (0x0F, clean)
    assert leaf_after(el10(tcr=HA | HD, vmsa=old), WRITE, LEAF)[1] == LEAF | AF


def test_descriptor_that_cannot_be_written_is_an_external_abort_on_the_walk() -> None:
    memory = FakeMemory(read_only=range(0x1000, 0x4000))
    memory.cells = {0x1000: 0x2000 | TABLE, 0x2000: 0x3000 | TABLE, 0x3008: LEAF}
    result = full_translate(el10(tcr=HA), 0x1000, WRITE, memory)
    assert isinstance(result, FaultRecord)
    assert result.fsc == 0x17


def test_big_endian_descriptors_are_written_big_endian() -> None:
    memory = FakeMemory()
    for address, cell in {0x1000: 0x2003, 0x2000: 0x3003, 0x3008: LEAF}.items():
        memory.write(address, cell.to_bytes(8, "big"))
    full_translate(el10(sctlr=0x1005 | 1 << 25, tcr=HA), 0x1000, READ, memory)
    assert memory.read(0x3008, 8) == (LEAF | AF).to_bytes(8, "big")
