"""A program that would use SPE is told of where it is sampled from outside, and no other."""

from __future__ import annotations

import pytest

from spe_unicorn import Machine, Sampling
from spe_unicorn.machine.shipped import shipped_firmware


@pytest.mark.parametrize("name", ["spe_copy", "spe_irq_el1", "spe_el2_owner", "spe_el3_monitor"])
def test_a_program_with_a_driver_is_told_of(name: str) -> None:
    said = Machine(shipped_firmware(name), sampling=Sampling(1000)).hidden_spe
    assert said is not None
    assert said.startswith("the program gives SPE a buffer (PMBLIMITR_EL1 at ")
    assert "`spe-unicorn run` has SPE" in said


@pytest.mark.parametrize("name", ["hello", "exceptions", "pmu_basic", "timer_count", "priv_gic"])
def test_a_program_without_is_not(name: str) -> None:
    assert Machine(shipped_firmware(name), sampling=Sampling(1000)).hidden_spe is None


def test_a_run_that_shows_spe_says_nothing() -> None:
    assert Machine(shipped_firmware("spe_copy")).hidden_spe is None
