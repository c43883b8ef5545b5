from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import fgt as fgt_registers
from spe_unicorn.arch.registers import id as id_registers
from spe_unicorn.arch.registers import system as system_registers
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SCR_EL3,
    SYSTEM_REGISTERS,
    TCR_EL2,
    TCR_EL2_nVHE,
)

F = Feature


def pairs(table: str) -> list[tuple[str, str]]:
    words = table.split()
    return list(zip(words[::2], words[1::2], strict=True))


# Where the architecture puts the fields that rules, walker and exceptions read, by hand.
BITS = """
MDCR_EL2.TPMS 14                MDCR_EL2.E2PB 13:12             MDCR_EL2.HPMFZS 36
MDCR_EL2.PMEE 41:40             MDCR_EL2.HPMN 4:0               MDCR_EL2.TPM 6
MDCR_EL2.TPMCR 5                MDCR_EL2.HPME 7                 MDCR_EL2.HPMD 17
MDCR_EL2.HCCD 23                MDCR_EL2.HLP 26                 MDCR_EL2.HPMFZO 29
MDCR_EL3.NSPB 13:12             MDCR_EL3.NSPBE 11               MDCR_EL3.EnPMSN 36
MDCR_EL3.EnPMS3 42              MDCR_EL3.EnPMS4 55              MDCR_EL3.PMSEE 52:51
MDCR_EL3.PMEE 41:40             MDCR_EL3.MPMX 35                MDCR_EL3.MCCD 34
MDCR_EL3.SCCD 23                MDCR_EL3.SPME 17                MDCR_EL3.EnPM2 7
MDCR_EL3.TPM 6                  MDCR_EL3.TDA 9                  HCR_EL2.GPF 48
HCR_EL2.NV2 45                  HCR_EL2.NV1 43                  HCR_EL2.NV 42
HCR_EL2.TEA 37                  HCR_EL2.E2H 34                  HCR_EL2.RW 31
HCR_EL2.TGE 27                  HCR_EL2.TSC 19                  HCR_EL2.TID3 18
HCR_EL2.DC 12                   HCR_EL2.AMO 5                   HCR_EL2.IMO 4
HCR_EL2.FMO 3                   HCR_EL2.PTW 2                   HCR_EL2.VM 0
HCR_EL2.FWB 46                  HCR_EL2.HCD 29                  SCR_EL3.NSE 62
SCR_EL3.FGTEn2 59               SCR_EL3.GPF 48                  SCR_EL3.ECVEn 28
SCR_EL3.FGTEn 27                SCR_EL3.EEL2 18                 SCR_EL3.RW 10
SCR_EL3.HCE 8                   SCR_EL3.SMD 7                   SCR_EL3.EA 3
SCR_EL3.FIQ 2                   SCR_EL3.IRQ 1                   SCR_EL3.NS 0
SCR_EL3.EASE 19                 VNCR_EL2.BADDR 63:12            HFGITR_EL2.PSBCSYNC 63
HDFGRTR_EL2.PMBIDR_EL1 63       HDFGRTR_EL2.nPMSNEVFR_EL1 62    HDFGRTR_EL2.PMSLATFR_EL1 32
HDFGRTR_EL2.PMSIRR_EL1 31       HDFGRTR_EL2.PMSIDR_EL1 30       HDFGRTR_EL2.PMSICR_EL1 29
HDFGRTR_EL2.PMSFCR_EL1 28       HDFGRTR_EL2.PMSEVFR_EL1 27      HDFGRTR_EL2.PMSCR_EL1 26
HDFGRTR_EL2.PMBSR_EL1 25        HDFGRTR_EL2.PMBPTR_EL1 24       HDFGRTR_EL2.PMBLIMITR_EL1 23
HDFGWTR_EL2.nPMSNEVFR_EL1 62    HDFGWTR_EL2.PMSLATFR_EL1 32     HDFGWTR_EL2.PMSIRR_EL1 31
HDFGWTR_EL2.PMSICR_EL1 29       HDFGWTR_EL2.PMSFCR_EL1 28       HDFGWTR_EL2.PMSEVFR_EL1 27
HDFGWTR_EL2.PMSCR_EL1 26        HDFGWTR_EL2.PMBSR_EL1 25        HDFGWTR_EL2.PMBPTR_EL1 24
HDFGWTR_EL2.PMBLIMITR_EL1 23    HDFGRTR2_EL2.nPMBMAR_EL1 24     HDFGRTR2_EL2.nPMSDSFR_EL1 19
HDFGWTR2_EL2.nPMBMAR_EL1 24     HDFGWTR2_EL2.nPMSDSFR_EL1 19    HDFGRTR_EL2.PMCEIDn_EL0 58
HDFGRTR_EL2.PMUSERENR_EL0 57    HDFGRTR_EL2.PMMIR_EL1 22        HDFGWTR_EL2.PMCR_EL0 21
HDFGWTR_EL2.PMSWINC_EL0 20      HDFGWTR_EL2.PMSELR_EL0 19       HDFGRTR_EL2.PMEVTYPERn_EL0 13
HDFGRTR_EL2.PMEVCNTRn_EL0 12    HDFGWTR2_EL2.nPMZR_EL0 21       HDFGRTR2_EL2.nPMUACR_EL1 4
HDFGRTR2_EL2.nPMICFILTR_EL0 3   HDFGRTR2_EL2.nPMICNTR_EL0 2     HDFGRTR2_EL2.nPMIAR_EL1 1
HDFGRTR2_EL2.nPMECR_EL1 0       ID_AA64DFR0_EL1.PMSVer 35:32    ID_AA64DFR0_EL1.PMUVer 11:8
ID_AA64DFR0_EL1.SEBEP 27:24     ID_AA64DFR1_EL1.DPFZS 55:52     ID_AA64DFR1_EL1.EBEP 51:48
ID_AA64DFR1_EL1.PMICNTR 39:36   ID_AA64DFR2_EL1.SPE_nVM 23:20   ID_AA64DFR2_EL1.SPE_EXC 19:16
ID_AA64PFR0_EL1.CSV3 63:60      ID_AA64PFR0_EL1.RME 55:52       ID_AA64PFR0_EL1.SVE 35:32
ID_AA64MMFR0_EL1.FGT 59:56      ID_AA64MMFR0_EL1.ECV 63:60      ID_AA64MMFR0_EL1.PARange 3:0
ID_AA64MMFR1_EL1.VH 11:8        ID_AA64MMFR2_EL1.NV 27:24       SCTLR_EL1.M 0
SCTLR_EL1.A 1                   SCTLR_EL1.C 2                   SCTLR_EL1.EE 25
SCTLR_EL1.SPAN 23               SCTLR_EL1.WXN 19                SCTLR_EL1.I 12
SCTLR_EL1.EPAN 57               TCR_EL1.T0SZ 5:0                TCR_EL1.EPD0 7
TCR_EL1.IRGN0 9:8               TCR_EL1.ORGN0 11:10             TCR_EL1.SH0 13:12
TCR_EL1.TG0 15:14               TCR_EL1.T1SZ 21:16              TCR_EL1.A1 22
TCR_EL1.EPD1 23                 TCR_EL1.IRGN1 25:24             TCR_EL1.ORGN1 27:26
TCR_EL1.SH1 29:28               TCR_EL1.TG1 31:30               TCR_EL1.IPS 34:32
TCR_EL1.AS 36                   TCR_EL1.TBI0 37                 TCR_EL1.TBI1 38
TCR_EL1.HA 39                   TCR_EL1.HD 40                   TCR_EL1.HPD0 41
TCR_EL1.HPD1 42                 TCR_EL1.E0PD0 55                TCR_EL1.E0PD1 56
TCR_EL1.DS 59                   TCR_EL3.PS 18:16                TCR_EL3.TBI 20
TCR_EL3.HA 21                   TCR_EL3.HD 22                   TCR_EL3.HPD 24
TCR_EL3.DS 32                   VTCR_EL2.T0SZ 5:0               VTCR_EL2.SL0 7:6
VTCR_EL2.SH0 13:12              VTCR_EL2.TG0 15:14              VTCR_EL2.PS 18:16
VTCR_EL2.VS 19                  VTCR_EL2.HA 21                  VTCR_EL2.HD 22
VTCR_EL2.NSW 29                 VTCR_EL2.NSA 30                 VTCR_EL2.DS 32
VTCR_EL2.SL2 33                 SPSR_EL1.PPEND 33               SPSR_EL1.PM 32
SPSR_EL1.PAN 22                 SPSR_EL1.SS 21                  SPSR_EL1.IL 20
SPSR_EL1.M 3:0                  SPSR_EL1.nRW 4                  SPSR_EL1.N 31
SPSR_EL1.BTYPE 11:10            ESR_EL1.EC 31:26                ESR_EL1.IL 25
ESR_EL1.ISS 24:0                ESR_EL1.ISS2 55:32              HPFAR_EL2.FIPA 47:4
HPFAR_EL2.NS 63                 TTBR0_EL1.ASID 63:48            TTBR0_EL1.BADDR 47:1
VTTBR_EL2.VMID 63:48            MAIR_EL1.Attr0 7:0              MAIR_EL1.Attr7 63:56
VBAR_EL1.VBA 63:11              CONTEXTIDR_EL1.PROCID 31:0      CNTHCTL_EL2.ECV 12
CNTKCTL_EL1.EL0VCTEN 1          CPACR_EL1.FPEN 21:20            CPACR_EL1.ZEN 17:16
ID_AA64ZFR0_EL1.F64MM 59:56     ID_AA64ZFR0_EL1.F32MM 55:52     ID_AA64ZFR0_EL1.F16MM 51:48
ID_AA64ZFR0_EL1.I8MM 47:44      ID_AA64ZFR0_EL1.SM4 43:40       ID_AA64ZFR0_EL1.SHA3 35:32
ID_AA64ZFR0_EL1.B16B16 27:24    ID_AA64ZFR0_EL1.BF16 23:20      ID_AA64ZFR0_EL1.BitPerm 19:16
ID_AA64ZFR0_EL1.EltPerm 15:12   ID_AA64ZFR0_EL1.AES 7:4         ID_AA64ZFR0_EL1.SVEver 3:0
"""


