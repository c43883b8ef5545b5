"""The previous branch target (FEAT_SPE_PBT) of what firmware executes, by both runners."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream
from tests.firmware.conftest import WholeRun
from tests.firmware.differences import differences, places
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

SCTLR_EL1 = (3, 0, 1, 0, 0)
BEGIN, WINDOW = 75_000, 6_000


def records_of(machine: Machine) -> list[Record]:
    found = [placed for s in machine.sampled for placed in decode_stream(s.record)]
    return [placed.record for placed in found if isinstance(placed, PlacedRecord)]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("name", ["spe_branches", "spe_el0", "exceptions"])
def test_each_operation_knows_the_branch_before_it(name: str, runner: type[Runner]) -> None:
    machine = Machine(name, core="max", period=1 << 40)
    machine.run(BEGIN)
    machine.sample_everything()
    machine.go_on_with(runner)
    machine.run(WINDOW)
    records = records_of(machine)
    assert len(records) == WINDOW
    last = None
    told = branches = 0
    for before, record in pairwise(records):
        assert before.pc is not None
        assert record.pc is not None
        if record.pc.VA != before.pc.VA + 4:
            last = record.pc
            branches += before.target is not None
        if last is not None:
            told += 1
            assert record.previous_target is not None
            assert (record.previous_target.VA, record.previous_target.EL) == (last.VA, last.EL)
    assert told > WINDOW // 2
    assert branches > 100


def test_only_branches_while_profiling_count(whole_run: WholeRun) -> None:
    """EL0 alone is profiled: what EL1 did is never told of, and behind it nothing is known."""
    result = whole_run("spe_el0", core="max")
    records = [
        placed.record
        for s in result.records
        for placed in decode_stream(s.record)
        if isinstance(placed, PlacedRecord)
    ]
    known = [r.previous_target for r in records if r.previous_target is not None]
    assert {target.EL for target in known} == {0}
    assert 0 < len(known) < len(records)


@pytest.mark.parametrize("name", ["spe_branches", "spe_el0", "spe_copy"])
def test_fast_and_plain_runner_tell_the_same(name: str, whole_run: WholeRun) -> None:
    result = whole_run(name, core="max")
    assert any(0xB4 in s.record for s in result.records)
    assert differences(name, places(result), 12_000, core="max") == {}


def test_no_such_packet_on_a_core_without_the_feature() -> None:
    machine = Machine("spe_branches", period=17)
    machine.run(100_000)
    assert all(record.previous_target is None for record in records_of(machine))


@pytest.mark.parametrize("period", [1, 2, 5, 11])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_operations_that_are_looked_at_for_alignment_are_no_targets(
    runner: type[Runner], period: int
) -> None:
    """The engine stops in the middle of blocks whose operations are not known yet."""
    code = 0x4000_0000
    start = [a.mrs(1, SCTLR_EL1), a.movz(0, 2), a.orr(1, 1, 0), a.msr(SCTLR_EL1, 1), a.ISB]
    loop = [*[a.add_imm(2, 2, 1)] * 20, a.b(-80)]
    image = image_of({code: a.code([*start, *loop])}, code)
    machine = Machine(image, core="max", runner=runner, period=period)
    machine.run(200)
    target = code + 4 * len(start)
    began = len(start) + len(loop) + 1  # the first operation behind a branch, counted from 1
    for sampled, operation in zip(machine.sampled, machine.operations, strict=True):
        expected = target if sampled.operation >= began else None
        assert operation.previous_target == expected, sampled
