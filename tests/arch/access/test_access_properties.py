from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.access.verdicts import Accessor, Allowed, SystemAccessTrap, Undefined, access
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.registers.system import DIT, RNDR, RNDRRS, SSBS, TCO

feature_sets = st.frozensets(st.sampled_from(Feature))
ACCESSORS = (*SPE_ACCESSORS, *STEERING_ACCESSORS)
OF_EL0 = (RNDR, RNDRRS, SSBS, DIT, TCO)
PRIVILEGED = [a for a in ACCESSORS if a.register not in OF_EL0]
accessors = st.sampled_from(ACCESSORS)
levels = st.integers(1, 3)
no_features = st.just(frozenset[Feature]())
TRAPPING = st.sampled_from(
    [
        frozenset({Feature.FEAT_SPE, Feature.FEAT_EL2}),
        frozenset({Feature.FEAT_SPE, Feature.FEAT_EL3}),
        frozenset({Feature.FEAT_SPE, Feature.FEAT_EL2, Feature.FEAT_EL3}),
    ]
)
"""What a core has where anything can trap."""


@st.composite
def pes(
    draw: st.DrawFn,
    el: st.SearchStrategy[int] = levels,
    having: st.SearchStrategy[frozenset[Feature]] = no_features,
) -> StillPE:
    """Any PE, its registers anything; ``having`` these features at least."""
    pe = StillPE(
        draw(feature_sets) | draw(having),
        ImpDef(el3_sdd_undef_priority=draw(st.booleans()), secure_only=draw(st.booleans())),
        el=draw(el),
        halted=draw(st.booleans()),
        sdd=draw(st.booleans()),
    )
    random = draw(st.randoms(use_true_random=False))
    pe.registers.reset(lambda: random.getrandbits(64))
    return pe


@given(pe=pes(el=st.just(0)), accessor=st.sampled_from(PRIVILEGED), read=st.booleans())
def test_no_access_from_el0_to_a_privileged_register_succeeds(
    pe: StillPE, accessor: Accessor, read: bool
) -> None:
    assert isinstance(access(pe, accessor, read=read), Undefined)


@given(pe=pes(), accessor=accessors, read=st.booleans())
def test_asking_for_a_verdict_changes_nothing(pe: StillPE, accessor: Accessor, read: bool) -> None:
    before = pe.registers.save()
    verdict = access(pe, accessor, read=read)
    assert pe.registers.save() == before
    assert access(pe, accessor, read=read) == verdict


@given(pe=pes(), read=st.booleans())
def test_an_access_reaches_only_registers_that_the_core_has(pe: StillPE, read: bool) -> None:
    verdicts = [access(pe, accessor, read=read) for accessor in ACCESSORS]
    reached = [verdict.register for verdict in verdicts if isinstance(verdict, Allowed)]
    assume(reached)
    for register in reached:
        # Registers of EL2 are RES0, not UNDEFINED, from EL3 where there is no EL2.
        res0 = register.__name__.endswith("_EL2") and Feature.FEAT_EL2 not in pe.features
        absent_level = pe.el == 3 and Feature.FEAT_EL3 not in pe.features
        assert register.implemented(pe.features) or res0 or absent_level


@given(pe=pes(el=st.just(3)), accessor=accessors, read=st.booleans())
def test_nothing_traps_at_el3(pe: StillPE, accessor: Accessor, read: bool) -> None:
    assert isinstance(access(pe, accessor, read=read), (Allowed, Undefined))


@given(pe=pes(el=st.integers(1, 2), having=TRAPPING), read=st.booleans())
def test_a_trap_goes_to_a_higher_exception_level_that_exists(pe: StillPE, read: bool) -> None:
    verdicts = [access(pe, accessor, read=read) for accessor in ACCESSORS]
    targets = {verdict.target_el for verdict in verdicts if isinstance(verdict, SystemAccessTrap)}
    assume(targets)
    for target in targets:
        assert target > pe.el
        assert (Feature.FEAT_EL2 if target == 2 else Feature.FEAT_EL3) in pe.features
