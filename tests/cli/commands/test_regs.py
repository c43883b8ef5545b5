from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.arch.access.spe import SPE_ACCESSORS
from spe_unicorn.cli.commands.cores import cores
from spe_unicorn.cli.commands.regs import regs
from spe_unicorn.cli.register_reference import register_reference
from spe_unicorn.cores.profile import core_names

ROOT = Path(__file__).parents[3]
MAX_AT_EL1 = ("PMSICR_EL1", "--core", "max", "--at", "EL1")


def said(*arguments: str) -> list[str]:
    result = CliRunner().invoke(regs, arguments)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_without_a_name_every_register_is_listed() -> None:
    lines = said()
    for accessor in SPE_ACCESSORS:
        assert any(accessor.name in line.split() for line in lines)
    row = next(line.split() for line in lines if "PMSIDR_EL1" in line)
    assert row[:4] == ["PMSIDR_EL1", "S3_0_C9_C9_7", "RO", "FEAT_SPE"]
    assert " ".join(row[4:]) == "Sampling Profiling ID Register"


def test_a_name_shows_encoding_fields_and_access_rules() -> None:
    lines = said("PMSICR_EL1")
    assert "  encoding  S3_0_C9_C9_2, op0,op1,CRn,CRm,op2 = 3,0,9,9,2" in lines
    assert "  MRS X0    0xd5389940" in lines
    assert "  MSR X0    0xd5189940" in lines
    assert (
        "  31:0   COUNT   UNKNOWN  Primary counter, in members of the sample population." in lines
    )
    el1 = lines.index("Access at EL1:")
    assert "  MDCR_EL2.TPMS is 1: traps to EL2 with EC 0x18" in lines[el1:]


def test_fields_are_those_of_the_core() -> None:
    assert any("ECOUNT" in line for line in said("PMSICR_EL1", "--core", "max"))
    assert not any("ECOUNT" in line for line in said("PMSICR_EL1", "--core", "neoverse-n1"))


def test_a_register_that_the_core_lacks_is_shown_all_the_same() -> None:
    assert "  needs     FEAT_SPE_FDS; generic does not have it" in said("PMSDSFR_EL1")


def test_a_read_only_register_has_no_msr() -> None:
    assert "  MSR X0    UNDEFINED" in said("PMSIDR_EL1")


def test_names_may_be_in_small_letters_or_numbers() -> None:
    assert said("pmsicr_el1") == said("PMSICR_EL1") == said("S3_0_C9_C9_2")


def test_a_value_is_decoded_field_by_field() -> None:
    assert said("PMBSR_EL1=0x90020005") == [
        "PMBSR_EL1 = 0x0000000090020005 on generic",
        "  55:32  MSS2  0             Syndrome of the event, second part.",
        "  31:26  EC    STAGE1_ABORT  Class of the event.",
        "  19     DL    0             Data lost: a record is partial.",
        "  18     EA    0             External abort.",
        "  17     S     1             An event was recorded; profiling is stopped.",
        "  16     COLL  0             A sample collided with one in flight.",
        "  15:0   MSS   5             Syndrome: FSC 0x5, translation fault, level 1.",
    ]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("PMBSR_EL1=0x20001", "BSC 0x1, buffer full"),
        ("PMBSR_EL2=0x20000", "BSC 0x0, access not allowed"),
        ("PMBSR_EL3=0x20004", "BSC 0x4, buffer size too large"),
        ("PMBSR_EL1=0x20003", "BSC 0x3, a reserved value"),
        ("PMBSR_EL1=0x9002000F", "FSC 0xf, permission fault, level 3"),
        ("PMBSR_EL1=0x94020004", "FSC 0x4, translation fault, level 0"),
        ("PMBSR_EL1=0x90060010", "FSC 0x10, external abort"),
        ("PMBSR_EL1=0x90020028", "FSC 0x28, granule protection fault"),
        ("PMBSR_EL1=0x90020025", "FSC 0x25, granule protection fault on a table walk, level 1"),
        ("PMBSR_EL1=0x78020000", "0, a granule protection check that failed says no more"),
        ("PMBSR_EL1=0x7C020000", "IMPLEMENTATION DEFINED"),
        ("PMBSR_EL1=0x04020000", "reserved with this EC"),
    ],
)
def test_the_syndrome_of_a_management_event_is_decoded_by_its_class(value: str, says: str) -> None:
    row = said(value, "--core", "max")[-1]
    assert row.startswith("  15:0   MSS")
    assert row.endswith(f"Syndrome: {says}.")


