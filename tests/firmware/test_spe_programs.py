"""Programs about SPE that start above EL1, or on a core of their own, by both runners."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.machine.shipped import shipped_names
from tests.firmware.conftest import LIMIT, WholeRun
from tests.firmware.differences import WINDOW, differences, places
from tests.firmware.programs import RUNS, assert_passed, firmware_machine
from tests.support.machine_runs import Machine

ABOUT_SPE = {name for name in shipped_names() if name.startswith("spe_")}
FOR_ONE_CORE = {"spe_coherence", "spe_counters", "spe_exc", "spe_model"}
SHORT = ("exceptions",)
"""Those short enough to be stepped from beginning to end."""


@pytest.mark.parametrize("run", RUNS)
def test_program_passes_its_own_checks(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    assert_passed(whole_run(name, **options))


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", sorted(ABOUT_SPE - FOR_ONE_CORE))
def test_program_passes_where_micro_operations_and_wrong_paths_are_sampled(name: str) -> None:
    options: dict[str, Any] = {"core": "neoverse-v2", "model": "cache"}
    if name == "spe_smp":
        options["smp"] = 4
    assert_passed(firmware_machine(name, **options).run(LIMIT))


@pytest.mark.sweep
@pytest.mark.parametrize("run", SHORT)
def test_program_runs_as_it_is_stepped(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    stepped = Machine(name, runner=ReferenceRunner, **options).run()
    assert whole_run(name, **options).differences(stepped) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("run", [run for run in RUNS if run not in SHORT])
def test_around_its_samples_a_program_runs_as_it_is_stepped(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    result = whole_run(name, **options)
    assert differences(name, places(result), WINDOW, **options) == {}


def test_where_the_interrupt_comes_at_once_no_sample_is_lost(whole_run: WholeRun) -> None:
    # EL0 executes 9000 times 7 operations and two more; every 257th is sampled
    count = (7 * 9000 + 2) // 257
    told = f"# {count} records, {count} of them as before\n"
    assert told.encode() in whole_run("spe_irq_el1").console
