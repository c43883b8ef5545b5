"""The consoles of a run: the two UARTs and the virtio console, and where each of them leads."""

from __future__ import annotations

import sys
from collections.abc import Callable

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import STANDARD_OUTPUT
from spe_unicorn.cli.run.console import Console, Lines
from spe_unicorn.cli.run.files import Files, OnError
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.machine.console_ends import (
    ConsoleEnds,
    always,
    drop,
    end_of_input,
    nobody,
)
from spe_unicorn.session.machine import Machine

CONSOLE = "standard output"
"""The name of the guest's console among the outputs."""


class Consoles:
    """Consoles that lead to standard input and output, to standard error, or to files.

    ``console`` makes a :class:`Console` of what is left to say: where output goes, who is told of
    errors, and whether it is ``buffered``, which none is unless ``buffered`` is True here, too.
    ``on_error`` is called with :data:`CONSOLE` when standard output cannot be written any more.
    ``on_line`` is called with each line that goes to standard error.
    """

    def __init__(
        self,
        settings: Settings,
        files: Files,
        console: Callable[..., Console],
        *,
        on_error: OnError,
        on_line: Callable[[str], None],
        buffered: bool,
    ) -> None:
        self._settings = settings
        self._files = files
        self._console = console
        self._on_error = on_error
        self._on_line = on_line
        self._buffered = buffered
        self._typed: Console | None = None
        """The console at which the user types, if there is one."""
        self._lines: list[Lines] = []
        """Consoles whose lines go to standard error."""

    @property
    def mid_line(self) -> bool:
        """Whether a line of the guest stands unfinished on the terminal."""
        return self._typed is not None and self._typed.mid_line

    def lead(self, machine: Machine) -> None:
        """Lead the consoles of ``machine`` where the settings say. Raises UsageProblem."""
        write, read = self._first()
        console = self._typed
        machine.console.lead_to(
            ConsoleEnds(
                write,
                read,
                end_of_input if console is None else console.arrived,
                nobody if console is None else console.wait,
                always if console is None else console.silent,
                always if console is None else console.patient,
            )
        )
        machine.secure_console.lead_to(ConsoleEnds(self._second()))
        self._lead_virtio(machine)

    def flush(self) -> None:
        """Print what the guest has written so far."""
        if self._typed is not None:
            self._typed.flush()

    def wake(self) -> None:
        """Something else than input has come for the guest; from a signal handler, too."""
        if self._typed is not None:
            self._typed.wake()

    def close(self) -> None:
        """Print what is left, and leave the terminal as it was."""
        if self._typed is not None:
            self._typed.close()
        for lines in self._lines:
            lines.close()

    def _first(self) -> tuple[Callable[[bytes], None], Callable[[int], bytes]]:
        """How the guest writes to the first UART, and reads from it."""
        choice = self._settings.console
        if choice == "none":
            return drop, end_of_input
        if choice != "stdio":
            return self._files.binary(choice.removeprefix("file:")).write, end_of_input
        self._typed = self._terminal()
        return self._typed.write, self._typed.read

    def _second(self) -> Callable[[bytes], None]:
        """How the guest writes to the second UART."""
        choice = self._settings.secure_console
        if not self._settings.machine.secure:
            if choice is not None:
                raise UsageProblem("--secure-console: the second UART is there with --secure only")
            return drop
        if choice == "stdio":
            return (self._typed or self._terminal(buffered=False)).write
        return self._output(choice, "secure: ")

    def _lead_virtio(self, machine: Machine) -> None:
        choice = self._settings.virtio_console
        if not self._settings.machine.virtio_console:
            return
        if choice == "stdio":
            console = self._typed or self._terminal()
            if self._typed is not None:  # what is typed is for the virtio console only
                machine.console.lead_to(
                    ConsoleEnds(console.write, silent=always, patient=console.patient)
                )
            self._typed = console
            ends = ConsoleEnds(console.write, arrived=console.arrived, wait=console.wait)
        else:
            ends = ConsoleEnds(self._output(choice, "virtio: "))
        machine.virtio_console.lead_to(ends)

    def _output(self, choice: str | None, prefix: str) -> Callable[[bytes], None]:
        """How the guest writes to a console of which it reads nothing."""
        if choice == "none":
            return drop
        if choice is None or choice == "stderr":
            self._lines.append(Lines(prefix, self._on_line))
            return self._lines[-1].write
        return self._files.binary(choice.removeprefix("file:")).write

    def _terminal(self, *, buffered: bool = True) -> Console:
        return self._console(
            sys.stderr if _takes_standard_output(self._settings) else sys.stdout,
            on_error=lambda error: self._on_error(CONSOLE, error),
            buffered=buffered and self._buffered,
        )


def _takes_standard_output(settings: Settings) -> bool:
    """Whether an output goes to standard output, so that the console cannot."""
    names = (settings.output, settings.json, *(trace.file for trace in settings.trace))
    return STANDARD_OUTPUT in names
