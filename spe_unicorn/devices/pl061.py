"""The PL061 GPIO controller (Arm DDI 0190): eight pins, each an input or an output.

Whoever builds the board drives inputs with :meth:`PL061.set_input` and hears of outputs through
``changed``. A pin that nobody drives is low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.plain import Bits8
from spe_unicorn.stateful import Stateful

SIZE: Final = 0x1000
"""Bytes of address space that the device takes."""

_PINS: Final = 0xFF
_DATA_END: Final = 0x400
"""GPIODATA takes all offsets below: bits 9:2 of the offset are the pins that an access is for."""
_IDENTIFICATION: Final = bytes((0x61, 0x10, 0x04, 0x00, 0x0D, 0xF0, 0x05, 0xB1))


class Offset(IntEnum):
    """Where the registers after GPIODATA are, in bytes from the start of the device."""

    DIR = 0x400
    IS = 0x404
    IBE = 0x408
    IEV = 0x40C
    IE = 0x410
    RIS = 0x414
    MIS = 0x418
    IC = 0x41C
    AFSEL = 0x420
    PERIPH_ID0 = 0xFE0


@dataclass(slots=True)
class PL061State:
    """What is saved of one controller; each number has a bit for each pin."""

    data: Bits8 = 0
    """What outputs are set to."""
    inputs: Bits8 = 0
    """What inputs are driven to."""
    direction: Bits8 = 0
    """GPIODIR: 1 for outputs."""
    level_sensitive: Bits8 = 0
    """GPIOIS."""
    both_edges: Bits8 = 0
    """GPIOIBE."""
    event: Bits8 = 0
    """GPIOIEV: 1 for rising edges and high levels."""
    enabled: Bits8 = 0
    """GPIOIE."""
    edges: Bits8 = 0
    """Edges that were seen and not cleared; GPIORIS has them and the levels."""
    alternate: Bits8 = 0
    """GPIOAFSEL, which has no effect."""


_STORED: Final = {
    Offset.DIR: "direction",
    Offset.IS: "level_sensitive",
    Offset.IBE: "both_edges",
    Offset.IEV: "event",
    Offset.IE: "enabled",
    Offset.AFSEL: "alternate",
}
"""Registers that read as they were written."""


class PL061(Stateful[PL061State]):
    """One controller. ``changed(pin, level)`` is told of each output that changes."""

    def __init__(
        self, irq: IRQLine, changed: Callable[[int, bool], None] = lambda pin, level: None
    ) -> None:
        self._irq = irq
        self._changed = changed
        self.reset()

    def reset(self) -> None:
        """Reset: all pins are inputs, and no interrupt is enabled. What drives them stays."""
        inputs = self.s.inputs if hasattr(self, "s") else 0
        self.s = PL061State(inputs=inputs)
        self._derive()

    def set_input(self, pin: int, *, level: bool) -> None:
        """Drive a pin from outside; it is seen while the pin is an input."""
        before = self._pins()
        self.s.inputs = self.s.inputs & ~(1 << pin) | level << pin
        self._see(before)

    @property
    def listening(self) -> bool:
        """Whether an input can raise the interrupt."""
        return bool(self.s.enabled & ~self.s.direction)

    def read(self, offset: int, size: int = 4) -> int:
        """A read of ``size`` bytes; what is not there reads as zero."""
        word = self._read_word(offset & ~3)
        return word >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int) -> None:
        """A write; only the lowest byte of a word counts."""
        if offset & 3:
            return
        value &= _PINS
        before, outputs = self._pins(), self._outputs()
        if offset < _DATA_END:
            # An output's pin is the output's own: nothing is driven from outside.
            chosen = offset >> 2 & self.s.direction
            self.s.data = self.s.data & ~chosen | value & chosen
        elif offset == Offset.IC:
            self.s.edges &= ~value
        elif offset in _STORED:
            setattr(self.s, _STORED[Offset(offset)], value)
        self._see(before)
        self._tell(outputs)

    def _read_word(self, offset: int) -> int:
        if offset < _DATA_END:
            return self._pins() & offset >> 2
        if offset == Offset.RIS:
            return self._raised()
        if offset == Offset.MIS:
            return self._raised() & self.s.enabled
        if offset in _STORED:
            return int(getattr(self.s, _STORED[Offset(offset)]))
        if Offset.PERIPH_ID0 <= offset < SIZE:
            return _IDENTIFICATION[(offset - Offset.PERIPH_ID0) // 4]
        return 0

    def _pins(self) -> int:
        """The levels of all pins: outputs as they are set, inputs as they are driven."""
        return self.s.data & self.s.direction | self.s.inputs & ~self.s.direction & _PINS

    def _outputs(self) -> int:
        """The levels of the outputs; a pin that is none is low."""
        return self.s.data & self.s.direction

    def _see(self, before: int) -> None:
        """Look for edges since the pins had other levels."""
        s, now = self.s, self._pins()
        wanted = ~(now ^ s.event) | s.both_edges
        s.edges |= (before ^ now) & wanted & ~s.level_sensitive & _PINS
        self._derive()

    def _tell(self, before: int) -> None:
        now = self._outputs()
        for pin in range(8):
            if (before ^ now) >> pin & 1:
                self._changed(pin, bool(now >> pin & 1))

    def _raised(self) -> int:
        """GPIORIS: edges that were seen, and levels that are as GPIOIEV wants them."""
        s = self.s
        levels = ~(self._pins() ^ s.event) & s.level_sensitive
        return (s.edges & ~s.level_sensitive | levels) & _PINS

    def _derive(self) -> None:
        self._irq.set_level(bool(self._raised() & self.s.enabled))
