"""What it costs to look at a machine, to save and to take one back: CPU time of its own process.

A machine of 128 MiB that has used 20 is saved to a file and restored. A program runs some
operations: without a past, with one, and then all the way back, past a breakpoint and past a
watchpoint that nothing comes to; so everything is looked through, which is the worst case. It also
runs with its accesses to system registers traced; it makes none there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arithmetic import is_refused, lower_quartile, spread
from commands import Finding
from sides import ROOT, ProgramError

if TYPE_CHECKING:
    from spe_unicorn import Machine

PAST: Final = ("snapshot", "reverse", "trace")
"""The groups of figures."""
OPERATIONS, WATCHED = 100_000_000, 1_000_000
USED = 20 << 20
_TITLES: Final = {
    "snapshot-save": ("a machine that used 20 MiB, saved to a file", "s"),
    "snapshot-restore": ("the same, read and restored", "s"),
    "snapshot-size": ("the same, its file", "MiB"),
    "trace-sysreg": ("10^7 operations with --trace sysreg, to without", "times"),
    "reverse-run": ("10^8 operations with a past, to without", "times"),
    "reverse-break": ("10^8 operations back to a breakpoint, to forwards", "times"),
    "reverse-watch": ("10^6 operations back to a watchpoint, to forwards", "times"),
}


def find_past(names: Sequence[str], rounds: int, tell: Callable[[str], None]) -> list[Finding]:
    """Measure the groups of those names in this checkout. Raises ProgramError."""
    found = []
    for group in PAST:
        if group in names:
            results = []
            for number in range(min(rounds, 3)):
                tell(f"{group}: round {number + 1}")
                results.append(_once(group))
            found += [_finding(name, [r[name] for r in results]) for name in results[0]]
    return found


def _finding(name: str, values: list[float]) -> Finding:
    title, unit = _TITLES[name]
    apart = spread(values)
    refused = is_refused(apart)
    return Finding(name, title, unit, None if refused else lower_quartile(values), apart, refused)


def _once(group: str) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), group]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        raise ProgramError(f"{group}: {result.stderr.strip().splitlines()[-1:]}")
    values: dict[str, float] = json.loads(result.stdout)
    return values


# In the process that measures


def _seconds(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def _snapshot() -> dict[str, float]:
    from spe_unicorn import Machine, read_snapshot, write_snapshot
    from spe_unicorn.machine.shipped import shipped_firmware

    machine = Machine(shipped_firmware("hello"))
    machine.run(operations=100)
    noise = random.Random(1).randbytes(USED // 2)
    machine.memory.write(0x4100_0000, noise + bytes(range(256)) * (USED // 2 >> 8))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "snapshot")
        return {
            "snapshot-save": _seconds(lambda: write_snapshot(machine.save(), file)),
            "snapshot-restore": _seconds(lambda: machine.restore(read_snapshot(file))),
            "snapshot-size": file.stat().st_size / (1 << 20),
        }


def _begun() -> Machine:
    """A machine in front of work without an end."""
    from spe_unicorn import Machine
    from spe_unicorn.machine.shipped import shipped_firmware

    machine = Machine(shipped_firmware("bench_sort"), records=False)
    machine.run(until="bench_begin")
    machine.memory.write_int(machine.symbol("bench_iterations"), 1 << 40)
    return machine


def _trace() -> dict[str, float]:
    plain, traced = _begun(), _begun()
    lines: list[str] = []
    traced.trace("sysreg", lines.append)
    taken: dict[Machine, list[float]] = {plain: [], traced: []}
    for number in range(12):  # who is first is faster, so they take turns
        for machine in (plain, traced) if number % 2 else (traced, plain):
            taken[machine].append(_seconds(partial(machine.run, operations=OPERATIONS // 10)))
    if lines:
        raise RuntimeError(f"{len(lines)} accesses were traced; there should be none")
    return {"trace-sysreg": min(taken[traced][2:]) / min(taken[plain][2:])}


def _reverse() -> dict[str, float]:
    from spe_unicorn.debug.gdb.backwards import Backwards
    from spe_unicorn.debug.gdb.breakpoints import SOFTWARE, WRITE, Breakpoints
    from spe_unicorn.debug.travel import PastError, Travel

    def back(machine: Machine, travel: Travel, breakpoints: Breakpoints) -> None:
        try:
            Backwards(machine.board, breakpoints, travel).to_last_stop()
        except PastError:
            return
        raise RuntimeError("something came to where nothing comes")

    def way(
        plain: Machine, machine: Machine, operations: int, breakpoints: Breakpoints
    ) -> tuple[float, float, float]:
        forwards = _seconds(lambda: plain.run(operations=operations))
        travel = Travel(machine.board)
        kept = _seconds(lambda: travel.run(operations))
        return forwards, kept, _seconds(lambda: back(machine, travel, breakpoints))

    never, watched = Breakpoints(), Breakpoints()
    machine = _begun()
    never.insert(SOFTWARE, machine.symbol("_start"), 4)
    watched.insert(WRITE, machine.symbol("bench_spe"), 8)
    many, kept, there = way(_begun(), machine, OPERATIONS, never)
    few, _, looked = way(_begun(), _begun(), WATCHED, watched)
    return {
        "reverse-run": kept / many,
        "reverse-break": there / many,
        "reverse-watch": looked / few,
    }


if __name__ == "__main__":
    json.dump(
        {"snapshot": _snapshot, "reverse": _reverse, "trace": _trace}[sys.argv[1]](), sys.stdout
    )
