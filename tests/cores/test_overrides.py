"""What stands behind a core's name: NAME,KEY=VALUE,..."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.cores.profile import CoreError, load_core


def test_the_identity() -> None:
    core = load_core("generic,midr=0x410fd0c1")
    assert core.midr == 0x410F_D0C1
    assert (core.features, core.impdef) == (
        load_core("generic").features,
        load_core("generic").impdef,
    )


def test_features_and_choices() -> None:
    core = load_core(
        "max,FEAT_SVE=off, FEAT_SPE_ALTCLK=on,align=7,events=2+4,empty_filter_drops=on"
    )
    assert Feature.FEAT_SVE not in core.features
    assert Feature.FEAT_SVE2 not in core.features  # nor what needs it
    assert Feature.FEAT_SPE_ALTCLK in core.features
    assert core.impdef.align == 7
    assert core.impdef.events == {2, 4}
    assert core.impdef.empty_filter_drops
    assert load_core("max,events=none").impdef.events == frozenset()


def test_numbers_by_synchronous_event() -> None:
    core = load_core("max,pmu_shadow=br_retired:3+SW_INCR:1,pmu_threshold=0xfffffffffffffff0")
    assert core.impdef.pmu_shadow == (("BR_RETIRED", 3), ("SW_INCR", 1))
    events = ("BR_MIS_PRED_RETIRED", "BR_RETIRED", "INST_RETIRED", "PC_WRITE_RETIRED", "SW_INCR")
    assert core.impdef.pmu_threshold == tuple((event, (1 << 64) - 16) for event in events)


def test_what_the_cache_model_brings_can_be_switched_off() -> None:
    core = load_core("generic,FEAT_SPE_LDS=off")
    assert Feature.FEAT_SPE_LDS not in core.with_model("cache").features


def test_a_file_can_be_overridden(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nmidr = 1\nfeatures = ["EL3"]\n')
    assert load_core(f"{file},midr=2,EL2=on").features == {Feature.FEAT_EL2, Feature.FEAT_EL3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("generic,", "'': say it as KEY=VALUE"),
        ("generic,midr", "'midr': say it as KEY=VALUE"),
        ("generic,midr=", "'midr=': say it as KEY=VALUE"),
        ("generic,midr=x", "midr=x: allowed is a number"),
        ("generic,midr=0x100000000", "midr = 0x100000000: allowed are 32 bits"),
        ("generic,FEAT_SME=on", "FEAT_SME=on: the engine cannot execute what it brings"),
        ("generic,FEAT_SEL2=on", "FEAT_SEL2=on: the engine cannot execute what it brings"),
        ("generic,FEAT_SVE=yes", "FEAT_SVE=yes: allowed are on, off"),
        ("generic,FEAT_SPE=off", "FEAT_SPEv1p1 needs FEAT_SPE"),
        ("generic,FEAT_SPE_PBT=on,FEAT_SPEv1p2=off", "FEAT_SPE_PBT needs FEAT_SPEv1p2"),
        ("neoverse-n1,FEAT_SPE_ArchInst=on", "cracking: FEAT_SPE_ArchInst samples"),
        ("generic,align=12", "align = 12: allowed are 0 to 11"),
        ("generic,pa_bits=48", "pa_bits = 48: allowed are 32, 36, 40, 42, 44"),
        ("max,pmu_shadow=LD_RETIRED:1", "pmu_shadow: LD_RETIRED is unknown; allowed are SW_INCR, "),
        ("max,pmu_shadow=65536", "pmu_shadow.BR_MIS_PRED_RETIRED = 65536: allowed are 0 to 65535"),
        ("max,pmu_shadow=BR_RETIRED:x", "pmu_shadow=x: allowed is a number"),
        ("max,pmu_shadow=-1", "= -1: allowed are 0 to 65535"),
        ("max,pmu_threshold=0x10000000000000000", "allowed are 0 to 2**64 - 1"),
        ("generic,pmu_shadow=1", "pmu_shadow: allowed with FEAT_SEBEP alone"),
        ("generic,FEAT_NONE=on", "FEAT_NONE: no such key; allowed are midr, strict"),
        ("nobody,midr=1", "core 'nobody': allowed are"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(CoreError) as refused:
        load_core(text)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
