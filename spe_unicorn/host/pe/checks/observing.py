"""Tells observers of operations, before and after each and of all that were executed: for traces.

Observers change nothing. Operations that access memory or System registers are looked at one by
one, with the PE at rest before the operation and after it. For a trace of all operations compiled
code notes each of them in a ring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ctypes import c_size_t
from typing import Final, NamedTuple, Protocol

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.decode import decode
from spe_unicorn.host.native import checks as native
from spe_unicorn.host.native.state.actions import KEYS, READ, Action
from spe_unicorn.host.native.state.transit import notes_taken
from spe_unicorn.host.pe.checks.accesses import accesses_of
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import NEVER_HAPPENS
from spe_unicorn.signals import Signal

_MASK: Final = (1 << 64) - 1
_TABLES: Final = 3
"""Tables of encodings: MRS, MSR, SYS."""
_LOOKED_AT: Final = "each operation is looked at"
_GOES_ON: Final = frozenset(
    {Action.ENGINE, Action.ASK, Action.CELL, Action.COUNT, Action.EL12, Action.ALIAS}
)
"""What the hooks do with a write after which the engine may go on with its block."""
ROOM: Final = native.NOTES // 2
"""Operations after which the ring is emptied. It holds more: a stopped operation has two notes."""


class Note(NamedTuple):
    """An operation that was executed: its number among those of its PE, from 1 on."""

    number: int
    pc: int
    word: int | None
    """None where it could not be read."""
    el: int


class Observer(Protocol):
    """An observer that is told of operations that access memory or System registers."""

    @property
    def watched(self) -> Collection[tuple[int, int, bool, bool]]:
        """Ranges: first and last virtual address, whether loads and whether stores count."""
        ...

    @property
    def system(self) -> Collection[tuple[int, int]]:
        """System accesses: READ, WRITE or SYSTEM, and the ``Encoding.key``."""
        ...

    def before(self, pc: int, instruction: Instruction, accesses: Iterable[MemoryAccess]) -> None:
        """The operation at ``pc`` is about to be executed, and nothing is to stop it.

        Observers are also told of operations that only another observer asked for. An interrupt may
        still be taken before the operation. It is then told again when it comes back.
        """
        ...

    def after(self) -> None:
        """The operation of the last :meth:`before` was executed; the PE stands after it."""
        ...


class Observers:
    """The observers of one PE."""

    DERIVED = (
        "_looked_at",
        "_noted_last",
        "watched",
        "_system",
        "checking",
        "noted",
        "looks_within",
    )
    TRANSIT = ("_before", "_kept")
    WIRING = ("_note_hook", "_noting", "_observers")

    def __init__(self, cpu: UnicornCPU) -> None:
        self.executed: Signal[[Note]] = Signal()
        """Told of each operation, in order, while operations are noted."""
        self.watched: tuple[tuple[int, int, bool, bool], ...] = ()
        """The ranges that any observer watches."""
        self.noted = 0
        """The bit of ``State.checking`` by which operations are noted, if they are."""
        self.checking = 0
        """All bits of ``State.checking`` that the observers need."""
        self.looks_within = False
        """Whether an access that is looked at may stand in the midst of a block, which the engine
        would execute to its end after the hook for that access. Then there is a hook before each
        operation, where the engine stops at once."""
        self._cpu = cpu
        self._observers: tuple[Observer, ...] = ()
        self._before: int | None = None
        """How many operations had been executed when observers were told of the next one."""
        self._system: frozenset[tuple[int, int]] = frozenset()
        self._looked_at = np.zeros((_TABLES, KEYS), np.uint8)
        self._ring = np.zeros(native.NOTES, native.NOTED)
        self._kept: list[Note] = []
        """Notes of operations that are not counted yet."""
        self._noted_last = 0
        """After how many operations notes were taken last."""
        self._noting = 0
        """How many traces want operations noted."""
        self._note_hook: c_size_t | None = None
        cpu.state.looked_at = self._looked_at.ctypes.data
        cpu.state.notes = self._ring.ctypes.data

    # Who is told, and of what

    def add(self, observer: Observer) -> None:
        """Tell ``observer`` from now on. The caller calls ``Checks.changed`` next."""
        self._observers = (*self._observers, observer)

    def remove(self, observer: Observer) -> None:
        """Tell ``observer`` no longer. The caller calls ``Checks.changed`` next."""
        self._observers = tuple(o for o in self._observers if o is not observer)

    def note(self, *, noted: bool) -> None:
        """Note each operation for one more trace, or one less; ``Checks.changed`` must follow."""
        cpu = self._cpu
        self._noting += 1 if noted else -1
        noted = self._noting > 0
        if noted == (self._note_hook is not None):
            return
        if noted:
            self._note_hook = cpu.hooks.add(uc_const.UC_HOOK_CODE, native.on_noted.address)
            self._noted_last = cpu.executed
        elif self._note_hook is not None:
            cpu.hooks.delete(self._note_hook)
            self._note_hook = None
        cpu.engine.forget_all_code()

    def changed(self) -> None:
        """Work out anew what the observers want."""
        self.watched = tuple(row for o in self._observers for row in o.watched)
        system = frozenset(access for o in self._observers for access in o.system)
        if system != self._system:
            self._system = system
            self._looked_at.fill(0)
            for kind, key in system:
                self._looked_at[kind, key] = 1
            self.looks_within = any(self._goes_on(kind, key) for kind, key in system)
        self.noted = 0 if self._note_hook is None else native.NOTE
        self.checking = (
            self.noted | (native.WATCH if self.watched else 0) | (native.SYSTEM if system else 0)
        )

        self._count_inline(allowed=not self.noted and not self.watched and not self.looks_within)

    def _goes_on(self, kind: int, key: int) -> bool:
        """Whether the engine goes on with the block after such an access.

        It ends the block at one to a register that it lacks, and after a write of one that it has.
        It goes on after reads, and after writes of registers that others answer, or that are not
        needed.
        """
        action = self._cpu.hooks.accesses.action(Encoding.from_key(key), kind)
        return action is not Action.STOP if kind == READ else action in _GOES_ON

    def _count_inline(self, *, allowed: bool) -> None:
        """Allow inline counting, where there is any, or forbid it."""
        inline = self._cpu.hooks.inline
        if inline is None:
            return
        if allowed:
            inline.resume(_LOOKED_AT)
        else:
            inline.stop(_LOOKED_AT)

    @property
    def active(self) -> bool:
        """Whether anybody is told of anything."""
        return bool(self.checking)

    # One operation that is looked at

    def before(self) -> None:
        """The operation at the PC is let through: tell observers."""
        if not self._observers:
            return
        cpu = self._cpu
        words = cpu.virtual.code(cpu.pc, 1)
        if not words:
            return
        instruction = decode(words[0])
        accesses = tuple(accesses_of(cpu, instruction))
        self._before = cpu.executed
        for observer in self._observers:
            observer.before(cpu.pc, instruction, accesses)

    def run_ended(self, *, passing: bool) -> None:
        """A run of the engine is over: tell observers if the operation has been executed.

        ``passing`` says that it has not been executed yet, and still will be.
        """
        if self._before is None or passing:
            return
        executed = self._cpu.executed > self._before
        self._before = None
        if executed:
            for observer in self._observers:
                observer.after()

    # All operations

    @property
    def due(self) -> int:
        """The number of executed operations by which the ring must be emptied."""
        return self._noted_last + ROOM if self._note_hook is not None else NEVER_HAPPENS

    def executes(self, pc: int) -> None:
        """The host executes the operation at ``pc``, which has been counted."""
        if self._note_hook is None:
            return
        words = self._cpu.virtual.code(pc, 1)
        self._take()
        self._keep(Note(self._cpu.executed, pc, words[0] if words else None, self._cpu.el))

    def take(self) -> None:
        """Tell of the operations that have been counted."""
        if self._note_hook is None:
            return
        self._take()
        counted = self._cpu.counted()
        self._noted_last = self._cpu.executed
        told = 0
        for note in self._kept:
            if note.number > counted:
                break
            told += 1
            self.executed(note)
        del self._kept[:told]

    def turn_ended(self) -> None:
        """A turn is over: tell of its operations, and forget those that were not executed."""
        self.take()
        self._kept.clear()

    def _take(self) -> None:
        """Empty the ring into :attr:`_kept`."""
        state = self._cpu.state
        held = int(state.notes_held)
        notes_taken(state)
        for number, pc, word, level in self._ring[:held].tolist():
            self._keep(Note(number, pc & _MASK, None if word < 0 else word, level))

    def _keep(self, note: Note) -> None:
        """Keep a note. It replaces that of an earlier attempt, stopped before the operation ran."""
        kept = self._kept
        while kept and kept[-1].number >= note.number:
            kept.pop()
        kept.append(note)
