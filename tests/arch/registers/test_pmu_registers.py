"""The registers of the Performance Monitors against numbers written down from the manual."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import pmu
from spe_unicorn.arch.registers.pmu import PMEVCNTRS, PMEVTYPERS, PMU_REGISTERS
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import Encoding, RegisterFile, SysReg
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS

ENCODINGS = {
    "PMCR_EL0": (3, 3, 9, 12, 0),
    "PMCNTENSET_EL0": (3, 3, 9, 12, 1),
    "PMCNTENCLR_EL0": (3, 3, 9, 12, 2),
    "PMOVSCLR_EL0": (3, 3, 9, 12, 3),
    "PMSWINC_EL0": (3, 3, 9, 12, 4),
    "PMSELR_EL0": (3, 3, 9, 12, 5),
    "PMCEID0_EL0": (3, 3, 9, 12, 6),
    "PMCEID1_EL0": (3, 3, 9, 12, 7),
    "PMCCNTR_EL0": (3, 3, 9, 13, 0),
    "PMXEVTYPER_EL0": (3, 3, 9, 13, 1),
    "PMXEVCNTR_EL0": (3, 3, 9, 13, 2),
    "PMZR_EL0": (3, 3, 9, 13, 4),
    "PMUSERENR_EL0": (3, 3, 9, 14, 0),
    "PMOVSSET_EL0": (3, 3, 9, 14, 3),
    "PMINTENSET_EL1": (3, 0, 9, 14, 1),
    "PMINTENCLR_EL1": (3, 0, 9, 14, 2),
    "PMUACR_EL1": (3, 0, 9, 14, 4),
    "PMECR_EL1": (3, 0, 9, 14, 5),
    "PMMIR_EL1": (3, 0, 9, 14, 6),
    "PMIAR_EL1": (3, 0, 9, 14, 7),
    "PMICNTR_EL0": (3, 3, 9, 4, 0),
    "PMICFILTR_EL0": (3, 3, 9, 6, 0),
    "PMCCFILTR_EL0": (3, 3, 14, 15, 7),
}
ALL = frozenset(Feature)
PLAIN = frozenset({Feature.FEAT_PMUv3})
P5 = PLAIN | {
    Feature.FEAT_PMUv3p1,
    Feature.FEAT_PMUv3p4,
    Feature.FEAT_PMUv3p5,
}
P7 = P5 | {Feature.FEAT_PMUv3p7}
P9 = P7 | {Feature.FEAT_PMUv3p8, Feature.FEAT_PMUv3p9}


def test_each_register_has_its_encoding() -> None:
    named = {r.__name__: r.encoding for r in PMU_REGISTERS}
    numbered = {name: named.pop(name) for name in list(named) if name.startswith("PMEV")}
    assert named == {name: Encoding(*numbers) for name, numbers in ENCODINGS.items()}
    assert len(numbered) == 62
    for name, encoding in {
        "PMEVCNTR0_EL0": (3, 3, 14, 8, 0),
        "PMEVCNTR7_EL0": (3, 3, 14, 8, 7),
        "PMEVCNTR8_EL0": (3, 3, 14, 9, 0),
        "PMEVCNTR30_EL0": (3, 3, 14, 11, 6),
        "PMEVTYPER0_EL0": (3, 3, 14, 12, 0),
        "PMEVTYPER15_EL0": (3, 3, 14, 13, 7),
        "PMEVTYPER30_EL0": (3, 3, 14, 15, 6),
    }.items():
        assert numbered[name] == Encoding(*encoding)


def test_no_two_registers_have_the_same_encoding() -> None:
    everything = (*PMU_REGISTERS, *SPE_REGISTERS, *SYSTEM_REGISTERS)
    assert len({register.encoding for register in everything}) == len(everything)


@pytest.mark.parametrize(
    ("features", "register", "writable"),
    [
        (PLAIN, pmu.PMCR_EL0, 0x27),  # DP, C, P, E
        (P5, pmu.PMCR_EL0, 0xA7),  # LP
        (P7, pmu.PMCR_EL0, 0x2A7),  # FZO
        (P7 | {Feature.FEAT_SPE, Feature.FEAT_SPEv1p2}, pmu.PMCR_EL0, 1 << 32 | 0x2A7),  # FZS
        (PLAIN, pmu.PMCNTENSET_EL0, 0xFFFF_FFFF),
        (P9 | {Feature.FEAT_PMUv3_ICNTR}, pmu.PMOVSCLR_EL0, 0x1_FFFF_FFFF),
        (PLAIN, pmu.PMSELR_EL0, 0x1F),
        (PLAIN, pmu.PMSWINC_EL0, 0x7FFF_FFFF),
        (PLAIN, pmu.PMUSERENR_EL0, 0xF),
        (P9, pmu.PMUSERENR_EL0, 0x5F),
        (P9 | {Feature.FEAT_PMUv3_ICNTR}, pmu.PMUSERENR_EL0, 0x7F),
        (PLAIN, PMEVCNTRS[4], 0xFFFF_FFFF),
        (P5, PMEVCNTRS[4], (1 << 64) - 1),
        (PLAIN, PMEVTYPERS[30], 0xC000_FFFF),
        (PLAIN | {Feature.FEAT_EL2}, PMEVTYPERS[0], 0xC800_FFFF),  # NSH
        (PLAIN | {Feature.FEAT_EL2, Feature.FEAT_EL3}, PMEVTYPERS[0], 0xFC00_FFFF),
        (PLAIN | {Feature.FEAT_EL2, Feature.FEAT_EL3}, pmu.PMCCFILTR_EL0, 0xFC00_0000),
        (ALL, PMEVTYPERS[0], 7 << 61 | 1 << 58 | 3 << 56 | 0xFFF << 32 | 0xFD70_FFFF),  # TC, TH
        (ALL, pmu.PMICFILTR_EL0, 1 << 58 | 3 << 56 | 0xFD70_0000),
        (ALL, pmu.PMECR_EL1, 0x7),
        (ALL, pmu.PMIAR_EL1, (1 << 64) - 4),
        (ALL, pmu.PMCEID0_EL0, 0),
        (ALL, pmu.PMMIR_EL1, 0),
        (frozenset(), pmu.PMCR_EL0, 0),
        (PLAIN, pmu.PMICNTR_EL0, 0),
        (PLAIN, pmu.PMZR_EL0, 0),
    ],
)
def test_writable_bits(features: frozenset[Feature], register: type[SysReg], writable: int) -> None:
    assert RegisterFile(features, [register]).writable(register) == writable


def test_after_reset_counting_is_off_and_the_cycle_counter_has_64_bits() -> None:
    file = RegisterFile(ALL, [pmu.PMCR_EL0, pmu.PMICFILTR_EL0])
    file.reset(lambda: (1 << 64) - 1)
    assert (file.read(pmu.PMCR_EL0).E, file.raw(pmu.PMCR_EL0) >> 6 & 1) == (0, 1)
    assert file.read(pmu.PMICFILTR_EL0).evtCount == 0x0008


def test_every_field_says_what_it_is_for_unless_its_name_does() -> None:
    silent = {
        (register.__name__, field.name)
        for register in PMU_REGISTERS
        for field in register.fields
        if not field.doc and not field.name.startswith("RES") and field.writable
    }
    fields = {name for _, name in silent}
    assert fields == {"VS", "EVCNThi"}  # their values, and the register, do
