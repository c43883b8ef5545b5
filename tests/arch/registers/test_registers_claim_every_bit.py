from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.aarch32_id import AARCH32_ID_REGISTERS
from spe_unicorn.arch.registers.identity import IDENTITY_REGISTERS
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS
from spe_unicorn.bits import Res0, Res1

REGISTERS = (
    *SPE_REGISTERS,
    *SYSTEM_REGISTERS,
    *PMU_REGISTERS,
    *IDENTITY_REGISTERS,
    *AARCH32_ID_REGISTERS,
)
ONES = (1 << 64) - 1

feature_sets = st.frozensets(st.sampled_from(Feature))
registers = st.sampled_from(REGISTERS)
values = st.integers(0, ONES)
choices = st.builds(
    ImpDef,
    align=st.integers(0, 11),
    count_size=st.sampled_from((2, 3)),
    events=st.frozensets(st.integers(0, 63)),
    data_sources=st.frozensets(st.integers(0, 63)),
    speculative=st.booleans(),
    granule=st.sampled_from((12, 14, 16)),
)


@settings(max_examples=400)
@given(register=registers, features=feature_sets)
def test_each_bit_has_at_most_one_meaning_in_any_set_of_features(
    register: type[SysReg], features: frozenset[Feature]
) -> None:
    claimed = 0
    for field in register.active(features):
        assert claimed & field.mask == 0
        claimed |= field.mask
    declared = 0
    for field in register.fields:
        declared |= field.mask
    assert declared == ONES  # what nothing claims here is RES0 here, and claimed elsewhere


@settings(max_examples=400)
@given(register=registers, features=feature_sets, impdef=choices, first=values, second=values)
def test_a_write_changes_only_writable_bits(
    register: type[SysReg], features: frozenset[Feature], impdef: ImpDef, first: int, second: int
) -> None:
    file = RegisterFile(features, [register], impdef)
    file.reset(lambda: first)
    before = file.raw(register)
    file.write(register, second)
    writable = file.writable(register)
    assert file.raw(register) == before & ~writable | second & writable
    for field in register.active(features):
        if isinstance(field, (Res0, Res1)) or not field.writable:
            assert writable & field.mask == 0
    if not register.implemented(features):
        assert file.raw(register) == 0


@given(features=feature_sets, seed=st.randoms(use_true_random=False))
def test_saving_and_restoring_all_registers_is_the_identity(
    features: frozenset[Feature], seed: object
) -> None:
    draw = seed.getrandbits  # type: ignore[attr-defined]
    file = RegisterFile(features, REGISTERS)
    for register in REGISTERS:
        file.set_raw(register, draw(64))
    saved = file.save()
    for register in REGISTERS:
        file.set_raw(register, draw(64))
    file.restore(saved)
    assert file.save() == saved


def test_encodings_are_unique() -> None:
    assert len({r.encoding for r in REGISTERS}) == len(REGISTERS)
