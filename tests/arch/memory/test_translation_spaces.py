"""The physical address space of each access that a walk makes."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.descriptors import AddressDescriptor, FaultRecord, acc_desc_gpr
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.memory.walk_parameters import Stage2Registers
from spe_unicorn.arch.registers.system import VSTCR_EL2, VTCR_EL2
from spe_unicorn.arch.spaces import PASpace
from tests.arch.translation_tables import (
    AF,
    BLOCK,
    NORMAL,
    PAGE,
    S2_NORMAL,
    S2R,
    S2W,
    TABLE,
    el10,
)
from tests.support.fakes import FakeMemory

READ = acc_desc_gpr(1, read=True)
NS_TABLE = 1 << 63
HA = 1 << 39
EXTERNAL_ON_WALK = 0x14


def three_levels(*, top: int = 0, middle: int = 0) -> FakeMemory:
    """VA 0x1000 by tables at 0x1000, 0x2000 and 0x3000."""
    memory = FakeMemory()
    memory.cells = {
        0x1000: 0x2000 | TABLE | top,
        0x2000: 0x3000 | TABLE | middle,
        0x3008: 0x4000_0000 | PAGE | AF | NORMAL,
    }
    return memory


@pytest.mark.parametrize(("secure", "level"), [(0x1000, 1), (0x2000, 2), (0x3008, 3)])
def test_non_secure_walk_does_not_reach_secure_tables(secure: int, level: int) -> None:
    memory = three_levels()
    memory.secure = {secure}
    fault = full_translate(el10(), 0x1000, READ, memory)
    assert isinstance(fault, FaultRecord)
    assert fault.fsc == EXTERNAL_ON_WALK + level
    found = full_translate(el10(paspace=PASpace.Secure), 0x1000, READ, memory)
    assert isinstance(found, AddressDescriptor)
    assert (found.paddress, found.paspace) == (0x4000_0000, PASpace.Secure)


@pytest.mark.parametrize(
    ("tops", "secure", "level"),
    [
        ({"top": NS_TABLE}, 0x2000, 2),
        ({"top": NS_TABLE}, 0x3008, 3),
        ({"middle": NS_TABLE}, 0x3008, 3),
    ],
)
def test_tables_below_an_ns_table_are_non_secure(
    tops: dict[str, int], secure: int, level: int
) -> None:
    memory = three_levels(**tops)
    memory.secure = {secure}
    fault = full_translate(el10(paspace=PASpace.Secure), 0x1000, READ, memory)
    assert isinstance(fault, FaultRecord)
    assert fault.fsc == EXTERNAL_ON_WALK + level
    memory.secure = {0x1000}
    found = full_translate(el10(paspace=PASpace.Secure), 0x1000, READ, memory)
    assert isinstance(found, AddressDescriptor)
    assert found.paspace is PASpace.NonSecure


def test_access_flag_is_written_to_the_space_of_its_table() -> None:
    memory = three_levels()
    memory.cells[0x3008] &= ~AF
    memory.secure = {0x3008}
    assert isinstance(
        full_translate(el10(tcr=HA, paspace=PASpace.Secure), 0x1000, READ, memory),
        AddressDescriptor,
    )
    assert memory.cells[0x3008] & AF


@pytest.mark.parametrize(
    ("sw", "nsw", "ns_ipa", "reaches_secure"),
    [
        (0, 0, False, True),
        (0, 1, False, True),
        (1, 0, False, False),
        (0, 0, True, True),
        (0, 1, True, False),
        (1, 0, True, False),
    ],
)
def test_secure_stage_2_tables_are_where_sw_and_nsw_say(
    sw: int, nsw: int, ns_ipa: bool, reaches_secure: bool
) -> None:
    registers = Stage2Registers(
        hcr=1,
        vtcr=VTCR_EL2.of(T0SZ=25, SL0=1, PS=2, NSW=nsw).value,
        vttbr=0x8000,
        vstcr=VSTCR_EL2.of(T0SZ=25, SL0=1, SW=sw).value,
        vsttbr=0xE000,
    )
    memory = FakeMemory()
    leaf = BLOCK | AF | S2R | S2W | S2_NORMAL | 3 << 8
    memory.cells = {
        0x1000: 0x4000_0000 | BLOCK | AF | NORMAL | ns_ipa << 5,
        0x8000: leaf,  # the stage 1 table itself
        0x8008: 0x8000_0000 | leaf,
        0xE000: leaf,
        0xE008: 0xC000_0000 | leaf,
    }
    memory.secure = {0x8008} if ns_ipa else {0xE008}
    context = el10(stage2=registers, paspace=PASpace.Secure)
    found = full_translate(context, 0, READ, memory)
    assert isinstance(found, AddressDescriptor) == reaches_secure
