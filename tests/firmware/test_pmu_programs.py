"""Programs about the Performance Monitors pass, and do the same by both runners."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.options import Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from tests.firmware.conftest import WholeRun
from tests.firmware.differences import differences
from tests.firmware.programs import assert_passed

slow = pytest.mark.slow
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "counts, everything": ("pmu_counts", {"core": "max"}),
    "counts, micro-operations": ("pmu_counts", {"core": "neoverse-n2"}),
    "overflow": ("pmu_overflow", {}),
    "overflow, everything": ("pmu_overflow", {"core": "max"}),
    "access, everything": ("pmu_access", {"core": "max"}),
    "exceptions, everything": ("pmu_exceptions", {"core": "max"}),
    "driver, everything": ("pmu_driver", {"core": "max"}),
    "levels": ("pmu_levels", {}),
    "levels, everything": ("pmu_levels", {"core": "max"}),
}
LONG = ("access, everything", "exceptions, everything", "levels, everything")
WINDOW, WINDOWS = 6_000, 3


@pytest.mark.parametrize("run", [pytest.param(r, marks=slow) if r in LONG else r for r in RUNS])
def test_program_passes_its_own_checks(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    assert_passed(whole_run(name, **options))


@pytest.mark.parametrize("el", [2, 3])
def test_overflows_are_the_same_wherever_the_start_is(el: int, whole_run: WholeRun) -> None:
    """At EL2 only what PMEVTYPER<n>_EL0.NSH lets in is counted."""
    assert_passed(whole_run("pmu_overflow", core="max", el=el))
    assert whole_run("pmu_overflow", core="max", el=el, seed=1).console.endswith(b"\n1..36\n")


def test_counts_pass_where_sampling_from_outside_hides_spe() -> None:
    with Machine(shipped_firmware("pmu_counts"), sampling=Sampling(1000)) as machine:
        outcome = machine.run()
        assert outcome.exit_status == 0
        assert machine.console.text.endswith("\n1..18\n")


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(s, marks=slow) for s in range(4, 8))])
@pytest.mark.parametrize("el", [1, 2])
def test_a_driver_that_knows_32_bits_finds_counters_that_it_can_use(el: int, seed: int) -> None:
    with Machine(shipped_firmware("pmu_driver"), core="max", el=el, seed=seed) as machine:
        outcome = machine.run(100_000)
        assert outcome.exit_status == 0
        assert machine.console.text.endswith("\n1..52\n")


@slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("run", RUNS)
def test_program_passes_whatever_a_reset_leaves_unknown(
    run: str, seed: int, whole_run: WholeRun
) -> None:
    name, options = RUNS[run]
    assert_passed(whole_run(name, seed=seed, **options))


@slow
@pytest.mark.parametrize("run", [run for run in RUNS if run.endswith("everything")])
def test_program_runs_as_it_is_stepped(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    length = whole_run(name, **options).operations
    begins = [1 + n * max(0, length - WINDOW) // (WINDOWS - 1) for n in range(WINDOWS)]
    assert differences(name, begins, WINDOW, **options) == {}
