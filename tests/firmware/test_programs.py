"""Every shipped program passes its own checks, and says the same each time."""

from __future__ import annotations

import pytest

from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.shipped import shipped_names
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.firmware.conftest import WholeRun
from tests.firmware.programs import SAMPLING, SELF_CHECKING, assert_passed
from tests.support.machine_runs import Machine

PRIVILEGED = (
    *("beyond_qemu", "first_touch", "priv_el2", "priv_gic", "priv_stage2"),
    *("priv_timer_el2", "priv_vhe"),
)


@pytest.mark.parametrize("name", PRIVILEGED)
def test_privileged_program_passes_its_own_checks(name: str, whole_run: WholeRun) -> None:
    assert_passed(whole_run(name))


@pytest.mark.parametrize("name", SELF_CHECKING)
def test_program_passes_its_own_checks(name: str, whole_run: WholeRun) -> None:
    assert_passed(whole_run(name))


@pytest.mark.parametrize("name", ["hello", "hello_lma", "hello_pie"])
def test_hello_prints_its_line(name: str, whole_run: WholeRun) -> None:
    result = whole_run(name)
    assert (result.ending, result.exit_status) == (Ending.EXIT, 0)
    assert result.console == b"Hello from bare metal AArch64\n"


@pytest.mark.parametrize("name", [n for n in shipped_names() if n.startswith("bench_")])
def test_benchmark_verifies_its_result(name: str, whole_run: WholeRun) -> None:
    result = whole_run(name)
    assert (result.ending, result.exit_status, result.console) == (Ending.EXIT, 0, b"")


@pytest.mark.parametrize("name", SAMPLING)
def test_program_that_samples_has_records(name: str, whole_run: WholeRun) -> None:
    assert whole_run(name).records


@pytest.mark.sweep
@pytest.mark.parametrize("name", SELF_CHECKING)
def test_second_run_is_the_same_byte_for_byte(name: str, whole_run: WholeRun) -> None:
    assert Machine(name).run().differences(whole_run(name)) == {}


def test_random_sample_points_depend_on_the_seed(whole_run: WholeRun) -> None:
    first, second = whole_run("interval"), whole_run("interval", seed=1)
    assert_passed(second)
    points = [[s.operation for s in r.records] for r in (first, second)]
    assert points[0] != points[1]


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name",
    ["spe_copy", "spe_el0", "spe_full"],
)
def test_fixed_sample_points_do_not_depend_on_the_seed(name: str, whole_run: WholeRun) -> None:
    first, second = whole_run(name), whole_run(name, seed=1)
    assert [s.operation for s in first.records] == [s.operation for s in second.records]
    assert first.console == second.console


def test_a_guest_whose_vectors_are_mapped_on_first_touch_is_profiled(whole_run: WholeRun) -> None:
    """Its hypervisor has no record, though it runs between any two of the guest's exceptions."""
    result = whole_run("first_touch")
    placed = [read_record(sampled.record, 0) for sampled in result.records]
    levels = [found.record.pc.EL for found in placed if isinstance(found, PlacedRecord)]
    assert len(levels) == len(result.records) > 50
    assert set(levels) == {0, 1}
