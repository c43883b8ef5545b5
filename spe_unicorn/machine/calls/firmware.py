"""What the machine does for its guest in place of firmware: PSCI, semihosting, switching off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.host.ports import Ending, EngineException
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.calls.answers import answer_call
from spe_unicorn.machine.calls.guest_memory import GuestMemory
from spe_unicorn.machine.calls.psci import CPUOn, SystemAction
from spe_unicorn.machine.calls.semihosting import Exit, Host, Semihosting
from spe_unicorn.machine.calls.shared_folder import SharedFolder
from spe_unicorn.machine.inputs import Inputs
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.plain import Bits8
from spe_unicorn.stateful import Stateful

_SECOND: Final = 1_000_000_000
"""Nanoseconds."""


@dataclass(slots=True)
class FirmwareState:
    """What is saved, beside what semihosting saves."""

    exit_status: Bits8 | None = None
    """What the guest ended with, 0 to 255; None while it has not."""


@dataclass(frozen=True)
class Running:
    """What firmware asks and wants of the run that it is called in."""

    pe: Callable[[], ProcessingElement]
    """The PE that runs."""
    turn_on: Callable[[CPUOn], None]
    """Starts a PE."""
    stopping: Callable[[], bool]
    """Whether the run is to end. It is asked during a long call."""


class Firmware(Stateful[FirmwareState]):
    """Answers HVC, SMC and semihosting calls of all PEs, and ends or resets the machine.

    ``memory_size`` is how many bytes of memory there are.
    """

    WIRING = ("conduit",)

    def __init__(
        self,
        options: MachineOptions,
        inputs: Inputs,
        memory_size: int,
        pes: Sequence[ProcessingElement],
        running: Running,
    ) -> None:
        self._inputs = inputs
        self._pes = pes
        self._running = running.pe
        self._turn_on = running.turn_on
        self._reboots = options.reboot
        self._entropy = RandomSource(options.seed).stream("TRNG")
        folder = options.semihosting_dir
        host = Host(
            write=inputs.ends.write,
            read=inputs.ends.read,
            stopping=running.stopping,
            nanoseconds=lambda: running.pe().cpu.cycles * _SECOND // options.frequency,
            command_line=options.command_line,
            folder=SharedFolder(Path(folder)) if folder is not None else None,
        )
        memory = GuestMemory(memory_size, running.pe, inputs.stored)
        self._semihosting = Semihosting(memory, host)
        self.conduit: str | None = "hvc"
        """How PSCI is called, ``hvc`` or ``smc``; None where the guest owns EL3."""
        self.s = FirmwareState()

    def close(self) -> None:
        """Close the files that the guest left open."""
        self._semihosting.close()

    def call(self, pe: ProcessingElement, exception: EngineException) -> bool:
        """Answer an HVC or SMC of ``pe``. Return False where the call is the guest's."""
        answer = answer_call(pe, exception, self.conduit, self._pes, self._entropy.bits64)
        if isinstance(answer, CPUOn):
            self._turn_on(answer)
        elif isinstance(answer, SystemAction):
            self._system(pe, answer)
        return answer is not False

    def semihosting(self, pe: ProcessingElement) -> bool:
        """Answer a semihosting call: W0 is the operation, X1 its parameter."""
        engine = pe.cpu.engine
        operation, parameter = engine.x(0) & 0xFFFF_FFFF, engine.x(1)
        answer = self._inputs.call(
            lambda: self._semihosting.call(operation, parameter), pe.cpu.virtual.write
        )
        if isinstance(answer, Exit):
            self._end(pe, answer.status)
        else:
            engine.set_x(0, answer)
        return True

    def power_pin(self, pin: int, level: bool) -> None:
        """An output of the Secure PL061 changed: firmware at EL3 switches the machine by it."""
        action = memory_map.POWER_PINS.get(pin)
        if level and action is not None:
            self._system(self._running(), SystemAction(action))

    def _system(self, pe: ProcessingElement, action: SystemAction) -> None:
        """Switch the machine off, or reset it."""
        if action is SystemAction.RESET and self._reboots:
            pe.handler.ending = Ending.RESET
        else:
            self._end(pe, 0)

    def _end(self, pe: ProcessingElement, status: int) -> None:
        self.s.exit_status = status
        pe.handler.ending = Ending.EXIT