def test_bits_of_a_value_that_do_not_stay_are_pointed_out() -> None:
    lines = said("PMBPTR_EL1=0x1001")
    assert lines[1].endswith("Bits 0x1 of it are RES0 on this core.")
    lines = said("PMSCR_EL1=0x404", "--core", "minimal")
    assert any("KE" in line and "not kept" in line for line in lines)
    assert any(line.split()[:2] == ["2", "RES0"] and "not kept" in line for line in lines)


def test_the_verdict_for_a_trapped_read_says_why_and_the_write_is_allowed() -> None:
    assert said("PMSICR_EL1", "--at", "EL1", "--with", "HDFGRTR_EL2.PMSICR_EL1=1") == [
        "PMSICR_EL1 at EL1 on generic:",
        "  MRS  traps to EL2 with EC 0x18, ISS 0x342413: HDFGRTR_EL2.PMSICR_EL1 is 1 [EL1/FGT]",
        "  MSR  accesses PMSICR_EL1: nothing traps it [EL1/register]",
    ]


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        (["PMSICR_EL1", "--at", "EL0"], "is UNDEFINED: it is never accessible at EL0 [EL0]"),
        (["PMSICR_EL1", "--at", "el1"], "accesses PMSICR_EL1: nothing traps it [EL1/register]"),
        (["PMSICR_EL1", "--at", "EL3"], "accesses PMSICR_EL1: nothing traps it [EL3/register]"),
        # what firmware leaves for a start at EL1 gives EL1 the buffer, at EL2 it keeps it there
        (["PMBPTR_EL1", "--at", "EL1"], "accesses PMBPTR_EL1: nothing traps it [EL1/register]"),
        (
            ["PMBPTR_EL1", "--at", "EL1", "--with", "MDCR_EL2.E2PB=0"],
            "traps to EL2 with EC 0x18, ISS 0x322415: MDCR_EL2.E2PB is 0bx0 [EL1/E2PB]",
        ),
        (
            ["PMSCR_EL1", "--at", "EL2", "--with", "HCR_EL2.E2H=1"],
            "accesses PMSCR_EL2: HCR_EL2.E2H is 1 [EL2/host]",
        ),
        (
            ["PMSCR_EL1", "--at", "EL1", "--with", "SCR_EL3.NS=0,MDCR_EL2.TPMS=1"],
            "traps to EL3 with EC 0x18, ISS 0x302413: "
            "MDCR_EL3.{NSPBE,NSPB} keeps SPE from this Security state [EL1/NSPB]",
        ),
        (
            ["PMSICR_EL1", "--at", "EL1", "--with", "MDCR_EL3.NSPB=2", "--with", "EDSCR.SDD=1"],
            "is UNDEFINED: EDSCR.SDD is 1 in Debug state, and "
            "MDCR_EL3.{NSPBE,NSPB} keeps SPE from this Security state [EL1/NSPB/SDD]",
        ),
        (
            [*MAX_AT_EL1, "--with", "HCR_EL2=0x280000000000,HCR_EL2.NV=1"],
            "accesses memory at VNCR_EL2.BADDR + 0x838: "
            "the Effective value of HCR_EL2.{NV2,NV1,NV} is 0b1x1 [EL1/NVMem]",
        ),
        (
            ["PMSDSFR_EL1", "--at", "EL1"],
            "is UNDEFINED: the core does not have FEAT_SPE_FDS [feature]",
        ),
        (
            ["S3_0_C9_C10_2", "--at", "EL3"],
            "is UNDEFINED: Arm has not allocated this encoding [unallocated]",
        ),
    ],
)
def test_reads_are_explained(arguments: list[str], verdict: str) -> None:
    assert said(*arguments)[1] == f"  MRS  {verdict}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["PMSICR"], "no register 'PMSICR'; near are PMSICR_EL1, "),
        (["XYZ"], "no register 'XYZ'; 'regs' without a name lists them"),
        (["S3_0_C9_C10_2"], "S3_0_C9_C10_2 is not allocated"),
        (["PMSICR_EL1=zz"], "PMSICR_EL1=zz: 'zz' is not a number"),
        (["PMSICR_EL1="], "PMSICR_EL1=: '' is not a number"),
        (["PMSICR_EL1=0x10000000000000000"], "PMSICR_EL1=0x10000000000000000: allowed are 64 bits"),
        (["PMSICR_EL1=-1"], "PMSICR_EL1=-1: allowed are 64 bits"),
        (["PMSICR_EL1", "--at", "EL4"], "--at EL4: allowed are EL0, EL1, EL2, EL3"),
        (["PMSICR_EL1=1", "--at", "EL1"], "--at explains an access; leave out the value"),
        (["PMSICR_EL1", "--with", "MDCR_EL2.TPMS=1"], "--with needs --at"),
        (["--at", "EL1"], "--at and --with need the name of a register"),
        (["PMSICR_EL1", "--core", "nova"], "core 'nova': allowed are "),
        (["PMSICR_EL1", "--core", "/nowhere.toml"], "/nowhere.toml: No such file or directory"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(regs, arguments)
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {message}")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("MDCR_EL2.TPMS", "write REG.FIELD=VALUE or REG=VALUE"),
        ("MDCR_EL9.TPMS=1", "no register MDCR_EL9"),
        ("MDCR_EL2.TPM5=1", "MDCR_EL2 has no field TPM5; it has "),
        ("MDCR_EL2.TPMS=2", "allowed are 1 bits"),
        ("MDCR_EL2.E2PB=x", "'x' is not a number"),
        ("EDSCR.SDD=2", "allowed are 1 bits"),
        ("MDCR_EL3.EnPMS4=0", "this core does not have MDCR_EL3.EnPMS4"),
    ],
)
def test_a_wrong_control_is_one_line_and_exits_with_2(setting: str, message: str) -> None:
    result = CliRunner().invoke(regs, ["PMSICR_EL1", "--at", "EL1", "--with", setting])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: --with {setting}: {message}")
    assert result.output.count("\n") == 1


