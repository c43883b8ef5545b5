from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.rules.feature_rules import broken_rules, wrong_choices
from spe_unicorn.arch.rules.identification import pmsidr_el1
from spe_unicorn.cores.model_numbers import CacheNumbers, Level, ModelNumbers
from spe_unicorn.cores.profile import CoreError, core_names, load_core, parse_core

F = Feature
NAMES = (
    *("cortex-x4", "generic", "max", "minimal"),
    *("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2", "qemu-max"),
)


def test_the_built_in_profiles_are_listed() -> None:
    assert core_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_built_in_profiles_are_legal_and_named_as_their_file(name: str) -> None:
    core = load_core(name)
    assert core.name == name
    assert core.description
    assert broken_rules(core.features, core.architecture) == []
    assert wrong_choices(core.impdef, core.features) == []


@pytest.mark.parametrize("name", NAMES)
def test_profiles_claim_only_instructions_that_the_engine_executes(name: str) -> None:
    beyond = {F.FEAT_SME, F.FEAT_GCS, F.FEAT_RME, F.FEAT_SEL2}
    assert not load_core(name).features & beyond


@pytest.mark.parametrize(
    ("name", "pmsidr"),
    [
        ("generic", 0x0003_706F),  # FnE, ERnd, architecture instructions, 128 bytes, 16 bits
        ("minimal", 0x0002_600F),
        ("neoverse-n1", 0x0002_6417),  # LDS, 1024 micro-operations, 64 bytes, 12 bits
        ("neoverse-v1", 0x0002_6417),
        ("neoverse-n2", 0x0002_6417),
        ("neoverse-v2", 0x0002_6417),
        ("cortex-x4", 0x0002_6457),
        ("max", 0x0F03_80FF),
        ("qemu-max", 0x0003_706F),
    ],
)
def test_profiles_describe_their_spe(name: str, pmsidr: int) -> None:
    core = load_core(name)
    assert pmsidr_el1(core.features, core.impdef).value == pmsidr


def test_max_has_every_spe_feature_but_those_of_what_the_engine_lacks() -> None:
    spe = {f for f in Feature if f.value.startswith("FEAT_SPE")}
    assert spe - load_core("max").features == {F.FEAT_SPE_SME, F.FEAT_SPE_ALTCLK}


MINE = """
name = "mine"
midr = 0x410fd0c1
features = ["EL2", "FEAT_SPE"]
[impdef]
align = 4
events = [2, 4]
speculative = true
[model]
memory = 300
"""


def test_a_profile_in_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    core = load_core(str(path))
    assert (core.name, core.midr, core.architecture) == ("mine", 0x410F_D0C1, None)
    assert core.features == {F.FEAT_EL2, F.FEAT_SPE}
    assert core.impdef == ImpDef(align=4, events=frozenset({2, 4}), speculative=True)
    assert core.numbers == replace(ModelNumbers(), memory=300)


