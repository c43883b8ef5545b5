"""Memory for machine code near that of the engine: Linux on x86-64."""

from __future__ import annotations

import ctypes
from itertools import chain
from typing import Final

REACH: Final = 1 << 31
"""Bytes that a jump reaches, to either side."""
_STEP: Final = 16 << 20
"""How far apart the places are where memory is asked for."""
_PROT_ALL, _PRIVATE, _ANONYMOUS, _NO_REPLACE, _NO_RESERVE = 7, 2, 0x20, 0x100000, 0x4000
_libc: Final = ctypes.CDLL(None)
_mmap: Final = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
]


def code_region(place: int) -> tuple[int, int] | None:
    """First byte and end of the mapping with an address; None unless code can be written there."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            bounds, rights, *_ = line.split()
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            if begin <= place < end:
                return (begin, end) if rights.startswith("rwx") else None
    return None


def memory_near(place: int, size: int) -> int:
    """Map ``size`` bytes to write and execute, in reach of jumps from all code around ``place``.

    Return their address, -1 if there is no room, or if the code at ``place`` cannot be written.
    """
    region = code_region(place)
    if region is None:
        return -1
    begin, end = region
    flags = _PRIVATE | _ANONYMOUS | _NO_REPLACE | _NO_RESERVE
    below = range(begin - size, max(end - REACH + size, 0), -_STEP)
    for address in chain(below, range(end, begin + REACH - 2 * size, _STEP)):
        at = _mmap(address, size, _PROT_ALL, flags, -1, 0)
        if at == address:
            return int(at)
        if at not in (None, ctypes.c_void_p(-1).value):
            unmap(at, size)
    return -1


def unmap(at: int, size: int) -> None:
    """Unmap memory of :func:`memory_near`."""
    _libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(size))
