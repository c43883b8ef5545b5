"""What sampling promises, seen on real runs by counting operations."""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.cores.profile import Core, load_core
from tests.firmware.conftest import WholeRun
from tests.host.machine_runs import Machine, Result

SPE_WORDS = ("bench_spe", "bench_iterations")
RND = 1
PMSIRR_EL1 = "PMSIRR_EL1"


def sampled_bench(name: str, interval: int, core: Core | str = "generic", rnd: int = 0) -> Machine:
    """A benchmark that programs SPE with ``interval``; its own writes leave RND as they please."""
    machine = Machine(f"bench_{name}", core=core)
    for symbol, value in zip(SPE_WORDS, (interval, 1), strict=True):
        machine.board.memory.write(machine.symbol(symbol), struct.pack("<Q", value))
    if rnd:
        registers = machine.board.cpu.registers
        counters = machine.board.unit._interval

        def randomize(register: type, _old: int, new: int) -> None:
            if register.__name__ == PMSIRR_EL1 and not new & RND:
                counters.PMSIRR.set(new | RND)

        registers.observe(randomize)
    return machine


def distances(result: Result) -> list[int]:
    """Operations from each record to the next."""
    return [b.operation - a.operation for a, b in pairwise(result.records)]


@pytest.mark.parametrize("interval", [1024, 4096])
def test_fixed_interval_is_one_more_than_it_says(interval: int) -> None:
    result = sampled_bench("sort", interval).run(3_000_000)
    found = distances(result)
    assert len(found) > 400
    # where the program empties its buffer between iterations, profiling is off for a while
    assert Counter(found).most_common(1)[0][0] == interval + 1
    assert sum(d != interval + 1 for d in found) <= 4


def without_ernd() -> Core:
    """The default core, with the random number in front of the interval."""
    core = load_core("generic")
    return replace(core, features=core.features - {Feature.FEAT_SPE_ERnd})


@pytest.mark.parametrize(
    ("core", "extra", "least", "most"),
    [
        (without_ernd(), 128.5, 1025, 1280),
        (load_core("generic"), 1.0, 770, 1280),
    ],
    ids=["added to the interval", "counted after it"],
)
def test_random_interval_has_the_mean_that_the_architecture_gives(
    core: Core, extra: float, least: int, most: int
) -> None:
    found = distances(sampled_bench("sort", 1024, core, RND).run(4_000_000))
    found = [d for d in found if least <= d <= most]
    assert len(found) > 2000
    mean = sum(found) / len(found)
    deviation = math.sqrt(sum((d - mean) ** 2 for d in found) / (len(found) - 1))
    assert abs(mean - (1024 + extra)) < 3 * deviation / math.sqrt(len(found))
    assert len(set(found)) > 200


def test_el0_alone_favours_no_place_after_a_return(whole_run: WholeRun) -> None:
    """``spe_el0`` makes a system call in every round of its loop, and samples EL0 only."""
    result = whole_run("spe_el0")
    places = Counter(s.pc for s in result.records)
    expected = len(result.records) / len(places)
    chi_square = sum((n - expected) ** 2 / expected for n in places.values())
    # far above the 99.9th percentile for so many degrees of freedom, if returns were favoured
    freedom = len(places) - 1
    assert freedom >= 5
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def quiet(result: Result) -> dict[str, object]:
    """What the guest can see of its own run."""
    return {
        "ending": result.ending,
        "operations": result.operations,
        "console": result.console,
        "registers": result.registers,
        "vectors": result.vectors,
        "memory": result.memory,
    }


@pytest.mark.parametrize("name", ["exceptions", "timer_count", "bench_list"])
def test_sampling_from_outside_changes_nothing(name: str) -> None:
    runs = [Machine(name, core="minimal", period=period) for period in (1, 997)]
    off = Machine(name, core="minimal", period=1 << 40)
    expected = quiet(off.run(400_000))
    for machine in runs:
        assert quiet(machine.run(400_000)) == expected
        assert machine.sampled


def test_sampling_by_the_guest_changes_its_buffer_alone() -> None:
    """Two runs that differ in nothing but PMSCR_EL1: the second is told to sample no level."""

    def run(sampling: bool) -> Result:
        machine = sampled_bench("hash", 1024)
        if not sampling:
            registers = machine.board.cpu.registers

            def switch_off(register: type, _old: int, new: int) -> None:
                if register.__name__ == "PMSCR_EL1" and new & 3:
                    registers.set_raw(register, new & ~3)

            registers.observe(switch_off)
        return machine.run(2_000_000)

    on, off = run(True), run(False)
    assert len(on.records) > 500
    assert not off.records
    assert (on.ending, on.operations, on.console) == (off.ending, off.operations, off.console)
    assert on.vectors == off.vectors
    pages = {**on.memory, **off.memory}
    differing = {page for page in pages if on.memory.get(page) != off.memory.get(page)}
    written = {r.record for r in on.records}
    assert differing
    for page in differing:
        assert page not in off.memory, "only pages of the buffer are touched by sampling alone"
        assert any(record in on.memory[page] for record in written)
