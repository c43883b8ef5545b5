"""What a legal implementation does later than at once: direct writes, records, the interrupt.

Arm ARM D17.9: the unit works beside the program, and what orders the two are context
synchronization events, PSB CSYNC and DSB. The plain unit of :mod:`spe_unicorn.spe.unit` has done
everything by the next operation. The objects here put off what may be put off, as the choices of
:class:`~spe_unicorn.arch.features.ImpDef` say. Each puts off a bounded amount.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.ports import IRQLine, PhysicalMemory
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    SPE_REGISTERS,
)
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.plain import Bits64, Count
from spe_unicorn.signals import Signal
from spe_unicorn.spe.lateness.stale import StaleReads
from spe_unicorn.spe.lateness.window import NEVER, Window
from spe_unicorn.stateful import Stateful, expect

LOCKED: Final = frozenset({PMBPTR_EL1, PMBLIMITR_EL1, PMBSR_EL1, PMBMAR_EL1})
"""What ``ImpDef.buffer_locked`` keeps while the buffer is enabled."""
_MOST_BYTES: Final = 1 << 16
"""The most bytes of records that wait for a DSB. Beyond that the oldest ones are written."""


def drawn_delay(random: RandomStream, most: int) -> int:
    """How late something is: 1 to ``most`` operations.

    It takes one draw. With the same draw and a smaller ``most`` the delay is no longer, so that a
    search can make it short.
    """
    return 1 + (random.bits64() * most >> 64)


@dataclass
class Pending:
    """A direct write that has not taken effect."""

    register: str
    value: Bits64
    due: Count
    """The number of executed operations by which it takes effect."""


@dataclass
class DirectWritesState:
    """What is saved of :class:`DirectWrites`."""

    pending: list[Pending] = field(default_factory=list)
    """In program order, one a register."""


class DirectWrites(Stateful[DirectWritesState]):
    """What becomes of direct writes to SPE's registers: at once, late, or never.

    The host asks :meth:`takes` at each MSR and :meth:`shown` at each MRS. It calls :meth:`happen`
    once :attr:`due` operations have been executed, and :meth:`synchronize` at each context
    synchronization event.
    """

    def __init__(
        self,
        registers: RegisterFile,
        choices: ImpDef,
        window: Window,
        random: RandomStream,
    ) -> None:
        self.s = DirectWritesState()
        self._registers = registers
        self._late = {register.__name__: register for register in SPE_REGISTERS}
        self._most = choices.late_writes
        self._locked = choices.buffer_locked
        self._window = window
        self._random = random
        status, counter = choices.stale_status, choices.stale_counter
        stale = StaleReads(registers, status, counter, window)
        self.stale = stale if status or counter else None
        """Has reads give what a register held before; None where none do."""
        self.put_off: Signal[[type[SysReg], int]] = Signal()
        """Told of a write that does not take effect at once, and of :attr:`Pending.due`."""
        self.ignored: Signal[[type[SysReg]]] = Signal()
        """Told of a write that changes nothing: the buffer is locked."""

    @property
    def due(self) -> int:
        """The number of executed operations by which a write takes effect; NEVER for none."""
        return min((write.due for write in self.s.pending), default=NEVER)

    def takes(self, register: type[SysReg], value: int) -> bool:
        """Take a direct write, now or later. False if it is none of these registers'."""
        name = register.__name__
        if name not in self._late:
            return False
        # A direct write comes after an earlier one to the same register, in program order.
        self.s.pending = [write for write in self.s.pending if write.register != name]
        # Each write has a draw, so that a window that ends earlier changes no other delay.
        delay = drawn_delay(self._random, self._most) if self._most else 0
        if not delay or not self._window.allows():
            self._apply(name, value)
            return True
        due = self._window.executed() + delay
        self.s.pending.append(Pending(name, value, due))
        self.put_off(register, due)
        return True

    def shown(self, register: type[SysReg]) -> int:
        """What a direct read gives: the last direct write, though it has not taken effect.

        What the unit has written since may not show yet.
        """
        raw = self._registers.raw(register)
        for write in self.s.pending:
            if write.register == register.__name__:
                mask = self._registers.writable(register)
                return raw & ~mask | write.value & mask
        return raw if self.stale is None else self.stale.shown(register, raw)

    def happen(self) -> None:
        """Have those writes take effect whose time has come."""
        self._apply_all(lambda write: write.due <= self._window.executed())

    def synchronize(self) -> None:
        """A context synchronization event: every earlier write has taken effect."""
        self._apply_all(lambda _: True)

    def forget(self) -> None:
        """The PE was reset."""
        self.s.pending = []

    def check(self, state: DirectWritesState) -> None:
        """Raise StateError for a write of a register that is none of these."""
        for write in state.pending:
            expect(write.register in self._late, f"a late write of {write.register!r}")

    def _apply_all(self, chosen: Callable[[Pending], bool]) -> None:
        pending, self.s.pending = self.s.pending, []
        for write in pending:
            if chosen(write):
                self._apply(write.register, write.value)
            else:
                self.s.pending.append(write)

    def _apply(self, name: str, value: int) -> None:
        register, registers = self._late[name], self._registers
        if self._locked and register in LOCKED and registers.read(PMBLIMITR_EL1).E:
            if register is not PMBLIMITR_EL1 or PMBLIMITR_EL1(value).E:
                self.ignored(register)
                return
            value = registers.read(PMBLIMITR_EL1).replace(E=0).value
        registers.write(register, value)
        if self.stale is not None:
            self.stale.wrote(register)


