"""A program whose path depends on PMCCNTR_EL0 does the same each time, however busy the host is."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.machine.options import Sampling
from spe_unicorn.session.machine import Machine
from tests.support import a64 as a
from tests.support.counters import get, put
from tests.support.small_programs import EXIT_7, program

TIMES, TURNS, INTERVAL = 10, 2000, 7
TABLE = 0x4100_0000
CODE = [
    *put(r.PMCCFILTR_EL0, 0),
    *put(r.PMCNTENSET_EL0, 1 << 31),
    *put(r.PMCR_EL0, 0b101),  # E, C
    *a.mov64(2, TABLE),
    a.movz(3, TURNS),
    get(r.PMCCNTR_EL0, 1),  # each turn
    a.str_(1, 2),
    a.add_imm(2, 2, 8),
    a.tbz(1, 3, 12),  # by a bit of the time, two operations more or not
    a.add_imm(4, 4, 1),
    a.add_imm(5, 5, 1),
    a.subs_imm(3, 3, 1),
    a.b_cond(a.NE, -28),
]


@pytest.fixture
def busy() -> Iterator[None]:
    """Twice as many processes as the host has processors, none of which ever waits."""
    spin = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def bytes_of_a_run(elf: str, out: Path) -> tuple[bytes, bytes, int]:
    """The records, the times that the guest read, and how many operations it took."""
    with Machine(elf, sampling=Sampling(INTERVAL)) as machine:
        machine.write_records(out)
        outcome = machine.run()
        assert outcome.exit_status == 7
        times = machine.memory.read(TABLE, 8 * TURNS)
    return out.read_bytes(), times, outcome.operations


@pytest.mark.sweep
@pytest.mark.usefixtures("busy")
def test_ten_runs_have_the_same_bytes(tmp_path: Path) -> None:
    elf = program(tmp_path, a.code(CODE) + EXIT_7)
    runs = {bytes_of_a_run(elf, tmp_path / f"{n}.spe") for n in range(TIMES)}
    ((records, times, operations),) = runs
    read = struct.unpack(f"<{TURNS}Q", times)
    # each time is the one before and the operations of a turn: 6, or 8 where bit 3 was set
    for before, after in pairwise(read):
        assert after - before == (8 if before & 8 else 6)
    assert len(records) // 64 == pytest.approx(operations / INTERVAL, rel=0.05)
