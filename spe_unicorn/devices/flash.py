"""NOR flash with Intel's command set (CFI 1.4, command set 1): two chips of 16 bits, side by side.

As QEMU's ``virt`` has it: 256 KiB a sector, a write stores what it says (a real chip can clear bits
only), locks are taken note of by nobody. Where QEMU 7.2 erases at the first command and programs
before the last, this waits for the confirmation, as chips do. Whoever builds the board hands in the
bytes and lets the guest read them directly while the flash is in array mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Final, Protocol

from spe_unicorn.plain import Bits8, Bits16, Bits32, Within
from spe_unicorn.stateful import Stateful, expect

SECTOR: Final = 256 << 10
"""Bytes that are erased at once."""
_CHIPS: Final = 2
_BANK: Final = 4
"""Bytes of both chips side by side."""
_BUFFER: Final = (1 << 11) * _CHIPS
"""Bytes of the write buffers."""
_MANUFACTURER, _DEVICE = 0x89, 0x18
_CFI_END: Final = 0x52


class Command(IntEnum):
    """Commands, by which modes are called as well."""

    ARRAY = 0x00
    PROGRAM_10 = 0x10
    ERASE = 0x20
    PROGRAM = 0x40
    CLEAR_STATUS = 0x50
    LOCK = 0x60
    READ_STATUS = 0x70
    READ_ID = 0x90
    QUERY = 0x98
    CONFIRM = 0xD0
    BUFFER = 0xE8


class Status(IntEnum):
    """Bits of the status register."""

    READY = 0x80
    ERASE_ERROR = 0x20
    PROGRAM_ERROR = 0x10


@dataclass(slots=True)
class FlashState:
    """What is saved of one flash, beside its bytes."""

    mode: Bits8 = Command.ARRAY
    """What reads give, and what a second write is for."""
    cycle: Annotated[int, Within(0, 3)] = 0
    """How many writes of a command have come."""
    status: Bits8 = Status.READY
    left: Bits16 = 0
    """Writes into the buffer that are still to come."""
    buffer: list[tuple[Bits32, bytes]] = field(default_factory=list)
    """What was written into it: offset and bytes."""
    sector: Bits32 = 0
    """Where the sector lies that is to be erased."""


class Backing(Protocol):
    """Where bytes are kept that survive the machine."""

    read_only: bool

    def write(self, offset: int, data: bytes) -> bool:
        """Store bytes for good; False where that fails."""
        ...


class Volatile:
    """Nothing is kept."""

    read_only = False

    def write(self, offset: int, data: bytes) -> bool:
        """Nothing is stored."""
        return True


class Flash(Stateful[FlashState]):
    """One flash of ``storage``; ``readable`` is told whether reads give what that holds."""

    DERIVED = ("_readable",)

    def __init__(
        self,
        storage: memoryview,
        backing: Backing | None = None,
        readable: Callable[[bool], None] = lambda now: None,
    ) -> None:
        self._storage = storage
        self._backing = backing or Volatile()
        self._tell = readable
        self._readable = True
        self._query = _query_table(len(storage))
        self.reset()

    def reset(self) -> None:
        """Reset: array mode. What it holds stays."""
        self.s = FlashState()
        self._derive()

    def read(self, offset: int, size: int) -> int:
        """A read of ``size`` bytes; in array mode that of what is stored."""
        mode = self.s.mode
        if mode == Command.ARRAY:
            return int.from_bytes(self._storage[offset : offset + size], "little")
        value = 0
        for at in range(0, size, _BANK):
            value |= self._word(mode, offset + at) << 8 * at
        return value & (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int) -> None:
        """A write of ``size`` bytes: a command, or what one is for."""
        s = self.s
        if s.cycle == 0:
            self._begin(offset, value & 0xFF)
        elif s.mode in (Command.PROGRAM, Command.PROGRAM_10):
            self._store(offset, value.to_bytes(size, "little"), Status.PROGRAM_ERROR)
            self._done()
        elif s.mode == Command.BUFFER:
            self._fill(offset, size, value)
        else:
            self._confirm(value & 0xFF)
        self._derive()

    def _begin(self, offset: int, command: int) -> None:
        s = self.s
        if command in (Command.READ_STATUS, Command.READ_ID):
            s.mode = command
        elif command == Command.CLEAR_STATUS:
            s.status = 0
            s.mode = Command.ARRAY
        elif command in _LONG:
            s.mode, s.cycle = command, 1
            if command == Command.BUFFER:
                s.status |= Status.READY
            s.sector = offset - offset % SECTOR
        else:
            s.mode = Command.ARRAY

    def _confirm(self, command: int) -> None:
        """The second write of an erasure or a lock, or after a query."""
        s = self.s
        if s.mode == Command.ERASE and command == Command.CONFIRM:
            self._store(s.sector, b"\xff" * SECTOR, Status.ERASE_ERROR)
            self._done()
        elif s.mode == Command.LOCK and command in (Command.CONFIRM, 0x01):
            self._done()
        elif s.mode != Command.QUERY or command == 0xFF:
            self._to_array()

    def _fill(self, offset: int, size: int, value: int) -> None:
        """A write that belongs to a programming of the buffer: its length, its words, its end."""
        s = self.s
        if s.cycle == 1:
            s.left = (value & 0xFFFF) + 1
            s.cycle = 2
            if s.left * _BANK > _BUFFER:
                s.status |= Status.PROGRAM_ERROR | Status.ERASE_ERROR  # a wrong sequence
                self._done()
        elif s.cycle == 2:
            s.buffer.append((offset, value.to_bytes(size, "little")))
            s.left -= 1
            s.cycle += s.left == 0
        elif value & 0xFF == Command.CONFIRM:
            for at, data in s.buffer:
                self._store(at, data, Status.PROGRAM_ERROR)
            self._done()
        else:
            self._to_array()

    def _done(self) -> None:
        """A command has come to its end; reads give the status."""
        self.s.status |= Status.READY
        self.s.cycle = 0
        self.s.buffer.clear()

    def _to_array(self) -> None:
        self.s.mode, self.s.cycle = Command.ARRAY, 0
        self.s.buffer.clear()

    def _store(self, offset: int, data: bytes, error: Status) -> None:
        data = data[: len(self._storage) - offset]
        if self._backing.read_only or not self._backing.write(offset, data):
            self.s.status |= error
        else:
            self._storage[offset : offset + len(data)] = data

    def _word(self, mode: int, offset: int) -> int:
        """What both chips give, 16 bits each."""
        place = offset // _BANK
        if mode == Command.QUERY:
            chip = self._query.get(place, 0)
        elif mode == Command.READ_ID:
            chip = {0: _MANUFACTURER, 1: _DEVICE}.get(place & 0xFF, 0)
        else:
            chip = self.s.status
        return chip | chip << 16

    def check(self, state: FlashState) -> None:
        """Raise StateError for a state that no commands lead to."""
        size = len(self._storage)
        places = [(at, len(data)) for at, data in state.buffer]
        expect(all(at + many <= size and many <= 8 for at, many in places), "the flash's buffer")
        expect(len(places) * _BANK <= _BUFFER, "the flash's buffer")
        expect(state.sector % SECTOR == 0 and state.sector < size, "the flash's sector")

    def _derive(self) -> None:
        readable = self.s.mode == Command.ARRAY
        if readable != self._readable:
            self._readable = readable
            self._tell(readable)


_LONG: Final = frozenset(
    {
        Command.PROGRAM,
        Command.PROGRAM_10,
        Command.ERASE,
        Command.LOCK,
        Command.QUERY,
        Command.BUFFER,
    }
)
"""Commands of more than one write."""


def _query_table(size: int) -> dict[int, int]:
    """What a query gives, by place, of a flash of ``size`` bytes (JEDEC JESD68.01)."""
    chip = size // _CHIPS
    sector, sectors = SECTOR // _CHIPS, size // SECTOR
    table = {
        **{0x10 + n: byte for n, byte in enumerate(b"QRY")},
        0x13: 0x01,  # Intel's command set
        0x15: 0x31,  # where its own table is
        0x1B: 0x45,
        0x1C: 0x55,  # volts
        0x1F: 0x07,
        0x20: 0x07,
        0x21: 0x0A,  # times, as powers of two
        0x23: 0x04,
        0x24: 0x04,
        0x25: 0x04,
        0x27: chip.bit_length() - 1,
        0x28: 0x02,  # 8 and 16 bits
        0x2A: (_BUFFER // _CHIPS).bit_length() - 1,
        0x2C: 0x01,  # one kind of sector
        0x2D: sectors - 1 & 0xFF,
        0x2E: sectors - 1 >> 8,
        0x2F: sector >> 8 & 0xFF,
        0x30: sector >> 16,
        **{0x31 + n: byte for n, byte in enumerate(b"PRI10")},
        0x3F: 0x01,  # protection fields
    }
    return {place: value for place, value in table.items() if place < _CFI_END}
