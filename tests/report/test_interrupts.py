"""The interrupts that samples were taken in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import spe_unicorn
from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.perf_format import INTERRUPT
from spe_unicorn.report.interrupts import NONE, Interrupts
from spe_unicorn.report.samples import UNKNOWN, Samples
from spe_unicorn.report.views.overview import View, grouped

NESTED = b"".join(
    INTERRUPT.pack(ticks, cpu, intid, ends)
    for ticks, cpu, intid, ends in (
        (10, 0, 27, 0),
        (20, 0, 30, 0),
        (25, 1, 5, 0),
        (30, 0, 30, 1),
        (40, 0, 27, 1),
        (45, 0, 99, 1),  # was never acknowledged
    )
)


@pytest.mark.parametrize(
    ("cpu", "ticks", "intid"),
    [
        *((0, 9, NONE), (0, 10, 27), (0, 19, 27), (0, 20, 30), (0, 29, 30), (0, 30, 27)),
        *((0, 40, NONE), (0, 50, NONE), (1, 24, NONE), (1, 25, 5), (1, 99, 5), (2, 30, NONE)),
    ],
)
def test_a_sample_is_in_the_last_interrupt_that_has_not_ended(
    cpu: int, ticks: int, intid: int
) -> None:
    found = Interrupts(NESTED).at(np.array([cpu]), np.array([ticks], np.uint64))
    assert found.tolist() == [intid]


def test_a_file_without_interrupts_has_none() -> None:
    assert not Interrupts(b"")
    assert Interrupts(b"").at(np.zeros(2), np.zeros(2, np.uint64)).tolist() == [NONE, NONE]


def test_a_program_is_sampled_in_its_interrupts(tmp_path: Path) -> None:
    """Its interrupts are of the virtual timer (27) and of the physical timer (30)."""
    file = tmp_path / "a.data"
    words = ["record", "-q", "-c", "20", "--interrupts", "-o", str(file)]
    result = CliRunner().invoke(main, [*words, str(shipped_firmware("priv_timer"))])
    assert result.exit_code == 0, result.stderr
    found = Samples(spe_unicorn.read(file))
    rows = grouped(found, View(), ("interrupt", "symbol")).rows
    assert {row[3] for row in rows} == {UNKNOWN, "INTID 27", "INTID 30"}


def test_options_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (["run", "-q", "--interrupts"], "there is no -o"),
        (
            ["run", "-q", "--interrupts", "-o", str(tmp_path / "a.spe")],
            "only perf.data has a place",
        ),
    ):
        result = CliRunner().invoke(main, [*words, str(shipped_firmware("hello"))])
        assert (result.exit_code, said in result.stderr) == (2, True)
