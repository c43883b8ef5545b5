"""Stage 1 of the walker: geometry, ranges, and one fault after another in Arm's order."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.descriptors import (
    AddressDescriptor,
    Fault,
    FaultRecord,
    MemoryAttributes,
    Regime,
    acc_desc_gpr,
    acc_desc_ifetch,
    acc_desc_spe,
)
from spe_unicorn.arch.memory.regimes import translation_context
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.memory.vmsa import VMSA
from spe_unicorn.arch.memory.walk_parameters import Stage1Registers
from spe_unicorn.arch.spaces import PASpace
from tests.arch.translation_tables import (
    AF,
    BLOCK,
    CONTIGUOUS,
    MAIR,
    NORMAL,
    PAGE,
    READ_ONLY,
    TABLE,
    el10,
)
from tests.support.fakes import FakeMemory

SPE = acc_desc_spe(1)
READ = acc_desc_gpr(1, read=True)
HOLE = 0xFFFF_FF80_0000_1000
"""The address of the digest's minimal example (its section 10.5)."""


def fault_of(result: AddressDescriptor | FaultRecord) -> FaultRecord:
    assert isinstance(result, FaultRecord), result
    return result


def address_of(result: AddressDescriptor | FaultRecord) -> AddressDescriptor:
    assert isinstance(result, AddressDescriptor), result
    return result


def mapped(leaf: int) -> FakeMemory:
    """Level 1, 2 and 3 tables that map VA 0x1000 of either range by ``leaf``."""
    memory = FakeMemory()
    memory.cells = {0x1000: 0x2000 | TABLE, 0x2000: 0x3000 | TABLE, 0x3008: leaf}
    return memory


def test_invalid_level_1_entry_is_a_translation_fault_at_level_1() -> None:
    fault = fault_of(full_translate(el10(), HOLE, SPE, FakeMemory()))
    assert fault.fsc == 0x05
    assert not fault.stage2
    assert fault.write


def test_buffer_write_to_a_read_only_page_is_a_permission_fault_at_level_3() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF | READ_ONLY | NORMAL)
    assert fault_of(full_translate(el10(), HOLE, SPE, memory)).fsc == 0x0F


@pytest.mark.parametrize("va", [0x1000, HOLE])
def test_page_is_found_through_three_levels_in_both_ranges(va: int) -> None:
    memory = mapped(0x4000_5000 | PAGE | AF | NORMAL | 3 << 8)
    assert full_translate(el10(), va + 0x123, SPE, memory) == AddressDescriptor(
        0x4000_5123, PASpace.NonSecure, MemoryAttributes(0xFF, 3), page_size_log2=12, level=3
    )


@pytest.mark.parametrize(
    ("va", "cells", "pa", "size"),
    [
        (0x12_3456_7890, {0x1000 + 8 * 0x48: 0x80_0000_0000 | BLOCK | AF}, 0x80_3456_7890, 30),
        (
            0x0034_5678,
            {0x1000: 0x2000 | TABLE, 0x2008: 0x4760_0000 | BLOCK | AF},
            0x4774_5678,
            21,
        ),
    ],
)
def test_blocks_map_their_whole_size(va: int, cells: dict[int, int], pa: int, size: int) -> None:
    memory = FakeMemory()
    memory.cells = cells
    found = address_of(full_translate(el10(ips=5, vmsa=VMSA(pa_bits=48)), va, READ, memory))
    assert (found.paddress, found.page_size_log2) == (pa, size)


def test_level_0_block_of_a_4k_granule_is_a_translation_fault() -> None:
    memory = FakeMemory()
    memory.cells = {0x1000: 0x4000_0000 | BLOCK | AF}
    assert fault_of(full_translate(el10(t0sz=16), 0x1000, READ, memory)).fsc == 0x04


def test_level_3_entry_without_bit_1_is_a_translation_fault() -> None:
    memory = mapped(0x4000_5000 | BLOCK | AF)
    assert fault_of(full_translate(el10(), 0x1000, READ, memory)).fsc == 0x07


