"""Twenty mistakes in shipped drivers that pass here: which a search finds, and which are told."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import spe_unicorn
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.campaigns.here import Workers
from spe_unicorn.session.campaigns.plan import Limits
from spe_unicorn.session.machine import Machine as SessionMachine
from spe_unicorn.session.torture.search import drawn, tried_names
from spe_unicorn.session.torture.trials import Trials
from spe_unicorn.spe.unit import StatisticalProfilingUnit
from spe_unicorn.symbols.elf import read_elf
from tests.session.planted import MISTAKES, WORDS, Mistake
from tests.support.machine_runs import Machine

NAMES = tried_names(["buffer_locked", "late_writes", "late_records", "late_bytes", "stale_status"])
MOST = 60
STRONG: list[dict[str, Any]] = [
    {"buffer_locked": True},
    {"late_writes": 1024},
    {"late_records": 4},
    {"late_bytes": True},
    {"stale_status": 256},
]


def batches() -> Iterator[list[dict[str, Any]]]:
    for first in range(0, MOST, 2):
        yield [drawn("max", 0, number, NAMES) for number in (first, first + 1)]


def test_there_are_twenty_of_them_and_each_is_another() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) == 20


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_search_finds_what_a_program_can_tell(mistake: Mistake, tmp_path: Path) -> None:
    options = MachineOptions(mistake.planted(tmp_path), core="max")
    limits, version = Limits(8_000_000, 60.0), spe_unicorn.__version__
    with closing(Trials(options, limits, Workers(2), version, None)) as run:
        assert all(verdict.passed for verdict in run([{}]))
        assert bool(run.misuses()) == mistake.told
        if mistake.found:
            assert any(not verdict.passed for trials in batches() for verdict in run(trials))
        else:
            assert all(verdict.passed for verdict in run(STRONG))


# Why nothing shows without some of them: looked at in the right programs


PMSCR, PMBLIMITR = "PMSCR_EL1", "PMBLIMITR_EL1"
LOCKED = ("PMBPTR_EL1", "PMBSR_EL1")


@pytest.fixture(scope="module")
def accesses() -> list[SystemAccess]:
    """What spe_silicon does with System registers, up to the end of its second session."""
    machine = Machine("spe_silicon", core="max")
    found: list[SystemAccess] = []
    machine.board.pes[0].handler.system.accessed.connect(found.append)
    machine.run(500_000)
    assert sum(one.name == PMBLIMITR and not one.read for one in found) >= 5
    return found


def places(function: str, word: str) -> list[int]:
    source = shipped_firmware("spe_silicon")
    elf = read_elf(source)
    ((start, end),) = elf.symbols.extents(function)
    (piece,) = (p for p in elf.pieces if p.vaddr <= start < p.vaddr + p.file_size)
    offset = piece.offset + start - piece.vaddr
    words = struct.unpack_from(f"<{(end - start) // 4}I", source.read_bytes(), offset)
    return [start + 4 * n for n, found in enumerate(words) if found == WORDS[word]]


@pytest.mark.parametrize("number", range(4))
def test_up_to_the_next_isb_a_missing_one_changes_nothing(
    number: int, accesses: list[SystemAccess]
) -> None:
    """From one ISB to the next profiling stays disabled, and no register is read."""
    isbs = places("main", "ISB")
    between = [one for one in accesses if isbs[number] < one.pc < isbs[number + 1]]
    assert between
    assert not any(one.read or one.name == PMSCR for one in between)
    before = [one for one in accesses if one.pc < isbs[number] and one.name == PMSCR]
    assert {one.value for one in before} == {0}


def test_what_the_driver_clears_first_was_clear(accesses: list[SystemAccess]) -> None:
    first, _ = places("main", "MSR PMBLIMITR_EL1, XZR")
    cleared = [one for one in accesses if one.pc == first]
    assert len(cleared) >= 2
    assert all(one.old is not None and not one.old & 1 for one in cleared)


def test_what_the_driver_clears_last_the_next_session_clears_first(
    accesses: list[SystemAccess],
) -> None:
    first, last = places("main", "MSR PMBLIMITR_EL1, XZR")
    (behind, *_) = [n for n, one in enumerate(accesses) if one.pc == last]
    again = next(n for n, one in enumerate(accesses) if one.pc == first and n > behind)
    assert not any(one.name in LOCKED and not one.read for one in accesses[behind:again])


@pytest.mark.parametrize("program", ["spe_copy", "spe_sve"])
def test_no_bytes_wait_where_records_are_read(program: str, tmp_path: Path) -> None:
    """The DSB of spe_profile is missing: that of spe_stop comes before spe_read_all."""
    (mistake,) = (one for one in MISTAKES if (one.program, one.word) == (program, "DSB NSH"))
    options = MachineOptions(mistake.planted(tmp_path), core="max,late_bytes=on")
    with SessionMachine(options, records=False) as machine:
        machine.run(until="spe_read_all")
        unit = machine.board.pes[0].unit
        assert isinstance(unit, StatisticalProfilingUnit)
        assert unit.statistics.written
        assert unit.lateness.data is not None
        assert not unit.lateness.data.s.pieces


def test_what_spe_branches_profiles_beyond_its_work_is_less_than_an_interval(
    tmp_path: Path,
) -> None:
    """The write that clears PMSCR_EL1 is missing: spe_stop has one, less than a record later.

    The program allows two records outside the work, and reads none behind PMBPTR_EL1 as it was.
    """
    (mistake,) = (
        one for one in MISTAKES if (one.program, one.word[-3:]) == ("spe_branches", "XZR")
    )
    with SessionMachine(MachineOptions(mistake.planted(tmp_path), core="max")) as machine:
        pe = machine.board.pes[0]
        found: list[tuple[SystemAccess, int]] = []
        pe.handler.system.accessed.connect(lambda one: found.append((one, pe.cpu.executed)))
        assert machine.run(4_000_000).exit_status == 0
    enables = [n for n, (one, _) in enumerate(found) if one.name == PMSCR and one.value]
    assert len(enables) == 5
    for first in enables:
        until = next(n for n, (one, _) in enumerate(found) if n > first and one.name == PMSCR)
        cleared, at = found[until]
        reads = [when for one, when in found[first:until] if one.name == "PMBPTR_EL1" and one.read]
        assert cleared.value == 0
        assert len(reads) == 1
        assert at - reads[0] < 256  # the interval
