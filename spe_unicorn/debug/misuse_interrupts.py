"""Driver mistakes about PMBIRQ, the interrupt of the Profiling Buffer, on a board with its GIC.

Stores that enable interrupts are watched, acknowledgements and ends of interrupts, exceptions and
returns. Only the end of the run shows whether the interrupt was ever taken.

A status that nothing has written is a mistake once the interrupt can be taken. Whether PSTATE and
the GIC let it through is looked at where it is enabled, where it is acknowledged, at a write to
PMBSR_ELx and at the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.arch.exceptions.routing import route_interrupt
from spe_unicorn.arch.registers.spe import PMBSR
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
_STORM: Final = 10
"""Interrupts in a row, with the cause of the first one still there, that are called a storm."""
_PPIS: Final = {
    23: "the Performance Monitors'",
    25: "the GIC's maintenance interrupt",
    26: "the EL2 physical timer's",
    27: "the virtual timer's",
    28: "the EL2 virtual timer's",
    29: "the EL3 timer's",
    30: "the EL1 physical timer's",
}
"""What INTIDs of private interrupts are, by Arm's base system architecture."""
_TAKEN_FOR_IT: Final = {
    PMBIRQ - 16: "an SGI; PPIs begin at 16",
    PMBIRQ + 16: "an SPI; PPIs begin at 16 and end at 31",
    PMBIRQ + 32: "an SPI; PPIs have no 32 added",
}
"""INTIDs that drivers confuse with PMBIRQ, which is PPI 5, and what these INTIDs are."""

