"""Programs about SPE that start above EL1, or on a core of their own, by both runners."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.machine.shipped import shipped_names
from tests.firmware.conftest import LIMIT, WholeRun
from tests.firmware.programs import firmware_machine
from tests.firmware.test_differential import WINDOW, differences, places
from tests.firmware.test_programs import assert_passed
from tests.support.machine_runs import Machine

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "exceptions": ("spe_exc", {"el": 3, "core": "max"}),
    "EL2's buffer": ("spe_el2_owner", {"el": 2}),
    "EL2's buffer, everything": ("spe_el2_owner", {"el": 2, "core": "max"}),
    "both Security states": ("spe_el3_monitor", {"el": 3}),
    "counters": ("spe_counters", {}),
    "counters, no choices": ("spe_counters", {"core": "minimal"}),
    "counters, everything": ("spe_counters", {"core": "max"}),
    "faults of EL1": ("spe_events", {}),
    "faults of EL1, everything": ("spe_events", {"core": "max"}),
    "faults of EL1, no choices": ("spe_events", {"core": "minimal"}),
    "caches": ("spe_model", {"model": "cache"}),
    "SVE": ("spe_sve", {}),
    "SVE, everything": ("spe_sve", {"core": "max"}),
    "SVE, micro-operations": ("spe_sve", {"core": "neoverse-v2"}),
    "micro-operations": ("mix", {"core": "neoverse-n1"}),
    "micro-operations, wrong paths": ("mix", {"core": "neoverse-v2", "model": "cache"}),
    "faults of EL2": ("spe_events", {"el": 2}),
    "faults of EL2, everything": ("spe_events", {"el": 2, "core": "max"}),
    "faults of EL2, no choices": ("spe_events", {"el": 2, "core": "minimal"}),
}
ABOUT_SPE = {name for name in shipped_names() if name.startswith("spe_")}
SHORT = ("exceptions",)
"""Those short enough to be stepped from beginning to end."""


@pytest.mark.parametrize("run", RUNS)
def test_program_passes_its_own_checks(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    assert_passed(whole_run(name, **options))


@pytest.mark.parametrize("name", sorted(ABOUT_SPE - {"spe_counters", "spe_exc", "spe_model"}))
def test_program_passes_where_micro_operations_and_wrong_paths_are_sampled(name: str) -> None:
    options: dict[str, Any] = {"core": "neoverse-v2", "model": "cache"}
    if name == "spe_smp":
        options["smp"] = 4
    assert_passed(firmware_machine(name, **options).run(LIMIT))


@pytest.mark.parametrize("run", SHORT)
def test_program_runs_as_it_is_stepped(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    stepped = Machine(name, runner=ReferenceRunner, **options).run()
    assert whole_run(name, **options).differences(stepped) == {}


@pytest.mark.parametrize("run", [run for run in RUNS if run not in SHORT])
def test_around_its_samples_a_program_runs_as_it_is_stepped(run: str, whole_run: WholeRun) -> None:
    name, options = RUNS[run]
    result = whole_run(name, **options)
    assert differences(name, places(result), WINDOW, **options) == {}
