from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature, Features, ImpDef, every, lacks, some
from spe_unicorn.arch.rules.feature_rules import broken_rules, minor_version, wrong_choices

F = Feature
V1P0 = frozenset({F.FEAT_SPE, F.FEAT_EL2, F.FEAT_EL3})
V1P2 = V1P0 | {F.FEAT_SPEv1p1, F.FEAT_SPEv1p2, F.FEAT_SPE_FnE}
V1P4 = V1P2 | {F.FEAT_SPEv1p3, F.FEAT_SPEv1p4}
PMU = frozenset({F.FEAT_PMUv3, F.FEAT_PMUv3p1, F.FEAT_PMUv3p4, F.FEAT_PMUv3p5, F.FEAT_PMUv3p7})
V1P5 = (
    V1P4
    | PMU
    | {F.FEAT_SPEv1p5, F.FEAT_SPE_CRR, F.FEAT_SPE_EXC, F.FEAT_SPE_nVM, F.FEAT_EBEP}
    | {F.FEAT_FGT, F.FEAT_FGT2}
)


def test_conditions_combine() -> None:
    has, other = frozenset({F.FEAT_SPE}), frozenset({F.FEAT_SVE})
    assert F.FEAT_SPE(has)
    assert not F.FEAT_SPE(other)
    assert every(F.FEAT_SPE, F.FEAT_SVE)(has | other)
    assert not every(F.FEAT_SPE, F.FEAT_SVE)(has)
    assert some(F.FEAT_SPE, F.FEAT_SVE)(has)
    assert not some(F.FEAT_SPE, F.FEAT_SVE)(frozenset())
    assert lacks(F.FEAT_SPE)(other)


@pytest.mark.parametrize("features", [frozenset(), V1P0, V1P2, V1P4, V1P5])
def test_whole_sets_break_no_rule(features: Features) -> None:
    assert broken_rules(features) == []