_SHOWN: Final = 4
"""INTIDs that a sentence names."""

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
    asserted_at: int = 0
    """The operation after which PMBIRQ became asserted."""
    written: bool = False
    """Whether software has written PMBSR_ELx."""
    unknown_at: tuple[int, int] | None = None
    """Where INTID 21 was enabled while it was masked and PMBSR_ELx had not been written."""
    in_a_row: int = 0
    """Acknowledgements of PMBIRQ since PMBSR_ELx.S was last written as 0."""
    not_asked: int = 0
    """Interrupts taken while PMBIRQ was due, since ICC_IARx_EL1 was last read."""
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
        pe.pmbirq.changed.connect(self._on_line)

    @property
    def tracking(self) -> bool:
        """Whether returns from exceptions matter."""
        return self._since.acknowledged is not None

    def reset(self) -> None:
        """The PE was reset."""
        self._since = _Since(enabled=self._board.peripherals.gic.enabled(self._pe.number))

    def status_written(self, value: int) -> None:
        """Software has written ``value`` to PMBSR_ELx."""
        since = self._since
        if self._unmasked():
            self._report_unknown()
        since.written = True
        since.unknown_at = None
        if not value & PMBSR.S.mask:
            since.in_a_row = since.not_asked = 0

    def entered(self, kind: ExceptionType, vector: int, target_el: int) -> None:
        """An exception of a kind was taken to ``vector`` of an Exception level."""
        since = self._since
        since.depth += 1
        if kind not in (ExceptionType.IRQ, ExceptionType.FIQ) or not self._due():
            return
        since.not_asked += 1
        if since.not_asked >= _STORM:
            what = (
                f"PMBIRQ was due {_STORM} times in a row, and the handler has neither read"
                " ICC_IARx_EL1 nor cleared PMBSR_EL1.S"
            )
            self._report(rules.INTERRUPT_STORM, vector, target_el, what)

    def returned(self) -> None:
        """An ERET was executed."""
        since = self._since
        since.depth -= 1
        if since.acknowledged is not None and since.depth < 0:
            what = f"INTID {PMBIRQ} was acknowledged, and the handler returned without its end"
            self._report(rules.INTERRUPT_NOT_ENDED, *since.acknowledged, what)
            since.acknowledged = None

    def finish(self, patience: int) -> bool:
        """The run is over: report an interrupt that is asserted and was never taken, if one is.

        It has to have been asserted for ``patience`` operations. Returns whether it is reported.
        """
        since = self._since
        if self._unmasked():
            self._report_unknown()
        asserted_for = self._pe.cpu.counted() - since.asserted_at
        if not self._pe.pmbirq.level or since.taken or asserted_for < patience:
            return False
        enabled = self._board.peripherals.gic.enabled(self._pe.number)
        if enabled >> PMBIRQ & 1 and PMBIRQ in since.enabled_at:
            what = f"INTID {PMBIRQ} is enabled and asserted, and was never taken: {self._masked()}"
            self._report(rules.INTERRUPT_NOT_TAKEN, *since.enabled_at[PMBIRQ], what)
            return True
        for intid, is_ in _TAKEN_FOR_IT.items():
            alone = intid >= 16 or enabled & _SGIS == 1 << intid
            if enabled >> intid & 1 and alone and intid in since.enabled_at:
                what = f"PMBIRQ is asserted, and INTID {intid} is enabled: {is_}"
                self._report(rules.INTERRUPT_NOT_TAKEN, *since.enabled_at[intid], what)
                return True
        return False

    def enabled_instead(self) -> str:
        """Which interrupts are enabled, and whether PMBIRQ's is, in words."""
        enabled = self._board.peripherals.gic.enabled(self._pe.number)
        if enabled >> PMBIRQ & 1:
            return f"INTID {PMBIRQ} is enabled"
        others = [
            f"INTID {intid} ({_PPIS[intid]})" if intid in _PPIS else f"INTID {intid}"
            for intid in range(16, enabled.bit_length())
            if enabled >> intid & 1
        ]
        shown = others if len(others) <= _SHOWN else [*others[:_SHOWN], "others"]
        instead = f"enabled instead: {', '.join(shown)}" if others else "no other PPI or SPI is"
        return f"INTID {PMBIRQ} is not enabled; {instead}"

    def _due(self) -> bool:
        """Whether PMBIRQ is asserted, and the GIC asks the PE to take it."""
        blocked = self._board.peripherals.gic.blocked
        return self._pe.pmbirq.level and blocked(self._pe.number, PMBIRQ) is None

    def _unmasked(self) -> bool:
        """Whether the PE would take PMBIRQ if it were asserted now."""
        cpu = self._pe.cpu
        masked = bool(cpu.pstate & SPSR.I.mask)
        if route_interrupt(cpu, ExceptionType.IRQ, mask=masked).masked:
            return False
        return self._board.peripherals.gic.blocked(self._pe.number, PMBIRQ) is None

    def _report_unknown(self) -> None:
        """Report that the interrupt was enabled before its cause was cleared, if it was."""
        since = self._since
        if since.unknown_at is not None:
            what = f"INTID {PMBIRQ} is enabled, and nothing has written PMBSR_EL1"
            self._report(rules.STATUS_UNKNOWN, *since.unknown_at, what)
            since.unknown_at = None

    def _on_line(self, level: bool) -> None:
        if level:
            self._since.asserted_at = self._pe.cpu.counted()

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
        if not enabled >> PMBIRQ & 1:
            since.unknown_at = None
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
                since.unknown_at = place
                if self._unmasked():
                    self._report_unknown()

    def _on_access(self, access: SystemAccess) -> None:
        register: type[SysReg] | None = access.register
        since = self._since
        if register in _ACKNOWLEDGE and access.read:
            since.not_asked = 0
        if register in _ACKNOWLEDGE and access.read and access.value == PMBIRQ:
            self._report_unknown()
            since.in_a_row += 1
            if since.in_a_row >= _STORM:
                what = (
                    f"INTID {PMBIRQ} was acknowledged {_STORM} times in a row, and PMBSR_EL1.S"
                    " was not cleared"
                )
                self._report(rules.INTERRUPT_STORM, access.pc, access.el, what)
            since.taken = True
            since.acknowledged = access.pc, access.el
            since.depth = 0
        elif register in _END and not access.read and access.value & 0xFFFFFF == PMBIRQ:
            since.acknowledged = None
