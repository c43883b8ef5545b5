"""The two-speed runner and the reference choose the same operations, and all else is the same."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.firmware.conftest import LIMIT, WholeRun
from tests.firmware.differences import WINDOW, differences, places
from tests.firmware.programs import BENCHMARKS, SAMPLING, SYSTEM, firmware_machine

SHORT = ("hello", "hello_lma", "hello_pie", "exceptions")


def test_a_difference_of_a_single_byte_is_found() -> None:
    machine = firmware_machine("spe_copy")
    result = machine.run(180_000)
    machine.board.ram.bytes[0x12_3456] ^= 1
    assert result.differences(machine.result(result.ending)) == {"memory": "pages 0x40123000"}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", SHORT)
def test_short_program_runs_as_it_is_stepped(name: str, whole_run: WholeRun) -> None:
    assert whole_run(name).differences(firmware_machine(name, runner=ReferenceRunner).run()) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SAMPLING)
def test_around_its_samples_a_program_runs_as_it_is_stepped(name: str, whole_run: WholeRun) -> None:
    assert differences(name, places(whole_run(name)), WINDOW) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in SAMPLING if name != "interval"])
def test_around_its_samples_of_micro_operations_a_program_runs_as_it_is_stepped(
    name: str, whole_run: WholeRun
) -> None:
    begins = places(whole_run(name, core="neoverse-v2"))
    assert differences(name, begins, WINDOW // 2, core="neoverse-v2") == {}


@pytest.mark.sweep
@pytest.mark.parametrize("core", ["generic", "neoverse-v2", "max"])
@pytest.mark.parametrize("name", ["spe_counters", *SAMPLING])
def test_records_made_together_are_those_made_one_by_one(
    name: str, core: str, whole_run: WholeRun
) -> None:
    together = firmware_machine(name, core=core, together=True).run(LIMIT)
    assert together.differences(whole_run(name, core=core), ignoring=["records"]) == {}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(("period", "jitter"), [(64, False), (64, True), (1024, True)])
def test_records_made_together_from_outside_are_those_made_one_by_one(
    period: int, jitter: bool, whole_run: WholeRun
) -> None:
    options: dict[str, Any] = {"period": period, "jitter": jitter, "core": "neoverse-n1"}
    together = firmware_machine("mix", together=True, **options).run(LIMIT)
    assert together.differences(whole_run("mix", **options), ignoring=["records"]) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("jitter", [False, True])
@pytest.mark.parametrize("period", [17, 64, 256])
@pytest.mark.parametrize("name", ["exceptions", "spe_el0", "spe_branches"])
def test_short_periods_from_outside_sample_the_same_operations(
    name: str, period: int, jitter: bool
) -> None:
    assert differences(name, [75_000], 8_000, period=period, jitter=jitter) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("period", [5, 64, 256])
@pytest.mark.parametrize("name", ["exceptions", "spe_el0", "mix"])
def test_short_periods_sample_the_same_micro_operations(name: str, period: int) -> None:
    core = "neoverse-n1"
    assert differences(name, [70_000], 2_000, period=period, core=core) == {}


CACHES = {"core": "max", "model": "cache"}


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name in SAMPLING if name != "interval"])
def test_with_caches_a_program_runs_as_it_is_stepped(name: str, whole_run: WholeRun) -> None:
    at = places(whole_run(name, **CACHES))
    assert differences(name, [at[len(at) // 2]], WINDOW // 4, **CACHES) == {}


@pytest.mark.parametrize("period", [17, 64])
def test_with_caches_short_periods_from_outside_sample_the_same(period: int) -> None:
    options = {"period": period, "core": "neoverse-n1", "model": "cache"}
    assert differences("spe_el0", [75_000], 3_000, **options) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLING)
def test_with_caches_a_whole_program_runs_as_it_is_stepped(name: str, whole_run: WholeRun) -> None:
    stepped = firmware_machine(name, runner=ReferenceRunner, **CACHES).run()
    assert whole_run(name, **CACHES).differences(stepped) == {}


@pytest.mark.slow
@pytest.mark.parametrize("period", [1, 2, 7])
@pytest.mark.parametrize("name", ["exceptions", "spe_el0", "spe_branches"])
def test_shortest_periods_from_outside_sample_the_same_operations(name: str, period: int) -> None:
    assert differences(name, [75_000], 40_000, period=period) == {}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", SHORT)
def test_short_program_sampled_from_outside_runs_as_it_is_stepped(name: str) -> None:
    fast, reference = (
        firmware_machine(name, runner=runner, period=257).run()
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.records
    assert fast.differences(reference) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SYSTEM)
@pytest.mark.parametrize(("period", "operations"), [(None, 20_000), (101, 60_000)])
def test_system_software_runs_as_it_is_stepped(
    name: str, period: int | None, operations: int
) -> None:
    assert differences(name, [50_000], operations, period=period) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SAMPLING, "timer_count"])
def test_whole_program_runs_as_it_is_stepped(name: str, whole_run: WholeRun) -> None:
    assert whole_run(name).differences(firmware_machine(name, runner=ReferenceRunner).run()) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("period", [1000, 4096])
def test_benchmark_sampled_from_outside_runs_as_it_is_stepped(name: str, period: int) -> None:
    assert differences(name, [5_000], 300_000, period=period) == {}