@pytest.mark.parametrize(("name", "bits"), pairs(BITS))
def test_fields_stand_where_the_architecture_puts_them(name: str, bits: str) -> None:
    register, field = name.split(".")
    for module in (system_registers, fgt_registers, id_registers):
        if hasattr(module, register):
            assert getattr(module, register).field(field).bits == bits
            return
    pytest.fail(f"no register {register}")


# op0, op1, CRn, CRm, op2 (Arm ARM D24).
ENCODINGS = """
SCTLR_EL1 3,0,1,0,0           CPACR_EL1 3,0,1,0,2           SCTLR_EL2 3,4,1,0,0
HCR_EL2 3,4,1,1,0             MDCR_EL2 3,4,1,1,1            CPTR_EL2 3,4,1,1,2
HFGRTR_EL2 3,4,1,1,4          HFGWTR_EL2 3,4,1,1,5          HFGITR_EL2 3,4,1,1,6
SCTLR_EL3 3,6,1,0,0           SCR_EL3 3,6,1,1,0             CPTR_EL3 3,6,1,1,2
MDCR_EL3 3,6,1,3,1            TTBR0_EL1 3,0,2,0,0           TTBR1_EL1 3,0,2,0,1
TCR_EL1 3,0,2,0,2             TTBR0_EL2 3,4,2,0,0           TTBR1_EL2 3,4,2,0,1
TCR_EL2 3,4,2,0,2             VTTBR_EL2 3,4,2,1,0           VTCR_EL2 3,4,2,1,2
VNCR_EL2 3,4,2,2,0            VSTTBR_EL2 3,4,2,6,0          VSTCR_EL2 3,4,2,6,2
TTBR0_EL3 3,6,2,0,0           TCR_EL3 3,6,2,0,2             HDFGRTR2_EL2 3,4,3,1,0
HDFGWTR2_EL2 3,4,3,1,1        HFGRTR2_EL2 3,4,3,1,2         HFGWTR2_EL2 3,4,3,1,3
PM 3,0,4,3,1                  SSBS 3,3,4,2,6                DIT 3,3,4,2,5
TCO 3,3,4,2,7                 RGSR_EL1 3,0,1,0,5            GCR_EL1 3,0,1,0,6
GMID_EL1 3,1,0,0,4            TFSR_EL1 3,0,5,6,0            TFSRE0_EL1 3,0,5,6,1
TFSR_EL2 3,4,5,6,0            TFSR_EL3 3,6,5,6,0            HCRX_EL2 3,4,1,2,2
HDFGRTR_EL2 3,4,3,1,4         HDFGWTR_EL2 3,4,3,1,5         HFGITR2_EL2 3,4,3,1,7
SPSR_EL1 3,0,4,0,0            ELR_EL1 3,0,4,0,1             SPSR_EL2 3,4,4,0,0
ELR_EL2 3,4,4,0,1             SPSR_EL3 3,6,4,0,0            ELR_EL3 3,6,4,0,1
ESR_EL1 3,0,5,2,0             ESR_EL2 3,4,5,2,0             ESR_EL3 3,6,5,2,0
FAR_EL1 3,0,6,0,0             FAR_EL2 3,4,6,0,0             FAR_EL3 3,6,6,0,0
HPFAR_EL2 3,4,6,0,4           PAR_EL1 3,0,7,4,0             MAIR_EL1 3,0,10,2,0
ISR_EL1 3,0,12,1,0            RNDR 3,3,2,4,0                RNDRRS 3,3,2,4,1
MAIR_EL2 3,4,10,2,0           MAIR_EL3 3,6,10,2,0           VBAR_EL1 3,0,12,0,0
VBAR_EL2 3,4,12,0,0           VBAR_EL3 3,6,12,0,0           CONTEXTIDR_EL1 3,0,13,0,1
CONTEXTIDR_EL2 3,4,13,0,1     CNTKCTL_EL1 3,0,14,1,0        CNTHCTL_EL2 3,4,14,1,0
CNTVOFF_EL2 3,4,14,0,3        CNTPOFF_EL2 3,4,14,0,6        ID_AA64PFR0_EL1 3,0,0,4,0
ID_AA64PFR1_EL1 3,0,0,4,1     ID_AA64PFR2_EL1 3,0,0,4,2     ID_AA64DFR0_EL1 3,0,0,5,0
ID_AA64DFR1_EL1 3,0,0,5,1     ID_AA64DFR2_EL1 3,0,0,5,2     ID_AA64ISAR0_EL1 3,0,0,6,0
ID_AA64ISAR1_EL1 3,0,0,6,1    ID_AA64ISAR2_EL1 3,0,0,6,2    ID_AA64ISAR3_EL1 3,0,0,6,3
ID_AA64MMFR0_EL1 3,0,0,7,0    ID_AA64MMFR1_EL1 3,0,0,7,1    ID_AA64MMFR2_EL1 3,0,0,7,2
ID_AA64MMFR3_EL1 3,0,0,7,3    ID_AA64MMFR4_EL1 3,0,0,7,4    ID_AA64ZFR0_EL1 3,0,0,4,4
"""


