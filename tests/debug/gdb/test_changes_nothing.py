"""Debugging changes nothing: every program writes the same records with GDB's stops and without."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.debug_stops import Watchpoint
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names

GOES_ON = frozenset({Ending.LIMIT, Ending.STOPPED, Ending.WATCHED})
OPERATIONS = 1_500_000
"""Of each run: what a program does after them is not compared."""
OPTIONS: dict[str, dict[str, Any]] = {
    "smp": {"smp": 4},
    "pingpong": {"smp": 2},
    "secure": {"secure": True},
    "el2": {"el": 2},
    "el3": {"secure": True},
    "stage2": {"el": 2},
    "vhe": {"el": 2},
    "beyond_qemu": {"core": "cortex-x4", "el": 2},
    "model": {"model": "cache", "core": "neoverse-v2"},
}
"""By a part of a program's name: on which machine it does most."""


def options_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part, options in OPTIONS.items():
        if part in name:
            found |= options
    return found


def outcome(name: str, *, debugged: bool) -> tuple[bytes, bytes, int]:
    machine = Machine(shipped_firmware(name), **options_of(name))
    if debugged:
        debug(machine, random.Random(name))
    if machine.board.exit_status is None and (left := OPERATIONS - machine.operations) > 0:
        machine.run(operations=left)
    raw = b"".join(pe.records.raw for pe in machine.pes)
    return raw, machine.console.output, machine.operations


def debug(machine: Machine, chance: random.Random) -> None:
    """Run pieces with breakpoints, watchpoints and steps, as GDB has them."""
    board = machine.board
    visited = set()
    for _ in range(60):
        visited.update(pe.cpu.pc for pe in board.pes)
        breakpoints = set(chance.sample(sorted(visited), min(len(visited), 4)))
        step = {chance.randrange(len(board.pes))} if chance.random() < 0.5 else set()
        sp = machine.pes[0].sp
        watched = [Watchpoint(sp - 64, sp - 33, True, True)] if chance.random() < 0.1 else []
        for pe in board.pes:
            begun = (pe.cpu.pc, pe.cpu.executed) if pe.number in step else None
            pe.runner.stops.resume(breakpoints, begun, watched)
        ending = board.run(chance.choice((1, 100, 20_000)))
        if ending not in GOES_ON:
            break
    for pe in board.pes:
        pe.runner.stops.resume(())


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in shipped_names() if not n.startswith("bench")])
def test_a_program_is_the_same_under_a_debugger(name: str) -> None:
    assert outcome(name, debugged=True) == outcome(name, debugged=False)


def test_the_runs_that_are_compared_write_records() -> None:
    records, _, _ = outcome("spe_irq_el1", debugged=True)
    assert zlib.crc32(records) == zlib.crc32(outcome("spe_irq_el1", debugged=False)[0])
    assert len(records) > 10_000
