"""The calls that led a PE to where it is, by the frame records of the procedure call standard."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from spe_unicorn.host.pe.cpu import UnicornCPU

_FRAMES: Final = 32
"""Frames that a backtrace shows."""


def backtrace(cpu: UnicornCPU, symbolize: Callable[[int], str | None]) -> list[tuple[int, str]]:
    """Addresses of the calls that led here, innermost first, each with a remark.

    Follows the frame records that X29 points to. A function that has made none yet, or needs none,
    is found by X30, if ``symbolize`` names the functions. At most 32 addresses, whatever the
    guest's memory holds.
    """
    frame, link = cpu.engine.x(29), cpu.engine.x(30)
    result = [(cpu.pc, "")]
    record = _frame(cpu, frame)
    if link and (record is None or record[1] != link) and _leaf(symbolize, cpu.pc, link):
        result.append((link - 4, " (X30)"))
    while record is not None and len(result) < _FRAMES:
        caller, link = record
        if not link:
            break
        result.append((link - 4, ""))
        if caller <= frame:  # the stack grows down, so callers lie above
            break
        frame = caller
        record = _frame(cpu, frame)
    return result


def _frame(cpu: UnicornCPU, address: int) -> tuple[int, int] | None:
    """The frame record at an address: the caller's frame pointer, and the return address."""
    data = cpu.virtual.read(address, 16) if address and address % 8 == 0 else None
    return None if data is None else struct.unpack("<QQ", data)


def _leaf(symbolize: Callable[[int], str | None], pc: int, link: int) -> bool:
    """Whether X30 may be the return address of the function at ``pc``: it leads out of it."""
    here, there = symbolize(pc), symbolize(link - 4)
    return there is not None and (here or "").partition("+")[0] != there.partition("+")[0]
