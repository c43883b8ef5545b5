"""The address that an authenticated pointer leads to, worked out by hand from Arm ARM D8.10."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.memory.pointer_authentication import authenticated_address
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3, SCTLR_EL1, SCTLR_EL2, TCR_EL1
from tests.support.fakes import FakePE

EN_DA, EN_DB = SCTLR_EL1.of(EnDA=1).value, SCTLR_EL1.of(EnDB=1).value
TBI0, TBI1 = 1 << 37, 1 << 38
LOWER = 0xF07F_FF92_3456_7890  # bit 55 is 0, and bits that hold a code are set
UPPER = 0x0F80_0012_3456_7890  # bit 55 is 1, and bits that hold a code are clear


def address(
    pointer: int, *, size: int = 39, tcr: int = 0, sctlr: int = EN_DA, key_b: bool = False
) -> int:
    """Of a pointer at EL1, whose two ranges have addresses of ``size`` bits."""
    sizes = (64 - size) | (64 - size) << 16
    registers: dict[type[SysReg], int] = {
        SCR_EL3: SCR_EL3.of(NS=1).value,
        TCR_EL1: tcr | sizes | 2 << 30,  # 4 KiB granules
        SCTLR_EL1: sctlr | 1,
    }
    return authenticated_address(FakePE(registers), pointer, key_b=key_b)


@pytest.mark.parametrize(
    ("pointer", "tcr", "expected"),
    [
        (LOWER, 0, 0x0000_0012_3456_7890),
        (LOWER, TBI1, 0x0000_0012_3456_7890),
        (LOWER, TBI0, 0xF000_0012_3456_7890),  # the top byte holds no code
        (UPPER, 0, 0xFFFF_FF92_3456_7890),
        (UPPER, TBI0, 0xFFFF_FF92_3456_7890),
        (UPPER, TBI1, 0x0FFF_FF92_3456_7890),
    ],
)
def test_bits_of_the_code_become_copies_of_bit_55(pointer: int, tcr: int, expected: int) -> None:
    assert address(pointer, tcr=tcr) == expected


@pytest.mark.parametrize(
    ("size", "expected"), [(48, 0x0000_FF92_3456_7890), (25, 0x0000_0000_0056_7890)]
)
def test_the_code_begins_where_addresses_end(size: int, expected: int) -> None:
    assert address(LOWER, size=size) == expected


@pytest.mark.parametrize(
    ("sctlr", "key_b", "enabled"),
    [(EN_DA, False, True), (EN_DA, True, False), (EN_DB, True, True), (EN_DB, False, False)],
)
def test_a_key_that_is_disabled_changes_nothing(sctlr: int, key_b: bool, enabled: bool) -> None:
    found = address(LOWER, sctlr=sctlr, key_b=key_b)
    assert found == (0x12_3456_7890 if enabled else LOWER)


@pytest.mark.parametrize(("el", "host", "enabled"), [(0, True, True), (0, False, False)])
def test_an_application_of_a_host_has_the_keys_of_el2(el: int, host: bool, enabled: bool) -> None:
    hcr = HCR_EL2.of(E2H=int(host), TGE=int(host)).value
    sizes = 25 | 25 << 16 | 2 << 30
    registers: dict[type[SysReg], int] = {
        SCR_EL3: SCR_EL3.of(NS=1).value,
        HCR_EL2: hcr,
        SCTLR_EL2: EN_DA | 1,
        TCR_EL1: sizes,
    }
    found = authenticated_address(FakePE(registers, el=el), LOWER, key_b=False)
    assert (found != LOWER) is enabled
