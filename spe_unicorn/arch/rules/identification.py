"""What identification registers read as: those of SPE, and the ID registers of the PE around it.

An ID register's value is the engine's own, but for the fields in :data:`FIELDS`: what a core's
profile decides. What the engine does not execute it does not claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.pe import EL3, PE
from spe_unicorn.arch.registers.debug import BREAKPOINTS, CONTEXTS, WATCHPOINTS
from spe_unicorn.arch.registers.id import (
    ID_AA64DFR0_EL1,
    ID_AA64DFR1_EL1,
    ID_AA64DFR2_EL1,
    ID_AA64ISAR0_EL1,
    ID_AA64ISAR1_EL1,
    ID_AA64ISAR2_EL1,
    ID_AA64MMFR0_EL1,
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
    ID_AA64ZFR0_EL1,
)
from spe_unicorn.arch.registers.spe import PMBIDR_EL1, PMSIDR_EL1
from spe_unicorn.arch.registers.sysreg import ReadOnlyCell, SysReg
from spe_unicorn.arch.rules.effective import (
    effective_pmscr_el2_envm,
    profiling_buffer_owner,
    security_state_at,
)
from spe_unicorn.bits import ReadOnly


def pmsidr_el1(features: Features, impdef: ImpDef) -> PMSIDR_EL1:
    """PMSIDR_EL1 of a core."""
    return PMSIDR_EL1.of(
        SME=Feature.FEAT_SPE_SME in features,
        ALTCLK=impdef.altclk if Feature.FEAT_SPE_ALTCLK in features else 0,
        FPF=Feature.FEAT_SPE_FPF in features,
        EFT=Feature.FEAT_SPE_EFT in features,
        CRR=Feature.FEAT_SPE_CRR in features,
        PBT=Feature.FEAT_SPE_PBT in features,
        Format=0,
        CountSize=impdef.count_size,
        MaxSize=impdef.max_size,
        Interval=impdef.interval,
        FDS=Feature.FEAT_SPE_FDS in features,
        FnE=Feature.FEAT_SPE_FnE in features,
        ERnd=Feature.FEAT_SPE_ERnd in features,
        LDS=Feature.FEAT_SPE_LDS in features,
        ArchInst=Feature.FEAT_SPE_ArchInst in features,
        FL=1,
        FT=1,
        FE=1,
    )


def programming_not_allowed(pe: PE) -> bool:
    """PMBIDR_EL1.P at the current Exception level."""
    owner = profiling_buffer_owner(pe)
    if pe.el == EL3 or owner is None:
        return False
    return owner.el > pe.el or owner.state is not security_state_at(pe, pe.el)


def pmbidr_el1(pe: PE) -> PMBIDR_EL1:
    """PMBIDR_EL1 as a PE reads it now."""
    p = programming_not_allowed(pe)
    return PMBIDR_EL1.of(
        MaxBuffSize=pe.impdef.max_buffer,
        EA=pe.impdef.external_abort,
        AddrMode=effective_pmscr_el2_envm(pe) and not p,
        F=pe.impdef.flag_update,
        P=p,
        Align=pe.impdef.align,
    )


def identify(pe: PE) -> None:
    """Let PMSIDR_EL1 and PMBIDR_EL1 in the PE's register file read as they must."""
    pmsidr = pmsidr_el1(pe.features, pe.impdef).value
    pe.registers.add(PMSIDR_EL1, ReadOnlyCell(lambda: pmsidr))
    pe.registers.add(PMBIDR_EL1, ReadOnlyCell(lambda: pmbidr_el1(pe).value))


FieldValue: TypeAlias = Callable[[int, Features, ImpDef], int]
"""What an ID field reads as, of the engine's own value, the features and the choices."""


_NOT_DECIDED: Final = -1
"""The profile does not decide this field."""


def _shows(feature: Feature, value: int = 1) -> FieldValue:
    return lambda engine, features, impdef: value if feature in features else 0


def _raises(feature: Feature, value: int) -> FieldValue:
    """A value that the engine has not, on cores that have the feature."""
    return lambda engine, features, impdef: value if feature in features else _NOT_DECIDED


def _shows_all(*features: Feature) -> FieldValue:
    """1 on cores that have all of them."""
    wanted = frozenset(features)
    return lambda engine, has, impdef: int(wanted <= has)


