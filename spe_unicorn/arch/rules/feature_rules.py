"""Which sets of features, and which choices beside them, the architecture allows.

Each rule is a sentence; :func:`broken_rules` collects the sentences of those that a core breaks
(Arm ARM A2.2, A2.3; ranges from D24.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spe_unicorn.arch.features import (
    SYNCHRONOUS_EVENTS,
    Condition,
    Feature,
    Features,
    ImpDef,
    every,
    some,
)
from spe_unicorn.arch.rules.choices import ROWS, ForEvents, Sets


class Dependency(NamedTuple):
    """Where ``when`` holds, ``needs`` must, or ``text`` is the sentence to say."""

    when: Condition
    needs: Condition
    text: str


def _needs(feature: Feature, *others: Feature) -> Dependency:
    names = " and ".join(other.value for other in others)
    return Dependency(feature, every(*others), f"{feature.value} needs {names}")


_HAS_EL2 = Feature.FEAT_EL2
_SPE_FEATURES = tuple(
    f for f in Feature if f.value.startswith("FEAT_SPE_") and f is not Feature.FEAT_SPE_FnE
)

DEPENDENCIES: tuple[Dependency, ...] = (
    _needs(Feature.FEAT_SPEv1p1, Feature.FEAT_SPE),
    _needs(Feature.FEAT_SPEv1p2, Feature.FEAT_SPEv1p1),
    _needs(Feature.FEAT_SPEv1p3, Feature.FEAT_SPEv1p2),
    _needs(Feature.FEAT_SPEv1p4, Feature.FEAT_SPEv1p3),
    _needs(Feature.FEAT_SPEv1p5, Feature.FEAT_SPEv1p4),
    *(_needs(feature, Feature.FEAT_SPE) for feature in _SPE_FEATURES),
    _needs(Feature.FEAT_SPEv1p2, Feature.FEAT_SPE_FnE),
    _needs(Feature.FEAT_SPE_FnE, Feature.FEAT_SPEv1p2),
    _needs(Feature.FEAT_SPE_PBT, Feature.FEAT_SPEv1p2),
    _needs(Feature.FEAT_SPE_CRR, Feature.FEAT_SPEv1p4),
    _needs(
        Feature.FEAT_SPEv1p5,
        Feature.FEAT_SPE_CRR,
        Feature.FEAT_SPE_EXC,
        Feature.FEAT_SPE_nVM,
    ),
    _needs(Feature.FEAT_SPE_EFT, Feature.FEAT_SPE_FPF),
    _needs(Feature.FEAT_SPE_FPF, Feature.FEAT_SPE_EFT),
    _needs(Feature.FEAT_SPE_EXC, Feature.FEAT_SPEv1p5),
    Dependency(
        Feature.FEAT_SPE_EXC,
        Feature.FEAT_EBEP,
        "FEAT_SPE_EXC needs FEAT_EBEP, by which software clears PSTATE.PM",
    ),
    Dependency(
        every(Feature.FEAT_GCS, Feature.FEAT_SPE),
        Feature.FEAT_SPE_CRR,
        "FEAT_SPE with FEAT_GCS needs FEAT_SPE_CRR",
    ),
    _needs(Feature.FEAT_SPE_FDS, Feature.FEAT_SPE_LDS, Feature.FEAT_SPEv1p4),
    Dependency(
        every(some(Feature.FEAT_SPE_FDS, Feature.FEAT_SPE_nVM), _HAS_EL2),
        Feature.FEAT_FGT2,
        "FEAT_SPE_FDS and FEAT_SPE_nVM need FEAT_FGT2 where there is EL2",
    ),
    _needs(Feature.FEAT_SPE_SME, Feature.FEAT_SPEv1p1, Feature.FEAT_SME),
    Dependency(
        every(Feature.FEAT_RME, Feature.FEAT_SPE),
        Feature.FEAT_SPEv1p2,
        "FEAT_SPE with FEAT_RME needs FEAT_SPEv1p2",
    ),
    _needs(Feature.FEAT_SPE_DPFZS, Feature.FEAT_PMUv3p7, Feature.FEAT_SPEv1p2),
    Dependency(
        every(Feature.FEAT_PMUv3p9, Feature.FEAT_SPEv1p4),
        Feature.FEAT_SPE_DPFZS,
        "FEAT_SPEv1p4 with FEAT_PMUv3p9 needs FEAT_SPE_DPFZS",
    ),
    Dependency(
        every(Feature.FEAT_SPE, Feature.FEAT_PMUv3),
        Feature.FEAT_PMUv3p1,
        "FEAT_SPE with FEAT_PMUv3 needs FEAT_PMUv3p1",
    ),
    _needs(Feature.FEAT_PMUv3p1, Feature.FEAT_PMUv3),
    _needs(Feature.FEAT_PMUv3p4, Feature.FEAT_PMUv3p1),
    _needs(Feature.FEAT_PMUv3p5, Feature.FEAT_PMUv3p4),
    _needs(Feature.FEAT_PMUv3p7, Feature.FEAT_PMUv3p5),
    _needs(Feature.FEAT_PMUv3p8, Feature.FEAT_PMUv3p7),
    _needs(Feature.FEAT_PMUv3p9, Feature.FEAT_PMUv3p8),
    _needs(Feature.FEAT_PMUv3_ICNTR, Feature.FEAT_PMUv3),
    _needs(Feature.FEAT_PMUv3_TH, Feature.FEAT_PMUv3p4),  # whose PMMIR_EL1 shows it
    _needs(Feature.FEAT_EBEP, Feature.FEAT_PMUv3),
    _needs(Feature.FEAT_SEBEP, Feature.FEAT_EBEP),
    _needs(Feature.FEAT_FGT, Feature.FEAT_EL2),
    _needs(Feature.FEAT_FGT2, Feature.FEAT_FGT),
    _needs(Feature.FEAT_VHE, Feature.FEAT_EL2),
    _needs(Feature.FEAT_Debugv8p4, Feature.FEAT_Debugv8p2),
    _needs(Feature.FEAT_Debugv8p8, Feature.FEAT_Debugv8p4),
    _needs(Feature.FEAT_NV, Feature.FEAT_EL2),
    _needs(Feature.FEAT_NV2, Feature.FEAT_NV),
    _needs(Feature.FEAT_SEL2, Feature.FEAT_EL2),
    _needs(Feature.FEAT_RME, Feature.FEAT_EL2, Feature.FEAT_EL3),
    _needs(Feature.FEAT_LSE128, Feature.FEAT_LSE2),
    _needs(Feature.FEAT_HCX, Feature.FEAT_EL2),
    Dependency(
        every(Feature.FEAT_MOPS, _HAS_EL2),
        Feature.FEAT_HCX,
        "FEAT_MOPS needs FEAT_HCX where there is EL2",
    ),
    _needs(Feature.FEAT_ECV_POFF, Feature.FEAT_ECV, Feature.FEAT_EL2),
    _needs(Feature.FEAT_MTE2, Feature.FEAT_MTE),
    _needs(Feature.FEAT_MTE3, Feature.FEAT_MTE2),
    _needs(Feature.FEAT_SSBS2, Feature.FEAT_SSBS),
    _needs(Feature.FEAT_TLBIRANGE, Feature.FEAT_TLBIOS),
    _needs(Feature.FEAT_SVE2, Feature.FEAT_SVE),
    _needs(Feature.FEAT_SVE_BitPerm, Feature.FEAT_SVE2),
    _needs(Feature.FEAT_SVE_SHA3, Feature.FEAT_SVE2),
    _needs(Feature.FEAT_SVE_AES, Feature.FEAT_SVE2),
    _needs(Feature.FEAT_SVE_SM4, Feature.FEAT_SVE2),
    _needs(Feature.FEAT_F32MM, Feature.FEAT_SVE),
    _needs(Feature.FEAT_F64MM, Feature.FEAT_SVE),
    _needs(Feature.FEAT_SVE2p1, Feature.FEAT_SVE2),
    _needs(Feature.FEAT_CMPBR, Feature.FEAT_CSSC),  # a higher value of the same field
    _needs(Feature.FEAT_LRCPC3, Feature.FEAT_LSE2),  # as all cores from Armv8.4 on
)

_SPE = Feature.FEAT_SPE

BY_VERSION: tuple[tuple[int, Dependency], ...] = (
    (5, _needs(_SPE, Feature.FEAT_SPEv1p1)),
    (7, _needs(_SPE, Feature.FEAT_SPEv1p2)),
    (8, _needs(_SPE, Feature.FEAT_SPEv1p3)),
    (9, _needs(_SPE, Feature.FEAT_SPEv1p4, Feature.FEAT_SPE_CRR)),
    (
        9,
        Dependency(Feature.FEAT_SPE_LDS, Feature.FEAT_SPE_FDS, "FEAT_SPE_LDS needs FEAT_SPE_FDS"),
    ),
    (10, _needs(_SPE, Feature.FEAT_SPE_EFT, Feature.FEAT_SPE_FPF)),
    (
        10,
        Dependency(
            every(Feature.FEAT_SPEv1p1, Feature.FEAT_SME),
            Feature.FEAT_SPE_SME,
            "FEAT_SPEv1p1 with FEAT_SME needs FEAT_SPE_SME",
        ),
    ),
    (11, _needs(_SPE, Feature.FEAT_SPEv1p5)),
)
"""What holds from a minor version of Armv8 on; Armv9.0 counts as Armv8.5, and so on."""


def minor_version(architecture: str) -> int:
    """The minor version of Armv8 that ``8.2`` or ``9.0`` is or builds on.

    Raises ValueError for anything else.
    """
    major, dot, minor = architecture.partition(".")
    if dot and major in ("8", "9") and minor.isdecimal():
        version = int(minor) + (5 if major == "9" else 0)
        if version <= 11:
            return version
    raise ValueError(f"architecture {architecture!r}: allowed are 8.0 to 8.9 and 9.0 to 9.6")


def broken_rules(features: Features, architecture: str | None = None) -> list[str]:
    """The sentences of the rules that a set of features breaks; none for a legal set.

    ``architecture``, such as ``9.2``, adds what that version makes mandatory. Raises ValueError
    where there is no such version.
    """
    broken = [d.text for d in DEPENDENCIES if d.when(features) and not d.needs(features)]
    if architecture is not None:
        version = minor_version(architecture)
        broken += [
            f"{d.text}, from Armv8.{since} on"
            if since < 10
            else f"{d.text}, from Armv9.{since - 5} on"
            for since, d in BY_VERSION
            if version >= since and d.when(features) and not d.needs(features)
        ]
    return broken


def wrong_choices(impdef: ImpDef, features: Features) -> list[str]:
    """Sentences about IMPLEMENTATION DEFINED choices that are out of range or do not fit.

    Each begins with the name of the choice.
    """
    return [*_out_of_range(impdef), *_unfit(impdef, features)]


_PER_EVENT = ("pmu_shadow", "pmu_threshold")


def _out_of_range(impdef: ImpDef) -> Iterator[str]:
    for row in ROWS:
        value = getattr(impdef, row.name)
        if row.values.allows(value):
            continue
        if isinstance(row.values, ForEvents):
            yield from _wrong_events(row.name, value, row.values)
        elif isinstance(row.values, Sets):
            yield from _wrong_numbers(row.name, value, row.values)
        else:
            yield f"{row.name} = {value}: allowed are {row.values.text}"


def _wrong_events(
    choice: str, value: tuple[tuple[str, int], ...], values: ForEvents
) -> Iterator[str]:
    for name, number in value:
        if name not in SYNCHRONOUS_EVENTS:
            yield f"{choice}: {name} is unknown; allowed are {', '.join(SYNCHRONOUS_EVENTS)}"
        elif not 0 <= number <= values.most:
            yield f"{choice}.{name} = {number}: allowed are {values.text}"


def _wrong_numbers(choice: str, value: frozenset[int], values: Sets) -> Iterator[str]:
    for number in sorted(value):
        if not values.allows((number,)):
            yield f"{choice}: {number} {values.otherwise}; allowed are {values.text}"


def _unfit(impdef: ImpDef, features: Features) -> Iterator[str]:
    if impdef.align > impdef.max_size:
        yield f"align = {impdef.align}: allowed are 0 to max_size, {impdef.max_size}"
    if impdef.record_slots and impdef.align != 6:
        yield "record_slots = true: allowed is false unless align = 6"
    if impdef.record_slots and Feature.FEAT_SPE_PBT in features:
        yield "record_slots = true: allowed is false with FEAT_SPE_PBT"
    if Feature.FEAT_SPEv1p3 in features:
        if impdef.external_abort == 0:
            yield "external_abort = 0: allowed are 1, 2 with FEAT_SPEv1p3"
        if not impdef.flag_update:
            yield "flag_update = false: allowed is true with FEAT_SPEv1p3"
    if impdef.secure_only and Feature.FEAT_EL3 in features:
        yield "secure_only = true: allowed is false where there is EL3"
    for choice in _PER_EVENT:
        if getattr(impdef, choice) and Feature.FEAT_SEBEP not in features:
            yield f"{choice}: allowed with FEAT_SEBEP alone"
    if not impdef.secure_state and Feature.FEAT_RME not in features:
        yield "secure_state = false: allowed is true without FEAT_RME"