@pytest.mark.parametrize("va", [0x80_0000_0000, 0xFFFF_FF7F_FFFF_FFFF, 0x0100_0000_0000_1000])
def test_address_outside_both_ranges_is_a_translation_fault_at_level_0(va: int) -> None:
    # The tables start at level 1, but nothing was looked up yet.
    memory = mapped(0x4000_5000 | PAGE | AF)
    assert fault_of(full_translate(el10(), va, READ, memory)).fsc == 0x04


def test_top_byte_is_ignored_only_in_the_range_whose_tbi_is_set() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF)
    tbi0 = el10(tcr=1 << 37)
    assert address_of(full_translate(tbi0, 0xAB00_0000_0000_1000, READ, memory)).paddress == (
        0x4000_5000
    )
    assert fault_of(full_translate(tbi0, 0xABFF_FF80_0000_1000, READ, memory)).fsc == 0x04
    tbi1 = el10(tcr=1 << 38)
    assert address_of(full_translate(tbi1, 0xABFF_FF80_0000_1000, READ, memory)).paddress == (
        0x4000_5000
    )


def test_tbid_takes_the_ignored_byte_from_fetches_only() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF)
    context = el10(tcr=1 << 37 | 1 << 51)
    tagged = 0x1200_0000_0000_1000
    assert isinstance(full_translate(context, tagged, READ, memory), AddressDescriptor)
    assert fault_of(full_translate(context, tagged, acc_desc_ifetch(1), memory)).fsc == 0x04


@pytest.mark.parametrize(("bit", "lower_faults"), [(7, True), (23, False)])
def test_epd_disables_the_walk_of_one_range(bit: int, lower_faults: bool) -> None:
    memory = mapped(0x4000_5000 | PAGE | AF)
    context = el10(tcr=1 << bit)
    off, on = (0x1000, HOLE) if lower_faults else (HOLE, 0x1000)
    assert fault_of(full_translate(context, off, READ, memory)).fsc == 0x04
    assert isinstance(full_translate(context, on, READ, memory), AddressDescriptor)


@pytest.mark.parametrize("t0sz", [0, 15, 40, 63])
def test_t0sz_out_of_range_is_a_translation_fault_at_level_0(t0sz: int) -> None:
    memory = mapped(0x4000_5000 | PAGE | AF)
    assert fault_of(full_translate(el10(t0sz=t0sz), 0x1000, READ, memory)).fsc == 0x04


def test_small_translation_tables_allow_16_bit_ranges() -> None:
    memory = FakeMemory()
    memory.cells = {0x1008: 0x4000_5000 | PAGE | AF}
    context = el10(t0sz=48, ttbr0=0x1000, vmsa=VMSA(ttst=True))
    found = address_of(full_translate(context, 0x1234, READ, memory))
    assert (found.paddress, found.level) == (0x4000_5234, 3)


def test_missing_access_flag_is_a_fault_at_the_leaf_level() -> None:
    memory = FakeMemory()
    memory.cells = {0x1000: 0x2000 | TABLE, 0x2000: 0x4000_0000 | BLOCK}
    assert fault_of(full_translate(el10(), 0x1000, READ, memory)).fsc == 0x0A


def test_access_flag_comes_before_permission() -> None:
    memory = mapped(0x4000_5000 | PAGE | READ_ONLY)
    assert fault_of(full_translate(el10(), 0x1000, SPE, memory)).fsc == 0x0B


@pytest.mark.parametrize(
    ("cells", "fsc"),
    [
        ({0x1000: 0x1_0000_2000 | TABLE}, 0x01),
        ({0x1000: 0x2000 | TABLE, 0x2000: 0x1_0000_3000 | TABLE}, 0x02),
        ({0x1000: 0x2000 | TABLE, 0x2000: 0x1_0020_0000 | BLOCK | AF}, 0x02),
        (
            {0x1000: 0x2000 | TABLE, 0x2000: 0x3000 | TABLE, 0x3008: 0x1_0000_5000 | PAGE},
            0x03,  # before the missing access flag
        ),
    ],
)
def test_descriptor_address_beyond_ips_is_an_address_size_fault(
    cells: dict[int, int], fsc: int
) -> None:
    memory = FakeMemory()
    memory.cells = cells
    assert fault_of(full_translate(el10(ips=0), 0x1000, READ, memory)).fsc == fsc


