"""Exceptions that are sampled: which operation each belongs to, described before its entry.

An exception that an operation raises belongs to that operation, and so does one that it asks for
(SVC, HVC, SMC). Any other exception, such as an interrupt, belongs to the operation before which it
is taken. The record of that operation says that it ended in an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.operation import Mark, Operation
from spe_unicorn.decode import decode
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.pmu.exceptions import CALLS
from spe_unicorn.spe.taken import ExceptionSampler

_MASK: Final = (1 << 64) - 1


class TakenExceptions:
    """Tells ``unit`` of exceptions of the kind ``event`` on one PE."""

    TRANSIT = ("_asked", "_before", "_level")

    def __init__(self, cpu: UnicornCPU, unit: ExceptionSampler, event: PMUEvent) -> None:
        self.event = event
        self._cpu = cpu
        self._unit = unit
        self._describer = OperationDescriber(cpu)
        self._level = 0
        self._before: Operation | None = None
        """The operation at the PC, which the PE has not executed or is trying to."""
        self._asked: Operation | None = None
        """The operation before that, if it asks for an exception."""

    def leaving(self, tried: int | None) -> None:
        """An exception is about to be entered. ``tried`` is where the host tries an operation."""
        cpu, describer = self._cpu, self._describer
        self._level = cpu.el
        self._before = self._asked = None
        if not self._unit.wants:
            return
        if cpu.model is not None:
            cpu.model.saw_nothing()  # nothing that is known to be this operation's
        begun = tried is not None
        self._before = describer.begin_sampled(cpu.pc if tried is None else tried)[0]
        describer.raised(self._before, translated=False)
        words = None if begun else cpu.virtual.code(cpu.pc - 4 & _MASK, 1)
        if words and decode(words[0]).mark is Mark.EXCEPTION:
            self._asked = describer.begin_sampled(cpu.pc - 4 & _MASK)[0]
            self._asked.exception = True
        for operation in (self._before if begun else None, self._asked):
            if operation is not None:
                operation.time = cpu.rate.ticks(cpu.cycles - 1)

    def entered(self, record: ExceptionRecord, events: Iterable[PMUEvent]) -> None:
        """The exception was entered, and ``events`` have happened."""
        operation = self._before
        called = record.syndrome is not None and record.syndrome.ec in CALLS
        if record.kind is ExceptionType.SYNC and called and self._asked is not None:
            operation = self._asked
        self._before = self._asked = None
        if self.event in events:
            self._unit.taken(self._level, operation)
