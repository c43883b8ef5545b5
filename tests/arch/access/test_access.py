from __future__ import annotations

from collections.abc import Callable

import pytest

from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS, psb_csync
from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.access.verdicts import (
    PSB_CSYNC_ISS,
    PSB_CSYNC_TRAP,
    Accessor,
    Allowed,
    NVMem,
    Rule,
    Step,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    access,
    reaches_its_own,
)
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import MDCR_EL3, SCR_EL3
from tests.arch.access_matrix import DATA, EVERYTHING, Section, load_sections, prepare, run, spelled

# Every branch of the access pseudocode of PMSICR_EL1, counted in the architecture's register
# description, for each direction: feature, EL0, seven at EL1, four at EL2, EL3.
PMSICR_BRANCHES = {f"{way}-{n:02}" for way in ("MRS", "MSR") for n in range(1, 15)}


@pytest.mark.parametrize("section", load_sections(), ids=lambda section: section.title)
def test_verdicts_follow_the_hand_written_order(
    section: Section, record_property: Callable[[str, object], None]
) -> None:
    outcomes = list(run(section))
    wrong = [o for o in outcomes if o.expected != o.actual]
    assert not wrong, f"{len(wrong)} of {len(outcomes)}, first: {wrong[0]}"
    record_property("access cases", len(outcomes))


def test_each_branch_of_the_pmsicr_pseudocode_is_reached_by_its_own_case() -> None:
    reached = {
        outcome.branch
        for section in load_sections()
        if section.names == ["PMSICR_EL1"] and any(line.branch for line in section.lines)
        for outcome in run(section)
        if outcome.expected == outcome.actual
    }
    assert reached == PMSICR_BRANCHES


@pytest.mark.parametrize(
    ("name", "el", "e2h", "own"),
    [
        pytest.param("PMSICR_EL1", 1, 0, True, id="its own"),
        pytest.param("PMSICR_EL1", 0, 0, False, id="UNDEFINED"),
        pytest.param("PMSCR_EL1", 2, 0, True, id="its own at EL2"),
        pytest.param("PMSCR_EL1", 2, 1, False, id="means PMSCR_EL2"),
    ],
)
@pytest.mark.parametrize("read", [True, False], ids=["MRS", "MSR"])
def test_a_name_reaches_its_own_register_or_does_not(
    name: str, el: int, e2h: int, own: bool, read: bool
) -> None:
    settings = ["SCR_EL3.NS=1", "MDCR_EL3.NSPB=3", f"HCR_EL2.E2H={e2h}"]
    accessor = next(a for a in SPE_ACCESSORS if a.name == name)
    assert reaches_its_own(prepare(EVERYTHING, el, settings), accessor, read=read) is own


def test_every_accessor_and_direction_is_in_the_matrix_at_every_exception_level() -> None:
    covered = {
        (name, direction, el)
        for section in load_sections()
        for name in section.names
        for direction in section.directions
        for el in section.levels
    }
    wanted = {(a.name, d, el) for a in SPE_ACCESSORS for d in "rw" for el in range(4)}
    assert covered == wanted


def nspb_rows() -> list[list[str]]:
    lines = (DATA / "nspb.txt").read_text().splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


STATES = {"Secure": (0, 0), "NonSecure": (0, 1), "Realm": (1, 1)}
NSPB_RULED = ("PMSICR_EL1", "PMSCR_EL1", "PMBLIMITR_EL1", "PMSNEVFR_EL1", "PMBMAR_EL1")


@pytest.mark.parametrize("row", nspb_rows(), ids=lambda row: " ".join(row[:3]))
@pytest.mark.parametrize("el", [1, 2])
@pytest.mark.parametrize("name", NSPB_RULED)
def test_nspb_traps_from_the_states_that_do_not_own_the_buffer(
    row: list[str], el: int, name: str
) -> None:
    rme, nspbe, nspb, _, *columns = row
    features = frozenset(Feature) if rme.startswith("RME") else EVERYTHING
    pe = StillPE(features, ImpDef(secure_state=rme != "RME-S"), el=el)
    accessor = named(name)
    for (nse, ns), expected in zip(STATES.values(), columns, strict=True):
        if expected == "-":
            continue
        pe.registers.set_raw(
            MDCR_EL3,
            MDCR_EL3.of(
                NSPBE=int(nspbe), NSPB=int(nspb, 2), EnPMSN=1, EnPMS3=1, EnPMS4=1, PMSEE=1
            ).value,
        )
        # EL2 stays out of it: no traps while FGTEn is 0, and E2PB decides nothing for NSPB.
        pe.registers.set_raw(SCR_EL3, SCR_EL3.of(NSE=nse, NS=ns, FGTEn2=1, EEL2=1).value)
        open_el2(pe)
        for read in (True, False):
            assert spelled(access(pe, accessor, read=read)) == (
                "EL3" if expected == "trap" else name
            )