# A set, and the one sentence that it breaks.
BROKEN = [
    ({F.FEAT_SPEv1p1}, "FEAT_SPEv1p1 needs FEAT_SPE"),
    (V1P2 - {F.FEAT_SPEv1p1}, "FEAT_SPEv1p2 needs FEAT_SPEv1p1"),
    (V1P4 - {F.FEAT_SPEv1p3}, "FEAT_SPEv1p4 needs FEAT_SPEv1p3"),
    (V1P2 - {F.FEAT_SPE_FnE}, "FEAT_SPEv1p2 needs FEAT_SPE_FnE"),
    (V1P0 | {F.FEAT_SPE_FnE}, "FEAT_SPE_FnE needs FEAT_SPEv1p2"),
    ({F.FEAT_SPE_LDS}, "FEAT_SPE_LDS needs FEAT_SPE"),
    (V1P0 | {F.FEAT_SPE_PBT}, "FEAT_SPE_PBT needs FEAT_SPEv1p2"),
    (V1P2 | {F.FEAT_SPE_CRR}, "FEAT_SPE_CRR needs FEAT_SPEv1p4"),
    (V1P5 - {F.FEAT_SPE_CRR}, "FEAT_SPEv1p5 needs FEAT_SPE_CRR and FEAT_SPE_EXC and FEAT_SPE_nVM"),
    (V1P5 - {F.FEAT_SPE_nVM}, "FEAT_SPEv1p5 needs FEAT_SPE_CRR and FEAT_SPE_EXC and FEAT_SPE_nVM"),
    (V1P0 | {F.FEAT_SPE_EFT}, "FEAT_SPE_EFT needs FEAT_SPE_FPF"),
    (V1P0 | {F.FEAT_SPE_FPF}, "FEAT_SPE_FPF needs FEAT_SPE_EFT"),
    (V1P4 | PMU | {F.FEAT_EBEP, F.FEAT_SPE_EXC}, "FEAT_SPE_EXC needs FEAT_SPEv1p5"),
    (
        V1P5 - {F.FEAT_EBEP},
        "FEAT_SPE_EXC needs FEAT_EBEP, by which software clears PSTATE.PM",
    ),
    (V1P4 | {F.FEAT_GCS}, "FEAT_SPE with FEAT_GCS needs FEAT_SPE_CRR"),
    (
        V1P4 | {F.FEAT_SPE_FDS, F.FEAT_FGT, F.FEAT_FGT2},
        "FEAT_SPE_FDS needs FEAT_SPE_LDS and FEAT_SPEv1p4",
    ),
    (
        V1P4 | {F.FEAT_SPE_FDS, F.FEAT_SPE_LDS},
        "FEAT_SPE_FDS and FEAT_SPE_nVM need FEAT_FGT2 where there is EL2",
    ),
    (V1P2 | {F.FEAT_SPE_SME}, "FEAT_SPE_SME needs FEAT_SPEv1p1 and FEAT_SME"),
    (V1P0 | {F.FEAT_RME}, "FEAT_SPE with FEAT_RME needs FEAT_SPEv1p2"),
    (V1P2 | {F.FEAT_SPE_DPFZS}, "FEAT_SPE_DPFZS needs FEAT_PMUv3p7 and FEAT_SPEv1p2"),
    (
        V1P4 | PMU | {F.FEAT_PMUv3p8, F.FEAT_PMUv3p9},
        "FEAT_SPEv1p4 with FEAT_PMUv3p9 needs FEAT_SPE_DPFZS",
    ),
    (V1P0 | {F.FEAT_PMUv3}, "FEAT_SPE with FEAT_PMUv3 needs FEAT_PMUv3p1"),
    (PMU - {F.FEAT_PMUv3p5}, "FEAT_PMUv3p7 needs FEAT_PMUv3p5"),
    ({F.FEAT_SEBEP}, "FEAT_SEBEP needs FEAT_EBEP"),
    ({F.FEAT_FGT}, "FEAT_FGT needs EL2"),
    ({F.FEAT_EL2, F.FEAT_FGT2}, "FEAT_FGT2 needs FEAT_FGT"),
    ({F.FEAT_EL2, F.FEAT_NV2}, "FEAT_NV2 needs FEAT_NV"),
    ({F.FEAT_RME, F.FEAT_EL3}, "FEAT_RME needs EL2 and EL3"),
]


@pytest.mark.parametrize(
    ("features", "sentence"), BROKEN, ids=lambda v: v if type(v) is str else ""
)
def test_a_broken_rule_is_a_sentence(features: set[Feature], sentence: str) -> None:
    assert broken_rules(frozenset(features)) == [sentence]


def test_all_broken_rules_are_told_at_once() -> None:
    assert broken_rules(frozenset({F.FEAT_SPEv1p2, F.FEAT_NV2})) == [
        "FEAT_SPEv1p2 needs FEAT_SPEv1p1",
        "FEAT_SPEv1p2 needs FEAT_SPE_FnE",
        "FEAT_NV2 needs FEAT_NV",
    ]


@pytest.mark.parametrize(
    ("architecture", "features", "sentences"),
    [
        ("8.2", V1P0, []),
        ("8.5", V1P0, ["FEAT_SPE needs FEAT_SPEv1p1, from Armv8.5 on"]),
        ("9.0", V1P0, ["FEAT_SPE needs FEAT_SPEv1p1, from Armv8.5 on"]),
        ("9.2", V1P2, []),
        ("8.8", V1P2, ["FEAT_SPE needs FEAT_SPEv1p3, from Armv8.8 on"]),
        (
            "8.9",
            V1P4 | {F.FEAT_SPE_LDS},
            [
                "FEAT_SPE needs FEAT_SPEv1p4 and FEAT_SPE_CRR, from Armv8.9 on",
                "FEAT_SPE_LDS needs FEAT_SPE_FDS, from Armv8.9 on",
            ],
        ),
        (
            "9.5",
            V1P5 | {F.FEAT_SME},
            [
                "FEAT_SPE needs FEAT_SPE_EFT and FEAT_SPE_FPF, from Armv9.5 on",
                "FEAT_SPEv1p1 with FEAT_SME needs FEAT_SPE_SME, from Armv9.5 on",
            ],
        ),
        (
            "9.6",
            V1P4 | {F.FEAT_SPE_CRR, F.FEAT_SPE_EFT, F.FEAT_SPE_FPF},
            ["FEAT_SPE needs FEAT_SPEv1p5, from Armv9.6 on"],
        ),
        ("9.6", frozenset(), []),
    ],
)
def test_versions_of_the_architecture_make_features_mandatory(
    architecture: str, features: Features, sentences: list[str]
) -> None:
    assert broken_rules(features, architecture) == sentences