def test_ttbr_beyond_ips_is_an_address_size_fault_at_level_0() -> None:
    context = el10(ips=0, ttbr0=0x1_0000_1000)
    assert fault_of(full_translate(context, 0x1000, READ, FakeMemory())).fsc == 0x00


def test_ips_larger_than_pamax_is_limited_by_pamax() -> None:
    memory = mapped(1 << 40 | 0x5000 | PAGE | AF)
    assert fault_of(full_translate(el10(ips=5), 0x1000, READ, memory)).fsc == 0x03


@pytest.mark.parametrize(("address", "fsc"), [(0x1000, 0x15), (0x2000, 0x16), (0x3008, 0x17)])
def test_external_abort_on_a_walk_names_its_level(address: int, fsc: int) -> None:
    memory = mapped(0x4000_5000 | PAGE | AF)
    memory.aborting = {address}
    assert fault_of(full_translate(el10(), 0x1000, READ, memory)).fsc == fsc


def test_external_abort_at_level_0() -> None:
    memory = FakeMemory()
    memory.aborting = {0x1000}
    assert fault_of(full_translate(el10(t0sz=16), 0x1000, READ, memory)).fsc == 0x14


def test_contiguous_page_is_translated_by_its_own_entry() -> None:
    memory = mapped(0x4001_5000 | PAGE | AF | CONTIGUOUS)
    found = address_of(full_translate(el10(), 0x1678, READ, memory))
    assert (found.paddress, found.page_size_log2) == (0x4001_5678, 12)


def test_unaligned_access_to_device_memory_is_an_alignment_fault() -> None:
    memory = mapped(0x0900_0000 | PAGE | AF)
    assert isinstance(full_translate(el10(), 0x1001, READ, memory), AddressDescriptor)
    assert fault_of(full_translate(el10(), 0x1001, READ, memory, aligned=False)).fsc == 0x21


def test_big_endian_descriptors_follow_sctlr_ee() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF)
    memory.cells = {
        at: int.from_bytes(cell.to_bytes(8, "little"), "big") for at, cell in memory.cells.items()
    }
    context = el10(sctlr=0x1005 | 1 << 25)
    assert address_of(full_translate(context, 0x1000, READ, memory)).paddress == 0x4000_5000


def test_table_base_is_aligned_to_the_size_of_the_first_table() -> None:
    # A 30-bit range starts at level 2 with a whole table, a 28-bit one with 128 entries (1 KB).
    memory = FakeMemory()
    memory.cells = {0x1400 + 8: 0x4020_0000 | BLOCK | AF}
    context = el10(t0sz=36, ttbr0=0x17F1)
    assert address_of(full_translate(context, 0x20_0040, READ, memory)).paddress == 0x4020_0040


@pytest.mark.parametrize(
    ("tg0", "t0sz", "va", "cells", "pa", "size", "level"),
    [
        # 16 KB, 47 bits: level 1 (bits 46:36), 2 (35:25), 3 (24:14)
        (
            2,
            17,
            0x1234_5678_9ABC,
            {
                0x1_0000 + 8 * 0x123: 0x2_0000 | TABLE,
                0x2_0000 + 8 * (0x1234_5678_9ABC >> 25 & 0x7FF): 0x3_0000 | TABLE,
                0x3_0000 + 8 * (0x1234_5678_9ABC >> 14 & 0x7FF): 0x4000_4000 | PAGE | AF,
            },
            0x4000_4000 | 0x5678_9ABC & 0x3FFF,
            14,
            3,
        ),
        # 16 KB, 48 bits: level 0 has two entries
        (
            2,
            16,
            0x8000_0000_0000,
            {
                0x1_0008: 0x2_0000 | TABLE,
                0x2_0000: 0x3_0000 | TABLE,
                0x3_0000: 0x4200_0000 | BLOCK | AF,
            },
            0x4200_0000,
            25,
            2,
        ),
        # 64 KB, 42 bits: level 2 (41:29), 3 (28:16)
        (
            1,
            22,
            0x3_5678_9ABC,
            {0x1_0000 + 8 * 0x1A: 0x2_0000 | TABLE, 0x2_0000 + 8 * 0x1678: 0x4001_0003 | AF},
            0x4001_9ABC,
            16,
            3,
        ),
        # 64 KB block of 512 MB
        (1, 22, 0x2345_6789, {0x1_0008: 0x6000_0000 | BLOCK | AF}, 0x6345_6789, 29, 2),
    ],
)
def test_larger_granules(
    tg0: int, t0sz: int, va: int, cells: dict[int, int], pa: int, size: int, level: int
) -> None:
    memory = FakeMemory()
    memory.cells = cells
    context = el10(tcr=tg0 << 14, t0sz=t0sz, ttbr0=0x1_0000)
    found = address_of(full_translate(context, va, READ, memory))
    assert (found.paddress, found.page_size_log2, found.level) == (pa, size, level)


