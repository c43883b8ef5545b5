"""What cannot be is an error that names the numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import spe_unicorn
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.shipped import shipped_firmware


@pytest.fixture
def runner() -> Iterator[Runner]:
    with spe_unicorn.Machine(shipped_firmware("hello"), records=False) as machine:
        yield machine.board.pes[0].runner


def test_a_slot_without_a_block(runner: Runner) -> None:
    blocks = runner._parts.blocks
    slot = blocks._slots.index(None)
    with pytest.raises(RuntimeError, match=f"slot {slot:#x} of the table holds no block"):
        blocks.at(slot)


def test_a_stop_for_nothing(runner: Runner) -> None:
    with pytest.raises(RuntimeError, match=f"{runner.cpu.pc:#x}, and no check fails there"):
        runner.handler.memory.checked()


def test_an_operation_that_nobody_looked_at(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = runner._parts.population
    population._counted = -3
    monkeypatch.setattr(population, "_count", lambda members: members == 3)
    with pytest.raises(RuntimeError, match=r"member 0 was chosen, .* the unit knew of -3"):
        population.count_all()
