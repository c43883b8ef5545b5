"""``--turn``: two PEs that count in one cache line, by short turns and by long ones."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from spe_unicorn.output.arrays import read_arrays
from spe_unicorn.output.reader import RecordFile, Stream
from spe_unicorn.report.findings.first import first
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import Samples
from spe_unicorn.spe.packets import Event
from tests.support import a64 as a
from tests.support.small_boards import MPIDR_EL1, RAM, board_at

SHARED = RAM + 0x8000
LOOP = [a.ldr(2, 1), a.add_imm(2, 2, 1), a.str_(2, 1), a.b(-12)]
CODE = [
    a.mrs(0, MPIDR_EL1),
    a.and_low_bits(0, 0, 0, 8),  # the number of the PE
    *a.mov64(1, SHARED),
    *[a.add(1, 1, 0)] * 8,  # a doubleword each
    *LOOP,
]


def recorded(turn: int, runner: Any = Runner, operations: int = 60_000) -> list[bytes]:
    """The records of two PEs that start together at EL3."""
    board = board_at(
        CODE, 2, runner=runner, turn=turn, model="cache", sampling=Sampling(50, jitter=True)
    )
    found = [bytearray(), bytearray()]
    for pe, data in zip(board.pes, found, strict=True):
        pe.unit.streamed.connect(data.extend)
    board.run(operations)
    return [bytes(data) for data in found]


def samples(data: list[bytes]) -> Samples:
    streams = [Stream(cpu, 0, 0, memoryview(one)) for cpu, one in enumerate(data)]
    return Samples(Recording(RecordFile("a.data", "perf", streams)))


def missing(found: Samples) -> float:
    """The share of accesses to the shared line that miss L1D."""
    accesses = found.with_event(Event.L1D_ACCESS)
    return float(found.with_event(Event.L1D_MISS).sum() / accesses.sum())


def test_false_sharing_shows_in_short_turns_and_is_named_first() -> None:
    short, long = samples(recorded(16)), samples(recorded(1 << 14))
    assert missing(long) < 0.01
    assert missing(short) > 0.05
    said = [sentence for sentence in first(short) if "different bytes of the line" in sentence]
    assert len(said) == 1
    assert f"at {SHARED:#x}" in said[0]
    users = "PE 0 reads 0 writes 0; PE 1 reads 8 writes 8"
    region = "0x40000000-0x400fffff"  # there is no symbol
    assert f"{SHARED:#x} {region}: {users}" in set(short.labels("cacheline"))


@pytest.mark.parametrize("turn", [1, 1000])
def test_both_runners_take_the_same_turns(turn: int) -> None:
    fast, plain = (recorded(turn, runner, 6000) for runner in (Runner, ReferenceRunner))
    assert fast == plain
    arrays, bad = read_arrays([Stream(0, 0, 0, memoryview(fast[0]))])
    assert len(arrays) > 30
    assert not bad