def test_versions_count_on_through_armv9() -> None:
    assert [minor_version(v) for v in ("8.0", "8.9", "9.0", "9.6")] == [0, 9, 5, 11]


@pytest.mark.parametrize("version", ["7.0", "9", "9.7", "8.12", "9.x", "v8.2", ""])
def test_an_unknown_version_says_which_there_are(version: str) -> None:
    with pytest.raises(ValueError, match=r"allowed are 8\.0 to 8\.9 and 9\.0 to 9\.6"):
        minor_version(version)


OPTIONAL = "2, 4, 8 to 10, 12 to 15, 19 to 31, 48 to 63"


@pytest.mark.parametrize(
    ("impdef", "features", "sentences"),
    [
        (ImpDef(), V1P5, []),
        (
            ImpDef(align=12, max_size=11),
            V1P0,
            ["align = 12: allowed are 0 to 11", "align = 12: allowed are 0 to max_size, 11"],
        ),
        (ImpDef(align=7, max_size=6), V1P0, ["align = 7: allowed are 0 to max_size, 6"]),
        (ImpDef(align=0, max_size=5), V1P0, ["max_size = 5: allowed are 6 to 11"]),
        (ImpDef(count_size=4), V1P0, ["count_size = 4: allowed are 2, 3"]),
        (ImpDef(interval=1), V1P0, ["interval = 1: allowed are 0, 2 to 8"]),
        (ImpDef(altclk=2), V1P0, ["altclk = 2: allowed are 1, 15"]),
        (
            ImpDef(max_sampled_operations=0),
            V1P0,
            ["max_sampled_operations = 0: allowed are 1 to 64"],
        ),
        (ImpDef(pa_bits=33), V1P0, ["pa_bits = 33: allowed are 32, 36, 40, 42, 44"]),
        (ImpDef(granule=13), V1P0, ["granule = 13: allowed are 12, 14, 16"]),
        (ImpDef(external_abort=3), V1P0, ["external_abort = 3: allowed are 0, 1, 2"]),
        (ImpDef(external_abort=0), V1P2, []),
        (
            ImpDef(external_abort=0),
            V1P4,
            ["external_abort = 0: allowed are 1, 2 with FEAT_SPEv1p3"],
        ),
        (
            ImpDef(flag_update=False),
            V1P4,
            ["flag_update = false: allowed is true with FEAT_SPEv1p3"],
        ),
        (
            ImpDef(events=frozenset({3, 64})),
            V1P0,
            [
                f"events: 3 is not optional; allowed are {OPTIONAL}",
                f"events: 64 is not optional; allowed are {OPTIONAL}",
            ],
        ),
        (
            ImpDef(data_sources=frozenset({-1, 64})),
            V1P0,
            [
                "data_sources: -1 is out of range; allowed are 0 to 63",
                "data_sources: 64 is out of range; allowed are 0 to 63",
            ],
        ),
        (
            ImpDef(secure_only=True),
            V1P0,
            ["secure_only = true: allowed is false where there is EL3"],
        ),
        (ImpDef(secure_only=True), frozenset({F.FEAT_SPE}), []),
        (
            ImpDef(secure_state=False),
            V1P0,
            ["secure_state = false: allowed is true without FEAT_RME"],
        ),
    ],
)
def test_choices_out_of_range_are_sentences_with_what_is_allowed(
    impdef: ImpDef, features: Features, sentences: list[str]
) -> None:
    assert wrong_choices(impdef, features) == sentences
