"""What registers hold right after a reset, on a machine, whatever its seed."""

from __future__ import annotations

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware
from tests.arch.reset_table import DECLARED, fields_of, says_of

SEEDS = range(8)
HOLDERS = ("PMCNTENSET_EL0", "PMCNTENCLR_EL0", "PMOVSSET_EL0", "PMOVSCLR_EL0")
HOLDERS += ("PMINTENSET_EL1", "PMINTENCLR_EL1")


def at_start(el: int, seed: int) -> dict[str, dict[str, int]]:
    """The fields of all registers of a PE that is about to execute its first operation."""
    with Machine(shipped_firmware("hello"), core="max", el=el, seed=seed) as machine:
        registers = machine.pes[0].registers
        return {name: register.fields for name, register in registers.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_at_el3_finds_what_arm_fixes(seed: int) -> None:
    found = at_start(3, seed)
    looked_at = 0
    for name, fields in found.items():
        for field in fields_of(DECLARED[name]) if name in DECLARED else ():
            says = says_of(DECLARED[name], field)
            if says is not None and says[0].isdigit():
                assert fields[field.name] == int(says, 0), f"{name}.{field.name}"
                looked_at += 1
    assert looked_at > 40
    assert found["MDCR_EL2"]["HPMN"] == 6


@pytest.mark.parametrize(
    "place", ["MDCR_EL2.HPME", "MDCR_EL3.NSPB", "PMCR_EL0.FZO", "PMCNTENSET_EL0.P", "SCR_EL3.TWI"]
)
def test_what_arm_leaves_unknown_differs_from_seed_to_seed(place: str) -> None:
    name, field = place.split(".")
    assert len({at_start(3, seed)[name][field] for seed in SEEDS}) > 1


@pytest.mark.parametrize("el", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_below_el3_finds_monitors_that_older_software_can_use(el: int, seed: int) -> None:
    found = at_start(el, seed)
    assert [found[name]["F0"] for name in HOLDERS] == [0] * 6
    control = found["PMCR_EL0"]
    assert [control[name] for name in ("FZS", "FZO", "LP", "DP", "E")] == [0] * 5
    assert control["N"] == 6
    assert [found["MDCR_EL2"][name] for name in ("HCCD", "HPMD", "HPMFZO", "HPMFZS")] == [0] * 4
    mdcr3 = found["MDCR_EL3"]
    assert [mdcr3[name] for name in ("MPMX", "MCCD", "SCCD")] == [0] * 3
    if el == 1:
        assert found["PMECR_EL1"] == {"KPME": 0, "PMEE": 0}
