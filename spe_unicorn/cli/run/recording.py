"""The file of records, ``-o``: what a machine tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from spe_unicorn.arch.operation import Calls
from spe_unicorn.arch.registers.spe import EventClass
from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.files import Files, Happening, Interrupted, Led, OutputFile
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.host.pe.checks.blocks import BlockLog, Happened
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.options import OptionError
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.output.formats import format_of
from spe_unicorn.session.checking.allocators import needed_allocator, returns_of
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.records import recording_info
from spe_unicorn.session.reproduce import command_words
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_OTHER: Final = 0x40


def record_to_file(machine: Machine, settings: Settings, files: Files) -> None:
    """Open the file that ``settings`` name, if any, and have ``machine`` write its records there.

    Raises UsageProblem.
    """
    if settings.output is None:
        if settings.format is not None:
            raise UsageProblem("--format is the format of -o, and there is no -o")
        if settings.call_graph is not None:
            raise UsageProblem(
                "--call-graph writes calls with the records of -o, and there is no -o"
            )
        if settings.heap:
            raise UsageProblem("--heap writes blocks beside the records of -o, and there is no -o")
        if settings.interrupts:
            raise UsageProblem("--interrupts goes with the records of -o, and there is no -o")
        return
    board = machine.board
    calls = settings.call_graph is not None
    if calls and format_of(settings.output, settings.format) == "raw":
        raise UsageProblem(
            f"{settings.output}: a raw stream has no place for --call-graph: write .data or .jsonl"
        )
    for asked, option in ((settings.heap, "--heap"), (settings.interrupts, "--interrupts")):
        if asked and format_of(settings.output, settings.format) != "perf":
            raise UsageProblem(
                f"{settings.output}: only perf.data has a place for {option}: write .data"
            )
    command = tuple(command_words(settings.machine))
    info = replace(recording_info(board, machine.image), command=command, calls=calls)
    written = files.records(settings.output, settings.format, info)
    for pe, file, managed in zip(board.pes, written.records, written.events, strict=True):
        pe.unit.led.connect(partial(_write, file))
        if isinstance(pe.unit, StatisticalProfilingUnit):
            _record_management_events(pe, pe.unit, managed)
    if settings.call_graph is not None:
        board.follow_calls(settings.call_graph)
    if settings.heap:
        _tell_blocks(machine, files, written.blocks)
    if settings.interrupts:
        _tell_interrupts(board, written.interrupts)


def _tell_interrupts(board: Board, file: OutputFile[Interrupted]) -> None:
    """Have it told when software acknowledges an interrupt, and when that ends."""

    def tell(number: int, intid: int, *, ends: bool) -> None:
        file.write((number, board.pes[number].cpu.physical_count(), intid, ends))

    routing = board.peripherals.gic.routing
    routing.activated.connect(partial(tell, ends=False))
    routing.deactivated.connect(partial(tell, ends=True))


def _tell_blocks(machine: Machine, files: Files, file: OutputFile[Happened]) -> None:
    """Have the blocks told that the program gets from its allocator and gives back."""
    try:
        functions = needed_allocator(machine.image, "heap")
    except OptionError as error:
        raise UsageProblem(spelled(str(error))) from None
    returns = returns_of(machine.image, [address for address, *_ in functions])
    log = BlockLog([pe.cpu for pe in machine.board.pes], functions, returns)

    def take() -> None:
        for happened in log.take():
            file.write(happened)

    machine.board.slice_ended.connect(take)
    files.before_close(take)


def _write(file: OutputFile[Led], data: bytes, calls: Sequence[Calls]) -> None:
    file.write((data, calls))


def _kind(event: ManagementEvent) -> int:
    """The kind of an event in a perf.data file, as ``output.perf_format.AUX_EVENTS`` has it."""
    if event.EC != EventClass.OTHER or event.is_full:
        return int(event.EC)
    return _OTHER | event.status


def _record_management_events(
    pe: ProcessingElement, unit: StatisticalProfilingUnit, file: OutputFile[Happening]
) -> None:
    def tell(event: ManagementEvent, _el: int) -> None:
        file.write((pe.cpu.physical_count(), event.data_lost, _kind(event)))

    unit.managed.connect(tell)
