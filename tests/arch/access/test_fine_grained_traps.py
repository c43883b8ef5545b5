"""What each bit of the fine-grained trap registers traps, by the pages of Arm's manual."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spe_unicorn.arch.access.fine_grained_traps import (
    syndrome_of,
    trap_id,
    trapped_at,
    traps_supervisor_call,
)
from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.registers import fgt, system
from spe_unicorn.arch.registers.sysreg import SysReg

FEATURES = frozenset(
    {
        *(Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_FGT, Feature.FEAT_VHE),
        *(Feature.FEAT_PMUv3, Feature.FEAT_SPECRES2),
    }
)

# name | bit | op0,op1,CRn,CRm,op2 of each register; R if there is no MSR
REGISTERS = """
AFSR0_EL1 0 3,0,5,1,0
AFSR1_EL1 1 3,0,5,1,1
AIDR_EL1 2 3,1,0,0,7 R
AMAIR_EL1 3 3,0,10,3,0
APDAKey 4 3,0,2,2,0 3,0,2,2,1
APDBKey 5 3,0,2,2,2 3,0,2,2,3
APGAKey 6 3,0,2,3,0 3,0,2,3,1
APIAKey 7 3,0,2,1,0 3,0,2,1,1
APIBKey 8 3,0,2,1,2 3,0,2,1,3
CCSIDR_EL1 9 3,1,0,0,0 R
CLIDR_EL1 10 3,1,0,0,1 R
CONTEXTIDR_EL1 11 3,0,13,0,1
CPACR_EL1 12 3,0,1,0,2
CSSELR_EL1 13 3,2,0,0,0
CTR_EL0 14 3,3,0,0,1 R
DCZID_EL0 15 3,3,0,0,7 R
ESR_EL1 16 3,0,5,2,0
FAR_EL1 17 3,0,6,0,0
ISR_EL1 18 3,0,12,1,0 R
LORC_EL1 19 3,0,10,4,3
LOREA_EL1 20 3,0,10,4,1
LORID_EL1 21 3,0,10,4,7 R
LORN_EL1 22 3,0,10,4,2
LORSA_EL1 23 3,0,10,4,0
MAIR_EL1 24 3,0,10,2,0
MIDR_EL1 25 3,0,0,0,0 R
MPIDR_EL1 26 3,0,0,0,5 R
PAR_EL1 27 3,0,7,4,0
REVIDR_EL1 28 3,0,0,0,6 R
SCTLR_EL1 29 3,0,1,0,0
TCR_EL1 32 3,0,2,0,2
TPIDR_EL1 33 3,0,13,0,4
TPIDRRO_EL0 34 3,3,13,0,3
TPIDR_EL0 35 3,3,13,0,2
TTBR0_EL1 36 3,0,2,0,0
TTBR1_EL1 37 3,0,2,0,1
VBAR_EL1 38 3,0,12,0,0
ICC_IGRPENn_EL1 39 3,0,12,12,6 3,0,12,12,7
"""
DEBUG = """
PMEVCNTRn_EL0 12 3,3,14,8,0 3,3,14,11,6 3,3,9,13,2
PMEVTYPERn_EL0 13 3,3,14,12,0 3,3,14,15,6 3,3,9,13,1
PMCCFILTR_EL0 14 3,3,14,15,7
PMCCNTR_EL0 15 3,3,9,13,0
PMCNTEN 16 3,3,9,12,1 3,3,9,12,2
PMINTEN 17 3,0,9,14,1 3,0,9,14,2
PMOVS 18 3,3,9,12,3 3,3,9,14,3
PMSELR_EL0 19 3,3,9,12,5
PMSWINC_EL0 20 3,3,9,12,4 W
PMCR_EL0 21 3,3,9,12,0 W
PMMIR_EL1 22 3,0,9,14,6 R
PMUSERENR_EL0 57 3,3,9,14,0
PMCEIDn_EL0 58 3,3,9,12,6 3,3,9,12,7 R
"""
INSTRUCTIONS = """
ICIALLUIS 0 1,0,7,1,0
ICIALLU 1 1,0,7,5,0
ICIVAU 2 1,3,7,5,1
DCIVAC 3 1,0,7,6,1
DCISW 4 1,0,7,6,2
DCCSW 5 1,0,7,10,2
DCCISW 6 1,0,7,14,2
DCCVAU 7 1,3,7,11,1
DCCVAP 8 1,3,7,12,1
DCCVADP 9 1,3,7,13,1
DCCIVAC 10 1,3,7,14,1
DCZVA 11 1,3,7,4,1
ATS1E1R 12 1,0,7,8,0
ATS1E1W 13 1,0,7,8,1
ATS1E0R 14 1,0,7,8,2
ATS1E0W 15 1,0,7,8,3
ATS1E1RP 16 1,0,7,9,0
ATS1E1WP 17 1,0,7,9,1
TLBIVMALLE1IS 28 1,0,8,3,0
TLBIVAE1IS 29 1,0,8,3,1
TLBIASIDE1IS 30 1,0,8,3,2
TLBIVAAE1IS 31 1,0,8,3,3
TLBIVALE1IS 32 1,0,8,3,5
TLBIVAALE1IS 33 1,0,8,3,7
TLBIVMALLE1 42 1,0,8,7,0
TLBIVAE1 43 1,0,8,7,1
TLBIASIDE1 44 1,0,8,7,2
TLBIVAAE1 45 1,0,8,7,3
TLBIVALE1 46 1,0,8,7,5
TLBIVAALE1 47 1,0,8,7,7
CFPRCTX 48 1,3,7,3,4
DVPRCTX 49 1,3,7,3,5
CPPRCTX 50 1,3,7,3,7
COSPRCTX 60 1,3,7,3,6
DCCVAC 54 1,3,7,10,1
"""


def instruction(op: str, read: bool) -> int:
    """The word for X0 of what is named by its five numbers."""
    op0, op1, crn, crm, op2 = (int(n) for n in op.split(","))
    return 0xD500_0000 | read << 21 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5


def rows(text: str, reads: type[SysReg], writes: type[SysReg] | None) -> Iterator[object]:
    for line in text.strip().splitlines():
        name, bit, *ops = line.split()
        only = ops.pop() if ops[-1] in "RW" else ""
        for read, register in ((True, reads), (False, writes)):
            if register is not None and only != ("W" if read else "R"):
                words = [instruction(op, read=read) for op in ops]
                yield pytest.param(register, int(bit), words, id=f"{register.__name__}.{name}")


ROWS = [
    *rows(REGISTERS, fgt.HFGRTR_EL2, fgt.HFGWTR_EL2),
    *rows(DEBUG, fgt.HDFGRTR_EL2, fgt.HDFGWTR_EL2),
    *(
        pytest.param(
            fgt.HFGITR_EL2, int(bit), [instruction(op, read=False)], id=f"HFGITR_EL2.{name}"
        )
        for name, bit, op in map(str.split, INSTRUCTIONS.strip().splitlines())
    ),
]


def guest(el: int = EL1, **values: int) -> StillPE:
    """A PE in Non-secure state whose EL2 has fine-grained traps; registers by name."""
    pe = StillPE(FEATURES, el=el)
    pe.registers.set_raw(system.SCR_EL3, system.SCR_EL3.of(NS=1, FGTEn=1).value)
    for name, value in values.items():
        pe.registers.set_raw(getattr(system, name, None) or getattr(fgt, name), value)
    return pe


@pytest.mark.parametrize(("register", "bit", "words"), ROWS)
def test_bit_traps_what_its_page_says_and_nothing_else(
    register: type[SysReg], bit: int, words: list[int]
) -> None:
    trapped = trapped_at(guest(**{register.__name__: 1 << bit}), EL1)
    assert {trap_id(word) for word in words} <= trapped
    others = {trap_id(word) for row in ROWS for word in row.values[2]} - {  # type: ignore[attr-defined]
        trap_id(word) for word in words
    }
    assert not trapped & others


@pytest.mark.parametrize(
    "register",
    [fgt.HFGRTR_EL2, fgt.HFGWTR_EL2, fgt.HDFGRTR_EL2, fgt.HDFGWTR_EL2, fgt.HFGITR_EL2],
)
def test_every_bit_of_what_we_execute_is_in_the_rows(register: type[SysReg]) -> None:
    absent = ("n", "PMS", "PMB", "PSB", "TLBIR", "ATS1E1A", "SVC", "ERET", "OS")
    absent = (*absent, "DBG", "MDSCR", "RES0")  # debug's stand with their access rules
    mine = {"PMSELR_EL0", "PMSWINC_EL0"}
    bits = {
        field.lsb
        for field in register.fields
        if (not field.name.startswith(absent) or field.name in mine)
        and not field.name.endswith("OS")
    } | {18 for field in register.fields if field.name == "PMOVS"}
    assert bits == {row.values[1] for row in ROWS if row.values[0] is register}  # type: ignore[attr-defined]


ALL = (1 << 64) - 1
TRAPS = {"HFGRTR_EL2": ALL, "HFGWTR_EL2": ALL, "HFGITR_EL2": ALL}
AT_EL0 = {
    "3,3,0,0,1": "UCT",
    "3,3,0,0,7": "",
    "3,3,13,0,2": "",
    "3,3,13,0,3": "",
}
INSTRUCTIONS_AT_EL0 = {
    **dict.fromkeys(("1,3,7,5,1", "1,3,7,10,1", "1,3,7,11,1", "1,3,7,12,1"), "UCI"),
    **dict.fromkeys(("1,3,7,13,1", "1,3,7,14,1"), "UCI"),
    "1,3,7,4,1": "DZE",
    **dict.fromkeys(("1,3,7,3,4", "1,3,7,3,5", "1,3,7,3,6", "1,3,7,3,7"), "EnRCTX"),
}


@pytest.mark.parametrize("enabled", ["", "UCT", "UCI", "DZE", "EnRCTX"])
def test_el0_is_trapped_at_what_it_may_use_and_el1_does_not_trap(enabled: str) -> None:
    sctlr = system.SCTLR_EL1.of(**({enabled: 1} if enabled else {})).value
    trapped = trapped_at(guest(SCTLR_EL1=sctlr, **TRAPS), EL0)
    expected = {
        trap_id(instruction(op, read=True)) for op, by in AT_EL0.items() if by in ("", enabled)
    }
    expected |= {
        trap_id(instruction(op, read=False))
        for op, by in INSTRUCTIONS_AT_EL0.items()
        if by in ("", enabled)
    }
    expected.add(trap_id(instruction("3,3,13,0,2", read=False)))
    assert trapped == expected


def test_nothing_is_trapped_while_el3_has_not_enabled_it() -> None:
    scr = system.SCR_EL3.of(NS=1).value
    assert not trapped_at(guest(SCR_EL3=scr, **TRAPS), EL1)


def test_nothing_is_trapped_in_secure_state_without_secure_el2() -> None:
    scr = system.SCR_EL3.of(FGTEn=1).value
    assert not trapped_at(guest(SCR_EL3=scr, **TRAPS), EL1)


@pytest.mark.parametrize("el", [EL2, EL3])
def test_nothing_is_trapped_above_el1(el: int) -> None:
    assert not trapped_at(guest(**TRAPS), el)


def test_applications_of_a_host_are_not_trapped() -> None:
    hcr = system.HCR_EL2.of(E2H=1, TGE=1).value
    assert not trapped_at(guest(HCR_EL2=hcr, **TRAPS), EL0)
    assert trapped_at(guest(HCR_EL2=system.HCR_EL2.of(E2H=1).value, **TRAPS), EL0)


def test_syndrome_is_that_of_a_trapped_system_register_access() -> None:
    # ISS: op0 21:20, op2 19:17, op1 16:14, CRn 13:10, Rt 9:5, CRm 4:1, direction 0
    word = instruction("3,0,12,0,0", read=True) | 7
    assert syndrome_of(word).esr() == 0x6200_0000 | 3 << 20 | 12 << 10 | 7 << 5 | 1
    word = instruction("1,3,7,5,1", read=False) | 3
    iss = 1 << 20 | 1 << 17 | 3 << 14 | 7 << 10 | 3 << 5 | 5 << 1
    assert syndrome_of(word).esr() == 0x6200_0000 | iss
    word = instruction("1,0,8,7,0", read=False) | 31
    assert syndrome_of(word).esr() == 0x6200_0000 | 1 << 20 | 8 << 10 | 31 << 5 | 7 << 1


@pytest.mark.parametrize(("word", "iss"), [(0xD69F03E0, 0), (0xD69F0BFF, 2), (0xD69F0FFF, 3)])
def test_exception_returns_of_el1_are_trapped_with_a_class_of_their_own(
    word: int, iss: int
) -> None:
    pe = guest(HFGITR_EL2=1 << 51)
    assert trap_id(word) in trapped_at(pe, EL1)
    assert trap_id(word) not in trapped_at(pe, EL0)
    assert trap_id(word) not in trapped_at(guest(HFGITR_EL2=ALL & ~(1 << 51)), EL1)
    assert syndrome_of(word).esr() == 0x6A00_0000 | iss


@pytest.mark.parametrize(
    ("el", "bit", "hcr", "trapped"),
    [
        (EL0, 52, {}, True),
        (EL0, 53, {}, False),
        (EL1, 53, {}, True),
        (EL1, 52, {}, False),
        (EL0, 52, {"E2H": 1, "TGE": 1}, False),
        (EL2, 53, {}, False),
    ],
)
def test_supervisor_calls_are_trapped_by_level(
    el: int, bit: int, hcr: dict[str, int], trapped: bool
) -> None:
    pe = guest(HFGITR_EL2=1 << bit, HCR_EL2=system.HCR_EL2.of(**hcr).value)
    assert traps_supervisor_call(pe, el) == trapped
