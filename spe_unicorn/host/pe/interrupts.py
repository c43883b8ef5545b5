"""Interrupt lines and profiling exceptions of one PE.

The compiled hook reads PSTATE and nothing else to know whether an interrupt is taken. So whenever a
line or a routing control changes, :meth:`Interrupts.update` works routing out for every Exception
level, and leaves four bits a level in ``State.deliver``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.exceptions.routing import route_interrupt
from spe_unicorn.arch.exceptions.syndromes import SERROR, ProfilingSource, profiling
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, PE, PEAt
from spe_unicorn.arch.registers.system import HCR_EL2, ISR_EL1, SCR_EL3
from spe_unicorn.arch.rules.effective import el2_enabled, tge
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.native.delivery import (
    FIQ,
    FIQ_LINE,
    FIQ_UNLESS_MASKED,
    IRQ,
    IRQ_LINE,
    IRQ_UNLESS_MASKED,
    VIRTUAL_TARGETS,
    at_level,
    deliver_alone,
    deliver_so,
    deliver_with_others,
    deliverable,
    drive,
    drive_virtual,
    serror_unless_masked,
)
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.pmu.profiling_exception import exception_target
from spe_unicorn.signals import Signal
from spe_unicorn.spe.management import pending_exception
from spe_unicorn.stateful import Stateful

_ALWAYS: Final = {ExceptionType.IRQ: IRQ, ExceptionType.FIQ: FIQ}
_UNLESS_MASKED: Final = {
    ExceptionType.IRQ: IRQ_UNLESS_MASKED,
    ExceptionType.FIQ: FIQ_UNLESS_MASKED,
}
_MASK_BIT: Final = {
    ExceptionType.SERROR: 1 << 8,
    ExceptionType.IRQ: 1 << 7,
    ExceptionType.FIQ: 1 << 6,
}
_ROUTED_TO_EL2: Final = {
    ExceptionType.IRQ: (HCR_EL2.IMO.mask, HCR_EL2.VI.mask),
    ExceptionType.FIQ: (HCR_EL2.FMO.mask, HCR_EL2.VF.mask),
    ExceptionType.SERROR: (HCR_EL2.AMO.mask, HCR_EL2.VSE.mask),
}
_ANY_TO_EL2: Final = HCR_EL2.IMO.mask | HCR_EL2.FMO.mask | HCR_EL2.AMO.mask
_ORDER: Final = (ExceptionType.FIQ, ExceptionType.IRQ)
_PHYSICAL: Final = (ExceptionType.SERROR, *_ORDER)
_VIRTUAL: Final = (*_ORDER, ExceptionType.SERROR)
_STATUS: Final = {ExceptionType.SERROR: "A", ExceptionType.IRQ: "I", ExceptionType.FIQ: "F"}
_VIRTUAL_SERROR: Final = serror_unless_masked((EL0, EL1))
"""A virtual SError, which EL0 and EL1 take."""


_TAKEN_BY_GUEST: Final = at_level(EL0, IRQ_UNLESS_MASKED) | at_level(EL1, IRQ_UNLESS_MASKED)
"""Bits of ``State.deliver`` while a virtual IRQ is asserted."""
_KNOWN: Final = 64
"""How many results of :meth:`Interrupts._alone` are remembered."""


class Line:
    """One interrupt input of the PE: an ``arch.ports.IRQLine``."""

    DERIVED = ("level",)

    def __init__(self, changed: Callable[[], None]) -> None:
        self.level = False
        self._changed = changed

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        if level != self.level:
            self.level = level
            self._changed()


class InsistentLine(Line):
    """A line that tells of each call while it is high: the same level may go elsewhere now."""

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        if level or self.level:
            self.level = level
            self._changed()


class Input(Line):
    """A physical IRQ or FIQ, whose level compiled code reads and drives as well."""

    def __init__(
        self, state: State, bit: int, changed: Callable[[], None], *, by_state: bool
    ) -> None:
        self._state = state
        self._bit = bit
        self._insists = by_state
        super().__init__(changed)

    @property
    def level(self) -> bool:
        """Whether it is asserted."""
        return bool(self._state.lines & self._bit)

    @level.setter
    def level(self, level: bool) -> None:
        drive(self._state, self._state.lines & ~self._bit | level * self._bit)

    def set_level(self, level: bool) -> None:
        """Drive the line."""
        before = self.level
        if level != before or (level and self._insists):
            self.level = level
            self._changed()


class VirtualInput(Line):
    """A virtual IRQ of the GIC, whose level compiled code reads and drives as well."""

    def __init__(self, state: State, changed: Callable[[], None]) -> None:
        self._state = state
        super().__init__(changed)

    @property
    def level(self) -> bool:
        """Whether it is asserted."""
        return bool(self._state.virq)

    @level.setter
    def level(self, level: bool) -> None:
        drive_virtual(self._state, int(level))


@dataclass(slots=True)
class InterruptsState:
    """What is saved of the inputs: their levels are the devices'."""

    serror: bool = False
    """Whether a physical SError is pending."""


