"""A guest: its kernel, its files, a scenario, and what came of a run of it."""

from __future__ import annotations

import base64
import gzip
import json
import os
import pty
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from libraries import shared_objects

from spe_unicorn.session.linux import steps
from spe_unicorn.session.linux.archive import Packages
from spe_unicorn.session.linux.guest import SETTINGS, Contents, module_path
from spe_unicorn.session.linux.modules import Modules

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCENARIOS = HERE / "guest/scenarios"
_PRELUDE = "prelude.sh"
_WAITING = 20
HOT = HERE / "workload/hot"
KVM = HERE / "workload/kvm"
SHARING = HERE / "workload/sharing"


@dataclass(frozen=True)
class Guest:
    """What is to be booted: ``files`` by their path in the guest, ``modules`` in their order."""

    kernel: Path
    files: dict[str, Path]
    append: str = SETTINGS
    ram: str = "512M"
    modules: Sequence[tuple[str, bytes]] = ()

    @classmethod
    def of(
        cls,
        packages: Packages,
        flavour: str = "cloud",
        *,
        kernel: Path | None = None,
        modules: Sequence[str] = (),
        files: dict[str, Path] | None = None,
        append: str = SETTINGS,
        gdb: bool = False,
    ) -> Guest:
        """A guest with perf, with ``gdb`` GDB, busybox, our workload and the SPE driver.

        ``modules`` are files, or names of the package's. A ``kernel`` of the user's comes with no
        module but those.
        """
        perf = packages.file("usr/bin/perf")
        contents = {"bin/perf": perf, "bin/hot": HOT, "bin/kvm": KVM, "bin/sharing": SHARING}
        contents["bin/busybox"] = packages.file("usr/bin/busybox", "bin/busybox")
        contents |= {f"lib/{file.name}": file for file in shared_objects(perf, packages.root)}
        if gdb:
            debugger = packages.file("usr/bin/gdb")
            contents["bin/gdb"] = debugger
            libraries = shared_objects(debugger, packages.root)
            contents |= {f"lib/{file.name}": file for file in libraries}
        folders = [packages.modules(flavour)] if kernel is None else []
        wanted = modules or ([] if kernel is not None else ["arm_spe_pmu"])
        return cls(
            kernel or packages.kernel(flavour),
            contents | (files or {}),
            append,
            modules=Modules(folders).closure(list(map(str, wanted))),
        )

    def initrd(self, scenario: bytes) -> bytes:
        """The initial RAM disk that runs a scenario."""
        return self._disk(steps.run(["sh", f"/{_PRELUDE}", "/scenario"]), scenario)

    def waiting(self) -> bytes:
        """The initial RAM disk of a guest that waits for scenarios (:func:`typed_words`)."""
        return self._disk(steps.ready())

    def _disk(self, then: bytes, scenario: bytes | None = None) -> bytes:
        installing = steps.do(["/bin/busybox", "--install", "-s", "/bin"])
        names = [name for name, _ in self.modules]
        loading = b"".join(steps.module(module_path(n, name)) for n, name in enumerate(names))
        made = [(_PRELUDE, (HERE / "guest" / _PRELUDE).read_bytes())]
        if scenario is not None:
            made.append(("scenario", scenario))
        added = [(file, f"/{path}") for path, file in self.files.items()]
        links = (("lib64", "lib"), ("usr/lib", "../lib"))
        before = installing if "bin/busybox" in self.files else b""
        return Contents(before + loading + then, None, self.modules, added, made, links).to_bytes()


def typed_words(scenario: bytes) -> tuple[str, ...]:
    """The command that runs a scenario in a guest that waits."""
    return ("sh", "-c", f". /{_PRELUDE}\n{scenario.decode()}")


@dataclass(frozen=True)
class Run:
    """A run that is over. ``seconds`` is CPU time of the host."""

    console: str
    errors: str
    status: int
    seconds: float
    facts: dict[str, object] = field(default_factory=dict)
    """What the emulator says of the run (``--json``)."""

    def section(self, title: str) -> str:
        """What the scenario printed under a title."""
        found = re.search(rf"^=== {re.escape(title)}\n(.*?)(?=^=== |\Z)", self.console, re.M | re.S)
        return found.group(1) if found else ""

    def file(self, name: str) -> bytes:
        """A file that the scenario sent; empty if it did not."""
        text = self.section(f"file {name}")
        return gzip.decompress(base64.b64decode(text)) if text else b""

    @property
    def scenario_status(self) -> int | None:
        """The exit status of the scenario, None if it did not come to its end."""
        found = re.search(r"^=== exit status (\d+)$", self.console, re.M)
        return int(found.group(1)) if found else None


