"""What stops the engine before an operation: alignment, tags, the guest's debug, and a debugger.

While nothing is checked anywhere, there is no hook and no cost. One compiled hook before every
operation watches memory and checks alignment and tags. A breakpoint has a hook before only its
operation. System accesses are looked at by the hook that sees them anyway. Each of these hooks
stops the engine before the operation, with ``Stop.ACCESS``. Then :class:`Checks` decides what
becomes of it.

The guest goes first: a debugger outside is told of operations that raise no exception, and
observers are told of those that nothing stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from ctypes import c_size_t
from enum import Enum
from typing import Final, NamedTuple, Protocol

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.exceptions.routing import Routed
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.bits import signed
from spe_unicorn.decode import decode
from spe_unicorn.host.native import checks as native
from spe_unicorn.host.pe.checks.accesses import accesses_of, row_of
from spe_unicorn.host.pe.checks.alignment import Alignment
from spe_unicorn.host.pe.checks.debug import SelfHostedDebug
from spe_unicorn.host.pe.checks.observing import Observer, Observers
from spe_unicorn.host.pe.checks.tags import TagChecks
from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1
_PATIENCE: Final = 8
"""Slices after which an unused hook is removed."""
_ADDRESS: Final = (1 << native.ADDRESS_BITS) - 1


class Found(Enum):
    """What was found at an operation before which the engine stopped to have it looked at."""

    NOTHING = "nothing"
    """It may execute."""
    UNKNOWN = "unknown"
    """The hook does not know what to check there."""
    FAULT = "fault"
    """It raises an exception in place of executing."""
    OUTSIDE = "outside"
    """A debugger outside wants the run to end before it."""


class FailedCheck(NamedTuple):
    """The exception that an operation raises in place of executing, or where a load ends."""

    routed: Routed | None
    """None where a load of SVE ends at :attr:`element` and raises no exception."""
    address: int | None = None
    """What FAR_ELx shows, a virtual address."""
    translated: bool = False
    """Whether the address of the access was translated first, as before a watchpoint and before a
    failed tag check. Breakpoints and alignment go first."""
    element: int = 0
    """The element of a non-fault or first-fault load from which on nothing is loaded."""


class Debugger(Protocol):
    """A debugger outside, which wants runs to end before operations; see :meth:`Checks.attach`."""

    @property
    def watched(self) -> Collection[tuple[int, int, bool, bool]]:
        """Ranges: first and last virtual address, whether loads and whether stores count."""
        ...

    @property
    def breakpoints(self) -> Collection[int]:
        """Virtual addresses of operations."""
        ...

    def stops(self, pc: int, accesses: tuple[MemoryAccess, ...]) -> bool:
        """Whether the run is to end before the operation at ``pc``.

        It is asked at breakpoints, and before operations that may touch what is watched, with the
        accesses that they are about to make. If it says yes, it is asked again in the next run.
        """
        ...


class Checks:
    """The checks before operations of one PE."""

    DERIVED = ("_breakpoints", "_hook", "_idle_slices", "active", "_ranges", "_table")
    TRANSIT = ("passing",)
    WIRING = ("_debugger",)

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._debugger: Debugger | None = None
        self._table = np.full(native.CHECKS, -1, native.CHECK)
        self._ranges = np.zeros(native.RANGES, native.RANGE)
        self._idle_slices = 0
        """How many slices have ended since anybody used the hook before every operation."""
        self._hook: c_size_t | None = None
        """The hook before every operation."""
        self._breakpoints: dict[int, c_size_t] = {}
        """The hooks at breakpoints, by address."""
        self.observers = Observers(cpu)
        """The observers of operations."""
        self.alignment = Alignment(cpu, self.changed)
        self.debug = SelfHostedDebug(cpu)
        self.tags = TagChecks(cpu)
        self.active = False
        """Whether anything is checked anywhere."""
        self.passing = False
        """Whether the next operation has been looked at and is let through."""
        cpu.state.checks = self._table.ctypes.data
        cpu.state.ranges = self._ranges.ctypes.data

    def attach(self, debugger: Debugger | None) -> None:
        """Have ``debugger`` asked, if any. Call this again when what it wants changes."""
        self._debugger = debugger
        self.changed()

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Have ``observer`` told of operations. Call what is returned to end that."""
        self.observers.add(observer)
        self.changed()

        def end() -> None:
            self.observers.remove(observer)
            self.changed()

        return end

    def note(self, *, noted: bool) -> None:
        """Have each operation noted in :attr:`observers` for one more trace, or for one less."""
        self.observers.note(noted=noted)
        self.changed()

    def changed(self) -> None:
        """Work out anew what is checked: a register of alignment or debug may have been written.

        The engine must be at rest.
        """
        cpu = self._cpu
        if not cpu.whole:
            return
        self.alignment.changed()
        self.debug.changed()
        self.tags.changed()
        self.observers.changed()
        ranges = [*self.debug.ranges, *self._outside_ranges()][: native.RANGES]
        for n, row in enumerate(ranges):
            self._ranges[n] = row
        cpu.state.watched = len(ranges)
        outside = frozenset() if self._debugger is None else frozenset(self._debugger.breakpoints)
        self._break_at(self.debug.addresses | outside)
        every = any(self.alignment.levels) or any(self.tags.levels) or bool(ranges) or self._every
        every = every or self.observers.looks_within
        self.active = every or bool(self._breakpoints) or self.observers.active
        if every:
            self._hook_every_operation()

    @property
    def _every(self) -> bool:
        return any(level & native.EVERY for level in self.debug.levels)

    def _outside_ranges(self) -> list[tuple[int, int, int]]:
        watched = [*self.observers.watched]
        if self._debugger is not None:
            watched += self._debugger.watched
        return [
            (first & _ADDRESS, last & _ADDRESS, reads * native.LOADS | writes * native.STORES)
            for first, last, reads, writes in watched
        ]

    def _hook_every_operation(self) -> None:
        """Add the hook before every operation. :meth:`relax` removes it."""
        cpu = self._cpu
        if self._hook is None:
            self._hook = cpu.hooks.add(uc_const.UC_HOOK_CODE, native.on_operation.address)
            cpu.engine.forget_all_code()

    def relax(self) -> None:
        """A slice has ended: remove the hook before every operation if it is no longer used.

        It is removed only after some slices without use. An operating system that debugs one of its
        processes switches watchpoints off and on, and each removal forgets all translated code.
        """
        cpu = self._cpu
        if self._hook is None or self.active:
            self._idle_slices = 0
            return
        self._idle_slices += 1
        if self._idle_slices < _PATIENCE:
            return
        cpu.hooks.delete(self._hook)
        self._hook = None
        cpu.engine.forget_all_code()

    def _break_at(self, addresses: frozenset[int]) -> None:
        """Have hooks before the operations at ``addresses``, and no others."""
        cpu = self._cpu
        for address in self._breakpoints.keys() - addresses:
            cpu.hooks.delete(self._breakpoints.pop(address))
            cpu.engine.forget_code(address, address + 4)
        for address in addresses - self._breakpoints.keys():
            hook = native.on_breakpoint.address
            bounds = (address, address)
            self._breakpoints[address] = cpu.hooks.add(uc_const.UC_HOOK_CODE, hook, bounds=bounds)
            cpu.engine.forget_code(address, address + 4)

    @property
    def deciding(self) -> tuple[object, ...]:
        """What :meth:`at` follows from: while it is the same, nothing else is checked anywhere."""
        debugger = self._debugger
        watches = None if debugger is None else bool(debugger.watched)
        observers = self.observers
        noted, checking = observers.noted, observers.checking
        levels = self.alignment.levels, self.debug.levels, self.tags.levels
        return self.passing, noted, checking, watches, *levels

    def at(self, el: int) -> int:
        """What is checked at an Exception level: ``State.checking``."""
        if self.passing:
            return self.observers.noted
        outside = self.observers.checking
        if self._debugger is not None:
            outside |= native.BREAK | (native.WATCH if self._debugger.watched else 0)
        inside = self.alignment.levels[el] | self.debug.levels[el] | self.tags.levels[el]
        return inside | outside

    def learn(self, pc: int, operations: int) -> None:
        """Tell the hook what to check at each of ``operations`` operations from ``pc`` on."""
        cpu = self._cpu
        words = cpu.virtual.code(pc, operations) or cpu.virtual.code(pc, 1) or ()
        for n, word in enumerate(words):
            address = pc + 4 * n
            slot = address >> 2 & native.CHECKS - 1
            self._table[slot] = self._key(address), *row_of(decode(word))

    def _key(self, address: int) -> int:
        """The key of an operation in the table: its address with the epoch."""
        return signed(address & _MASK) ^ signed(int(self._cpu.state.epoch) << 48 & _MASK)

    @property
    def known(self) -> bool:
        """Whether the hook knows the operation at the PC, or there is no hook before every one."""
        pc = self._cpu.pc
        row = int(self._table["key"][pc >> 2 & native.CHECKS - 1])
        return self._hook is None or row == self._key(pc)

    def check_operation(self) -> tuple[Found, FailedCheck | None]:
        """Check the operation at the PC, at which the hook has stopped; return its fault, too.

        A debugger outside is asked here, so this is called once a stop.
        """
        fault = self.fault()
        if fault is not None and fault.routed is not None:
            return Found.FAULT, fault
        if fault is not None:
            outside = self.stops_outside()
            return (Found.OUTSIDE, None) if outside else (Found.FAULT, fault)
        if not self.known:
            return Found.UNKNOWN, None
        return (Found.OUTSIDE if self.stops_outside() else Found.NOTHING), None

    def let_through(self) -> None:
        """The operation at the PC may execute: nothing was found there."""
        self.passing = True
        self.observers.before()

    def fault(self) -> FailedCheck | None:
        """The fault of the operation at the PC, None if it may execute as it is."""
        routed = self.debug.breaks()
        if routed is not None:
            return FailedCheck(routed)
        fault = self.alignment.fault()
        if fault is not None:
            return FailedCheck(*fault)
        words = self._cpu.virtual.code(self._cpu.pc, 1)
        if not words:
            return None
        instruction = decode(words[0])
        watched = self.debug.watches(instruction)
        if watched is None and not self.debug.traps(instruction):
            watched = self.tags.fault(instruction)
            if watched is None:
                ends = (self.debug.ends(instruction), self.tags.ends(instruction))
                elements = [element for element in ends if element is not None]
                return FailedCheck(None, element=min(elements)) if elements else None
        return None if watched is None else FailedCheck(*watched, translated=True)

    def stops_outside(self) -> bool:
        """Whether a debugger outside wants the run to end before the operation at the PC."""
        if self._debugger is None:
            return False
        cpu = self._cpu
        words = cpu.virtual.code(cpu.pc, 1)
        accesses = tuple(accesses_of(cpu, decode(words[0]))) if words else ()
        return self._debugger.stops(cpu.pc, accesses)