@pytest.mark.parametrize(("tg1", "granule"), [(1, 14), (2, 12), (3, 16)])
def test_tg1_numbers_the_granules_differently(tg1: int, granule: int) -> None:
    context = translation_context(Regime.EL10, Stage1Registers(sctlr=1, tcr=tg1 << 30 | 25 << 16))
    assert context.upper is not None
    assert context.upper.granule == granule


def test_52_bit_output_of_the_64k_granule_takes_its_top_from_bits_15_12() -> None:
    memory = FakeMemory()
    memory.cells = {0x3_0000_0001_0000: 0x2_0000 | 5 << 12 | TABLE}
    memory.cells[0x5_0000_0002_0000] = 0x4001_0003 | AF | 0xA << 12
    context = el10(tcr=1 << 14, t0sz=22, ips=6, ttbr0=0x1_0000 | 3 << 2, vmsa=VMSA(pa_bits=52))
    found = address_of(full_translate(context, 0x1234, READ, memory))
    assert found.paddress == 0xA_0000_4001_1234


def test_52_bit_ranges_of_the_4k_granule_start_at_level_minus_1() -> None:
    lpa2 = VMSA(pa_bits=52, lpa2=frozenset({12}))
    context = el10(tcr=1 << 59, t0sz=12, ips=6, ttbr0=0x1000, vmsa=lpa2)
    va = 0x2_0000_0000_0000
    empty = FakeMemory()
    assert fault_of(full_translate(context, va, READ, empty)).fsc == 0x2B
    empty.aborting = {0x1010}
    assert fault_of(full_translate(context, va, READ, empty)).fsc == 0x13
    memory = FakeMemory()
    memory.cells = {
        0x1010: 0x2000 | TABLE,
        # A level 0 block exists with DS; bits 49:48 and 9:8 are address bits 51:48.
        0x2000: 0x80_0000_0000 | BLOCK | AF | 1 << 48 | 2 << 8,
    }
    found = address_of(full_translate(context, va | 0x77, READ, memory))
    assert (found.paddress, found.page_size_log2, found.level) == (0x9_0080_0000_0077, 39, 0)
    memory.cells[0x2000] &= ~AF
    assert fault_of(full_translate(context, va, READ, memory)).fsc == 0x08


def test_table_address_beyond_ips_at_level_minus_1() -> None:
    lpa2 = VMSA(pa_bits=52, lpa2=frozenset({12}))
    context = el10(tcr=1 << 59, t0sz=12, ips=0, ttbr0=0x1000, vmsa=lpa2)
    memory = FakeMemory()
    memory.cells = {0x1000: 0x1_0000_2000 | TABLE}
    assert fault_of(full_translate(context, 0, READ, memory)).fsc == 0x29


def test_ds_without_support_is_ignored() -> None:
    context = el10(tcr=1 << 59, t0sz=12)
    assert fault_of(full_translate(context, 0, READ, FakeMemory())).fsc == 0x04


def test_unimplemented_granule_is_taken_for_the_smallest() -> None:
    context = el10(tcr=2 << 14, vmsa=VMSA(granules=frozenset({12, 16})))
    assert context.lower.granule == 12


def test_stage_1_off_gives_the_address_itself_as_device_memory() -> None:
    context = el10(sctlr=0)
    assert full_translate(context, 0x4000_1234, SPE, FakeMemory()) == AddressDescriptor(
        0x4000_1234, PASpace.NonSecure, MemoryAttributes(0x00, 2), page_size_log2=40, level=0
    )


