"""Machines that start at a point."""

from __future__ import annotations

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pytest_plugin.machine import MachineOfTest

HELLO = shipped_firmware("hello")


def test_equal_machines_start_from_one_snapshot():
    starts = {}
    machines = [MachineOfTest(MachineOptions(HELLO)) for _ in range(2)]
    for machine in machines:
        machine.start_after("console:from", starts)
    assert len(starts) == 1
    first, second = machines
    assert first.machine.operations == second.machine.operations > 0
    assert second.console == first.console == "Hello from"
    assert second.run_to_exit() == 0
    assert second.console == "Hello from bare metal AArch64\n"
