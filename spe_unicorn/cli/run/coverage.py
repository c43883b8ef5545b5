"""``--coverage FILE``: what a run has executed, in the format that the name of the file says."""

from __future__ import annotations

from pathlib import Path

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.files import Files, OutputFile
from spe_unicorn.cli.run.messages import say
from spe_unicorn.session.machine import Machine


class CoverageFile:
    """The file, which is written when the run is over."""

    def __init__(self, machine: Machine, name: str, file: OutputFile[bytes]) -> None:
        self._machine = machine
        self._suffix = Path(name).suffix
        self.file = file

    @classmethod
    def of(cls, machine: Machine, name: str | None, files: Files) -> CoverageFile | None:
        """Have a machine note what it executes for the file of this name; None for none.

        Raises UsageProblem for a name of no format, or of a file that cannot be written.
        """
        if name is None:
            return None
        from spe_unicorn.output.coverage.formats import CoverageError, check_suffix

        try:
            check_suffix(name)
        except CoverageError as error:
            raise UsageProblem(str(error)) from None
        file = files.binary(name)
        machine.cover()
        return cls(machine, name, file)

    def write(self) -> None:
        """Write the file."""
        from spe_unicorn.output.coverage.formats import WRITERS
        from spe_unicorn.output.coverage.model import INCOMPLETE

        coverage = self._machine.coverage
        if coverage.incomplete:
            say(f"spe-unicorn: {INCOMPLETE}\n")
        self.file.write(WRITERS[self._suffix](coverage))
        self.file.close()