def test_encodings_are_those_of_the_architecture() -> None:
    known = {r.__name__: r.encoding for r in SYSTEM_REGISTERS}
    hand = dict(pairs(ENCODINGS))
    shown = {name: f"{e.op0},{e.op1},{e.crn},{e.crm},{e.op2}" for name, e in known.items()}
    assert shown == hand


# The steering fields of SPE exist with the features that they steer.
GATED = [
    (MDCR_EL2, "TPMS", {F.FEAT_SPE}),
    (MDCR_EL2, "E2PB", {F.FEAT_SPE}),
    (MDCR_EL2, "HPMFZS", {F.FEAT_SPEv1p2, F.FEAT_PMUv3p7}),
    (MDCR_EL3, "NSPB", {F.FEAT_SPE}),
    (MDCR_EL3, "NSPBE", {F.FEAT_SPE, F.FEAT_RME}),
    (MDCR_EL3, "EnPMSN", {F.FEAT_SPE_FnE}),
    (MDCR_EL3, "EnPMS3", {F.FEAT_SPE_FDS}),
    (MDCR_EL3, "EnPMS4", {F.FEAT_SPE_nVM}),
    (MDCR_EL3, "PMSEE", {F.FEAT_SPE_EXC}),
    (HCR_EL2, "E2H", {F.FEAT_VHE}),
    (HCR_EL2, "NV", {F.FEAT_NV}),
    (HCR_EL2, "NV1", {F.FEAT_NV}),
    (HCR_EL2, "NV2", {F.FEAT_NV2}),
    (HCR_EL2, "GPF", {F.FEAT_RME}),
    (SCR_EL3, "NSE", {F.FEAT_RME}),
    (SCR_EL3, "FGTEn", {F.FEAT_FGT}),
    (SCR_EL3, "FGTEn2", {F.FEAT_FGT2}),
    (SCR_EL3, "ECVEn", {F.FEAT_ECV}),
    (SCR_EL3, "EEL2", {F.FEAT_SEL2}),
]


@pytest.mark.parametrize(("register", "field", "features"), GATED)
def test_steering_fields_exist_with_what_they_steer(
    register: type[SysReg], field: str, features: set[Feature]
) -> None:
    declared = register.field(field)
    assert declared.exists(frozenset(features))
    for feature in features:
        assert not declared.exists(frozenset(Feature) - {feature})


def test_tcr_el2_has_another_layout_without_a_host_at_el2() -> None:
    value = 0x18_8081_3519
    tcr = TCR_EL2_nVHE(value)
    assert (tcr.T0SZ, tcr.TG0, tcr.SH0, tcr.ORGN0, tcr.IRGN0) == (0x19, 0, 3, 1, 1)
    assert (tcr.PS, tcr.TBI, tcr.HPD) == (1, 0, 0)
    assert (TCR_EL2(value).IPS, TCR_EL2(value).AS) == (0, 1)
