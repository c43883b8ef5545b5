"""The files that a run writes: all are open before the guest starts, or none is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, NamedTuple, TextIO, TypeVar

from spe_unicorn.arch.operation import Calls
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import STANDARD_OUTPUT
from spe_unicorn.host.pe.checks.blocks import Happened
from spe_unicorn.output.formats import OutputError, open_output
from spe_unicorn.output.image import RecordingInfo

Happening = tuple[int, bool, int]
"""A management event: its time in ticks, whether data are lost, and its kind."""
Led = tuple[bytes, Sequence[Calls]]
"""Records, and the calls that led to each where these are told."""
Interrupted = tuple[int, int, int, bool]
"""An interrupt: its PE, the time in ticks, its INTID, and whether it ends, or is acknowledged."""
T = TypeVar("T", str, bytes, Led, Happening, Happened, Interrupted)

OnError = Callable[[str, OSError], None]
"""Told of the name of a file that could not be written any more, and why."""


class OutputFile(Generic[T]):
    """A file that takes text or records until it fails; a failure is reported, never raised."""

    def __init__(
        self,
        name: str,
        write: Callable[[T], object],
        close: Callable[[], object],
        on_error: OnError,
    ) -> None:
        self._name = name
        self._write: Callable[[T], object] = write
        self._close = close
        self._on_error = on_error
        self._failed = False

    def write(self, data: T) -> None:
        """Add a line of text or a record."""
        if not self._failed:
            try:
                self._write(data)
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """Complete the file; harmless when done before."""
        try:
            self._close()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            self._failed = True
            self._on_error(self._name, error)


class RecordsFile(NamedTuple):
    """What a file of records is told: records and management events by PE, and the rest."""

    records: list[OutputFile[Led]]
    events: list[OutputFile[Happening]]
    blocks: OutputFile[Happened]
    interrupts: OutputFile[Interrupted]


class Files:
    """Opens files for one run. ``inputs`` are files that must not be written over."""

    def __init__(self, inputs: tuple[str, ...], on_error: OnError) -> None:
        self._on_error = on_error
        self._open: list[
            OutputFile[str]
            | OutputFile[bytes]
            | OutputFile[Led]
            | OutputFile[Happening]
            | OutputFile[Happened]
            | OutputFile[Interrupted]
        ] = []
        self._made: list[str] = []
        self._last: list[Callable[[], object]] = []
        self._taken = {os.path.realpath(path): "is read by this run" for path in inputs}

    def records(self, path: str, form: str | None, info: RecordingInfo) -> RecordsFile:
        """A file for records."""
        self._claim(path)
        cpus = info.cpus
        try:
            writer = open_output(path, form, info)
        except OutputError as error:
            raise UsageProblem(str(error)) from error
        except OSError as error:
            raise UsageProblem(complaint(path, error)) from error

        def write(cpu: int, led: Led) -> None:
            writer.write(led[0], cpu, led[1])

        files = [
            OutputFile[Led](path, partial(write, cpu), writer.close, self._on_error)
            for cpu in range(cpus)
        ]
        self._open += files

        def manage(cpu: int, event: Happening) -> None:
            writer.manage(*event, cpu=cpu)

        events = [
            OutputFile[Happening](path, partial(manage, cpu), writer.close, self._on_error)
            for cpu in range(cpus)
        ]
        self._open += events

        def block(happened: Happened) -> None:
            cpu, ticks, address, size, place = happened
            writer.block(ticks, address, size, place, cpu)

        blocks = OutputFile[Happened](path, block, writer.close, self._on_error)
        self._open.append(blocks)

        def interrupt(happened: Interrupted) -> None:
            cpu, ticks, intid, ends = happened
            writer.interrupt(ticks, intid, ends, cpu)

        interrupts = OutputFile[Interrupted](path, interrupt, writer.close, self._on_error)
        self._open.append(interrupts)
        return RecordsFile(files, events, blocks, interrupts)

    def text(self, path: str) -> OutputFile[str]:
        """A file for lines of text."""
        self._claim(path)
        try:
            stream = _open_text(path)
        except OSError as error:
            raise UsageProblem(complaint(path, error)) from error
        file = OutputFile[str](path, stream.write, stream.close, self._on_error)
        self._open.append(file)
        return file

    def binary(self, path: str) -> OutputFile[bytes]:
        """A file for bytes, each of which is there as soon as it is written."""
        self._claim(path)
        try:
            stream = _open_binary(path)
        except OSError as error:
            raise UsageProblem(complaint(path, error)) from error

        def write(data: bytes) -> None:
            stream.write(data)
            stream.flush()

        file = OutputFile[bytes](path, write, stream.close, self._on_error)
        self._open.append(file)
        return file

    def before_close(self, add: Callable[[], object]) -> None:
        """Have ``add`` called before the files are completed: it adds what is left."""
        self._last.append(add)

    def close(self, *but: OutputFile[str] | OutputFile[bytes] | None) -> None:
        """Complete all files but some."""
        while self._last:
            self._last.pop()()
        for file in self._open:
            if file not in but:
                file.close()

    def discard(self) -> None:
        """Close all files and remove those that were not there before."""
        self.close()
        for path in self._made:
            Path(path).unlink(missing_ok=True)

    def _claim(self, path: str) -> None:
        """Make sure that nothing else in this run uses a file."""
        if path == STANDARD_OUTPUT:
            real = path
        else:
            real = os.path.realpath(path)
            if os.path.exists(path) and not os.path.isfile(path):
                return  # a terminal or a pipe takes what several write
            if not os.path.exists(path):
                self._made.append(path)
        if real in self._taken:
            raise UsageProblem(f"{path}: {self._taken[real]}")
        self._taken[real] = "is named for two outputs"


def _open_text(path: str) -> TextIO:
    if path == STANDARD_OUTPUT:
        return os.fdopen(os.dup(1), "w", encoding="utf-8")
    return Path(path).open("w", encoding="utf-8")


def _open_binary(path: str) -> BinaryIO:
    if path == STANDARD_OUTPUT:
        return os.fdopen(os.dup(1), "wb")
    return Path(path).open("wb")


def complaint(path: str, error: OSError) -> str:
    """What is wrong with a file, in a line."""
    return f"{path}: {error.strerror or error}"
