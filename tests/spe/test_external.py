"""Sampling from outside: exact periods, full records, nothing that the guest could notice."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1, CONTEXTIDR_EL2, HCR_EL2, SCR_EL3
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.spe.absent import NoSampler
from spe_unicorn.spe.batch import MOST
from spe_unicorn.spe.candidates import CandidateSampler
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.filter import Filter, Flag, chosen_filter
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream
from spe_unicorn.spe.sampler import SampledCore
from tests.support.fakes import EL1_ONLY, SPE, WITH_EL3, FakePE, alu, load, spe_pe


def sampler(
    pe: FakePE, period: int = 100, filter_: Filter | None = None
) -> tuple[ExternalSampler, list[bytes]]:
    subject = ExternalSampler(pe, Asked(period, filter_ or Filter()), SampledCore(ConstantModel()))
    seen: list[bytes] = []
    subject.recorded.connect(lambda record, operation: seen.append(record))
    return subject, seen


def decoded(records: list[bytes]) -> list[Record]:
    found = list(decode_stream(b"".join(records)))
    return [placed.record for placed in found if isinstance(placed, PlacedRecord)]


def test_every_hundredth_operation_is_sampled() -> None:
    subject, _ = sampler(spe_pe())
    hits = []
    for number in range(1, 351):
        if subject.advance(1):
            hits.append(number)
            subject.complete(alu())
    assert hits == [100, 200, 300]
    assert subject.until_hit() == 50


def test_no_sample_collides_however_short_the_period() -> None:
    subject, seen = sampler(spe_pe(), 1)
    for _ in range(10):
        assert subject.advance(1)
        subject.complete(load())
    assert len(seen) == 10


def test_records_hold_everything_that_there_is() -> None:
    pe = spe_pe()
    pe.registers.write(CONTEXTIDR_EL1, 0x42)
    subject, seen = sampler(pe, 1)
    subject.refresh()
    subject.advance(1)
    operation = load(0x1000)
    operation.time = 77
    subject.complete(operation)
    (record,) = decoded(seen)
    assert (record.context_el1, record.timestamp) == (0x42, 77)
    assert record.va is not None
    assert record.pa is not None


def test_a_context_that_nobody_has_written_since_reset_is_not_collected() -> None:
    pe = spe_pe(WITH_EL3)
    pe.registers.write(SCR_EL3, SCR_EL3.of(NS=1).value)
    pe.registers.set_raw(CONTEXTIDR_EL1, 0x1111)  # UNKNOWN, as reset leaves them
    pe.registers.set_raw(CONTEXTIDR_EL2, 0x2222)
    subject, seen = sampler(pe, 1)
    subject.reset()

    def contexts() -> tuple[int | None, int | None]:
        subject.advance(1)
        subject.complete(alu())
        record = decoded(seen)[-1]
        return record.context_el1, record.context_el2

    assert contexts() == (None, None)
    pe.registers.write(CONTEXTIDR_EL1, 0x42)
    assert contexts() == (0x42, None)
    pe.registers.write(CONTEXTIDR_EL2, 0x43)
    assert contexts() == (0x42, 0x43)
    pe.registers.write(CONTEXTIDR_EL2, 0x2222)  # now it is known to be that
    assert contexts() == (0x42, 0x2222)
    subject.reset()
    assert contexts() == (None, None)
    pe.registers.write(HCR_EL2, HCR_EL2.of(TGE=1).value)
    pe.registers.write(CONTEXTIDR_EL1, 0x44)
    assert contexts() == (None, None)


def test_profiling_is_enabled_at_every_level_of_every_state() -> None:
    pe = spe_pe(WITH_EL3)
    subject, seen = sampler(pe, 1)
    assert subject.enabled
    assert not subject.armed
    for el, ns in ((3, 0), (2, 1), (1, 1), (0, 1), (1, 0)):
        pe.registers.write(SCR_EL3, SCR_EL3.of(NS=ns).value)
        pe.el = el
        subject.refresh()
        assert subject.enabled
        assert subject.advance(1)
        subject.complete(Operation(alu().instruction, 0x1000, el))
    assert [(r.pc.EL, r.pc.NS) for r in decoded(seen) if r.pc] == [
        (3, 0),
        (2, 1),
        (1, 1),
        (0, 1),
        (1, 0),
    ]


def test_nothing_shows_in_the_registers() -> None:
    pe = spe_pe(EL1_ONLY)
    before = pe.registers.save()
    told = []
    pe.registers.written.connect(lambda *write: told.append(write))
    subject, seen = sampler(pe, 1)
    for _ in range(10):
        subject.advance(1)
        subject.complete(load())
    assert len(seen) == 10
    assert pe.registers.save() == before
    assert told == []


def test_chosen_operations_only() -> None:
    subject, seen = sampler(spe_pe(), 1, chosen_filter([Flag.LD]))
    for operation in (alu(), load(), alu()):
        subject.advance(1)
        subject.complete(operation)
    assert len(seen) == 1
    assert subject.statistics.filtered == 2


def test_chosen_latency_only() -> None:
    subject, seen = sampler(spe_pe(), 1, chosen_filter(min_latency=3))
    for operation in (alu(), load()):
        subject.advance(1)
        subject.complete(operation)
    assert len(seen) == 1


def test_a_guest_without_spe_is_sampled_in_the_format_of_a_core_with_it() -> None:
    pe = spe_pe(frozenset())
    seen: list[bytes] = []
    subject = ExternalSampler(pe, Asked(1), SampledCore(ConstantModel(), features=SPE))
    subject.recorded.connect(lambda record, operation: seen.append(record))
    subject.advance(1)
    subject.complete(alu(0x1000))
    (record,) = decoded(seen)
    assert record.events == 2


def test_there_is_always_room_for_a_batch_of_records() -> None:
    subject, _ = sampler(spe_pe(), 1)
    assert subject.quiet_records() >= MOST


def test_candidates_are_not_taken_back() -> None:
    said = "CandidateInterval takes back no members: 3, of them 1 hits"
    with pytest.raises(RuntimeError, match=said):
        CandidateSampler(spe_pe(), Asked(100), SampledCore(ConstantModel())).take_back(3, 1)


def test_a_core_without_spe_has_no_recorder() -> None:
    with pytest.raises(RuntimeError, match="without SPE is to make a record at EL2"):
        NoSampler(spe_pe(), ConstantModel())._recorder_at(2)