@dataclass
class WaitingRecord:
    """A record that is made and not written, and its operation."""

    record: bytes
    operation: Operation


@dataclass
class WaitingRecordsState:
    """What is saved of :class:`WaitingRecords`."""

    records: deque[WaitingRecord] = field(default_factory=deque)
    """In the order in which they were made."""
    fenced: Count = 0
    """How many of them were made before the last context synchronization event."""


class WaitingRecords(Stateful[WaitingRecordsState]):
    """Up to ``most`` records that the unit has made and not written.

    A buffer that is full stops profiling before another operation is sampled (Arm ARM D17.9). So
    nothing waits where the records that do would fill it.
    """

    WIRING = ("write", "fit")

    def __init__(self, most: int, window: Window) -> None:
        self.s = WaitingRecordsState()
        self.write: Callable[[bytes, Operation], None] = lambda _record, _operation: None
        """Writes a record, with the controls of now; the unit's."""
        self.fit: Callable[[int], bool] = lambda _size: False
        """Whether the buffer is not full after so many bytes more; the unit's."""
        self._most = most
        self._window = window

    def keep(self, record: bytes, operation: Operation) -> None:
        """Take a record. It, or older ones, may be written now."""
        self.s.records.append(WaitingRecord(record, operation))
        waiting = sum(len(one.record) for one in self.s.records)
        most = self._most if self.fit(waiting) and self._window.allows() else 0
        while len(self.s.records) > most:
            self._write_oldest()

    def fence(self) -> None:
        """A context synchronization event: a PSB CSYNC drains what was made before."""
        self.s.fenced = len(self.s.records)

    def psb_csync(self) -> None:
        """Write the records that were made before the last context synchronization event."""
        for _ in range(self.s.fenced):
            self._write_oldest()

    def forget(self) -> None:
        """The PE was reset: what was not written never is."""
        self.s.records.clear()
        self.s.fenced = 0

    def _write_oldest(self) -> None:
        oldest = self.s.records.popleft()
        self.s.fenced = max(0, self.s.fenced - 1)
        self.write(oldest.record, oldest.operation)


@dataclass
class WaitingState:
    """What is saved of :class:`WaitingBytes`."""

    pieces: deque[tuple[Bits64, bytes, PASpace]] = field(default_factory=deque)
    """In the order in which they were stored."""
    size: Count = 0
    """Bytes of all pieces."""
    drained: Count = 0
    """How many of the pieces a DSB waits for."""


class WaitingBytes(Stateful[WaitingState]):
    """Physical memory that the unit's stores reach at a DSB after a PSB CSYNC.

    The unit itself sees what it has stored as stored. A store where nothing answers is refused at
    once, as by ``memory``.
    """

    def __init__(self, memory: PhysicalMemory, window: Window) -> None:
        self.s = WaitingState()
        self._memory = memory
        self._window = window

    def read(self, address: int, size: int, space: PASpace) -> bytes | None:
        """What memory has; translation tables are not stored here."""
        return self._memory.read(address, size, space)

    def write(self, address: int, data: bytes, space: PASpace) -> bool:
        """Keep a store until :meth:`dsb`; False where memory would not take it."""
        s = self.s
        if not self._window.allows() and not s.pieces:
            return self._memory.write(address, data, space)
        if self._memory.read(address, len(data), space) is None:
            return False
        s.pieces.append((address, data, space))
        s.size += len(data)
        while s.size > _MOST_BYTES:
            self._store_oldest()
        return True

    def psb_csync(self) -> None:
        """What was stored before is waited for by the next DSB."""
        self.s.drained = len(self.s.pieces)

    def dsb(self) -> None:
        """Store what a DSB waits for."""
        for _ in range(self.s.drained):
            self._store_oldest()

    def forget(self) -> None:
        """The PE was reset: store everything, as hardware would have by then."""
        while self.s.pieces:
            self._store_oldest()

    def _store_oldest(self) -> None:
        s = self.s
        address, data, space = s.pieces.popleft()
        s.size -= len(data)
        s.drained = max(0, s.drained - 1)
        self._memory.write(address, data, space)


@dataclass
class LateLineState:
    """What is saved of :class:`LateLine`."""

    level: bool = False
    """The level that the unit drives."""
    due: Count = NEVER
    """The number of executed operations by which the line rises; NEVER while it is not to."""


class LateLine(Stateful[LateLineState]):
    """An interrupt line that rises some operations after it is driven, and falls at once."""

    def __init__(self, line: IRQLine, most: int, window: Window, random: RandomStream) -> None:
        self.s = LateLineState()
        self._line = line
        self._most = most
        self._window = window
        self._random = random

    @property
    def window(self) -> Window:
        """When it may be late."""
        return self._window

    @property
    def due(self) -> int:
        """The number of executed operations by which the line rises; NEVER for no time."""
        return self.s.due

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        s = self.s
        rises = level and not s.level
        s.level = level
        delay = drawn_delay(self._random, self._most) if rises else 0
        if delay and self._window.allows():
            s.due = self._window.executed() + delay
        elif not level or s.due == NEVER:
            s.due = NEVER
            self._line.set_level(level)

    def happen(self) -> None:
        """The line rises, if it is to by now."""
        if self.s.due <= self._window.executed():
            self.settle()

    def settle(self) -> None:
        """The line rises, if it is to at all."""
        if self.s.due != NEVER:
            self.s.due = NEVER
            self._line.set_level(True)