HEAD = 'name = "x"\nmidr = 1\n'
WRONG = [
    ("name = ", "x.toml: not TOML: "),
    ("\xff\xfe", "x.toml: not TOML: "),
    ("midr = 1", "x.toml: name is missing"),
    ('name = "x"', "x.toml: midr is missing"),
    ("name = 3\nmidr = 1", "x.toml: name = 3: allowed is a string"),
    ('name = "x"\nmidr = "y"', "x.toml: midr = 'y': allowed is an integer"),
    ('name = "x"\nmidr = -1', "x.toml: midr = -0x1: allowed are 32 bits"),
    ('name = "x"\nmidr = 0x1_0000_0000', "x.toml: midr = 0x100000000: allowed are 32 bits"),
    (HEAD + "colour = 1", "x.toml: colour: no such key; allowed are name, description, midr, "),
    (HEAD + 'features = "FEAT_SPE"', "x.toml: features = 'FEAT_SPE': allowed is a list"),
    (
        HEAD + 'features = ["FEAT_SPY"]',
        "x.toml: features: 'FEAT_SPY' is unknown; allowed are ",
    ),
    (HEAD + "features = [1]", "x.toml: features: 1 is unknown; allowed are FEAT_SPE, "),
    (HEAD + "features = [[1]]", "x.toml: features: [1] is unknown; allowed are FEAT_SPE, "),
    (HEAD + 'features = ["FEAT_SPE_LDS"]', "x.toml: FEAT_SPE_LDS needs FEAT_SPE"),
    (
        HEAD + 'features = ["FEAT_SPE_LDS", "FEAT_NV"]',
        "x.toml: FEAT_SPE_LDS needs FEAT_SPE; FEAT_NV needs EL2",
    ),
    (
        HEAD + 'architecture = "10"',
        "x.toml: architecture '10': allowed are 8.0 to 8.9 ",
    ),
    (HEAD + "architecture = 8.2", "x.toml: architecture = 8.2: allowed is a string"),
    (
        HEAD + 'architecture = "8.5"\nfeatures = ["FEAT_SPE"]',
        "x.toml: FEAT_SPE needs FEAT_SPEv1p1, from Armv8.5 on",
    ),
    (HEAD + "impdef = 3", "x.toml: impdef = 3: allowed is a table"),
    (HEAD + "[impdef]\nsize = 3", "x.toml: size: no such choice in impdef; allowed are align, "),
    (HEAD + "[impdef]\nalign = 12", "x.toml: align = 12: allowed are 0 to 11"),
    (HEAD + "[impdef]\nalign = true", "x.toml: impdef.align = True: allowed is an integer"),
    (HEAD + "[impdef]\nalign = 1.5", "x.toml: impdef.align = 1.5: allowed is an integer"),
    (
        HEAD + "[impdef]\nspeculative = 1",
        "x.toml: impdef.speculative = 1: allowed is true or",
    ),
    (
        HEAD + "[impdef]\npmu_shadow = true",
        "x.toml: impdef.pmu_shadow = True: allowed is an integer",
    ),
    (
        HEAD + "[impdef]\npmu_shadow = {BR_RETIRED = 1.5}",
        "x.toml: impdef.pmu_shadow.BR_RETIRED = 1.5: allowed is an integer",
    ),
    (HEAD + "[impdef]\nevents = 2", "x.toml: impdef.events = 2: allowed is a list"),
    (HEAD + '[impdef]\nevents = ["a"]', "x.toml: impdef.events = 'a': allowed is an integer"),
    (HEAD + "[impdef]\nevents = [3]", "x.toml: events: 3 is not optional; allowed are 2, 4, "),
    (HEAD + "deep = " + "[" * 5000 + "]" * 5000, "x.toml: not TOML: "),
    ('name = "x"\nmidr = ' + "9" * 5000, "x.toml: not TOML: "),
    (HEAD + "model = 1", "x.toml: model = 1: allowed is a table"),
    (HEAD + "cracking = 1", "x.toml: cracking = 1: allowed is a table, or a name of one"),
    (
        HEAD + 'cracking = "n7"',
        "x.toml: cracking = 'n7': allowed are neoverse, neoverse-n1, neoverse-n2, ",
    ),
    (HEAD + "[id]\nID_PFR0_EL1 = 1", "x.toml: ID_PFR0_EL1: no such ID register; allowed are ID_"),
    (
        HEAD + "[id]\nID_AA64PFR0_EL1 = 0x10000000000000000",
        "x.toml: id.ID_AA64PFR0_EL1 = 0x10000000000000000: allowed are 64 bits",
    ),
    (HEAD + "[cracking]\nload = 1", "x.toml: cracking.load = 1: allowed is a list"),
    (HEAD + "[cracking]\nload = [1]", "x.toml: cracking.load = 1: allowed is a string"),
    (HEAD + "[cracking]\nload = []", "x.toml: cracking.load: a list of at least one "),
    (
        HEAD + '[cracking]\nload = ["add"]',
        "x.toml: cracking.load: 'add' is none of access, access per register, data, ",
    ),
    (
        HEAD + '[cracking]\nloads = ["access"]',
        "x.toml: cracking.loads: no such kind; allowed are load, store, ",
    ),
    (
        HEAD + 'features = ["FEAT_SPE", "FEAT_SPE_ArchInst"]\ncracking = "neoverse"',
        "x.toml: cracking: FEAT_SPE_ArchInst samples architecture instructions; drop one",
    ),
    (
        HEAD + "[model]\nlatency = 7",
        "x.toml: model.latency: no such number; allowed are line, page, l1_tlb, ",
    ),
    (HEAD + "[model]\nl2 = 3", "x.toml: model.l2 = 3: allowed is a table"),
    (HEAD + "[model]\nl2 = { sets = 3 }", "x.toml: model.l2.sets: no such number; allowed are "),
    (HEAD + "[model]\nwalk = 0", "x.toml: model.walk = 0: allowed is an integer from 1 to "),
    (HEAD + "[model]\nwalk = true", "x.toml: model.walk = True: allowed is an integer from 1"),
    (HEAD + "[model]\nmemory = 0x1_0000_0000", "x.toml: model.memory = 4294967296: allowed is "),
    (
        HEAD + "[model]\nlast = { size = 0x8000_0000 }",
        "x.toml: model: last: 33554432 entries: allowed are 16777216",
    ),
    (
        HEAD + "[model]\npredictor = { targets = 0x400_0000 }",
        "x.toml: model.predictor: targets = 67108864: allowed are up to 16777216",
    ),
    (HEAD + "[model]\nline = 48", "x.toml: model: line = 48: allowed are powers of two"),
    (
        HEAD + "[model]\nl1d = { size = 100 }",
        "x.toml: model: l1d: 100 bytes are not whole lines of 64",
    ),
    (
        HEAD + "[model]\nl2_tlb = { ways = 3 }",
        "x.toml: model: l2_tlb: 512 entries are not whole sets of 3",
    ),
    (
        HEAD + "[model]\nmemory = 20",
        "x.toml: model: l1d, l2, last, memory = (4, 11, 70, 20) cycles: allowed is what grows",
    ),
    (
        HEAD + "[model]\npeer_core = 130",
        "x.toml: model: peer_core, peer_cluster = (130, 120) cycles: allowed is what grows",
    ),
    (HEAD + "[model]\ncluster = 0", "x.toml: model.cluster = 0: allowed is an integer from 1 to "),
    (
        HEAD + "[model]\npredictor = { counters = 100 }",
        "x.toml: model.predictor: counters = 100: allowed are powers of two",
    ),
    (HEAD + "[model]\nevents = [3]", "x.toml: model: events: 3 is not optional; allowed are "),
    (
        HEAD + '[model]\nfeatures = ["FEAT_SPE_LDS"]',
        "x.toml: model: FEAT_SPE_LDS needs FEAT_SPE",
    ),
    (HEAD + "[model]\nfeatures = [1]", "x.toml: model.features: 1 is unknown; allowed are "),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[m[:60] for _, m in WRONG])
