"""The bits of ``State.deliver``: which pending interrupts the PE takes at which Exception level.

Routing is worked out in Python (``host.pe.interrupts``), for each Exception level and both values
of the mask. So compiled code needs only PSTATE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spe_unicorn.arch.pe import EL0, EL1
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import routine
from spe_unicorn.host.native.state.fields import StateRecord

IRQ_LINE, FIQ_LINE = 1, 2
"""Bits of ``State.lines``, which are those of ``devices.gicv3.cells.asserted_lines``."""
IRQ, IRQ_UNLESS_MASKED, FIQ, FIQ_UNLESS_MASKED = 1, 2, 4, 8
"""For each Exception level: it takes an IRQ, or does so unless PSTATE.I is set; FIQ likewise."""
_ALWAYS: Final = IRQ | FIQ
_LEVEL: Final = 4
"""Bits of an Exception level."""
_SERROR: Final = 4 * _LEVEL
"""From here on a bit for each: it takes an SError unless PSTATE.A is set."""
VIRTUAL_TARGETS: Final = EL1 << 2 * EL0 | EL1 << 2 * EL1
"""``State.irq_targets`` of a virtual IRQ."""
_A, _I, _F = (int(field.mask) for field in (SPSR.A, SPSR.I, SPSR.F))


def at_level(el: int, bits: int) -> int:
    """The bits of one Exception level, shifted to their place."""
    return bits << _LEVEL * el


def serror_unless_masked(levels: Iterable[int]) -> int:
    """The Exception levels that take an SError unless PSTATE.A is set."""
    return sum(1 << _SERROR + el for el in levels)


@routine
def deliverable(deliver: int, pstate: int) -> bool:
    """Whether a PE with that PSTATE takes what ``State.deliver`` says is pending."""
    el = pstate >> 2 & 3
    bits = deliver >> _LEVEL * el
    return (
        bits & _ALWAYS != 0
        or (bits & IRQ_UNLESS_MASKED != 0 and pstate & _I == 0)
        or (bits & FIQ_UNLESS_MASKED != 0 and pstate & _F == 0)
        or (deliver >> _SERROR + el & 1 != 0 and pstate & _A == 0)
    )


@routine
def drive(state: StateRecord, lines: int) -> None:
    """Drive the IRQ and the FIQ of a PE. What it takes then has to be said next."""
    state.lines = lines


@routine
def drive_virtual(state: StateRecord, level: int) -> None:
    """Drive the virtual IRQ of a PE. What it takes then has to be said next."""
    state.virq = level


@routine
def deliver_alone(state: StateRecord, irq: int, targets: int, fiq: int, virq: int) -> None:
    """Say what the PE takes, and where to, while only one of IRQ, FIQ and virtual IRQ is asserted.

    Nothing but these counts. Then say what it takes now.
    """
    state.deliver_irq = irq
    state.irq_alone = targets
    state.deliver_fiq = fiq
    state.deliver_virq = virq
    deliver_by_lines(state)


@routine
def deliver_by_lines(state: StateRecord) -> None:
    """Say what the PE takes now.

    Only IRQ, FIQ and the virtual IRQ count, and at most one of the first two is asserted. Where a
    virtual IRQ is taken, a physical one is taken first: it goes to EL2 or EL3, masked or not.
    """
    virtual = state.deliver_virq if state.virq != 0 else 0
    state.deliver = virtual
    state.irq_targets = 0
    if state.lines == IRQ_LINE:
        state.deliver |= state.deliver_irq
        state.irq_targets = state.irq_alone
    elif state.lines == FIQ_LINE:
        state.deliver |= state.deliver_fiq
    elif virtual != 0:
        state.irq_targets = VIRTUAL_TARGETS


@routine
def ends_wfi(state: StateRecord, el: int) -> bool:
    """Whether an interrupt is pending that ends a WFI at an Exception level, masked or not.

    Nothing counts but what :func:`deliver_alone` has.
    """
    return state.lines != 0 or (el <= EL1 and state.virq != 0 and state.deliver_virq != 0)


@routine
def deliver_so(state: StateRecord, deliver: int) -> None:
    """Say what the PE takes now, as Python has worked out. Python enters it."""
    state.deliver = deliver
    state.irq_targets = 0


@routine
def deliver_with_others(state: StateRecord, deliver: int, targets: int) -> None:
    """As :func:`deliver_so`, where more than IRQ and FIQ counts, as long as that is so.

    ``targets`` is as ``State.irq_targets`` if all that is pending is a virtual IRQ, else 0.
    """
    state.deliver_irq = -1
    deliver_so(state, deliver)
    state.irq_targets = targets
