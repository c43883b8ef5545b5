"""Connects observers to what happens on the PEs of a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Literal

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Operation
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.processing_element import PE
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.record import PlacedRecord, read_record
from spe_unicorn.spe.unit import StatisticalProfilingUnit

Kind = Literal["record", "management", "exception", "sysreg", "pmbirq", "console", "misuse"]
"""The kinds of what can be observed."""
Observer = Callable[..., object]


def observe_each(
    kind: Kind, pes: Iterable[tuple[PE, ProcessingElement]], observer: Observer
) -> Callable[[], None]:
    """Connect ``observer`` to what happens on some PEs; the returned function disconnects it.

    ``kind`` is neither ``console`` nor ``misuse``: these are not of one PE.
    """
    taken_off = ExitStack()
    for mine, pe in pes:
        disconnect = _connected(kind, mine, pe, observer)
        if disconnect is not None:
            taken_off.callback(disconnect)
    return taken_off.close


def _connected(
    kind: Kind, mine: PE, pe: ProcessingElement, observer: Observer
) -> Callable[[], None] | None:
    """Connect ``observer`` to what happens on one PE; None if it cannot happen there."""

    def on_record(raw: bytes, operation: Operation) -> None:
        placed = read_record(raw, 0)
        if not isinstance(placed, PlacedRecord):
            raise RuntimeError(f"a record of ours cannot be read: {placed}")
        observer(mine, placed.record, raw)

    def on_management(event: ManagementEvent, el: int) -> None:
        observer(mine, event, el)

    def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        observer(mine, record, entry)

    def on_access(access: SystemAccess) -> None:
        observer(mine, access)

    def on_pmbirq(level: bool) -> None:
        observer(mine, level)

    if kind == "record":
        return pe.unit.recorded.connect(on_record)
    if kind == "management":
        if not isinstance(pe.unit, StatisticalProfilingUnit):
            return None
        return pe.unit.managed.connect(on_management)
    if kind == "exception":
        return pe.cpu.exception_taken.connect(on_exception)
    if kind == "sysreg":
        return pe.handler.system.accessed.connect(on_access)
    return pe.pmbirq.changed.connect(on_pmbirq)
