"""The PL011 UART (Arm DDI 0183), as a pure model of its registers.

Characters leave the moment they are written, so the transmit FIFO is always empty. A character
that arrives reaches the trigger level at once, whatever UARTIFLS says, and has timed out at once:
firmware that waits for either interrupt gets it, as on the QEMU board that it was written for. For
the same reason the UART works before UARTCR enables it. There are no line errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np

from spe_unicorn.arch.ports import IRQLine
from spe_unicorn.plain import Bits16
from spe_unicorn.stateful import Stateful, expect

SIZE = 0x1000
"""Bytes of address space that the device takes."""

_FIFO_DEPTH = 16  # of revisions up to r1p4, which the identification below names
_IDENTIFICATION = bytes((0x11, 0x10, 0x14, 0x00, 0x0D, 0xF0, 0x05, 0xB1))
_FR_TXFE, _FR_RXFF, _FR_RXFE = 1 << 7, 1 << 6, 1 << 4
_LCR_H_FEN = 1 << 4


class Offset(IntEnum):
    """Where the registers are, in bytes from the start of the device."""

    DR = 0x000
    RSR_ECR = 0x004
    FR = 0x018
    ILPR = 0x020
    IBRD = 0x024
    FBRD = 0x028
    LCR_H = 0x02C
    CR = 0x030
    IFLS = 0x034
    IMSC = 0x038
    RIS = 0x03C
    MIS = 0x040
    ICR = 0x044
    DMACR = 0x048
    PERIPH_ID0 = 0xFE0


class Interrupt(IntFlag):
    """The bits of UARTRIS, UARTMIS, UARTIMSC and UARTICR that this model raises."""

    RX = 1 << 4
    TX = 1 << 5
    RT = 1 << 6


_RECEIVED: Final = int(Interrupt.RX | Interrupt.RT)
_SENT: Final = int(Interrupt.TX)
"""As numbers: to combine flags takes Python ten times as long."""

MASK_BITS: Final = 0x7FF
"""Those of UARTIMSC."""
_WRITABLE = {
    Offset.ILPR: 0xFF,
    Offset.IBRD: 0xFFFF,
    Offset.FBRD: 0x3F,
    Offset.LCR_H: 0xFF,
    Offset.CR: 0xFFFF,
    Offset.IFLS: 0x3F,
    Offset.IMSC: MASK_BITS,
    Offset.DMACR: 0x7,
}
"""Registers that keep what is written, and their bits."""

FLAGS, SENDS, MASK, CHARACTERS = range(4)
"""Words of :attr:`PL011.cells`. The first is UARTFR, :data:`UNKNOWN` where a read of it may find
out something new. The second is 1 while a write of UARTDR only sends a character, and changes no
line. The third is UARTIMSC, or :data:`UNKNOWN`: a write of what it holds changes nothing while
UARTFR is known. From the fourth on there are characters."""
UNKNOWN: Final = -1
MOST_CHARACTERS: Final = 1 << 6
"""Characters that have room there."""
CELLS: Final = CHARACTERS + MOST_CHARACTERS
"""Words of :attr:`PL011.cells`."""


def _after_power_on() -> dict[int, int]:
    return {**dict.fromkeys(_WRITABLE, 0), Offset.CR: 0x300, Offset.IFLS: 0x12}


@dataclass(slots=True)
class PL011State:
    """What is saved of one UART."""

    stored: dict[Bits16, Bits16] = field(default_factory=_after_power_on)
    """The registers that keep what is written, by offset."""
    received: deque[Bits16] = field(default_factory=deque)
    """The receive FIFO, oldest first."""
    raised: Bits16 = 0
    """UARTRIS."""


class PL011(Stateful[PL011State]):
    """One UART: ``transmit`` takes each character, ``irq`` follows UARTINTR.

    ``arrived`` gives characters that wait on the line, at most so many, without waiting for any.
    They are taken from it when the guest looks for them and the FIFO is empty, so that characters
    that are all there from the beginning, as from a file, arrive at the same operations each time.
    ``silent`` says whether it need not be asked before the next :meth:`forget`.

    Somebody else may read UARTFR and UARTIMSC, and write UARTDR and UARTIMSC, by what :attr:`cells`
    tell. He hands what was sent to :meth:`send` before he comes to the UART for anything else.
    """

    DERIVED = ("_level", "cells", "_told")

    def __init__(
        self,
        transmit: Callable[[bytes], None],
        irq: IRQLine | None = None,
        arrived: Callable[[int], bytes] = lambda size: b"",
        silent: Callable[[], bool] = lambda: False,
    ) -> None:
        self._transmit = transmit
        self._irq = irq
        self._arrived = arrived
        self._silent = silent
        self._level = False
        self.cells = np.zeros(CELLS, np.int64)
        """What others may know: :data:`FLAGS`, :data:`SENDS`, :data:`MASK`, :data:`CHARACTERS`."""
        self._told: Any = self.cells.data
        self.reset()

    def check(self, state: PL011State) -> None:
        """Raise StateError for other registers than there are, or too much input."""
        expect(state.stored.keys() == _after_power_on().keys(), "the UART")
        expect(len(state.received) <= _FIFO_DEPTH, "the UART's input")

    def reset(self) -> None:
        """The state after power-on; the interrupt line goes low."""
        self.s = PL011State()
        self._derive()

    @property
    def room(self) -> int:
        """How many characters fit into the receive FIFO now."""
        return self._depth - len(self.s.received)

    @property
    def listening(self) -> bool:
        """Whether a character that arrives raises the interrupt."""
        return bool(self.s.stored[Offset.IMSC] & _RECEIVED)

    def forget(self) -> None:
        """Have others come here for everything, until the guest has accessed the UART here."""
        self._told[FLAGS], self._told[SENDS], self._told[MASK] = UNKNOWN, 0, UNKNOWN

    def send(self, count: int) -> None:
        """Send what others have put into the first ``count`` cells for characters."""
        self._transmit(self.cells[CHARACTERS : CHARACTERS + count].astype(np.uint8).tobytes())
        self.s.raised |= _SENT

    def poll(self) -> None:
        """Take what waits on the line, if there is nothing in the FIFO."""
        if not self.s.received:
            self.receive(self._arrived(self._depth))

    def receive(self, data: bytes) -> int:
        """Characters arrive on the line; returns how many fitted, the rest is the caller's."""
        taken = data[: self.room]
        if taken:
            self.s.received.extend(taken)
            self.s.raised |= _RECEIVED
            self._update()
            self.forget()
        return len(taken)

    def read(self, offset: int, size: int) -> int:
        """What the guest reads: ``size`` bytes (1, 2 or 4) at ``offset``."""
        value = self._read(offset & ~3) >> 8 * (offset & 3)
        self._tell()
        return value & (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int) -> None:
        """What the guest writes: the low ``size`` bytes of ``value`` at ``offset``.

        Registers are written from their first byte on; the bytes after a short write are 0.
        """
        value &= (1 << 8 * size) - 1
        if offset == Offset.DR:
            self._transmit(bytes((value & 0xFF,)))
            self.s.raised |= _SENT
        elif offset == Offset.ICR:
            self.s.raised &= ~value
        elif offset in self.s.stored:
            value &= _WRITABLE[Offset(offset)]
            if offset == Offset.LCR_H and (value ^ self.s.stored[offset]) & _LCR_H_FEN:
                self.s.received.clear()
            self.s.stored[offset] = value
            if offset == Offset.IMSC and self.listening:
                self.poll()
        self._update()
        self._tell()

    @property
    def _depth(self) -> int:
        return _FIFO_DEPTH if self.s.stored[Offset.LCR_H] & _LCR_H_FEN else 1

    def _read(self, offset: int) -> int:
        if offset == Offset.DR:
            return self._next_character()
        if offset == Offset.FR:
            self.poll()
            return self._flags()
        if offset == Offset.RIS:
            return self.s.raised
        if offset == Offset.MIS:
            return self.s.raised & self.s.stored[Offset.IMSC]
        if Offset.PERIPH_ID0 <= offset < SIZE:
            return _IDENTIFICATION[(offset - Offset.PERIPH_ID0) // 4]
        return self.s.stored.get(offset, 0)

    def _next_character(self) -> int:
        self.poll()
        if not self.s.received:
            return 0
        character = self.s.received.popleft()
        self.poll()
        if not self.s.received:
            self.s.raised &= ~_RECEIVED
            self._update()
        return character

    def _flags(self) -> int:
        full = 0 if self.room else _FR_RXFF
        empty = 0 if self.s.received else _FR_RXFE
        return _FR_TXFE | full | empty

    def _derive(self) -> None:
        self._update()
        self.forget()

    def _tell(self) -> None:
        """Tell others what they may do without coming here."""
        known = self.s.received or self._silent()
        self._told[FLAGS] = self._flags() if known else UNKNOWN
        level = bool((self.s.raised | _SENT) & self.s.stored[Offset.IMSC])
        self._told[SENDS] = level == self._level
        self._told[MASK] = self.s.stored[Offset.IMSC]

    def _update(self) -> None:
        level = bool(self.s.raised & self.s.stored[Offset.IMSC])
        if self._irq is not None and level != self._level:
            self._irq.set_level(level)
        self._level = level
