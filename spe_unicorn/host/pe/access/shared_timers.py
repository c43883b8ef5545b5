"""What compiled code needs to answer for the timers of a PE."""

from __future__ import annotations

from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.registers.timer import ALIASES, CNTKCTL_EL12, COMPARATORS
from spe_unicorn.devices.timer import GenericTimer
from spe_unicorn.host.native.state.actions import READ, WRITE, Action
from spe_unicorn.host.pe.cpu import UnicornCPU

TIMER_NAMES = tuple(
    accessor
    for accessor in TIMER_ACCESSORS
    if accessor.register in (*COMPARATORS, *ALIASES) and accessor.register is not CNTKCTL_EL12
)
"""The registers of timers, by each of their names."""


def share_timers(cpu: UnicornCPU, timer: GenericTimer) -> None:
    """Have compiled code answer for the timers of a PE, where ``State.timers_at`` says so."""
    cpu.state.timers = timer.words.ctypes.data
    for accessor in TIMER_NAMES:
        for kind in (READ, WRITE):
            cpu.hooks.accesses.change(Action.TIMER, accessor.encoding, kind)