@pytest.mark.parametrize("va", [1 << 40, 1 << 55, 1 << 63, 0xFFFF_FF80_0000_0000])
def test_stage_1_off_refuses_more_bits_than_a_physical_address_has(va: int) -> None:
    assert fault_of(full_translate(el10(sctlr=0), va, SPE, FakeMemory())).fsc == 0x00


def test_stage_1_off_ignores_the_top_byte_where_tbi_says_so() -> None:
    context = el10(sctlr=0, tcr=1 << 37)
    found = full_translate(context, 0x5500_0000_4000_0000, SPE, FakeMemory())
    assert address_of(found).paddress == 0x4000_0000


def test_physical_pointers_ignore_sctlr_and_take_their_attributes_from_pmbmar() -> None:
    context = el10(tcr=1 << 37).with_physical_pointers(MemoryAttributes(0x44, 2))
    found = address_of(full_translate(context, 0x4000_0010, SPE, FakeMemory()))
    assert (found.paddress, found.memattrs.attr) == (0x4000_0010, 0x44)


@pytest.mark.parametrize("pointer", [1 << 40, 1 << 47, 1 << 52, 0x5500_0000_4000_0000])
def test_physical_pointer_beyond_pamax_is_an_address_size_fault(pointer: int) -> None:
    context = el10(tcr=1 << 37).with_physical_pointers(MemoryAttributes(0x44, 2))
    assert fault_of(full_translate(context, pointer, SPE, FakeMemory())).fsc == 0x00


def test_caches_off_make_normal_memory_non_cacheable() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF | NORMAL | 3 << 8)
    found = address_of(full_translate(el10(sctlr=1), 0x1000, READ, memory))
    assert found.memattrs == MemoryAttributes(0x44, 2)


def test_el2_has_one_range_and_the_short_tcr_layout() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF | NORMAL)
    registers = Stage1Registers(sctlr=0x1005, tcr=25 | PS_40_EL2 | 1 << 20, ttbr0=0x1000, mair=MAIR)
    for regime in (Regime.EL2, Regime.EL3):
        context = translation_context(regime, registers)
        found = address_of(full_translate(context, 0x1008, READ, memory))
        assert found.paddress == 0x4000_5008
        tagged = full_translate(context, 0x7700_0000_0000_1008, READ, memory)
        assert address_of(tagged).paddress == 0x4000_5008
        # Bit 55 selects nothing: the upper half is simply out of range.
        assert fault_of(full_translate(context, HOLE, READ, memory)).fsc == 0x04


PS_40_EL2 = 2 << 16


def test_el2_0_translates_both_ranges_with_the_long_tcr_layout() -> None:
    memory = mapped(0x4000_5000 | PAGE | AF | NORMAL)
    registers = Stage1Registers(
        sctlr=0x1005, tcr=25 | 25 << 16 | 2 << 30 | 2 << 32, ttbr0=0x1000, ttbr1=0x1000, mair=MAIR
    )
    context = translation_context(Regime.EL20, registers)
    for va in (0x1000, HOLE):
        assert address_of(full_translate(context, va, READ, memory)).paddress == 0x4000_5000


@pytest.mark.parametrize(
    ("kind", "level", "fsc"),
    [
        (Fault.AddressSize, -2, 0x2C),
        (Fault.AddressSize, -1, 0x29),
        (Fault.AddressSize, 3, 0x03),
        (Fault.Translation, -2, 0x2A),
        (Fault.Translation, 3, 0x07),
        (Fault.AccessFlag, 0, 0x08),
        (Fault.AccessFlag, 3, 0x0B),
        (Fault.Permission, 1, 0x0D),
        (Fault.SyncExternal, 0, 0x10),
        (Fault.SyncExternal, 3, 0x10),
        (Fault.SyncExternalOnWalk, -2, 0x12),
        (Fault.SyncExternalOnWalk, -1, 0x13),
        (Fault.SyncExternalOnWalk, 3, 0x17),
        (Fault.Alignment, 3, 0x21),
    ],
)
def test_fault_status_codes(kind: Fault, level: int, fsc: int) -> None:
    assert FaultRecord(kind, level).fsc == fsc
