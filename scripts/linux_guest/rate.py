"""How fast a boot is beside the leanest machine's, what a recording costs the host, and how many
tests a minute start from a snapshot.

``measure`` has each machine run in a process of its own, in turns, and compares CPU times; that
process is this file as a program.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from booted import Booted
from guest import ROOT, Guest, scenario
from lean import Lean

from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.linux.archive import Packages
from spe_unicorn.session.linux.guest import SETTINGS
from spe_unicorn.session.machine import Machine

RAM = 512 << 20
AIM_BOOT, AIM_RECORDING = 0.8, 3.0
TESTS, TEST = 100, b"cat /sys/bus/event_source/devices/arm_spe_0/cpumask\n"
"""How many tests are run, and what each does in the guest before it powers off."""


def measure(packages: Packages, rounds: int) -> None:
    """Measure, and print a line for each figure."""
    guest = Guest.of(packages)
    ratios, rates = [], []
    with tempfile.TemporaryDirectory() as folder:
        boot, cost = Path(folder, "boot"), Path(folder, "cost")
        boot.write_bytes(guest.initrd(scenario("boot")))
        cost.write_bytes(guest.initrd(scenario("cost")))
        for _ in range(rounds):
            lean, whole = (_run(machine, guest, boot) for machine in ("lean", "whole"))
            rates.append((lean["rate"], whole["rate"]))
            ratios.append(whole["rate"] / lean["rate"])
            print(f"# boot: {whole['rate']:.0f} M/s, leanest {lean['rate']:.0f} M/s", flush=True)
        costs, without_perf = [], []
        for _ in range(rounds):
            marks = _run("whole", guest, cost)["marks"]
            plain, nothing, recorded = (marks[b] - marks[a] for a, b in _SPANS)
            costs.append(recorded / plain)
            without_perf.append((recorded - nothing) / plain)
            times = f"{plain:.2f} s, recorded {recorded:.2f} s, true recorded {nothing:.2f} s"
            print(f"# md5sum: {times}", flush=True)
        tests, seconds = _tests(guest, Path(folder, "snapshots"))
    print(f"boot rate, of the leanest machine's: {statistics.median(ratios):.2f} (aim {AIM_BOOT})")
    print(f"host time of perf record: {statistics.median(costs):.1f} (aim below {AIM_RECORDING})")
    print(f"without what perf itself executes: {statistics.median(without_perf):.1f}")
    print(
        f"tests a minute of CPU time, from a snapshot: {tests:.0f}; the boot once: {seconds:.1f} s"
    )


def _tests(guest: Guest, folder: Path) -> tuple[float, float]:
    """How many tests a minute start from a guest that has booted; the time it took to get there."""
    began = time.process_time()
    with Booted(guest, folder) as booted:
        boot = time.process_time() - began
        seconds = [booted.run(TEST).seconds for _ in range(TESTS)]
    return 60 / statistics.median(seconds), boot


_SPANS = (("plain", "nothing"), ("nothing", "recorded"), ("recorded", "end"))


def _run(machine: str, guest: Guest, initrd: Path) -> dict:
    words = [sys.executable, str(Path(__file__)), machine, str(guest.kernel.resolve()), str(initrd)]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def _main(machine: str, kernel: str, initrd: str) -> None:
    """Boot once, and print the rate and when which section began, in seconds of CPU time."""
    marks: dict[str, float] = {}
    line = bytearray()

    def write(data: bytes) -> None:
        line.extend(data)
        if data.endswith(b"\n"):
            words = line.decode(errors="replace").split()
            if words[:1] == ["==="]:
                marks[words[1]] = time.process_time()
            line.clear()

    append = f"console=ttyAMA0 {SETTINGS}"
    options = MachineOptions(ram=RAM, kernel=kernel, initrd=initrd, append=append)
    whole = Machine(options, console=ConsoleEnds(write=write), records=False)
    began = time.process_time()
    if machine == "lean":
        runner = Lean(whole.board)
        runner.run()
        operations = runner.operations
    else:
        operations = whole.run().operations
    seconds = time.process_time() - began
    json.dump({"rate": operations / seconds / 1e6, "marks": marks}, sys.stdout)


if __name__ == "__main__":
    _main(*sys.argv[1:])
