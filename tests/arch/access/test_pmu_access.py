"""Who may access the Performance Monitors: written down by hand from the manual's pseudocode."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.verdicts import SysRegTable, SystemAccessTrap, access
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers import fgt
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS
from tests.arch.access_matrix import spelled
from tests.pmu.monitored_pe import MonitoredPE

F = Feature
EVERYTHING = frozenset(Feature) - {F.FEAT_RME}
TABLE = SysRegTable(pmu_accessors(6))
REGISTERS = {r.__name__: r for r in (*SYSTEM_REGISTERS, *PMU_REGISTERS)}
BASE = {
    "SCR_EL3": {"NS": 1, "FGTEn": 1, "FGTEn2": 1},
    "MDCR_EL3": {"EnPM2": 1},
    "MDCR_EL2": {"HPMN": 6},
    "HDFGRTR2_EL2": {f.name: 1 for f in fgt.HDFGRTR2_EL2.fields if f.name.startswith("n")},
    "HDFGWTR2_EL2": {f.name: 1 for f in fgt.HDFGWTR2_EL2.fields if f.name.startswith("n")},
}
UNDEFINED, EL1, EL2, EL3 = "UNDEFINED", "EL1", "EL2", "EL3"


def outcome(
    name: str,
    direction: str,
    el: int,
    *settings: str,
    features: frozenset[Feature] = EVERYTHING,
) -> str:
    """What happens with settings such as ``MDCR_EL2.TPM=1``: a register is accessed, or not."""
    pe = MonitoredPE(features, el)
    values = {register: dict(fields) for register, fields in BASE.items()}
    for setting in settings:
        if setting == "SDD":
            pe.halted = pe.sdd = True
            continue
        if setting == "PRIORITY":
            pe.impdef = ImpDef(el3_sdd_undef_priority=True)
            continue
        target, _, value = setting.partition("=")
        register, _, field = target.partition(".")
        values.setdefault(register, {})[field] = int(value)
    for register, fields in values.items():
        pe.set(REGISTERS[register], **fields)
    accessor = TABLE.named(name)
    assert accessor is not None
    verdict = access(pe, accessor, read=direction == "r")
    if isinstance(verdict, SystemAccessTrap):
        assert verdict.ec == 0x18
    return spelled(verdict)


OPEN = "PMUSERENR_EL0.EN=1"

# What each of PMUSERENR_EL0.{EN,UEN,ER,CR,SW} opens alone, by direction; None: not for EL0 at all.
USER = {
    "PMCNTENSET_EL0": ("EN UEN", "EN UEN"),
    "PMCNTENCLR_EL0": ("EN UEN", "EN UEN"),
    "PMOVSSET_EL0": ("EN UEN", "EN UEN"),
    "PMOVSCLR_EL0": ("EN UEN", "EN UEN"),
    "PMCCFILTR_EL0": ("EN UEN", "EN UEN"),
    "PMEVTYPER0_EL0": ("EN UEN", "EN UEN"),
    "PMEVTYPER5_EL0": ("EN UEN", "EN UEN"),
    "PMXEVTYPER_EL0": ("EN UEN", "EN UEN"),
    "PMCEID0_EL0": ("EN UEN", None),
    "PMCEID1_EL0": ("EN UEN", None),
    "PMZR_EL0": (None, "EN UEN"),
    "PMCR_EL0": ("EN", "EN"),
    "PMCCNTR_EL0": ("EN UEN CR", "EN UEN"),
    "PMEVCNTR0_EL0": ("EN UEN ER", "EN UEN"),
    "PMXEVCNTR_EL0": ("EN UEN ER", "EN UEN"),
    "PMSELR_EL0": ("EN UEN ER", "EN UEN ER"),
    "PMSWINC_EL0": (None, "EN UEN SW"),
    "PMICNTR_EL0": ("UEN", "UEN"),
    "PMICFILTR_EL0": ("UEN", "UEN"),
    "PMUSERENR_EL0": ("EN UEN ER CR SW none", None),
    "PMINTENSET_EL1": (None, None),
    "PMINTENCLR_EL1": (None, None),
    "PMMIR_EL1": (None, None),
    "PMECR_EL1": (None, None),
    "PMIAR_EL1": (None, None),
    "PMUACR_EL1": (None, None),
}


@pytest.mark.parametrize("name", USER)
@pytest.mark.parametrize("direction", "rw")
def test_what_el0_may_is_pmuserenr_s_to_say(name: str, direction: str) -> None:
    opened = USER[name]["rw".index(direction)]
    for bit in ("none", "EN", "UEN", "ER", "CR", "SW"):
        settings = [] if bit == "none" else [f"PMUSERENR_EL0.{bit}=1"]
        may = opened is not None and bit in opened.split()
        refused = UNDEFINED if opened is None else EL1
        assert outcome(name, direction, 0, *settings) == (name if may else refused), bit
        if opened is not None:
            refused = EL2  # where EL0 belongs to EL2
        tge = outcome(name, direction, 0, *settings, "HCR_EL2.TGE=1")
        assert tge == (name if may else refused), bit


def test_combinations_of_user_enables() -> None:
    both = ("PMUSERENR_EL0.EN=1", "PMUSERENR_EL0.UEN=1")
    assert outcome("PMCR_EL0", "r", 0, *both) == EL1
    assert outcome("PMCEID0_EL0", "r", 0, OPEN, "PMUSERENR_EL0.TID=1") == EL1
    assert outcome("PMCCNTR_EL0", "r", 0, OPEN, "PMUSERENR_EL0.TID=1") == "PMCCNTR_EL0"


def test_without_p9_there_is_no_access_by_counter() -> None:
    features = EVERYTHING - {F.FEAT_PMUv3p9}
    for bit in ("UEN", "TID"):
        assert outcome("PMCCNTR_EL0", "r", 0, f"PMUSERENR_EL0.{bit}=1", features=features) == EL1
    both = ("PMUSERENR_EL0.EN=1", "PMUSERENR_EL0.UEN=1", "PMUSERENR_EL0.TID=1")
    assert outcome("PMCR_EL0", "r", 0, *both, features=features) == "PMCR_EL0"
    assert outcome("PMCEID1_EL0", "r", 0, *both, features=features) == "PMCEID1_EL0"


# The fine-grained trap of each direction: a bit of HDFG*TR_EL2 that traps at 1, or one of
# HDFG*TR2_EL2 that traps at 0.
FINE = {
    "PMCR_EL0": (None, "PMCR_EL0"),
    "PMCNTENSET_EL0": ("PMCNTEN", "PMCNTEN"),
    "PMCNTENCLR_EL0": ("PMCNTEN", "PMCNTEN"),
    "PMOVSSET_EL0": ("PMOVS", "PMOVS"),
    "PMOVSCLR_EL0": ("PMOVS", "PMOVS"),
    "PMINTENSET_EL1": ("PMINTEN", "PMINTEN"),
    "PMINTENCLR_EL1": ("PMINTEN", "PMINTEN"),
    "PMSWINC_EL0": (UNDEFINED, "PMSWINC_EL0"),
    "PMSELR_EL0": ("PMSELR_EL0", "PMSELR_EL0"),
    "PMCEID0_EL0": ("PMCEIDn_EL0", UNDEFINED),
    "PMCEID1_EL0": ("PMCEIDn_EL0", UNDEFINED),
    "PMCCNTR_EL0": ("PMCCNTR_EL0", "PMCCNTR_EL0"),
    "PMCCFILTR_EL0": ("PMCCFILTR_EL0", "PMCCFILTR_EL0"),
    "PMEVCNTR3_EL0": ("PMEVCNTRn_EL0", "PMEVCNTRn_EL0"),
    "PMXEVCNTR_EL0": ("PMEVCNTRn_EL0", "PMEVCNTRn_EL0"),
    "PMEVTYPER3_EL0": ("PMEVTYPERn_EL0", "PMEVTYPERn_EL0"),
    "PMXEVTYPER_EL0": ("PMEVTYPERn_EL0", "PMEVTYPERn_EL0"),
    "PMUSERENR_EL0": ("PMUSERENR_EL0", "PMUSERENR_EL0"),
    "PMMIR_EL1": ("PMMIR_EL1", UNDEFINED),
    "PMZR_EL0": (UNDEFINED, "nPMZR_EL0"),
    "PMUACR_EL1": ("nPMUACR_EL1", "nPMUACR_EL1"),
    "PMICFILTR_EL0": ("nPMICFILTR_EL0", "nPMICFILTR_EL0"),
    "PMICNTR_EL0": ("nPMICNTR_EL0", "nPMICNTR_EL0"),
    "PMIAR_EL1": ("nPMIAR_EL1", "nPMIAR_EL1"),
    "PMECR_EL1": ("nPMECR_EL1", "nPMECR_EL1"),
}
FOR_EL0 = "PMUSERENR_EL0.EN=1", "PMUSERENR_EL0.UEN=1"


def test_every_register_is_in_the_tables() -> None:
    names = {a.name for a in TABLE}
    assert names == {r.__name__ for r in PMU_REGISTERS}
    unnumbered = {n for n in names if not n.startswith(("PMEVCNTR", "PMEVTYPER"))}
    assert unnumbered <= set(FINE)
    assert unnumbered <= set(USER)


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize("direction", "rw")
def test_fine_grained_traps_and_tpm_at_el1_and_el0(name: str, direction: str) -> None:
    bit = FINE[name]["rw".index(direction)]
    if bit == UNDEFINED:
        assert [outcome(name, direction, el) for el in range(4)] == [UNDEFINED] * 4
        return
    user = USER.get(name, ("EN UEN", "EN UEN"))["rw".index(direction)]
    enables = ("PMUSERENR_EL0.UEN=1",) if user and "UEN" in user.split() else (OPEN,)
    el0 = UNDEFINED if user is None else name
    assert [outcome(name, direction, el, *enables) for el in range(4)] == [el0, name, name, name]
    trapped = UNDEFINED if user is None else EL2
    at_el2 = [trapped, EL2, name, name]
    tpm = (*enables, "MDCR_EL2.TPM=1")
    assert [outcome(name, direction, el, *tpm) for el in range(4)] == at_el2
    if bit is not None:
        register = f"HDFG{direction.upper().replace('R', 'RTR').replace('W', 'WTR')}"
        register += "2_EL2" if bit.startswith("n") else "_EL2"
        fine = (*enables, f"{register}.{bit}={0 if bit.startswith('n') else 1}")
        assert [outcome(name, direction, el, *fine) for el in range(4)] == at_el2
        # not where EL0 belongs to a host at EL2
        host = (*fine, "HCR_EL2.E2H=1", "HCR_EL2.TGE=1")
        assert outcome(name, direction, 0, *host) == el0
        off = (*fine, "SCR_EL3.FGTEn=0")
        if not bit.startswith("n"):
            assert outcome(name, direction, 1, *off) == name


def test_tpmcr_traps_pmcr_alone() -> None:
    for direction in "rw":
        for el, expected in ((0, EL2), (1, EL2), (2, "PMCR_EL0"), (3, "PMCR_EL0")):
            assert outcome("PMCR_EL0", direction, el, OPEN, "MDCR_EL2.TPMCR=1") == expected
    assert outcome("PMCCNTR_EL0", "r", 1, "MDCR_EL2.TPMCR=1") == "PMCCNTR_EL0"


@pytest.mark.parametrize("name", FINE)
def test_el3_traps_with_tpm_and_the_later_registers_with_enpm2(name: str) -> None:
    later = name in ("PMUACR_EL1", "PMECR_EL1", "PMIAR_EL1", "PMICNTR_EL0", "PMICFILTR_EL0")
    direction = "w" if FINE[name][0] == UNDEFINED else "r"
    for el in (1, 2):
        assert outcome(name, direction, el, "MDCR_EL3.TPM=1") == EL3
        assert outcome(name, direction, el, "MDCR_EL3.EnPM2=0") == (EL3 if later else name)
        assert outcome(name, direction, el, "MDCR_EL3.TPM=1", "SDD") == UNDEFINED
    assert outcome(name, direction, 3, "MDCR_EL3.TPM=1", "MDCR_EL3.EnPM2=0") == name


def test_in_debug_state_a_core_may_look_at_el3_s_traps_first() -> None:
    traps = (OPEN, "MDCR_EL3.TPM=1", "MDCR_EL2.TPM=1", "SDD")
    for el in (0, 1):
        assert outcome("PMCCNTR_EL0", "r", el, *traps) == EL2
        assert outcome("PMCCNTR_EL0", "r", el, *traps, "PRIORITY") == UNDEFINED
    for el in (1, 2):
        assert outcome("PMECR_EL1", "r", el, "MDCR_EL3.EnPM2=0", "SDD", "PRIORITY") == UNDEFINED


def test_the_order_of_the_traps() -> None:
    everything = (
        "MDCR_EL3.TPM=1",
        "MDCR_EL2.TPM=1",
        "HDFGRTR_EL2.PMCCNTR_EL0=1",
    )
    assert outcome("PMCCNTR_EL0", "r", 0, *everything) == EL1  # PMUSERENR_EL0 comes first
    assert outcome("PMCCNTR_EL0", "r", 0, OPEN, *everything) == EL2
    assert outcome("PMCCNTR_EL0", "r", 0, OPEN, *everything[:1]) == EL3
    assert outcome("PMCCNTR_EL0", "r", 1, *everything) == EL2
    assert outcome("PMCCNTR_EL0", "r", 2, *everything) == EL3


@pytest.mark.parametrize("kind", ["PMEVCNTR", "PMEVTYPER"])
def test_counters_that_el2_keeps_trap_and_those_that_there_are_not_are_undefined(
    kind: str,
) -> None:
    for number, el1, el2 in ((0, True, True), (3, True, True), (4, False, True), (6, False, False)):
        name = f"{kind}{number}_EL0"
        there = name if el2 else UNDEFINED
        hidden = EL2 if el2 else UNDEFINED
        hpmn = "MDCR_EL2.HPMN=4"
        assert outcome(name, "r", 1, hpmn) == (name if el1 else hidden)
        assert outcome(name, "w", 0, OPEN, hpmn) == (name if el1 else hidden)
        assert outcome(name, "r", 2, hpmn) == there
        assert outcome(name, "r", 3, hpmn) == there
        # without FEAT_FGT there is no such trap
        without = EVERYTHING - {F.FEAT_FGT, F.FEAT_FGT2}
        assert outcome(name, "r", 1, hpmn, features=without) == (name if el1 else UNDEFINED)
        # in Secure state without Secure EL2 there is nobody to keep them
        secure = (hpmn, "SCR_EL3.NS=0")
        assert outcome(name, "r", 1, *secure) == there


@pytest.mark.parametrize(
    ("name", "sel", "expected"),
    [
        ("PMXEVCNTR_EL0", 3, "PMXEVCNTR_EL0"),
        ("PMXEVCNTR_EL0", 4, EL2),
        ("PMXEVCNTR_EL0", 6, UNDEFINED),
        ("PMXEVCNTR_EL0", 31, UNDEFINED),
        ("PMXEVTYPER_EL0", 3, "PMXEVTYPER_EL0"),
        ("PMXEVTYPER_EL0", 4, EL2),
        ("PMXEVTYPER_EL0", 6, UNDEFINED),
        ("PMXEVTYPER_EL0", 31, "PMXEVTYPER_EL0"),  # PMCCFILTR_EL0
    ],
)
def test_selected_counters_are_judged_by_their_number(name: str, sel: int, expected: str) -> None:
    for direction in "rw":
        settings = ("MDCR_EL2.HPMN=4", f"PMSELR_EL0.SEL={sel}")
        assert outcome(name, direction, 1, *settings) == expected


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("PMCR_EL0", F.FEAT_PMUv3),
        ("PMEVCNTR0_EL0", F.FEAT_PMUv3),
        ("PMMIR_EL1", F.FEAT_PMUv3p4),
        ("PMZR_EL0", F.FEAT_PMUv3p9),
        ("PMUACR_EL1", F.FEAT_PMUv3p9),
        ("PMICNTR_EL0", F.FEAT_PMUv3_ICNTR),
        ("PMICFILTR_EL0", F.FEAT_PMUv3_ICNTR),
        ("PMECR_EL1", F.FEAT_EBEP),
        ("PMIAR_EL1", F.FEAT_SEBEP),
    ],
)
def test_registers_come_with_their_features(name: str, missing: Feature) -> None:
    direction = "w" if name == "PMZR_EL0" else "r"
    for el in range(4):
        settings = FOR_EL0 if el == 0 else ()
        assert outcome(name, direction, el, *settings, features=EVERYTHING - {missing}) == UNDEFINED
