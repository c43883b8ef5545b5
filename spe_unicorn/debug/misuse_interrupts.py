"""Driver mistakes about PMBIRQ, the interrupt of the Profiling Buffer, on a board with its GIC.

Stores that enable interrupts are watched, acknowledgements and ends of interrupts, exceptions and
returns. Only the end of the run shows whether the interrupt was ever taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.debug import misuse_rules as rules
from spe_unicorn.debug.misuse_rules import Rule
from spe_unicorn.devices.gicv3 import PMBIRQ
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.host.pe.access.system_access import SystemAccess
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.memory_map import GIC_DISTRIBUTOR, GIC_REDISTRIBUTORS
from spe_unicorn.machine.pe import ProcessingElement

_ACKNOWLEDGE: Final = frozenset({icc.ICC_IAR0_EL1, icc.ICC_IAR1_EL1})
_END: Final = frozenset({icc.ICC_EOIR0_EL1, icc.ICC_EOIR1_EL1})
_SGIS: Final = 0xFFFF
_TAKEN_FOR_IT: Final = {
    PMBIRQ - 16: "an SGI; PPIs begin at 16",
    PMBIRQ + 16: "an SPI; PPIs begin at 16 and end at 31",
    PMBIRQ + 32: "an SPI; PPIs have no 32 added",
}
"""INTIDs that drivers confuse with PMBIRQ, which is PPI 5, and what these INTIDs are."""

Report = Callable[[Rule, int, int, str], None]
"""Told of a rule that was broken, the PC and the Exception level where, and how."""


@dataclass
class _Since:
    """What is remembered of a PE since it was reset."""

    enabled: int = 0
    """The INTIDs that were enabled after the last store to the GIC, a bit each."""
    enabled_at: dict[int, tuple[int, int]] = field(default_factory=dict)
    """PC and Exception level of the store that enabled each."""
    taken: bool = False
    """Whether PMBIRQ was acknowledged since it was enabled."""
    written: bool = False
    """Whether software has written PMBSR_ELx."""
    acknowledged: tuple[int, int] | None = None
    """PC and Exception level of an acknowledgement of PMBIRQ without an end so far."""
    depth: int = 0
    """Exceptions entered since that acknowledgement, less returns."""


class InterruptWatch:
    """Watches one PE. ``report`` is told of mistakes."""

    def __init__(self, board: Board, pe: ProcessingElement, report: Report) -> None:
        self._board = board
        self._pe = pe
        self._report = report
        self._since = _Since()
        board.peripherals.bus.stored.connect(self._on_store)
        pe.handler.system.accessed.connect(self._on_access)

    @property
    def tracking(self) -> bool:
        """Whether returns from exceptions matter."""
        return self._since.acknowledged is not None

    def reset(self) -> None:
        """The PE was reset."""
        self._since = _Since(enabled=self._board.peripherals.gic.enabled(self._pe.number))

    def status_written(self) -> None:
        """Software has written PMBSR_ELx."""
        self._since.written = True

    def entered(self) -> None:
        """An exception was taken."""
        self._since.depth += 1

    def returned(self) -> None:
        """An ERET was executed."""
        since = self._since
        since.depth -= 1
        if since.acknowledged is not None and since.depth < 0:
            what = f"INTID {PMBIRQ} was acknowledged, and the handler returned without its end"
            self._report(rules.INTERRUPT_NOT_ENDED, *since.acknowledged, what)
            since.acknowledged = None

    def finish(self) -> None:
        """The run is over: report an interrupt that is asserted and was never taken."""
        since = self._since
        if not self._pe.pmbirq.level or since.taken:
            return
        enabled = self._board.peripherals.gic.enabled(self._pe.number)
        if enabled >> PMBIRQ & 1 and PMBIRQ in since.enabled_at:
            what = f"INTID {PMBIRQ} is enabled and asserted, and was never taken: {self._masked()}"
            self._report(rules.INTERRUPT_NOT_TAKEN, *since.enabled_at[PMBIRQ], what)
            return
        for intid, is_ in _TAKEN_FOR_IT.items():
            alone = intid >= 16 or enabled & _SGIS == 1 << intid
            if enabled >> intid & 1 and alone and intid in since.enabled_at:
                what = f"PMBIRQ is asserted, and INTID {intid} is enabled: {is_}"
                self._report(rules.INTERRUPT_NOT_TAKEN, *since.enabled_at[intid], what)

    def _masked(self) -> str:
        """Why PMBIRQ is not taken."""
        why = self._board.peripherals.gic.blocked(self._pe.number, PMBIRQ)
        if why is not None:
            return why
        masked = self._pe.cpu.pstate & SPSR.I.mask
        return "PSTATE.I is 1" if masked else "it goes to an Exception level that masks it"

    def _on_store(self, address: int, _size: int, _value: int) -> None:
        if address not in GIC_REDISTRIBUTORS and address not in GIC_DISTRIBUTOR:
            return
        since = self._since
        enabled = self._board.peripherals.gic.enabled(self._pe.number)
        new, since.enabled = enabled & ~since.enabled, enabled
        if not new:
            return
        cpu = self._board.running.cpu
        place = cpu.pc, cpu.el
        for intid in (PMBIRQ, *_TAKEN_FOR_IT):
            if new >> intid & 1:
                since.enabled_at[intid] = place
        if new >> PMBIRQ & 1:
            since.taken = False
            if not since.written:
                what = f"INTID {PMBIRQ} is enabled, and nothing has written PMBSR_EL1"
                self._report(rules.STATUS_UNKNOWN, *place, what)

    def _on_access(self, access: SystemAccess) -> None:
        register: type[SysReg] | None = access.register
        since = self._since
        if register in _ACKNOWLEDGE and access.read and access.value == PMBIRQ:
            since.taken = True
            since.acknowledged = access.pc, access.el
            since.depth = 0
        elif register in _END and not access.read and access.value & 0xFFFFFF == PMBIRQ:
            since.acknowledged = None