class Interrupts(Stateful[InterruptsState]):
    """The PE's four interrupt inputs, physical and virtual IRQ and FIQ, and :attr:`profiling`.

    With ``by_state`` the PE's Exception level and Security state decide whether an interrupt is an
    IRQ or an FIQ; :attr:`irq_and_fiq` says which.
    """

    WIRING = ("irq_and_fiq",)
    DERIVED = ("_known",)

    def __init__(self, cpu: UnicornCPU, *, by_state: bool = False) -> None:
        self._cpu = cpu
        self.profiling = InsistentLine(self.update)
        """Whether a Profiling Buffer management event asks for an exception."""
        self.monitors = InsistentLine(self.update)
        """Whether an overflow of the Performance Monitors asks for an exception."""
        cpu.pm_changed.wire(self._on_pm)
        self.irq = Input(cpu.state, IRQ_LINE, self.update, by_state=by_state)
        self.fiq = Input(cpu.state, FIQ_LINE, self.update, by_state=by_state)
        self.virq: Line = VirtualInput(cpu.state, self.update)
        self.vfiq = Line(self.update)
        self.s = InterruptsState()
        self.irq_and_fiq: Callable[[PE], tuple[bool, bool]] | None = None
        """Gives the levels of IRQ and FIQ for a PE, where they depend on its state."""
        self.became_pending: Signal[[]] = Signal()
        """Told when any input may have been asserted."""
        self._known: dict[tuple[int, ...], tuple[int, int, int, int]] = {}
        """What :meth:`_alone` returned, by the values of SCR_EL3 and HCR_EL2."""
        self._has_el2 = Feature.FEAT_EL2 in cpu.features
        self._virtual = {ExceptionType.IRQ: self.virq, ExceptionType.FIQ: self.vfiq}

    def pend_serror(self) -> None:
        """A physical SError is pending, until it is taken."""
        self.s.serror = True
        self.update()

    def reset(self) -> None:
        """The PE is reset: no SError is pending."""
        self.s = InterruptsState()
        self._derive()

    def _derive(self) -> None:
        self.update()

    @property
    def pending(self) -> bool:
        """Whether something ends a WFI: an input, masked or not; a virtual one at EL1 and EL0.

        A profiling exception ends a WFI only if it is not masked.
        """
        return (
            bool(self._cpu.state.lines)
            or self.s.serror
            or (self._any_virtual() and self._cpu.el <= EL1)
            or (self.profiling.level and pending_exception(self._cpu) is not None)
            or (self.monitors.level and exception_target(self._cpu) is not None)
        )

    @property
    def status(self) -> ISR_EL1:
        """ISR_EL1 as the PE reads it: EL1 sees the virtual one where EL2 takes the physical one."""
        cpu = self._cpu
        physical = self._physical_levels(cpu)
        pending = {}
        for kind, field in _STATUS.items():
            routed, _ = _ROUTED_TO_EL2[kind]
            guest = cpu.el == EL1 and el2_enabled(cpu) and cpu.registers.raw(HCR_EL2) & routed
            pending[field] = self._virtual_level(kind) if guest else physical.get(kind, False)
        return ISR_EL1.of(**pending)

    def update(self) -> None:
        """Tell the compiled hook what may be delivered, after a line or a control has changed."""
        state = self._cpu.state
        lines = state.lines
        profiling = self.profiling.level or self.monitors.level
        virtual = self.vfiq.level or self._asserted_by_hcr()
        if not (profiling or virtual or self.irq_and_fiq or self.s.serror):
            deliver_alone(state, *self._alone())
            if lines == IRQ_LINE | FIQ_LINE:
                deliver_so(state, self._worked_out())
        elif lines or self.s.serror or profiling or virtual or self.virq.level:
            others = lines or self.s.serror or profiling
            targets = 0 if others or not self._only_virtual_irq() else VIRTUAL_TARGETS
            deliver_with_others(state, self._worked_out(), targets)
        else:  # the state of the PE decides what an interrupt is, and there is none
            deliver_alone(state, 0, 0, 0, 0)
        state.update_special()
        if self.became_pending and self.pending:
            self.became_pending()

    def rose(self) -> None:
        """Compiled code has asserted the IRQ or the FIQ, and nothing else has changed."""
        if self._cpu.state.deliver_irq < 0:
            self.update()  # more decides what is taken than compiled code looks at
        elif self.became_pending:
            self.became_pending()

    @property
    def due(self) -> bool:
        """Whether one is taken before the next operation, by ``State.deliver`` and PSTATE."""
        state = self._cpu.state
        return bool(state.deliver) and deliverable(state.deliver, self._cpu.engine.get(PSTATE))

    def take(self) -> bool:
        """Take the interrupt or profiling exception that is due. Return False if none is.

        The order is our choice: the SPE Profiling exception, that of the Performance Monitors,
        SError, FIQ, IRQ, and then the virtual interrupts.
        """
        cpu = self._cpu
        if self.profiling.level and (level := pending_exception(cpu)) is not None:
            syndrome = profiling(ProfilingSource.SPE)
            self._enter(ExceptionRecord(ExceptionType.SYNC, syndrome), level)
            return True
        if self.monitors.level and (level := exception_target(cpu)) is not None:
            synchronous = cpu.monitors is not None and cpu.monitors.pending
            syndrome = profiling(ProfilingSource.PMU, synchronous=synchronous)
            self._enter(ExceptionRecord(ExceptionType.SYNC, syndrome), level)
            return True
        pstate = cpu.pstate
        physical = self._physical_levels(cpu)
        for kind in _PHYSICAL:
            if physical[kind]:
                target, masked = route_interrupt(cpu, kind, mask=bool(pstate & _MASK_BIT[kind]))
                if not masked:
                    self._take_physical(kind, target)
                    return True
        for kind in _ORDER:
            if self._virtual_level(kind) and cpu.el <= EL1 and not pstate & _MASK_BIT[kind]:
                self._enter(ExceptionRecord(kind), EL1)
                return True
        masked = bool(pstate & _MASK_BIT[ExceptionType.SERROR])
        if self._virtual_level(ExceptionType.SERROR) and cpu.el <= EL1 and not masked:
            hcr = cpu.registers.read(HCR_EL2)
            cpu.registers.set_raw(HCR_EL2, hcr.replace(VSE=0).value)
            self._enter(ExceptionRecord(ExceptionType.SERROR, SERROR), EL1)
            self.update()
            return True
        return False

    def _enter(self, record: ExceptionRecord, target_el: int) -> None:
        self._cpu.entries.take(record, target_el)

    def _take_physical(self, kind: ExceptionType, target: int) -> None:
        if kind is ExceptionType.SERROR:
            self.s.serror = False
            self._enter(ExceptionRecord(kind, SERROR), target)
            self.update()
        else:
            self._enter(ExceptionRecord(kind), target)

    def _alone(self) -> tuple[int, int, int, int]:
        """``State.deliver_irq``, ``irq_alone``, ``deliver_fiq`` and ``deliver_virq``.

        They follow only from SCR_EL3 and HCR_EL2, as no other input is asserted.
        """
        registers = self._cpu.registers
        key = tuple(registers.raw(r) if r in registers else 0 for r in (SCR_EL3, HCR_EL2))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            levels = [PEAt(self._cpu, el) for el in range(4)]
            irq = sum(at_level(pe.el, self._taken_at(pe, ExceptionType.IRQ)) for pe in levels)
            fiq = sum(at_level(pe.el, self._taken_at(pe, ExceptionType.FIQ)) for pe in levels)
            targets = sum(
                route_interrupt(pe, ExceptionType.IRQ, mask=False).target_el << 2 * pe.el
                for pe in levels
            )
            virq = _TAKEN_BY_GUEST if self._is_virtual(ExceptionType.IRQ) else 0
            found = self._known[key] = irq, targets, fiq, virq
        return found

    def _taken_at(self, pe: PE, kind: ExceptionType) -> int:
        """Bits of ``State.deliver`` for the level of ``pe`` while ``kind`` is asserted."""
        if not route_interrupt(pe, kind, mask=True).masked:
            return _ALWAYS[kind]
        return 0 if route_interrupt(pe, kind, mask=False).masked else _UNLESS_MASKED[kind]

    def _worked_out(self) -> int:
        deliver = 0
        for el in range(4):
            deliver |= at_level(el, self._deliverable_at(el))
            deliver |= self._serror_at(el)
        if self._virtual_level(ExceptionType.SERROR):
            deliver |= _VIRTUAL_SERROR
        return deliver

    def _deliverable_at(self, el: int) -> int:
        pe = PEAt(self._cpu, el)
        bits = 0
        if self.profiling.level and pending_exception(pe) is not None:
            bits = _ALWAYS[ExceptionType.IRQ]
        if self.monitors.level and exception_target(pe) is not None:
            bits = _ALWAYS[ExceptionType.IRQ]
        physical = self._physical_levels(pe)
        for kind in _ORDER:
            if physical[kind]:
                bits |= self._taken_at(pe, kind)
            if el <= EL1 and self._virtual_level(kind):
                bits |= _UNLESS_MASKED[kind]
        return bits

    def _serror_at(self, el: int) -> int:
        """What a physical SError adds to ``State.deliver`` at an Exception level."""
        if not self.s.serror:
            return 0
        pe = PEAt(self._cpu, el)
        if not route_interrupt(pe, ExceptionType.SERROR, mask=True).masked:
            return at_level(el, IRQ)
        masked = route_interrupt(pe, ExceptionType.SERROR, mask=False).masked
        return 0 if masked else serror_unless_masked((el,))

    def _physical_levels(self, pe: PE) -> dict[ExceptionType, bool]:
        if self.irq_and_fiq is None:
            irq, fiq = self.irq.level, self.fiq.level
        else:
            irq, fiq = self.irq_and_fiq(pe)
        return {
            ExceptionType.IRQ: irq,
            ExceptionType.FIQ: fiq,
            ExceptionType.SERROR: self.s.serror,
        }

    def _on_pm(self) -> None:
        if self.profiling.level or self.monitors.level:
            self.update()

    def _asserted_by_hcr(self) -> bool:
        """Whether HCR_EL2 asserts a virtual interrupt that EL1 takes."""
        hcr = self._cpu.registers.raw(HCR_EL2) if self._has_el2 else 0
        return any(
            hcr & asserted and self._is_virtual(kind)
            for kind, (_, asserted) in _ROUTED_TO_EL2.items()
        )

    def _any_virtual(self) -> bool:
        if not self._has_el2 or not self._cpu.registers.raw(HCR_EL2) & _ANY_TO_EL2:
            return False
        return any(self._virtual_level(kind) for kind in _VIRTUAL)

    def _only_virtual_irq(self) -> bool:
        """Whether of the virtual interrupts only the IRQ is asserted."""
        asserted = [kind for kind in _VIRTUAL if self._virtual_level(kind)]
        return asserted == [ExceptionType.IRQ]

    def _virtual_level(self, kind: ExceptionType) -> bool:
        """Whether EL2 takes the physical kind, and a line or HCR_EL2 asserts the virtual one."""
        line = self._virtual.get(kind)
        if line is not None and line.level:
            return self._is_virtual(kind)
        hcr = self._cpu.registers.raw(HCR_EL2) if self._has_el2 else 0
        return hcr & _ROUTED_TO_EL2[kind][1] != 0 and self._is_virtual(kind)

    def _is_virtual(self, kind: ExceptionType) -> bool:
        """Whether EL2 takes the physical kind, so that EL1 has a virtual one."""
        cpu = self._cpu
        if not self._has_el2 or not cpu.registers.raw(HCR_EL2) & _ROUTED_TO_EL2[kind][0]:
            return False
        return el2_enabled(cpu) and not tge(cpu)
