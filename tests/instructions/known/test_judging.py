"""What a profile says of a core's features; expectations from the cores' manuals."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import id as ids
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from spe_unicorn.instructions.known.features import BIT, ISA, Here, named
from spe_unicorn.instructions.known.judging import has, lacking
from tests.support.small_boards import board_at


def of(core: str) -> dict[str, bool | None]:
    c = load_core(core)
    return {f.name: has(f, c.features, c.impdef, c.architecture) for f in ISA}


def test_neoverse_n1_by_its_id_registers() -> None:
    found = of("neoverse-n1")
    there = "AES PMULL SHA1 SHA256 CRC32 LSE RDM LOR PAN PAN2 UAO DPB FP16 DotProd LRCPC SSBS2"
    assert {name for name, yes in found.items() if yes} == set(there.split())
    assert None not in found.values()


@pytest.mark.parametrize(
    ("core", "name", "expected"),
    [
        ("neoverse-v1", "SVE", True),
        ("neoverse-v1", "SVE2", False),
        ("neoverse-v1", "FlagM2", False),
        ("neoverse-v1", "I8MM", True),
        ("neoverse-n2", "MTE2", True),
        ("neoverse-n2", "SVE_SM4", True),
        ("neoverse-n2", "MOPS", False),
        ("neoverse-v2", "SB", True),
        ("neoverse-v2", "RNG", True),
        ("cortex-x4", "RNG", False),
        ("cortex-x4", "SME", False),
        ("cortex-x4", "WFxT", True),
        ("cortex-x4", "CSSC", False),
        ("generic", "SM4", True),
        ("generic", "MOPS", False),
        ("minimal", "SVE", False),
        ("generic,FEAT_SVE=off", "SVE", False),
        ("neoverse-n1,FEAT_I8MM=on", "I8MM", True),
    ],
)
def test_what_a_core_has(core: str, name: str, expected: bool | None) -> None:
    assert of(core)[name] is expected


def test_what_is_lacking_is_a_set() -> None:
    core = load_core("neoverse-n1")
    found = lacking(core.features, core.impdef, core.architecture)
    assert found & BIT["FCMA"]
    assert not found & BIT["LSE"]
    assert {f.name for f in named(found)} == {n for n, yes in of("neoverse-n1").items() if not yes}


def test_who_executes_a_feature_is_what_max_shows() -> None:
    """The engine's own ID registers show what it executes, max shows what is executed at all."""
    cpu = board_at([], core=load_core("max")).cpu
    assert all(feature.register in ids.ID_REGISTERS for feature in ISA)

    def shown(register: type[SysReg]) -> tuple[int, int]:
        return cpu.engine.system(register.encoding), cpu.registers.raw(register)

    for feature in ISA:
        engine, ours = (feature.shown_by(value) for value in shown(feature.register))
        if feature.switch is not None and feature.here is not Here.NOBODY:
            assert ours, feature.name
        else:
            assert (feature.here is Here.ENGINE) == engine == ours, feature.name
