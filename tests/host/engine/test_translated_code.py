"""How much memory translated code takes, whatever a guest does."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest

from spe_unicorn.host.engine import engine
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
MIB = 1 << 20


@pytest.mark.parametrize(("pes", "expected"), [(1, 256), (2, 256), (4, 256), (8, 128)])
def test_each_engine_has_a_bounded_part_of_what_all_may_have(pes: int, expected: int) -> None:
    assert engine.new_engine(pes).ctl_get_tcg_buffer_size() == expected * MIB


def overwrites_itself() -> Machine:
    """A machine whose code is a block that stores its own first instruction again and again."""
    block = [a.ldr(5, 4, size=2), a.str_(5, 4, size=2), a.b(-8)]
    begin = a.mov64(4, CODE)
    begin.append(a.add_imm(4, 4, 4 * len(begin) + 4))
    return Machine(image_of({CODE: a.code([*begin, *block])}, CODE), ram=16 * MIB)


def resident() -> int:
    """Bytes of memory that this process takes now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much is resident")
def test_a_block_that_overwrites_itself_fills_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 300,000 rounds translates it anew: some 600 bytes."""
    monkeypatch.setattr(engine, "_MOST_TRANSLATIONS", 8 * MIB)
    machine = overwrites_itself()
    machine.run(30_000)
    before = resident()
    machine.run(900_000)
    assert resident() - before < 40 * MIB
    assert machine.board.executed == 930_000
