"""Maintenance of TLBs and instruction caches that is broadcast to other PEs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spe_unicorn.arch.pe import EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.native.code import LINE
from spe_unicorn.host.native.state.clock import CODE_MAINTENANCE, FLUSH_MAINTENANCE, TLB_MAINTENANCE
from spe_unicorn.host.native.state.ledger import begin_epoch, tlb_flushed, was_broadcast

if TYPE_CHECKING:
    from spe_unicorn.host.pe.cpu import UnicornCPU

_AT_EL3 = 0x3C0 | EL3 << 2 | 1
"""PSTATE: masked, at EL3 with its own stack pointer."""


@dataclass(frozen=True)
class Maintenance:
    """Maintenance that is broadcast: of TLBs, of all ``code``, or of lines of it by address.

    ``flush``: TLBs as a whole, or all entries of an address space.
    """

    tlb: bool = False
    flush: bool = False
    code: bool = False
    lines: tuple[int, ...] = ()


def maintained(cpu: UnicornCPU) -> Maintenance | None:
    """Take the maintenance that other PEs have not been told of, None for none."""
    state = cpu.state
    if not state.maintenance and not state.line_count:
        return None
    result = Maintenance(
        tlb=bool(state.maintenance & TLB_MAINTENANCE),
        flush=bool(state.maintenance & FLUSH_MAINTENANCE),
        code=bool(state.maintenance & CODE_MAINTENANCE),
        lines=cpu.hooks.lines.noted(),
    )
    was_broadcast(state)
    return result


def apply_maintenance(cpu: UnicornCPU, maintenance: Maintenance) -> None:
    """Forget translations and code as another PE's maintenance demands."""
    if maintenance.tlb:
        cpu.engine.flush_tlb()
    translates = system.SCTLR_EL3 in cpu.registers and cpu.registers.read(system.SCTLR_EL3).M
    if maintenance.code or (maintenance.lines and translates):
        if cpu.translated is None or not cpu.translated.is_in_memory():
            cpu.engine.forget_all_code()
    elif maintenance.lines:
        _forget_lines(cpu, maintenance.lines)
    begin_epoch(cpu.state)
    if maintenance.flush:
        tlb_flushed(cpu.state)


def _forget_lines(cpu: UnicornCPU, lines: Iterable[int]) -> None:
    """Forget the code in lines by their physical addresses (``host.native.code`` says how)."""
    engine = cpu.engine
    pstate = engine.get(PSTATE)
    engine.put(PSTATE, _AT_EL3)
    engine.rebuild()
    for line in lines:
        engine.forget_code(line, line + LINE)
    engine.put(PSTATE, pstate)
    engine.rebuild()
