"""The check of loads past the cache: Arm ARM B2.8 (mismatched attributes), D7.5 (maintenance)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.host.pe.checks.noncoherent import Coherence, Contexts, Pages, _Tables
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.checking.checks import MemoryChecks
from spe_unicorn.session.checking.found import CheckFinding
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.small_programs import program

PROGRAM = shipped_firmware("stale_lines")
POISONED = 0xDBDB_DBDB_DBDB_DBDB


def found_by(mistake: str, smp: int = 1) -> tuple[CheckFinding, ...]:
    options = MachineOptions(PROGRAM, arguments=(mistake,), check=("noncoherent",), smp=smp)
    board = Board(options, ConsoleEnds(lambda data: None))
    plan = boot_plan(options)
    board.start(plan)
    checks = MemoryChecks(board, plan.image, options)
    board.run()
    assert board.exit_status == 0
    return checks.finish()


@pytest.mark.parametrize(
    ("mistake", "function"), [("alias", "sum_of"), ("late", "main"), ("off", "read_with_mmu_off")]
)
def test_a_line_that_was_not_cleaned_is_read_past_the_cache(mistake: str, function: str) -> None:
    (found,) = found_by(mistake)
    assert f"<{function}+" in found.place
    assert "<main+" in found.calls[0] or function == "main"
    with Machine(PROGRAM, arguments=(mistake,)) as machine:
        assert found.operation is not None
        machine.run(found.operation)
        assert hex(machine.pes[0].pc) in found.place


def test_a_further_pe_reads_nothing_past_the_cache_before_its_mmu_is_on() -> None:
    """What the first PE stores with its MMU on, page tables among it, is in its caches."""
    with Machine(shipped_firmware("priv_smp"), smp=4, seed=7, check=("noncoherent",)) as machine:
        assert machine.run().exit_status == 0
        assert machine.finish_checks() == ()


def test_a_program_that_cleans_has_nothing() -> None:
    assert found_by("") == found_by("", smp=2) == ()


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("exceptions", {}),
        ("priv_el1", {}),
        ("priv_vhe", {"el": 2}),
        ("priv_el3", {"secure": True}),
        ("priv_stage2", {"el": 2}),
    ],
)
def test_a_program_whose_mmu_goes_off_or_is_off_at_a_higher_level_cleans(
    name: str, options: dict[str, Any]
) -> None:
    with Machine(shipped_firmware(name), check=("noncoherent",), **options) as machine:
        assert machine.run().exit_status == 0
        assert machine.finish_checks() == ()


def test_pages_that_a_hypervisor_maps_late_are_as_it_maps_them_at_the_level_that_stores() -> None:
    """Stage 2 is Non-cacheable, so what a guest stores is in memory, where EL2 loads it.

    One of the guest's vectors has an address that leads nowhere at EL2.
    """
    with Machine(shipped_firmware("first_touch"), el=2, check=("noncoherent",)) as machine:
        assert machine.run().exit_status == 0
        assert machine.finish_checks() == ()


START = [*a64.mov64(1, RAM + 0x2000), a64.movz(0, 7)]


def test_without_translation_a_pe_sees_its_own_stores(tmp_path: Path) -> None:
    """SCTLR_EL1.M is 0: stores go past the cache, too."""
    code = a64.code([*START, a64.str_(0, 1), a64.ldr(2, 1), a64.b(0)])
    with Machine(program(tmp_path, code), el=1, check=("noncoherent",)) as machine:
        machine.run(len(START) + 2)
        assert machine.finish_checks() == ()
        assert machine.pes[0].x[2] == 7


def test_the_load_sees_poison_and_memory_keeps_what_was_stored() -> None:
    with Machine(PROGRAM, arguments=("off",), check=("noncoherent",)) as machine:
        machine.run(until="read_with_mmu_off")
        word = machine.pes[0].x[0]
        machine.run(10)
        assert POISONED in [machine.pes[0].x[n] for n in range(31)]
        assert machine.memory.read_int(word, 8) == 7


def test_a_restored_machine_has_clean_lines_and_still_looks() -> None:
    with Machine(PROGRAM, arguments=("late",), check=("noncoherent",)) as machine:
        machine.run(until="sum_of")
        machine.restore(machine.save())
        machine.run()
        (found,) = machine.finish_checks()
    assert found.operation is None
    assert found.what.endswith(", at main+0x140")


def test_tables_are_not_looked_through_again_where_nothing_of_translation_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each exception of the program writes CPACR_EL1, which is in the group of SCTLR_EL1."""
    scanned = []
    scan = Coherence.scan

    def counted(whole: Coherence, contexts: Contexts, tables: _Tables, pages: Pages) -> int:
        scanned.append(contexts)
        return scan(whole, contexts, tables, pages)

    monkeypatch.setattr(Coherence, "scan", counted)
    with Machine(shipped_firmware("spe_el0"), check=("noncoherent",)) as machine:
        machine.run(100_000)
    assert 2 <= len(scanned) < 20