def open_el2(pe: StillPE) -> None:
    registers = {r.__name__: r for r in pe.registers}
    pe.registers.set_raw(registers["MDCR_EL2"], 0b11 << 12)
    for name in ("HDFGRTR2_EL2", "HDFGWTR2_EL2"):
        pe.registers.set_raw(registers[name], 1 << 24 | 1 << 19)


def named(name: str) -> Accessor:
    accessor = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS)).named(name)
    assert accessor is not None
    return accessor


# op0, op1, CRn, CRm, op2; MRS and MSR of X0; ISS of a trapped MSR (Arm ARM D24.7).
ENCODINGS = [
    ("PMSCR_EL1", 0xD5389900, 0xD5189900, 0x302412),
    ("PMSNEVFR_EL1", 0xD5389920, 0xD5189920, 0x322412),
    ("PMSICR_EL1", 0xD5389940, 0xD5189940, 0x342412),
    ("PMSIRR_EL1", 0xD5389960, 0xD5189960, 0x362412),
    ("PMSFCR_EL1", 0xD5389980, 0xD5189980, 0x382412),
    ("PMSEVFR_EL1", 0xD53899A0, 0xD51899A0, 0x3A2412),
    ("PMSLATFR_EL1", 0xD53899C0, 0xD51899C0, 0x3C2412),
    ("PMSIDR_EL1", 0xD53899E0, None, 0x3E2412),
    ("PMBLIMITR_EL1", 0xD5389A00, 0xD5189A00, 0x302414),
    ("PMBPTR_EL1", 0xD5389A20, 0xD5189A20, 0x322414),
    ("PMBSR_EL1", 0xD5389A60, 0xD5189A60, 0x362414),
    ("PMSDSFR_EL1", 0xD5389A80, 0xD5189A80, 0x382414),
    ("PMBMAR_EL1", 0xD5389AA0, 0xD5189AA0, 0x3A2414),
    ("PMBIDR_EL1", 0xD5389AE0, None, 0x3E2414),
    ("PMSCR_EL2", 0xD53C9900, 0xD51C9900, 0x312412),
    ("PMBSR_EL2", 0xD53C9A60, 0xD51C9A60, 0x372414),
    ("PMSCR_EL12", 0xD53D9900, 0xD51D9900, 0x316412),
    ("PMBSR_EL12", 0xD53D9A60, 0xD51D9A60, 0x376414),
    ("PMBSR_EL3", 0xD53E9A60, 0xD51E9A60, 0x37A414),
]


@pytest.mark.parametrize(("name", "mrs", "msr", "iss"), ENCODINGS, ids=lambda v: str(v))
def test_encodings_are_those_of_the_architecture(
    name: str, mrs: int, msr: int | None, iss: int
) -> None:
    accessor = named(name)
    assert accessor.encoding.instruction(0, read=True) == mrs
    assert accessor.encoding.instruction(30, read=True) == mrs | 30
    assert (accessor.write is None) == (msr is None)
    if msr is not None:
        assert accessor.encoding.instruction(0, read=False) == msr
    assert accessor.encoding.iss(0, read=False) == iss
    assert accessor.encoding.iss(7, read=True) == iss | 7 << 5 | 1
    key = mrs >> 5 & 0xFFFF  # bit 19 is the lower bit of op0
    assert SysRegTable(SPE_ACCESSORS).get(key) is accessor


def test_there_are_nineteen_spe_accessors() -> None:
    assert [a.name for a in SPE_ACCESSORS if a.name not in {e[0] for e in ENCODINGS}] == []
    assert len(SPE_ACCESSORS) == 19


@pytest.mark.parametrize("el", range(4))
def test_unallocated_encodings_among_those_of_spe_are_undefined(el: int) -> None:
    table = SysRegTable(SPE_ACCESSORS)
    allocated = {a.encoding.key for a in SPE_ACCESSORS}
    pe = StillPE(EVERYTHING, el=el)
    found = 0
    for op1 in range(8):
        for crm in (9, 10):
            for op2 in range(8):
                encoding = Encoding(3, op1, 9, crm, op2)
                accessor = table.get(encoding.key)
                assert accessor is not None
                if encoding.key in allocated:
                    continue
                found += 1
                assert accessor.name == str(encoding)
                for read in (True, False):
                    verdict = access(pe, accessor, read=read)
                    assert isinstance(verdict, Undefined)
                    assert verdict.rule.name == "unallocated"
    assert found == 128 - 19


