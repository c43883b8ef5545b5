"""Calls by call frame information: for each instruction, where the caller's registers are.

Where there is none of it, the calls further out are those of the frame records to which X29 points.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from spe_unicorn.arch.operation import Calls
from spe_unicorn.bits import signed
from spe_unicorn.host.engine.engine import SP, X
from spe_unicorn.host.native.sampling.unwinding import (
    ENDS,
    LEAVES,
    POOL,
    RECORDS,
    REGISTERS,
    RULE,
    RULES,
    SAVES,
    SPAN,
    UNWINDING,
    place_of_rule,
    unwound_here,
)
from spe_unicorn.host.pe.calls.frames import FrameRecords, Named, without_signature
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.symbols.frames import RETURN_ADDRESS, FrameRule

_SP: Final = 31
"""DWARF's number of SP."""
_MASK: Final = (1 << 64) - 1
_MOST_RULES: Final = RULES // 2
"""Rules that are in the table at once."""


def registers_of(cpu: UnicornCPU) -> dict[int, int]:
    """All registers that a rule can name, by DWARF's numbers."""
    values = {number: cpu.engine.x(number) for number in range(_SP)}
    values[_SP] = cpu.engine.get(SP)
    return values


def caller_of(cpu: UnicornCPU, rule: FrameRule, registers: dict[int, int]) -> dict[int, int] | None:
    """The registers of the caller; None without a caller, or where memory cannot be read."""
    if rule.outermost or rule.register not in registers:
        return None
    frame = registers[rule.register] + rule.offset & _MASK
    if frame < registers[_SP]:  # the stack grows down, so callers lie above
        return None
    values = dict(registers)
    for number, offset in rule.saved.items():
        data = cpu.virtual.read(frame + offset & _MASK, 8)
        if data is None:
            return None
        values[number] = int.from_bytes(data, "little")
    values[_SP] = frame
    values[RETURN_ADDRESS] = without_signature(values[RETURN_ADDRESS])
    return values if values[RETURN_ADDRESS] else None


def frame_record(cpu: UnicornCPU, address: int) -> tuple[int, int] | None:
    """The frame record at an address: the caller's frame pointer, and the return address."""
    data = cpu.virtual.read(address, 16) if address and address % 8 == 0 else None
    return None if data is None else struct.unpack("<QQ", data)


class Unwinder(FrameRecords):
    """The calls that led to the samples of one PE, by call frame information of ``names``.

    Compiled code follows them, and is told what ``names`` knows of an address when it first asks.
    """

    DERIVED = (
        *FrameRecords.DERIVED,
        *("_numbers", "_own", "_pool", "_pooled", "_room", "_rules", "_used"),
    )

    def __init__(self, cpu: UnicornCPU, names: Named) -> None:
        super().__init__(cpu, names)
        self._rules = np.zeros(RULES, RULE)
        self._pool = np.zeros(POOL, np.int64)
        self._pooled: dict[tuple[int, ...], int] = {}
        """Where in the pool the registers of a rule are."""
        self._used = 0, 0
        """Rows of the table, and words of the pool, that are in use."""
        self._numbers = np.array([*X, SP], np.int64)
        self._room = np.zeros(REGISTERS + SPAN, np.int64)
        room = self._room.ctypes.data
        places = (table.ctypes.data for table in (self._rules, self._pool, self._numbers))
        self._own = np.zeros(1, UNWINDING)
        self._own[0] = (*places, room, 0, room + 8 * REGISTERS, 0)
        cpu.state.unwinding = self._own.ctypes.data

    def here(self, pc: int) -> Calls:
        """Those that led to the operation at ``pc``, before which the engine stands.

        To one on a wrong path the same calls led as to where the engine stands.
        """
        cpu = self._cpu
        there = cpu.engine.handle.value, cpu.state.address, signed(cpu.pc)
        missing = int(self._own[0]["missing"])
        if missing:
            self._learn(missing)  # compiled code did not find it, and left the sample to Python
            self._own[0]["missing"] = 0
        while not unwound_here.called(*there):
            self._learn(int(self._own[0]["missing"]))
        self._own[0]["missing"] = 0
        return self._calls(pc, int(cpu.state.samples_in_ring))

    def _learn(self, address: int) -> None:
        """Put what is known of an address into the table."""
        rows, words = self._used
        if rows >= _MOST_RULES or words > POOL - 2 * REGISTERS:
            self._rules[:] = 0
            self._pooled.clear()
            rows = words = 0
        rule = self._names.frame(address & _MASK)
        kind, register, offset, saved = _kept(rule)
        flat = tuple(number for pair in saved for number in pair)
        first = self._pooled.setdefault(flat, words)
        if first == words:
            self._pool[words : words + len(flat)] = flat
            words += len(flat)
        self._used = rows + 1, words
        at = place_of_rule.called(self._own.ctypes.data, address)
        number = (at - self._rules.ctypes.data) // RULE.itemsize
        offsets = [place for _, place in saved]
        low = min(offsets, default=0)
        span = (max(offsets, default=0) - low) // 8 + 1
        whole = bool(saved) and span <= SPAN and all((place - low) % 8 == 0 for place in offsets)
        of_saved = first, len(saved), low, span if whole else 0
        self._rules[number] = (kind, address, register, offset, *of_saved)


def _kept(rule: FrameRule | None) -> tuple[int, int, int, tuple[tuple[int, int], ...]]:
    """What compiled code follows of a rule: its kind, its frame and its saved registers."""
    if rule is None:
        return RECORDS, 0, 0, ()
    if rule.outermost or not 0 <= rule.register < REGISTERS:
        return ENDS, 0, 0, ()
    # the caller's SP is the frame itself, and no rule is followed by other registers
    saved = {number: place for number, place in rule.saved.items() if 0 <= number < _SP}
    kind = SAVES if RETURN_ADDRESS in saved else LEAVES
    pairs = tuple(sorted((number, signed(place & _MASK)) for number, place in saved.items()))
    return kind, rule.register, signed(rule.offset & _MASK), pairs