def test_a_wrong_profile_says_which_key_which_value_and_what_is_allowed(
    text: str, message: str
) -> None:
    with pytest.raises(CoreError) as caught:
        parse_core(text.encode("latin-1"), "x.toml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(CoreError, match="core 'nova': allowed are cortex-x4, generic, max, "):
        load_core("nova")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(CoreError, match=r"^/nowhere/core\.toml: No such file or directory$"):
        load_core("/nowhere/core.toml")


def test_what_a_plan_may_name_is_not_waited_for_nor_read_without_an_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.toml")
    for name in (str(tmp_path / "fifo.toml"), "/dev/zero"):
        with pytest.raises(CoreError, match=f"^{name}: is no regular file$"):
            load_core(name)
    with pytest.raises(CoreError, match=f"^{tmp_path}: Is a directory$"):
        load_core(str(tmp_path))
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CoreError, match="is too large for a profile: at most 1 MiB"):
        load_core(str(tmp_path / "huge.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_core_without_a_model_is_what_its_profile_says(name: str) -> None:
    core = load_core(name)
    assert core.with_model("none") is core


def test_generic_has_data_sources_and_cache_events_only_with_the_cache_model() -> None:
    core = load_core("generic")
    modelled = core.with_model("cache")
    assert modelled.features - core.features == {F.FEAT_SPE_LDS}
    assert (core.impdef.events, modelled.impdef.events) == (frozenset(), frozenset({2, 4, 8, 9}))


def test_neoverse_n1_has_the_caches_of_its_manual() -> None:
    numbers = load_core("neoverse-n1").numbers
    assert numbers.level("l1d") == Level(1024, 4)  # 64 KiB
    assert numbers.level("l2") == Level(16384, 8)  # 1 MiB
    assert numbers.level("l1_tlb") == Level(48, 48)
    assert numbers.level("l2_tlb") == Level(1280, 5)


def test_what_a_model_leaves_out_is_as_by_default() -> None:
    core = parse_core((HEAD + "[model]\nwalk = 50\nl2 = { cycles = 12 }").encode(), "x.toml")
    expected = replace(ModelNumbers(), walk=50, l2=CacheNumbers(256 << 10, 8, 12))
    assert core.numbers == expected
