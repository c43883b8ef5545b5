"""Lines that go from PE to PE: what records say of them, with both runners."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.caches import Happening
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.firmware.conftest import WholeRun
from tests.firmware.programs import assert_passed
from tests.support.machine_runs import Machine

NAME: Final = "spe_coherence"
OPTIONS: Final[dict[str, Any]] = {"smp": 5, "model": "cache"}


def test_program_passes_its_own_checks(whole_run: WholeRun) -> None:
    assert_passed(whole_run(NAME, **OPTIONS))


def test_sources_and_events_are_those_of_counters_in_one_line_and_apart(
    whole_run: WholeRun,
) -> None:
    pc = Machine(NAME, **OPTIONS).symbol("at_load")
    found: Counter[tuple[int | None, int]] = Counter()
    for sampled in whole_run(NAME, **OPTIONS).records:
        placed = read_record(sampled.record, 0)
        if sampled.pc == pc and isinstance(placed, PlacedRecord):
            found[placed.record.data_source, placed.record.events] += 1
    # two of five scenes share lines; in the other three PE 0 keeps its own
    assert set(found) == {(0x0, 0x16), (0x9, 0x1E), (0xC, 0x31E)}
    assert found[0x0, 0x16] > found[0x9, 0x1E] > 10
    assert found[0xC, 0x31E] > 10


def test_steps_give_the_same_as_runs() -> None:
    fast, stepped = (Machine(NAME, **OPTIONS) for _ in range(2))
    for machine in (fast, stepped):
        machine.board.run(170_000)
    before = taken(fast)
    stepped.go_on_with(ReferenceRunner)
    window = 12_000
    assert fast.run(window).differences(stepped.run(window)) == {}
    assert taken(fast) > before + 500


def taken(machine: Machine) -> int:
    """Lines that came from a PE of the same cluster, to all PEs."""
    models = [m for m in machine.board.models if isinstance(m, CacheModel)]
    return sum(m.data.happened(Happening.FROM_PEER_CORE) for m in models)