def test_cores_are_listed_and_shown() -> None:
    result = CliRunner().invoke(cores, [])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == list(core_names())
    result = CliRunner().invoke(cores, ["neoverse-n1"])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert "  MIDR_EL1      0x414fd0c1" in lines
    assert "  architecture  Armv8.2-A" in lines
    assert "  FEAT_SPE_LDS" in lines
    assert any(line.split() == ["interval", "4"] for line in lines)
    assert any(
        line.split(maxsplit=1) == ["l2", "size 1048576, ways 8, cycles 11"] for line in lines
    )
    assert any(line.split() == ["walk", "40"] for line in lines)
    assert any(line.split() == ["events", "2,", "4,", "8,", "9,", "10,", "12"] for line in lines)


def test_an_impossible_core_is_one_line_and_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('name = "odd"\nmidr = 1\nfeatures = ["FEAT_SPE_EXC"]\n')
    result = CliRunner().invoke(cores, [str(path)])
    assert result.exit_code == 2
    assert result.output == (
        f"Error: {path}: FEAT_SPE_EXC needs FEAT_SPE; FEAT_SPE_EXC needs FEAT_SPEv1p5; "
        "FEAT_SPE_EXC needs FEAT_EBEP, by which software clears PSTATE.PM\n"
    )


def test_the_register_reference_is_current() -> None:
    page = ROOT / "docs" / "reference" / "registers.md"
    assert page.read_text(encoding="utf-8") == register_reference(), (
        "run: python -m spe_unicorn.cli.register_reference docs/reference/registers.md"
    )


def test_the_performance_monitors_are_listed_with_the_first_of_each_counter_s_registers() -> None:
    names = {line.split()[0] for line in said() if line.startswith("  PM")}
    assert {"PMCR_EL0", "PMEVCNTR0_EL0", "PMEVTYPER0_EL0", "PMICNTR_EL0"} <= names
    assert "PMEVCNTR1_EL0" not in names


def test_registers_of_the_performance_monitors_are_decoded_and_explained() -> None:
    lines = said("PMEVTYPER3_EL0=0x88000011")
    assert lines[0] == "PMEVTYPER3_EL0 = 0x0000000088000011 on generic"
    fields = {line.split()[1]: line.split()[2] for line in lines[1:]}
    assert (fields["P"], fields["U"], fields["NSH"], fields["evtCount"]) == ("1", "0", "1", "0x11")
    open_, closed = said("PMCCNTR_EL0", "--at", "EL1"), said("PMCCNTR_EL0", "--at", "EL0")
    assert "accesses PMCCNTR_EL0" in open_[1]
    assert "traps to EL1" in closed[1]
    trapped = said("PMEVCNTR3_EL0", "--at", "EL1", "--with", "MDCR_EL2.HPMN=2")
    assert "traps to EL2" in trapped[1]


def test_a_rule_of_one_direction_alone_says_so() -> None:
    lines = said("PMCR_EL0")
    el1 = lines[lines.index("Access at EL1:") : lines.index("Access at EL2:")]
    assert "  for MSR HDFGWTR_EL2.PMCR_EL0 is 1: traps to EL2 with EC 0x18" in el1
    assert "  MDCR_EL2.TPM is 1: traps to EL2 with EC 0x18" in el1
    assert "  MDCR_EL2.TPMCR is 1: traps to EL2 with EC 0x18" in el1
