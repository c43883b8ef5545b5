"""Stage 2 of the walker, alone and under stage 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.memory.descriptors import (
    AccessDescriptor,
    AddressDescriptor,
    FaultRecord,
    MemoryAttributes,
    acc_desc_gpr,
    acc_desc_ifetch,
    acc_desc_spe,
)
from spe_unicorn.arch.memory.regimes import TranslationContext
from spe_unicorn.arch.memory.translation import full_translate, s1_translate, s2_translate
from spe_unicorn.arch.memory.vmsa import VMSA
from spe_unicorn.arch.memory.walk_parameters import Stage2Registers
from spe_unicorn.arch.registers.system import HCR_EL2, VSTCR_EL2, VTCR_EL2
from spe_unicorn.arch.spaces import PASpace
from tests.arch.translation_tables import (
    AF,
    BLOCK,
    DBM,
    NORMAL,
    PAGE,
    READ_ONLY,
    S2_NORMAL,
    S2R,
    S2W,
    TABLE,
    el10,
)
from tests.support.fakes import FakeMemory

SPE = acc_desc_spe(1)
READ = acc_desc_gpr(1, read=True)
WRITE = acc_desc_gpr(1, write=True)
ISH = 3 << 8
S2_LEAF = AF | S2R | S2W | S2_NORMAL | ISH
XN0 = 1 << 53
XN1 = 1 << 54


def stage2(
    hcr: int = 1, *, t0sz: int = 25, sl0: int = 1, ps: int = 2, tg0: int = 0, **fields: int
) -> Stage2Registers:
    """4 KB granule and 39-bit IPAs from level 1, at 0x8000."""
    vttbr = fields.pop("vttbr", 0x8000)
    vtcr = VTCR_EL2.of(T0SZ=t0sz, SL0=sl0, PS=ps, TG0=tg0, **fields).value
    return Stage2Registers(hcr=hcr, vtcr=vtcr, vttbr=vttbr)


def only_stage_2(registers: Stage2Registers, vmsa: VMSA | None = None) -> TranslationContext:
    """Stage 1 off, so that the address is the IPA."""
    return el10(sctlr=0, stage2=registers, vmsa=vmsa)


def both_stages(leaf: int = S2_LEAF, hcr: int = 1) -> tuple[TranslationContext, FakeMemory]:
    """Stage 1 tables at IPA 0x1000, stage 2 tables at PA 0x8000; the tables' IPAs map 1:1.

    VA 0x1000 is IPA 0x4000_5000, and that is PA 0x7000_0000 by ``leaf``.
    """
    memory = FakeMemory()
    memory.cells = {
        0x1000: 0x2000 | TABLE,
        0x2000: 0x3000 | TABLE,
        0x3008: 0x4000_5000 | PAGE | AF | NORMAL | ISH,
        0x8000: 0x9000 | TABLE,
        0x8008: 0xA000 | TABLE,
        0x9000: 0xB000 | TABLE,
        0xA000: 0xC000 | TABLE,
        0xB008: 0x1000 | PAGE | S2_LEAF,
        0xB010: 0x2000 | PAGE | S2_LEAF,
        0xB018: 0x3000 | PAGE | S2_LEAF,
        0xC028: 0x7000_0000 | PAGE | leaf,
    }
    return el10(stage2=stage2(hcr)), memory


def translate(
    context: TranslationContext, memory: FakeMemory, access: AccessDescriptor = READ
) -> AddressDescriptor | FaultRecord:
    return full_translate(context, 0x1000, access, memory)


def fault_of(result: AddressDescriptor | FaultRecord) -> FaultRecord:
    assert isinstance(result, FaultRecord), result
    return result


def address_of(result: AddressDescriptor | FaultRecord) -> AddressDescriptor:
    assert isinstance(result, AddressDescriptor), result
    return result


def test_both_stages_lead_to_the_physical_address() -> None:
    context, memory = both_stages()
    assert full_translate(context, 0x1234, SPE, memory) == AddressDescriptor(
        0x7000_0234, PASpace.NonSecure, MemoryAttributes(0xFF, 3), page_size_log2=12, level=3
    )


def test_stage_2_of_a_context_that_has_none_is_an_error_with_the_address() -> None:
    ipa = AddressDescriptor(0x4000_5000, PASpace.NonSecure, MemoryAttributes(0xFF, 3), 12, 3)
    with pytest.raises(ValueError, match="0x40005000 has no stage 2"):
        s2_translate(el10(), ipa, READ, FakeMemory())


def test_stage_1_alone_gives_the_ipa() -> None:
    context, memory = both_stages()
    assert address_of(s1_translate(context, 0x1234, SPE, memory)).paddress == 0x4000_5234


def test_result_holds_for_the_smaller_of_both_blocks() -> None:
    context, memory = both_stages()
    memory.cells[0x2000] = 0x4000_0000 | BLOCK | AF | NORMAL
    memory.cells[0xC008] = 0x7000_0000 | PAGE | S2_LEAF
    found = address_of(translate(context, memory))
    assert (found.paddress, found.page_size_log2, found.level) == (0x7000_0000, 12, 2)
    memory.cells[0xA000] = 0x8000_0000 | BLOCK | S2_LEAF
    found = address_of(translate(context, memory))
    assert (found.paddress, found.page_size_log2) == (0x8000_1000, 21)


def test_stage_2_of_the_address_itself_reports_the_ipa() -> None:
    context, memory = both_stages(leaf=0)
    memory.cells[0xC028] = 0
    fault = fault_of(full_translate(context, 0x1234, SPE, memory))
    assert (fault.fsc, fault.stage2, fault.s1ptw) == (0x07, True, False)
    assert (fault.ipa, fault.ipa_space) == (0x4000_5234, PASpace.NonSecure)
    assert fault.write


@pytest.mark.parametrize(
    ("cell", "value", "fsc", "ipa"),
    [
        (0xB008, 0, 0x07, 0x1000),
        (0xB010, 0, 0x07, 0x2000),
        (0xB018, 0, 0x07, 0x3008),
        (0x9000, 0, 0x06, 0x1000),
        (0x8000, 0, 0x05, 0x1000),
        (0xB018, 0x3000 | PAGE | S2R | S2_NORMAL, 0x0B, 0x3008),  # no access flag
        (0xB018, 0x3000 | PAGE | AF | S2W | S2_NORMAL, 0x0F, 0x3008),  # not readable
        (0xB018, 1 << 41 | PAGE | S2_LEAF, 0x03, 0x3008),  # beyond PS
    ],
)
def test_stage_2_fault_on_a_stage_1_descriptor(cell: int, value: int, fsc: int, ipa: int) -> None:
    context, memory = both_stages()
    memory.cells[cell] = value
    fault = fault_of(translate(context, memory, SPE))
    assert (fault.fsc, fault.stage2, fault.s1ptw, fault.ipa) == (fsc, True, True, ipa)


def test_stage_1_faults_stay_stage_1_under_stage_2() -> None:
    context, memory = both_stages()
    memory.cells[0x3008] |= READ_ONLY
    fault = fault_of(translate(context, memory, SPE))
    assert (fault.fsc, fault.stage2, fault.s1ptw, fault.ipa) == (0x0F, False, False, None)


def test_ptw_keeps_walks_out_of_device_memory() -> None:
    device = 0x3000 | PAGE | AF | S2R | S2W
    context, memory = both_stages()
    memory.cells[0xB018] = device
    assert isinstance(translate(context, memory), AddressDescriptor)
    context, memory = both_stages(hcr=HCR_EL2.of(VM=1, PTW=1).value)
    assert isinstance(translate(context, memory), AddressDescriptor)
    memory.cells[0xB018] = device
    fault = fault_of(translate(context, memory))
    assert (fault.fsc, fault.s1ptw) == (0x0F, True)
    # The access itself may go to Device memory.
    memory.cells[0xB018] = 0x3000 | PAGE | S2_LEAF
    memory.cells[0xC028] = 0x7000_0000 | PAGE | AF | S2R | S2W
    assert isinstance(translate(context, memory), AddressDescriptor)


def test_external_aborts_name_stage_and_level() -> None:
    context, memory = both_stages()
    memory.aborting = {0xA000}
    fault = fault_of(translate(context, memory))
    assert (fault.fsc, fault.stage2, fault.s1ptw) == (0x16, True, False)
    memory.aborting = {0x3008}
    fault = fault_of(translate(context, memory))
    assert (fault.fsc, fault.stage2, fault.s1ptw) == (0x17, False, False)
    memory.aborting = {0x9000}
    fault = fault_of(translate(context, memory))
    assert (fault.fsc, fault.stage2, fault.s1ptw) == (0x16, True, True)


@pytest.mark.parametrize(
    ("leaf", "access", "fsc"),
    [
        (AF | S2R, READ, None),
        (AF | S2R, WRITE, 0x0F),
        (AF | S2W, READ, 0x0F),
        (AF | S2W, WRITE, None),
        (AF | S2R, SPE, 0x0F),
        (S2R | S2W, READ, 0x0B),
        (AF, acc_desc_ifetch(1), None),  # execute-only
        (AF | XN1, acc_desc_ifetch(1), 0x0F),
        (AF | XN1, acc_desc_ifetch(0), 0x0F),
        (AF | XN0, acc_desc_ifetch(1), 0x0F),
        (AF | XN0, acc_desc_ifetch(0), None),
        (AF | XN1 | XN0, acc_desc_ifetch(1), None),
        (AF | XN1 | XN0, acc_desc_ifetch(0), 0x0F),
    ],
)
def test_stage_2_permissions(leaf: int, access: AccessDescriptor, fsc: int | None) -> None:
    memory = FakeMemory()
    memory.cells = {0x8008: 0x8000_0000 | BLOCK | S2_NORMAL | leaf}
    result = full_translate(only_stage_2(stage2()), 0x4000_0000, access, memory)
    assert (result.fsc if isinstance(result, FaultRecord) else None) == (
        None if fsc is None else fsc - 2
    )


def test_without_xnx_only_the_upper_xn_bit_counts() -> None:
    memory = FakeMemory()
    memory.cells = {0x8008: 0x8000_0000 | BLOCK | S2_LEAF | XN0}
    fetch = acc_desc_ifetch(1)
    context = only_stage_2(stage2(), VMSA(xnx=False))
    assert isinstance(full_translate(context, 0x4000_0000, fetch, memory), AddressDescriptor)
    memory.cells = {0x8008: 0x8000_0000 | BLOCK | S2_LEAF | XN1 | XN0}
    assert isinstance(full_translate(context, 0x4000_0000, fetch, memory), FaultRecord)


@pytest.mark.parametrize("ipa", [0x80_0000_0000, 0xFF_FFFF_F000])
def test_ipa_beyond_t0sz_is_a_translation_fault_at_level_0(ipa: int) -> None:
    fault = fault_of(full_translate(only_stage_2(stage2()), ipa, READ, FakeMemory()))
    assert (fault.fsc, fault.stage2, fault.ipa) == (0x04, True, ipa)


def test_concatenated_tables_extend_the_first_level() -> None:
    # 40-bit IPAs from level 1: two tables side by side, of which IPA bit 39 chooses.
    memory = FakeMemory()
    memory.cells = {0x9008: 0x4000_0000 | BLOCK | S2_LEAF}
    found = address_of(full_translate(only_stage_2(stage2(t0sz=24)), 0x80_4000_0123, READ, memory))
    assert found.paddress == 0x4000_0123
    # 32-bit IPAs from level 2 with 4 tables; the base is aligned to all four (16 KB).
    memory.cells = {0x8000 + 8 * 0x7FF: 0x1200_0000 | BLOCK | S2_LEAF}
    context = only_stage_2(stage2(t0sz=32, sl0=0, vttbr=0x8000))
    found = address_of(full_translate(context, 0xFFE0_0010, READ, memory))
    assert (found.paddress, found.page_size_log2) == (0x1200_0010, 21)


@pytest.mark.parametrize(
    ("registers", "vmsa", "valid"),
    [
        (stage2(t0sz=25, sl0=1), VMSA(), True),
        (stage2(t0sz=24, sl0=1), VMSA(), True),
        # 4 KB: a walk from level 1 resolves 31 to 43 bits, from level 2 22 to 34.
        (stage2(t0sz=33, sl0=1), VMSA(), True),
        (stage2(t0sz=34, sl0=1), VMSA(), False),
        (stage2(t0sz=21, sl0=1), VMSA(pa_bits=43), True),
        (stage2(t0sz=20, sl0=1), VMSA(pa_bits=44), False),
        (stage2(t0sz=30, sl0=0), VMSA(), True),
        (stage2(t0sz=29, sl0=0), VMSA(), False),
        # From level 0 only with 44 bits of PA.
        (stage2(t0sz=16, sl0=2), VMSA(pa_bits=48), True),
        (stage2(t0sz=24, sl0=2), VMSA(pa_bits=48), True),
        (stage2(t0sz=25, sl0=2), VMSA(pa_bits=48), False),
        (stage2(t0sz=24, sl0=2), VMSA(pa_bits=42), False),
        # From level 3 only with small tables.
        (stage2(t0sz=39, sl0=3), VMSA(), False),
        (stage2(t0sz=39, sl0=3), VMSA(ttst=True), True),
        # The IPA must not be wider than the PA.
        (stage2(t0sz=22, sl0=1), VMSA(), False),
        # 16 KB: SL0 0 to 2 are levels 3 to 1; 1 resolves 26 to 40 bits, 2 37 to 51.
        (stage2(t0sz=24, sl0=1, tg0=2), VMSA(), True),
        (stage2(t0sz=25, sl0=2, tg0=2), VMSA(), False),
        (stage2(t0sz=25, sl0=2, tg0=2), VMSA(pa_bits=42), True),
        (stage2(t0sz=25, sl0=3, tg0=2), VMSA(pa_bits=48), False),
        # 64 KB: 1 resolves 30 to 46 bits, 2 43 and more.
        (stage2(t0sz=24, sl0=1, tg0=1), VMSA(), True),
        (stage2(t0sz=20, sl0=2, tg0=1), VMSA(pa_bits=44), True),
        (stage2(t0sz=22, sl0=2, tg0=1), VMSA(pa_bits=44), False),
        (stage2(t0sz=24, sl0=3, tg0=1), VMSA(pa_bits=48), False),
    ],
)
def test_starting_level_must_fit_the_ipa_size(
    registers: Stage2Registers, vmsa: VMSA, valid: bool
) -> None:
    result = full_translate(only_stage_2(registers, vmsa), 0x1000, READ, FakeMemory())
    fault = fault_of(result)
    assert fault.stage2
    if valid:
        # Nothing is mapped: the fault comes from the first level that was read.
        context = only_stage_2(registers, vmsa)
        assert context.stage2 is not None
        assert fault.level == context.stage2.start_level
    else:
        assert fault.fsc == 0x04


def test_52_bit_ipas_start_at_level_minus_1_with_ds() -> None:
    lpa2 = VMSA(pa_bits=52, lpa2_stage2=frozenset({12}))
    context = only_stage_2(stage2(t0sz=12, sl0=0, ps=6, DS=1, SL2=1), lpa2)
    fault = fault_of(full_translate(context, 0x1_0000_0000_0000, READ, FakeMemory()))
    assert fault.fsc == 0x2B


@pytest.mark.parametrize(
    ("s1", "memattr", "combined"),
    [
        (0xFF, 0b1111, 0xFF),
        (0xFF, 0b0101, 0x44),
        (0xFF, 0b1010, 0xBB),
        (0x44, 0b1111, 0x44),
        (0xBB, 0b1111, 0xBB),
        (0x77, 0b1111, 0x77),  # transient hints are stage 1's
        (0x77, 0b1010, 0x33),
        (0xF4, 0b1011, 0xB4),
        (0xFF, 0b0000, 0x00),
        (0xFF, 0b0010, 0x08),
        (0x04, 0b1111, 0x04),
        (0x0C, 0b0001, 0x04),
        (0x00, 0b0011, 0x00),
    ],
)
def test_memory_attributes_combine_to_the_stricter(s1: int, memattr: int, combined: int) -> None:
    context, memory = both_stages(AF | S2R | S2W | memattr << 2 | ISH)
    context = replace(context, lower=replace(context.lower, mair=s1 << 16))
    assert address_of(translate(context, memory)).memattrs.attr == combined


@pytest.mark.parametrize(
    ("s1", "s2", "combined"), [(0, 0, 0), (0, 3, 3), (3, 0, 3), (3, 3, 3), (2, 3, 2), (0, 2, 2)]
)
def test_shareability_combines_to_the_wider(s1: int, s2: int, combined: int) -> None:
    context, memory = both_stages(AF | S2R | S2W | S2_NORMAL | s2 << 8)
    memory.cells[0x3008] = 0x4000_5000 | PAGE | AF | NORMAL | s1 << 8
    assert address_of(translate(context, memory)).memattrs.sh == combined


def test_unaligned_access_to_what_stage_2_calls_device_is_a_stage_2_alignment_fault() -> None:
    context, memory = both_stages(AF | S2R | S2W)
    fault = fault_of(full_translate(context, 0x1001, READ, memory, aligned=False))
    assert (fault.fsc, fault.stage2) == (0x21, True)


def test_dc_turns_stage_1_off_and_stage_2_on() -> None:
    memory = FakeMemory()
    memory.cells = {0x8008: 0x8000_0000 | BLOCK | S2_LEAF}
    context = el10(stage2=stage2(HCR_EL2.of(DC=1).value))
    found = address_of(full_translate(context, 0x4000_0010, READ, memory))
    assert (found.paddress, found.memattrs) == (0x8000_0010, MemoryAttributes(0xFF, 3))


def test_hypervisor_without_vm_translates_nothing() -> None:
    memory = FakeMemory()
    found = full_translate(only_stage_2(stage2(hcr=0)), 0x4000_0000, READ, memory)
    assert address_of(found).paddress == 0x4000_0000


def test_physical_pointers_are_still_ipas() -> None:
    context, memory = both_stages()
    context = context.with_physical_pointers(MemoryAttributes(0x44, 2))
    found = address_of(full_translate(context, 0x4000_5010, SPE, memory))
    assert (found.paddress, found.memattrs) == (0x7000_0010, MemoryAttributes(0x44, 2))
    memory.cells[0xC028] = 0
    assert fault_of(full_translate(context, 0x4000_5010, SPE, memory)).stage2


def test_stage_2_manages_its_own_access_flag_and_dirty_state() -> None:
    memory = FakeMemory()
    clean = 0x8000_0000 | BLOCK | S2_NORMAL | S2R | DBM
    memory.cells = {0x8008: clean}
    context = only_stage_2(stage2(HA=1, HD=1))
    assert isinstance(full_translate(context, 0x4000_0000, READ, memory), AddressDescriptor)
    assert memory.cells[0x8008] == clean | AF
    assert isinstance(full_translate(context, 0x4000_0000, SPE, memory), AddressDescriptor)
    assert memory.cells[0x8008] == clean | AF | S2W
    memory.cells[0x8008] = clean | AF
    frozen = only_stage_2(stage2(HA=1))
    assert fault_of(full_translate(frozen, 0x4000_0000, SPE, memory)).fsc == 0x0D


def test_update_of_a_stage_1_descriptor_needs_stage_2_write_permission() -> None:
    _, memory = both_stages()
    context = el10(tcr=1 << 39, stage2=stage2())
    memory.cells[0x3008] &= ~AF
    memory.cells[0xB018] &= ~S2W
    fault = fault_of(translate(context, memory))
    assert (fault.fsc, fault.stage2, fault.s1ptw, fault.ipa) == (0x0F, True, True, 0x3008)
    assert not memory.cells[0x3008] & AF
    memory.cells[0xB018] |= S2W
    assert isinstance(translate(context, memory), AddressDescriptor)
    assert memory.cells[0x3008] & AF


def test_secure_ipas_and_non_secure_ipas_have_their_own_tables() -> None:
    vstcr = VSTCR_EL2.of(T0SZ=25, SL0=1).value
    registers = Stage2Registers(
        hcr=1,
        vtcr=VTCR_EL2.of(T0SZ=25, SL0=1, PS=2, NSA=1).value,
        vttbr=0x8000,
        vstcr=vstcr,
        vsttbr=0xE000,
    )
    memory = FakeMemory()
    memory.cells = {
        0x1000: 0x4000_0000 | BLOCK | AF,  # VA 0: Secure IPA 0x4000_0000
        0x1008: 0x4000_0000 | BLOCK | AF | 1 << 5,  # VA 0x4000_0000: the Non-secure one
        0x8008: 0x8000_0000 | BLOCK | S2_LEAF,
        0xE000: BLOCK | S2_LEAF,
        0xE008: 0xC000_0000 | BLOCK | S2_LEAF,
    }
    context = el10(stage2=registers, paspace=PASpace.Secure)
    secure = address_of(full_translate(context, 0, READ, memory))
    assert (secure.paddress, secure.paspace) == (0xC000_0000, PASpace.Secure)
    shared = address_of(full_translate(context, 0x4000_0000, READ, memory))
    assert (shared.paddress, shared.paspace) == (0x8000_0000, PASpace.NonSecure)


def test_realm_page_marked_ns_leaves_the_realm_and_is_not_executed() -> None:
    memory = FakeMemory()
    memory.cells = {0x8008: 0x8000_0000 | BLOCK | S2_LEAF | 1 << 55}
    context = el10(sctlr=0, stage2=stage2(), paspace=PASpace.Realm)
    found = address_of(full_translate(context, 0x4000_0000, READ, memory))
    assert found.paspace is PASpace.NonSecure
    fetch = acc_desc_ifetch(1)
    assert isinstance(full_translate(context, 0x4000_0000, fetch, memory), FaultRecord)


def test_realm_keeps_its_tables_in_the_realm() -> None:
    _, memory = both_stages()
    context = el10(stage2=stage2(), paspace=PASpace.Realm)
    assert address_of(translate(context, memory)).paspace is PASpace.Realm
    memory.cells[0xB018] |= 1 << 55
    fault = fault_of(translate(context, memory))
    assert (fault.fsc, fault.s1ptw, fault.ipa) == (0x0F, True, 0x3008)
