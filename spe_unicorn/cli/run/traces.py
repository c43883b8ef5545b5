"""Traces on the command line: where their lines go, and from which point to which they are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.files import Files, OutputFile
from spe_unicorn.cli.run.legs import Legs
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.debug.misuse_found import Misuse
from spe_unicorn.debug.timeline.collecting import collect
from spe_unicorn.debug.timeline.told import SUFFIXES, with_mistakes, written
from spe_unicorn.debug.tracing.filters import FilterError, resolved
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.outcome import Outcome
from spe_unicorn.session.point import AtOperation

Write = Callable[[str], None]


class Traces:
    """The traces of one run. ``open_file`` makes what writes to a file, ``say`` is standard error.

    Raises UsageProblem for points and filters that this machine does not have.
    """

    def __init__(
        self,
        machine: Machine,
        settings: Settings,
        open_file: Callable[[str], Write],
        say: Write,
    ) -> None:
        self._machine = machine
        self._settings = settings
        self._ends = ExitStack()
        self._writers: dict[str | None, Write] = {None: say}
        self._check()
        for choice in settings.trace:
            if choice.file is not None and choice.file not in self._writers:
                self._writers[choice.file] = open_file(choice.file)
        if settings.trace_start is None:
            self._begin()

    def _check(self) -> None:
        settings = self._settings
        points = {"--trace-start": settings.trace_start, "--trace-stop": settings.trace_stop}
        options = [name for name, point in points.items() if point is not None]
        if not settings.trace and (options or settings.trace_filter):
            raise UsageProblem(f"{(*options, '--trace-filter')[0]} needs --trace")
        if options and settings.snapshot_at is not None:
            raise UsageProblem(
                f"{options[0]} and --snapshot-at: one run goes up to one of them; trace a second"
                " run, from the snapshot"
            )
        try:
            resolved(settings.trace_filter, self._machine.board.names)
        except FilterError as error:
            raise UsageProblem(f"--trace-filter: {error}") from None
        numbers = [p.count for p in points.values() if isinstance(p, AtOperation)]
        if len(numbers) > 1 and numbers[0] > numbers[1]:
            raise UsageProblem("--trace-stop: that point is before the one of --trace-start")

    @property
    def have_points(self) -> bool:
        """Whether there is a point at which they begin or end."""
        return self._settings.trace_start is not None or self._settings.trace_stop is not None

    @property
    def remark(self) -> str | None:
        """What is worth knowing of these traces, if anything."""
        if not self._settings.trace:
            return None
        from spe_unicorn.debug.trace import STOPS_INLINE_COUNTING

        kinds = [kind for choice in self._settings.trace for kind in choice.kinds]
        slow = [kind for kind in kinds if kind in STOPS_INLINE_COUNTING]
        inline = any(pe.cpu.hooks.inline is not None for pe in self._machine.board.pes)
        if not slow or not inline:
            return None
        return f"--trace {slow[0]} looks at each operation: inline counting is off while it does"

    def run(self, legs: Legs) -> tuple[Outcome, str | None]:
        """Run the machine from point to point; what became of it, and what was not reached."""
        start, stop = self._settings.trace_start, self._settings.trace_stop
        if start is not None:
            outcome = legs.run(start)
            if not legs.came_to(start):
                return outcome, f"{start} was not reached: nothing was traced"
            self._begin()
        if stop is not None:
            outcome = legs.run(stop)
            if not legs.came_to(stop):
                return outcome, None
            self._ends.close()
        return legs.run(None), None

    def _begin(self) -> None:
        if not self._settings.trace:
            return
        from spe_unicorn.debug.trace import trace

        for choice in self._settings.trace:
            self._ends.callback(
                trace(
                    self._machine.board,
                    choice.kinds,
                    self._writers[choice.file],
                    "jsonl" if choice.as_json else "text",
                    self._settings.trace_filter,
                )
            )


class TimelineFile:
    """The file of ``--timeline``, which is written when the run is over."""

    def __init__(self, machine: Machine, name: str, file: OutputFile[str]) -> None:
        self._board = machine.board
        self._path = Path(name)
        self._lines = collect(machine.board)
        self.file = file

    @classmethod
    def of(cls, machine: Machine, name: str | None, files: Files) -> TimelineFile | None:
        """Collect what happens on a machine for the file of this name; None for none.

        Raises UsageProblem for a name of no format, or of a file that cannot be written.
        """
        if name is None:
            return None
        if Path(name).suffix not in SUFFIXES:
            raise UsageProblem(f"{name}: a time line is a page or JSON: {', '.join(SUFFIXES)}")
        return cls(machine, name, files.text(name))

    def write(self, mistakes: Iterable[Misuse]) -> None:
        """Write the file, with the mistakes that ``--warn`` found."""
        self.file.write(written(self._path, self._board, with_mistakes(self._lines, mistakes)))
        self.file.close()