def _engine_with(feature: Feature) -> FieldValue:
    """The engine's value, for what it executes, on cores that have it."""
    return lambda engine, features, impdef: engine if feature in features else 0


def _always(engine: int, features: Features, impdef: ImpDef) -> int:
    return 1


_aarch64_only = _always
"""1 for an Exception level is AArch64 state alone; the engine has AArch32 as well."""


def _version(*steps: tuple[Feature, int]) -> FieldValue:
    """The number of the newest version that a core has; ``steps`` go from old to new."""

    def value(engine: int, features: Features, impdef: ImpDef) -> int:
        return next((number for f, number in reversed(steps) if f in features), 0)

    return value


_PMSVER = _version(
    (Feature.FEAT_SPE, 1),
    (Feature.FEAT_SPEv1p1, 2),
    (Feature.FEAT_SPEv1p2, 3),
    (Feature.FEAT_SPEv1p3, 4),
    (Feature.FEAT_SPEv1p4, 5),
    (Feature.FEAT_SPEv1p5, 6),
)
_DEBUGVER = _version(
    (Feature.FEAT_VHE, 7),
    (Feature.FEAT_Debugv8p2, 8),
    (Feature.FEAT_Debugv8p4, 9),
    (Feature.FEAT_Debugv8p8, 10),
)


def _debugver(engine: int, features: Features, impdef: ImpDef) -> int:
    """Armv8.0's debug is there without any of those features."""
    return _DEBUGVER(engine, features, impdef) or 6


def _double_lock(engine: int, features: Features, impdef: ImpDef) -> int:
    return 0 if Feature.FEAT_DoubleLock in features else 0b1111


_PMUVER = _version(
    (Feature.FEAT_PMUv3, 1),
    (Feature.FEAT_PMUv3p1, 4),
    (Feature.FEAT_PMUv3p4, 5),
    (Feature.FEAT_PMUv3p5, 6),
    (Feature.FEAT_PMUv3p7, 7),
    (Feature.FEAT_PMUv3p8, 8),
    (Feature.FEAT_PMUv3p9, 9),
)
_PA_RANGES = {32: 0, 36: 1, 40: 2, 42: 3, 44: 4}


def _parange(engine: int, features: Features, impdef: ImpDef) -> int:
    return _PA_RANGES[impdef.pa_bits]


