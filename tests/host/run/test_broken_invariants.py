"""What cannot be is an error that names the numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import spe_unicorn
from spe_unicorn.arch.access.verdicts import Allowed, Rule
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.registers.spe import PMBPTR_EL1
from spe_unicorn.debug.misuse import _before
from spe_unicorn.decode import decode
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe import description
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.host.pe.vectors import governing_predicate
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.calls.psci import CPUOn
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64 as a


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
        runner.handler.refused.checked(None)


def test_a_stop_that_is_for_no_operation(runner: Runner) -> None:
    with pytest.raises(RuntimeError, match=f"BUDGET at {runner.cpu.pc:#x} is for no operation"):
        runner.handler.handle(Stop.BUDGET)


def test_an_operation_that_nobody_looked_at(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    population = runner._parts.population
    population._counted = -3
    monkeypatch.setattr(population, "_pass_by", lambda members: members == 3)
    with pytest.raises(RuntimeError, match=r"member 0 was chosen, .* the unit knew of -3"):
        population.count_all()


def test_a_wrong_path_that_is_no_member(runner: Runner) -> None:
    runner.cpu.state.wrong, runner.cpu.state.wrong_path = 1, -4
    with pytest.raises(RuntimeError, match="wrong path from 0xfffffffffffffffc is to count"):
        runner._parts.population.take_wrong_path()


def test_elements_without_a_predicate(runner: Runner) -> None:
    with pytest.raises(RuntimeError, match="no predicate governs 0xd503201f"):
        governing_predicate(runner.cpu, decode(a.NOP))


def test_a_register_that_held_nothing() -> None:
    verdict = Allowed(PMBPTR_EL1, rule=Rule("EL1", ""))
    access = SystemAccess(0x4000, 1, "PMBPTR_EL1", PMBPTR_EL1, True, 0, None, None, verdict)
    with pytest.raises(RuntimeError, match="PMBPTR_EL1, accessed at 0x4000, held nothing"):
        _before(access)


def test_another_pe_on_a_board_of_one() -> None:
    with (
        spe_unicorn.Machine(shipped_firmware("hello"), records=False) as machine,
        pytest.raises(RuntimeError, match="PE 1 is to go on"),
    ):
        machine.board._turn_on(CPUOn(1, 0x4000_0000, 0))


def test_an_access_without_an_address(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "vector_bits", lambda cpu: 256)
    load = Operation(decode(0x8580_4020), 0x4000, 1)  # LDR Z0, [X1]
    with pytest.raises(RuntimeError, match="0x85804020 at 0x4000 makes an access without an addr"):
        runner._parts.describer._vectors(load)
