"""The sentences on what costs most: what each rule needs, says, and keeps silent about."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.output.reader import RecordFile
from spe_unicorn.report.findings.evidence import Finding
from spe_unicorn.report.findings.first import first
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import Samples
from spe_unicorn.spe.packets import DataAddress, Event
from spe_unicorn.spe.record import Record
from tests.report.recordings import PROGRAM, samples, stream_of
from tests.support.samples import branch, load, store

HIT = Event.RETIRED | Event.L1D_ACCESS
MISS = HIT | Event.L1D_MISS


def access(at: int, cycles: int, events: int, translation: int = 1, **more: Any) -> Record:
    counters = ((0, cycles), (1, 1), (2, translation))
    record: Record = load(counters=counters, events=events, va=DataAddress(at), **more)
    return record


def of(records: list[Record]) -> list[str]:
    return first(samples(*records))


def test_few_samples_are_said_to_be_few() -> None:
    assert of([access(0x40008000, 4, HIT)] * 99) == [
        "99 samples are too few to say what costs most: sample more often"
    ]


def test_five_are_told_and_what_saves_most_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Finding(share, f"{share:.0%}") for share in (0.2, 0.5, 0.009, 0.1, 0.7, 0.3, 0.6)]
    monkeypatch.setattr("spe_unicorn.report.findings.first.RULES", (lambda _: found,))
    assert of([access(0x40008000, 4, HIT)] * 100) == ["70%", "60%", "50%", "30%", "20%"]


def test_loads_that_hit_are_not_told_of() -> None:
    assert of([access(0x40008000, 4, HIT)] * 200) == []


def test_loads_that_miss_are_told_of_with_object_share_and_stride() -> None:
    # every line of the object of 256 bytes once in four; 50 of 200 miss
    hits = [access(0x40008000 + 64 * (n % 4), 4, HIT) for n in range(150)]
    missing = [access(0x40008000 + 64 * (n % 4), 100, MISS) for n in range(50)]
    assert of(hits + missing) == [
        "100% of all latency: loads of buffer in main, 25% miss L1D;"
        " 4 addresses sampled in 4 lines over 193 bytes"
    ]


def test_a_stride_says_of_how_much_use_a_line_is() -> None:
    apart = [access(0x50000000 + 64 * n, 100, MISS) for n in range(120)]
    (said,) = of(apart)
    assert said.endswith("all multiples of 64 bytes apart: a line serves 1 of them")


def test_few_misses_are_no_evidence() -> None:
    hits = [access(0x40008000, 4, HIT)] * 191
    assert of(hits + [access(0x40008000, 100, MISS)] * 9) == []
    assert len(of(hits[:150] + [access(0x40008000, 100, MISS)] * 10)) == 1


def test_mispredicted_branches_are_told_of_with_how_often_they_are_taken() -> None:
    right = [branch(counters=((0, 2), (1, 1)), events=Event.RETIRED | Event.NOT_TAKEN)] * 150
    wrong = [branch(counters=((0, 20), (1, 1)), events=Event.RETIRED | Event.MISPREDICTED)] * 50
    assert of(right + wrong) == [
        "100% of all latency: branches in main, 25% mispredicted; 25% of them are taken,"
        " and 100% of the mispredicted"
    ]
    assert of(right) == []


def test_walks_are_told_of_by_their_translation_latency() -> None:
    walking = HIT | Event.TLB_WALK
    found = [access(0x50000000 + 4096 * n, 40, walking, translation=30) for n in range(100)]
    # 3,000 of 4,000 cycles
    assert of(found) == [
        "75% of all latency: translations in main, 100% of its accesses walk the tables;"
        " they were sampled in 100 pages of 4 KiB"
    ]


def two_pes(one: list[Record], other: list[Record]) -> list[str]:
    recording = Recording(RecordFile("a.spe", "raw", [stream_of(one, 0), stream_of(other, 1)]))
    recording.places.add_file(PROGRAM)
    return first(Samples(recording))


def test_different_bytes_of_a_line_that_one_pe_writes_are_false_sharing() -> None:
    writes = [store(va=DataAddress(0x40008000), events=HIT, counters=((0, 4), (1, 1)))] * 60
    reads = [access(0x40008008, 4, HIT)] * 51 + [access(0x40008008, 60, MISS)] * 9
    # 240 cycles of stores, 204 of hits, 540 of misses: all in this line
    assert two_pes(writes, reads) == [
        "100% of all latency: PEs 0, 1 use different bytes of the line at 0x40008000 (buffer),"
        " and 1 of them write it"
    ]
    same = [access(0x40008000, 4, HIT)] * 51 + [access(0x40008000, 60, MISS)] * 9
    assert two_pes(writes, same) == []


def test_a_line_that_pes_take_from_one_another_is_told_with_those_that_store_to_it() -> None:
    writes = [store(va=DataAddress(0x40008000), events=HIT, counters=((0, 4), (1, 1)))] * 60
    reads = [access(0x40008000, 4, HIT)] * 30 + [access(0x40008000, 60, MISS)] * 30
    one = "100% of all latency: loads of buffer in main, 50% miss L1D; 1 address sampled in 1 line"
    others = 240 * 2 + 30 * 64
    share = f"{30 * 64 / others:.0%}"
    assert two_pes(writes, [*writes, *reads]) == [
        f"{one.replace('100%', share)}, which PEs 0, 1 store to and take from one another"
    ]
    share = f"{30 * 64 / (others - 240):.0%}"
    assert two_pes(writes, reads) == [one.replace("100%", share)]
    near = [access(0x40008008, 60, MISS)] * 30
    said = two_pes(writes, [*writes, *reads[30:], *near])
    assert "2 addresses sampled in 1 line, which PEs 0, 1 store to" in said[0]


def test_the_sentence_that_saves_most_comes_first_and_small_ones_are_left_out() -> None:
    missing = [access(0x40008000, 100, MISS)] * 20 + [access(0x40008000, 4, HIT)] * 200
    wrong = [branch(counters=((0, 20), (1, 1)), events=Event.RETIRED | Event.MISPREDICTED)] * 30
    right = [branch(counters=((0, 2), (1, 1)), events=Event.RETIRED)] * 30
    said = of(missing + wrong + right)
    assert ["loads" in each for each in said] == [True, False]
    huge = [access(0x40008000, 60000, HIT)] * 200
    assert of(missing + wrong + right + huge) == []


def test_direction_close_to_chance_is_told() -> None:
    # of 100 branches 50 are taken; of the 40 that are mispredicted 30 are not
    missed, passed = Event.MISPREDICTED, Event.NOT_TAKEN

    def some(number: int, events: int) -> list[Record]:
        cycles = 20 if events & missed else 2
        return [branch(counters=((0, cycles), (1, 1)), events=Event.RETIRED | events)] * number

    found = some(10, missed) + some(30, missed | passed) + some(40, 0) + some(20, passed)
    # 40 of 20 cycles, 60 of 2
    assert of(found) == [
        "100% of all latency: branches in main, 40% mispredicted; 50% of them are taken, and 25%"
        " of the mispredicted: their direction is close to chance, which a conditional select needs"
        " not predict"
    ]


def test_unaligned_accesses_are_told_of_where_they_take_longer() -> None:
    slow = HIT | Event.MISALIGNED
    aligned = [access(0x40008000, 4, HIT)] * 150
    # 50 of 200 take 10 cycles in place of 4: 300 of 1,100 could be saved
    assert of(aligned + [access(0x40008003, 10, slow)] * 50) == [
        "100% of all latency: accesses in main, 25% not aligned; these take 10 cycles,"
        " aligned ones 4"
    ]
    assert of(aligned + [access(0x40008003, 4, slow)] * 50) == []
    assert of([access(0x40008003, 10, slow)] * 200) == []  # nothing to compare with


def test_loads_that_wait_for_a_store_are_told_of_with_the_store() -> None:
    stores = [store(0x40000140, va=DataAddress(0x40008040), events=HIT, counters=((0, 2), (1, 1)))]
    elsewhere = [access(0x40008080, 4, HIT, address=0x40000144)] * 60
    waiting = [access(0x40008048, 14, HIT)] * 60
    # 60 times 10 cycles too many
    assert of(stores * 30 + elsewhere + waiting) == [
        "74% of all latency: loads in main hit L1D and take 14 cycles, others 4; 100% are of bytes"
        " that work stores: keep them in a register"
    ]
    assert of(stores * 30 + elsewhere + [access(0x40008048, 4, HIT)] * 60) == []
    assert of(elsewhere + waiting) == []  # nobody stores there
    assert of(stores * 30 + waiting * 2) == []  # nothing to compare with


def round_of(*addresses: int) -> list[Record]:
    return [access(0x40008000, 4, HIT, address=at) for at in addresses]


def test_samples_that_keep_step_with_a_loop_are_told_of_before_all_else() -> None:
    steady = round_of(0x40000100, 0x40000110, 0x40000104, 0x40000114) * 50
    missing = [access(0x40008000, 100, MISS, address=0x40000148)] * 60
    said = of(steady + missing)
    assert said[0] == (
        "77% of the samples keep step with a loop, as main is always followed by main+0x10: shares"
        " are not those of what is executed; have the interval vary (PMSIRR_EL1.RND, no"
        " --no-jitter)"
    )
    assert "miss L1D" in said[1]
    # each is followed by one of two
    mixed = (round_of(0x40000100, 0x40000110) + round_of(0x40000100, 0x40000104)) * 50
    assert of(mixed) == []
