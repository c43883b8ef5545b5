"""A process that runs jobs, each in a child process: ``python -m`` this file.

It reads one line of JSON for each job. It answers with two lines: the child's process number when
the child begins, and the child's exit status and memory when the child has ended. Modules are
loaded once, before the first child. If the process that sends jobs ends, the child is killed, and
nothing more is compiled.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from spe_unicorn.compiled import checked
from spe_unicorn.machine.events import one_event
from spe_unicorn.machine.options import Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.campaigns.jobs import FileOf, Job

CONSOLE = 1 << 20
"""So many of the last characters of the console are kept."""
ROW, REPORT, OUTPUT, ERRORS = "row.json", "report.txt", "console.txt", "errors.txt"
NOTICED = "noticed.json"
"""What was noticed about a run that was looked at."""
COVERED = "coverage.json"
"""What a run has executed that notes it; ELF files are named DIGEST/NAME."""
OWN = "own"
"""The folder for copies of files that a run may change. It is removed when the run has ended."""


def count_column(event: str) -> str:
    """The column of an event that is counted."""
    return f"count.{event}"


def records_file(pe: int) -> str:
    """The file with the records of a PE."""
    return f"records-{pe}.spe"


def serve() -> None:
    """Run the jobs that come in on standard input."""
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)  # what libraries print must not be read as an answer
        for line in sys.stdin:
            child = os.fork()
            if not child:
                _run(json.loads(line))
            print(json.dumps({"process": child}), file=answers)
            status, used = _wait(child)
            answer = {"status": os.waitstatus_to_exitcode(status), "resident": used << 10}
            print(json.dumps(answer), file=answers)


def _wait(child: int) -> tuple[int, int]:
    """Wait for a child. Return its status, and the most KiB of memory that it had."""
    ended = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([ended, sys.stdin], [], [])
        # Nothing is sent before the answer. Input that can be read now is the end of the input.
        if ended not in ready:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    finally:
        os.close(ended)
    _, status, used = os.wait4(child, 0)
    return status, used.ru_maxrss


def _run(request: dict[str, Any]) -> None:
    """The child process: run a job, which writes files, and end."""
    status = 1
    try:
        folder = Path(request["folder"])
        with (folder / ERRORS).open("w") as errors:
            os.dup2(errors.fileno(), 1)
            os.dup2(errors.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        run_job(Job.from_json(request["job"]), Path(request["files"]), folder)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def run_job(job: Job, files: Path, folder: Path) -> None:
    """Run a job, with its files in ``files``, and write its results into ``folder``."""
    from spe_unicorn.debug.report import failure_report
    from spe_unicorn.debug.whereabouts import whereabouts_text
    from spe_unicorn.output.coverage.json_file import to_json
    from spe_unicorn.session.campaigns.noticed import noticed
    from spe_unicorn.session.counters import Counters
    from spe_unicorn.session.machine import Machine

    def path_of(file: FileOf) -> Path:
        return file.within(files)

    own = folder / OWN

    def own_copy(path: Path | None, name: str, is_program: bool) -> Path:
        copy = own / name
        (copy if path is None else copy.parent).mkdir(parents=True, exist_ok=True)
        if path is not None:
            shutil.copyfile(path, copy)
        copy.chmod(0o755 if path is None or is_program else 0o644)
        return copy

    try:
        options = job.machine(path_of, own_copy)
        for copy in (own, *own.rglob("*")):
            if copy.exists():
                os.utime(copy, (0, 0))  # guests see the same times everywhere
        machine = Machine(options, records=False, misuse=job.watch)
        counters = Counters(machine, [one_event(name) for name in job.count])
    except ValueError as error:
        # the message must be the same on every host, wherever the files are
        said = str(error)
        for place, file in job.files.items():
            said = said.replace(str(path_of(file)), file.name)
            said = said.replace(str(own / place / file.name), file.name)
        for each in (each for found in job.folders.values() for each in found):
            said = said.replace(str(own / each.place), each.name)
        (folder / REPORT).write_text(f"{said}\n")
        (folder / ROW).write_text(json.dumps({"ending": "refused", "cause": said}))
        return
    with machine:
        digests = []
        for number, pe in enumerate(machine.board.pes):
            digest = hashlib.sha256()
            stream = (folder / records_file(number)).open("wb")
            pe.unit.streamed.connect(digest.update)
            pe.unit.streamed.connect(stream.write)
            digests.append((digest, stream))
        if job.cover:
            machine.cover()
        typed_at = machine.as_one_console()
        if job.input:
            typed_at.type(job.input)
        limits = job.limits
        outcome = machine.run(limits.max_insns, timeout=limits.timeout, clock=time.process_time)
        for _, stream in digests:
            stream.close()
        console = machine.console.text.replace("\r\n", "\n")
        (folder / OUTPUT).write_text(console[-CONSOLE:])
        if outcome.ending == "failed":
            (folder / REPORT).write_text(failure_report(machine.board))
        elif outcome.ending != "exit":
            (folder / REPORT).write_text(f"{outcome.cause}\n{whereabouts_text(outcome.places)}")
        if job.watch:
            told = noticed(machine, outcome)
            (folder / NOTICED).write_text(json.dumps(told.to_json()))
        if job.cover:
            covered = machine.coverage.moved(lambda path: _within(files, path))
            (folder / COVERED).write_text(to_json(covered))
        checks = machine.finish_checks()
        if checks:
            with (folder / REPORT).open("a") as report:
                report.writelines(f"check: {found}\n" for found in checks)
        counts = outcome.statistics
        exact = outcome.ending != "timeout"  # how far it came depends on the host
        row = {
            "ending": outcome.ending,
            "cause": outcome.cause
            or (f"{checks[0].check} at {checks[0].place}" if checks else None),
            "exit_status": outcome.exit_status,
            "pc": outcome.pc if exact else None,
            "symbol": outcome.symbol if exact else None,
            "checks": len(checks) if options.check else None,
            "operations": outcome.operations if exact else None,
            **{
                name: getattr(counts, name) if exact else None
                for name in (
                    "population",
                    "selected",
                    "collisions",
                    "filtered",
                    "discarded",
                    "lost",
                    "written",
                    "bytes",
                )
            },
            "management_events": sum(counts.management_events.values()) if exact else None,
            **{
                count_column(name): sum(by_pe) if exact else None
                for name, by_pe in zip(job.count, counters.counts(), strict=True)
            },
            "records_sha256": " ".join(d.hexdigest() for d, _ in digests) if exact else None,
            "console_sha256": hashlib.sha256(console.encode()).hexdigest() if exact else None,
            "host_seconds": round(outcome.seconds, 6),
        }
        (folder / ROW).write_text(json.dumps(row))


def _within(folder: Path, path: str) -> str:
    """The path of a file as it is seen from a folder; others stay."""
    return path.removeprefix(f"{folder}{os.sep}")


def prepare() -> None:
    """Load what every run needs, once for all children: modules, compiled code, access rules."""
    machines = import_module("spe_unicorn.session.machine")
    for name in ("report", "whereabouts"):
        import_module(f"spe_unicorn.debug.{name}")
    with suppress(Exception), checked(_end_if_alone):  # the runs will say what is wrong
        machines.Machine(shipped_firmware("hello"), sampling=Sampling(100)).run(operations=1000)
    gc.collect()
    gc.freeze()


def _end_if_alone() -> None:
    """End the process if the one that sends jobs has closed its end of the pipe."""
    pipe = select.poll()
    pipe.register(0, 0)  # POLLHUP is told of in any case, also while a job waits to be read
    if pipe.poll(0):
        raise SystemExit(0)


if __name__ == "__main__":
    prepare()
    with suppress(BrokenPipeError, KeyboardInterrupt):  # the process that sends jobs has ended
        serve()