FIELDS: Mapping[type[SysReg], Mapping[str, FieldValue]] = {
    ID_AA64PFR0_EL1: {
        "CSV3": _shows(Feature.FEAT_CSV3),
        "DIT": _shows(Feature.FEAT_DIT),
        "SVE": _engine_with(Feature.FEAT_SVE),
        "EL3": _shows(Feature.FEAT_EL3),
        "EL2": _shows(Feature.FEAT_EL2),
        "EL1": _aarch64_only,
        "EL0": _aarch64_only,
    },
    ID_AA64PFR1_EL1: {
        "MTE": _version((Feature.FEAT_MTE, 1), (Feature.FEAT_MTE2, 2), (Feature.FEAT_MTE3, 3)),
        "SSBS": _version((Feature.FEAT_SSBS, 1), (Feature.FEAT_SSBS2, 2)),
    },
    ID_AA64DFR0_EL1: {
        "PMSVer": _PMSVER,
        "SEBEP": _shows(Feature.FEAT_SEBEP),
        "PMUVer": _PMUVER,
        "DebugVer": _debugver,
        "BRPs": lambda engine, features, impdef: BREAKPOINTS - 1,
        "WRPs": lambda engine, features, impdef: WATCHPOINTS - 1,
        "CTX_CMPs": lambda engine, features, impdef: CONTEXTS - 1,
        "DoubleLock": _double_lock,
    },
    ID_AA64DFR1_EL1: {
        "DPFZS": _shows(Feature.FEAT_SPE_DPFZS),
        "EBEP": _shows(Feature.FEAT_EBEP),
        "PMICNTR": _shows(Feature.FEAT_PMUv3_ICNTR),
    },
    ID_AA64DFR2_EL1: {
        "SPE_nVM": _shows(Feature.FEAT_SPE_nVM),
        "SPE_EXC": _shows(Feature.FEAT_SPE_EXC),
    },
    ID_AA64ISAR0_EL1: {
        "TLB": _version((Feature.FEAT_TLBIOS, 1), (Feature.FEAT_TLBIRANGE, 2)),
        "Atomic": _raises(Feature.FEAT_LSE128, 3),
    },
    ID_AA64ISAR1_EL1: {
        "XS": _shows(Feature.FEAT_XS),
        "I8MM": _shows(Feature.FEAT_I8MM),
        "LS64": _shows(Feature.FEAT_LS64),
        "LRCPC": _raises(Feature.FEAT_LRCPC3, 3),
        "SPECRES": _raises(Feature.FEAT_SPECRES2, 2),
        "DGH": _shows(Feature.FEAT_DGH),  # a hint, which does nothing
        "BF16": _shows(Feature.FEAT_BF16),
    },
    ID_AA64ISAR2_EL1: {
        "LUT": _shows(Feature.FEAT_LUT),
        "CSSC": _version((Feature.FEAT_CSSC, 1), (Feature.FEAT_CMPBR, 2)),
        "CLRBHB": _shows(Feature.FEAT_CLRBHB),  # a hint, which does nothing
        "BC": _shows(Feature.FEAT_HBC),
        "WFxT": _shows(Feature.FEAT_WFxT, 2),
        "MOPS": _shows(Feature.FEAT_MOPS),
    },
    ID_AA64ZFR0_EL1: {
        "SVEver": _version((Feature.FEAT_SVE2, 1), (Feature.FEAT_SVE2p1, 2)),
        "BitPerm": _shows(Feature.FEAT_SVE_BitPerm),
        "F64MM": _shows(Feature.FEAT_F64MM),
        "F32MM": _shows(Feature.FEAT_F32MM),
        "SM4": _shows(Feature.FEAT_SVE_SM4),
        "SHA3": _shows(Feature.FEAT_SVE_SHA3),
        "AES": _shows(Feature.FEAT_SVE_AES, 2),  # with PMULLB and PMULLT of 64 bits
        "I8MM": _shows_all(Feature.FEAT_SVE, Feature.FEAT_I8MM),
        "BF16": _shows_all(Feature.FEAT_SVE, Feature.FEAT_BF16),
    },
    ID_AA64MMFR0_EL1: {
        "ECV": _version((Feature.FEAT_ECV, 1), (Feature.FEAT_ECV_POFF, 2)),
        "FGT": _version((Feature.FEAT_FGT, 1), (Feature.FEAT_FGT2, 2)),
        "TGran16": _always,  # the engine walks 16 KB granules without telling
        "PARange": _parange,
    },
    ID_AA64MMFR1_EL1: {"VH": _engine_with(Feature.FEAT_VHE), "HCX": _shows(Feature.FEAT_HCX)},
    ID_AA64MMFR2_EL1: {"CCIDX": _shows(Feature.FEAT_CCIDX), "AT": _shows(Feature.FEAT_LSE2)},
}
"""The fields that a core's profile decides, with how.

What is not here is the engine's. So a feature that the engine lacks, and that the host does not
bring (``spe_unicorn.instructions``), stays hidden whatever the profile says: SEL2, RME, SME,
GCS; and NV, which only the accesses to SPE registers obey.
"""


def _decided(
    register: type[SysReg], engine_value: int, features: Features, impdef: ImpDef
) -> Iterator[tuple[str, int]]:
    engine = register(engine_value)
    for name, value in FIELDS.get(register, {}).items():
        field = register.field(name)
        shown = value(engine.value >> field.lsb & field.max, features, impdef)
        if shown != _NOT_DECIDED:
            yield name, shown


def id_register(
    register: type[SysReg], engine_value: int, features: Features, impdef: ImpDef
) -> int:
    """What an ID register reads as, of the engine's own value (0 where it has none).

    A field that the profile does not decide is the engine's, or what the core's manual says where
    that is less: the core has less than could be executed here.
    """
    shown = dict(_decided(register, engine_value, features, impdef))
    manual = dict(impdef.identity).get(register.__name__)
    if manual is not None:
        theirs = {field.name: value for field, value in register(engine_value).items()}
        for field, value in register(manual).items():
            if field.name not in shown and isinstance(field, ReadOnly):
                shown[field.name] = min(value, theirs[field.name])
    return register(engine_value).replace(**shown).value
