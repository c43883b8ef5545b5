"""From an operation to the bytes of its record: worked examples, and each rule of what is in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import Family, Instruction, Operation, RegisterKind, Timing
from spe_unicorn.arch.pe import SecurityState
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.profile import core_names, load_core
from spe_unicorn.spe.enabling import Collection
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.judge import Judge
from spe_unicorn.spe.operation_type import operation_type
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream
from spe_unicorn.spe.sample import (
    Format,
    Recorder,
    events_of,
    events_size,
    implemented_events,
)
from tests.support.fakes import ALU, BRANCH, EXC, LOAD, SPE, STORE, V1P2

NON_SECURE = SecurityState.NON_SECURE
L1D_AND_TLB = 0x14
CACHES = ImpDef(events=frozenset({2, 4}), align=6)
PLAIN = Timing(9, 2)
NOTHING = Collection()


def record_bytes(
    operation: Operation,
    timing: Timing = PLAIN,
    collection: Collection = NOTHING,
    *,
    features: Features = SPE,
    impdef: ImpDef = CACHES,
    state: SecurityState = NON_SECURE,
    vector_bits: int = 128,
) -> bytes:
    recorder = Recorder(Format.of(features, impdef), collection, state)
    type_ = operation_type(operation.instruction, features, vector_bits)
    events = events_of(operation, timing, implemented_events(features, impdef))
    return recorder.record(operation, type_, timing, events)


def record(
    operation: Operation,
    timing: Timing = PLAIN,
    collection: Collection = NOTHING,
    *,
    features: Features = SPE,
    impdef: ImpDef = CACHES,
    state: SecurityState = NON_SECURE,
) -> Record:
    data = record_bytes(
        operation, timing, collection, features=features, impdef=impdef, state=state
    )
    (found,) = decode_stream(data)
    assert isinstance(found, PlacedRecord)
    return found.record


# Worked examples, byte for byte


def test_atomic_with_all_options() -> None:
    ldaddal = Instruction(0xF8E00000, family=Family.ATOMIC, atomic=True, acquire_release=True)
    operation = Operation(
        ldaddal,
        pc=0x400100,
        el=0,
        time=0x1122334455667788,
        va=0x2000000000401008,
        pa=0x80001008,
    )
    timing = Timing(42, 5, translation=3, events=L1D_AND_TLB, data_source=0)
    found = record_bytes(
        operation,
        timing,
        Collection(0x1234, 0xABCD, pa=True, timestamp_offset=0),
        features=SPE | {Feature.FEAT_SPE_LDS},
    )
    assert found == bytes.fromhex(
        "64 34120000 65 cdab0000 98 2a00 99 0500 9a 0300 b0 0001400000000080"
        "b2 0810400000000020 b3 0810008000000080 43 00 49 16 52 1600 71 8877665544332211 00 00"
    )


def test_faulting_store() -> None:
    operation = Operation(STORE, pc=0x400200, el=0, exception=True)
    assert record_bytes(operation, impdef=ImpDef(align=3)) == bytes.fromhex(
        "98 0900 99 0200 b0 0002400000000080 49 01 52 0300 01 000000"
    )


def test_select_of_the_second_operand() -> None:
    csel = Instruction(0x9A800000, conditional=True)
    operation = Operation(csel, pc=0x400400, el=0, condition_failed=True)
    found = record_bytes(operation, Timing(1, 0), Collection(7), impdef=ImpDef(align=0))
    assert found == bytes.fromhex(
        "64 07000000 98 0100 99 0000 b0 0004400000000080 48 01 52 4200 01"
    )


def test_sve_gather_load() -> None:
    gather = Instruction(
        0x85004000,
        family=Family.LOAD,
        registers=RegisterKind.SVE,
        sve=True,
        predicated=True,
        gather_scatter=True,
    )
    operation = Operation(gather, pc=0x400300, el=0, time=1000, va=0x7F0010)
    found = record_bytes(
        operation,
        Timing(30, 2, translation=1, events=L1D_AND_TLB | 1 << 17),
        Collection(timestamp_offset=0),
        features=SPE | V1P2 | {Feature.FEAT_SVE},
        vector_bits=256,
    )
    assert found == bytes.fromhex(
        "98 1e00 99 0200 9a 0100 b0 0003400000000080 b2 10007f0000000000 49 bc"
        "62 16000200 71 e803000000000000" + "00" * 21
    )


# Which packets


def test_every_record_ends_padded_to_the_alignment() -> None:
    for align in (0, 4, 6, 7):
        assert (
            len(record_bytes(Operation(ALU, 0, 0), impdef=ImpDef(align=align))) % (1 << align) == 0
        )


def test_an_operation_without_access_has_no_address_but_its_own() -> None:
    found = record(Operation(ALU, 0x1000, 1, va=0x7000, pa=0x7000))
    assert found.va is None
    assert found.pa is None
    assert found.counter(2) is None


def test_a_load_has_its_address_and_its_translation_latency() -> None:
    found = record(Operation(LOAD, 0x1000, 1, va=0x7000), Timing(5, 1, translation=3))
    assert found.va is not None
    assert found.va.VA == 0x7000
    assert found.counter(2) == 3


def test_an_address_keeps_its_top_byte() -> None:
    found = record(Operation(LOAD, 0x1000, 1, va=0xFFFF_0000_0000_7000))
    assert found.va is not None
    assert found.va.TAG == 0xFF


@pytest.mark.parametrize(
    ("allowed", "pa", "there"), [(True, 0x9000, True), (False, 0x9000, False), (True, None, False)]
)
def test_physical_address_where_it_is_collected_and_known(
    allowed: bool, pa: int | None, there: bool
) -> None:
    found = record(Operation(LOAD, 0, 1, va=0x7000, pa=pa), PLAIN, Collection(pa=allowed))
    assert (found.pa is not None) == there


def test_no_physical_address_without_a_virtual_one() -> None:
    assert record(Operation(LOAD, 0, 1, pa=0x9000), PLAIN, Collection(pa=True)).pa is None


def test_a_taken_branch_has_its_target_and_the_level_there() -> None:
    found = record(Operation(BRANCH, 0x1000, 2, target=0x2000, target_el=1))
    assert found.pc is not None
    assert found.target is not None
    assert (found.pc.EL, found.target.VA, found.target.EL) == (2, 0x2000, 1)


def test_a_branch_not_taken_has_no_target() -> None:
    found = record(Operation(BRANCH, 0x1000, 1, condition_failed=True))
    assert found.target is None
    assert found.events == 0x42


def test_previous_branch_target_with_its_feature_only() -> None:
    operation = Operation(ALU, 0x1000, 1, previous_target=0x3000, previous_target_el=1)
    assert record(operation).previous_target is None
    found = record(operation, features=SPE | V1P2 | {Feature.FEAT_SPE_PBT})
    assert found.previous_target is not None
    assert (found.previous_target.VA, found.previous_target.EL) == (0x3000, 1)


def test_no_previous_branch_target_where_none_is_valid() -> None:
    assert (
        record(Operation(ALU, 0, 1), features=SPE | {Feature.FEAT_SPE_PBT}).previous_target is None
    )


def test_data_source_with_its_feature_only() -> None:
    operation = Operation(LOAD, 0, 1, va=0x7000)
    timing = Timing(5, 1, data_source=0xD)
    assert record(operation, timing).data_source is None
    assert record(operation, timing, features=SPE | {Feature.FEAT_SPE_LDS}).data_source == 0xD


@pytest.mark.parametrize("contexts", [(None, None), (1, None), (None, 2), (1, 2)])
def test_contexts_that_are_collected(contexts: tuple[int | None, int | None]) -> None:
    found = record(Operation(ALU, 0, 1), PLAIN, Collection(*contexts))
    assert (found.context_el1, found.context_el2) == contexts


@pytest.mark.parametrize(
    ("time", "offset", "timestamp"),
    [(100, None, None), (100, 0, 100), (100, 40, 60), (100, 101, 2**64 - 1)],
)
def test_timestamp_is_the_count_less_its_offset(
    time: int, offset: int | None, timestamp: int | None
) -> None:
    found = record(Operation(ALU, 0, 1, time=time), PLAIN, Collection(timestamp_offset=offset))
    assert found.timestamp == timestamp


@pytest.mark.parametrize(
    ("state", "ns", "nse"),
    [(SecurityState.SECURE, 0, 0), (NON_SECURE, 1, 0), (SecurityState.REALM, 1, 1)],
)
def test_addresses_tell_the_security_state(state: SecurityState, ns: int, nse: int) -> None:
    found = record(
        Operation(LOAD, 0x1000, 1, va=0x7000, pa=0x9000), PLAIN, Collection(pa=True), state=state
    )
    assert found.pc is not None
    assert found.pa is not None
    for address in (found.pc, found.pa):
        assert ns == address.NS
        assert nse == address.NSE


def test_the_top_byte_of_a_kernel_pc_is_not_recorded() -> None:
    found = record(Operation(ALU, 0xFFFF_8000_1000_0000, 1))
    assert found.pc is not None
    assert found.pc.VA == 0xFF_8000_1000_0000


@pytest.mark.parametrize(("count_size", "largest"), [(2, 0xFFF), (3, 0xFFFF)])
def test_counters_saturate(count_size: int, largest: int) -> None:
    impdef = ImpDef(count_size=count_size)
    operation = Operation(LOAD, 0, 1, va=0x7000)
    huge = Timing(70000, 70000, translation=70000)
    assert record(operation, huge, impdef=impdef).counters == (
        (0, largest),
        (1, largest),
        (2, largest),
    )
    exact = Timing(largest, largest - 1, translation=1)
    assert record(operation, exact, impdef=impdef).counters == (
        (0, largest),
        (1, largest - 1),
        (2, 1),
    )


def test_one_recorder_makes_records_of_every_shape() -> None:
    recorder = Recorder(Format.of(SPE, CACHES), Collection(pa=True), NON_SECURE)
    made = b""
    for operation in (
        Operation(ALU, 0x1000, 1),
        Operation(LOAD, 0x1004, 1, va=0x7000, pa=0x7000),
        Operation(LOAD, 0x1008, 1),
        Operation(BRANCH, 0x100C, 1, target=0x1000, target_el=1),
    ):
        made += recorder.record(operation, operation_type(operation.instruction, SPE), PLAIN, 2)
    found = [r.record for r in decode_stream(made) if isinstance(r, PlacedRecord)]
    assert [r.pc.VA for r in found if r.pc] == [0x1000, 0x1004, 0x1008, 0x100C]
    assert [r.va is not None for r in found] == [False, True, False, False]
    assert [r.target is not None for r in found] == [False, False, False, True]


# Events


@pytest.mark.parametrize(
    ("operation", "timing", "events"),
    [
        (Operation(ALU, 0, 0), PLAIN, 0x2),
        (Operation(ALU, 0, 0, exception=True), PLAIN, 0x3),
        (Operation(BRANCH, 0, 0, condition_failed=True), Timing(1, 1, events=0x80), 0xC2),
        (Operation(LOAD, 0, 0), Timing(1, 1, events=0x3C), 0x3E),
    ],
)
def test_events_of_operation_and_model(operation: Operation, timing: Timing, events: int) -> None:
    assert events_of(operation, timing, implemented_events(SPE, CACHES)) == events


def test_misalignment_is_an_event_from_v1p1_on() -> None:
    operation = Operation(LOAD, 0, 0, va=0x7001, misaligned=True)
    assert events_of(operation, PLAIN, implemented_events(SPE, ImpDef())) == 0x2
    assert events_of(operation, PLAIN, implemented_events(SPE | V1P2, ImpDef())) == 0x802


def test_events_that_the_core_does_not_have_are_not_recorded() -> None:
    timing = Timing(1, 1, events=0x714)
    assert events_of(Operation(LOAD, 0, 0), timing, implemented_events(SPE, ImpDef())) == 0x2
    some = ImpDef(events=frozenset({8}))
    assert events_of(Operation(LOAD, 0, 0), timing, implemented_events(SPE, some)) == 0x102


@pytest.mark.parametrize(
    ("features", "size"),
    [
        (SPE, 2),
        (SPE | V1P2, 2),
        (SPE | V1P2 | {Feature.FEAT_SVE}, 4),
        (SPE | EXC, 4),
        (SPE | V1P2 | {Feature.FEAT_SME, Feature.FEAT_SPE_SME}, 4),
    ],
)
def test_size_of_the_events_payload(features: Features, size: int) -> None:
    assert events_size(features) == size


@pytest.mark.parametrize("name", core_names())
def test_no_record_of_a_core_is_longer_than_it_says(name: str) -> None:
    core = load_core(name)
    everything = Collection(1, 2, pa=True, timestamp_offset=0)
    recorder = Recorder(Format.of(core.features, core.impdef), everything, NON_SECURE)
    timing = Timing(1, 1, data_source=0)
    previous = {"previous_target": 0x3000, "previous_target_el": 1}
    for operation in (
        Operation(LOAD, 0x1000, 1, va=0x7000, pa=0x7000, **previous),
        Operation(BRANCH, 0x1000, 1, target=0x2000, **previous),
    ):
        type_ = operation_type(operation.instruction, core.features)
        size = len(recorder.record(operation, type_, timing, 2))
        assert size <= 1 << core.impdef.max_size
        assert size % (1 << core.impdef.align) == 0


@pytest.mark.parametrize("branches", [False, True])
def test_an_implementation_may_tell_the_previous_target_of_taken_branches_only(
    branches: bool,
) -> None:
    features = SPE | {Feature.FEAT_SPE_PBT}
    impdef = ImpDef(previous_target_of_branches=branches)
    told = {}
    for name, operation in (
        ("taken", Operation(BRANCH, 0x1000, 1, target=0x2000, target_el=1)),
        ("not taken", Operation(BRANCH, 0x1000, 1, condition_failed=True)),
        ("other", Operation(ALU, 0x1000, 1)),
    ):
        with_previous = replace(operation, previous_target=0x3000, previous_target_el=1)
        found = record(with_previous, features=features, impdef=impdef)
        told[name] = found.previous_target is not None
    assert told == {"taken": True, "not taken": not branches, "other": not branches}


@pytest.mark.parametrize("dropped", [False, True])
def test_an_operation_on_a_wrong_path_may_give_no_record(dropped: bool) -> None:
    judge = Judge(ConstantModel(), SPE, ImpDef(wrong_path_dropped=dropped))
    for misspeculated in (False, True):
        operation = Operation(ALU, 0x1000, 1, misspeculated=misspeculated)
        _, _, kept, _ = judge.judged(operation, PLAIN, Filter())
        assert kept == (not (dropped and misspeculated))


def test_a_record_of_an_exception_may_have_no_more_than_its_events() -> None:
    """Events 3: an exception, retired. The other packets are optional (Arm ARM D18.1)."""
    bare = ImpDef(align=3, bare_exceptions=True)
    fault = Operation(STORE, pc=0x400200, el=0, va=0x1000, time=0x1234, exception=True)
    assert record_bytes(fault, impdef=bare) == bytes.fromhex("52 0300 01 00000000")
    timed = record_bytes(fault, collection=Collection(timestamp_offset=4), impdef=bare)
    assert timed == bytes.fromhex("52 0300 71 3012000000000000 00000000")
    store = Operation(STORE, pc=0x400200, el=0, va=0x1000, pa=0x1000)
    assert record_bytes(store, impdef=bare) == record_bytes(store, impdef=ImpDef(align=3))


@pytest.mark.parametrize("tagged", [False, True])
def test_the_top_byte_of_an_address_that_is_no_tag_may_be_0(tagged: bool) -> None:
    va = 0xFFFF_0000_1234_5678
    operation = Operation(LOAD, pc=0x400200, el=1, va=va)
    for impdef in (CACHES, replace(CACHES, untagged_addresses=True)):
        format_ = Format.of(SPE, impdef)
        recorder = Recorder(format_, NOTHING, NON_SECURE, None, lambda _: tagged)
        assert recorder.looks_further == impdef.untagged_addresses
        type_ = operation_type(LOAD, SPE, 128)
        (found,) = decode_stream(recorder.record(operation, type_, PLAIN, 2))
        assert isinstance(found, PlacedRecord)
        assert found.record.va is not None
        kept = tagged or not impdef.untagged_addresses
        assert found.record.va.value == (va if kept else va & (1 << 56) - 1)