def test_the_table_says_nothing_of_encodings_elsewhere() -> None:
    table = SysRegTable(SPE_ACCESSORS)
    assert table.get(Encoding(3, 0, 9, 14, 1).key) is None  # PMINTENSET_EL1
    assert table.get(Encoding(3, 3, 9, 12, 0).key) is None  # PMCR_EL0
    assert table.get(Encoding(2, 0, 9, 9, 2).key) is None
    assert table.named("SCTLR_EL1") is None


def test_verdicts_compare_by_what_happens_not_by_why() -> None:
    pe = prepare(EVERYTHING, 1, ["SCR_EL3.NS=1", "MDCR_EL3.NSPB=3", "MDCR_EL2.TPMS=1"])
    by_tpms = access(pe, named("PMSIRR_EL1"), read=True)
    pe = prepare(
        EVERYTHING,
        1,
        ["SCR_EL3.NS=1", "SCR_EL3.FGTEn=1", "MDCR_EL3.NSPB=3", "HDFGRTR_EL2.PMSIRR_EL1=1"],
    )
    by_fgt = access(pe, named("PMSIRR_EL1"), read=True)
    assert by_tpms == by_fgt
    assert by_tpms.rule.text == "MDCR_EL2.TPMS is 1"
    assert by_fgt.rule.text == "HDFGRTR_EL2.PMSIRR_EL1 is 1"