def scenario(name: str) -> bytes:
    """The script of a scenario, by name or path."""
    own = SCENARIOS / f"{name}.sh"
    return (own if own.exists() else Path(name)).read_bytes()


def scenario_names() -> list[str]:
    """The scenarios that come along."""
    return sorted(file.stem for file in SCENARIOS.glob("*.sh"))


def machine_words(guest: Guest, initrd: Path, options: Sequence[str]) -> list[str]:
    """The words for ``spe-unicorn run`` that boot a guest."""
    append = f"console=ttyAMA0 {guest.append}"
    return [
        *("--ram", guest.ram, "--kernel", str(guest.kernel), "--initrd", str(initrd)),
        *("--append", append, *options),
    ]


def command(
    guest: Guest, initrd: Path, options: Sequence[str], words: Sequence[str] = ("run",)
) -> list[str]:
    """The command that boots a guest; ``words`` are the sub-command and options of its own."""
    machine = machine_words(guest, initrd, options)
    return [sys.executable, "-m", "spe_unicorn", *words, *machine]


def start(guest: Guest, script: bytes, options: Sequence[str] = ()) -> int:
    """Boot a guest on this terminal; the exit status."""
    with tempfile.NamedTemporaryFile(suffix=".cpio") as initrd:
        initrd.write(guest.initrd(script))
        initrd.flush()
        return subprocess.run(command(guest, Path(initrd.name), options), cwd=ROOT).returncode


def run(
    guest: Guest,
    script: bytes,
    options: Sequence[str] = (),
    seconds: int = 600,
    words: Sequence[str] = ("run",),
) -> Run:
    """Boot a guest, and see what came of it. It is stopped after so many seconds of CPU time.

    ``words`` are as of :func:`command`. A guest that waits for ever takes no CPU time, so it is
    stopped after twenty times as long by the clock, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        initrd, facts = Path(folder, "initrd"), Path(folder, "facts")
        initrd.write_bytes(guest.initrd(script))
        more = ("--json", str(facts), "--timeout", str(_WAITING * seconds), *options)
        before = children_seconds()
        whole = command(guest, initrd, more, words)
        result = subprocess.run(
            whole,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            preexec_fn=partial(_limit_cpu, seconds),
        )
        return Run(
            result.stdout.decode(errors="replace").replace("\r\n", "\n"),
            result.stderr.decode(errors="replace"),
            result.returncode,
            children_seconds() - before,
            json.loads(facts.read_text()) if facts.exists() else {},
        )


def spoken(
    words: Sequence[str], options: Sequence[str] = (), seconds: int = 600
) -> tuple[int, str, float]:
    """Run ``spe-unicorn`` with a program at the end of ``words``, which ``options`` go before.

    Its status, what it printed, and its CPU time, of which it has so many ``seconds``.
    """
    before = children_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "spe_unicorn", *words[:-2], *options, *words[-2:]],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=partial(_limit_cpu, seconds),
    )
    return done.returncode, done.stdout.decode(errors="replace"), children_seconds() - before


def _limit_cpu(seconds: int) -> None:
    """Have this process end after so many seconds of CPU time, if not sooner."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    others = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_CPU, (min([seconds, *others]), hard))


def talk(
    guest: Guest, script: bytes, says: Sequence[tuple[str, str]], seconds: int = 300
) -> tuple[str, int]:
    """Boot a guest on a terminal, and type as somebody would who sits there.

    ``says`` are pairs: what to wait for, and what to type then. What the terminal showed, and the
    emulator's exit status. It is stopped as by :func:`run`.
    """
    shown = ""
    left = list(says)
    with tempfile.NamedTemporaryFile(suffix=".cpio") as initrd:
        initrd.write(guest.initrd(script))
        initrd.flush()
        ours, theirs = pty.openpty()
        words = command(guest, Path(initrd.name), ("--timeout", str(_WAITING * seconds)))
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=partial(_limit_cpu, seconds),
        )
        os.close(theirs)
        seen = 0
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # nobody has the terminal open any more
                break
            shown += piece.decode(errors="replace")
            if left and (at := shown.find(left[0][0], seen)) >= 0:
                seen = at + len(left[0][0])
                os.write(ours, left.pop(0)[1].encode())
        os.close(ours)
        return shown, process.wait()


def children_seconds() -> float:
    """CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
