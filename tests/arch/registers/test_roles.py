"""What a register affects is said in its class; what follows from it is derived."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.known import REGISTERS, affecting
from spe_unicorn.arch.registers.roles import Affects, Owner
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1, PMBMAR_EL1, PMBPTR_EL1, PMSCR_EL1
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Field, Res0

WALKED_BY_THE_BUFFER = {
    *(
        system.HCR_EL2,
        system.SCR_EL3,
        system.MDCR_EL2,
        system.MDCR_EL3,
    ),  # the owning regime, and what it is
    *(
        system.SCTLR_EL1,
        system.SCTLR_EL2,
        system.TCR_EL1,
        system.TCR_EL2,
        system.MAIR_EL1,
        system.MAIR_EL2,
    ),
    *(system.TTBR0_EL1, system.TTBR1_EL1, system.TTBR0_EL2, system.TTBR1_EL2),
    *(system.VTCR_EL2, system.VTTBR_EL2, system.VSTCR_EL2, system.VSTTBR_EL2),
    *(PMBLIMITR_EL1, PMBMAR_EL1),
}
"""D17.5.2: EL3 never owns the buffer, so no register of its regime is among them."""


def test_the_buffer_is_translated_by_the_registers_of_its_owning_regimes() -> None:
    assert affecting(Affects.BUFFER) == WALKED_BY_THE_BUFFER


def test_records_alone_depend_on_contexts_and_counter_offsets() -> None:
    assert affecting(Affects.RECORDS) == {
        *(system.CONTEXTIDR_EL1, system.CONTEXTIDR_EL2),
        *(system.CNTHCTL_EL2, system.CNTVOFF_EL2, system.CNTPOFF_EL2),
    }


def test_a_base_class_hands_its_role_on_and_a_register_may_say_otherwise() -> None:
    assert (PMSCR_EL1.owner, PMSCR_EL1.affects) == (Owner.HOST, Affects.PROFILING)
    assert (PMBPTR_EL1.owner, PMBPTR_EL1.affects) == (Owner.HOST, Affects.NOTHING)


def test_a_split_register_keeps_the_fields_that_it_names() -> None:
    assert system.HCR_EL2.kept == sum(1 << bit for bit in (37, 42, 43, 45, 48, 56, 57, 58))
    assert system.HCR_EL2.withheld == 1 << 7 | 1 << 6  # VI, VF
    assert system.SCR_EL3.kept == sum(1 << bit for bit in (26, 27, 28, 38, 59, 62))
    assert {r for r in REGISTERS if r.owner is Owner.SPLIT} == {system.HCR_EL2, system.SCR_EL3}


@pytest.mark.parametrize(("owner", "kept"), [(Owner.SPLIT, ()), (Owner.ENGINE, ("F",))])
def test_a_split_register_and_no_other_names_fields_that_are_kept(
    owner: Owner, kept: tuple[str, ...]
) -> None:
    with pytest.raises(TypeError, match="a split register, and no other, names fields in kept"):

        class Wrong(SysReg, op=(3, 0, 0, 0, 0), owner=owner, kept=kept):
            F = Field(0)
            RES0 = Res0(63, 1)
