"""Direct writes to the Performance Monitors that do not take effect at once.

Arm ARM D24.1.2: a direct write is certain to affect what the counters do, and what another register
shows, only after a context synchronization event. A read by the name that was written gives the
written value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers.pmu import PMU_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import NEVER_HAPPENS, DeviceRegister
from spe_unicorn.plain import Bits64, Count
from spe_unicorn.signals import Signal
from spe_unicorn.spe.lateness.window import Window
from spe_unicorn.stateful import Stateful, expect

_MOST: int = 256
"""The most writes that wait. Beyond that the oldest ones take effect."""
_NAMES = {register.__name__: register for register in PMU_REGISTERS}

Registers = dict[type[SysReg], DeviceRegister]
"""The registers of the Performance Monitors, and what an access does at once."""


@dataclass
class LateWrite:
    """A direct write that has not taken effect."""

    register: str
    value: Bits64
    el: int
    """The Exception level that made it."""
    due: Count
    """The number of executed operations by which it takes effect."""


@dataclass
class LateMonitorsState:
    """What is saved of :class:`LateMonitors`."""

    writes: deque[LateWrite] = field(default_factory=deque)
    """In program order, in which they take effect."""


class LateMonitors(Stateful[LateMonitorsState]):
    """Has direct writes take effect ``most`` operations later.

    A context synchronization event has them take effect earlier. ``at(el)`` gives the registers as
    an Exception level has them. Writes of EL0 and EL3 act at once. It is a
    :class:`~spe_unicorn.host.ports.Watcher` that is a part of the machine.
    """

    def __init__(
        self, cpu: UnicornCPU, at: Callable[[int], Registers], most: int, window: Window
    ) -> None:
        self.s = LateMonitorsState()
        self.window = window
        """When a write may be late."""
        self.put_off: Signal[[type[SysReg], int]] = Signal()
        """Told of a write that does not take effect at once, and of :attr:`LateWrite.due`."""
        self._cpu = cpu
        self._at = at
        self._most = most
        cpu.exception_taken.wire(self._on_exception)

    def registers(self, at_once: Registers) -> Registers:
        """What accesses do, instead of ``at_once``."""
        return {register: _Late(self, register, now) for register, now in at_once.items()}

    @property
    def due(self) -> int:
        """The number of executed operations by which a write takes effect."""
        return self.s.writes[0].due if self.s.writes else NEVER_HAPPENS

    def happen(self) -> None:
        """Have those writes take effect whose time has come."""
        self._settle(lambda write: write.due <= self.window.executed())

    def settle(self) -> None:
        """Every write takes effect."""
        self._settle(lambda _: True)

    def takes(self, register: type[SysReg], value: int) -> bool:
        """Put a write off. False if it is to act at once; then every earlier one has."""
        late = self._cpu.el in (EL1, EL2) and self.window.allows()
        if not late:
            self.settle()
            return False
        writes = self.s.writes
        due = self.window.executed() + self._most
        writes.append(LateWrite(register.__name__, value, self._cpu.el, due))
        if len(writes) > _MOST:
            self._act(writes.popleft())
        self.put_off(register, due)
        return True

    def show(self, register: type[SysReg]) -> None:
        """A register is about to be read: what was written by its name has taken effect."""
        mine = [n for n, write in enumerate(self.s.writes) if write.register == register.__name__]
        for _ in range(mine[-1] + 1 if mine else 0):
            self._act(self.s.writes.popleft())

    def check(self, state: LateMonitorsState) -> None:
        """Raise StateError for a write of a register that is none of these."""
        for write in state.writes:
            expect(write.register in _NAMES, f"a late write of {write.register!r}")
            expect(write.el in (EL1, EL2), f"a late write of EL{write.el}")

    # Called by the runner: host.ports.Watcher

    @property
    def tracking(self) -> bool:
        """Whether a context synchronization event would do something."""
        return bool(self.s.writes)

    @property
    def at_once(self) -> bool:
        """Each context synchronization event does something by itself."""
        return self.tracking

    def reset(self) -> None:
        """The PE was reset: what has not taken effect never does."""
        self.s.writes.clear()

    def executed(self, mark: Mark, pc: int) -> None:
        """An ISB, a PSB CSYNC, a DSB or an ERET was executed."""
        if mark in (Mark.ISB, Mark.ERET):
            self.settle()

    def synchronized(self, executed: int, members: int) -> None:
        """Nothing waited at the time, so nothing follows."""

    def paused(self) -> None:
        """A run has ended: nothing follows."""

    def controls_written(self, pc: int) -> None:
        """A register that steers SPE was written: nothing follows."""

    def foresees_records(self) -> bool:
        """Events of a sample come after the writes before it."""
        return False

    def _on_exception(self, record: ExceptionRecord, entry: ExceptionEntry) -> None:
        self.settle()

    def _settle(self, chosen: Callable[[LateWrite], bool]) -> None:
        while self.s.writes and chosen(self.s.writes[0]):
            self._act(self.s.writes.popleft())

    def _act(self, write: LateWrite) -> None:
        self._at(write.el)[_NAMES[write.register]].write(write.value)


@dataclass(frozen=True)
class _Late:
    """A register whose writes may be late. ``now`` is what an access does at once."""

    monitors: LateMonitors
    register: type[SysReg]
    now: DeviceRegister

    def read(self) -> int:
        """What an MRS gives."""
        self.monitors.show(self.register)
        return self.now.read()

    def write(self, value: int) -> None:
        """What an MSR does."""
        if not self.monitors.takes(self.register, value):
            self.now.write(value)
