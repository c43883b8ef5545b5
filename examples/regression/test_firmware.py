"""A regression suite for firmware that profiles itself, as its authors would write it.

Run it with ``pytest examples/regression``. The firmware is what comes with spe-unicorn.
"""

from __future__ import annotations

import pytest

from spe_unicorn.machine.shipped import shipped_firmware

COPY = shipped_firmware("spe_copy")
ECHO = shipped_firmware("uart_echo")


def test_the_buffer_is_drained_and_the_copy_is_sampled(spe_run):
    machine = spe_run(COPY, misuse=True)
    assert machine.exit_status == 0
    assert machine.registers.PMBSR_EL1.S == 0
    assert machine.records.where(op="load").count > 10
    assert machine.misuses == []


def test_records_are_those_of_the_last_release(spe_run, spe_golden):
    spe_golden(spe_run(COPY, seed=1).records, "copy.spe")


@pytest.mark.spe_matrix(core=["generic", "max", "neoverse-n1"], seed=[0, 1])
def test_every_core_passes_its_own_checks(spe_run):
    machine = spe_run(COPY)
    assert "not ok" not in machine.console
    assert machine.exit_status == 0


def test_the_console_answers(spe_machine):
    machine = spe_machine(ECHO)
    machine.type("quiet please")
    machine.run_to_console("QUIET PLEASE", deadline=1_000_000)
