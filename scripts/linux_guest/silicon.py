"""Linux's driver on implementations that Arm allows, from a snapshot after the boot."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spe_unicorn import __version__
from spe_unicorn.cores.overrides import core_text
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.linux.booted import snapshot_file
from spe_unicorn.session.linux.chosen import AFTER_BOOT
from spe_unicorn.session.linux.guest import command_line
from spe_unicorn.session.linux.planned import MODULES, RAM, Wanted, planned
from spe_unicorn.session.linux.starts import Command, Limits, Point, Starts
from spe_unicorn.session.torture.search import Choices, Search, Verdict
from spe_unicorn.spe.record import PlacedRecord, decode_stream

CORE = "max"
TRIALS = 50
WORK = (
    *("spe_client", "-c", "1024", "-o", "/out/spe"),
    *("-e", "arm_spe_0/ts_enable=1/u", "md5sum", "/bin/spe_client"),
)
"""What each trial runs: a program that reads a file, recorded at EL0."""
LIMITS = Limits(20_000_000_000, 6_000.0)
"""What a trial may take: operations, and seconds of a host that does other work besides."""


@dataclass(frozen=True)
class Booted:
    """A guest that waits, and where its commands put files."""

    point: Point
    folder: Path

    @classmethod
    def of(cls, folder: Path, suite: str) -> Booted:
        """The guest, from a snapshot or booted now."""
        wanted = Wanted(out=folder, suite=suite, point=MODULES)
        plan = planned(wanted)
        disk = folder / "initrd"
        disk.write_bytes(plan.initrd)
        options = MachineOptions(
            kernel=str(plan.kernel),
            initrd=str(disk),
            share=plan.stored.share,
            core=CORE,
            ram=RAM,
            append=command_line(None),
            reboot=False,
        )
        kept = wanted.snapshots(__version__)
        file = snapshot_file(options, plan.stored.mounted, kept, lambda text: print(f"# {text}"))
        return cls(Point(options, file, plan.after, folder), folder)

    def verdicts(self, trials: Sequence[Choices]) -> Iterator[Verdict]:
        """What came of the command on each implementation."""
        for choices in trials:
            core = core_text(CORE, choices) if choices else None
            point = Point(**{**vars(self.point), "core": core})
            starts = Starts(point)
            try:
                result = starts.run(0, Command("silicon", WORK), LIMITS)
            finally:
                starts.close()
            why = result.why or _wrong(result.console, result.out)
            yield Verdict(why, 0)
            sys.stdout.flush()


def _wrong(console: str, out: Path | None) -> str:
    """What is wrong with what a command that passed has recorded; empty for nothing."""
    pieces = [line for line in console.splitlines() if line.startswith("aux ")]
    if not pieces:
        return "spe_client did not say what it recorded"
    lost = [line for line in pieces if not line.endswith("lost 0") or "truncated 0" not in line]
    if lost:
        return lost[0]
    files = [] if out is None else sorted(out.glob("spe.*"))
    found = [item for file in files for item in decode_stream(file.read_bytes())]
    if bad := [item for item in found if not isinstance(item, PlacedRecord)]:
        return f"what was recorded has a bad packet: {bad[0].reason}"
    return "" if found else "nothing was recorded"


def search(suite: str, trials: int = TRIALS, seed: int = 0) -> tuple[str, Search | None]:
    """Search ``trials`` implementations; what fails on the usual one, and what was found."""
    with tempfile.TemporaryDirectory() as name:
        booted = Booted.of(Path(name), suite)
        (usual,) = booted.verdicts([{}])
        if not usual.passed:
            return usual.what, None
        found = Search(CORE, booted.verdicts, lambda text: print(f"# {text}"), when=lambda _: ())
        found.search(seed, trials, AFTER_BOOT)
        return "", found
