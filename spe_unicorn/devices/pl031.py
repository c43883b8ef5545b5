"""The PL031 real time clock (Arm DDI 0224) on virtual time.

It counts seconds of the system counter, from a start that the machine chooses: the host's clock
has no part in it. It runs from reset on, as on QEMU's board, and ignores writes to RTCCR.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spe_unicorn.arch.ports import Clock, IRQLine
from spe_unicorn.plain import Bits32, Count
from spe_unicorn.stateful import Stateful

SIZE: Final = 0x1000
"""Bytes of address space that the device takes."""

_SECONDS: Final = 1 << 32
_IDENTIFICATION: Final = bytes((0x31, 0x10, 0x14, 0x00, 0x0D, 0xF0, 0x05, 0xB1))


class Offset(IntEnum):
    """Where the registers are, in bytes from the start of the device."""

    DR = 0x00
    MR = 0x04
    LR = 0x08
    CR = 0x0C
    IMSC = 0x10
    RIS = 0x14
    MIS = 0x18
    ICR = 0x1C
    PERIPH_ID0 = 0xFE0


@dataclass(slots=True)
class PL031State:
    """What is saved of one clock."""

    offset: int = 0
    """What RTCDR is ahead of the system counter, in seconds."""
    loaded: Bits32 = 0
    """RTCLR."""
    match: Bits32 = 0
    """RTCMR."""
    mask: bool = False
    """RTCIMSC."""
    raised: bool = False
    """RTCRIS."""
    alarm: Count | None = None
    """The count at which the alarm goes off, None for never."""


class PL031(Stateful[PL031State]):
    """One clock. ``start`` is what RTCDR shows at count 0: seconds, since 1970 by custom.

    ``frequency`` is that of ``clock``, in Hz. The alarm goes off when RTCDR becomes equal to
    RTCMR, and at once when either is written so that they are equal.
    """

    def __init__(self, clock: Clock, frequency: int, irq: IRQLine, start: int = 0) -> None:
        self._clock = clock
        self._frequency = frequency
        self._irq = irq
        self._start = start
        self.reset()

    def reset(self) -> None:
        """Reset: the time is again the machine's, and no alarm is set."""
        self.s = PL031State(offset=self._start)
        self._derive()

    def read(self, offset: int, size: int = 4) -> int:
        """A read of ``size`` bytes; what is not there reads as zero."""
        word = self._read_word(offset & ~3)
        return word >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int) -> None:
        """A write of ``size`` bytes; only whole words are taken."""
        if size != 4:
            return
        value %= _SECONDS
        if offset == Offset.MR:
            self.s.match = value
            self._arm()
        elif offset == Offset.LR:
            self.s.loaded = value
            self.s.offset = value - self._clock.physical_count() // self._frequency
            self._arm()
        elif offset == Offset.IMSC:
            self.s.mask = bool(value & 1)
        elif offset == Offset.ICR and value & 1:
            self.s.raised = False
        self._drive()

    def next_deadline(self) -> int | None:
        """The count at which the alarm goes off; None if none is set or nobody would hear it."""
        return self.s.alarm if self.s.mask else None

    def update(self) -> None:
        """Let the alarm go off if its time has come."""
        if self.s.alarm is not None and self._clock.physical_count() >= self.s.alarm:
            self.s.alarm = None
            self.s.raised = True
        self._drive()

    def _read_word(self, offset: int) -> int:
        self.update()
        if offset == Offset.DR:
            return self._time()
        if offset == Offset.MR:
            return self.s.match
        if offset == Offset.LR:
            return self.s.loaded
        if offset == Offset.CR:
            return 1
        if offset == Offset.IMSC:
            return int(self.s.mask)
        if offset == Offset.RIS:
            return int(self.s.raised)
        if offset == Offset.MIS:
            return int(self.s.raised and self.s.mask)
        if Offset.PERIPH_ID0 <= offset < SIZE:
            return _IDENTIFICATION[(offset - Offset.PERIPH_ID0) // 4]
        return 0

    def _time(self) -> int:
        return (self._clock.physical_count() // self._frequency + self.s.offset) % _SECONDS

    def _arm(self) -> None:
        """Set the alarm to the next moment at which the time is the match value."""
        left = (self.s.match - self._time()) % _SECONDS
        second = self._clock.physical_count() // self._frequency + left
        self.s.alarm = second * self._frequency
        self.update()

    def _derive(self) -> None:
        self._drive()

    def _drive(self) -> None:
        self._irq.set_level(self.s.raised and self.s.mask)
