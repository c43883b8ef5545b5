"""The file of records, ``-o``: what a machine tells it."""

from __future__ import annotations

from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.files import Files, Happening, OutputFile
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.records import image_info
from spe_unicorn.session.reproduce import command_words
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit


def record_to_file(machine: Machine, settings: Settings, files: Files) -> None:
    """Open the file that ``settings`` name, if any, and have ``machine`` write its records there.

    Raises UsageProblem.
    """
    if settings.output is None:
        if settings.format is not None:
            raise UsageProblem("--format is the format of -o, and there is no -o")
        return
    sampling, board = settings.machine.sampling, machine.board
    records, events = files.records(
        settings.output,
        settings.format,
        image_info(machine.image),
        cpus=len(board.pes),
        frequency=FREQUENCY,
        midr=board.core.midr,
        period=1 if sampling is None else sampling.period,
        event=None if sampling is None else sampling.event,
        command=tuple(command_words(settings.machine)),
    )
    for pe, file, managed in zip(board.pes, records, events, strict=True):
        pe.unit.streamed.connect(file.write)
        if isinstance(pe.unit, StatisticalProfilingUnit):
            _record_management_events(pe, pe.unit, managed)


def _record_management_events(
    pe: ProcessingElement, unit: StatisticalProfilingUnit, file: OutputFile[Happening]
) -> None:
    def tell(event: ManagementEvent, _el: int) -> None:
        file.write((pe.cpu.physical_count(), event.data_lost))

    unit.managed.connect(tell)