# The registers that steer SPE: name, settings, level, expected (both directions alike).
STEERING = [
    ("HCR_EL2", "", 0, "UNDEFINED"),
    ("HCR_EL2", "SCR_EL3.NS=1", 1, "UNDEFINED"),
    ("HCR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1", 1, "EL2"),
    ("HCR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0x78"),
    ("HCR_EL2", "SCR_EL3.NS=1", 2, "HCR_EL2"),
    ("HCR_EL2", "", 3, "HCR_EL2"),
    ("MDCR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "EL2"),
    ("MDCR_EL2", "SCR_EL3.NS=1", 2, "MDCR_EL2"),
    ("MDCR_EL2", "SCR_EL3.NS=1 MDCR_EL3.TDA=1", 2, "EL3"),
    ("MDCR_EL2", "MDCR_EL3.TDA=1", 3, "MDCR_EL2"),
    ("HDFGRTR_EL2", "SCR_EL3.NS=1 SCR_EL3.FGTEn=1", 2, "HDFGRTR_EL2"),
    ("HDFGRTR_EL2", "SCR_EL3.NS=1", 2, "EL3"),
    ("HDFGRTR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0x1d0"),
    ("HDFGWTR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0x1d8"),
    ("HDFGRTR2_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0x1a0"),
    ("HDFGWTR2_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0x1b0"),
    ("HFGITR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0x1c8"),
    ("HDFGRTR2_EL2", "SCR_EL3.NS=1 SCR_EL3.FGTEn=1", 2, "EL3"),
    ("HDFGRTR2_EL2", "SCR_EL3.NS=1 SCR_EL3.FGTEn2=1", 2, "HDFGRTR2_EL2"),
    ("VNCR_EL2", "SCR_EL3.NS=1 HCR_EL2.NV=1 HCR_EL2.NV2=1", 1, "NVMem 0xb0"),
    ("VNCR_EL2", "SCR_EL3.NS=1", 2, "VNCR_EL2"),
    ("CNTPOFF_EL2", "SCR_EL3.NS=1", 2, "EL3"),
    ("CNTPOFF_EL2", "SCR_EL3.NS=1 SCR_EL3.ECVEn=1", 2, "CNTPOFF_EL2"),
    ("SCR_EL3", "SCR_EL3.NS=1", 2, "UNDEFINED"),
    ("SCR_EL3", "", 3, "SCR_EL3"),
    ("MDCR_EL3", "SCR_EL3.NS=1 HCR_EL2.NV=1", 1, "UNDEFINED"),
    ("MDCR_EL3", "", 3, "MDCR_EL3"),
]


@pytest.mark.parametrize(("name", "settings", "el", "expected"), STEERING)
def test_steering_registers_follow_exception_levels_and_their_own_traps(
    name: str, settings: str, el: int, expected: str
) -> None:
    pe = prepare(EVERYTHING, el, settings.split())
    for read in (True, False):
        assert spelled(access(pe, named(name), read=read)) == expected


@pytest.mark.parametrize("name", ["ID_AA64DFR0_EL1", "ID_AA64ZFR0_EL1"])
@pytest.mark.parametrize(
    ("settings", "el", "expected"),
    [
        ("", 0, "UNDEFINED"),
        ("SCR_EL3.NS=1", 1, "read"),
        ("SCR_EL3.NS=1 HCR_EL2.TID3=1", 1, "EL2"),
        ("HCR_EL2.TID3=1 SCR_EL3.NS=0", 1, "read"),  # EL2 is off in Secure state
        ("SCR_EL3.NS=1 HCR_EL2.TID3=1", 2, "read"),
        ("", 3, "read"),
    ],
)
def test_id_registers_are_trapped_by_tid3_only(
    settings: str, el: int, expected: str, name: str
) -> None:
    pe = prepare(EVERYTHING, el, settings.split())
    assert spelled(access(pe, named(name), read=True)) == expected.replace("read", name)
    assert isinstance(access(pe, named(name), read=False), Undefined)


PSB = "SCR_EL3.NS=1 SCR_EL3.FGTEn=1 HFGITR_EL2.PSBCSYNC=1"


@pytest.mark.parametrize(
    ("settings", "el", "absent", "traps"),
    [
        (PSB, 1, None, True),
        (PSB, 0, None, True),
        (PSB, 2, None, False),
        (PSB, 3, None, False),
        ("SCR_EL3.NS=1 SCR_EL3.FGTEn=1", 1, None, False),
        ("SCR_EL3.NS=1 HFGITR_EL2.PSBCSYNC=1", 1, None, False),
        ("SCR_EL3.FGTEn=1 HFGITR_EL2.PSBCSYNC=1", 1, None, False),  # Secure, EL2 disabled
        (f"{PSB} HCR_EL2.E2H=1 HCR_EL2.TGE=1", 0, None, False),
        (f"{PSB} HCR_EL2.E2H=1", 0, None, True),
        (f"{PSB} HCR_EL2.TGE=1", 0, None, True),
        (PSB, 1, Feature.FEAT_SPEv1p5, False),
        (PSB, 1, Feature.FEAT_FGT, False),
        (PSB, 1, Feature.FEAT_EL2, False),
        ("HFGITR_EL2.PSBCSYNC=1", 1, Feature.FEAT_EL3, True),
    ],
)
def test_psb_csync_traps_to_el2_where_hfgitr_asks_for_it(
    settings: str, el: int, absent: Feature | None, traps: bool
) -> None:
    pe = prepare(EVERYTHING - {absent}, el, settings.split())
    verdict = psb_csync(pe)
    if traps:
        assert verdict == SystemAccessTrap(2, PSB_CSYNC_TRAP, verdict.rule)
        assert (PSB_CSYNC_TRAP, PSB_CSYNC_ISS) == (0x0A, 0x3)
    else:
        assert verdict is None


@pytest.mark.parametrize("read", [True, False])
def test_pm_belongs_to_whoever_is_not_el0(read: bool) -> None:
    accessor = SysRegTable(STEERING_ACCESSORS).named("PM")
    assert accessor is not None
    for features, el1 in ((frozenset({Feature.FEAT_EBEP}), True), (frozenset(), False)):
        pe = StillPE(features)
        found = []
        for el in (0, 1):
            pe.el = el
            found.append(isinstance(access(pe, accessor, read=read), Allowed))
        assert found == [False, el1]


def test_steps_without_an_else_are_an_error() -> None:
    never = Step(lambda pe: False, Undefined(Rule("never", "it does not hold")))
    accessor = Accessor("ODD_EL1", Encoding(3, 0, 9, 9, 7), None, None, ((never,),) * 4)
    with pytest.raises(LookupError, match="the steps of ODD_EL1 at EL1 end without a verdict"):
        access(StillPE(EVERYTHING), accessor, read=False)


def test_each_chain_of_steps_ends_with_an_else() -> None:
    for accessor in (*SPE_ACCESSORS, *STEERING_ACCESSORS):
        for levels in (accessor.read, accessor.write):
            for steps in levels or ():
                assert [step.test is None for step in steps].count(True) == 1
                assert steps[-1].test is None


def test_allowed_names_a_register_and_nvmem_an_offset() -> None:
    pe = prepare(EVERYTHING, 2, ["SCR_EL3.NS=1", "MDCR_EL3.NSPB=3", "HCR_EL2.E2H=1"])
    verdict = access(pe, named("PMSCR_EL12"), read=False)
    assert isinstance(verdict, Allowed)
    assert verdict.register.__name__ == "PMSCR_EL1"
    nested = ["SCR_EL3.NS=1", "MDCR_EL3.NSPB=3", "HCR_EL2.NV=1", "HCR_EL2.NV2=1"]
    verdict = access(prepare(EVERYTHING, 1, nested), named("PMSCR_EL12"), read=False)
    assert isinstance(verdict, NVMem)
    assert verdict.offset == 0x828
