"""What a direct read gives of a register that the unit writes: what it held before, for a time.

Arm ARM D17.9, R_TRDTK: what the unit wrote to PMBPTR_EL1 and PMBSR_EL1 is read for certain only
after a context synchronization event, PSB CSYNC and another context synchronization event. What it
wrote to PMSICR_EL1 is so after the first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.registers.spe import PMBPTR_EL1, PMBSR_EL1, PMSCR_EL1, PMSICR_EL1
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.plain import Bits64, Count
from spe_unicorn.spe.lateness.window import Window
from spe_unicorn.stateful import Stateful, expect

_DRAINED: Final = (PMBPTR_EL1, PMBSR_EL1)
_WRITTEN: Final = {register.__name__: register for register in (*_DRAINED, PMSICR_EL1)}


@dataclass
class StaleReadsState:
    """What is saved of :class:`StaleReads`."""

    seen: dict[str, Bits64] = field(default_factory=dict)
    """What each register held when software last wrote it, or was last synchronized with it."""
    until: dict[str, Count] = field(default_factory=dict)
    """The number of executed operations from which on a read gives what a register holds."""
    fenced: bool = False
    """Whether a context synchronization event came since PMSCR_EL1 was written."""
    drained: bool = False
    """Whether a PSB CSYNC came behind that."""


class StaleReads(Stateful[StaleReadsState]):
    """Reads that are stale for a number of operations from the first.

    ``status`` is that of PMBPTR_EL1 and PMBSR_EL1, ``counter`` that of PMSICR_EL1.
    """

    def __init__(self, registers: RegisterFile, status: int, counter: int, window: Window) -> None:
        self.s = StaleReadsState()
        self._registers = registers
        self._most = {
            **dict.fromkeys((register.__name__ for register in _DRAINED), status),
            PMSICR_EL1.__name__: counter,
        }
        self._window = window

    @property
    def pending(self) -> bool:
        """Whether a read could give something else than what a register holds."""
        raw = self._registers.raw
        return any(value != raw(_WRITTEN[name]) for name, value in self.s.seen.items())

    def shown(self, register: type[SysReg], raw: int) -> int:
        """What a direct read gives of a register that holds ``raw``."""
        s, name = self.s, register.__name__
        seen = s.seen.get(name, raw)
        if seen == raw or not self._most.get(name):
            return raw
        now = self._window.executed()
        if name not in s.until:
            s.until[name] = now + (self._most[name] if self._window.allows() else 0)
        if now < s.until[name]:
            return seen
        self._see(name, raw)
        return raw

    def wrote(self, register: type[SysReg]) -> None:
        """Software wrote a register, which holds the new value."""
        if register.__name__ in _WRITTEN:
            self._see(register.__name__, self._registers.raw(register))
        elif register is PMSCR_EL1:
            self.s.fenced = self.s.drained = False

    def context_synchronization(self) -> None:
        """A context synchronization event."""
        for name in self.s.seen:
            if self.s.drained or name == PMSICR_EL1.__name__:
                self._see(name, self._registers.raw(_WRITTEN[name]))
        self.s.fenced, self.s.drained = True, False

    def psb_csync(self) -> None:
        """A PSB CSYNC."""
        self.s.drained = self.s.fenced

    def forget(self) -> None:
        """The PE was reset."""
        self.s = StaleReadsState()

    def check(self, state: StaleReadsState) -> None:
        """Raise StateError for a register that is neither of both."""
        for name in (*state.seen, *state.until):
            expect(name in _WRITTEN, f"a stale read of {name!r}")

    def _see(self, name: str, raw: int) -> None:
        self.s.seen[name] = raw
        self.s.until.pop(name, None)
