"""A guest that starts each command from the same snapshot, and what came of it."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.storage.backing import VIRTIOFS, split_share
from spe_unicorn.session.linux import disks, steps
from spe_unicorn.session.linux.booted import of_machine
from spe_unicorn.session.linux.chosen import on_another
from spe_unicorn.session.linux.watch import Watch
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.snapshot_file import read_snapshot
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.kallsyms import read_names

SKIPPED = 4
"""The exit status by which the kernel's selftests say that they do not apply."""
RUNNING = ".running-"
"""How the folders begin that are /out while commands run."""
_CONSOLE = 1 << 20
"""Bytes of a command's console that are kept, the last ones."""


@dataclass(frozen=True)
class Command:
    """A command in the guest, by a name."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Limits:
    """What a command may take: operations, and seconds of the host."""

    operations: int | None
    seconds: float


@dataclass(frozen=True)
class Result:
    """What came of a command. ``seconds`` is CPU time of the host."""

    command: Command
    status: int | None
    """The command's exit status; None if the guest ended before it did."""
    why: str | None
    """How it did not pass; None if it did, or was skipped."""
    console: str
    seconds: float
    out: Path | None = None
    """What it wrote below ``/out``, where that is kept."""
    misuses: tuple[str, ...] = ()
    """Mistakes in how the guest programmed SPE, where they are looked for."""

    @property
    def skipped(self) -> bool:
        """Whether it said that it does not apply."""
        return self.why is None and self.status == SKIPPED


@dataclass(frozen=True)
class Point:
    """Where commands start: a machine, a snapshot of it, and the steps before each command.

    If the machine's last disk, one that is made here, or else its last shared folder is ``/out``,
    ``out`` is where a command's is kept, by its number and name; else None.
    """

    options: MachineOptions
    snapshot: Path
    before: bytes
    out: Path | None = None
    misuse: bool = False
    """Whether mistakes in how the guest programs SPE are looked for."""
    symbols: tuple[SymbolChoice, ...] = ()
    """What names addresses of the guest in what is said of mistakes."""
    core: str | None = None
    """A core that commands run on, which differs in choices from that of the snapshot."""

    def typed(self, command: Command) -> bytes:
        """What is typed to have a command run. Raises GuestError for one that is too long."""
        return steps.typed(self.before + steps.run(command.words))


class Starts:
    """A machine that runs one command after the other."""

    def __init__(self, point: Point) -> None:
        self._point = point
        options = point.options
        self._folder: Path | None = None
        self._disk: str | None = None
        if point.out is not None:
            self._folder = Path(tempfile.mkdtemp(prefix=RUNNING, dir=point.out))
        if self._folder is not None and disks.is_out(options.drive):
            self._disk = disks.drive_of(disks.OUT, self._folder)
            disks.make(self._disk)
            options = replace(options, drive=(*options.drive[:-1], self._disk))
        elif self._folder is not None:
            behind = VIRTIOFS if split_share(options.share[-1])[2] else ""
            options = replace(options, share=(*options.share[:-1], f"{self._folder}{behind}"))
        self._snapshot = of_machine(read_snapshot(point.snapshot), options)
        self._symbols = [(read_names(Path(c.path)), c.address) for c in point.symbols]
        self._options = options if point.core is None else replace(options, core=point.core)
        self._printed = bytearray()
        self._watch = Watch()
        self._machine = self._made()
        self._snapshot = self._machine.save()

    def close(self) -> None:
        """The machine is not needed any more."""
        self._machine.close()

    def _made(self) -> Machine:
        """A machine at the snapshot."""
        machine = Machine(self._options, records=False)
        if self._snapshot.identity != machine.identity and self._point.core is not None:
            self._snapshot = on_another(self._snapshot, machine)
        machine.restore(self._snapshot)
        if self._point.misuse:
            for elf, address in self._symbols:
                machine.board.names.add(elf, address)
            machine.watch_misuse()
        machine.console.written.connect(self._read)
        return machine

    def run(self, number: int, command: Command, limits: Limits) -> Result:
        """Run a command from the snapshot."""
        began = time.process_time()
        if self._point.misuse:  # what is known of the registers' past is of one run
            self._machine.close()
            self._machine = self._made()
        machine = self._machine
        if self._disk is not None:
            disks.make(self._disk)
        machine.restore(self._snapshot)
        self._printed.clear()
        self._watch = Watch()
        machine.console.type(self._point.typed(command))
        outcome = machine.run(limits.operations, timeout=limits.seconds)
        return Result(
            command,
            self._watch.status,
            _why(self._watch, outcome.cause),
            self._printed.decode(errors="replace").replace("\r\n", "\n"),
            time.process_time() - began,
            self._keep(number, command),
            tuple(map(str, machine.finish_misuses() or ())),
        )

    def _read(self, data: bytes) -> None:
        self._watch.read(data)
        self._printed += data
        if len(self._printed) > 2 * _CONSOLE:
            del self._printed[:-_CONSOLE]

    def _keep(self, number: int, command: Command) -> Path | None:
        """Move what was written below /out to a folder of its own, with the console."""
        if self._folder is None or self._point.out is None:
            return None
        name = re.sub(r"[^\w.+-]+", "_", command.name)[:80]
        kept = self._point.out / f"{number + 1:04}-{name}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        if self._disk is not None:
            said = disks.take_out(self._disk, kept)
            self._printed += f"{said}\n".encode() * bool(said)
        else:
            for entry in self._folder.iterdir():
                shutil.move(entry, kept / entry.name)
        (kept / "console.txt").write_bytes(self._printed)
        return kept


def _why(watch: Watch, cause: str | None) -> str | None:
    """How a command did not pass; None if it did, or was skipped."""
    if watch.complaints:
        return f"the kernel reported: {watch.complaints[0]}"
    if watch.status is None:
        return f"the guest ended before the command did: {cause or 'it powered off'}"
    return None if watch.status in (0, SKIPPED) else f"exit status {watch.status}"
